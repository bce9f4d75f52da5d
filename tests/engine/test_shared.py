"""The folder of one start's shared arrays: its own, private, gone when nobody holds on to it."""

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch
from uuid import uuid4

import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.windows import shared
from lab.engine.windows.windowstate import open_windows
from lab.model.schema import LOGINS, PAYMENTS

HOLDS = "import sys; from lab.engine.windows import shared; print(shared.private_folder(sys.argv[1]), flush=True); input()"


@pytest.fixture
def parents(tmp_path, monkeypatch) -> Path:
    """Instead of /dev/shm and the folder of temporary files."""
    monkeypatch.setattr(shared, "_parents", lambda: (tmp_path / "shm", tmp_path))
    return tmp_path


def folder(parents: Path, start: str) -> Path:
    return parents / f"{shared.PREFIX}{os.getuid()}-{start}"


def test_a_worker_that_outlives_its_engine_remakes_a_folder_that_others_may_not_enter(parents):
    found = shared.private_folder("one")
    shared.shutil.rmtree(found)  # the engine has stopped
    assert shared.private_folder("one") == found
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_enter_is_refused(parents):
    folder(parents, "open").mkdir(mode=0o755)
    with pytest.raises(PermissionError, match="others may not enter: remove it"):
        shared.private_folder("open")


