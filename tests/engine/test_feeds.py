"""What the engine asks of a log."""

from threading import Event, Thread

from lab.engine.feeds import FileFeed
from lab.logs.files import FileLog
from lab.logs.index import Index
from tests.waiting import PATIENCE_S


def test_an_empty_log_does_not_set_the_clock(tmp_path):
    feed = FileFeed(tmp_path, clock=lambda: 1_000)
    feed.look()
    assert feed.clock() == 1_000
    FileLog(tmp_path).append(["{}"])
    feed.look()
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
    append, writing, go_on, ends = Index.append, Event(), Event(), []

    def slowly(index, rows):
        writing.set()
        go_on.wait(PATIENCE_S)
        append(index, rows)

    FileLog(tmp_path).append(["a"])
    monkeypatch.setattr(Index, "append", slowly)
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
