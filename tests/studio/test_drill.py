"""A drill is the engine's own code on a real disk: whatever one does to it, nothing is lost and nothing comes twice."""

from random import Random

import pytest

from lab.studio.drill import STEPS, Drill

DONE = (
    "send_payments",
    "send_payments",
    "send_duplicate",
    "send_out_of_order",
    "toggle_delay_of_partition_1",
    "set_back_clock_of_partition_1",
    "publish_next_limit",
    "run_next_step",
    "run_next_step",
    "run_next_step",
    "run_batch",
    "kill_and_restart",
)


@pytest.fixture
def drill():
    drill = Drill()
    yield drill
    drill.close()


def stepped_to(drill: Drill, step: str) -> None:
    drill.send_payments(8)
    while drill.next != step:
        drill.run_next_step()


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_before_any_step_loses_nothing_and_repeats_nothing(drill, step):
    stepped_to(drill, "cut")
    drill.run_batch()
    stepped_to(drill, step)
    before = len(drill.alerts)
    drill.kill_and_restart()
    assert ("runs again" in drill.story[-1]) == (step != "cut")
    assert drill.in_memory is None and drill.compare_with_reference()[0]
    drill.run_batch()
    assert (
        drill.compare_with_reference()[0]
        and len(drill.alerts) > (0 if step == "cut" else before - 1)
        and drill.done == 1
    )


def test_a_batch_that_runs_again_writes_the_same_file_and_its_alerts_are_taken_once(drill):
    stepped_to(drill, "commit")
    alerts = drill.outs["alerts"].read()
    drill.kill_and_restart()
    drill.run_next_step()
    assert "has the same bytes again" in drill.story[-1]
    drill.run_next_step()
    assert "takes none twice" in drill.story[-1]
    assert drill.outs["alerts"].read() == alerts


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_or_repeated_whatever_is_pressed(seed):
    rng, drill = Random(seed), Drill(seed)
    for _ in range(40):
        getattr(drill, rng.choice(DONE))()
        good, said = drill.compare_with_reference()
        assert good, (said, drill.story)
    if drill.events.partitions[1].delayed_records is not None:
        drill.toggle_delay_of_partition_1()
    drill.run_batch()
    drill.run_batch()
    taken = sum(len(partition.records) for partition in drill.events.partitions)
    assert drill.record_outcomes["records"] == taken and drill.compare_with_reference()[0]
    drill.close()
    assert not drill.folder.exists()


def test_the_verdict_sees_an_alert_that_is_missing_and_one_that_is_there_twice(drill):
    stepped_to(drill, "commit")
    drill.run_next_step()
    good, said = drill.compare_with_reference()
    assert good and "alerts as the reference" in said
    drill.outs["alerts"].append(drill.outs["alerts"].read()[:1])
    assert drill.compare_with_reference() == (False, said_of(0, 1, drill))
    drill.lines = {}
    stepped_to(drill, "deliver")
    drill.lines = {"stats": drill.lines["stats"]}
    drill.run_next_step()
    good, said = drill.compare_with_reference()
    assert not good and not said.startswith("0 alerts")


def said_of(lost: int, twice: int, drill: Drill) -> str:
    records = drill.record_outcomes["records"]
    return f"{lost} alerts are missing, {twice} are unexpected; {records} of {records} records are counted."


def test_what_arrives_late_goes_with_a_later_batch_and_times_that_step_back_change_nothing(drill):
    drill.toggle_delay_of_partition_1()
    drill.send_payments(4)
    drill.run_batch()
    drill.set_back_clock_of_partition_1()
    drill.toggle_delay_of_partition_1()
    drill.send_payments(2)
    drill.run_batch()
    assert [drill.batch_of_record(0, offset) for offset in range(3)] == [0, 0, 1]
    assert [drill.batch_of_record(1, offset) for offset in range(3)] == [1, 1, 1]
    times = [record.log_time for record in drill.events.partitions[1].records]
    assert times != sorted(times) and drill.compare_with_reference()[0]


def test_files_are_listed_in_the_order_of_their_batches(drill):
    for _ in range(11):
        drill.send_payments(1)
        drill.run_batch()
    offsets = [name for name in drill.checkpoint_files() if name.startswith("offsets/")]
    assert offsets[-3:] == ["offsets/8", "offsets/9", "offsets/10"]


def test_with_a_broken_write_ahead_a_kill_loses_alerts_and_the_verdict_says_so(drill):
    drill.send_payments(8)
    drill.run_batch()
    drill.toggle_write_ahead_log()
    stepped_to(drill, "commit")
    assert drill.compare_with_reference()[0] and "offsets/1" not in drill.checkpoint_files()
    drill.send_payments(8)
    drill.kill_and_restart()
    assert not drill.compare_with_reference()[0]
    drill.run_batch()
    good, said = drill.compare_with_reference()
    assert not good and not said.startswith("0 alerts") and "refuses batch 1" in drill.story[-1]


def test_a_broken_write_ahead_does_no_harm_without_a_kill(drill):
    drill.toggle_write_ahead_log()
    for _ in range(2):
        drill.send_payments(8)
        drill.run_batch()
    drill.toggle_write_ahead_log()
    drill.send_payments(8)
    drill.run_next_step()
    drill.kill_and_restart()
    drill.run_batch()
    assert drill.compare_with_reference()[0] and drill.done == 2