def test_folders_of_engines_that_were_killed_are_swept_and_held_ones_stay():
    starts = [f"test-{uuid4().hex[:8]}" for _ in range(3)]
    held, killed = (
        subprocess.Popen([sys.executable, "-c", HOLDS, start], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for start in starts[:2]
    )
    try:
        folders = [Path(process.stdout.readline().decode().strip()) for process in (held, killed)]
        killed.kill()
        killed.wait()
        mine = shared.private_folder(starts[2])
        assert [path.exists() for path in (*folders, mine)] == [True, False, True]
        shared.shutil.rmtree(mine)
    finally:
        held.kill()
        held.wait()
        shared.shutil.rmtree(folders[0], ignore_errors=True)


def test_a_folder_that_goes_while_an_engine_looks_at_it_stops_no_start(parents, monkeypatch):
    """As two engines on a machine do, one of which ends while the other starts."""
    (parents / "shm").mkdir()
    folder(parents, "ends").mkdir(mode=0o700)
    glob = Path.glob

    def gone(path, pattern):
        if path.name.endswith("ends"):
            path.rmdir()
            os.listdir(path)
        yield from glob(path, pattern)

    monkeypatch.setattr(Path, "glob", gone)
    assert shared.private_folder("starts").is_dir()
    shared.shutil.rmtree(shared.private_folder("starts"))


def test_a_folder_whose_maker_was_killed_half_way_is_swept_when_it_is_old(parents):
    with patch.object(Path, "rename", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        shared.private_folder("killed")
    (half,) = parents.iterdir()
    (half / "held").unlink()  # nor had it come so far
    shared.private_folder("second")
    assert half.exists(), "it may be just being made"
    os.utime(half, (0, 0))
    shared.private_folder("third")
    assert not half.exists() and folder(parents, "second").exists()


def test_a_second_start_in_one_process_has_its_own_settings(parents):
    first, second = Settings(LOGINS, late_policy="drop"), Settings(PAYMENTS)
    checkpoint = CheckpointFolder(parents / "checkpoint")
    one = open_windows(first, checkpoint, shared.private_folder("first"), 0, 15)
    other = open_windows(second, checkpoint, shared.private_folder("second"), 0, 15)
    assert (one.windows.settings, other.windows.settings) == (first, second)
    assert open_windows(first, checkpoint, shared.private_folder("first"), 0, 15) is one


def test_a_note_is_empty_until_it_is_written(tmp_path):
    with shared.locked_note(tmp_path / "lock") as note:
        assert note.read() == ""
        note.write("a batch")
    with shared.locked_note(tmp_path / "lock") as note:
        assert note.read() == "a batch"


def test_arrays_grow_where_they_are(tmp_path):
    path = tmp_path / "windows"
    layout = {"times": ("int64", (3,)), "pairs": ("int32", (2, 2)), "none": ("int64", (2, 0))}
    before = shared.create_arrays(path, layout)
    before["times"][:], before["pairs"][:] = (1, 2, 3), 7
    after = shared.grow_arrays(path, {"times": 5, "pairs": 2 * shared.GROWTH, "none": 9, "others": 1})
    assert after["times"].tolist() == [1, 2, 3, 0, 0]
    assert after["pairs"].sum() == 4 * 7 and after["pairs"].shape == (2 * shared.GROWTH, 2)
    before["times"][0] = 10
    assert after["times"][0] == 10, "they are the same memory"
    with patch.dict(shared._mapped, clear=True):  # as another process
        others = shared.attach_arrays(path)
    assert {name: array.shape for name, array in others.items()} == {
        "times": (5,),
        "pairs": (2 * shared.GROWTH, 2),
        "none": (9, 0),
    }
    others["times"][4] = 11
    assert after["times"][4] == 11
    assert shared.attach_arrays(path)["times"] is after["times"]


def test_a_process_that_has_arrays_mapped_sees_that_another_one_has_let_them_grow(tmp_path):
    path = tmp_path / "windows"
    shared.create_arrays(path, {"times": ("int64", (3,))})
    with patch.dict(shared._mapped, clear=True):
        shared.grow_arrays(path, {"times": 4})["times"][3] = 1
    assert shared.attach_arrays(path)["times"].tolist() == [0, 0, 0, 1]


def test_arrays_that_cannot_grow_any_further_stay_as_they_are(tmp_path):
    path = tmp_path / "windows"
    shared.create_arrays(path, {"times": ("int64", (8,)), "ids": ("int64", (8,))})
    assert shared.grow_arrays(path, {"times": 9, "ids": 8 * shared.GROWTH + 1}) is None
    assert [len(array) for array in shared.attach_arrays(path).values()] == [8, 8]


def test_arrays_that_find_no_memory_to_grow_stay_as_they_are(tmp_path):
    path = tmp_path / "windows"
    shared.create_arrays(path, {"times": ("int64", (8,))})
    full = OSError(errno.ENOSPC, "no space left")
    with (
        patch.object(os, "posix_fallocate", side_effect=full),
        pytest.raises(OSError, match="no space left") as raised,
    ):
        shared.grow_arrays(path, {"times": 9})
    assert raised.value.filename == str(path)
    assert len(shared.attach_arrays(path)["times"]) == 8


@pytest.fixture
def memory(tmp_path, monkeypatch) -> Path:
    """A folder in memory, beside a disk."""
    monkeypatch.setattr(shared, "_parents", lambda: (tmp_path / "shm", tmp_path / "disk"))
    monkeypatch.setattr(shared, "_open_locks", {})
    for name in ("shm", "disk"):
        (tmp_path / name).mkdir()
    return shared.private_folder("one")


def test_arrays_that_find_no_room_in_memory_lie_on_the_disk_until_there_is(memory, monkeypatch):
    path, layout = memory / "windows", {"times": ("int64", (8,))}
    shared.create_arrays(path, layout)["times"][:] = 1
    assert not shared.lies_on_disk(path) and shared.grow_arrays(path, {"times": 9}) is not None
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: shared.LEFT_BYTES)
    assert shared.grow_arrays(path, {"times": 16}) is None, "made anew, it finds room"
    shared.create_arrays(path, layout)["times"][:] = 2
    assert shared.lies_on_disk(path)
    assert shared.grow_arrays(path, {"times": 16})["times"].tolist() == [2] * 8 + [0] * 8
    with patch.dict(shared._mapped, clear=True):  # as another process
        assert shared.attach_arrays(path)["times"][0] == 2 and shared.lies_on_disk(path)
    (on_disk,) = (memory.parents[1] / "disk").glob("*.disk/windows")
    assert on_disk.parent.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 1 << 62)
    assert shared.create_arrays(path, layout)["times"].tolist() == [0] * 8
    assert not shared.lies_on_disk(path) and not on_disk.exists()


def test_a_full_disk_is_said_with_the_name_of_the_file_and_leaves_no_half_of_it(memory, monkeypatch):
    path, full = memory / "windows", OSError(errno.ENOSPC, "no space left")
    with patch.object(os, "posix_fallocate", side_effect=full), pytest.raises(OSError) as raised:
        shared.create_arrays(path, {"times": ("int64", (8,))})
    assert raised.value.filename == str(memory.parents[1] / "disk" / f"{memory.name}.disk" / "windows.new")
    assert not [*memory.parents[1].rglob("*.new")]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux says how memory is read")
