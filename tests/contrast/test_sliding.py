"""Sliding windows on Spark: the right windows at the right times, what they cost, and how late they are."""

import time
from pathlib import Path
from tempfile import gettempdir
from types import SimpleNamespace

import pytest
from packaging.version import Version
from pyspark.sql import Row

from lab.contrast.delays import Delays, _batch_ms, describe_race, measured_delays, race_sliding
from lab.contrast.realtime import try_real_time
from lab.contrast.realtimerace import race_real_time
from lab.contrast.sliding import FIELDS, cost_of_sliding, over_limit, session_with_short_batches
from lab.contrast.windows import Event, sliding
from lab.model.schema import PAYMENTS
from lab.stream.simulate import write_payments

MILLION = 1_000_000


@pytest.fixture(scope="module")
def one_pair(tmp_path_factory):
    """300 payments of one pair over 5 min, in order."""
    folder = tmp_path_factory.mktemp("payments")
    write_payments(folder / "payments.json", 300, seed=5, payees=1, beneficiaries=1, span_ms=300_000)
    return folder


def test_a_delay_is_split_into_the_wait_for_the_windows_end_and_the_rest():
    #        1.0 s    1.3 s          2.0 s        2.45 s
    #   ───────●────────●──────────────┤─────────────●──     the second payment crosses the limit
    fraud = [Event(1_000, 11 * MILLION, 1), Event(1_300, 11 * MILLION, 2)]
    frauds = {(1, 2): fraud, (3, 4): fraud}
    found = measured_delays(frauds, 20_000, 1_000, {(1, 2): 2_450})
    assert (found.wait_ms, found.total_ms, found.rest_ms, found.missed) == ([700], [1_150], [450], 1)
    found = measured_delays(frauds, 20_000, 0, {(1, 2): 1_500, (3, 4): 1_400})
    assert (found.wait_ms, found.total_ms, found.rest_ms, found.missed) == ([0, 0], [200, 100], [200, 100], 0)


def test_the_mean_wait_of_many_crossings_is_half_a_slide():
    frauds = {
        (n, n): [Event(20_000 + 137 * n, 11 * MILLION, 1), Event(20_100 + 137 * n, 11 * MILLION, 2)]
        for n in range(400)
    }
    out = dict.fromkeys(frauds, 10**6)
    for slide_ms in (1_000, 5_000, 10_000):
        wait = measured_delays(frauds, 20_000, slide_ms, out).wait_ms
        assert abs(sum(wait) / len(wait) - slide_ms / 2) < 0.05 * slide_ms


@pytest.mark.slow
def test_spark_gives_each_window_over_the_limit_once_when_the_watermark_has_passed_its_end(spark, one_pair):
    stream = session_with_short_batches(spark).readStream.schema(FIELDS).json(str(one_pair))
    found: list[Row] = []
    writer = over_limit(stream, 60_000, [20_000, 60_000], 750).writeStream.outputMode("append")
    writer = writer.foreachBatch(lambda rows, _: found.extend(rows.collect()))
    writer.trigger(availableNow=True).start().awaitTermination()
    lines = (one_pair / "payments.json").read_bytes().splitlines()
    events = [PAYMENTS.parse(line) for line in lines]
    events = [Event(e["eventTime"], e["paymentAmount"], e["transactionId"]) for e in events]
    expected = [
        (slide_ms, window.end_ms, window.total)
        for slide_ms in (20_000, 60_000)
        for window in sliding(events, 60_000, slide_ms)
        if window.total > 750 and window.end_ms <= events[-1].time_ms
    ]
    assert len(expected) > 5
    assert sorted((row.slide_ms, row.end_ms, row.total) for row in found) == expected


@pytest.mark.slow
def test_state_grows_with_the_panes_of_an_event(spark, tmp_path):
    path = write_payments(tmp_path / "payments.jsonl", 3_000, seed=1, payees=1_000, beneficiaries=1_000)
    one, six = (cost_of_sliding(spark, path, 600_000, slide) for slide in (600_000, 100_000))
    assert (one.panes, six.panes) == (1, 6)
    assert 4 < six.state_rows / one.state_rows < 8
    assert six.state_mb > one.state_mb and one.events_per_second > 0


@pytest.mark.soak
def test_the_race_sees_every_fraud_after_its_wait_and_leaves_nothing_behind(spark):
    before = set(Path(gettempdir()).glob("lab-sliding-*"))
    engine, two = race_sliding(spark, [2_000], seconds=4)
    assert (engine.slide_ms, two.slide_ms) == (0, 2_000)
    assert len(two.total_ms) + two.missed == len(engine.total_ms) + engine.missed >= 4
    assert two.missed <= 1 and engine.missed <= 1  # one that comes late may escape
    assert set(engine.wait_ms) == {0} and all(0 < wait <= 2_000 for wait in two.wait_ms)
    assert min(two.rest_ms) > 0 and min(engine.rest_ms) > 0
    assert engine.batch_ms > 0 and two.batch_ms > 0
    assert set(Path(gettempdir()).glob("lab-sliding-*")) <= before
    assert not spark._jsparkSession.streams().active()


@pytest.mark.soak
def test_real_time_mode_is_faster_than_micro_batches_and_refuses_python(spark, kafka):
    started = time.monotonic()
    tried = try_real_time(spark, seconds=7)
    assert min(map(len, tried.latencies_ms_by_trigger.values())) > 20
    micro, real = (sorted(tried.latencies_ms_by_trigger[name]) for name in ("micro-batches", "real time"))
    assert real[len(real) // 2] < micro[len(micro) // 2]
    assert "MapInArrowExec is not in the operator allowlist" in tried.refusals_by_operator["Python"]
    takes_windows = Version(spark.version) >= Version("4.3")
    assert ("HashAggregateExec" in tried.refusals_by_operator["sliding windows"]) is not takes_windows
    assert (tried.refusals_by_operator["sliding windows, then dropDuplicates"] == "") is takes_windows
    assert time.monotonic() - started < 120


@pytest.mark.soak
def test_windows_in_real_time_mode_miss_or_repeat_frauds_and_the_engine_does_neither(spark, kafka):
    wide, narrow, engine = race_real_time(spark).values()
    assert wide.missed > 0 and narrow.repeated > 0
    assert (engine.missed, engine.repeated, engine.change.missed) == (0, 0, 0) and len(engine.delays_ms) > 5


def test_a_machine_too_busy_for_a_single_micro_batch_is_told_so():
    idle = SimpleNamespace(
        recentProgress=[SimpleNamespace(numInputRows=0, durationMs={"triggerExecution": 3})]
    )
    with pytest.raises(TimeoutError, match="this machine is too busy"):
        _batch_ms(idle)


def test_a_race_that_showed_nothing_is_told_and_not_divided_by():
    engine, nothing = Delays(0, [0], [90], 0, 60), Delays(1_000, [], [], 5, 18_000)
    assert "Not a single fraud was found" in describe_race(engine, [nothing])
    assert "Not a single fraud was found" in describe_race(nothing, [engine])
    seen = Delays(2_000, [1_000], [4_000], 0, 1_000)
    assert "0.50 slides" in describe_race(engine, [nothing, seen])
