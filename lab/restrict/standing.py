"""What a restriction log says now: who is restricted, and whether a question about an event can be allowed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from heapq import nsmallest
from threading import Lock
from typing import Any

from lab.logs.positions import Positions, Record
from lab.logs.reading import AT_ONCE, parse_records
from lab.model.formatting import expected_message, short_json, shorten
from lab.model.jsontext import DECIMAL_TEXT
from lab.restrict.restrictions import (
    FORBIDS,
    Atom,
    Restriction,
    Subject,
    is_short_number,
    parse_restriction,
    subject_json,
)


class BadQuestion(ValueError):
    """A question that cannot be judged, so that its event is not allowed; the text says why."""


def comparable(name: str, value: object, is_number: bool) -> Atom:
    """A value of a question, to be compared with those of subjects, which are numbers or texts. Raises BadQuestion.

    >>> comparable("userId", "07", is_number=True), comparable("userId", 7, is_number=False)
    (Decimal('7'), '7')
    """
    if not is_number and (isinstance(value, str) or type(value) is int):
        return str(value)
    if not is_number and isinstance(value, bool):
        return "true" if value else "false"  # as events have it
    if is_number and isinstance(value, int | Decimal) and not isinstance(value, bool):
        return value
    if is_number and isinstance(value, str) and DECIMAL_TEXT.fullmatch(value):
        with suppress(InvalidOperation):  # more digits than a Decimal has
            if is_short_number(number := Decimal(value)):
                return number
    raise BadQuestion(
        expected_message(name, value, f"a {'number' if is_number else 'text'}, as in the restrictions by it")
    )


@dataclass(frozen=True, slots=True)
class _Standing:
    """What the messages about an action and a subject say, in any order.

    `restrictions`: those that are not lifted and of which none begins and ends before another, the longest first. A lift that
    comes later may end the longest of them and not the others.
    """

    lifted: int = -1
    by: str = ""
    restrictions: tuple[Restriction, ...] = ()

    @property
    def until(self) -> int:
        return self.restrictions[0].until if self.restrictions else 0

    def merged(self, message: Restriction) -> "_Standing":
        """What this message and the earlier ones say; itself if the message says nothing new."""
        if message.is_lifted:
            lifted, by = max((self.lifted, self.by), (message.lifted, message.by))
            if (lifted, by) == (self.lifted, self.by):
                return self
            return _Standing(lifted, by, tuple(each for each in self.restrictions if each.start > lifted))
        if message.start <= self.lifted or any(_outlasts(each, message) for each in self.restrictions):
            return self
        others = [each for each in self.restrictions if not _outlasts(message, each)]
        longest_first = tuple(sorted([*others, message], key=lambda each: -each.until))
        return replace(self, restrictions=longest_first)

    def as_restriction(self, action: str, subject: Subject) -> Restriction:
        """The longest restriction, with the time when the latest one began; a lift, if all are lifted."""
        if not self.restrictions:
            return Restriction(action, subject, lifted=self.lifted, by=self.by)
        # the shortest one began last
        return replace(self.restrictions[0], start=self.restrictions[-1].start, lifted=self.lifted)


def _outlasts(one: Restriction, other: Restriction) -> bool:
    """Whether `other` adds nothing to `one`: any lift that ends `one` ends it, too. Of two at the same times, one is chosen."""
    if (one.start, one.until) == (other.start, other.until):
        return one.to_json() <= other.to_json()
    return one.start >= other.start and one.until >= other.until


@dataclass(slots=True)
class _Subjects:
    """The subjects with the same fields, restricted by the same action: their values and what stands.

    `are_numbers`: which of the fields have numbers. `until`: when the last restriction ends, or later if `is_stale`.
    """

    action: str
    fields: tuple[str, ...]
    are_numbers: tuple[bool, ...]
    standing: dict[tuple[Any, ...], _Standing] = field(default_factory=dict)
    until: int = 0
    is_stale: bool = False

    def is_in_force(self, now_ms: int) -> bool:
        """Whether any of them is restricted now."""
        if self.is_stale and now_ms < self.until:
            self.until = max(each.until for each in self.standing.values())
            self.is_stale = False
        return now_ms < self.until

    def in_force(self, values: tuple[Atom | None, ...], now_ms: int) -> list[Restriction]:
        """The restriction of the subject with these values, if it is in force."""
        found = self.standing.get(values)
        if not found or now_ms >= found.until:
            return []
        return [found.as_restriction(self.action, found.restrictions[0].subject)]

    def values_of(self, question: Mapping[str, Any]) -> tuple[Atom | None, ...]:
        """The question's values of the fields. Raises BadQuestion if it lacks one."""
        for name in self.fields:
            if name not in question:
                given = shorten(", ".join(map(short_json, question)), 200)
                raise BadQuestion(
                    f"{short_json(name)[1:-1]}: missing, expected its value, or null if the event has none: {self.action} "
                    f"is in force by this field; the question has {given}"
                )
        return tuple(
            None if question[name] is None else comparable(name, question[name], is_number)
            for name, is_number in zip(self.fields, self.are_numbers)
        )


