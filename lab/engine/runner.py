"""An epoch of the loop inside a task of Spark's: seconds of cuts, delivered from here, until it is time to save or to stop."""

import os
import time
from dataclasses import replace

from lab.engine import lease, shared
from lab.engine.cut import Mark, Planner, positions
from lab.engine.cuts import Cut
from lab.engine.ends import READ
from lab.engine.job import Job
from lab.engine.loop import epoch
from lab.engine.task import alone

EPOCH_S = 10.0
# the pause between two cuts, in which records gather; the longer nothing comes, the longer it is
PAUSE_S, REST_S = 0.003, 0.02
STOP = "stop"  # a file beside the shared memory: no cut comes after it


class ParentGone(RuntimeError):
    """The process that started this worker has ended: another one may do its work."""


def run_epoch(job: Job, number: int) -> None:
    """Runs an epoch in this process. Raises Fenced or TakenOver if somebody else works on the checkpoint."""
    if job.lease:
        lease.check(job.folder, job.lease)
    parent, flag = os.getppid(), shared.private_folder(job.start) / STOP
    outlet = job.logs.outlet(job.engine[0] if job.engine else job.start)
    with epoch(job, _planner(job), number, outlet.put) as running:
        ends, pause = time.monotonic() + EPOCH_S, PAUSE_S
        while time.monotonic() < ends and not flag.exists():
            if os.getppid() != parent:
                raise ParentGone(f"process {parent} is gone")
            pause = PAUSE_S if running.step() else min(1.2 * pause, REST_S)
            time.sleep(pause)
            job.logs.reached(positions(running.cuts.mark["events"]))
        outlet.flush()


def finish_epoch(job: Job, number: int) -> None:
    """Carries out the cuts that an epoch has, and ends it: whoever comes after runs one cut a micro-batch, or several tasks."""
    alone = replace(job, settings=replace(job.settings, parallelism=1))
    if job.lease:
        lease.check(job.folder, job.lease)
    outlet = job.logs.outlet(job.engine[0] if job.engine else job.start)
    with epoch(alone, _planner(alone), number, outlet.put):
        outlet.flush()


def run_cut(job: Job, batch_id: int, begin: Mark, end: Mark) -> None:
    """Runs a micro-batch of one cut that the driver of an earlier start has chosen."""
    [work] = _planner(job).works(begin, end)
    outlet = job.logs.outlet(job.engine[0] if job.engine else job.start)
    outlet.put(Cut(work.number, begin, end), alone(job, batch_id, work), frozenset())
    outlet.flush()


_planners: dict[str, Planner] = {}  # of this worker, by start


def _planner(job: Job) -> Planner:
    if job.start not in _planners:
        _planners.clear()
        events, control = map(job.logs.feed, READ)
        _planners[job.start] = Planner(events, control, job.folder, job.settings)
    return _planners[job.start]


def stopping(job: Job) -> bool:
    """Whether the engine has been told to stop."""
    return (shared.private_folder(job.start) / STOP).exists()


def tell_to_stop(job: Job) -> None:
    """The running epoch ends at its next cut, and no other begins."""
    (shared.private_folder(job.start) / STOP).touch()
