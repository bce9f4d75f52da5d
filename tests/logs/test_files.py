"""Logs in folders: one order for all writers, work only for what is new, and whole appends whatever dies."""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread, Timer

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.logs import files, writer
from lab.logs.files import FileLog, PositionExpired, join_lines
from lab.logs.index import ROW, ROWS_AT_ONCE, AppendRow, Batch, BatchConflict, SegmentIndex, writer_id
from lab.logs.positions import Record
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.times import DAY_MS

FORK, SPAWN = get_context("fork"), get_context("spawn")


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    return FileLog(tmp_path / "a log" / "events")


@pytest.fixture
def small(monkeypatch):
    """Segments of about 40 bytes."""
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 40)


def lines_of(log: FileLog) -> list[str]:
    """The log as `cat *.jsonl` shows it."""
    return [line for file in sorted(log.folder.glob("*.jsonl")) for line in file.read_text().splitlines()]


# -- the faults of the layout before: a file for each append, found by listing the folder --------------------------------


def test_a_tail_loses_nothing_of_two_writers(log):
    """
    log time   1   5   10
    first      a   c         c is appended after b was read: it comes behind b, with log time 10
    second             b
    """
    second, tail = FileLog(log.folder), log.tail()
    log.append(["a"], log_time_ms=1)
    second.append(["b"], log_time_ms=10)
    assert tail.read() == ["a", "b"]
    log.append(["c"], log_time_ms=5)
    assert tail.records() == [Record(10, "", "c")]
    assert log.read() == ["a", "b", "c"]


def test_append_and_tail_list_no_folder(log, monkeypatch):
    tail = log.tail()
    log.append(["a"])
    tail.read()
    monkeypatch.delattr(os, "scandir")
    monkeypatch.delattr(os, "listdir")
    log.append(["b"])
    log.put_batch_once("engine", 1, join_lines(["c"]), 0)
    assert tail.read() == ["b", "c"] and log.end(before_ms=1) == log.start() == 0


def test_what_is_new_is_all_that_is_read(log, monkeypatch):
    log.append(["x" * 1000] * 1000, log_time_ms=1)
    for number in range(1000):
        log.put_batch_once("engine", number, join_lines([str(number)]), 0)
    tail, read = log.tail(new=True), []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *given: read.append(given[1]) or pread(*given))
    log.put_batch_once("engine", 1000, join_lines(["new"]), 0)
    log.append(["newer"])
    assert [record.line for record in tail.records()] == ["new", "newer"]
    assert log.end(before_ms=2) == 1001 * 1000
    assert sum(read) < 5000  # an index of 32,000 bytes, lines of a million


def test_a_tail_to_which_nothing_comes_opens_no_file(log, monkeypatch):
    log.append(["a"])
    tail = log.tail(new=True)
    tail.read()
    monkeypatch.delattr(os, "open")
    monkeypatch.delattr("builtins.open")
    assert tail.read() == [] and tail.records() == []


# -- what a log says of itself -------------------------------------------------------------------------------------------


def test_a_log_that_is_empty_is_one(log):
    assert log.read() == [] and log.tail().records() == []
    assert log.start() == log.end() == log.end(before_ms=10**15) == log.append([]) == 0
    assert log.read_bytes(0, 0) == b"" and len(log.append_ends_and_times_arrays(0, 0)[0]) == 0
    log.put_batch_once("engine", 1, join_lines([]), 0)
    log.expire(0)
    assert log.publish([], []) == [] and lines_of(log) == []


def test_reading_makes_no_folder_and_sees_a_log_begin(log):
    tail = log.tail()
    assert (
        tail.read() == []
        and log.read() == []
        and log.end_after_running_appends() == log.end(before_ms=1) == 0
    )
    log.expire(0)
    assert not log.folder.parent.exists()
    log.append(["a"])
    assert tail.read() == ["a"]


def test_the_newest_lines_are_whole(log):
    assert log.newest(1) == []
    log.append(["a", "b"])
    assert log.newest(1) == ["a", "b"]
    log.append([f"{number:09}" for number in range(200)])
    assert log.newest(1) == [f"{number:09}" for number in range(98, 200)]
    assert [record.line for record in log.newest_records(1)] == log.newest(1)
    log.append(["x" * 3000])  # nothing begins in the last KiB
    assert log.newest(1) == [] == log.newest_records(1)


