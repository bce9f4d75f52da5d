"""Times as records write them, in ms since the epoch: numbers of ns to days, and ISO 8601.

Numbers of s, ms, us or ns and texts are read exactly to the nanosecond, and then rounded down to a millisecond, towards
the past. Numbers of m (minutes), h or d have at most three digits after the point.
"""

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

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
FINER_THAN_MS = r"(\.[0-9]{3})[0-9]+"

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


def parse_duration_ms(text: str, units: Iterable[str] = DURATION_MS) -> int:
    """`500ms`, `10s`, `5m`, `24h`, `7d` in ms. Raises ValueError, also for a unit that is not among `units`.

    >>> parse_duration_ms("7d")
    604800000
    """
    match = re.fullmatch(f"([0-9]{{1,12}})({'|'.join(units)})", text)
    if not match:
        raise ValueError(f"{text!r}, expected a whole number and ms, s, m, h or d, such as 5m")
    return int(match[1]) * DURATION_MS[match[2]]


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
