"""The file of an epoch's cuts, as attempts at it write and find it."""

import os
import resource
from pathlib import Path

import pytest

from lab.engine.checkpoint.cuts import (
    FOLDER,
    CutLog,
    TakenOver,
    last_saved_loop_mark,
    loop_marks_by_cut_number,
    may_have_cuts_after_epoch,
    newest_loop_mark,
)
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lock import FolderLock
from lab.engine.loop.cut import Mark
from lab.engine.windows import shared


def mark(cut: int) -> Mark:
    return {"cut": cut, "at": 7, "events": {"0": cut}, "control": {"0": 0}, "ledger": ""}


BEGINNING = mark(0) | {"number": -1, "epoch": -1}


def attempt(folder: Path, before: Mark | None = BEGINNING) -> CutLog:
    return CutLog(CheckpointFolder(folder), before)


def saved(folder: Path) -> CutLog:
    """An attempt at the newest epoch, which it ends."""
    cuts = attempt(folder)
    cuts.end_epoch()
    cuts.mark_epoch_saved()
    return cuts


def test_the_next_attempt_has_the_same_cuts_and_the_next_epoch_begins_where_they_end(tmp_path):
    first = attempt(tmp_path)
    first.add(mark(5))
    first.add(mark(6))
    again = attempt(tmp_path)
    assert [(cut.number, cut.begin["cut"], cut.end["cut"]) for cut in again.taken] == [(0, 0, 5), (1, 5, 6)]
    again.end_epoch()
    again.mark_epoch_saved()
    following = attempt(tmp_path)
    assert (following.epoch, following.number, following.taken) == (1, 2, [])
    assert following.mark == mark(6) | {"number": 1, "epoch": 0, "stopped": again.mark["stopped"]}


def test_an_attempt_that_another_one_followed_adds_nothing_delivers_nothing_and_ends_nothing(tmp_path):
    first, second = attempt(tmp_path), attempt(tmp_path)
    for late in (lambda: first.add(mark(5)), first.check_not_taken_over, first.end_epoch):
        with pytest.raises(TakenOver, match="epoch 0 of .* has been taken over by another attempt at it"):
            late()
    second.check_not_taken_over()
    second.add(mark(6))
    assert [cut.end["cut"] for cut in attempt(tmp_path).taken] == [6]


def test_no_cut_comes_after_the_end_whoever_runs_the_epoch_again(tmp_path):
    first = attempt(tmp_path)
    first.add(mark(5))
    first.end_epoch()
    again = attempt(tmp_path)
    assert (again.epoch, again.ended, len(again.taken)) == (0, True, 1)
    again.end_epoch()
    again.mark_epoch_saved()
    again.begin_next_epoch()
    assert (again.epoch, again.number) == (1, 1)


@pytest.mark.parametrize("lost", [1, 9, 40])
def test_a_torn_record_is_no_cut_and_the_next_one_takes_its_place(tmp_path, lost):
    attempt(tmp_path).add(mark(5))
    whole = (tmp_path / FOLDER / "000000000.jsonl").read_bytes()
    torn = attempt(tmp_path)
    torn.add(mark(6))
    file = tmp_path / FOLDER / "000000000.jsonl"
    os.truncate(file, file.stat().st_size - lost)
    again = attempt(tmp_path)
    assert [cut.end["cut"] for cut in again.taken] == [5]
    again.add(mark(7))
    assert file.read_bytes().startswith(whole)
    assert [cut.end["cut"] for cut in attempt(tmp_path).taken] == [5, 7]


def test_damage_before_a_save_is_an_error_that_names_the_file(tmp_path):
    saved(tmp_path)
    file = tmp_path / FOLDER / "000000000.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"number": 0', b'"number": 1', 1))
    with pytest.raises(ValueError, match="000000000.jsonl is damaged at byte 0: restore the checkpoint"):
        attempt(tmp_path)


def test_the_next_epoch_belongs_to_whoever_began_it(tmp_path):
    first = saved(tmp_path)
    second = attempt(tmp_path)
    assert second.epoch == 1
    with pytest.raises(TakenOver, match="epoch 1 of .* has been taken over"):
        first.begin_next_epoch()
    second.add(mark(5))


