"""What the engine asks of a log."""

from lab.engine.feeds import FileFeed
from lab.logs.files import FileLog


def test_an_empty_log_does_not_set_the_clock(tmp_path):
    feed = FileFeed(tmp_path, clock=lambda: 1_000)
    feed.look()
    assert feed.clock() == 1_000
    FileLog(tmp_path).append(["{}"])
    feed.look()
    assert feed.clock() > 1_000
