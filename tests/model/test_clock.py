"""What a clock shows: the hour and the day of the week in a time zone, in a condition on an event."""

from datetime import UTC, datetime, timedelta, timezone
from importlib import resources
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.model.schema import LOGINS, MAX_TIME
from lab.model.times import is_shown_twice, local_to_utc_ms, offset_ms, offset_of_local_hour
from lab.model.when import LocalTimePart, is_true, when_text
from lab.model.whenreader import parse_when
from tests.model.refusals import TYPES

ZONES = ("UTC", "+09:00", "-03:30", "Asia/Seoul", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe")
# clocks in Berlin go from 2:00 to 3:00, and from 3:00 to 2:00
SPRING, AUTUMN = 1_711_846_800_000, 1_729_990_800_000


def local(time_ms: int, zone: str) -> datetime:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    sign = zone[0] + "1"
    if zone[0] in "+-":
        hours, minutes = zone[1:].split(":")
        return at.astimezone(timezone(int(sign) * timedelta(hours=int(hours), minutes=int(minutes))))
    return at.astimezone(ZoneInfo(zone))


@given(st.integers(0, MAX_TIME - 1), st.sampled_from(ZONES))
@example(SPRING - 1, "Europe/Berlin")
@example(SPRING, "Europe/Berlin")
@example(AUTUMN - 1, "Europe/Berlin")
@example(AUTUMN, "Europe/Berlin")
def test_it_shows_the_hour_and_the_weekday_that_a_calendar_has(time_ms, zone):
    at = local(time_ms, zone)
    assert (
        LocalTimePart("hour", zone).value_at(time_ms),
        LocalTimePart("weekday", zone).value_at(time_ms),
    ) == (at.hour, at.isoweekday())


@pytest.mark.parametrize("time_ms", [-(10**13), 2 * 10**14, 253_402_300_799_999])
def test_no_time_that_a_field_can_have_is_too_far(time_ms):
    assert 0 <= LocalTimePart("hour", "Europe/Berlin").value_at(time_ms) <= 23


def test_zones_are_those_of_the_package(monkeypatch):
    monkeypatch.setattr("zoneinfo.TZPATH", ())
    names = (resources.files("tzdata") / "zones").read_text().split()
    assert len(names) > 500 and all(LocalTimePart("hour", name).value_at(0) in range(24) for name in names)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("hour(eventTime) >= 22", "hour(eventTime) >= 22"),
        ("HOUR(eventTime, UTC) in (22, 23)", "hour(eventTime) in (22, 23)"),
        ("hour(eventTime, +09:00) < 6", 'hour(eventTime, "+09:00") < 6'),
        ("weekday(eventTime, 'Europe/Berlin') = 7", 'weekday(eventTime, "Europe/Berlin") = 7'),
    ],
)
def test_a_condition_on_a_clock_reads_back(text, zone):
    when = parse_when(text, LOGINS)
    assert when_text(when) == zone and parse_when(zone, LOGINS) == when


@pytest.mark.parametrize("text", ["hour(seen) != 3", "hour(seen) not in (3)", "weekday(seen) >= 1"])
def test_a_time_that_is_null_is_at_no_hour(text):
    assert not is_true(parse_when(text, TYPES), {"seen": None})
    assert is_true(parse_when(text, TYPES), {"seen": 0})


# -- local times -------------------------------------------------------------------------------------------------------


@given(st.integers(0, MAX_TIME - 1), st.sampled_from(ZONES))
@example(SPRING - 1, "Europe/Berlin")
@example(AUTUMN - 1, "Europe/Berlin")
@example(AUTUMN, "Europe/Berlin")
def test_a_local_time_is_the_first_at_which_clocks_show_it(time_ms, zone):
    shown = time_ms + offset_ms(zone, time_ms)
    found = local_to_utc_ms(shown, zone)
    assert found is not None and found + offset_ms(zone, found) == shown
    assert found == time_ms or (is_shown_twice(shown, zone) and found < time_ms)
    hourly = offset_of_local_hour(shown // 3_600_000, zone)
    assert hourly is None or shown - hourly == found == time_ms


def test_what_clocks_never_show_is_no_local_time():
    shown = SPRING + 3_600_000  # 2:00, and a minute before, and an hour after it
    found = [local_to_utc_ms(shown + more, "Europe/Berlin") for more in (-60_000, 0, 3_599_999, 3_600_000)]
    assert found == [SPRING - 60_000, None, None, SPRING]
    assert offset_of_local_hour(shown // 3_600_000, "Europe/Berlin") is None
    assert local_to_utc_ms(shown, "+01:00") == SPRING
