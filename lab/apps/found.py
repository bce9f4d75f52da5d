"""What stands at each path of a file's records: kinds of values, digits, how many are different; and the type that fits."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from lab.model.jsontext import DECIMAL_TEXT, is_text
from lab.model.times import NUMBERS, TEXTS, time_ms

Path = tuple[str, ...]

EARLIEST, LATEST = (
    315_532_800_000,
    4_102_444_800_000,
)  # 1980 and 2100: a number that is no time in between is none at all
WORTH_COUNTING = 1_000  # values, after which those that repeat themselves are no longer kept apart
MANY_PATHS = 5_000
DIGITS = 18  # of a decimal
TIME_WORDS = ("time", "timestamp", "ts", "datetime", "at", "date", "when", "created", "updated", "on")
KINDS = {bool: "boolean", int: "integer", Decimal: "number", str: "text", list: "list", dict: "object"}


@dataclass
class Found:
    """The values at one path. `kinds`: how many are of each; `units`: as times of which unit they can be read."""

    path: Path
    first: int  # record, counted from 1
    kinds: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    numbers_as_text: int = 0
    too_long: int = 0  # numbers of more digits than a field can have
    whole: int = 0  # digits before the point
    broken: int = 0  # and after it
    longest: int = 0  # characters
    example: object = None
    different: set | None = field(default_factory=set)

    @property
    def values(self) -> int:
        """How many are not null."""
        return self.kinds.total() - self.kinds["null"]

    @property
    def unit(self) -> str | None:
        """The unit in which all of them are times."""
        return next((unit for unit, count in self.units.items() if count == self.values), None)

    def add(self, value: Any) -> None:
        """Takes in one more value."""
        kind = KINDS.get(type(value), "null" if value is None else "number")
        self.kinds[kind] += 1
        if kind in ("null", "list", "object"):
            return
        if self.example is None:
            self.example = value
        if kind == "text":
            self.longest = max(self.longest, len(value))
            self.units.update(unit for unit in TEXTS if time_ms(value, unit) is not None)
            if DECIMAL_TEXT.fullmatch(value[:100]):
                self.numbers_as_text += 1
                self._measure(value[:100])
        elif kind != "boolean":
            self._measure(value)
            times = ((unit, time_ms(value, unit)) for unit in NUMBERS)
            self.units.update(unit for unit, ms in times if ms is not None and EARLIEST <= ms < LATEST)
        if self.different is not None:
            self.different.add(value)
            if len(self.different) > WORTH_COUNTING and len(self.different) < self.values / 2:
                self.different = None

    def _measure(self, value: Any) -> None:
        if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
            self.whole = max(self.whole, min(len(str(abs(value))), DIGITS))
            return
        try:
            number = Decimal(value) if not isinstance(value, bytes) else Decimal("Infinity")
        except InvalidOperation:
            number = Decimal("Infinity")
        if not number.is_finite() or number.adjusted() >= DIGITS or int(number.as_tuple().exponent) < -40:
            self.too_long += 1
            return
        self.whole = max(self.whole, number.adjusted() + 1)
        written = f"{number:f}".partition(".")[2].rstrip("0")
        self.broken = max(self.broken, len(written))


def look_at(record: dict, number: int, found: dict[Path, Found], around: Path = ()) -> None:
    """Adds the values of a record to what was found before."""
    for path, value in _walk(record, around):
        if path not in found:
            if len(found) >= MANY_PATHS:
                continue
            found[path] = Found(path, number)
        found[path].add(value)


def _walk(record: dict, around: Path) -> Iterator[tuple[Path, object]]:
    for key, value in record.items():
        if not key or not is_text(key):
            continue
        yield (*around, key), value
        if isinstance(value, dict):
            yield from _walk(value, (*around, key))


def words_of(name: str) -> list[str]:
    """The words of a name, however they are joined.

    >>> words_of("placedAt"), words_of("HTTP_status-code")
    (['placed', 'at'], ['http', 'status', 'code'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+", name)]


def is_about(found: Found, words: Iterable[str]) -> bool:
    """Whether the name at its path is, or ends or begins with, one of the words."""
    of_name = words_of(found.path[-1]) or [""]
    return of_name[-1] in words or of_name[0] in words


def type_of(found: Found) -> tuple[str, str, list[str]]:
    """Type, unit and doubts of a field; no type: why it can be none."""
    kinds = {kind for kind, count in found.kinds.items() if count and kind != "null"}
    if kinds <= {"null"}:
        return "", "", ["it is null in all records"]
    if "object" in kinds:
        others = found.values - found.kinds["object"]
        return (
            "",
            "",
            [f"an object in some records; the other {others:,} will be dead letters if a field is inside"],
        )
    if "list" in kinds:
        return (
            "",
            "",
            ["a list: rules cannot look into it" if kinds == {"list"} else "a list in some records"],
        )
    if kinds == {"boolean"}:
        return "boolean", "", []
    if "boolean" in kinds:
        return "", "", [f"true or false in {found.kinds['boolean']:,} records, something else in others"]
    unit, in_text = found.unit, found.kinds["text"]
    if kinds == {"text"} and unit:
        naive = "its texts have no zone: they are read as UTC" if unit == "utc" else ""
        return "time", unit, [naive] if naive else []
    if in_text > found.numbers_as_text or (kinds == {"text"} and not found.broken):
        others = found.values - in_text
        mixed = f"numbers in {others:,} records, which will be dead letters" if others else ""
        return "string", "", [mixed] if mixed else []
    if unit in NUMBERS and not in_text and is_about(found, TIME_WORDS):
        return "time", unit, []
    if found.too_long == found.values:
        return "", "", [f"numbers of more than {DIGITS} digits"]
    type, doubts = ("long", []) if kinds == {"integer"} else _decimal(found, in_text)
    if found.too_long:
        doubts.append(f"too many digits in {found.too_long:,} records, which will be dead letters")
    return type, "", doubts


def _decimal(found: Found, in_text: int) -> tuple[str, list[str]]:
    """A decimal with room for all digits that were found, as far as 18 are enough."""
    doubts = [f"text in {in_text:,} records, read as numbers"] if in_text else []
    scale = min(max(found.broken, 2), DIGITS - found.whole)
    if found.broken > scale:
        doubts.append(
            f"up to {found.whole} digits before the point and {found.broken} after it do not fit {DIGITS}: "
            "such records will be dead letters"
        )
    elif found.broken > 6:
        doubts.append(
            f"up to {found.broken} digits after the point: binary floats, to be rounded where they are written?"
        )
    return f"decimal({DIGITS},{scale})", doubts
