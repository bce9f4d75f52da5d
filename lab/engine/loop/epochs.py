"""The engine as a loop that knows nothing of Spark: cut, read, decode, route, evaluate, deliver, and save from time to time.

    ┌────────────────────────── an epoch ──────────────────────────┐
    cut ─► written ahead ─► read, decode, route ─► evaluate ─► deliver         again and again; a pure function of the cut
    └──────────────────────────────────────────────────────────────┘
    end ─► state file ─► saved                                               once an epoch

An attempt that runs an epoch again carries out the same cuts first. So it produces the same lines and the same state file.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.cuts import Cut, CutId, CutLog
from lab.engine.checkpoint.record import batch_fingerprint
from lab.engine.loop.cut import Planner
from lab.engine.loop.job import Job
from lab.engine.loop.readahead import CutInput, ReadAhead
from lab.engine.loop.task import deliverable_output, evaluate_cut, read_and_route, task_windows
from lab.engine.windows.evaluate import TaskOutput, Windows
from lab.engine.windows.windowstate import WindowState
from lab.model.times import now_ms

ASK_S = 1.0  # logs that report nothing new are asked this often

# `redelivered`: cuts that an earlier attempt may have delivered already
Deliver = Callable[[Cut, TaskOutput, frozenset[CutId]], None]


class Epoch:
    """A running epoch, see `running_epoch`."""

    def __init__(
        self,
        job: Job,
        planner: Planner,
        cuts: CutLog,
        state: WindowState,
        windows: Windows,
        deliver: Deliver,
        ahead: ReadAhead | None,
    ):
        self.job, self.planner, self.cuts = job, planner, cuts
        self._state, self._windows, self._deliver, self._ahead = state, windows, deliver, ahead
        self._resumed, self._asked = 0, 0.0

    @property
    def stored_rows(self) -> int:
        """How many events the routes have stored, all of which the end of the epoch saves."""
        return self._windows.stored

    def wait_until_cut_due(self, timeout_s: float) -> bool:
        """Waits until a step may take a cut, for `timeout_s` at most; returns whether it may."""
        if self._ahead and self._ahead.has_begun:
            return True
        if (due := self._windows.due_ms) is not None:
            timeout_s = min(timeout_s, (due - self.planner.clock()) / 1000)
        return (
            time.monotonic() > self._asked + ASK_S
            or timeout_s < 0
            or self.planner.wait_for_records(self.cuts.mark, timeout_s)
        )

    def pause(self, seconds: float) -> None:
        """Lets records gather for so long. State files are merged meanwhile, a slice at least; the rest of the time it sleeps."""
        begun = now = time.monotonic()
        while self._state.merge_slice():
            before, now = now, time.monotonic()
            if now + (now - before) > begun + seconds:
                break
        if (left := begun + seconds - time.monotonic()) > 0:
            time.sleep(left)

    def step(self) -> bool:
        """Takes a cut and carries it out; False if the logs have nothing new, or the epoch ended in an earlier attempt."""
        if self.cuts.ended:
            return False
        self._asked = time.monotonic()
        most, due_ms = self.job.settings.max_batch_records, self._windows.due_ms
        read = self._ahead.take() if self._ahead else None
        end = read.end if read else self.planner.advance_mark(self.cuts.mark, most, due_ms=due_ms)
        if end == self.cuts.mark:
            return False
        self._carry_out(self.cuts.add(end), frozenset(), read)
        return True

    def _repeat(self) -> None:
        """Carries out the cuts that earlier attempts left."""
        taken = list(self.cuts.taken)
        redelivered = frozenset(CutId(cut.number, batch_fingerprint(cut.end)) for cut in taken)
        for cut in taken:
            self._carry_out(cut, redelivered)
        self._resumed = now_ms()

    def _carry_out(self, cut: Cut, redelivered: frozenset[CutId], read: CutInput | None = None) -> None:
        """Evaluates the records between the marks of a cut, and delivers the results. `read`: if they have been read ahead."""
        [work] = self.planner.plan_reading(cut.begin, cut.end)
        _, envelopes, report = read or CutInput(cut.end, *read_and_route(self.job, work, self.planner.events))
        if self._ahead and cut.end == self.cuts.mark:
            self._ahead.begin(cut.end, report.counts["records"])
        if read:  # it has waited for the cut before
            report.times_ms["evaluate"] = now_ms()
        if self._resumed and "stopped" in cut.begin:
            report.times_ms |= {"stopped": cut.begin["stopped"], "resumed": self._resumed}
        result = evaluate_cut(self.job, self._windows, work, envelopes, report)
        output = deliverable_output(self.job, self._state, cut.number, report, result)
        self.cuts.check_not_taken_over()
        self._deliver(cut, output, redelivered)


@contextmanager
def running_epoch(
    job: Job, planner: Planner, cuts: CutLog, deliver: Deliver, ahead: ReadAhead | None = None
) -> Iterator[Epoch]:
    """An attempt at an epoch of an engine with one task: carries out the cuts of earlier attempts, then the caller's steps.

    `ahead`: with the same planner, if large cuts are to be read ahead; the next epoch takes what this one has begun.

    At the end the epoch is saved, unless an error is raised; with the same `cuts`, the next call runs the next epoch. If another
    attempt begins meanwhile, it takes the epoch over, and this one raises TakenOver at its next step.
    """
    if cuts.is_saved:
        cuts.begin_next_epoch()
    planner.oldest_needed_ledger = cuts.begin["ledger"]
    rules = ledger.load_ledger(job.folder, cuts.begin["ledger"], job.settings.schema).ledger.copy()
    state = task_windows(job, 0)
    with state.open_epoch(cuts.epoch, rules) as windows:
        running = Epoch(job, planner, cuts, state, windows, deliver, ahead)
        running._repeat()
        yield running
        cuts.end_epoch()
    cuts.mark_epoch_saved()
