"""The lease: of all engines started on a checkpoint that machines share, one goes on.

first     ──take──renew──  SIGSTOP  ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄  SIGCONT ── fenced
second                              refused  … take ── goes on
"""

import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from lab.engine.checkpoint import lease
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Fenced, Lease, check_lease, current_lease_name
from lab.engine.checkpoint.lock import CheckpointInUse
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import InProcessEngine
from lab.engine.loop.job import Job
from lab.engine.spark.source import LoopReader
from lab.engine.windows.shared import private_folder
from tests.waiting import PATIENCE_S, wait_until

HOLD = """
import sys, time
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint import lease
lease.RENEW_S = 0.1
checkpoint = CheckpointFolder(sys.argv[1])
held = lease.Lease(checkpoint)
print(held.name, flush=True)
while True:
    try:
        lease.check_lease(checkpoint, held.name)
    except lease.Fenced as error:
        print(error, flush=True)
        break
    time.sleep(0.05)
time.sleep(1)
"""
RULE = ("control", b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")
EVENT = b"%d,2013-01-01 00:00:00,25,12,CSH,50.01"


@pytest.fixture
def shared(tmp_path) -> CheckpointFolder:
    return CheckpointFolder(f"file://{tmp_path}/checkpoint")


def test_a_second_start_is_refused_while_the_lease_is_renewed_and_free_once_it_was_let_go(shared):
    with Lease(shared) as first:
        with pytest.raises(CheckpointInUse, match=r"in use by an engine \(process \d+ on .*wait \d+ s"):
            Lease(shared)
        check_lease(shared, first.name)
    with Lease(shared, "a rescale") as second:
        assert second.name[:9] == "000000001"
        with pytest.raises(CheckpointInUse, match="in use by a rescale"):
            Lease(shared)


def test_of_many_that_start_at_once_one_goes_on(shared):
    for _ in range(10):
        together = Barrier(8)

        def start(together: Barrier = together) -> Lease | None:
            together.wait()
            try:
                return Lease(shared)
            except CheckpointInUse:
                return None

        with ThreadPoolExecutor(8) as racers:
            leases = [each.result() for each in [racers.submit(start) for _ in range(8)]]
        taken = [each for each in leases if each]
        assert [each.name for each in taken if each.name == current_lease_name(shared)] == [
            current_lease_name(shared)
        ]
        for each in taken:
            if each.name != current_lease_name(shared):
                with pytest.raises(Fenced, match="was taken over by an engine"):
                    check_lease(shared, each.name)
        for each in taken:
            each.release()


def test_an_owner_that_was_paused_finds_itself_fenced_and_does_not_come_back(shared, monkeypatch):
    monkeypatch.setattr(lease, "LEASE_S", 1_000)
    command = [sys.executable, "-c", HOLD, shared.where]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        try:
            name = first.stdout.readline().strip()
            taken = time.monotonic() - lease.lease_age_s(shared)
            wait_until(lambda: time.monotonic() - lease.lease_age_s(shared) > taken + 0.05)  # it renews
            assert current_lease_name(shared) == name
            with pytest.raises(CheckpointInUse):
                Lease(shared)
            first.send_signal(signal.SIGSTOP)
            # of a lease so old that it may be taken over
            monkeypatch.setattr(lease, "LEASE_S", 0)
            with Lease(shared) as second:
                first.send_signal(signal.SIGCONT)
                assert "was taken over by an engine" in first.stdout.readline()
                first.wait(PATIENCE_S)
                assert current_lease_name(shared) == second.name > name
                check_lease(shared, second.name)
        finally:
            first.kill()


def test_a_folder_that_is_made_while_it_is_listed_is_listed_again(tmp_path, monkeypatch):
    """Arrow lists, finds no folder, looks whether there is one, and raises the first error if there is one by then."""
    folder = CheckpointFolder(f"file://{tmp_path}")
    folder.write("one", b"1")
    system, place = folder._place
    failing = iter([FileNotFoundError("Cannot list directory")])

    class Beside:
        def get_file_info(self, selector):
            for error in failing:
                raise error
            return system.get_file_info(selector)

    monkeypatch.setattr(folder, "_place", (Beside(), place))
    assert folder.names() == ["one"]


def test_a_listing_beside_a_take_over_may_show_neither_lease_and_is_not_believed(shared, monkeypatch):
    """A file system may list neither the new file, made after its place was passed, nor the old one, removed before."""
    with Lease(shared) as first, monkeypatch.context() as patch:
        listing = CheckpointFolder._listing
        shown = iter([[]])
        patch.setattr(CheckpointFolder, "_listing", lambda folder: next(shown, listing(folder)))
        check_lease(shared, first.name)


def test_a_lease_that_was_removed_ends_its_engine(shared):
    with Lease(shared) as first:
        (shared / "lease").remove(first.name)
        with pytest.raises(Fenced, match="has lost its lease: its folder lease is empty or removed"):
            check_lease(shared, first.name)


def test_a_fenced_engine_plans_no_micro_batch():
    with InProcessEngine(Settings()) as stages:
        with Lease(stages.job.folder) as first:
            stages.planner.lease_name = first.name
            stages.run_batch([RULE, ("event", EVENT % 1)])
        with Lease(stages.job.folder):
            with pytest.raises(Fenced):
                stages.run_batch([("event", EVENT % 2)])
            assert len(stages.out["alerts"]) == 1


def test_a_fenced_engine_begins_no_other_batch_of_the_loop(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoint")
    with Lease(folder) as lease_:
        job = Job(Settings(), FileLogs(tmp_path / "logs"), folder.where, f"test-{tmp_path.name}", lease_.name)
        private_folder(job.start_id)
        reader = LoopReader(job)
        assert reader.latestOffset({"batch": -1}, reader.getDefaultReadLimit()) == {"batch": 0}
    with Lease(folder), pytest.raises(Fenced, match="was taken over by an engine"):
        reader.latestOffset({"batch": -1}, reader.getDefaultReadLimit())
    shutil.rmtree(private_folder(job.start_id))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_tasks_that_a_fenced_engine_planned_before_it_was_paused_write_no_state_and_give_nothing(parallelism):
    with InProcessEngine(Settings(parallelism=parallelism)) as stages:
        with Lease(stages.job.folder) as first:
            stages.job = replace(stages.job, lease=first.name)
            stages.run_batch([RULE, ("event", EVENT % 1)])
            stages.logs.log("events").append([EVENT % 2])
            end = stages.planner.advance_mark(stages.mark, None)
        files = (stages.job.folder / "state").names()
        with Lease(stages.job.folder), pytest.raises(Fenced):
            stages.run_tasks(stages.mark, end)
        assert (stages.job.folder / "state").names() == files != []


def test_a_place_that_the_engine_cannot_keep_its_state_in_is_refused():
    with pytest.raises(ValueError, match="checkpoint hdfs://h/c: expected a folder, file:///… .* s3a://"):
        CheckpointFolder("hdfs://h/c")
