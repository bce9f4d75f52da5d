"""Times as records write them, in ms since the epoch: numbers of ns to days, and ISO 8601.

Numbers of s, ms, us or ns and texts are read exactly to the nanosecond, and then rounded down to a millisecond, towards
the past. Numbers of m (minutes), h or d have at most three digits after the point.
"""

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources

from lab.model.formatting import short_json
from lab.model.jsontext import exact_decimal

NUMBERS = {"s": 9, "ms": 6, "us": 3, "ns": 0}  # unit -> digits after the point down to a nanosecond
# unit -> an example; a local text is on the clocks of a field's zone
TEXTS = {
    "iso": "2024-05-01T10:00:00.123+09:00",
    "utc": "2024-05-01 10:00:00.123",
    "local": "2024-05-01 10:00:00.123",
}
DIGITS = 19  # that a number of nanoseconds has at most
NS_PER_MS = 1_000_000
DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
STEPS = {"m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}  # unit -> ms
STEP_DIGITS, STEP_SCALE = 12, 3  # that a number of them has at most; how many of these after the point
UNITS = (*NUMBERS, *STEPS, *TEXTS)
DURATION_MS = {"ms": 1, "s": 1_000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
# the words for units of durations -> how many of which unit each means, exactly: months and years are none
DURATION_UNITS = {"w": (7, "d"), "week": (7, "d"), "weeks": (7, "d")} | {
    word: (1, unit)
    for unit, words in {
        "ms": ("ms",),
        "s": ("s", "sec", "secs", "second", "seconds"),
        "m": ("m", "min", "mins", "minute", "minutes"),
        "h": ("h", "hr", "hrs", "hour", "hours"),
        "d": ("d", "day", "days"),
    }.items()
    for word in words
}

_LARGEST_FIRST = tuple(reversed(DURATION_MS.items()))
_WORDS = {"m": "min"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
_ZONE = r"(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_DATE = r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
ONLY_DATE = f"^({_DATE})$"  # its midnight
PATTERNS = {"iso": f"^{_DATE}[T ]{_CLOCK}{_ZONE}$", "utc": f"^{_DATE}([T ]{_CLOCK})?$"}
PATTERNS["local"] = PATTERNS["utc"]


def now_ms() -> int:
    """The clock, in ms since the epoch."""
    return time.time_ns() // 1_000_000


def parse_duration_ms(text: str, units: Iterable[str] = ()) -> int:
    """`500ms`, `10s`, `5m`, `24h`, `7d` in ms, and as sentences have them: `5 min`, `24 hours`. Raises ValueError.

    `units`: only these, without a space, as JSON has them.

    >>> parse_duration_ms("7d"), parse_duration_ms("10 min"), parse_duration_ms("1 week")
    (604800000, 600000, 604800000)
    """
    pattern = "|".join(units) if units else f" ?({'|'.join(DURATION_UNITS)})"
    match = re.fullmatch(f"([0-9]{{1,12}})({pattern})", text)
    if not match:
        raise ValueError(f"{text!r}, expected a whole number and ms, s, min, h or d, such as 5m or 5 min")
    times, unit = DURATION_UNITS[match[2].strip()]
    return int(match[1]) * times * DURATION_MS[unit]


def duration_text(ms: int) -> str:
    """A duration as text, in the largest unit that divides it; `parse_duration_ms` reads it.

    >>> duration_text(604_800_000), duration_text(5_400_000)
    ('7d', '90m')
    """
    return "".join(_parts(ms))


def duration_words(ms: int) -> str:
    """A duration for people, exactly.

    >>> duration_words(604_800_000), duration_words(5_400_000)
    ('7 d', '90 min')
    """
    number, unit = _parts(ms)
    return f"{number} {_WORDS.get(unit, unit)}"


def _parts(ms: int) -> tuple[str, str]:
    unit, size = next((unit, size) for unit, size in _LARGEST_FIRST if ms % size == 0 < ms or size == 1)
    return str(ms // size), unit


def rounded_duration_words(ms: float) -> str:
    """A duration for people, to three digits, in a unit of which it is one or at least two.

    >>> rounded_duration_words(450), rounded_duration_words(1_500), rounded_duration_words(5_400_000), rounded_duration_words(3_456_123_000)
    ('450 ms', '1.5 s', '90 min', '40 d')
    """
    for unit, size in _LARGEST_FIRST:
        if ms >= 2 * size or ms == size or (unit == "s" and not 0 < ms < size):
            break
    number = f"{ms / size:.3g}" if ms < 100 * size else f"{ms / size:,.0f}"
    return f"{number} {_WORDS.get(unit, unit)}"


def expected_time(unit: str) -> str:
    """What a time in a unit looks like, for errors."""
    if unit not in TEXTS:
        return f"a time: a number of {unit} since the epoch"
    zone = {"iso": "with its zone", "utc": "without a zone, UTC", "local": "without a zone"}[unit]
    return f"a time of ISO 8601 {zone}, such as {TEXTS[unit]}"


def time_ms(value: object, unit: str) -> int | None:
    """A JSON value as ms since the epoch; None if it is no time in that unit. A local one is read as if it were UTC.

    >>> time_ms("2024-05-01T10:00:00.1239+09:00", "iso"), time_ms(1714525200, "s"), time_ms("2024-05-01", "iso")
    (1714525200123, 1714525200000, None)
    >>> time_ms("2024-05-01", "utc"), time_ms(744, "h")
    (1714521600000, 2678400000)
    """
    if unit in STEPS:
        number = exact_decimal(value, STEP_DIGITS, STEP_SCALE)
        return None if number is None else int(number * STEPS[unit])
    if unit in NUMBERS:
        number = exact_decimal(value, DIGITS, NUMBERS[unit])
        return None if number is None else int(number.scaleb(NUMBERS[unit])) // NS_PER_MS
    if not isinstance(value, str) or not re.fullmatch(PATTERNS[unit][1:-1], value):
        return None
    try:
        found = datetime.fromisoformat(value)
        return (found.replace(tzinfo=found.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):  # 30 February
        return None


# in s: before and after, the difference to UTC stays what it is then
EARLIEST, LATEST = -60_000_000_000, 253_000_000_000
# -- zones -------------------------------------------------------------------------------------------------------------
# UTC, an offset such as +09:00, or a name such as Europe/Berlin. Zones by name are those of the package tzdata, whatever the
# machine has, so that a zone means the same everywhere.

_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")
_MS = timedelta(milliseconds=1)


def check_zone(zone: str) -> None:
    """Raises ValueError for an unknown zone.

    >>> check_zone("Europe/Belrin")
    Traceback (most recent call last):
    ValueError: unknown time zone "Europe/Belrin", did you mean Europe/Berlin?...
    """
    _time_zone(zone)


def fixed_offset_ms(zone: str) -> int | None:
    """The difference to UTC, None if it changes."""
    if zone == "UTC":
        return 0
    match = _OFFSET.fullmatch(zone)
    if not match:
        return None
    ms = int(match[2]) * HOUR_MS + int(match[3]) * MINUTE_MS
    return -ms if match[1] == "-" else ms


def offset_ms(zone: str, time_ms: int) -> int:
    """The difference to UTC at a time in ms since the epoch."""
    fixed = fixed_offset_ms(zone)
    return _offset_ms(zone, time_ms // 1000) if fixed is None else fixed


@lru_cache(maxsize=10_000)
def _offset_ms(zone: str, time_s: int) -> int:
    at = datetime.fromtimestamp(min(max(time_s, EARLIEST), LATEST), UTC)
    offset = at.astimezone(_time_zone(zone)).utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1000)


def local_to_utc_ms(local_ms: int, zone: str) -> int | None:
    """The time at which clocks in a zone show `local_ms` (ms since 1970-01-01 00:00 on these clocks), in ms since the epoch.

    Where clocks are turned back and show it twice, the first of the two; None where they are turned forward and never show it.

    >>> half_past_two = 1_729_996_200_000  # 2024-10-27 02:30, which Berlin had twice
    >>> local_to_utc_ms(half_past_two, "Europe/Berlin") - half_past_two
    -7200000
    """
    known = _time_zone(zone)
    try:
        local = (EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=known)
        utc = local.astimezone(UTC)
        shown = utc.astimezone(known)
    except OverflowError:  # beyond the years that have dates
        return None
    return (utc - EPOCH) // _MS if shown.replace(tzinfo=None) == local.replace(tzinfo=None) else None


def is_shown_twice(local_ms: int, zone: str) -> bool:
    """Whether clocks in a zone show `local_ms` twice, because they are turned back in between."""
    if (first := local_to_utc_ms(local_ms, zone)) is None:
        return False
    local = (EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=_time_zone(zone), fold=1)
    return (local.astimezone(UTC) - EPOCH) // _MS != first


@lru_cache(maxsize=10_000)
def offset_of_local_hour(hour: int, zone: str) -> int | None:
    """The difference to UTC throughout a local hour, in ms; None if it changes, or clocks show part of the hour twice or never.

    `hour`: since 1970-01-01 00:00 on these clocks.
    """
    ends = (hour * HOUR_MS, (hour + 1) * HOUR_MS - 1)
    offsets = {None if (utc := local_to_utc_ms(at, zone)) is None else at - utc for at in ends}
    return None if len(offsets) > 1 or any(is_shown_twice(at, zone) for at in ends) else offsets.pop()


@cache
def _names() -> frozenset[str]:
    try:
        return frozenset((resources.files("tzdata") / "zones").read_text().split())
    except ModuleNotFoundError:
        return frozenset()


@lru_cache(maxsize=1_000)
def _time_zone(zone: str) -> tzinfo:
    if (fixed := fixed_offset_ms(zone)) is not None:
        return timezone(timedelta(milliseconds=fixed))
    from zoneinfo import ZoneInfo  # only where a rule or a schema needs it: few do

    if zone not in _names():
        close = get_close_matches(zone, _names(), n=1)
        guess = f", did you mean {close[0]}?" if close else ""
        allowed = "UTC, a difference such as +09:00, or a name such as Europe/Berlin"
        without = "" if _names() else "; names need the package tzdata"
        raise ValueError(f"unknown time zone {short_json(zone)}{guess} (known: {allowed}{without})")
    file = resources.files("tzdata") / "zoneinfo" / zone
    with file.open("rb") as data:
        return ZoneInfo.from_file(data, zone)
