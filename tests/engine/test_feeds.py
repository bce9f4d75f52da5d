"""What the engine asks of a log."""

import json
import time
import tracemalloc
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread, Timer

import numpy as np
import pytest

from lab.engine.records import feeds, kafkafeed
from lab.engine.records.columns import LOG_TIME
from lab.engine.records.decode import decode
from lab.engine.records.feeds import FileFeed, LooseLines
from lab.engine.records.kafkafeed import KafkaFeed
from lab.logs.cluster import to_cluster
from lab.logs.files import FileLog
from lab.logs.index import ROW, SegmentIndex
from lab.model.schema import MAX_FUTURE_MS, PAYMENTS
from tests.waiting import PATIENCE_S, wait_until


def test_an_empty_log_does_not_set_the_clock(tmp_path):
    feed = FileFeed(tmp_path, clock=lambda: 1_000)
    feed.sync_clock()
    assert feed.clock() == 1_000
    FileLog(tmp_path).append(["{}"])
    feed.sync_clock()
    assert feed.clock() > 1_000


def test_each_line_has_the_log_time_of_its_append_whatever_blank_lines_are_between(tmp_path):
    log = FileLog(tmp_path)
    for log_time, lines in ((10, ["a", "", "b"]), (20, ["  ", "c"]), (30, [""]), (40, ["d", ""])):
        log.append(lines, log_time_ms=log_time)
    (run,) = FileFeed(tmp_path).read({0: (0, log.end())}, floor=0)
    assert [line for _, line in run.lines()] == [b"a", b"b", b"c", b"d"]
    assert run.log_time.tolist() == [10, 10, 20, 40]


def test_the_ends_wait_for_a_writer_that_has_looked_at_its_clock(tmp_path, monkeypatch):
    """Its line has a log time already, and is not there yet: a cut after that time must have it."""
    append, writing, go_on, ends = SegmentIndex.append, Event(), Event(), []

    def slowly(index, rows):
        writing.set()
        go_on.wait(PATIENCE_S)
        append(index, rows)

    FileLog(tmp_path).append(["a"])
    monkeypatch.setattr(SegmentIndex, "append", slowly)
    writer = Thread(target=FileLog(tmp_path).append, args=(["b"],))
    writer.start()
    writing.wait(PATIENCE_S)
    reader = Thread(target=lambda: ends.append(FileFeed(tmp_path).ends()))
    reader.start()
    reader.join(0.3)  # one that does not wait is done by then
    go_on.set()
    writer.join()
    reader.join()
    assert ends == [{0: 4}]


def test_a_log_s_time_never_goes_back_when_the_clock_does(tmp_path):
    now = [1_000]
    feed = FileFeed(tmp_path, clock=lambda: now[0])
    feed.log.append(["{}"], log_time_ms=5_000)
    feed.sync_clock()
    assert feed.clock() == 5_001
    now[0] = 400  # stepped back, with nothing new
    feed.sync_clock()
    assert feed.clock() == 5_001
    now[0] = 9_000
    assert feed.clock() == 13_601, "it goes on from where it was"