def test_an_array_on_the_disk_that_is_read_in_order_is_read_ahead(memory, monkeypatch):
    path = memory / "windows"

    def read_ahead_kb() -> list[int]:
        parts = re.split(r"^[0-9a-f]+-[0-9a-f]+ ", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
        mine = [part for part in parts if memory.name in part.partition("\n")[0]]
        return [
            int(re.findall(r"Size: +(\d+)", part)[0]) for part in mine if re.search("VmFlags:.* sr", part)
        ]

    shared.create_arrays(path, {"times": ("int64", (8,)), "rows": ("int64", (8192, 2))})
    shared.read_in_order(path, "rows")
    assert read_ahead_kb() == [], "what is in memory is not read at all"
    shared.remove_arrays(path)
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 0)
    shared.create_arrays(path, {"times": ("int64", (8,)), "rows": ("int64", (8192, 2))})
    assert read_ahead_kb() == []
    shared.read_in_order(path, "rows")
    assert sum(read_ahead_kb()) in range(128, 137)
    shared.read_in_order(path, "rows", ends=True)
    assert read_ahead_kb() == []


def test_what_lies_on_the_disk_goes_with_its_folder_in_memory(memory, monkeypatch):
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 0)
    for start in ("one", "two"):
        shared.create_arrays(shared.private_folder(start) / "windows", {"times": ("int64", (8,))})
    disk = memory.parents[1] / "disk"
    shared._sweep(disk)
    assert len([*disk.iterdir()]) == 2, "held by this process"
    shared.remove_private_folder("one")
    assert [path.name for path in disk.iterdir()] == [f"{folder(memory, 'two').name}.disk"]
    shared.shutil.rmtree(shared.private_folder("two"))
    (left,) = disk.iterdir()
    os.utime(left, (0, 0))
    shared._sweep(disk)
    assert not [*disk.iterdir()]


def test_a_folder_on_the_disk_that_others_may_enter_is_refused(memory, monkeypatch):
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 0)
    (memory.parents[1] / "disk" / f"{memory.name}.disk").mkdir(mode=0o755)
    with pytest.raises(PermissionError, match="others may not enter: remove it"):
        shared.create_arrays(memory / "windows", {"times": ("int64", (8,))})


def test_arrays_of_removed_files_do_not_stay_mapped(tmp_path, monkeypatch):
    """A notebook in which a rule is tuned for an hour opens a store for each change, in a folder of its own."""
    monkeypatch.setattr(shared, "_mapped", {})
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        path = tmp_path / str(number)
        shared.create_arrays(path, {"a": ("int64", (10,))})
        path.unlink()
    assert len(os.listdir("/proc/self/fd")) < before + 10


def test_arrays_of_an_engine_that_has_stopped_do_not_stay_mapped_when_another_begins(parents, monkeypatch):
    """They may be most of the memory that there is."""
    monkeypatch.setattr(shared, "_mapped", {})
    stopped, checkpoint = shared.private_folder("stopped"), CheckpointFolder(parents / "checkpoint")
    for number in range(50):
        shared.create_arrays(stopped / str(number), {"a": ("int64", (10,))})
    shutil.rmtree(stopped)
    open_windows(Settings(LOGINS), checkpoint, shared.private_folder("another"), 0, 15)
    assert not shared._mapped


def test_to_map_arrays_takes_no_longer_if_many_are_mapped(tmp_path, monkeypatch):
    """An engine that gets a thousand rules at once, each with a filter of its own, opens two files for each."""
    looked, exists = [], Path.exists
    monkeypatch.setattr(shared, "_mapped", {})
    monkeypatch.setattr(Path, "exists", lambda path: looked.append(path) or exists(path))
    for number in range(200):
        shared.create_arrays(tmp_path / str(number), {"a": ("int64", (10,))})
    assert len(looked) < 10 * 200


@pytest.mark.parametrize("forgets", [shared.FORGETS, False])
def test_what_is_written_to_a_copy_changes_no_file_and_goes_with_the_next_copy(
    tmp_path, monkeypatch, forgets
):
    monkeypatch.setattr(shared, "FORGETS", forgets)
    path = tmp_path / "a"
    whole = shared.create_arrays(path, {"one": ("int64", (3, 2)), "none": ("int32", (3, 0))})
    for number in (1, 2):
        whole["one"][0] = number
        copied = shared.copy_on_write(path)
        assert copied["one"][0].tolist() == [number] * 2 and copied["none"].shape == (3, 0)
        copied["one"][:] = 9
        assert shared.attach_arrays(path)["one"].tolist() == [[number] * 2, [0, 0], [0, 0]]
    grown = shared.grow_arrays(path, {"one": 5})
    assert grown and shared.copy_on_write(path)["one"].shape == (5, 2)
    shared.remove_arrays(path)
    assert path not in shared._private