def test_positions_and_log_times_of_appends(log):
    assert log.append(["one", b"two\r\n"], log_time_ms=5) == 0
    assert log.append(["drei\n"], log_time_ms=7) == 8
    ends, log_times = log.append_ends_and_times_arrays(0, log.end())
    assert ends.tolist() == [8, 13] and log_times.tolist() == [5, 7]
    assert [log.end(before) for before in (5, 6, 7, 8, None)] == [0, 8, 8, 13, 13]
    for span, appends in {(0, 7): 1, (0, 8): 1, (8, 13): 1, (9, 12): 1, (7, 9): 2, (8, 8): 0}.items():
        assert len(log.append_ends_and_times_arrays(*span)[0]) == appends
    assert log.read_bytes(8, 12) == b"drei"
    with pytest.raises(ValueError, match="ends at 13: there is no position 14 yet"):
        log.read_bytes(0, 14)


def test_a_reader_starts_where_a_line_begins_and_nowhere_else(log):
    log.append(["one", "two"])
    log.append(["three"])
    assert [log.tail(at={0: start}).read() for start in (0, 4, 8, 14)] == [
        ["one", "two", "three"],
        ["two", "three"],
        ["three"],
        [],
    ]
    for between in (1, 3, 5, 13):
        with pytest.raises(ValueError, match=f"no line begins at position {between}"):
            log.tail(at={0: between})
    few = log.tail()
    assert [few.read(at_most=1) for _ in range(2)] == [["one", "two", "three"], []]


def test_places_are_lines_of_a_segment(log, small):
    assert log.publish(["a", "b"], ["", ""]) == [f"events/{0:020d}.jsonl:{line}" for line in (1, 2)]
    assert log.publish(["c" * 40], [""]) == [f"events/{0:020d}.jsonl:3"]
    assert log.publish(["d", "e"], ["", ""]) == [f"events/{45:020d}.jsonl:{line}" for line in (1, 2)]
    for order in ([0, 2, 4, 45, 47], [47, 45, 4, 2, 0]):
        assert [int(log.place(at).rpartition(":")[2]) for at in order] == [
            (1, 2, 3, 1, 2)[[0, 2, 4, 45, 47].index(at)] for at in order
        ]
    assert len(lines_of(log)) == 5


def test_lines_are_divided_by_line_feeds_only(log):
    odd = ["", "a\u2028b\x85c\x0bd\re", "f"]
    log.append(odd)
    log.append([b"\xff\xfe"])
    assert log.read() == [*odd, "\ufffd\ufffd"]
    with pytest.raises(ValueError, match=r"several lines: b'a\\nb', expected one line each"):
        log.append(["x", "a\nb"])
    assert len(log.read()) == 4


def test_a_folder_that_changes_while_it_is_listed_is_listed_again(log, small, monkeypatch):
    for number in range(4):
        log.append([str(number) * 40])
    listdir, lacks = os.listdir, [f"{82:020d}.index"]

    def listed(folder: Path) -> list[str]:
        missed = lacks.pop() if lacks else ""
        return [name for name in listdir(folder) if name != missed]

    monkeypatch.setattr(os, "listdir", listed)
    assert len(FileLog(log.folder).read_bytes(0, log.end())) == log.end() and not lacks


def test_other_files_in_the_folder_are_none_of_its_own(log):
    log.create()
    (log.folder / "payments.jsonl").write_text("x\n")
    log.append(["a"])
    assert log.read() == ["a"] and FileLog(log.folder).read() == ["a"]


def test_log_time_never_goes_back(log, monkeypatch):
    """
    clock      1000   400   2000        a clock that was set back
    log time   1000   1000  2000
    """
    for clock in (1000, 400, 2000):
        monkeypatch.setattr(time, "time_ns", lambda ms=clock: ms * 1_000_000)
        log.append([str(clock)])
    log.append(["told"], log_time_ms=3)
    assert log.append_ends_and_times_arrays(0, log.end())[1].tolist() == [1000, 1000, 2000, 2000]


