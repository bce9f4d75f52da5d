"""The file of an epoch's cuts, as attempts at it write and find it."""

import os
from pathlib import Path

import pytest

from lab.engine.cut import Mark
from lab.engine.cuts import FOLDER, Cuts, TakenOver, newest, written
from lab.engine.durable import Durable


def mark(cut: int) -> Mark:
    return {"cut": cut, "at": 7, "events": {"0": cut}, "control": {"0": 0}, "ledger": ""}


def attempt(folder: Path, epoch: int = 0) -> Cuts:
    return Cuts(Durable(folder), epoch, lambda: mark(0))


def test_the_next_attempt_has_the_same_cuts_and_the_next_epoch_begins_where_they_end(tmp_path):
    first = attempt(tmp_path)
    first.add(mark(5))
    first.add(mark(6))
    again = attempt(tmp_path)
    assert [(cut.number, cut.begin["cut"], cut.end["cut"]) for cut in again.taken] == [(0, 0, 5), (1, 5, 6)]
    again.end()
    following = attempt(tmp_path, 1)
    assert (following.mark, following.number, following.taken) == (mark(6) | {"number": 1}, 2, [])


def test_an_attempt_that_another_one_followed_adds_nothing_delivers_nothing_and_ends_nothing(tmp_path):
    first, second = attempt(tmp_path), attempt(tmp_path)
    for late in (lambda: first.add(mark(5)), first.check, first.end):
        with pytest.raises(TakenOver, match="epoch 0 of .* has been taken over by another attempt at it"):
            late()
    second.check()
    second.add(mark(6))
    assert [cut.end["cut"] for cut in attempt(tmp_path).taken] == [6]


def test_no_cut_comes_after_the_end_whoever_runs_the_epoch_again(tmp_path):
    first = attempt(tmp_path)
    first.add(mark(5))
    first.end()
    again = attempt(tmp_path)
    assert again.ended
    again.end()
    assert attempt(tmp_path, 1).number == 1


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


def test_damage_before_the_last_record_is_an_error_that_names_the_file(tmp_path):
    attempt(tmp_path).add(mark(5))
    file = tmp_path / FOLDER / "000000000.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"number": 0', b'"number": 1', 1))
    with pytest.raises(ValueError, match="000000000.jsonl is damaged at byte 0: restore the checkpoint"):
        attempt(tmp_path)


def test_an_epoch_before_the_newest_is_not_run_again(tmp_path):
    first = attempt(tmp_path)
    first.end()
    attempt(tmp_path, 1)
    with pytest.raises(TakenOver, match="epoch 1 has begun"):
        attempt(tmp_path)


def test_files_of_epochs_before_the_last_two_go(tmp_path):
    for epoch in range(4):
        attempt(tmp_path, epoch).end()
    assert Durable(tmp_path / FOLDER).names() == ["000000002.jsonl", "000000003.jsonl"]


def test_an_epoch_whose_predecessor_has_no_end_does_not_begin(tmp_path):
    attempt(tmp_path)
    with pytest.raises(ValueError, match="000000000.jsonl has no end: the checkpoint is not whole"):
        attempt(tmp_path, 1)


@pytest.mark.parametrize("torn", [0, 1, 30])
def test_the_newest_cut_is_the_last_whole_one(tmp_path, torn):
    folder = Durable(tmp_path / FOLDER)
    assert newest(folder) is None
    attempt(tmp_path).end()
    assert newest(folder) == mark(0)
    running = attempt(tmp_path, 1)
    for cut in (5, 7):
        running.add(mark(cut))
    file = tmp_path / FOLDER / "000000001.jsonl"
    file.write_bytes(file.read_bytes()[: -torn or None])
    assert newest(folder) == mark(5 if torn else 7) == max(written(folder).items())[1]