def test_an_attempt_that_stood_still_until_its_epoch_was_removed_does_not_make_it_anew(tmp_path, monkeypatch):
    first = saved(tmp_path)
    names = CheckpointFolder.names

    def stands_still(self):
        monkeypatch.setattr(CheckpointFolder, "names", names)
        found = self.names()
        for _ in range(3):
            saved(tmp_path)
        return found

    monkeypatch.setattr(CheckpointFolder, "names", stands_still)
    late = None
    with pytest.raises(TakenOver):
        late = attempt(tmp_path)
    assert late is None and first.epoch == 0


def test_files_of_epochs_before_the_last_two_go(tmp_path):
    for _ in range(4):
        saved(tmp_path)
    assert CheckpointFolder(tmp_path / FOLDER).names() == ["000000002.jsonl", "000000003.jsonl"]


@pytest.mark.parametrize("torn", [0, 1, 30, 10_000])
def test_an_epoch_that_began_with_a_torn_record_begins_again(tmp_path, torn):
    cuts = attempt(tmp_path)
    cuts.add(mark(5))
    cuts.end_epoch()
    cuts.mark_epoch_saved()
    cuts.begin_next_epoch()
    file = tmp_path / FOLDER / "000000001.jsonl"
    first = file.read_bytes().splitlines(keepends=True)[0]
    file.write_bytes(first[: max(len(first) - torn, 0)])
    again = attempt(tmp_path)
    assert (again.epoch, again.number, again.mark["cut"]) == (1, 1, 5)
    again.add(mark(6))
    assert [cut.end["cut"] for cut in attempt(tmp_path).taken] == [6]


def test_epochs_that_the_driver_ran_meanwhile_count(tmp_path):
    saved(tmp_path)
    after = mark(9) | {"number": 4, "epoch": 3}
    cuts = attempt(tmp_path, after)
    assert (cuts.epoch, cuts.number, cuts.mark) == (4, 5, after)
    cuts.add(mark(10))
    assert [cut.number for cut in attempt(tmp_path, after).taken] == [5]


def test_an_attempt_of_an_earlier_start_is_refused(tmp_path):
    checkpoint = CheckpointFolder(tmp_path)
    CutLog(checkpoint, BEGINNING, "000000001-a").add(mark(5))
    later = CutLog(checkpoint, BEGINNING, "000000002-b")
    with pytest.raises(TakenOver, match="a later start has begun, under lease 000000002-b"):
        CutLog(checkpoint, BEGINNING, "000000001-a")
    later.end_epoch()
    later.mark_epoch_saved()
    with pytest.raises(TakenOver, match="a later start has begun"):
        CutLog(checkpoint, None, "000000001-a")


def test_what_an_earlier_start_left_is_known_until_a_later_one_has_taken_it_over(tmp_path):
    checkpoint, folder = CheckpointFolder(tmp_path), CheckpointFolder(tmp_path / FOLDER)
    assert not may_have_cuts_after_epoch(folder, -1, "2")
    cuts = CutLog(checkpoint, BEGINNING, "1")
    assert may_have_cuts_after_epoch(folder, -1, "2") and may_have_cuts_after_epoch(folder, -1, "1")
    cuts.end_epoch()
    cuts.mark_epoch_saved()
    assert may_have_cuts_after_epoch(folder, -1, "2")
    assert not may_have_cuts_after_epoch(folder, 0, "2")
    later = CutLog(checkpoint, None, "2")
    later.end_epoch()
    later.mark_epoch_saved()
    assert may_have_cuts_after_epoch(folder, -1, "2")
    later.close_to_tasks()
    assert not may_have_cuts_after_epoch(folder, -1, "2")
    assert may_have_cuts_after_epoch(folder, -1, "3")


def test_nobody_begins_an_epoch_that_the_driver_has_closed(tmp_path):
    checkpoint = CheckpointFolder(tmp_path)
    cuts, twin = CutLog(checkpoint, BEGINNING, "1"), CutLog(checkpoint, BEGINNING, "1")
    twin.end_epoch()
    twin.mark_epoch_saved()
    twin.close_to_tasks()
    with pytest.raises(TakenOver, match="epoch 1 of .* is the driver's"):
        CutLog(checkpoint, None, "1")
    with pytest.raises(TakenOver):
        cuts.end_epoch()
    late = CutLog(checkpoint, BEGINNING, "2")
    assert (late.epoch, late.number) == (1, 0)


