"""What a clock on the wall shows at a time: the hour, or the day of the week, in a time zone.

    hour(eventTime) >= 22        hour(eventTime, "+09:00") < 6        weekday(eventTime, "Europe/Berlin") in (6, 7)

Zones by name are those of the package tzdata, whatever the machine has, so that a rule means the same everywhere.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING

from lab.model.conditions import quote_if_needed
from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS
from lab.model.words import short_json

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

SHOWS = {"hour": (0, 23), "weekday": (1, 7)}  # the smallest and the largest number; 1 is Monday
FIRST_WEEKDAY = 3  # days from a Monday to 1970-01-01
# in s: before and after, the difference to UTC stays what it is then
EARLIEST, LATEST = -60_000_000_000, 253_000_000_000
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])")


@dataclass(frozen=True)
class LocalTimePart:
    """`part`: a word of SHOWS. `zone`: UTC, an offset such as +09:00, or a name such as Europe/Berlin. Raises ValueError for an unknown zone.

    >>> LocalTimePart("hour").value_at(82_800_000), LocalTimePart("hour", "+09:00").value_at(82_800_000), LocalTimePart("weekday", "+09:00").value_at(82_800_000)
    (23, 8, 5)
    >>> LocalTimePart("hour", "Europe/Belrin")
    Traceback (most recent call last):
    ValueError: unknown time zone "Europe/Belrin", did you mean Europe/Berlin?...
    """

    part: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        if self.fixed_offset_ms is None:
            _zone(self.zone)

    @property
    def fixed_offset_ms(self) -> int | None:
        """The difference to UTC, None if it changes."""
        if self.zone == "UTC":
            return 0
        match = _OFFSET.fullmatch(self.zone)
        if not match:
            return None
        ms = int(match[2]) * HOUR_MS + int(match[3]) * MINUTE_MS
        return -ms if match[1] == "-" else ms

    def offset_ms(self, time_ms: int) -> int:
        """The difference to UTC at a time in ms since the epoch."""
        fixed = self.fixed_offset_ms
        return _offset_ms(self.zone, time_ms // 1000) if fixed is None else fixed

    def value_at(self, time_ms: int) -> int:
        """What it shows at a time in ms since the epoch."""
        return self.value_at_local(time_ms + self.offset_ms(time_ms))

    def value_at_local(self, local_ms):
        """What it shows where clocks are so far, in ms: an integer, or a NumPy array of them."""
        if self.part == "hour":
            return local_ms // HOUR_MS % 24
        return (local_ms // DAY_MS + FIRST_WEEKDAY) % 7 + 1

    def condition_text(self, field: str) -> str:
        """How a condition names what it shows at the time in a field."""
        zone = "" if self.zone == "UTC" else f", {quote_if_needed(self.zone)}"
        return f"{self.part}({field}{zone})"


@lru_cache(maxsize=10_000)
def _offset_ms(zone: str, time_s: int) -> int:
    at = datetime.fromtimestamp(min(max(time_s, EARLIEST), LATEST), UTC)
    offset = at.astimezone(_zone(zone)).utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1000)


@cache
def _names() -> frozenset[str]:
    try:
        return frozenset((resources.files("tzdata") / "zones").read_text().split())
    except ModuleNotFoundError:
        return frozenset()


@cache
def _zone(name: str) -> "ZoneInfo":
    from zoneinfo import ZoneInfo  # only where a rule needs it: few do

    if name not in _names():
        close = get_close_matches(name, _names(), n=1)
        guess = f", did you mean {close[0]}?" if close else ""
        allowed = "UTC, a difference such as +09:00, or a name such as Europe/Berlin"
        without = "" if _names() else "; names need the package tzdata"
        raise ValueError(f"unknown time zone {short_json(name)}{guess} (known: {allowed}{without})")
    file = resources.files("tzdata") / "zoneinfo" / name
    with file.open("rb") as data:
        return ZoneInfo.from_file(data, name)