class Restrictions:
    """The current state of a restriction log; tells which restrictions forbid an event. Threads may share it.

    >>> restrictions = Restrictions()
    >>> restrictions.apply(Restriction("block_login", (("ip", "203.0.113.5"),), start=0, until=60_000))
    True
    >>> attempt = {"action": "login", "userId": 7, "ip": "203.0.113.5"}
    >>> [found.action for found in restrictions.against(attempt, now_ms=59_999)], restrictions.against(attempt, now_ms=60_000)
    (['block_login'], [])
    >>> restrictions.against({"action": "login", "IP": "203.0.113.5"}, now_ms=59_999)
    Traceback (most recent call last):
    lab.restrict.standing.BadQuestion: ip: missing, expected its value, or null if the event has none: block_login ...
    """

    def __init__(self) -> None:
        self._by_fields: dict[tuple[Any, ...], _Subjects] = {}
        self._lock = Lock()

    def apply(self, message: Restriction) -> bool:
        """Applies a message. Returns whether it changes anything."""
        fields = tuple(name for name, _ in message.subject)
        values = tuple(value for _, value in message.subject)
        with self._lock:
            subjects = self._subjects(message.action, fields, values)
            before = subjects.standing.get(values, _Standing())
            after = before.merged(message)
            subjects.standing[values] = after
            subjects.is_stale |= after.until < before.until == subjects.until
            subjects.until = max(subjects.until, after.until)
        return after is not before

    def _subjects(self, action: str, fields: tuple[str, ...], values: tuple[Atom, ...]) -> _Subjects:
        are_numbers = tuple(not isinstance(value, str) for value in values)
        found = self._by_fields.get((action, fields, are_numbers))
        return found or self._by_fields.setdefault(
            (action, fields, are_numbers), _Subjects(action, fields, are_numbers)
        )

    def get(self, action: str, subject: Subject) -> Restriction:
        """The restriction of a subject; one that was never in force if there is none."""
        values = tuple(value for _, value in subject)
        with self._lock:
            subjects = self._subjects(action, tuple(name for name, _ in subject), values)
            return subjects.standing.get(values, _Standing()).as_restriction(action, subject)

    def against(self, event: Mapping[str, Any], now_ms: int) -> list[Restriction]:
        """The restrictions in force that forbid an event: those whose subject matches the event's values.

        Raises BadQuestion if there is none, but the event lacks a value that others in force go by.
        """
        found: list[Restriction] = []
        unclear = None
        with self._lock:
            for subjects in self._by_fields.values():
                if event["action"] not in FORBIDS[subjects.action] or not subjects.is_in_force(now_ms):
                    continue
                try:
                    found += subjects.in_force(subjects.values_of(event), now_ms)
                except BadQuestion as error:
                    unclear = unclear or error
        if unclear and not found:
            raise unclear
        return found

    def all(self) -> list[Restriction]:
        """All current and former restrictions, the one that lasts longest first."""
        return sorted(self._each(), key=_longest_first)

    def longest_in_force(self, now_ms: int, at_most: int) -> tuple[int, list[Restriction]]:
        """How many are in force, and those that last longest; other threads go on meanwhile."""
        found = [each for each in self._each() if each.is_in_force(now_ms)]
        return len(found), nsmallest(at_most, found, key=_longest_first)

    def _each(self) -> Iterator[Restriction]:
        with self._lock:
            groups = list(self._by_fields.values())
        for group in groups:
            with self._lock:
                standing = list(group.standing.items())
            for values, each in standing:
                yield each.as_restriction(group.action, tuple(zip(group.fields, values)))


def _longest_first(restriction: Restriction) -> tuple[int, str, str]:
    return -restriction.until, restriction.action, subject_json(restriction.subject)


def fold_restrictions(log, bad: Callable[[Record, str], None] = lambda record, reason: None) -> Restrictions:
    """Reads a restriction log up to its end. `bad` is called with each invalid message and the reason."""
    found = Restrictions()
    with closing(log.tail()) as tail:
        apply_new_messages(found, tail, bad, end_of(log))
    return found


def end_of(log) -> Positions:
    """Where a log ends now."""
    with closing(log.tail(new=True)) as tail:
        return tail.positions


def apply_new_messages(
    restrictions: Restrictions, tail, bad: Callable[[Record, str], None], upto: Positions | None = None
) -> None:
    """Applies the messages that a restriction log's reader has not read yet, a part of them in memory at a time.

    `upto`: where to end, while others go on writing.
    """
    while records := tail.records(AT_ONCE, upto):
        apply_messages(restrictions, records, bad)


def apply_messages(
    restrictions: Restrictions, records: Iterable[Record], bad: Callable[[Record, str], None]
) -> None:
    """Applies messages of a restriction log."""
    for _, message in parse_records(records, parse_restriction, bad):
        restrictions.apply(message)
