"""One key's events, and the windows that four ways of windowing put over them: which of them sees the fraud, and when.

    tumbling     ├──────────────────┤├──────────────────┤        reports when a window ends
    sliding      ├──────────────────┤                            the same, and a new one starts every S
                      ├──────────────────┤
    session       ├────────────────┤      ├──────────────┤       ends when no event has come for a gap G
    per event         ├─────────────────●                        ends with an event, reports at once
    events       ·   ·   ·     $ $    $ $    ·    ·

Source of the idea: "Advanced Flink Application Patterns" part 3, figure 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import NamedTuple

from lab.model.times import MINUTE_MS

STORY_MS = 1_735_725_600_000  # 2025-01-01 10:00 UTC


class Event(NamedTuple):
    """An event of the key: ms since the epoch, amount, id."""

    time_ms: int
    amount: int | float | Decimal
    id: int


class Window(NamedTuple):
    """A window with events in it. Its result is out at `end_ms`."""

    start_ms: int
    end_ms: int
    events: tuple[Event, ...]

    @property
    def total(self) -> int | float | Decimal:
        """The sum of its events' amounts."""
        return sum(event.amount for event in self.events)


def account_payments(seed: int = 1) -> list[Event]:
    """Three hours of one account: small payments, and four large ones within a quarter of an hour, around 11:00.

    >>> [event.amount for event in account_payments() if event.amount > 20]
    [31, 28, 33, 29]
    """
    rng = Random(seed)
    small = [(minute + rng.randrange(8), rng.randint(1, 4)) for minute in range(4, 180, 16)]
    large = [(51, 31), (56, 28), (63, 33), (67, 29)]
    paid = sorted(small + large)
    return [
        Event(STORY_MS + minute * MINUTE_MS, amount, number)
        for number, (minute, amount) in enumerate(paid, 1)
    ]


def sliding(events: Sequence[Event], window_ms: int, slide_ms: int) -> list[Window]:
    """The windows [start, start + W) that hold events, a start every S: without its end, as in Flink and Spark.

    >>> [(window.start_ms, window.total) for window in sliding([Event(12, 5, 1), Event(20, 7, 2)], 20, 10)]
    [(0, 5), (10, 12), (20, 7)]
    """
    starts = {
        start
        for event in events
        for start in range(event.time_ms // slide_ms * slide_ms, event.time_ms - window_ms, -slide_ms)
    }
    return [
        Window(start, start + window_ms, tuple(e for e in events if start <= e.time_ms < start + window_ms))
        for start in sorted(starts)
    ]


def tumbling(events: Sequence[Event], window_ms: int) -> list[Window]:
    """Sliding windows that slide by their own length: each event is in one.

    >>> [(window.start_ms, window.total) for window in tumbling([Event(12, 5, 1), Event(20, 7, 2)], 20)]
    [(0, 5), (20, 7)]
    """
    return sliding(events, window_ms, window_ms)


def sessions(events: Sequence[Event], gap_ms: int) -> list[Window]:
    """The windows that close once no event has come for a gap: from a first event to the last one plus the gap, as in Flink and Spark.

    >>> [(window.start_ms, window.end_ms, window.total) for window in sessions([Event(12, 5, 1), Event(20, 7, 2), Event(40, 1, 3)], 10)]
    [(12, 30, 12), (40, 50, 1)]
    """
    found: list[list[Event]] = []
    for event in sorted(events, key=lambda event: event.time_ms):
        if found and event.time_ms - found[-1][-1].time_ms < gap_ms:
            found[-1].append(event)
        else:
            found.append([event])
    return [Window(part[0].time_ms, part[-1].time_ms + gap_ms, tuple(part)) for part in found]


def per_event(events: Sequence[Event], window_ms: int) -> list[Window]:
    """For each event in order of arrival the window [t − W, t] of what arrived until then, both ends included.

    >>> [(window.end_ms, window.total) for window in per_event([Event(12, 5, 1), Event(20, 7, 2)], 20)]
    [(12, 5), (20, 12)]
    """
    return [
        Window(
            last.time_ms - window_ms,
            last.time_ms,
            tuple(e for e in events[: place + 1] if last.time_ms - window_ms <= e.time_ms <= last.time_ms),
        )
        for place, last in enumerate(events)
    ]


@dataclass(frozen=True)
class WindowResults:
    """What one approach made of the events: all its windows, those over the limit, and how long the first of them took."""

    windows: list[Window]
    over_limit: list[Window]
    # from the event that completes the fraud to the report; None: no report, or no fraud
    delay_ms: int | None


def compare_window_types(
    events: Sequence[Event], window_ms: int, slide_ms: int, gap_ms: int, limit: float
) -> dict[str, WindowResults]:
    """Each lane's windows and what they saw. Amounts are above zero; the fraud is complete at the last event of `crossing`.

    >>> seen = compare_window_types([Event(12, 5, 1), Event(20, 7, 2)], 20, 10, gap_ms=15, limit=10)
    >>> {lane: seen[lane].delay_ms for lane in seen}
    {'tumbling': None, 'sliding': 10, 'session': 15, 'per event': 0}
    """
    every = {
        "tumbling": tumbling(events, window_ms),
        "sliding": sliding(events, window_ms, slide_ms),
        "session": sessions(events, gap_ms),
        "per event": per_event(events, window_ms),
    }
    over = {lane: [window for window in windows if window.total > limit] for lane, windows in every.items()}
    fraud = crossing(events, window_ms, limit)
    return {
        lane: WindowResults(
            every[lane],
            over[lane],
            over[lane][0].end_ms - fraud[-1].time_ms if over[lane] and fraud else None,
        )
        for lane in every
    }


def crossing(events: Sequence[Event], window_ms: int, limit: float) -> tuple[Event, ...]:
    """The fraud, whatever the order of arrival: the first events within W, as few as go over the limit, in order of time.

    >>> [event.id for event in crossing([Event(20, 7, 3), Event(5, 1, 1), Event(12, 5, 2)], 20, limit=10)]
    [2, 3]
    """
    in_order = per_event(sorted(events, key=lambda event: event.time_ms), window_ms)
    newest = list(next((window.events for window in in_order if window.total > limit), ()))
    while sum(event.amount for event in newest[1:]) > limit:
        newest.pop(0)
    return tuple(newest)
