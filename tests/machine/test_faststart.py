"""Sessions use the archive of Spark's classes when there is one, and only then."""

from lab.machine import faststart


def test_without_an_archive_java_is_told_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "a cache"))
    assert faststart.java_option() == ""


def test_the_path_of_an_archive_may_have_spaces(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "a cache"))
    faststart.archive().parent.mkdir()
    faststart.archive().touch()
    assert faststart.java_option() == f'"-XX:SharedArchiveFile={tmp_path}/a cache/{faststart.archive().name}"'
