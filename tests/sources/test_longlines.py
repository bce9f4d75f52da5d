"""A line may be as long as it likes: little of it is in memory, and its dead letter has its size and hash."""

import gzip
import io
import subprocess
import sys
from hashlib import sha256
from threading import Event

import pytest

from lab.logs.files import FileLog
from lab.model.deadletters import bounded_lines
from lab.model.jsontext import MAX_LINE_BYTES, LongLine
from lab.model.schema import PAYMENTS, BadRecord
from lab.past.replay import _logged, _original, replay
from lab.sources.infer import infer
from lab.sources.sources import source_at

GOOD = b'{"transactionId": 1, "eventTime": 5, "payeeId": 7}'
RULE = "1,(active),(payeeId),,(),(COUNT),(>),(0),(20)"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("more", [-1, 0, 1, 2, 3, 4, 70_000, 1 << 20])
@pytest.mark.parametrize("last", [b"x", b"\r", b"\r\r"])
def test_lines_have_their_length_and_hash_whatever_their_end(end, more, last):
    text = b"x" * (MAX_LINE_BYTES + more - len(last)) + last
    first, *others = bounded_lines(io.BytesIO(text + end + (b"b" if end else b"")))
    assert others == [b"b"] * bool(end)
    without_end = (text + end).removesuffix(b"\n").removesuffix(b"\r")
    if len(text.rstrip(b"\r")) <= MAX_LINE_BYTES and not isinstance(first, LongLine):
        assert first == text.rstrip(b"\r")
    else:
        assert isinstance(first, LongLine) and more > 0
        assert (first.size, first.sha256) == (len(without_end), sha256(without_end).hexdigest())
    assert isinstance(first, LongLine) or more <= len(last.strip(b"x"))
    with pytest.raises(BadRecord):
        PAYMENTS.parse(first)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(GOOD + b"\n" + b'{"x": "')
        for _ in range(64):
            out.write(b"x" * (1 << 20))
        out.write(b'"}\n' + GOOD.replace(b"1", b"2", 1) + b"\n")
    return path


def expected() -> dict:
    line = b'{"x": "' + b"x" * (64 << 20) + b'"}'
    return {"bytes": len(line), "sha256": sha256(line).hexdigest()}


def test_a_long_line_is_a_dead_letter_with_its_size_and_hash(file):
    result = replay(file, [RULE], engine="reference")
    assert [alert.event_id for alert in result.alerts] == [1, 2]
    (letter,) = result.dead_letters
    assert letter["reason"] == f"line of {(64 << 20) + 9} bytes, at most {MAX_LINE_BYTES} are allowed"
    assert letter["place"] == "events.jsonl.gz:2" and letter["raw"] == '{"x": "' + "x" * 1993
    assert letter | expected() == letter


def test_spark_gets_what_stands_for_it_and_its_dead_letter_is_the_same(file, tmp_path):
    source, log = source_at(file), FileLog(tmp_path / "events")
    starts, long_lines = _logged(source, log, Event())
    assert log.end() < 1000 and list(long_lines) == [1]
    letter = {"place": log.place(len(GOOD) + 1), "reason": "not UTF-8"}
    assert (
        _original(letter, source, starts, long_lines)
        == replay(file, [RULE], engine="reference").dead_letters[0]
    )


PROGRAM = """
import resource, sys
from pathlib import Path
from lab.sources.sources import source_at
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20),) * 2)
assert [len(line) < 200 for line in source_at(Path(sys.argv[1]))] == [True] * 3
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits address space")
def test_reading_takes_no_more_memory_than_a_few_lines(file):
    """A line of 64 MiB would not fit into the 40 MiB that it may take."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_lines_are_passed_on_in_lists_of_some_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr("lab.model.deadletters.BATCH_BYTES", 1000)
    path = tmp_path / "events.jsonl"
    path.write_bytes((GOOD + b"\n") * 200)
    appended = []

    class NotedLog(FileLog):
        def append(self, lines, log_time_ms=None):
            appended.append(list(lines))
            return super().append(appended[-1], log_time_ms)

    _logged(source_at(path), NotedLog(tmp_path / "events"), Event())
    assert sum(map(len, appended)) == 200 and max(map(len, appended)) == -(-1000 // len(GOOD))


def test_infer_says_how_long_it_was(file):
    with pytest.raises(ValueError, match="line of 67108873 bytes"):
        infer([line for line in source_at(file) if isinstance(line, LongLine)], "events")


@pytest.mark.parametrize("row", ['4,"{}"', "4," + "x,{}", "4,{}", '4,"{}'])
def test_a_long_row_of_csv_is_a_dead_letter_and_the_next_ones_keep_their_places(tmp_path, row):
    path = tmp_path / "events.csv"
    long = row.format("x" * 3_000_000)
    path.write_text(f"transactionId,eventTime,payeeId\n1,5,7\n{long}\n2,5,7\n")
    source = source_at(path, schema=PAYMENTS)
    first, bad, *rest = source
    assert isinstance(bad, LongLine) and bad.beginning.startswith(b"4,")
    assert bad.size >= 3_000_000 and len(bad) < 200
    assert b'"transactionId": 1' in first
    assert b'"transactionId": 2' in rest[-1] and source.place(1) == "events.csv:3"
    assert source.place(len(rest) + 1) == "events.csv:4"
    assert (bad.size, bad.sha256) == (len(long) + 1, sha256(long.encode() + b"\n").hexdigest())


def test_a_row_of_csv_that_never_ends_takes_no_memory(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("transactionId,eventTime,payeeId\n1,5,7\n" + '4,"' + 'x\n","' * 500_000)
    assert max(map(len, source_at(path, schema=PAYMENTS))) < 1000