def test_a_cut_is_after_the_first_whole_line_beyond_so_many_records_however_long_that_line_is(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(feeds, "AT_ONCE", 100)
    monkeypatch.setattr(feeds, "BYTES_A_RECORD", 10)
    lines = ["a" * 9, "b" * 14, "c" * 444, "d"]  # they end at 10, 25, 470, 472
    feed = FileFeed(tmp_path)
    feed.log.append(lines)
    assert [feed.position_after(0, 0, 472, records) for records in (0, 1, 2, 3, 47, 48)] == [
        25,
        25,
        25,
        470,
        472,
        472,
    ]
    assert feed.position_after(0, 10, 472, 2) == 470
    assert feed.position_after(0, 0, 40, 3) == 40, "never beyond the end that it was told"
    runs = list(feed.read({0: (0, 472)}, floor=0))
    assert b"".join(run.data for run in runs).split(b"\n")[:-1] == [line.encode() for line in lines]
    assert [run.start for run in runs] == [0, 470]
    assert feed.estimated_records(0, 0, 11) == 2 and feed.starts() == {0: 0}


def test_lines_that_are_in_no_log_have_their_numbers_as_places():
    loose = LooseLines(b"a\r\n\n \nb\n")
    assert list(loose.lines()) == [("1", b"a"), ("4", b"b")] and loose.places([0, 3]) == ["1", "4"]


def test_who_waits_for_two_logs_wakes_when_a_line_comes_to_either(tmp_path):
    feed, other = FileFeed(tmp_path / "one"), FileFeed(tmp_path / "other")
    starts = {0: 0}, other, {0: 0}
    assert not feed.wait_for_records_of_either(*starts, 0) and not feed.wait_for_records_of_either(
        *starts, 0.05
    )
    for log in (other.log, feed.log):
        Timer(0.1, log.append, [["a"]]).start()
        begun = time.monotonic()
        wait_until(lambda starts=starts: feed.wait_for_records_of_either(*starts, 60))
        assert time.monotonic() - begun < 30
        starts = {0: 0}, other, {0: other.log.end()}


GOOD = b'{"transactionId": 1, "eventTime": 5, "payeeId": 7}\n'


def write_foreign(folder: Path, *lines: bytes) -> FileLog:
    """Lines that another program writes into the segment and the index of a log, however long they are."""
    log = FileLog(folder)
    log.append([GOOD], log_time_ms=1)
    with (
        open(folder / "00000000000000000000.jsonl", "ab") as segment,
        open(folder / "00000000000000000000.index", "ab") as index,
    ):
        for log_time, line in enumerate(lines, 2):
            segment.write(line)
            index.write(ROW.pack(segment.tell(), log_time, 0, 0))
    return log


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_of_any_length_that_another_program_wrote_takes_the_memory_of_a_few(tmp_path, end):
    line = b'{"transactionId": 2, "x": "' + b"y" * (64 << 20)
    log = write_foreign(tmp_path / "events", GOOD, line + end, GOOD, GOOD)
    tracemalloc.start()
    ranges = {0: (0, log.end())}
    batch = decode(FileFeed(log.folder).read(ranges, 0), PAYMENTS, MAX_FUTURE_MS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20
    assert batch.records == 5 and sum(len(events[LOG_TIME]) for events in batch.events) == 4
    (letter,) = map(json.loads, batch.dead_letters)
    assert letter == {
        "reason": f"line of {len(line)} bytes, at most 1048576 are allowed",
        "place": "events/00000000000000000000.jsonl:3",
        "logTime": 3,
        "raw": line[:2000].decode(),
        "bytes": len(line),
        "sha256": sha256(line).hexdigest(),
    }


@pytest.mark.parametrize("unit", [b"y", b" ", "é".encode(), b"y" * 200_000 + b"\xff"])
def test_where_a_long_line_lies_among_the_bytes_that_are_read_at_once_does_not_matter(tmp_path, unit):
    """As a whole, or as the last of a run, of which only the beginning and the hash are ever in memory."""
    long = unit * (3_000_000 // len(unit)) + b"\n"
    letters = []
    for good in (1, 20_000, 60_000, 80_000):
        log = write_foreign(tmp_path / str(good) / "events", GOOD * good, long, GOOD)
        ranges = {0: (0, log.end())}
        batch = decode(FileFeed(log.folder).read(ranges, 0), PAYMENTS, MAX_FUTURE_MS)
        times = np.concatenate([events[LOG_TIME] for events in batch.events])
        assert times.tolist() == [1] + [2] * good + [4]
        letters.append([json.loads(line) for line in batch.dead_letters])
        for letter in letters[-1]:
            assert letter.pop("place") == f"events/00000000000000000000.jsonl:{good + 2}"
    assert letters == letters[:1] * 4 and len(letters[0]) == (unit != b" ")


class Message:
    """As a consumer gives one."""

    def __init__(self, offset: int, value: bytes | None):
        self._offset, self._value = offset, value

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value

    def key(self) -> bytes | None:
        return b"k" * 1_000_000 if self._value is None else None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset


def test_long_records_of_a_topic_are_decoded_a_few_at_once(monkeypatch):
    """Arrow takes two gigabytes at most, and a backlog of long records would not fit into memory."""
    monkeypatch.setattr(kafkafeed, "Message", Message)
    feed, line = KafkaFeed(to_cluster("localhost:9"), "long"), b"x" * 1_000_000
    messages = [Message(n, None if n % 2 else line) for n in range(1000)]

    class Reader:
        def read(self, *_):
            yield from ((0, messages[first : first + 400]) for first in range(0, 1000, 400))

    monkeypatch.setattr(kafkafeed, "_reader", lambda *_: Reader())
    offsets = []
    for run in feed.read({0: (0, 1000)}, 0):
        assert sum(map(len, run.values)) + sum(len(key or b"") for key in run.keys) < 1 << 29
        offsets += run.offsets.tolist()
        assert run.values.count(line) + run.values.count(b"") == len(run.offsets) == len(run.log_time)
    assert offsets == list(range(1000))