def test_log_time_is_that_of_the_commit_not_of_the_begin(log, monkeypatch):
    clock, wrote = [1_000_000_000], writer.write_at
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    monkeypatch.setattr(writer, "write_at", lambda *of: wrote(*of) or clock.append(clock.pop() + 9_000_000))
    log.append(["a"])
    assert log.tail().records() == [Record(1009, "", "a")]


def test_the_settled_end_has_what_was_being_written(log, monkeypatch):
    begun, go_on, wrote = Event(), Event(), writer.write_at

    def slow(*given) -> None:
        wrote(*given)
        begun.set()
        go_on.wait()

    monkeypatch.setattr(writer, "write_at", slow)
    thread = Thread(target=log.append, args=(["a"],))
    thread.start()
    begun.wait()
    assert log.end() == 0
    Timer(0.2, go_on.set).start()
    assert log.end_after_running_appends() == 2
    thread.join()


def test_a_large_append_is_one_write_and_the_next_one_rolls(log, monkeypatch):
    line, pwrite, sizes = b"x" * 999, os.pwrite, []
    monkeypatch.setattr(os, "pwrite", lambda *given: sizes.append(len(given[1])) or pwrite(*given))
    log.append([line] * 40_000)
    assert sizes == [40_000_000, 32]
    log.append(["y"])
    assert log.place(40_000_000) == f"events/{40_000_000:020d}.jsonl:1"
    assert log.read_bytes(39_999_996, 40_000_002) == b"xxx\ny\n"
    assert log.read()[-2:] == [line.decode(), "y"]


def test_a_segment_is_a_day_at_most(log):
    for day in (0, 0.5, 1, 1.1, 3):
        log.append([str(day)], log_time_ms=int(day * DAY_MS) + 1)
    assert [file.read_text().split() for file in sorted(log.folder.glob("*.jsonl"))] == [
        ["0", "0.5", "1"],
        ["1.1"],
        ["3"],
    ]


appends = st.tuples(st.lists(st.text("ab", max_size=20), max_size=4), st.integers(0, 5), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(appends, max_size=12), st.integers(1, 60), st.data())
def test_it_is_what_a_list_would_be(tmp_path_factory, given, segment_bytes, data):
    """Compared with a list of (position, end, log time, lines); segments roll and expire, two writers take turns."""
    folder = tmp_path_factory.mktemp("log")
    writers, reader = (FileLog(folder), FileLog(folder)), FileLog(folder)
    tail, model, now, kept = reader.tail(), [], 0, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "SEGMENT_BYTES", segment_bytes)
        for number, (lines, later, expires) in enumerate(given):
            now += later
            position = writers[number % 2].append(lines, log_time_ms=now)
            assert position == (model[-1][1] if model else 0)
            if lines:
                end = position + sum(len(line) + 1 for line in lines)
                model.append((position, end, now, lines))
            assert tail.read() == lines
            if expires:
                writers[0].expire(retention_ms=3)
                kept = reader.start()
                assert all(log_time < now - 3 for _, end, log_time, _ in model if end <= kept)
    whole = "".join(line + "\n" for *_, lines in model for line in lines).encode()
    left = [append for append in model if append[0] >= kept]
    assert reader.read_bytes(kept, reader.end()) == whole[kept:]
    assert reader.read() == lines_of(reader) == [line for *_, lines in left for line in lines]
    assert reader.tail().records() == [Record(at, "", line) for *_, at, lines in left for line in lines]
    for before in range(now + 2):
        assert reader.end(before) == max([kept, *(end for _, end, at, _ in model if at < before)])
    first, last = sorted(data.draw(st.tuples(*[st.integers(kept, len(whole))] * 2)))
    assert reader.read_bytes(first, last) == whole[first:last]
    ends, log_times = reader.append_ends_and_times_arrays(first, last)
    inside = [(end, log_time) for at, end, log_time, _ in model if at < last and first < end]
    inside = inside if first < last else []
    assert list(zip(ends.tolist(), log_times.tolist())) == inside
    for position, *_ in left:
        base = max(int(file.stem) for file in folder.glob("*.jsonl") if int(file.stem) <= position)
        line = whole[base:position].count(b"\n") + 1
        assert reader.place(position) == f"{folder.name}/{base:020d}.jsonl:{line}"


# -- expiry ---------------------------------------------------------------------------------------------------------------


