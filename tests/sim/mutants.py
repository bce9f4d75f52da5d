"""Faults planted into the engine, each by itself: the simulator has to find every one of them."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import astuple, replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from lab.engine import decode, task, windows
from lab.engine.columns import concat
from lab.engine.cut import Planner
from lab.engine.ledger import Ledger
from lab.engine.statefiles import StateFiles
from lab.engine.store import RouteStore
from lab.engine.windows import Windows
from tests.sim.world import SimFeed, SimNote, World

Mutant = Callable[[], AbstractContextManager]
MUTANTS: dict[str, Mutant] = {}


def mutant(function: Callable[[], Iterator[None]]) -> Mutant:
    """Goes by the function's name, with spaces."""
    planted = contextmanager(function)
    MUTANTS[function.__name__.replace("_", " ")] = planted
    return planted


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
    """At the live edge: events up to a log time, control to its end."""
    before = Planner._before

    def mutated(self, log_time, there, begun):
        return before(self, log_time, there, begun)[0], there[1]

    with patch.object(Planner, "_before", mutated):
        yield


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
    changes = Planner._changes

    def mutated(self, begun, ends, floor):
        return sorted(changes(self, begun, ends, floor), key=lambda change: (change.log_time, -change.source))

    with patch.object(Planner, "_changes", mutated):
        yield


@mutant
def a_run_up_to_an_end_cuts_at_the_clock():
    after = Planner._after

    def mutated(self, log_time, there, begun):
        end = after(self, log_time, there, begun)
        before = self._before

        def taken(at, there, begun):
            return before(end if at == log_time else at, there, begun)

        self._before = taken
        return log_time

    with patch.object(Planner, "_after", mutated):
        yield


# -- rules -------------------------------------------------------------------------------------------------------------


@mutant
def the_ledger_is_not_copied_before_it_is_changed():
    with patch.object(Ledger, "copy", lambda self: self):
        yield


@mutant
def events_come_before_control_of_the_same_log_time():
    routed = task.route

    def mutated(batch, rules, changes, settings):
        later = [replace(change, log_time=change.log_time + 1) for change in changes]
        return routed(batch, rules, later, settings)

    with patch.object(task, "route", mutated):
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
def memory_is_rebuilt_before_the_note_is_emptied():
    open_, write = Windows._open, SimNote.write

    def mutated(self, noted):
        note = SimNote(f"{self.folder}/lock")
        World.current.notes[note.path] = noted
        open_(self, noted)
        write(note, "")

    with patch.object(Windows, "_open", mutated):
        yield


@mutant
def windows_at_hand_are_trusted():
    with patch.object(windows, "uuid4", lambda: SimpleNamespace(hex="")):
        yield


@mutant
def a_window_file_that_is_gone_is_an_empty_window():
    open_ = Windows._open

    def mutated(self, noted):
        with patch.object(windows, "all", lambda of: True, create=True):
            open_(self, noted)

    with patch.object(Windows, "_open", mutated):
        yield


@mutant
def the_note_is_written_before_the_state_file():
    save = Windows._save

    def early(self):
        chain = [astuple(file)[:-1] for file in self.chain]
        SimNote(f"{self.folder}/lock").write(
            json.dumps({"batch": self.batch_id, "chain": chain, "garbage": []})
        )
        save(self)

    with patch.object(Windows, "_save", early):
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
def a_file_is_named_by_its_last_batch_alone():
    """A merged file hides none of those that it replaces."""
    write = StateFiles.write
    with patch.object(
        StateFiles, "write", lambda self, last, first, level, rows: write(self, last, last, level, rows)
    ):
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
    def mutated(parts):
        return {name: concat([part[name] for part in parts]) for name in parts[0]}

    with patch.object(windows, "in_log_order", mutated):
        yield


@mutant
def an_event_may_be_dated_any_time():
    with patch.object(task, "decode", lambda runs, schema, _: decode.decode(runs, schema, 10**14)):
        yield
