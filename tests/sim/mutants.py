"""Faults planted into the engine, each by itself: the simulator has to find every one of them."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from lab.engine import cut, decode, ledger, route, statefiles, task, windows
from lab.engine.cut import Planner
from lab.engine.ledger import Ledger
from lab.engine.statefiles import StateFiles
from lab.engine.store import RouteStore
from lab.engine.windows import Windows
from tests.sim.world import SimFeed, SimNote

Mutant = Callable[[], "Iterator[None]"]
MUTANTS: dict[str, Mutant] = {}


def mutant(function: Callable[[], Iterator[None]]) -> Mutant:
    """Called as the function is, with spaces."""
    MUTANTS[function.__name__.replace("_", " ")] = contextmanager(function)
    return MUTANTS[function.__name__.replace("_", " ")]


# -- the cut -----------------------------------------------------------------------------------------------------------


@mutant
def a_limit_cuts_events_but_not_control():
    """The rule logged at the fifth segment holds from the third on."""
    less = Planner._less

    def mutated(self, low, high, begun, there, limit):
        found, ends = less(self, low, high, begun, there, limit)
        return found, (ends[0], there[1])

    with patch.object(Planner, "_less", mutated):
        yield


@mutant
def control_is_listed_after_events():
    """At the live edge: events to their end, control to its end, no common log time."""
    with patch.object(Planner, "_before", lambda self, log_time, there, begun: (SEES(self, log_time, there, begun), there[1])):
        yield


def SEES(planner: Planner, log_time: int, there, begun) -> dict:
    ends = planner.events.ends_before(log_time, there[0])
    return {number: max(end, begun[0].get(number, 0)) for number, end in ends.items()}


@mutant
def all_that_is_there_is_taken():
    with patch.object(Planner, "_before", lambda self, log_time, there, begun: there):
        yield


@mutant
def the_floor_is_ignored():
    read = SimFeed.read
    with patch.object(SimFeed, "read", lambda self, ranges, floor: read(self, ranges, 0)):
        yield


@mutant
def log_times_begin_anew_with_each_run_of_records():
    read = SimFeed.read

    def mutated(self, ranges, floor):
        for run in read(self, ranges, floor):
            records = self._sources[run.source][run.start : run.start + len(run.values)]
            times = np.array([record.log_time for record in records], np.int64)
            yield replace(run, log_time=np.maximum.accumulate(np.maximum(times, floor)))

    with patch.object(SimFeed, "read", mutated):
        yield


@mutant
def changes_are_sorted_without_their_source():
    with patch.object(cut, "sorted", lambda of, key=None: sorted(of, key=lambda c: (c.log_time, -c.source) if hasattr(c, "message") else c), create=True):
        yield


@mutant
def a_run_up_to_an_end_cuts_at_the_clock():
    with patch.object(Planner, "_after", lambda self, log_time, there, begun: log_time), patch.object(
        Planner, "_before", UPTO(Planner._before)
    ):
        yield


def UPTO(before):
    def mutated(self, log_time, there, begun):
        found = before(self, log_time, there, begun)
        return found if there == self.target() else there

    return mutated


# -- rules -------------------------------------------------------------------------------------------------------------


@mutant
def the_ledger_is_not_copied_before_it_is_changed():
    with patch.object(Ledger, "copy", lambda self: self):
        yield


@mutant
def events_come_before_control_of_the_same_log_time():
    with patch.object(route.np, "searchsorted", lambda a, v, side="left": SORTED(a, v, "right" if isinstance(v, list) else side)):
        yield


SORTED = np.searchsorted


@mutant
def a_store_keeps_its_number_when_it_is_cleared():
    number = Ledger._number
    apply = Ledger.apply

    def mutated(self, message):
        if b"CLEAR_STATE_ALL" not in message:
            return apply(self, message)
        with patch.object(Ledger, "_number", lambda self: next(iter(self.kept.values())).store):
            return apply(self, message)

    with patch.object(Ledger, "apply", mutated), patch.object(Ledger, "_number", number):
        yield


@mutant
def resets_are_not_filtered_by_when_a_rule_joined():
    fill = Windows._fill

    def mutated(self, store, rows, joined):
        if "joined" in rows.column_names:
            known = pa.array([joined.get(rule) for rule in rows["rule"].to_pylist()], pa.int64())
            rows = rows.set_column(rows.column_names.index("joined"), "joined", known)
        fill(self, store, rows, joined)

    with patch.object(Windows, "_fill", mutated):
        yield


@mutant
def a_rule_that_left_for_a_moment_keeps_its_resets():
    change = RouteStore.change

    def mutated(self, fields, rules, gone):
        change(self, fields, rules, {rule.rule_id for rule in self.rules} - {rule.rule_id for rule in rules})

    with patch.object(RouteStore, "change", mutated):
        yield


@mutant
def what_a_narrow_window_let_go_comes_back():
    change = Windows._change

    def mutated(self, changes):
        change(self, changes)
        self.rewrite = False

    with patch.object(Windows, "_change", mutated):
        yield


# -- memory ------------------------------------------------------------------------------------------------------------


@mutant
def the_note_stays_while_memory_changes():
    write = SimNote.write
    with patch.object(SimNote, "write", lambda self, text: write(self, text) if text else None):
        yield


@mutant
def memory_is_rebuilt_before_the_note_is_emptied():
    open_, write = Windows._open, SimNote.write

    def late(self, noted):
        open_(self, noted)
        for name in [name for name in NOTES if name.startswith(str(self.folder))]:
            write(NOTES.pop(name), "")

    NOTES: dict[str, SimNote] = {}

    def kept(self, text):
        if text:
            write(self, text)
        else:
            NOTES[self.path] = self

    with patch.object(Windows, "_open", late), patch.object(SimNote, "write", kept):
        yield


@mutant
def windows_at_hand_are_trusted():
    with patch.object(windows, "uuid4", lambda: Counter(hex="same")["x"] or SAME):
        yield


class SAME:
    hex = "the same each time"


@mutant
def a_window_file_that_is_gone_is_an_empty_window():
    with patch.object(windows, "all", lambda of: True, create=True), patch.object(Windows, "_path", Windows._path):
        yield


@mutant
def the_note_is_written_before_the_state_file():
    save, process = Windows._save, Windows.process

    def early(self):
        note = f"{self.folder}/lock"
        before = dict(vars(self))
        text = '{"batch": %d, "chain": %s, "garbage": []}' % (
            self.batch_id,
            [[f.last, f.first, f.low, f.high, f.level, f.bytes, f.events] for f in self.chain],
        )
        assert before
        SimNote(note).write(text)
        save(self)

    with patch.object(Windows, "_save", early), patch.object(Windows, "process", process):
        yield


# -- state files -------------------------------------------------------------------------------------------------------


@mutant
def files_of_uncommitted_batches_are_read():
    find = StateFiles.find
    with patch.object(StateFiles, "find", lambda self, upto, sweep=True: find(self, upto + 1, sweep)):
        yield


@mutant
def a_file_serves_all_that_it_holds():
    read = StateFiles.read
    everything = tuple(range(64))
    with patch.object(StateFiles, "read", lambda self, file: read(self, replace(file, serves=everything))):
        yield


@mutant
def a_merged_file_does_not_take_in_those_of_other_tasks():
    """A merge after a rescale covers batches of which it holds a part."""
    merging = statefiles.merging

    def mutated(chain):
        taken, level = merging(chain)
        last = chain[-1] if chain else None
        return (max(taken - 1, 0), level) if last and (last.low, last.high) != (0, 0) else (taken, level)

    def rows(self, start):
        merged = ROWS(self, start)
        return merged

    with patch.object(windows, "merging", mutated), patch.object(Windows, "_rows", rows):
        first = statefiles.first_seq
        with patch.object(windows, "min", lambda of, default=None: (min(of, default=default) - 1 if default else default), create=True):
            assert first
            yield


ROWS = Windows._rows


@mutant
def garbage_goes_before_the_commit():
    save = Windows._save

    def mutated(self):
        save(self)
        for name in self.garbage:
            self.files.folder.remove(name)

    with patch.object(Windows, "_save", mutated):
        yield


@mutant
def a_file_of_other_tasks_goes_when_mine_replaces_it():
    save = Windows._save

    def mutated(self):
        before = list(self.chain)
        save(self)
        kept = {file.name for file in self.chain}
        self.garbage += [file.name for file in before if file.name not in kept]

    with patch.object(Windows, "_save", mutated):
        yield


@mutant
def a_file_expires_by_the_newest_time_of_all_key_groups():
    def mutated(self, file):
        mine = (file.low, file.high) == (self.low, self.high)
        return mine and all(
            newest < self.stores[number].newest.max() - self.stores[number].widest_ms - self.late_ms
            for number, _, newest in self.files.newest(file)
            if number in self.stores
        )

    with patch.object(Windows, "_expired", mutated):
        yield


@mutant
def the_horizon_is_that_of_all_key_groups():
    held = RouteStore._held

    def mutated(self, event, late_ms):
        before = self.newest.copy()
        self.newest[:] = before.max()
        try:
            return held(self, event, late_ms)
        finally:
            self.newest[:] = before

    with patch.object(RouteStore, "_held", mutated):
        yield


# -- tasks -------------------------------------------------------------------------------------------------------------


@mutant
def events_of_several_tasks_are_not_merged_by_log_time():
    with patch.object(windows, "in_log_order", lambda parts: {n: windows_concat([p[n] for p in parts]) for n in parts[0]}):
        yield


windows_concat = route.in_log_order.__globals__["concat"]


@mutant
def an_event_may_be_dated_any_time():
    with patch.object(task, "decode", lambda runs, schema, _: decode.decode(runs, schema, 10**14)):
        yield


@mutant
def counts_are_told_to_every_task():
    sent = task.sent

    def mutated(job, number, work):
        for to, payload in sent(job, number, work):
            if payload[:1] == b"{" and to == 0:
                told = payload
            yield to, told if payload[:1] == b"{" else payload

    with patch.object(task, "sent", mutated), patch("tests.sim.protocol.sent", mutated):
        yield


@mutant
def old_ledgers_go_too_early():
    with patch.object(ledger, "KEPT", 1), patch("tests.sim.simulate.LEDGERS", 1):
        yield