def test_old_segments_expire_where_one_begins(tmp_path, small):
    log = FileLog(tmp_path / "events", retention_ms=100)
    for log_time in (0, 10, 150, 151, 252):
        log.append([f"{log_time:040d}"], log_time_ms=log_time)
    assert list(map(int, log.read())) == [252]
    assert log.start() == 4 * 41
    with pytest.raises(PositionExpired, match="events no longer has position 82: it begins at 164"):
        log.read_bytes(82, 123)
    for gone in (log.append_ends_and_times_arrays, log.read_bytes):
        with pytest.raises(PositionExpired):
            gone(0, 205)
    with pytest.raises(PositionExpired):
        log.place(0)
    assert log.end(before_ms=1) == 164 and FileLog(log.folder).read() == log.read()


def test_the_newest_segment_never_expires_and_no_log_does_unless_told(log, small):
    for log_time in (0, 10 * DAY_MS, 20 * DAY_MS):
        log.append(["x" * 40], log_time_ms=log_time)
    assert len(log.read()) == 3
    log.expire(retention_ms=0)
    assert len(log.read()) == 1


@pytest.mark.parametrize("lines", [["one"], ["one", "two"], ["as long as two lines", "that there were"]])
def test_a_reader_reads_another_log_in_the_same_folder_from_its_beginning(log, lines):
    """As a topic that was deleted and created again: else those who follow it would miss what it begins with."""
    log.append(["one", "two"], log_time_ms=0)  # a log that begins at another millisecond
    tail, copied = log.tail(), log.tail()
    assert tail.read() == copied.read() == ["one", "two"]
    shutil.copytree(log.folder, log.folder.with_name("copy"))
    shutil.rmtree(log.folder)
    assert tail.read() == []
    FileLog(log.folder).append(lines)
    assert [record.line for record in tail.records()] == lines and tail.read() == []
    shutil.rmtree(log.folder)
    log.folder.with_name("copy").rename(log.folder)
    FileLog(log.folder).append(["three"])
    assert copied.read() == ["three"], "it is the same log, put back"


def test_a_reader_that_slept_goes_on_with_what_is_kept(log, small):
    tail, other = log.tail(), FileLog(log.folder)
    log.append(["a" * 40], log_time_ms=1)
    assert len(tail.read()) == 1
    for log_time in range(2, 6):
        other.append([str(log_time) * 40], log_time_ms=log_time)
    other.expire(retention_ms=1)
    assert [record.log_time_ms for record in tail.records()] == [4, 5]
    assert tail.expired == f"{log} from 41 up to 123: expired before it was read"
    assert log.tail(at={0: 41}).expired == tail.expired and log.tail(at={0: 123}).expired == ""
    with pytest.raises(PositionExpired):
        log.read_bytes(0, 5)


def test_what_a_dead_writer_left_of_an_expired_segment_goes_with_the_next(log, small):
    for log_time in range(4):
        log.append(["x" * 40], log_time_ms=log_time)
    (log.folder / f"{0:020d}.index").unlink()  # it died before it removed the lines
    assert log.start() == 41 and len(log.read()) == 3
    log.expire(retention_ms=1)
    assert sorted(file.name for file in log.folder.glob("0*")) == [
        f"{base:020d}.{kind}" for base in (82, 123) for kind in ("index", "jsonl")
    ]


# -- exactly once ---------------------------------------------------------------------------------------------------------


def test_a_batch_put_twice_is_there_once(log):
    other = FileLog(log.folder)
    for number in (0, 1, 1, 2):
        log.put_batch_once("engine", number, join_lines([f"e{number}"]), 70 + number)
        other.put_batch_once("engine", number, join_lines(["not again"]), 70 + number)
        other.put_batch_once("twin", number, join_lines([f"t{number}"]), 70 + number)
    FileLog(log.folder).put_batch_once("engine", 2, join_lines(["not again"]), 72)
    log.append(["plain"])
    assert log.read() == ["e0", "t0", "e1", "t1", "e2", "t2", "plain"]


