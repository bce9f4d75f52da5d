"""Buckets hold less than single events, and their sums are too large by what the oldest bucket holds too much."""

from random import Random

from lab.contrast.buckets import Buckets, bucketed


def some_events(count: int = 400) -> list[tuple[int, int]]:
    rng, time = Random(4), 0
    return [(time := time + rng.randint(0, 40), rng.randint(1, 9)) for _ in range(count)]


def exact(events: list[tuple[int, int]], place: int, window_ms: int) -> int:
    end = events[place][0]
    return sum(amount for time, amount in events[: place + 1] if end - window_ms <= time <= end)


def test_buckets_of_a_millisecond_give_the_exact_sums():
    events = some_events()
    run = bucketed(events, 700, 1)
    assert run.bucketed == run.exact == [exact(events, place, 700) for place in range(len(events))]
    assert run.worst_error() == 0


def test_an_estimate_lies_between_the_exact_sum_and_that_of_a_window_longer_by_a_bucket():
    events = some_events()
    for bucket_ms in (7, 50, 300):
        run = bucketed(events, 700, bucket_ms)
        for place, (low, estimate) in enumerate(zip(run.exact, run.bucketed)):
            assert low <= estimate <= exact(events, place, 700 + bucket_ms - 1)
        assert run.worst_error() > 0


def test_larger_buckets_hold_less_and_raise_more_false_alerts():
    runs = [bucketed(some_events(), 700, bucket_ms) for bucket_ms in (10, 100, 700)]
    held = [run.most_buckets for run in runs]
    false = [run.false_alerts(200) for run in runs]
    assert held == sorted(held, reverse=True) and held[-1] <= 3 < runs[0].most_events
    assert false == sorted(false) and false[-1] > 0
    assert len({run.alerts(200) for run in runs}) == 1


def test_a_bucket_goes_when_no_window_reaches_it():
    buckets = Buckets(10)
    buckets.add(19, 1)
    buckets.expire(19)
    assert buckets.total(119, 100) == 1
    buckets.expire(20)
    assert buckets.sums == {}
