"""A wait for changes in folders ends at the first one, wherever it comes in between; where the system does not tell, the caller looks."""

import sys
import time
from threading import Timer
from types import SimpleNamespace

import pytest

from lab.engine.records.feeds import FileFeed
from lab.logs import folderwatch
from lab.logs.folderwatch import FolderWatch
from tests.waiting import wait_until

tells = pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell of changes")


@tells
def test_a_wait_ends_with_a_change_in_any_folder_also_with_one_before_it(tmp_path):
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    watch, begun = FolderWatch(folders), time.monotonic()
    watch.begin()
    watch.wait(0.05)
    assert time.monotonic() - begun >= 0.05
    for number, folder in enumerate(folders * 2):
        watch.begin()
        (folder / f"{number}").mkdir()
        watch.wait(60)
        Timer(0.05, (folder / f"later-{number}").mkdir).start()
        watch.wait(60)
        assert (folder / f"later-{number}").exists()
    assert time.monotonic() - begun < 30


@tells
def test_a_folder_that_takes_another_s_place_is_watched_from_the_next_wait_on(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    watch = FolderWatch([folder])
    watch.begin()
    folder.rename(tmp_path / "old")
    folder.mkdir()
    watch.begin()
    Timer(0.05, (folder / "log").write_bytes, [b"line"]).start()
    watch.wait(60)
    assert (folder / "log").exists()


@pytest.mark.parametrize(
    "libc",
    [
        None,
        SimpleNamespace(inotify_init1=lambda _: -1),
        SimpleNamespace(
            inotify_init1=getattr(folderwatch._libc, "inotify_init1", lambda _: -1),
            inotify_add_watch=lambda *_: -1,
        ),
    ],
    ids=["another system", "too many processes watch", "too many folders are watched"],
)
def test_where_the_system_does_not_tell_a_reader_looks(tmp_path, monkeypatch, libc):
    monkeypatch.setattr(folderwatch, "_libc", libc)
    feed, other = FileFeed(tmp_path / "events"), FileFeed(tmp_path / "control")
    assert not feed.wait_for_records_of_either({0: 0}, other, {0: 0}, 0.05)
    Timer(0.1, other.log.append, [["a"]]).start()
    wait_until(lambda: feed.wait_for_records_of_either({0: 0}, other, {0: 0}, 60))


@tells
def test_a_reader_of_a_folder_that_is_not_there_yet_waits_for_it(tmp_path):
    feed, other = FileFeed(tmp_path / "events"), FileFeed(tmp_path / "control")
    assert not feed.wait_for_records_of_either({0: 0}, other, {0: 0}, 0)
    Timer(0.1, feed.log.append, [["a"]]).start()
    wait_until(lambda: feed.wait_for_records_of_either({0: 0}, other, {0: 0}, 60))
    assert feed.wait_for_records_of_either({0: 0}, other, {0: 0}, 60)
    assert not feed.wait_for_records_of_either({0: feed.log.end()}, other, {0: 0}, 0.01)