@pytest.mark.parametrize(
    "number, fingerprint, said",
    [
        (7, 71, "has another batch 7 of this writer already"),
        (6, 60, "has batch 7 of this writer already, so it does not take batch 6"),
    ],
)
def test_another_batch_of_a_known_number_is_refused(log, number, fingerprint, said):
    log.put_batch_once("engine", 6, join_lines(["six"]), 60)
    log.put_batch_once("engine", 7, join_lines(["seven"]), 70)
    log.put_batch_once("twin", 9, join_lines(["nine"]), 90)
    for again in (log, FileLog(log.folder)):
        with pytest.raises(BatchConflict, match=rf"{log.folder} {said}: .*docs/operations.md"):
            again.put_batch_once("engine", number, join_lines(["other"]), fingerprint)
        again.put_batch_once("engine", 7, join_lines(["seven, later"]), 70)
        assert (again.last_batch("engine"), again.last_batch("nobody")) == (
            Batch(writer_id("engine"), 7, 70),
            None,
        )
    assert log.read() == lines_of(log) == ["six", "seven", "nine"]


@pytest.mark.parametrize("segment_bytes", [40, 8 << 20])
def test_batches_are_told_apart_however_many_others_come_between(log, monkeypatch, segment_bytes):
    """In many segments, or in one with a long index."""
    monkeypatch.setattr(writer, "SEGMENT_BYTES", segment_bytes)
    log.put_batch_once("engine", 7, join_lines(["seven"]), 2**31 - 1)
    for number in range(2 * ROWS_AT_ONCE):
        log.put_batch_once("twin", number, join_lines(["twin"]), number)
    assert log.last_batch("engine") == Batch(writer_id("engine"), 7, 2**31 - 1)
    log.put_batch_once("engine", 7, join_lines(["again"]), 2**31 - 1)
    with pytest.raises(BatchConflict):
        log.put_batch_once("engine", 7, join_lines(["other"]), 2**31 - 2)
    assert not {"again", "other"} & set(log.read())


def test_of_a_batch_that_an_earlier_version_wrote_only_the_number_is_known(log):
    log.append(["old"])
    end = log.end()
    with open(log.folder / f"{0:020d}.jsonl", "ab") as lines:
        lines.write(b"seven\n")
    with SegmentIndex(str(log.folder / f"{0:020d}.index"), writing=True) as index:
        index.append([AppendRow(end + 6, index[-1].log_time, writer_id("engine"), 7)])
    for fingerprint in (1, 2):
        log.put_batch_once("engine", 7, join_lines(["again"]), fingerprint)
    with pytest.raises(BatchConflict):
        log.put_batch_once("engine", 6, join_lines(["other"]), 3)
    log.put_batch_once("engine", 8, join_lines(["eight"]), 4)
    with pytest.raises(BatchConflict):
        log.put_batch_once("engine", 8, join_lines(["other"]), 5)
    assert log.read() == lines_of(log) == ["old", "seven", "eight"]


def test_a_fingerprint_whose_append_was_lost_is_of_no_other_batch(log):
    """A power cut between the two rows of an append."""
    log.put_batch_once("engine", 7, join_lines(["seven"]), 70)
    with SegmentIndex(str(log.folder / f"{0:020d}.index"), writing=True) as index:
        index.append(Batch(writer_id("engine"), 8, 80).rows(index[-1].end, 0, index[-1].log_time)[:1])
    assert log.last_batch("engine") == Batch(writer_id("engine"), 7, 70)
    log.put_batch_once("engine", 7, join_lines(["again"]), 70)
    log.put_batch_once("engine", 8, join_lines(["eight"]), 81)
    assert log.last_batch("engine") == Batch(writer_id("engine"), 8, 81)
    assert log.read() == lines_of(log) == ["seven", "eight"]


def test_a_batch_is_known_when_its_segment_has_expired(log, small):
    log.put_batch_once("engine", 7, join_lines(["x" * 40]), 0)
    for log_time in (10**15, 2 * 10**15, 3 * 10**15):
        log.append(["y" * 40], log_time_ms=log_time)
    log.expire(retention_ms=1)
    assert len(log.read()) == 1
    for again in (log, FileLog(log.folder)):
        again.put_batch_once("engine", 7, join_lines(["again"]), 0)
        assert len(log.read()) == 1
    log.put_batch_once("engine", 8, join_lines(["z"]), 0)
    assert log.read()[-1] == "z"


# -- deaths ---------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


