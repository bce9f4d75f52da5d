"""One task's windows: what they hold when workers fail, twins run, windows files go, rules come back."""

import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import layout
from lab.engine.loop.inprocess import Entry, InProcessEngine
from lab.engine.loop.job import Job
from lab.engine.windows import arrays, shared, statefiles, statemerge, windowstate
from lab.engine.windows.store import RouteStore
from lab.model.reference import evaluate_log
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS, PAYMENTS
from tests.engine.test_inprocess import assert_same, batches, count_rule, login

COUNTED = [count_rule(">", 0, "5m"), login(1, 100), login(2, 110), login(3, 120)]


def with_reset(rule: Entry) -> Entry:
    return "control", rule[1].replace(b'"COUNT"', b'"COUNT_WITH_RESET"')


def test_a_reset_outlives_its_event_that_a_narrower_window_lets_go_in_the_same_batch():
    """
                  W = 5 min, then 1 s
    ────┤━━━━━━━━━━━━━━━━━━━━━━━━━━━┤         rule 1 leaves: of its late event, 2, rule 2's reset alone is left to be stored
        2                           1, 3
    """
    wide = count_rule(">", 9, "5m")
    narrow = with_reset(count_rule(">", 0, "1s"))[1].replace(b'"ruleId": 1', b'"ruleId": 2')
    gone = ("control", b'{"ruleId": 1, "ruleState": "DELETE"}')
    log = [wide, login(1, 100), ("control", narrow), login(2, 50), gone, login(3, 100)]
    for lost in (False, True):
        with InProcessEngine(Settings(LOGINS, max_out_of_orderness_ms=0)) as stages:
            for entries in (log[:2], log[2:5], log[5:]):
                stages.run_batch(entries)
                if lost:
                    stages.lose_memory()
            assert_same(stages.out, evaluate_log(LOGINS, log, max_out_of_orderness_ms=0))


def test_an_event_at_the_very_end_of_the_window_outlives_its_neighbours_garbage():
    """
                     W = 60 s
    ────┤━━━━━━━━━━━━━━━━━━━━━━━━━━━┤         the file of event 1 is as old as a file may be that is still read
        1                           2, 3, 4
    """
    log = [count_rule(">", 0, "1m"), login(1, 100), login(2, 160), login(3, 160), login(4, 160)]
    with InProcessEngine(Settings(LOGINS, max_out_of_orderness_ms=0)) as stages:
        for entries in (log[:2], log[2:3], log[3:4]):
            stages.run_batch(entries)
        stages.lose_memory()
        stages.run_batch(log[4:])
        assert_same(stages.out, evaluate_log(LOGINS, log, max_out_of_orderness_ms=0))
        assert json.loads(stages.out["alerts"][-1])["aggregate"] == "4"


def test_stores_that_are_nearly_full_grow_one_after_the_other_before_they_must():
    other = (
        count_rule(">", 99, "1m")[1].replace(b'"ruleId": 1', b'"ruleId": 2').replace(b"userId", b"eventId")
    )
    log = [count_rule(">", 0, "1m"), ("control", other), *(login(number, 100) for number in range(17))]
    rooms = []
    with (
        patch.object(arrays, "ROOM_AT_FIRST", 16),
        InProcessEngine(Settings(LOGINS, max_out_of_orderness_ms=0)) as stages,
    ):
        for entries in (log[:15], log[15:16], log[16:17], log[17:], [login(99, 300)], [login(100, 301)]):
            stages.run_batch(entries)
            stores = next(reversed(windowstate._open.values())).windows.stores.values()
            rooms.append([len(each.arrays["events"]) for each in stores])
        whole = [*log, login(99, 300), login(100, 301)]
        assert_same(stages.out, evaluate_log(LOGINS, whole, max_out_of_orderness_ms=0))
    assert rooms == [[16, 16], [32, 16], [32, 32], [32, 32], [32, 32], [32, 32]]


def test_a_store_does_not_grow_ahead_of_batches_that_are_large_beside_it():
    log = [count_rule(">", 0, "1m"), *(login(number, 100) for number in range(16))]
    rooms = []
    with (
        patch.object(arrays, "ROOM_AT_FIRST", 16),
        InProcessEngine(Settings(LOGINS, max_out_of_orderness_ms=0)) as stages,
    ):
        for entries in (log[:16], log[16:]):
            stages.run_batch(entries)
            (held,) = next(reversed(windowstate._open.values())).windows.stores.values()
            rooms.append(len(held.arrays["events"]))
    assert rooms == [16, 32]


class Worker:
    """Another of a host's Python workers: it has the same shared memory, and windows of its own at hand."""

    def __init__(self):
        self.windows: dict = {}

    def __enter__(self):
        self.patch = patch.object(windowstate, "_open", self.windows)
        self.patch.start()

    def __exit__(self, *_):
        self.patch.stop()


