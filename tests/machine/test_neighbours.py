"""Two users of one host, with one cache of jars that they only read: each has what is not shared to themselves."""

import json
import multiprocessing
import os
import shutil
import tempfile
import traceback
from pathlib import Path

import pytest

from lab.engine.checkpoint.lock import FolderLock
from lab.engine.windows import shared
from lab.machine import broker, database, jars, ports

USERS = (60_001, 60_002)  # numbers that nobody here has


def as_user(user: int, home: str, others: str | None, pipe) -> None:
    """Lives as somebody else for the length of a process, and tells what it has."""
    try:
        os.setgid(user)
        os.setuid(user)
        os.environ |= {"HOME": home, "TMPDIR": home}
        shared._open_locks.clear()  # what the process that was forked holds on to
        folder = shared.private_folder("a-start")
        arrays = shared.create_arrays(folder / "windows", {"times": ("int64", (3,))})
        arrays["times"][:] = user
        checkpoint = Path(home, "checkpoint")
        with FolderLock(checkpoint):
            has = {
                "memory": str(folder),
                "own": str(jars.user_folder()),
                "broker": str(broker.default_folder()),
                "database": str(database.default_folder()),
                "port": ports.free_port(),
                "entered": os.access(others, os.R_OK | os.X_OK) if others else False,
            }
            pipe.send(json.dumps(has))
            pipe.recv()
        pipe.send(str(shared.attach_arrays(folder / "windows")["times"].tolist()))
    except BaseException:  # noqa: BLE001  (told to the test)
        pipe.send(traceback.format_exc())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two other users")
def test_two_users_have_their_own_memory_folders_and_ports(monkeypatch, request, tmp_path):
    shelf = Path(tempfile.mkdtemp())  # pytest's own folders keep other users out
    request.addfinalizer(lambda: shutil.rmtree(shelf))
    shelf.chmod(0o755)
    cache = shelf / "cache"
    (cache / "jars").mkdir(parents=True)
    monkeypatch.setenv("LAB_CACHE", str(cache))
    shared.create_arrays(tmp_path / "mapped before, where others may not look", {"times": ("int64", (3,))})
    fork, pipes, told = multiprocessing.get_context("fork"), [], []
    for user in USERS:
        home = shelf / str(user)
        home.mkdir()
        os.chown(home, user, user)
        ours, theirs = fork.Pipe()
        others = told[0]["memory"] if told else None
        fork.Process(target=as_user, args=(user, str(home), others, theirs), daemon=True).start()
        assert ours.poll(30)
        said = ours.recv()
        assert said.startswith("{"), said
        told.append(json.loads(said))
        pipes.append(ours)
    assert [each["entered"] for each in told] == [False, False]
    for name in ("memory", "own", "broker", "database", "port"):
        assert told[0][name] != told[1][name], name
    for user, pipe in zip(USERS, pipes):
        pipe.send("end")
        assert pipe.poll(30) and pipe.recv() == str([user] * 3)
    for each in told:
        shutil.rmtree(each["memory"])
