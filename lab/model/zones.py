"""Time zones: UTC, an offset such as +09:00, or a name such as Europe/Berlin.

Zones by name are those of the package tzdata, whatever the machine has, so that a zone means the same everywhere.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources

from lab.model.times import EPOCH, HOUR_MS, MINUTE_MS
from lab.model.words import short_json

# in s: before and after, the difference to UTC stays what it is then
EARLIEST, LATEST = -60_000_000_000, 253_000_000_000
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