def test_windows_at_hand_are_let_go_when_a_twin_has_made_the_shared_ones_anew():
    """
    batch      1      1 again   2      3
    worker     here   there     here   there
    """
    here, there = Worker(), Worker()
    with InProcessEngine(Settings(LOGINS)) as stages:
        with here:
            stages.run_batch(COUNTED[:2])
            before = stages.mark
            stages.run_batch(COUNTED[2:3])
        with there:
            stages.run_tasks(before, stages.mark)
        with here:
            stages.run_batch(COUNTED[3:])
        with there:
            stages.run_batch([login(4, 130)])
        assert_same(stages.out, evaluate_log(LOGINS, [*COUNTED, login(4, 130)]))


def test_windows_are_rebuilt_with_the_events_of_one_file_at_a_time():
    load, rows = RouteStore.load, []

    def counted(self, events, resets, *more):
        rows.append(len(events["seq"]))
        load(self, events, resets, *more)

    log = [with_reset(COUNTED[0]), *COUNTED[1:]]
    with InProcessEngine(Settings(LOGINS)) as stages:
        for entries in (log[:2], log[2:]):
            stages.run_batch(entries)
        stages.lose_memory()
        with patch.object(RouteStore, "load", counted):
            stages.run_batch([login(4, 130)])
        assert_same(stages.out, evaluate_log(LOGINS, [*log, login(4, 130)]))
    assert rows == [1, 2, 0]  # and at the end the resets