def test_the_driver_does_not_close_what_a_twin_has_begun(tmp_path):
    cuts = saved(tmp_path)
    attempt(tmp_path)
    with pytest.raises(TakenOver):
        cuts.close_to_tasks()


def test_without_a_file_there_is_no_telling_where_it_begins(tmp_path):
    with pytest.raises(ValueError, match="has no cuts: the checkpoint is not whole"):
        attempt(tmp_path, None)


def test_the_last_saved_epoch_is_not_the_one_that_runs(tmp_path):
    folder = CheckpointFolder(tmp_path / FOLDER)
    assert last_saved_loop_mark(folder) is None
    cuts = attempt(tmp_path)
    cuts.add(mark(5))
    cuts.end_epoch()
    assert last_saved_loop_mark(folder) is None
    cuts.mark_epoch_saved()
    ended = cuts.mark
    cuts.begin_next_epoch()
    cuts.add(mark(6))
    assert (
        last_saved_loop_mark(folder)
        == ended
        == mark(5) | {"number": 0, "epoch": 0, "stopped": ended["stopped"]}
    )


def test_the_last_saved_epoch_may_be_one_of_the_driver(tmp_path):
    """The loop began after it, and was stopped before it saved anything."""
    of_driver = mark(5) | {"number": 3, "epoch": 2}
    for _ in range(2):
        attempt(tmp_path, of_driver)
        assert last_saved_loop_mark(CheckpointFolder(tmp_path / FOLDER)) == of_driver


@pytest.mark.parametrize("torn", [0, 1, 30])
def test_the_newest_cut_is_the_last_whole_one(tmp_path, torn):
    folder = CheckpointFolder(tmp_path / FOLDER)
    assert newest_loop_mark(folder) is None
    running = saved(tmp_path)
    assert newest_loop_mark(folder)["cut"] == 0
    running.begin_next_epoch()
    for cut in (5, 7):
        running.add(mark(cut))
    file = tmp_path / FOLDER / "000000001.jsonl"
    file.write_bytes(file.read_bytes()[: -torn or None])
    assert (
        newest_loop_mark(folder) == mark(5 if torn else 7) == max(loop_marks_by_cut_number(folder).items())[1]
    )


def test_what_an_epoch_may_not_do_is_an_error_before_anything_is_written(tmp_path):
    cuts = attempt(tmp_path)
    cuts.add(mark(5))
    for wrong in (lambda: cuts.add(mark(4)), cuts.mark_epoch_saved, cuts.begin_next_epoch):
        with pytest.raises(AssertionError):
            wrong()
    cuts.end_epoch()
    with pytest.raises(AssertionError, match="no cut comes after the end"):
        cuts.add(mark(6))
    assert [cut.end["cut"] for cut in attempt(tmp_path).taken] == [5]


def test_two_hosts_that_write_a_file_of_a_shared_folder_do_not_disturb_each_other(tmp_path, monkeypatch):
    """An attempt that stood still, and the one that followed it, may have the same process id in two containers."""
    folder, replace = CheckpointFolder(f"file://{tmp_path}"), os.replace

    def after_the_other(*names: str) -> None:
        monkeypatch.setattr(os, "replace", replace)
        folder.write("state", b"the other's")
        replace(*names)

    monkeypatch.setattr(os, "replace", after_the_other)
    folder.write("state", b"mine")
    assert folder.read("state") == b"mine" and os.listdir(tmp_path) == ["state"]


def test_a_file_that_does_not_fit_leaves_no_part_of_itself(tmp_path):
    """Else each attempt on a full disk would leave another part under a hidden name."""
    folder, limits = CheckpointFolder(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    folder.write("state", b"whole")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=f"File too large: '{tmp_path}/"):
            folder.write("state", b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == ["state"] and folder.read("state") == b"whole"


@pytest.mark.parametrize("write", ["append", "lock", "memory"])
def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch, write):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/"):
        if write == "append":
            CheckpointFolder(tmp_path).append_if_unchanged("cuts", 0, 0, b"one")
        elif write == "lock":
            FolderLock(tmp_path)
        else:
            shared.create_arrays(tmp_path / "arrays", {"times": ("int64", (8,))})