def killed_at(step: int, run) -> bool:
    """Runs it, but dies before line number `step` of the modules of the log; whether it came so far."""
    steps = count()

    def trace(frame, event, _):
        if "/lab/logs/" not in frame.f_code.co_filename:
            return None
        if event == "line" and next(steps) == step:
            raise Killed
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
        return False
    except Killed:
        return True
    finally:
        sys.settrace(before)


def in_its_own_process(function: Callable, *arguments: object) -> None:
    """Runs it where a crash of the interpreter ends nothing else: CPython 3.11 crashes now and then when a trace function raises."""
    for _ in range(3):
        process = SPAWN.Process(target=function, args=arguments)
        process.start()
        process.join()
        if process.exitcode != -signal.SIGSEGV:
            break
    assert process.exitcode == 0


@pytest.mark.parametrize(
    "same", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["goes on", "starts again"]
)
def test_a_writer_may_die_at_any_step(tmp_path, same):
    """The put that dies begins a segment and expires one; afterwards it is there or not, and done again it is there once."""
    in_its_own_process(_writer_dies, tmp_path, same)


def _writer_dies(path: Path, same: bool) -> None:
    folder_of_all = Path(tempfile.mkdtemp(dir=path))
    writer.SEGMENT_BYTES = 40
    for step in count():
        folder = folder_of_all / str(step)
        log, reader = FileLog(folder, retention_ms=1), FileLog(folder)
        log.put_batch_once("engine", 1, join_lines(["a" * 50]), 0)
        log.append(["b" * 50], log_time_ms=10**15)
        tail = reader.tail()
        tail.read()
        died = killed_at(
            step, lambda log=log: log.put_batch_once("engine", 2, join_lines(["c" * 20, "d"]), 0)
        )
        new = tail.read()
        assert new in ([], ["c" * 20, "d"])
        assert reader.read()[-1] in ("b" * 50, "d") and FileLog(folder).read() == reader.read()
        again = log if same else FileLog(folder, retention_ms=1)
        again.append(["-"])
        assert reader.read() == lines_of(log)
        again.put_batch_once("engine", 2, join_lines(["c" * 20, "d"]), 0)
        with pytest.raises(BatchConflict):
            again.put_batch_once("engine", 1, join_lines(["no"]), 0)
        again.append(["e"])
        after = ["c" * 20, "d", "-", "e"] if new else ["-", "c" * 20, "d", "e"]
        assert new + tail.read() == after
        assert reader.read() == lines_of(log) == ["b" * 50, *after]
        if not died:
            break
    assert step > 80


def test_what_expires_may_be_left_half_way(tmp_path):
    in_its_own_process(_expiry_dies, tmp_path)


def _expiry_dies(path: Path) -> None:
    folder_of_all = Path(tempfile.mkdtemp(dir=path))
    writer.SEGMENT_BYTES = 40
    for step in count():
        log = FileLog(folder_of_all / str(step))
        for log_time in range(4):
            log.append(["x" * 40], log_time_ms=log_time)
        died = killed_at(step, lambda log=log: log.expire(retention_ms=1))
        for reader in (log, FileLog(log.folder)):
            assert reader.start() % 41 == 0
            assert len(reader.read_bytes(reader.start(), reader.end())) == 4 * 41 - reader.start() >= 82
        if not died:
            break
    assert log.start() == 82


@pytest.mark.parametrize("torn", ["lines", "row"])
@pytest.mark.parametrize("share", [0, 0.4, 1])
def test_half_a_write_is_none(log, monkeypatch, torn, share):
    log.append(["a", "b"])
    with monkeypatch.context() as patch:
        pwrite = os.pwrite

        def half(file: int, data: bytes, at: int) -> int:
            if (len(data) == 2 * ROW.size) != (torn == "row"):
                return pwrite(file, data, at)
            pwrite(file, data[: int(share * len(data))], at)
            raise OSError(28, "No space left on device")

        patch.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match=f"No space left on device: '{log.folder}'"):
            log.put_batch_once("engine", 1, join_lines(["c" * 50, "d"]), 0)
    once = ["c" * 50, "d"] if (torn, share) == ("row", 1) else []
    assert log.read() == ["a", "b", *once]
    FileLog(log.folder).put_batch_once("engine", 1, join_lines(["c" * 50, "d"]), 0)
    assert log.read() == lines_of(log) == ["a", "b", "c" * 50, "d"]


