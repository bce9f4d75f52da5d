"""The loop inside a task of Spark's: ten minutes of epochs, delivered from here, until the engine is to stop."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from threading import TIMEOUT_MAX, Event, Thread

from lab.engine.checkpoint import lease
from lab.engine.checkpoint.cuts import FOLDER, Cut, CutLog, is_closed_to_tasks
from lab.engine.checkpoint.record import planned_end, runs_loop
from lab.engine.loop.cut import Mark, Planner
from lab.engine.loop.ends import Outlet
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.job import Job
from lab.engine.loop.readahead import ReadAhead
from lab.engine.loop.task import run_single_task
from lab.engine.windows import shared
from lab.logs.access import file_lock
from lab.model.enginelogs import READ
from lab.model.statuslines import mark_positions
from lab.model.times import now_ms

BATCH_S = 600.0
WARM_UP_S = 20.0  # in short batches Spark compiles its code, and what the first tasks have loaded is frozen (`daemon.py`)
BETWEEN_TASKS_S = 2.0  # the loop goes on for so long after a task, while Spark plans the next one
EPOCH_S = 2.0  # whoever runs an epoch again needs a little longer than that
EPOCH_ROWS = 1 << 14  # an epoch that stores more ends earlier: events wait while rows are saved
GATHER_S = 0.003  # records gather before a cut
CUT_EVERY_S = 0.01  # cuts begin at least so far apart: one of ten events costs little more CPU time than one of one event
STEP_AGAIN_S = 0.02  # at most: if there is nothing to take yet of what has come
REST_S = 0.1  # the loop waits so long for records before it looks whether to stop
REUSE = "SPARK_REUSE_WORKER"  # Spark sets it where a worker stays for the next task
# files beside the shared memory: no cut comes after STOP; who runs the loop has LOOP locked, and ends when its task has ended and NEXT is there
STOP, LOOP, NEXT = "stop", "loop", "next"


class ParentGone(RuntimeError):
    """The process that started this worker has ended: another one may do its work."""


def run_loop(job: Job, batch_id: int) -> None:
    """Runs a micro-batch of epochs in this process. Raises Fenced or TakenOver if somebody else works on the checkpoint.

    If the loop of the micro-batch before still runs in this worker, it just goes on: no event waits for Spark's plan.
    """
    global _loop
    ends = time.monotonic() + _batch_s(job)
    while time.monotonic() < ends:
        if not (loop := _loop):
            if is_told_to_stop(job):
                return
            loop = _loop = Loop(job, batch_id)
            loop.start()
        loop.attend(ends)
        if not loop.is_alive():
            _loop = None
            if loop.error:
                raise loop.error


def end_loop_of_another_start(job: Job) -> None:
    """Every task calls this first: a worker's readers and producers are for one engine at a time."""
    global _loop
    if _loop and _loop.job.start_id != job.start_id:
        _loop.task_ends = -inf
        _loop.join()
        _loop = None


class Loop(Thread):
    """The loop in a thread, which goes on between two tasks. `task_ends`: by `time.monotonic`; `error`: what has ended the loop."""

    def __init__(self, job: Job, batch_id: int):
        super().__init__(name="loop", daemon=True)
        self.job, self.batch_id = job, batch_id
        self.task_ends = inf
        self.error: BaseException | None = None
        self._parent, self._folder = os.getppid(), shared.private_folder(job.start_id)
        self._takes_cuts = Event()
        self._goes_on_s = BETWEEN_TASKS_S if os.environ.get(REUSE) else 0.0

    def attend(self, task_ends: float) -> None:
        """Waits, in a task, until that may end: when all is repeated that earlier attempts left, or the loop has ended."""
        self.task_ends = task_ends
        self._takes_cuts.wait()
        self.join(min(task_ends - time.monotonic(), TIMEOUT_MAX) if self._goes_on_s else None)

    def run(self) -> None:
        """Epochs, until the engine is told to stop, or no task follows."""
        try:
            (self._folder / NEXT).touch()
            with file_lock(self._folder / LOOP, gives_up=self._is_over) as is_mine:
                if is_mine:
                    (self._folder / NEXT).unlink(missing_ok=True)
                    self._run_epochs()
        except BaseException as error:  # noqa: BLE001  (the task raises it)
            self.error = error
        finally:
            self._takes_cuts.set()

    def _run_epochs(self) -> None:
        job = self.job
        planner = _planner(job)
        job.folder.keep_everything()  # also what Spark has written
        cuts = CutLog(job.folder, _before(job, planner, self.batch_id), job.lease)

        def check() -> None:
            lease.check_lease(job.folder, job.lease)
            cuts.check_not_taken_over()

        _wait_for_brokers(planner, self._is_over)
        if self._is_over():
            return  # an outlet with transactions would wait for the brokers
        outlet = _outlet(job, cuts.taken, check)
        try:
            with ReadAhead(job, planner) as ahead:
                self._take_cuts(planner, cuts, outlet, ahead)
        finally:
            for feed in (planner.events, planner.control):
                feed.close()  # an idle worker would fetch and keep what another one reads

    def _take_cuts(self, planner: Planner, cuts: CutLog, outlet: Outlet, ahead: ReadAhead) -> None:
        job, pause, next_cut = self.job, GATHER_S, 0.0
        while not self._is_over():
            lease.check_lease(job.folder, job.lease)
            with running_epoch(job, planner, cuts, outlet.put, ahead) as running:
                self._takes_cuts.set()
                # what was repeated is saved at once: whoever is killed again and again does not repeat more each time
                save = time.monotonic() + (0 if cuts.taken else EPOCH_S)
                while not (
                    cuts.ended
                    or self._is_over()
                    or (cuts.taken and (time.monotonic() > save or running.stored_rows >= EPOCH_ROWS))
                ):
                    if running.wait_until_cut_due(REST_S):
                        running.pause(max(pause, next_cut - time.monotonic()))
                        begun = time.monotonic()
                        if running.step():
                            pause, next_cut = GATHER_S, begun + CUT_EVERY_S
                        else:  # what has come may be stamped later than the clock says it is
                            pause = min(2 * pause, STEP_AGAIN_S)
                    else:
                        running.pause(0)
                    job.logs.report_progress(mark_positions(cuts.mark["events"]))
                outlet.flush()

    def _is_over(self) -> bool:
        if os.getppid() != self._parent:
            raise ParentGone(f"process {self._parent} is gone")
        since = time.monotonic() - self.task_ends
        if since > 0 and (since > self._goes_on_s or (self._folder / NEXT).exists()):
            return True
        return is_told_to_stop(self.job)


