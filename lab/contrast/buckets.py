"""Sums by bucket of time instead of single events: less state, and an error at the left edge of the window.

    events       ·  · ·   ·|· ·    · |   · ·   |·  ·          exact window of the last event:       ├────────────────┤
    buckets     [    31    ][   22   ][   14   ][  9 ]        what is summed up instead:         [   22   ][   14   ][  9 ]

"Advanced Flink Application Patterns" part 3 proposes it under "Redundant re-computations and state size".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

Amount = int | Decimal
Timed = tuple[int, Amount]  # ms since the epoch, amount


class Buckets:
    """One key's sums: a map of a bucket's start to the sum of its amounts.

    >>> buckets = Buckets(bucket_ms=10)
    >>> for time, amount in [(12, 5), (18, 1), (25, 7)]:
    ...     buckets.add(time, amount)
    >>> buckets.sums
    {10: 6, 20: 7}
    >>> buckets.total(end_ms=30, window_ms=15)  # [15, 30] holds 1 + 7, but 12 is in the bucket of 18
    13
    """

    def __init__(self, bucket_ms: int):
        self.bucket_ms = bucket_ms
        self.sums: dict[int, Amount] = {}

    def add(self, time_ms: int, amount: Amount) -> None:
        """Adds to the sum of the event's bucket; the event itself is not kept."""
        start = time_ms // self.bucket_ms * self.bucket_ms
        self.sums[start] = self.sums.get(start, 0) + amount

    def total(self, end_ms: int, window_ms: int) -> Amount:
        """The sum of all buckets that reach into [end − W, end]: never less than the exact sum of amounts above zero."""
        first = end_ms - window_ms
        return sum(amount for start, amount in self.sums.items() if first - self.bucket_ms < start <= end_ms)

    def expire(self, before_ms: int) -> None:
        """Forgets the buckets that end before a time."""
        for start in [start for start in self.sums if start + self.bucket_ms <= before_ms]:
            del self.sums[start]


@dataclass(frozen=True)
class Bucketed:
    """Buckets beside single events, on the same events. `exact` and `bucketed`: the window's sum at each event."""

    bucket_ms: int
    exact: list[Amount]
    bucketed: list[Amount]
    most_events: int  # the most that were kept at once
    most_buckets: int

    def worst_error(self) -> float:
        """The largest overestimate, as a share of the exact sum."""
        return max(float(b - e) / float(e) for b, e in zip(self.bucketed, self.exact))

    def false_alerts(self, limit: float) -> int:
        """How many events alert (sum > limit) with buckets but not without."""
        return sum(e <= limit < b for b, e in zip(self.bucketed, self.exact))

    def alerts(self, limit: float) -> int:
        """How many events rightly alert."""
        return sum(e > limit for e in self.exact)


def bucketed(events: Iterable[Timed], window_ms: int, bucket_ms: int) -> Bucketed:
    """Evaluates one key's events both ways, in order of arrival. Keeps what a window that ends at the newest time can reach.

    >>> run = bucketed([(0, 4), (7, 2), (20, 5)], window_ms=14, bucket_ms=10)
    >>> run.exact, run.bucketed, run.most_events, run.most_buckets
    ([4, 6, 7], [4, 6, 11], 2, 2)
    """
    buckets, stored, newest = Buckets(bucket_ms), [], 0
    exact, estimates, most_events, most_buckets = [], [], 0, 0
    for time, amount in events:
        stored.append((time, amount))
        buckets.add(time, amount)
        newest = max(newest, time)
        stored = [event for event in stored if event[0] >= newest - window_ms]
        buckets.expire(newest - window_ms)
        exact.append(sum(value for at, value in stored if time - window_ms <= at <= time))
        estimates.append(buckets.total(time, window_ms))
        most_events, most_buckets = max(most_events, len(stored)), max(most_buckets, len(buckets.sums))
    return Bucketed(bucket_ms, exact, estimates, most_events, most_buckets)