def test_a_write_may_take_several_goes(log, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:7], at))
    log.append(["a" * 50, "b"])
    log.put_batch_once("engine", 1, join_lines(["c"]), 0)
    assert log.read() == lines_of(log) == ["a" * 50, "b", "c"]


def test_after_a_power_cut_whole_appends_are_left(log):
    for number in range(3):
        log.put_batch_once("engine", number, join_lines([f"line {number}"]), 0)
    os.truncate(log.folder / f"{0:020d}.jsonl", 19)  # rows came to the disk, their lines did not
    with pytest.raises(ValueError, match="is shorter than its index says"):
        log.read()
    log.append(["next"])
    again = FileLog(log.folder)
    assert again.read() == log.read() == lines_of(log) == ["line 0", "line 1", "next"]
    again.put_batch_once("engine", 2, join_lines(["line 2"]), 0)
    assert log.read()[-1] == "line 2"


@pytest.mark.parametrize("size", [0, ROW.size - 1])
@pytest.mark.parametrize("segment", [0, 1])
def test_an_index_without_a_whole_row_is_named_and_nothing_is_written_over(log, monkeypatch, segment, size):
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 4)
    for number in range(segment + 1):
        log.append([f"line {number}"])
    index = sorted(log.folder.glob("*.index"))[segment]
    os.truncate(index, size)
    before = [path.read_bytes() for path in sorted(log.folder.glob("*.jsonl"))]
    for use in (FileLog.read, FileLog.end, lambda log: log.append(["next"])):
        with pytest.raises(ValueError, match=f"{index.name}: {size} bytes, an index has at least 32"):
            use(FileLog(log.folder))
    assert [path.read_bytes() for path in sorted(log.folder.glob("*.jsonl"))] == before


@pytest.mark.parametrize("numbered", [False, True])
def test_a_power_cut_at_the_end_of_an_append_leaves_it(log, numbered):
    for number in range(3):
        if numbered:
            log.put_batch_once("engine", number, join_lines([f"line {number}"]), number)
        else:
            log.append([f"line {number}"])
    os.truncate(log.folder / f"{0:020d}.jsonl", 14)
    log.append(["next"])
    assert log.read() == lines_of(log) == ["line 0", "line 1", "next"]


def test_a_fork_during_an_append_does_not_keep_the_lock(log):
    log.create()
    with log._writer._locked():
        child = FORK.Process(target=time.sleep, args=(30,))
        child.start()
    try:
        other = FORK.Process(target=log.append, args=(["a"],))
        other.start()
        other.join(10)
        assert other.exitcode == 0 and log.read() == ["a"]
    finally:
        child.kill()
        child.join()


# -- all at once ----------------------------------------------------------------------------------------------------------


def _append(folder: Path, name: str, times: int) -> None:
    log = FileLog(folder)
    for number in range(times):
        log.append([f"{name} {number} {line}" for line in range(3)])


def _put_on(folder: Path, name: str, first: int) -> None:
    log = FileLog(folder)
    for number in count(first):
        log.put_batch_once(name, number, join_lines([f"{name} {number} {line}" for line in range(3)]), number)


