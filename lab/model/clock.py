"""What a clock on the wall shows at a time: the hour, or the day of the week, in a time zone.

hour(eventTime) >= 22        hour(eventTime, "+09:00") < 6        weekday(eventTime, "Europe/Berlin") in (6, 7)
"""

from dataclasses import dataclass

from lab.model.conditions import quote_if_needed
from lab.model.times import DAY_MS, HOUR_MS
from lab.model.zones import check_zone, fixed_offset_ms, offset_ms

SHOWS = {"hour": (0, 23), "weekday": (1, 7)}  # the smallest and the largest number; 1 is Monday
FIRST_WEEKDAY = 3  # days from a Monday to 1970-01-01


@dataclass(frozen=True)
class LocalTimePart:
    """`part`: a word of SHOWS. `zone`: as `lab.model.zones` knows it. Raises ValueError for an unknown one.

    >>> LocalTimePart("hour").value_at(82_800_000), LocalTimePart("hour", "+09:00").value_at(82_800_000), LocalTimePart("weekday", "+09:00").value_at(82_800_000)
    (23, 8, 5)
    >>> LocalTimePart("hour", "Europe/Belrin")
    Traceback (most recent call last):
    ValueError: unknown time zone "Europe/Belrin", did you mean Europe/Berlin?...
    """

    part: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        check_zone(self.zone)

    @property
    def fixed_offset_ms(self) -> int | None:
        """The difference to UTC, None if it changes."""
        return fixed_offset_ms(self.zone)

    def offset_ms(self, time_ms: int) -> int:
        """The difference to UTC at a time in ms since the epoch."""
        return offset_ms(self.zone, time_ms)

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
