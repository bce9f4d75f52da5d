"""What stands at each path of a file's records: kinds of values, digits, how many are different; and the type that fits."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

from lab.model.formatting import short_json
from lab.model.jsontext import DECIMAL_TEXT, is_valid_unicode
from lab.model.times import NUMBERS, ONLY_DATE, time_ms
from lab.sources.csvcolumns import take_apart

Path = tuple[str, ...]

# 1980 and 2100: a number that is no time in between is none at all
EARLIEST, LATEST = 315_532_800_000, 4_102_444_800_000
WORTH_COUNTING = 1_000  # values, after which those that repeat themselves are no longer kept apart
FEW_VALUES = 20  # of a field, which are all named
LONG = 1_000  # characters
MANY_PATHS = 5_000
DIGITS = 18  # of a decimal
INFERRED_TEXTS = ("iso", "utc")  # whether texts without a zone are local nobody can know from them
INFERRED_UNITS = (*NUMBERS, *INFERRED_TEXTS)
TIME_WORDS = ("time", "timestamp", "ts", "datetime", "at", "date", "when", "created", "updated", "on")
NEARLY_ALL = 0.9  # this share of values of a narrower type is enough for it
UNIT_WORDS = (
    "unix",
    "epoch",
    "nano",
    "nanos",
    "micros",
    "millis",
    "seconds",
    "sec",
    *NUMBERS,
)  # after a word of time
AMOUNT_WORDS = ("amount", "price", "total", "sum", "cost", "fee", "balance", "value", "quantity", "paid")
ID_ENDS = ("id", "key", "number", "nr", "no", "code", "zip", "phone")
FITTING = frozenset({"boolean", "long", "decimal", "string", "date", *INFERRED_UNITS})
NO_ZONE = 'the times have no zone and are read as UTC; if they are local, say unit = "local" and zone = "Europe/Berlin", or where they are from'
POINTED_ID = (
    "whole numbers with a point, as pandas writes a column of integers that has gaps: they stay texts"
)
# no more digits than 64 bits have
INTEGER, PADDED = re.compile(r"-?(0|[1-9][0-9]{0,18})"), re.compile(r"[+-]?0[0-9]+")
KINDS = {bool: "boolean", int: "integer", Decimal: "number", str: "text", list: "list", dict: "object"}


@dataclass
class InferredField:
    """The values at one path. `kind_counts`: how many values are of each kind; `fits_counts`: how many values fit
    the same types and units of times. `texts`: all values are texts, as in CSV, and may be meant as numbers.
    """

    path: Path
    first_record: int  # number of the first record with this path, from 1
    texts: bool = False
    kind_counts: Counter[str] = field(default_factory=Counter)
    fits_counts: Counter[frozenset[str]] = field(default_factory=Counter)
    # type or unit -> the first value that does not fit
    first_misfits: dict[str, Any] = field(default_factory=dict)
    nan_count: int = 0  # NaN and infinite values, which are read as null
    too_many_digits_count: int = 0  # numbers that neither an integer nor a decimal can hold
    pointed_count: int = 0  # texts of numbers with a point, such as 100.00
    written_number_count: int = 0  # texts such as "€ 1.234,50"
    written_number: str = ""  # the first of them
    zero_padded_count: int = 0  # texts of digits that begin with 0, as codes do
    integer_digits: int = 0  # most digits before the point
    fraction_digits: int = 0  # most digits after the point
    max_text_length: int = 0  # characters
    examples: dict[str, Any] = field(default_factory=dict)  # type or unit -> the first value that fits
    distinct_values: set | None = field(default_factory=set)  # None: too many to keep
    _without_misfit: frozenset[str] = FITTING
    _without_example: frozenset[str] = FITTING

    @property
    def fitting_counts(self) -> Counter[str]:
        """How many values fit a type, or a unit of times."""
        counts: Counter[str] = Counter()
        for fits, count in self.fits_counts.items():
            counts.update(dict.fromkeys(fits, count))
        return counts

    @property
    def non_null_count(self) -> int:
        """How many are not null."""
        return self.kind_counts.total() - self.kind_counts["null"]

    @property
    def example(self) -> Any:
        """The first value that fits any type."""
        return next(iter(self.examples.values()), None)

    @property
    def time_unit(self) -> str | None:
        """The unit in which nearly all of them are times."""
        return next(
            (
                unit
                for unit in INFERRED_UNITS
                if self.fitting_counts[unit] >= NEARLY_ALL * max(self.non_null_count, 1)
            ),
            None,
        )

    def add(self, value: Any) -> None:
        """Takes in one more value."""
        if isinstance(value, float):
            self.nan_count += 1
            value = None
        kind = KINDS.get(type(value), "null" if value is None else "number")
        self.kind_counts[kind] += 1
        if kind == "null":
            return
        facts = (_facts_of_text if kind == "text" and len(value) <= LONG else _facts)(kind, value)
        fits = facts.fits
        if kind == "text" and not self.texts and "long" in fits:
            fits -= {"long"}
        self.fits_counts[fits] += 1
        if self._without_misfit - fits:
            self.first_misfits |= dict.fromkeys(self._without_misfit - fits, value)
            self._without_misfit &= fits
        if kind in ("list", "object"):
            return
        self.zero_padded_count += facts.zero_padded
        self.pointed_count += facts.pointed
        self.integer_digits = max(self.integer_digits, facts.integer_digits)
        self.fraction_digits = max(self.fraction_digits, facts.fraction_digits)
        self.too_many_digits_count += facts.is_number and not fits & {"long", "decimal"}
        if facts.written_otherwise:
            self.written_number_count += 1
            self.written_number = self.written_number or value
        if self._without_example & fits:
            shown = value[:LONG] if kind == "text" else value
            self.examples |= dict.fromkeys(sorted(self._without_example & fits), shown)
            self._without_example -= fits
        if kind == "text":
            self.max_text_length = max(self.max_text_length, len(value))
        if self.distinct_values is not None:
            # of long texts a hash is enough to tell them apart
            self.distinct_values.add(hash(value) if kind == "text" and len(value) > LONG else value)
            if (
                len(self.distinct_values) > WORTH_COUNTING
                and len(self.distinct_values) < self.non_null_count / 2
            ):
                self.distinct_values = None

    def mismatch_doubts(self, type_or_unit: str) -> list[str]:
        """A doubt about the values that a type or unit cannot have, other than those of too many digits."""
        count = (
            self.non_null_count
            - self.fitting_counts[type_or_unit]
            - (self.too_many_digits_count if type_or_unit in ("long", "decimal") else 0)
        )
        if count <= 0:
            return []
        example = short_json(self.first_misfits[type_or_unit])
        return [f"another type in {count:,} records, which will be dead letters; the first: {example}"]


class Facts(NamedTuple):
    """What one value tells: the types and units of time that can have it, and as `InferredField` has it of all."""

    fits: frozenset[str]
    is_number: bool = False
    integer_digits: int = 0
    fraction_digits: int = 0
    zero_padded: bool = False
    pointed: bool = False
    written_otherwise: bool = False


def _facts(kind: str, value: Any) -> Facts:
    if kind == "boolean":
        return Facts(frozenset({"boolean"}))
    if kind in ("list", "object"):
        return Facts(frozenset())
    return _facts_about_text(value) if kind == "text" else _facts_about_number(value)


def _facts_about_text(value: str) -> Facts:
    fits = {"string"} if is_valid_unicode(value) else set()
    fits |= {unit for unit in INFERRED_TEXTS if time_ms(value, unit) is not None}
    if "utc" in fits and re.fullmatch(ONLY_DATE, value):
        fits.add("date")
    if value.lower() in ("true", "false"):
        fits.add("boolean")
    padded = bool(PADDED.fullmatch(value[:100]))
    if len(value) <= 100 and DECIMAL_TEXT.fullmatch(value):
        facts = _facts_about_number(value)
        return facts._replace(fits=facts.fits | fits, zero_padded=padded, pointed="." in value)
    written = take_apart(value)
    otherwise = bool(written and (written.mark or written.currency))
    return Facts(frozenset(fits), zero_padded=padded, written_otherwise=otherwise)


@lru_cache(maxsize=1 << 14)
def _facts_of_text(kind: str, value: str) -> Facts:
    return _facts(kind, value)


def _facts_about_number(value: Any) -> Facts:
    try:
        number = Decimal(value) if not isinstance(value, bytes) else Decimal("Infinity")
    except InvalidOperation:
        number = Decimal("Infinity")
    fits = set()
    if number >= EARLIEST // 1000:  # in s, and in smaller units it is more
        times = ((unit, time_ms(value, unit)) for unit in NUMBERS)
        fits = {unit for unit, ms in times if ms is not None and EARLIEST <= ms < LATEST}
    if INTEGER.fullmatch(str(value)) and fits_long(int(value)):
        fits.add("long")
    if not number.is_finite() or number.adjusted() >= DIGITS or int(number.as_tuple().exponent) < -40:
        return Facts(frozenset(fits), True)
    written = f"{number:f}".partition(".")[2].rstrip("0")
    return Facts(frozenset({"decimal", *fits}), True, number.adjusted() + 1, len(written))


def fits_long(value: int) -> bool:
    """Whether it has at most 64 bits."""
    return -(1 << 63) <= value < 1 << 63


def collect_values(
    record: dict,
    record_number: int,
    fields: dict[Path, InferredField],
    parent_path: Path = (),
    texts: bool = False,
) -> None:
    """Adds the values of a record, including those in nested objects."""
    for path, value in _walk(record, parent_path):
        if path not in fields:
            if len(fields) >= MANY_PATHS:
                continue
            fields[path] = InferredField(path, record_number, texts)
        fields[path].add(value)


def _walk(record: dict, parent_path: Path) -> Iterator[tuple[Path, object]]:
    for key, value in record.items():
        if not key or not is_valid_unicode(key):
            continue
        yield (*parent_path, key), value
        if isinstance(value, dict):
            yield from _walk(value, (*parent_path, key))


def split_name(name: str) -> list[str]:
    """The words of a name, however they are joined.

    >>> split_name("placedAt"), split_name("HTTP_status-code")
    (['placed', 'at'], ['http', 'status', 'code'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+", name)]


def name_begins_or_ends_with(found: InferredField, words: Iterable[str]) -> bool:
    """Whether the name at its path is, or ends or begins with, one of the words."""
    of_name = split_name(found.path[-1]) or [""]
    while of_name[-1] in UNIT_WORDS and len(of_name) > 1:
        of_name.pop()
    return of_name[-1] in words or of_name[0] in words


def infer_type_and_unit(found: InferredField) -> tuple[str, str, list[str]]:
    """Type, unit of time and doubts of a field; "" for none. Without a type the doubts say why it can be no field. The type that most values have wins."""
    nans = [f"NaN or Infinity in {found.nan_count:,} records, read as null"] if found.nan_count else []
    type, unit, doubts = _type_of(found)
    return type, unit, doubts + (nans if type else [])


def _type_of(found: InferredField) -> tuple[str, str, list[str]]:
    values, fits = found.non_null_count, found.fitting_counts
    if not values:
        return "", "", ["it is null in all records"]
    objects, lists = found.kind_counts["object"], found.kind_counts["list"]
    if objects and 2 * objects >= values:
        others = f"an object in some records; the other {values - objects:,} will be dead letters if the schema has a field inside it"
        return "", "", [others]
    if lists and 2 * lists >= values:
        only = "a list, which rules cannot look into" if lists == values else "a list in some records"
        return "", "", [only]
    unit = found.time_unit
    if unit in INFERRED_TEXTS and fits["date"] < NEARLY_ALL * values:
        doubts = [NO_ZONE] if unit == "utc" else []
        return "time", unit, doubts + found.mismatch_doubts(unit)
    if unit in NUMBERS and name_begins_or_ends_with(found, TIME_WORDS):
        return "time", unit, found.mismatch_doubts(unit)
    booleans, numbers, strings = fits["boolean"], max(fits["decimal"], fits["long"]), fits["string"]
    # any text fits the type string; a narrower type must fit nearly all values
    if found.kind_counts["text"] == values:
        booleans = booleans if found.texts and booleans >= NEARLY_ALL * values else 0
        numbers = numbers if _numbers_in_text(found) else 0
        if numbers and not found.fraction_digits and found.pointed_count and _name_ends_with(found, ID_ENDS):
            return "string", "", [POINTED_ID]
        strings = 0 if booleans or numbers else strings
    elif not found.kind_counts["boolean"]:
        booleans = 0
    most = max(booleans, numbers, strings)
    if not most:
        return (
            "",
            "",
            [
                f"numbers of more than {DIGITS} digits"
                if found.too_many_digits_count
                else "half characters of Unicode"
            ],
        )
    if booleans == most and numbers < most:
        return "boolean", "", found.mismatch_doubts("boolean")
    if booleans == most:
        return "", "", [f"true or false in {booleans:,} records, another type in others"]
    if strings == most:
        doubts = found.mismatch_doubts("string") + _number_like_doubts(found)
        return "string", "", doubts + _case_doubts(found)
    whole = fits["long"] >= fits["decimal"]
    type, doubts = ("long", []) if whole else _decimal(found)
    doubts += found.mismatch_doubts("long" if whole else "decimal")
    if found.too_many_digits_count:
        doubts.append(
            f"too many digits in {found.too_many_digits_count:,} records, which will be dead letters"
        )
    return type, "", doubts


def _numbers_in_text(found: InferredField) -> bool:
    """Whether values that are all texts are meant as numbers: nearly all are, and they do not look like codes."""
    least = NEARLY_ALL * found.non_null_count
    if found.pointed_count:
        return found.fitting_counts["decimal"] >= least
    if found.zero_padded_count:
        return False
    whole = "long" if found.texts else "decimal"
    return found.fitting_counts[whole] >= least and (found.texts or _name_ends_with(found, AMOUNT_WORDS))


def _name_ends_with(found: InferredField, words: Iterable[str]) -> bool:
    return (split_name(found.path[-1]) or [""])[-1] in words


def _number_like_doubts(found: InferredField) -> list[str]:
    """A doubt about texts that would be numbers if they were written otherwise: rules cannot compute with them."""
    if found.written_number_count < NEARLY_ALL * found.non_null_count or found.texts:
        return []
    return [
        f"numbers written as {short_json(found.written_number)}, which stay texts: rules cannot compute with them. Have them written as 1234.50"
    ]


def _case_doubts(found: InferredField) -> list[str]:
    """A doubt about a few values that differ only in case: rules tell them apart."""
    values = found.distinct_values or set()
    if len(values) > FEW_VALUES:
        return []
    alike: dict[str, list[str]] = {}
    for value in sorted(value for value in values if isinstance(value, str)):
        alike.setdefault(value.casefold(), []).append(value)
    some = next((each for each in alike.values() if len(each) > 1), None)
    if not some:
        return []
    both = " and ".join(map(short_json, some))
    return [
        f"{both} differ only in case, and rules tell them apart: a derived field with lower(…) makes them one"
    ]


def _decimal(found: InferredField) -> tuple[str, list[str]]:
    """A decimal with room for all digits that were found, as far as 18 are enough."""
    in_text = (
        0
        if found.texts
        else found.fitting_counts["decimal"]
        + found.too_many_digits_count
        - found.kind_counts["integer"]
        - found.kind_counts["number"]
    )
    doubts = [f"text in {in_text:,} records, read as numbers"] if in_text > 0 else []
    scale = min(max(found.fraction_digits, 2), DIGITS - found.integer_digits)
    if found.fraction_digits > scale:
        doubts.append(
            f"up to {found.integer_digits} digits before the point and {found.fraction_digits} after it do not fit into {DIGITS} digits: "
            "such records will be dead letters; floats that nobody rounded: round them to 6 digits first"
        )
    elif found.fraction_digits > 6:
        doubts.append(
            f"up to {found.fraction_digits} digits after the point: are they binary floats that the producer should round?"
        )
    return f"decimal({DIGITS},{scale})", doubts
