"""Logs and checkpoints are for their user alone, whatever the umask, or for the team whose folder they are in."""

import os
import stat
from pathlib import Path

import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lock import FolderLock
from lab.engine.loop.filelogs import FileLogs
from lab.logs.access import private_file_opener
from lab.logs.files import FileLog
from lab.machine.javalog import JavaLog


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def careless(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> set[str]:
    """The permissions of all that is in a folder, by kind."""
    return {
        f"{'folder' if path.is_dir() else 'file'} {path.stat().st_mode & 0o777:o}"
        for path in (folder, *folder.rglob("*"))
    }


def make(folder: Path) -> None:
    FileLogs(folder / "logs").create()
    FileLog(folder / "logs" / "events").append(["{}"])
    FileLog(folder / "elsewhere" / "alerts").append(["{}"])
    (CheckpointFolder(folder / "checkpoint") / "rules").write("1.json", b"{}")
    with FolderLock(folder / "checkpoint"), JavaLog(folder / "spark.log"):
        pass


def test_what_is_made_is_for_its_user_alone(careless, tmp_path):
    folder = tmp_path / "home"
    make(folder)
    assert modes(folder) == {"folder 700", "file 600"}


def test_a_folder_that_is_there_keeps_its_permissions(careless, tmp_path):
    tmp_path.chmod(0o755)
    make(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    assert modes(tmp_path) == {"folder 755", "folder 700", "file 600"}


@pytest.mark.parametrize("group", [0o050, 0o070])
def test_in_a_team_s_folder_the_group_may_do_what_it_may_do_there(careless, group, tmp_path):
    tmp_path.chmod(0o2700 | group)
    make(tmp_path)
    assert modes(tmp_path) == {f"folder 7{group >> 3:o}0", f"file 6{group >> 3 & 6:o}0"}
    assert all(path.stat().st_mode & stat.S_ISGID for path in tmp_path.rglob("*") if path.is_dir())


def test_a_file_that_is_there_keeps_its_permissions(careless, tmp_path):
    tmp_path.chmod(0o2770)
    (tmp_path / "mine").touch()
    (tmp_path / "mine").chmod(0o600)
    with open(tmp_path / "mine", "a", opener=private_file_opener):
        assert modes(tmp_path) == {"folder 770", "file 600"}
