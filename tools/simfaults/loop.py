"""Faults planted into the loop and its file of cuts."""

from contextlib import contextmanager
from unittest.mock import patch

from lab.engine.checkpoint import cuts
from lab.engine.checkpoint.cuts import Cut, CutLog
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.loop import epochs as loop
from lab.engine.loop.epochs import Epoch
from lab.engine.windows.windowstate import WindowState
from tools.simfaults.registry import mutant


@mutant
def a_cut_is_used_before_it_is_durable():
    def step(self):
        if self.cuts.ended:
            return False
        at_most, due = self.job.settings.max_batch_records, self._windows.due_ms
        end = self.planner.advance_mark(self.cuts.mark, at_most, due_ms=due)
        if end == self.cuts.mark:
            return False
        self._carry_out(Cut(self.cuts.number, self.cuts.mark, end), frozenset())
        self.cuts.add(end)
        return True

    with patch.object(Epoch, "step", step):
        yield


@mutant
def an_epoch_that_runs_again_takes_other_cuts():
    take_over = CutLog._take_over

    def mutated(self, before):
        taken = take_over(self, before)
        if not self.ended:
            self.number -= len(self.taken)
            self.mark, self.taken = self.begin, []
        return taken

    with patch.object(CutLog, "_take_over", mutated):
        yield


@mutant
def a_twin_adds_cuts_and_delivers():
    append = CheckpointFolder.append_if_unchanged

    def mutated(self, name, size, whole, data, ending=b"", kept=False):
        now = len(self.read(name) or b"")
        return append(self, name, now, whole + now - size, data)

    with (
        patch.object(CheckpointFolder, "append_if_unchanged", mutated),
        patch.object(CutLog, "check_not_taken_over", lambda self: None),
    ):
        yield


@mutant
def what_failed_half_way_through_an_epoch_is_saved():
    open_epoch = WindowState.open_epoch

    @contextmanager
    def mutated(self, number, rules):
        with open_epoch(self, number, rules) as windows:
            try:
                yield windows
            except Exception as error:  # noqa: BLE001
                failed = error
            else:
                failed = None
        if failed:
            raise failed

    with patch.object(WindowState, "open_epoch", mutated):
        yield


@mutant
def cuts_come_after_the_end_of_an_epoch():
    """Its state file may be there already."""
    take_end, saved = CutLog._take_end, CutLog.mark_epoch_saved

    def late(self):
        if not self.ended:
            self._add({"end": self.mark, "number": self.number})
            take_end(self, self.mark)
        saved(self)

    with patch.object(CutLog, "end_epoch", lambda self: None), patch.object(CutLog, "mark_epoch_saved", late):
        yield


@mutant
def an_epoch_counts_as_saved_at_its_end():
    """A worker that dies then leaves no state file."""
    end = CutLog.end_epoch

    def both(self):
        end(self)
        if not self.is_saved:
            self._add({"saved": True})

    with (
        patch.object(CutLog, "end_epoch", both),
        patch.object(CutLog, "mark_epoch_saved", lambda self: setattr(self, "is_saved", True)),
    ):
        yield


@mutant
def the_next_epoch_is_begun_whoever_has_it():
    def mutated(self):
        mark, epoch = self.mark, self.epoch
        while not self._begin(mark, self._folder.read(cuts._name(epoch + 1)) or b""):
            pass
        self._tidy()

    with patch.object(CutLog, "begin_next_epoch", mutated):
        yield


@mutant
def a_task_goes_on_where_the_driver_chooses_the_cuts():
    """Its start, or an earlier one, may still have a task that was taken for dead."""
    with patch.object(CutLog, "close_to_tasks", CutLog.begin_next_epoch):
        yield


@mutant
def an_attempt_of_an_earlier_start_is_let_in():
    with patch.object(cuts, "_lease", lambda record: ""):
        yield


@mutant
def what_the_driver_did_meanwhile_is_forgotten():
    take_over = CutLog._take_over

    def mutated(self, before):
        return take_over(self, None if self._folder.names() else before)

    with patch.object(CutLog, "_take_over", mutated):
        yield


@mutant
def a_torn_record_stays_before_the_next():
    append = CutLog._append
    with patch.object(
        CutLog, "_append", lambda self, found, _, *records: append(self, found, len(found), *records)
    ):
        yield


@mutant
def a_log_refuses_a_cut_before_its_last():
    with patch.object(loop, "frozenset", lambda *_: set(), create=True):
        yield


@mutant
def an_attempt_that_stood_still_makes_a_removed_file_anew():
    def mutated(self):
        for name in self._folder.names():
            if cuts._epoch(name) < self.epoch - 1:
                self._folder.remove(name)

    with patch.object(CutLog, "_tidy", mutated):
        yield
