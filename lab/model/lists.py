"""Named lists: values that control messages add and remove while events are read.

    country in @highrisk     ──►   is the value in the list as it is at the event's place in the log, and until when?

    value      until, ms (FOREVER: it does not expire)
    KR         FOREVER
    108925     1764547200000      events with an earlier time see it

A list never changes: a change makes another one. `lab.model.listmessages` reads the messages that ask for one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any

from lab.model.field import Value

FOREVER, NEVER = (1 << 63) - 1, -(1 << 63)
NAME = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"
NAME_ALLOWED = "a name of at most 64 letters, digits and _ . -, which begins with a letter or _"
MUTED = "muted"  # the list of the groups whose alerts are held back, for each rule
MAX_DIGITS = 40  # of an entry that is a number, before the point and after it
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?")


@dataclass(frozen=True, eq=False)
class NamedList:
    """The values of a list with the time until which events see each, ms. `version`: how many changes it has had.

    >>> blocked = NamedList().changed({"KR": FOREVER, "7.50": 1_000})
    >>> blocked.has("KR", 5_000), blocked.has("kr", 0), blocked.has(Decimal("7.5"), 999), blocked.has(Decimal("7.5"), 1_000)
    (True, False, True, False)
    >>> len(blocked.changed({"US": FOREVER, "KR": 7}, remove=["7.50", "CN"])), len(blocked)
    (2, 2)
    """

    version: int = 0
    # what changes put there, those of later changes after them; NEVER: removed. Each is less than half as long as the one before,
    # so that a thousand changes of a long list do not copy it a thousand times
    _layers: tuple[Mapping[str, int], ...] = field(default=(), repr=False)
    _length: int = 0
    characters: int = 0  # of all its values
    # what an evaluator has worked out of the list, by its own names
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, version: int, until_by_value: Mapping[str, int]) -> "NamedList":
        """The list of this version with these values."""
        return cls(version, (until_by_value,), len(until_by_value), sum(map(len, until_by_value)))

    def changed(
        self, add: Mapping[str, int] | None = None, remove: Iterable[str] = (), clear: bool = False
    ) -> "NamedList":
        """The list after a change: it is emptied, values are removed, then others added."""
        before = NamedList(self.version) if clear else self
        layers, length, characters = before._layers, before._length, before.characters
        change = {**dict.fromkeys(remove, NEVER), **(add or {})}
        for value, until in change.items():
            more = (until != NEVER) - before.contains(value)
            length, characters = length + more, characters + more * len(value)
        while layers and len(layers[-1]) <= 2 * len(change):
            layers, change = layers[:-1], {**layers[-1], **change}
        if not layers:
            change = {value: until for value, until in change.items() if until != NEVER}
        return NamedList(self.version + 1, (*layers, change), length, characters)

    def __len__(self) -> int:
        return self._length

    def contains(self, value: str) -> bool:
        """Whether it has the value, expired or not."""
        return next((each[value] != NEVER for each in reversed(self._layers) if value in each), False)

    @cached_property
    def until_by_value(self) -> Mapping[str, int]:
        """Until when events see each of its values, ms."""
        if len(self._layers) == 1:
            return self._layers[0]
        merged = dict(chain.from_iterable(each.items() for each in self._layers))
        return {value: until for value, until in merged.items() if until != NEVER}

    @cached_property
    def until_by_number(self) -> dict[int | Decimal, int]:
        """The values that are numbers, for fields that are; of two ways to write a number the one that lasts longer."""
        found: dict[int | Decimal, int] = {}
        for text, until in self.until_by_value.items():
            if (
                text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
            ):  # most of them, which are quicker
                number: int | Decimal = int(text)
            elif _NUMBER.fullmatch(text):
                number = Decimal(text)
            else:
                continue
            found[number] = max(until, found.get(number, until))
        return found

    def until(self, value: Value) -> int:
        """The time before which events see a field's value in the list, ms; NEVER if it is not there."""
        if isinstance(value, str):
            return self.until_by_value.get(value, NEVER)
        return self.until_by_number.get(Decimal(value), NEVER) if value is not None else NEVER

    def has(self, value: Value, time_ms: int) -> bool:
        """Whether an event at this time sees a value in the list."""
        return time_ms < self.until(value)


EMPTY = NamedList()


@dataclass(frozen=True)
class ListOperand:
    """A named list as a condition compares with it. Two are equal if they name the same one, whatever is in it.

    `time_field`: that of the event, which decides whether an entry has expired. `entries`: what is in the list, as the rules in force have it.
    """

    name: str
    time_field: str
    entries: NamedList = field(default=EMPTY, compare=False, repr=False)

    def at(self, time_ms: int) -> "EntriesAtTime":
        """The list as an event at this time sees it."""
        return EntriesAtTime(self.entries, time_ms)


@dataclass(frozen=True)
class EntriesAtTime:
    """A list as an event at some time sees it."""

    entries: NamedList
    time_ms: int

    def __contains__(self, value: Value) -> bool:
        return self.entries.has(value, self.time_ms)
