"""Which state files hold what, by a model that looks at one key-group at a time."""

import itertools
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.windows import shared, statemerge, windowstate
from lab.engine.windows.statefiles import (
    StaleEpoch,
    StateFile,
    StateFileMissing,
    StateFiles,
    choose_files,
    stores_to_table,
)
from lab.engine.windows.statemerge import plan_merge
from lab.model.keygroups import key_group_of
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import assert_same, count_rule, login

KEY_GROUPS = 6


def random_files(rng: Random) -> list[StateFile]:
    """What tasks leave behind that merge now and then, of parallelisms that change, some of them twice."""
    files = []
    for batch in range(rng.randrange(1, 8)):
        tasks = rng.randint(1, 4)
        bounds = [-(-task * KEY_GROUPS // tasks) for task in range(tasks + 1)]
        for low, high in itertools.pairwise(bounds):
            if rng.random() < 0.8:
                files.append(StateFile(batch, rng.randint(max(batch - 3, 0), batch), low, high - 1))
                if high < KEY_GROUPS and rng.random() < 0.3:
                    files.append(files[-1]._replace(high_key_group=high))
    return files


def test_a_merge_after_a_rescale_takes_all_files_of_its_epochs():
    """Four batches of two tasks, then one task: eight files, of which the seven oldest would leave half of the last batch."""
    log = [count_rule(">", 0, "30m"), *(login(number, number, user=number) for number in range(1, 71))]
    with (
        patch.object(statemerge, "MERGED_AT_ONCE", 7),
        InProcessEngine(Settings(LOGINS, parallelism=2)) as stages,
    ):
        for first in range(0, 40, 10):
            stages.run_batch(log[first : first + 10])
        assert len((stages.job.folder / "state").names()) == 8
        rescaled(stages, 1, "")
        one = windowstate.open_windows(
            stages.settings, stages.job.folder, shared.private_folder(stages.job.start_id), 0, 15
        )
        stages.run_batch(log[40:50])
        assert [len(one.chain), *plan_merge(one.chain, 0)] == [9, 0, 8, 1]
        while one.merge_slice():
            pass
        stages.run_batch(log[50:60])
        assert [(file.first_epoch, file.last_epoch) for file in one.chain] == [(0, 3), (4, 4), (5, 5)]
        stages.lose_memory()
        stages.run_batch(log[60:])
        assert_same(stages.out, evaluate_log(LOGINS, log))


def serving(files: list[StateFile], upto: int, key_group: int, own: tuple[int, int]) -> list[str]:
    """The files of one key-group, newest first: the newest, of those the one that reaches furthest back, then what was before."""
    names, wanted = [], upto
    while mine := [
        file
        for file in files
        if file.last_epoch <= wanted and file.low_key_group <= key_group <= file.high_key_group
    ]:
        best = min(
            mine,
            key=lambda file: (
                -file.last_epoch,
                file.first_epoch,
                (file.low_key_group, file.high_key_group) != own,
                file.low_key_group,
            ),
        )
        names.append(best.name)
        wanted = best.first_epoch - 1
    return names


def test_each_key_group_is_read_from_the_files_that_hold_it_and_from_no_other():
    rng = Random(5)
    for _ in range(2000):
        files, upto = random_files(rng), rng.randrange(8)
        low = rng.randrange(KEY_GROUPS)
        high = rng.randrange(low, KEY_GROUPS)
        found, idle = choose_files([file.name for file in files], upto, low, high)
        for key_group in range(KEY_GROUPS):
            wanted = serving(files, upto, key_group, (low, high))
            assert not set(wanted) & set(idle)
            got = [file.name for file in found[::-1] if key_group in file.key_groups_to_read]
            assert got == (wanted if low <= key_group <= high else [])


def rows_of(batch: int, key_groups: list[int], resets: Sequence[int] = ()) -> pa.Table:
    """An event for each of some key-groups, then resets; an event's time is its seq."""
    seq, reset_seq = ((batch << 32) + np.arange(len(of)) for of in (key_groups, resets))
    events = {"time": seq, "id": seq, "seq": seq, "keyGroup": np.array(key_groups, np.int64)}
    ones, groups = np.ones(len(resets), np.int64), np.array(resets, np.int64)
    return stores_to_table(
        [(0, events, {"rule": ones, "seq": reset_seq, "keyGroup": groups, "joined": ones})]
    )


def test_of_a_file_that_another_has_replaced_in_part_only_the_rest_is_read(tmp_path):
    whole, half = StateFiles(CheckpointFolder(tmp_path), 0, 3), StateFiles(CheckpointFolder(tmp_path), 0, 1)
    whole.write(0, 0, 0, rows_of(0, [0, 1, 2, 3]))
    # after a rescale: of two key-groups, with what batch 0 stored of them
    half.write(1, 0, 1, rows_of(0, [0, 1]))
    StateFiles(CheckpointFolder(tmp_path), 2, 3).write(1, 1, 0, rows_of(1, []))
    held = [whole.read(file)["keyGroup"].to_pylist() for file in whole.find(1)[0]]
    assert sorted(held) == [[], [0, 1], [2, 3]]
    assert half.read(StateFile(1, 0, 0, 1, key_groups_to_read=(1,)))["keyGroup"].to_pylist() == [1]


def test_a_file_that_a_late_attempt_wrote_again_is_not_read_if_the_newest_needs_none_of_its_epoch(tmp_path):
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    late = files.write(1, 1, 0, rows_of(1, [0, 2]))
    files.write(4, 4, 0, rows_of(4, [1]), first_epochs_needed=(4, 4, 4, 4))
    (newest,), idle = files.find(4)
    assert (newest.last_epoch, newest.first_epochs_needed, idle) == (4, (4, 4, 4, 4), [late.name])
    # of several tasks each tells of its own key-groups: after a rescale the file is still wanted by the other one
    half, other = (StateFiles(CheckpointFolder(tmp_path), *own) for own in ((0, 1), (2, 3)))
    half.write(5, 5, 0, rows_of(5, []), first_epochs_needed=(4, 4))
    other.write(5, 5, 0, rows_of(5, []), first_epochs_needed=(1, 1))
    assert [file.last_epoch for file in half.find(5)[0]] == [4, 5]
    of_others = [(1, (2, 3)), (4, (2, 3)), (5, (2, 3))]
    assert [(file.last_epoch, file.key_groups_to_read) for file in other.find(5)[0]] == of_others
    # and so does one task after them
    files.write(6, 6, 0, rows_of(6, []), first_epochs_needed=(4, 4, 1, 1))
    assert [(file.last_epoch, file.key_groups_to_read) for file in files.find(6)[0]] == [
        (1, (2, 3)),
        (4, (0, 1, 2, 3)),
        (5, (2, 3)),
        (5, (0, 1)),
        (6, (0, 1, 2, 3)),
    ]


@pytest.mark.parametrize("needed", [(4, 1), (4, 1, 1, "1.5")])
def test_a_file_that_tells_the_first_epochs_of_other_key_groups_is_damaged(tmp_path, needed):
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    with patch.object(json, "dumps", lambda of, dumps=json.dumps: dumps(of | {"since": needed})):
        written = files.write(0, 0, 0, rows_of(0, []))
    with pytest.raises(ValueError, match=f"{written.name} is no state file, or a damaged one"):
        files.find(0)


def test_a_file_with_any_byte_changed_is_damaged_and_says_so(tmp_path):
    """On a disk, or in a copy. Before, another time or amount of an event gave other alerts without a word."""
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    file = files.write(0, 0, 0, rows_of(0, list(range(4)) * 30, resets=[1]), newest_times_ms=[77])
    whole = files.folder.read(file.name)
    for at in range(len(whole)):
        files.folder.write(file.name, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=f"{file.name} is no state file, or a damaged one"):
            files.find(0) if at % 10 == 0 else files.read(file)
    files.folder.write(file.name, whole)
    assert files.read(file).num_rows == 121 and files.find(0)[0] == [file]


def test_a_file_tells_what_it_holds_in_its_head(tmp_path):
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    file = files.write(0, 0, 0, rows_of(0, [2, 0, 2], resets=[1]))
    assert files.newest_event_ms_by_store_and_key_group(file) == [[0, 0, 1], [0, 2, 2]]
    assert file.event_count == 3 and files.bytes_by_key_group(file) == {
        0: file.size_bytes / 3,
        2: file.size_bytes * 2 / 3,
    }
    assert files.find(0) == ([file._replace(key_groups_to_read=(0, 1, 2, 3))], [])


def test_a_file_tells_the_newest_events_of_the_log(tmp_path):
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    files.write(0, 0, 0, rows_of(0, [2, 0, 2]), [77, 75])
    files.write(1, 1, 0, rows_of(1, []), [78, 77])
    assert [file.newest_times_ms for file in files.find(1)[0]] == [(77, 75), (78, 77)]


def test_the_files_of_a_batch_are_all_there_or_the_checkpoint_is_not_whole(tmp_path):
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    assert files.find(-1) == ([], [])
    StateFiles(CheckpointFolder(tmp_path), 0, 2).write(0, 0, 0, rows_of(0, []))
    with pytest.raises(StateFileMissing, match="what epoch 0 left of key-groups 3 … 3 is gone"):
        files.find(0)


def test_who_begins_a_batch_that_is_long_done_is_told_so(tmp_path):
    files = StateFiles(CheckpointFolder(tmp_path), 0, 3)
    for batch in (0, 1):
        files.write(batch, batch, 0, rows_of(batch, []))
    files.write(2, 0, 1, rows_of(2, []))
    assert [file.last_epoch for file in files.find(1)[0]] == [0, 1]  # batch 2 runs again
    assert [file.last_epoch for file in files.find(0, begins_next_epoch=False)[0]] == [0]
    with pytest.raises(StaleEpoch, match="epoch 1: .* has files of epoch 2 already"):
        files.find(0)


@pytest.mark.parametrize(
    "levels, merged",
    [
        ([0] * 7, None),
        ([0] * 8, (0, 8, 1)),
        ([0] * 20, (0, 8, 1)),
        ([1] + [0] * 8, (1, 9, 1)),
        ([1] * 7 + [0] * 7, None),
        ([1] * 8 + [0] * 9, (0, 8, 2)),
        ([2] + [1] * 3 + [0] * 9, (4, 12, 1)),
        ([1, 0, 1] * 8, None),
    ],
)
def test_eight_files_of_a_level_make_one_of_the_next(levels, merged):
    chain = [StateFile(n, n, 0, 3, level, event_count=5) for n, level in enumerate(levels)]
    assert plan_merge(chain, 5) == merged


def test_what_is_too_large_is_not_merged_and_the_next_files_are():
    sizes = [100_000] * 3 + [5] * 8
    chain = [StateFile(n, n, 0, 3, event_count=size) for n, size in enumerate(sizes)]
    assert plan_merge(chain, 5) == (2, 10, 1)
    assert plan_merge(chain[:8], 5) is None
    assert plan_merge(chain, 50_000) == (0, 8, 1)


def test_files_of_the_same_epochs_are_merged_together():
    """
    files of both tasks   0…1 ▬  2 ▪  3…4 ▬
    files of others       0…1 ▬  2…4 ▬           and one after another from 5 on
    """
    ranges = [(0, 1), (0, 1), (2, 2), (3, 4), (2, 4), *((n, n) for n in range(5, 12))]
    chain = [StateFile(last, first, 0, 3, event_count=1) for first, last in ranges]
    with patch.object(statemerge, "MERGED_AT_ONCE", 3):
        assert plan_merge(chain, 0) == (0, 5, 1)
        assert plan_merge(chain[1:4], 0) == (0, 3, 1)
        assert plan_merge([chain[2]._replace(level=1), *chain[3:]], 0) == (0, 4, 2)


@pytest.mark.parametrize("seconds, lost", [(30, True), (90, False)])
def test_a_file_that_is_gone_between_others_is_a_loss_unless_those_before_it_have_expired(seconds, lost):
    with InProcessEngine(Settings(LOGINS, key_groups=1, max_out_of_orderness_ms=0)) as stages:
        stages.run_batch([count_rule(">=", 3, "1m")])
        for number, at in enumerate((0, 10, seconds)):
            stages.run_batch([login(number, at)])
        (gone,) = stages.job.folder.path.glob("state/000000002-000000002-*")
        gone.unlink()
        stages.lose_memory()
        with (
            pytest.raises(StateFileMissing, match="what came after 000000001-.* is gone")
            if lost
            else nullcontext()
        ):
            stages.run_batch([login(4, seconds)])


def rescaled(stages: InProcessEngine, parallelism: int, start: str) -> None:
    """The next start, with memory of its own."""
    of = replace(stages.settings, parallelism=parallelism)
    stages.settings, stages.job = (
        of,
        replace(stages.job, settings=of, start_id=f"{stages.job.start_id}{start}"),
    )
    stages.planner.settings = of


def test_what_a_narrow_window_let_go_does_not_come_back_out_of_a_file_of_before_a_rescale():
    """
    parallelism  1      2                                              2, memory lost
    files        0…1 ▪  0 ▬ (merged), which expires;  0 ▬ (rewritten)  0…1 ▪ is still there, as 1 needs it
    """
    wide, narrow = count_rule(">", 0, "5m"), count_rule(">", 0, "1s")
    log = [wide, login(1, 100), login(2, 110), narrow, login(3, 200), wide, login(4, 210)]
    settings = Settings(LOGINS, key_groups=2, max_out_of_orderness_ms=0)
    with patch.object(statemerge, "MERGED_AT_ONCE", 2), InProcessEngine(settings) as stages:
        stages.run_batch(log[:2])
        rescaled(stages, 2, "a")
        for entries in (log[2:3], log[3:5], log[5:6]):
            stages.run_batch(entries)
        rescaled(stages, 2, "b")
        stages.run_batch(log[6:])
        assert_same(stages.out, evaluate_log(LOGINS, log, key_groups=2, max_out_of_orderness_ms=0))


def test_a_file_that_hides_what_was_let_go_stays_as_long_as_there_is_something_to_hide():
    """
    parallelism  1      2                                                             2, memory lost
    files        0…1 ▪  0 ▬ (rewritten, hides the first), which expires;  0 ▪         0…1 ▪ must not come back
    """
    wide, narrow = count_rule(">", 0, "5m"), count_rule(">", 0, "1s")
    log = [wide, login(1, 100), narrow, login(2, 200, user=None), wide, login(3, 201, user=None)]
    log += [login(4, 202, user=None), login(5, 210)]
    settings = Settings(LOGINS, key_groups=2, max_out_of_orderness_ms=0)
    with InProcessEngine(settings) as stages:
        stages.run_batch(log[:2])
        rescaled(stages, 2, "a")
        for entry in log[2:7]:
            stages.run_batch([entry])
        rescaled(stages, 2, "b")
        stages.run_batch(log[7:])
        assert_same(stages.out, evaluate_log(LOGINS, log, key_groups=2, max_out_of_orderness_ms=0))


def test_a_file_that_one_task_has_replaced_stays_for_the_other_that_needs_it():
    """
    parallelism  1           2                                     2, memory lost
    files        0…1 ▪       0 ▪ ▬ (merged) ▪      0 has no more use for the first file,
                             1 ▪ ▪          ▪      1 has, as together with what follows it is too large to be merged
    """
    users = {key_group_of((user,), 2): user for user in range(9)}
    rule = count_rule(">", 0, "5m")
    log = [rule, *(login(number, 100 + number, user=users[number % 2]) for number in range(3))]
    log += [
        login(3, 103, users[1]),
        login(4, 104, users[1]),
        *(login(5 + n, 105 + n, users[1]) for n in range(3)),
    ]
    settings = Settings(LOGINS, key_groups=2)
    with (
        patch.object(statemerge, "MERGED_AT_ONCE", 3),
        patch.object(statemerge, "EVENTS_AT_MOST", 4),
        InProcessEngine(settings) as stages,
    ):
        stages.run_batch(log[:4])
        rescaled(stages, 2, "a")
        for entries in (log[4:6], log[6:7], log[7:8]):
            stages.run_batch(entries)
        stages.lose_memory()
        stages.run_batch(log[8:])
        assert_same(stages.out, evaluate_log(LOGINS, log, key_groups=2))


def test_one_task_after_two_holds_each_event_once():
    """
    parallelism  1          2           1
    files        0…1 ▪      0 ▬ (merged)
                            1 nothing
    """
    rule = count_rule(">", 0, "5m")
    log = [rule, *(login(number, 100 + number, user=number % 7) for number in range(7))]
    log += [login(10 + number, 110 + number) for number in range(3)]
    log += [login(20 + number, 120 + number, user=number % 7) for number in range(7)]
    with InProcessEngine(Settings(LOGINS, key_groups=2)) as stages:
        stages.run_batch(log[:8])
        for number, entries in enumerate((log[8:9], log[9:10], log[10:11], log[11:])):
            rescaled(stages, 1 if number == 3 else 2, f"{number}")
            stages.run_batch(entries)
        assert_same(stages.out, evaluate_log(LOGINS, log, key_groups=2))


def test_memory_knows_of_each_file_the_key_groups_for_which_it_is_read():
    """The file of one of two tasks has half of what the one task after them keeps."""
    log = [count_rule(">", 0, "5m"), *(login(number, 100 + number, user=number) for number in range(9))]
    with InProcessEngine(Settings(LOGINS, key_groups=2, parallelism=2)) as stages:
        stages.run_batch(log[:6])
        rescaled(stages, 1, "")
        for entry in log[6:]:
            stages.run_batch([entry])
        memory = shared.private_folder(stages.job.start_id)
        state = windowstate.open_windows(stages.job.settings, stages.job.folder, memory, 0, 1)
        read = {(file.low_key_group, file.high_key_group, file.key_groups_to_read) for file in state.chain}
        assert read == {(0, 0, (0,)), (1, 1, (1,)), (0, 1, (0, 1))}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_events_that_tasks_before_a_rescale_gave_one_number_are_merged_in_slices_of_any_size(rows):
    """Each task numbers its events by itself, so a slice may end within the events of one number."""
    users = [next(user for user in range(99) if key_group_of((user,), 3) == group) for group in range(3)]
    log = [count_rule(">", 0, "30m"), *(login(n, 100 + n, user=users[n % 3]) for n in range(27))]
    with (
        patch.object(statemerge, "MERGED_AT_ONCE", 4),
        patch.object(statemerge, "SLICE_ROWS", rows),
        InProcessEngine(Settings(LOGINS, parallelism=3, key_groups=3)) as stages,
    ):
        stages.run_batch(log[:10])
        rescaled(stages, 1, "a")
        for first in range(10, 25, 3):
            stages.run_batch(log[first : first + 3])
        one = windowstate.open_windows(
            stages.settings, stages.job.folder, shared.private_folder(stages.job.start_id), 0, 2
        )
        slices = 0
        while one.merge_slice():
            assert (slices := slices + 1) < 200, "it comes to an end"
        stages.lose_memory()
        stages.run_batch(log[25:])
        assert_same(stages.out, evaluate_log(LOGINS, log, key_groups=3))
