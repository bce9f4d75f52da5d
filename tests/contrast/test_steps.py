"""Each step from the textbook to the engine gives the alerts of the reference."""

import pytest

from lab.contrast import durable, oneprocess, steps

EVENTS = 3000
RULE = oneprocess.message("30m", 190)


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return oneprocess.payment_lines(EVENTS)


@pytest.fixture(scope="module")
def expected(lines) -> oneprocess.Alerts:
    found = oneprocess.reference_alerts(lines, RULE)
    assert 50 < len(found) < EVENTS / 4
    return found


@pytest.mark.parametrize("name", ["lines", "columns", "running", "interpreted", "compiled"])
def test_a_step_in_one_process_gives_the_alerts_of_the_reference(name, lines, expected):
    step = oneprocess.time_in_process(name, lines, RULE)
    assert (step.alerts, step.events) == (expected, EVENTS)
    assert 0 < step.decode_s < step.seconds


def test_both_ends_of_a_window_count_in_both_loops():
    events = [(1, 0, 1, 50), (1, 60_000, 2, 50), (1, 60_001, 3, 50), (2, 60_001, 4, 70)]
    for window in (oneprocess.RecomputedWindowSum(60_000), oneprocess.IncrementalWindowSum(60_000)):
        assert oneprocess.evaluate_tuples(window, events, 60) == {2: 100, 3: 100, 4: 70}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["key-groups", "envelopes"])
def test_a_step_on_spark_gives_the_alerts_of_the_reference(spark, name, lines, expected):
    step = steps.time_on_spark(spark, name, lines, RULE, events_per_batch=700)
    assert (step.alerts, step.events) == (expected, EVENTS - 700)
    assert "steps" not in [table.name for table in spark.catalog.listTables()]


@pytest.mark.slow
def test_the_textbook_and_the_engine_give_the_same_alerts(spark, lines, expected):
    textbook = steps.time_on_spark(spark, "textbook", lines[:300], RULE, events_per_batch=150)
    assert textbook.alerts == {event_id: total for event_id, total in expected.items() if event_id <= 300}
    engine = steps.time_engine(spark, lines, RULE, events_per_batch=1000, parallelism=1, key_groups=4)
    assert (engine.alerts, engine.events) == (expected, 2000)


def test_a_chunk_log_writes_what_came_and_rewriting_writes_what_is_held(lines):
    text = oneprocess.message("90d")
    chunked, rewritten = (
        durable.bytes_written_and_files_kept(lines, text, 30, rewrite) for rewrite in (False, True)
    )
    assert [kept for _, kept in chunked] == [sum(map(int, oct(batch)[2:])) for batch in range(1, 31)]
    assert {kept for _, kept in rewritten} == {1}
    assert rewritten[-1][0] > 5 * chunked[-1][0]
    assert sum(size for size, _ in rewritten) > 2 * sum(size for size, _ in chunked)
