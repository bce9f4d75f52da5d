"""Restrictions, and the messages of a restriction log.

    {"action": "block_login", "subject": {"userId": "7"}, "from": 1000, "until": 61000, "ruleId": 1, "ruleVersion": 2, …}
    {"action": "block_login", "subject": {"userId": "7"}, "lift": 5000, "by": "ann"}

Repeated or reordered messages change nothing. For an action and subject, the latest `until` applies, and a lift ends the
restrictions that began before it or at the same time. If the attack continues, the next alert restricts again. So a compacted log,
which keeps the last restriction and the last lift of an action and subject, has the same meaning. Times are in ms since the epoch.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any

from lab.logs.positions import Positions, Record
from lab.logs.reading import AT_ONCE, parse_records
from lab.model.jsontext import is_valid_unicode
from lab.model.rules import ACTIONS
from lab.model.schema import MAX_TIME, Value
from lab.model.words import plain_text, short_json

FORBIDS = {  # action of a restriction -> the actions of events that it forbids
    "block_login": ("login", "login_failed", "password_reset"),
    "hold_payment": ("payment",),
    "notify": (),
}
MAX_BYTES = 1 << 20  # a record; the longest group takes 400 kB
END_OF_TIME = 2 * MAX_TIME  # ms since the epoch: later than the last event and the longest restriction

Subject = tuple[tuple[str, str], ...]  # fields and their values as text, sorted by field


class BadRestriction(ValueError):
    """An invalid message of a restriction log; the text says why."""


@dataclass(frozen=True)
class Restriction:
    """A restriction of a subject, in force until `until`. A lifted one has neither `start` nor `until`.

    >>> one = Restriction("block_login", (("userId", "7"),), start=1_000, until=61_000, rule_id=1, rule_version=2)
    >>> parse_restriction(one.to_json()) == one, one.is_in_force(60_999), one.is_in_force(61_000)
    (True, True, False)
    """

    action: str
    subject: Subject
    start: int = -1
    until: int = 0
    lifted: int = -1
    rule_id: int | None = None
    rule_version: int | None = None
    alert_id: str = ""
    by: str = ""

    @property
    def key(self) -> str:
        """The key of the message in a compacted log. A lift has another key than a restriction: neither may replace the other."""
        return json.dumps([self.action, dict(self.subject), *["lift"] * self.is_lifted])

    @property
    def is_lifted(self) -> bool:
        """Whether it began before it was lifted, or at the same time."""
        return self.start <= self.lifted

    def is_in_force(self, now_ms: int) -> bool:
        """Whether it forbids its actions now."""
        return now_ms < self.until

    def merged(self, other: "Restriction") -> "Restriction":
        """The combination of two restrictions of the same action and subject, in any order."""
        lifted = max(self.lifted, other.lifted)
        standing = [each for each in (self, other) if each.start > lifted]
        if not standing:
            return Restriction(self.action, self.subject, lifted=lifted, by=other.by or self.by)
        longest = max(standing, key=lambda each: (each.until, each.start))
        return replace(longest, start=max(each.start for each in standing), lifted=lifted)

    def to_json(self) -> str:
        """The message for the log: a lift if it is lifted, otherwise a restriction."""
        said: dict[str, Any] = {"action": self.action, "subject": dict(self.subject)}
        if self.is_lifted:
            return json.dumps(said | {"lift": self.lifted, "by": self.by})
        said |= {"from": self.start, "until": self.until, "ruleId": self.rule_id}
        return json.dumps(said | {"ruleVersion": self.rule_version, "alertId": self.alert_id})


def parse_restriction(text: str) -> Restriction:
    """Parses a message of a restriction log. Raises BadRestriction."""
    if len(text) > MAX_BYTES:
        raise BadRestriction(f"{len(text):,} characters, expected at most {MAX_BYTES:,}")
    try:
        said = json.loads(text)
        action, subject = said["action"], tuple(sorted(said["subject"].items()))
        texts = [each for pair in subject for each in pair] + [
            said.get(name, "") for name in ("by", "alertId")
        ]
        if action not in ACTIONS or not all(
            isinstance(each, str) and is_valid_unicode(each) for each in texts
        ):
            raise ValueError("its action or a text")
        if "lift" in said:
            return Restriction(action, subject, lifted=_time(said["lift"]), by=said["by"])
        rule_id, version = said.get("ruleId"), said.get("ruleVersion")
        if not all(number is None or type(number) is int for number in (rule_id, version)):
            raise ValueError("the rule's numbers")
        start, until = _time(said["from"]), _time(said["until"])
        return Restriction(
            action,
            subject,
            start,
            until,
            rule_id=rule_id,
            rule_version=version,
            alert_id=said.get("alertId", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadRestriction(f"not a restriction ({error!r}): {short_json(text)}") from None


def _time(value: object) -> int:
    if type(value) is not int or not -1 <= value < END_OF_TIME:
        raise ValueError(f"a time, which is {short_json(value)}")
    return value


class Restrictions:
    """The current state of a restriction log; tells which restrictions forbid an event.

    >>> restrictions = Restrictions()
    >>> restrictions.apply(Restriction("block_login", (("ip", "203.0.113.5"),), start=0, until=60_000))
    >>> attempt = {"action": "login", "userId": 7, "ip": "203.0.113.5"}
    >>> [found.action for found in restrictions.against(attempt, now_ms=59_999)], list(restrictions.against(attempt, now_ms=60_000))
    (['block_login'], [])
    """

    def __init__(self) -> None:
        self._standing: dict[tuple[str, tuple[str, ...]], dict[tuple[str, ...], Restriction]] = {}

    def apply(self, message: Restriction) -> None:
        """Applies a message."""
        fields, values = zip(*message.subject) if message.subject else ((), ())
        subjects = self._standing.setdefault((message.action, fields), {})
        subjects[values] = subjects.get(values, message).merged(message)

    def get(self, action: str, subject: Subject) -> Restriction:
        """The restriction of a subject; one that was never in force if there is none."""
        fields, values = zip(*subject) if subject else ((), ())
        found = self._standing.get((action, fields), {}).get(values)
        return found or Restriction(action, subject)

    def against(self, event: Mapping[str, Value], now_ms: int) -> Iterator[Restriction]:
        """The restrictions in force that forbid an event: those whose subject matches the event's values."""
        for (action, fields), subjects in list(self._standing.items()):  # another thread may add restrictions
            if event["action"] in FORBIDS[action]:
                values: Any = tuple(
                    None if event.get(name) is None else plain_text(event[name]) for name in fields
                )
                if (found := subjects.get(values)) and found.is_in_force(now_ms):
                    yield found

    def all(self) -> list[Restriction]:
        """All current and former restrictions, the one that lasts longest first."""
        return sorted(self._each(), key=_longest_first)

    def longest_in_force(self, now_ms: int, at_most: int) -> tuple[int, list[Restriction]]:
        """How many are in force, and those that last longest; other threads go on meanwhile."""
        found = [each for each in self._each() if each.is_in_force(now_ms)]
        return len(found), nsmallest(at_most, found, key=_longest_first)

    def _each(self) -> Iterator[Restriction]:
        for subjects in list(self._standing.values()):  # another thread may add restrictions
            yield from list(subjects.values())


def _longest_first(restriction: Restriction) -> tuple[int, str, Subject]:
    return -restriction.until, restriction.action, restriction.subject


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
    restrictions: Restrictions,
    tail,
    bad: Callable[[Record, str], None],
    upto: Positions | None = None,
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