def check(lines: list[str], names: str) -> dict[str, int]:
    """Each writer's batches are whole and in order; returns how many there are of each."""
    assert all(
        lines[at].rpartition(" ")[0] == lines[at - at % 3].rpartition(" ")[0] for at in range(len(lines))
    )
    counts = {}
    for name in names:
        mine = [line for line in lines if line[0] == name]
        assert mine == [f"{name} {number} {line}" for number in range(len(mine) // 3) for line in range(3)]
        counts[name] = len(mine) // 3
    return counts


def test_writers_in_processes_and_threads_have_one_order(log, monkeypatch):
    """While segments roll, a tail sees every line, whole and once, and log times that never go back."""
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 2000)
    writers = [FORK.Process(target=_append, args=(log.folder, name, 400)) for name in "ab"]
    for process in writers:
        process.start()
    writers += [Thread(target=_append, args=(log.folder, name, 400)) for name in "cd"]
    for thread in writers[2:]:
        thread.start()
    tail, records = log.tail(), []
    while any(one.is_alive() for one in writers):
        records += tail.records()
    records += tail.records()
    for one in writers:
        one.join()
    lines = [record.line for record in records]
    assert check(lines, "abcd") == dict.fromkeys("abcd", 400) and lines == log.read() == lines_of(log)
    assert np.all(np.diff([record.log_time_ms for record in records]) >= 0)
    assert len(list(log.folder.glob("*.index"))) > 10


def test_one_log_may_be_used_by_threads(log, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    monkeypatch.setattr(writer, "SEGMENT_BYTES", 500)

    def work(name: str) -> None:
        for number in range(100):
            log.put_batch_once(
                name, number, join_lines([f"{name} {number} {line}" for line in range(3)]), number
            )
            assert log.read_bytes(end := log.start(), end + 3)[1:2] == b" "
            log.end(before_ms=10**15), log.place(log.end()), log.read()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    assert check(log.read(), "abcd") == dict.fromkeys("abcd", 100)


@pytest.mark.slow
def test_killed_writers_lose_nothing_and_repeat_nothing(log, monkeypatch):
    """SIGKILL at any moment; each puts its last batch again, as an engine does, and a tail reads on meanwhile."""
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 1000)
    random.seed(1)
    tail, lines, done = log.tail(), [], {"a": 0, "b": 0}
    for _ in range(40):
        children = [
            FORK.Process(target=_put_on, args=(log.folder, name, max(0, last - 1)))
            for name, last in done.items()
        ]
        for child in children:
            child.start()
        time.sleep(random.uniform(0.005, 0.03))
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            lines += tail.read()
            child.join()
        lines += tail.read()
        done = check(lines, "ab")
    log.append(["end"])
    assert lines == log.read()[:-1] == lines_of(log)[:-1] and min(done.values()) > 40


def test_readers_elsewhere_go_on_while_segments_roll_and_expire(log, monkeypatch):
    monkeypatch.setattr(writer, "SEGMENT_BYTES", 1000)

    def write() -> None:
        other = FileLog(log.folder, retention_ms=50)
        for number in range(4000):
            other.append([f"w {number} {line}" for line in range(3)], log_time_ms=number)

    child = FORK.Process(target=write)
    child.start()
    tail, seen, expired = log.tail(), [], 0
    while child.is_alive():
        seen += tail.read()
        for lines in (log.read(), [line.line for line in log.tail().records()]):
            numbers = [int(line.split()[1]) for line in lines]
            assert numbers == sorted(numbers) and len(lines) == 3 * len(set(numbers))
        start, middle = log.start(), log.end(before_ms=len(seen) // 3)
        with suppress(PositionExpired):
            assert log.read_bytes(start, middle)[-1:] in (b"", b"\n")
            expired -= 1
        expired += 1
    child.join()
    assert child.exitcode == 0
    seen += tail.read()
    assert seen[-1] == "w 3999 2" and len(seen) == len(set(seen))
    assert len(list(log.folder.glob("*.index"))) < 10


@pytest.mark.parametrize("records", [0, 1, 2, 3, 9])
def test_a_part_of_the_log_that_ends_at_a_position_is_read(log, monkeypatch, records):
    monkeypatch.setattr(files, "BYTES_A_RECORD", 4)
    for lines in (["aaa", "bbb"], ["ccc"], ["ddd"]):
        log.append(lines)
    tail = log.tail(at=log.earlier({0: 12}, records))
    found = []
    while came := tail.records(1, upto={0: 12}):
        found += came
    assert [record.line for record in found] == ["aaa", "bbb", "ccc"][3 - min(records, 3) :]
    assert tail.positions == {0: 12} and tail.read() == ["ddd"]


def test_a_record_that_no_engine_takes_is_refused_where_it_is_appended(log):
    log.append([b"x" * MAX_LINE_BYTES + b"\r\n"])
    end = log.end()
    for append in (log.append, lambda lines: log.publish(lines, ["", ""])):
        with pytest.raises(ValueError, match="a record of 1048577 bytes, at most 1048576 are allowed: "):
            append(["short", "x" * (MAX_LINE_BYTES + 1)])
    assert log.end() == end, "of an append everything is refused"
