import hashlib
import os
import threading
from pathlib import Path

import pytest

from lab.machine import broker, jars
from tests.waiting import PATIENCE_S

COORDINATES = "org.example:thing:1.0"
CONTENT = b"a jar"


@pytest.fixture
def downloads(monkeypatch, tmp_path):
    """A group `example` of one jar, an empty cache, and a stand-in for Ivy: what it delivers, how often it ran."""

    class Downloads:
        content = CONTENT
        log = ""
        count = 0
        barrier = None

        def run(self, folder: Path, pinned: dict[str, str]) -> str:
            self.count += 1
            if self.content is not None:
                (folder / "thing-1.0.jar").write_bytes(self.content)
            if self.barrier:
                self.barrier.wait(timeout=PATIENCE_S)
            return self.log

    stand_in = Downloads()
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(jars.GROUPS, "example", {COORDINATES: hashlib.sha256(CONTENT).hexdigest()})
    monkeypatch.setattr(jars, "_run_ivy", stand_in.run)
    return stand_in


def test_the_cache_is_lab_cache_else_xdg_cache_home_else_the_home_folder(monkeypatch):
    monkeypatch.setenv("LAB_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert jars.cache_folder() == Path("/a/jars")
    monkeypatch.delenv("LAB_CACHE")
    assert jars.cache_folder() == Path("/b/lab/jars")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert jars.cache_folder() == Path("/c/.cache/lab/jars")


def test_a_jar_is_downloaded_once(downloads):
    (jar,) = jars.fetch_jars("example")
    assert jar == jars.cache_folder() / "thing-1.0.jar"
    assert jar.read_bytes() == CONTENT
    assert jars.fetch_jars("example") == [jar]
    assert downloads.count == 1


def test_nothing_but_the_jars_stays_in_the_cache(downloads):
    jars.fetch_jars("example")
    assert os.listdir(jars.cache_folder()) == ["thing-1.0.jar"]


def test_a_damaged_jar_in_the_cache_is_fetched_again(downloads):
    (jar,) = jars.fetch_jars("example")
    jar.write_bytes(CONTENT[:3])
    assert jars.missing_jars("example")
    assert jars.fetch_jars("example")[0].read_bytes() == CONTENT


def test_a_jar_that_arrives_with_other_content_is_refused_and_not_kept(downloads):
    downloads.content = b"something else"
    with pytest.raises(jars.JarsError, match=f"{COORDINATES} could not be fetched: what came has sha256"):
        jars.fetch_jars("example")
    assert os.listdir(jars.cache_folder()) == []


def test_without_network_the_message_names_the_jar_the_host_and_what_to_do(downloads):
    downloads.content = None
    downloads.log = (
        ":: WARNINGS\n\tHost central.example not found. url=…\n\n\t\t:: org.example#thing;1.0: not found\n"
    )
    with pytest.raises(jars.JarsError) as error:
        jars.fetch_jars("example")
    message = str(error.value)
    assert message.startswith(f"{COORDINATES} could not be fetched: Host central.example not found")
    assert "proxy" in message and str(jars.cache_folder()) in message


def test_two_may_fetch_at_the_same_time(downloads):
    downloads.barrier = threading.Barrier(2)
    threads = [threading.Thread(target=jars.fetch_jars, args=["example"]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert downloads.count == 2
    assert [path.name for path in jars.cache_folder().iterdir()] == ["thing-1.0.jar"]
    assert not jars.missing_jars("example")


def test_an_unknown_group_is_refused_with_those_that_exist():
    with pytest.raises(jars.JarsError, match="'kafak'; there are: filesystem"):
        jars.fetch_jars("kafak")


def test_without_java_the_message_names_the_jars_and_how_to_get_java(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        jars.JarsError, match="hadoop-bare-naked-local-fs:0.1.0: cannot be fetched without Java"
    ) as error:
        jars.fetch_jars("filesystem")
    assert "apt install" in str(error.value)


@pytest.mark.slow
def test_ivy_fetches_the_file_system_jar_into_an_empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "a folder [with] odd (letters)"))
    try:
        (jar,) = jars.fetch_jars("filesystem")
    except jars.JarsError as error:
        if "Host" in str(error):
            pytest.skip("no network")
        raise
    assert jar.name == "hadoop-bare-naked-local-fs-0.1.0.jar"


def test_what_is_not_shared_is_in_the_home_folder_where_a_cache_is_for_reading_only(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert jars.user_folder() == tmp_path / "cache"
    (tmp_path / "cache").mkdir()
    assert jars.user_folder() == broker.default_folder().parent == tmp_path / "cache"
    monkeypatch.setattr(jars.os, "access", lambda place, mode: False)  # root may write anywhere
    assert jars.user_folder() == broker.default_folder().parent == tmp_path / "home" / ".cache" / "lab"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))  # where the home cannot be written to, either
    assert jars.user_folder() == tmp_path / "own" / "lab"


def test_jars_that_were_prefetched_are_copied_and_damaged_ones_are_not(downloads, monkeypatch, tmp_path):
    monkeypatch.setattr(jars, "PREFETCHED", tmp_path / "prefetched")
    jars.PREFETCHED.mkdir()
    (jars.PREFETCHED / "thing-1.0.jar").write_bytes(CONTENT)
    (jar,) = jars.fetch_jars("example")
    assert jar.read_bytes() == CONTENT and downloads.count == 0
    jar.unlink()
    (jars.PREFETCHED / "thing-1.0.jar").write_bytes(b"half")
    assert jars.fetch_jars("example")[0].read_bytes() == CONTENT and downloads.count == 1
    assert os.listdir(jars.cache_folder()) == ["thing-1.0.jar"]
