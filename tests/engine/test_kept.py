"""Windows on a disk outlive a start of their engine and a killed worker, if they are provably those of the saved epoch."""

import errno
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.ledger import Ledger
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled import layout, window
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.task import task_windows
from lab.engine.windows import kept, shared, store, undo, windowstate
from lab.engine.windows.store import RouteStore
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.drawn import first_difference
from tests.engine.killed import Killed, dead_processes, die, dying, start_again
from tests.engine.test_inprocess import assert_same, count_rule, login

LOG = [
    count_rule(">", 1, "10m"),
    *(login(number, 100 + number, user=number % 3) for number in range(9)),
    login(20, 99, user=1),
    *(login(number, 100 + number, user=number % 4) for number in range(21, 30)),
]
DONE = 8  # entries before a test begins


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Memory has no room, so all arrays lie on a disk."""
    for name in ("shm", "disk"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(shared, "_parents", lambda: (tmp_path / "shm", tmp_path / "disk"))
    monkeypatch.setattr(shared, "_open_locks", {})
    monkeypatch.setattr(shared, "ROOM_NEEDED_BYTES", 0)
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 0)
    with dead_processes():
        yield tmp_path
    windowstate._open.clear()


@pytest.fixture
def rebuilt(monkeypatch) -> list[int]:
    """The epochs for which the windows were made from the state files."""
    epochs: list[int] = []
    rebuild = windowstate.WindowState._rebuild

    def counted(state, plans):
        if state.number:
            epochs.append(state.number)
        rebuild(state, plans)

    monkeypatch.setattr(windowstate.WindowState, "_rebuild", counted)
    return epochs


@pytest.fixture
def stages(disk, rebuilt):
    """An engine that has run for a while; at the end of the test it has given what the reference gives."""
    with InProcessEngine(Settings(LOGINS)) as engine:
        engine.run_batch(LOG[:4])
        engine.run_batch(LOG[4:DONE])
        yield engine
        assert_same(engine.out, evaluate_log(LOGINS, LOG))


def folder_of(stages: InProcessEngine) -> Path:
    return shared.private_folder(stages.job.start_id) / "0-15"


def store_of(stages: InProcessEngine) -> RouteStore:
    (store,) = task_windows(stages.job, 0).windows.stores.values()
    return store


def kill(stages: InProcessEngine, entries, starts_again: bool = True, moment: str = "after") -> None:
    """The worker is killed in an epoch, before or after the first step of the window loop, or before it saves."""

    def dies():
        raise Killed

    loop = window.evaluate_batch

    def run(*arguments):
        loop(*arguments)
        raise Killed

    places = {
        "before": (window, "evaluate_batch", dying(loop, dies)),
        "after": (window, "evaluate_batch", run),
        "at the end": (windowstate.WindowState, "_save", lambda _state: dies()),
    }
    with patch.object(store, "STEP_ROWS", 2), patch.object(*places[moment]), suppress(Killed):
        stages.run_batch(entries)
    die(stages, starts_again)


def test_an_engine_that_starts_again_finds_its_windows(stages, rebuilt, disk):
    before = folder_of(stages).parent
    start_again(stages)
    assert before.exists() and (before / "0-15" / shared.KEPT).exists()
    stages.run_batch(LOG[DONE:])
    assert not rebuilt
    assert not [*before.rglob("*.windows")] and len([*folder_of(stages).glob("*.windows")]) == 2
    assert len([path for path in disk.rglob("*.windows") if not path.is_symlink()]) == 2


@pytest.mark.parametrize("moment", ["before", "after", "at the end"])
@pytest.mark.parametrize("starts_again", [True, False])
def test_the_epoch_of_a_killed_worker_is_undone(stages, rebuilt, starts_again, moment):
    kill(stages, LOG[DONE:15], starts_again, moment)
    stages.step()
    stages.run_batch(LOG[15:])
    assert not rebuilt


def test_an_epoch_that_is_undone_leaves_running_aggregates_as_it_found_them(stages, rebuilt):
    """Else the next event of each group that it touched would compute them from events all over the disk."""
    before, undone, undo_epoch = store_of(stages).arrays, [], undo.undo_epoch
    found = {name: before[name].copy() for name in ("accumulator_starts", "accumulators", "scalars")}

    def noted(folder, number, store):
        is_undone = undo_epoch(folder, number, store)
        undone.append({name: store.arrays[name].copy() for name in found})
        return is_undone

    kill(stages, LOG[DONE:15])
    with patch.object(undo, "undo_epoch", noted):
        stages.step()
    assert (found["accumulator_starts"] != layout.NOTHING).any() and len(undone) == 1
    for name, array in found.items():
        assert (undone[0][name] == array).all()
    stages.run_batch(LOG[15:])


def test_a_worker_that_is_killed_at_rest_leaves_what_the_next_start_finds(stages, rebuilt):
    state = task_windows(stages.job, 0)
    with suppress(Killed), state.open_epoch(2, state.windows.ledger.copy()):
        raise Killed
    die(stages, starts_again=True)
    stages.run_batch(LOG[DONE:])
    assert not rebuilt


def test_a_worker_that_is_killed_while_it_undoes_an_epoch_leaves_it_to_the_next(stages, rebuilt):
    kill(stages, LOG[DONE:15])
    with patch.object(undo, "_remove_groups", side_effect=Killed), suppress(Killed):
        stages.step()
    die(stages, starts_again=True)
    stages.step()
    stages.run_batch(LOG[15:])
    assert not rebuilt


def test_a_worker_that_fails_and_lives_undoes_nothing(stages, rebuilt, monkeypatch):
    """Its threads may still write."""
    monkeypatch.setattr(undo, "is_alive", lambda process: process == os.getpid())
    kill(stages, LOG[DONE:15], starts_again=False)
    stages.step()
    stages.run_batch(LOG[15:])
    assert rebuilt


def test_an_attempt_that_makes_the_windows_anew_has_forgotten_how_to_undo_before(
    stages, rebuilt, monkeypatch
):
    monkeypatch.setattr(undo, "is_alive", lambda _process: True)
    kill(stages, LOG[DONE:15], starts_again=False)
    with patch.object(windowstate.RouteStore, "load", side_effect=Killed), suppress(Killed):
        stages.step()
    die(stages, starts_again=False)
    monkeypatch.setattr(undo, "is_alive", lambda _process: False)
    stages.step()
    stages.run_batch(LOG[15:])
    assert rebuilt


def test_arrays_that_are_made_anew_within_an_epoch_are_not_undone(stages, rebuilt):
    with (
        patch.object(RouteStore, "_doubles", return_value=True),
        patch.object(RouteStore, "_mostly_expired", return_value=True),
    ):
        kill(stages, LOG[DONE:15])
    stages.step()
    stages.run_batch(LOG[15:])
    assert rebuilt == [2]


# -- arrays that are not those of the saved epoch ----------------------------------------------------------------------


def another_boot(_stages, monkeypatch):
    monkeypatch.setattr(kept, "BOOT", Path(kept.__file__))  # another text


def no_boot(_stages, monkeypatch):
    monkeypatch.setattr(kept, "BOOT", Path("/nowhere"))


def another_code(_stages, monkeypatch):
    monkeypatch.setattr(kept, "code_of_arrays", lambda: "another")


def a_note_of_another_version(stages, monkeypatch):
    """What it says of a state file has a field more."""
    another_code(stages, monkeypatch)
    note, header = folder_of(stages) / "lock", folder_of(stages) / undo.UNDO
    for file, noted in ((note, note.read_text()), (header, json.loads(header.read_text())["note"])):
        if noted.strip():
            said = json.loads(noted)
            changed = json.dumps(said | {"chain": [[*of, 0] for of in said["chain"]]})
            file.write_text(f"{json.dumps({'note': changed, 'by': 1}) if file == header else changed}\n")


def another_history_of_rules(_stages, monkeypatch):
    to_dict = Ledger.to_dict
    monkeypatch.setattr(Ledger, "to_dict", lambda self: to_dict(self) | {"next": 99})
    ledger._load.cache_clear()  # a new process reads it


def another_lateness(stages, _monkeypatch):
    settings = replace(stages.job.settings, max_out_of_orderness_ms=299_999)
    object.__setattr__(stages.job, "settings", settings)


def a_lost_file(stages, _monkeypatch):
    (path, *_) = folder_of(stages).glob("*.windows")
    path.resolve().unlink()


def a_page_of_zeros(stages, _monkeypatch):
    """The header of the arrays was not written."""
    for path in folder_of(stages).glob("*.windows"):
        with open(path, "r+b") as file:
            file.write(bytes(shared.HEADER_BYTES))


def a_disk_that_could_not_write(_stages, monkeypatch):
    def fails(path):
        raise OSError(errno.EIO, "a page was not written", str(path))

    monkeypatch.setattr(shared, "wait_until_written", fails)


def arrays_of_other_rules(stages, _monkeypatch):
    """A column more."""
    for path in folder_of(stages).glob("*.windows"):
        lies = json.loads(path.read_bytes()[: shared.HEADER_BYTES])
        for name in {"accumulator_starts", "groups"} & lies.keys():
            lies[name][1][1] += 1
        with open(path, "r+b") as file:
            file.write(shared._header(lies))


FAULTS = [
    another_boot,
    no_boot,
    another_code,
    a_note_of_another_version,
    another_history_of_rules,
    another_lateness,
    a_lost_file,
    a_page_of_zeros,
    a_disk_that_could_not_write,
    arrays_of_other_rules,
]


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_other_arrays_than_those_of_the_saved_epoch_are_made_anew(
    stages, rebuilt, monkeypatch, fault, is_killed
):
    if is_killed:
        kill(stages, LOG[DONE:15], starts_again=False)
    fault(stages, monkeypatch)
    die(stages, starts_again=True)
    stages.step() if is_killed else stages.run_batch(LOG[DONE:15])
    stages.run_batch(LOG[15:])
    assert rebuilt


def test_after_a_power_failure_the_same_start_makes_its_windows_anew(stages, rebuilt, monkeypatch):
    """Where memory has no folder, everything lies on the disk: also the note that says what the arrays hold."""
    another_boot(stages, monkeypatch)
    die(stages, starts_again=False)
    stages.run_batch(LOG[DONE:])
    assert rebuilt


def test_arrays_with_events_of_a_later_epoch_are_made_anew(stages, rebuilt):
    of = store_of(stages)
    of.arrays["events"][of.event_count - 1, layout.SEQ] = 3 << 32
    die(stages, starts_again=True)
    stages.run_batch(LOG[DONE:])
    assert rebuilt


def test_arrays_of_a_state_file_with_another_checksum_are_made_anew(stages, rebuilt):
    """Of the same name and size, as a checkpoint that was put back, and went on otherwise, may have."""
    start_again(stages)
    checksum = kept._checksum
    with patch.object(kept, "_checksum", lambda *of: checksum(*of)[::-1]):
        stages.run_batch(LOG[DONE:])
    assert rebuilt


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_checkpoint_that_was_put_back_finds_no_arrays_of_its_later_epochs(stages, rebuilt, ahead):
    """But for the newest, which can be undone."""
    before, copy = stages.mark, stages.folder / "copy"
    shutil.copytree(stages.job.folder.path, copy)
    out = {name: list(lines) for name, lines in stages.out.items()}
    for entries in (LOG[DONE:12], LOG[12:14])[:ahead]:
        stages.run_batch(entries)
    start_again(stages)
    shutil.rmtree(stages.job.folder.path)
    copy.rename(stages.job.folder.path)
    stages.mark = before
    stages.out.clear()
    stages.out.update(out)
    stages.step()
    assert rebuilt == [2][: ahead - 1]
    stages.run_batch(LOG[12 if ahead == 1 else 14 :])


def test_arrays_that_somebody_still_uses_are_left_to_him(stages, rebuilt):
    before = folder_of(stages).parent
    user = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import fcntl; f = open({str(before / 'held')!r}); fcntl.flock(f, 1); print(1, flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert user.stdout.readline()
    start_again(stages)
    stages.run_batch(LOG[DONE:])
    assert rebuilt == [2] and len([*before.rglob("*.windows")]) == 2
    user.communicate(b"\n")


def test_kept_arrays_are_swept_away_after_a_day_or_with_their_checkpoint(stages, monkeypatch):
    before = folder_of(stages).parent
    start_again(stages)
    shared.private_folder("another-engine")
    assert before.exists()
    monkeypatch.setattr(shared, "KEPT_S", 0.0)
    shared.private_folder("a-third-engine")
    assert not before.exists()
    stages.run_batch(LOG[DONE:])


def test_windows_in_memory_go_with_their_engine(stages, rebuilt, monkeypatch):
    monkeypatch.setattr(shared, "memory_left_bytes", lambda: 1 << 62)
    store_of(stages).compact()
    stages.run_batch(LOG[DONE:15])
    before = folder_of(stages).parent
    start_again(stages)
    assert not before.exists()
    stages.run_batch(LOG[15:])
    assert rebuilt == [3]


def test_no_room_for_what_undoes_an_epoch_only_means_that_it_is_not_undone(stages, rebuilt):
    with patch.object(undo.UndoLog, "_append", side_effect=OSError(errno.ENOSPC, "no space left")):
        kill(stages, LOG[DONE:15])
    stages.step()
    assert rebuilt == [2]
    stages.run_batch(LOG[15:])


@pytest.mark.parametrize("seed", range(0, 20, 5))
def test_random_logs_give_the_same_alerts_however_often_workers_are_killed(seed):
    assert not first_difference(range(seed, seed + 5), mortal=True)