_loop: Loop | None = None  # of this worker


def _wait_for_brokers(planner: Planner, over: Callable[[], bool]) -> None:
    """Returns when the logs answer. An attempt that fails because a broker is away is one of few that a task has; so the next one waits."""
    while not over():
        with suppress(ConnectionError):
            planner.current_ends()
            return


def _batch_s(job: Job) -> float:
    """How long a micro-batch is."""
    warming_up = job.engine_id and now_ms() - job.engine_id.started_ms < 1000 * WARM_UP_S
    return EPOCH_S if warming_up else BATCH_S


def _before(job: Job, planner: Planner, batch_id: int) -> Mark | None:
    """The mark at which a micro-batch begins, None if the one before ran the loop."""
    before = planned_end(job.checkpoint, batch_id - 1) if batch_id else planner.mark_at_start_of_logs()
    return None if runs_loop(before) else before


def finish_epoch_and_close_loop(job: Job, batch_id: int) -> None:
    """Carries out the cuts that an epoch has, ends it, and closes the loop: from now on the driver chooses the cuts."""
    alone = replace(job, settings=replace(job.settings, parallelism=1))
    lease.check_lease(job.folder, job.lease)
    if is_closed_to_tasks(job.folder / FOLDER, job.lease):
        return  # by another attempt
    planner, outlet = _planner(alone), job.logs.outlet(_writer(job))
    cuts = CutLog(job.folder, _before(alone, planner, batch_id), job.lease)
    with running_epoch(alone, planner, cuts, outlet.put):
        outlet.flush()
    cuts.close_to_tasks()


def rerun_planned_cut(job: Job, begin: Mark, end: Mark) -> None:
    """Runs a micro-batch of one cut that the driver of an earlier start has chosen."""
    [work] = _planner(job).plan_reading(begin, end)
    cut = Cut(work.cut_number, begin, end)
    outlet = _outlet(job, [cut], partial(lease.check_lease, job.folder, job.lease))
    outlet.put(cut, run_single_task(job, work), frozenset())
    outlet.flush()


def _outlet(job: Job, taken: Sequence[Cut], check: Callable[[], None]) -> Outlet:
    if job.settings.exactly_once:
        return job.logs.transactional_outlet(_writer(job), job.settings.key_groups, taken, check)
    return job.logs.outlet(_writer(job))


def _writer(job: Job) -> str:
    return job.engine_id.checkpoint_id if job.engine_id else job.start_id


_planners: dict[str, Planner] = {}  # of this worker, by start


def _planner(job: Job) -> Planner:
    if job.start_id not in _planners:
        _planners.clear()
        events, control = map(job.logs.feed, READ)
        _planners[job.start_id] = Planner(events, control, job.folder, job.settings)
    return _planners[job.start_id]


def is_told_to_stop(job: Job) -> bool:
    """Whether the engine has been told to stop, or has stopped: its folder is made before any task starts, and removed at the end."""
    folder = shared.existing_private_folder(job.start_id)
    return folder is None or (folder / STOP).exists()


def tell_to_stop(job: Job) -> None:
    """The loop ends at its next cut, and does not begin again."""
    (shared.private_folder(job.start_id) / STOP).touch()


def wait_for_end_of_loop(job: Job, at_most_s: float) -> None:
    """Waits until no worker runs the loop, which goes on after its task; `tell_to_stop` first."""
    deadline = time.monotonic() + at_most_s
    with file_lock(shared.private_folder(job.start_id) / LOOP, gives_up=lambda: time.monotonic() > deadline):
        pass
