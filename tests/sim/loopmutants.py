"""Faults planted into the loop and its file of cuts."""

from contextlib import contextmanager
from unittest.mock import patch

from lab.engine import cuts, loop
from lab.engine.cuts import Cut, Cuts
from lab.engine.durable import Durable
from lab.engine.loop import Epoch
from lab.engine.windowstate import WindowState
from tests.sim.mutants import mutant


@mutant
def a_cut_is_used_before_it_is_durable():
    def step(self):
        if (
            self.cuts.ended
            or (end := self.planner.latest(self.cuts.mark, self.job.settings.max_batch_records))
            == self.cuts.mark
        ):
            return False
        self.carry_out(Cut(self.cuts.number, self.cuts.mark, end), frozenset())
        self.cuts.add(end)
        return True

    with patch.object(Epoch, "step", step):
        yield


@mutant
def an_epoch_that_runs_again_takes_other_cuts():
    take_over = Cuts._take_over

    def mutated(self, initial):
        taken = take_over(self, initial)
        if not self.ended:
            self.number -= len(self.taken)
            self.mark, self.taken = self.begin, []
        return taken

    with patch.object(Cuts, "_take_over", mutated):
        yield


@mutant
def a_twin_adds_cuts_and_delivers():
    append = Durable.append

    def mutated(self, name, size, whole, data):
        now = self.size(name)
        return append(self, name, now, whole + now - size, data)

    with patch.object(Durable, "append", mutated), patch.object(Cuts, "check", lambda self: None):
        yield


@mutant
def what_failed_half_way_through_an_epoch_is_saved():
    batch = WindowState.batch

    @contextmanager
    def mutated(self, number, rules):
        with batch(self, number, rules) as windows:
            try:
                yield windows
            except Exception as error:  # noqa: BLE001
                failed = error
            else:
                failed = None
        if failed:
            raise failed

    with patch.object(WindowState, "batch", mutated):
        yield


@mutant
def cuts_come_after_the_end_of_an_epoch():
    """Its state file may be there already."""
    with patch.object(Cuts, "end", lambda self: None), patch.object(cuts, "end_of", _last):
        yield


def _last(folder, epoch):
    records, _ = cuts._records(folder.read(cuts._name(epoch)), "")
    ends = [record["cut"] for record in records if "cut" in record]
    return (ends or [records[0]["begin"]])[-1], records[0]["number"] + len(ends)


@mutant
def a_torn_record_stays_before_the_next():
    append = Cuts._append
    with patch.object(Cuts, "_append", lambda self, size, _, *records: append(self, size, size, *records)):
        yield


@mutant
def a_log_refuses_a_cut_before_its_last():
    with patch.object(loop, "frozenset", lambda *_: set(), create=True):
        yield


@mutant
def an_attempt_that_stood_still_makes_a_removed_file_anew():
    check = Cuts._check_newest

    def once(self):
        if not hasattr(self, "begin"):
            check(self)

    with patch.object(Cuts, "_check_newest", once):
        yield