def test_a_twin_killed_while_it_rebuilds_memory_leaves_nothing_that_looks_right():
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(COUNTED[:2])
        before = stages.mark
        stages.run_batch(COUNTED[2:3])
        with (
            Worker(),
            patch.object(windowstate.RouteStore, "load", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            stages.run_tasks(before, stages.mark)
        with Worker():
            stages.run_batch(COUNTED[3:])
        assert_same(stages.out, evaluate_log(LOGINS, COUNTED))


def test_a_task_that_failed_twice_in_one_worker_does_not_trust_what_is_left_there():
    here, there = Worker(), Worker()
    with InProcessEngine(Settings(LOGINS)) as stages:
        with here:
            stages.run_batch(COUNTED[:2])
            before = stages.mark
            stages.run_batch(COUNTED[2:3])
            with (
                patch.object(windowstate.RouteStore, "evaluate_in_steps", side_effect=OSError("no space")),
                pytest.raises(OSError),
            ):
                stages.run_tasks(before, stages.mark)
        with there:
            stages.run_tasks(before, stages.mark)
        with here:
            stages.run_batch(COUNTED[3:])
        assert_same(stages.out, evaluate_log(LOGINS, COUNTED))


def test_a_state_file_that_another_machine_has_found_expired_and_removed_is_not_asked_for():
    """
    batch     0      1      2              3
    machine   here   here   there, here    here, there      there still has in its chain what is garbage here
    """
    log = [count_rule(">", 0, "1s"), login(1, 1000), login(2, 2000), login(3, 3000), login(4, 4000)]
    with InProcessEngine(Settings(LOGINS, max_out_of_orderness_ms=0)) as stages:
        here = stages.job
        there = replace(here, start_id=f"{here.start_id}-there")
        stages.run_batch(log[:2])
        for entry, machines in ((log[2], [here]), (log[3], [there, here]), (log[4], [here, there])):
            before, stages.job = stages.mark, machines[0]
            statefiles._meta.cache_clear()  # each machine has processes of its own
            stages.run_batch([entry])
            for stages.job in machines[1:]:
                statefiles._meta.cache_clear()
                stages.run_tasks(before, stages.mark)
        assert_same(stages.out, evaluate_log(LOGINS, log, max_out_of_orderness_ms=0))


def test_a_state_file_that_another_machine_has_merged_and_removed_is_not_asked_for():
    """
    batch     0 ▪    1 ▪    2 ▪        3 ▪    4 ▪
    here                    0 … 1 ▬           without 0 and 1
    there                                     still has 0 and 1 in its chain
    """
    log = [count_rule(">", 0, "5m"), *(login(number, 100 + number) for number in range(6))]
    with patch.object(statemerge, "MERGED_AT_ONCE", 2), InProcessEngine(Settings(LOGINS)) as stages:
        here = stages.job
        there = replace(here, start_id=f"{here.start_id}-there")
        for number, entries in enumerate(batches(log, range(2, len(log)))):
            before, stages.job = stages.mark, here
            stages.run_batch(entries)
            merge_now(here)
            statefiles._meta.cache_clear()
            stages.job = there
            stages.run_tasks(before, stages.mark)
            if number == 4:
                oldest, *_ = (here.folder / "state").names()
                assert oldest.startswith("000000001-000000000")
                assert {opened(job).chain[0].name for job in (here, there)} == {oldest}
        assert_same(stages.out, evaluate_log(LOGINS, log))


def test_a_state_file_that_is_lost_while_the_engine_runs_is_asked_for():
    with InProcessEngine(Settings(LOGINS)) as stages:
        for entries in (COUNTED[:2], COUNTED[2:3]):
            stages.run_batch(entries)
        (stages.job.folder / "state").remove("000000000-000000000-00000-00015.arrow")
        statefiles._meta.cache_clear()
        with pytest.raises(
            statefiles.StateFileMissing, match="000000000-000000000-00000-00015.arrow is gone"
        ):
            stages.run_batch(COUNTED[3:])


def opened(job: Job) -> windowstate.WindowState:
    """A task's windows as its worker has them at hand."""
    return windowstate.open_windows(job.settings, job.folder, shared.private_folder(job.start_id), 0, 15)


def merge_now(job: Job) -> None:
    """Does what an epoch's pauses would have done."""
    while opened(job).merge_slice():
        pass


def test_files_that_were_merged_stay_until_one_more_epoch_is_saved():
    """A twin of the epoch that wrote the merged file may have listed the folder before."""
    log = [count_rule(">", 0, "5m"), *(login(number, 100 + number) for number in range(9))]
    names = CheckpointFolder.names
    with patch.object(statemerge, "MERGED_AT_ONCE", 2), InProcessEngine(Settings(LOGINS)) as stages:
        for entries in (log[:2], log[2:3]):
            stages.run_batch(entries)
        merge_now(stages.job)
        here, before = stages.job, stages.mark
        stages._log_time += 1
        stages.logs.log("events").append([log[3][1]], stages._log_time)
        after = stages.planner.advance_mark(before, 1000)

        def goes_on_when_the_twin_has_listed(folder: CheckpointFolder) -> list[str]:
            found = names(folder)
            if stages.job is not here and folder.where == (here.folder / "state").where:
                stages.job = here
                stages.step()
                stages.run_batch([log[4]])
            return found

        stages.job = replace(here, start_id=f"{here.start_id}-there")
        with patch.object(CheckpointFolder, "names", goes_on_when_the_twin_has_listed):
            stages.run_tasks(before, after)
        assert [name[:19] for name in names(here.folder / "state")[:2]] == [
            "000000000-000000000",
            "000000001-000000000",
        ]
        for entry in log[5:]:
            stages.run_batch([entry])
        assert not {name[:19] for name in names(here.folder / "state")} & {
            f"00000000{number}-00000000{number}" for number in (0, 1)
        }
        assert_same(stages.out, evaluate_log(LOGINS, log))


def test_a_merge_of_which_a_slice_failed_is_begun_again():
    log = [count_rule(">", 0, "5m"), *(login(number, 100 + number) for number in range(9))]
    with patch.object(statemerge, "MERGED_AT_ONCE", 2), InProcessEngine(Settings(LOGINS)) as stages:
        for entries in (log[:2], log[2:3], log[3:4]):
            stages.run_batch(entries)
        with (
            patch.object(RouteStore, "seq_of_row_after", side_effect=MemoryError),
            pytest.raises(MemoryError),
        ):
            stages.run_batch([log[4]])
        stages.step()
        for entry in log[5:]:
            stages.run_batch([entry])
        assert opened(stages.job).chain[0].level > 0
        stages.lose_memory()
        stages.run_batch([login(20, 120)])
        assert_same(stages.out, evaluate_log(LOGINS, [*log, login(20, 120)]))


def test_a_driver_that_was_taken_for_dead_delivers_nothing_out_of_state_that_has_gone_on():
    log = [*COUNTED, login(4, 130), login(5, 140)]
    with patch.object(statemerge, "MERGED_AT_ONCE", 2), InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(log[:2])
        before = stages.mark
        stages.run_batch(log[2:3])
        after = stages.mark
        for entry in log[3:]:
            stages.run_batch([entry])
        stages.job = replace(stages.job, start_id=f"{stages.job.start_id}-before")
        with pytest.raises(statefiles.StaleEpoch, match="epoch 1: .* files of epoch 4 already"):
            stages.run_tasks(before, after)


def test_a_twin_that_lingers_finds_all_that_it_read_until_a_newer_file_tells_it_that_it_is_late():
    """
    batch     0        1              2 begins    1, a twin       2 writes    3
    machine   here     here           here        there           here        here, without memory
    file      of 0     of 0 … 1                   out of 0        of 2        out of 0 … 1 and 2
    """
    wider = count_rule(">", 0, "5m")[1].replace(b'"ruleId": 1', b'"ruleId": 2')
    log = [
        count_rule(">", 0, "1m"),
        login(1, 100),
        ("control", wider),
        login(2, 110),
        login(3, 120),
        login(4, 130),
    ]
    write = statefiles.StateFiles.write
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(log[:2])
        before = stages.mark
        stages.run_batch(log[2:4])
        after, here = stages.mark, stages.job

        def writes(*args):
            with Worker(), patch.object(statefiles.StateFiles, "write", write):
                stages.job = replace(here, start_id=f"{here.start_id}-there")
                stages.run_tasks(before, after)
                stages.job = here
            return write(*args)

        with patch.object(statefiles.StateFiles, "write", writes):
            stages.run_batch(log[4:5])
        stages.lose_memory()
        stages.run_batch(log[5:])
        assert_same(stages.out, evaluate_log(LOGINS, log))


def test_a_twin_that_lingers_leaves_the_memory_of_the_micro_batches_after_it_alone():
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(COUNTED[:2])
        before = stages.mark
        stages.run_batch(COUNTED[2:3])
        after = stages.mark
        stages.run_batch(COUNTED[3:])
        (note,) = shared.private_folder(stages.job.start_id).glob("*/lock")
        noted = note.read_text()
        with pytest.raises(statefiles.StaleEpoch, match="epoch 1: .* epoch 2 already"):
            stages.run_tasks(before, after)
        assert note.read_text() == noted


def test_a_note_of_which_only_a_part_was_written_vouches_for_nothing():
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(COUNTED[:2])
        (note,) = shared.private_folder(stages.job.start_id).glob("*/lock")
        note.write_bytes(note.read_bytes()[:-1])
        stages.run_batch(COUNTED[2:])
        assert_same(stages.out, evaluate_log(LOGINS, COUNTED))


@pytest.mark.parametrize("which", [0, 1])
def test_a_window_file_that_is_gone_while_the_note_vouches_for_it_is_made_again_out_of_the_state_files(which):
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(COUNTED[:2])
        files = shared.private_folder(stages.job.start_id).glob("*/*.windows")
        sorted(files)[which].unlink()
        with Worker():
            stages.run_batch(COUNTED[2:])
        assert_same(stages.out, evaluate_log(LOGINS, COUNTED))
        assert json.loads(stages.out["stats"][-1])["heldEvents"] == 3


@pytest.mark.parametrize("events", [63, 64, 65, 66, 200])
def test_duplicates_in_a_long_run_of_one_time_are_found_in_it(tmp_path, events):
    """Walked up to 64 events, looked up beyond: also after the arrays have grown and after a restart."""
    schema, book = PAYMENTS, RuleBook(PAYMENTS)
    rule = {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payeeId"],
        "aggregateFieldName": "COUNT",
    }
    book.apply(json.dumps(rule | {"limitOperatorType": ">", "limit": 10**9, "window": "10m"}))
    ((route, rules),) = book.routes().items()

    def columns(ids):
        rows = len(ids)
        same = dict.fromkeys(("keyGroup", "key:payeeId"), np.zeros(rows, np.int64))
        return {"time": np.full(rows, 5), "id": np.array(ids), **same}

    held = RouteStore(tmp_path / "a", schema, route, [], rules, 1, Settings.max_out_of_orderness_ms)
    for again in range(3):
        fates, _ = held.evaluate(columns([*range(events), 7, events - 1]), again * 10_000, 0)
        before = again > 0
        assert fates.tolist() == [2 * before] * events + [2, 2]
        assert held.arrays["scalars"][layout.TWINS] == (events if events > 64 else 0)
        if again == 0:
            held._make_room(events=5_000)
        else:
            held.compact()


@pytest.mark.parametrize("loses", [False, True])
@pytest.mark.parametrize("between", [[], [login(3, 112)]])
def test_a_reset_is_gone_when_the_filter_of_its_rule_has_changed_and_changed_back(between, loses):
    """Another rule keeps the route, so its events stay: the count begins with all of them."""
    rule = with_reset(count_rule(">", 1, "5m"))
    other = ("control", count_rule(">", 99, "5m")[1].replace(b'"ruleId": 1', b'"ruleId": 2'))
    filtered = ("control", rule[1].replace(b'{"ruleId": 1', b'{"ruleId": 1, "filter": {"action": "pay"}'))
    assert filtered != rule
    log = [rule, other, login(1, 100), login(2, 110)]  # fires and resets at event 2
    log += [filtered, *between, rule, login(4, 120)]
    reference = evaluate_log(LOGINS, log)
    assert [(alert.event_id, alert.aggregate) for alert in reference.alerts] == [
        (2, 2),
        (4, 3 + len(between)),
    ]
    for at in ([], [4], [5], [4, 5], [4, 5, len(log) - 1]):
        with InProcessEngine(Settings(LOGINS)) as stages:
            for entries in batches(log, at):
                stages.run_batch(entries)
                if loses:
                    stages.lose_memory()
            assert_same(stages.out, reference)
