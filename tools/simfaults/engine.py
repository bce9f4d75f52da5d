"""Faults planted into the engine, each by itself: the simulator has to find every one of them."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.ledger import Ledger
from lab.engine.loop import cut, task
from lab.engine.loop.cut import Ends, Planner
from lab.engine.records import decode
from lab.engine.records.columns import concat_columns
from lab.engine.windows import evaluate as windows
from lab.engine.windows.evaluate import Windows
from lab.engine.windows.store import RouteStore
from lab.engine.windows.windowstate import WindowState
from tests.sim.topics import SimFeed
from tools.simfaults.registry import mutant

# -- the cut -----------------------------------------------------------------------------------------------------------


@mutant
def a_limit_cuts_events_but_not_control():
    """The rule logged at the fifth segment holds from the third on."""
    less = Planner._within_limit

    def mutated(self, low, high, begun, there, limit):
        found, ends = less(self, low, high, begun, there, limit)
        return found, Ends(ends.events, there.control)

    with patch.object(Planner, "_within_limit", mutated):
        yield


@mutant
def control_is_listed_after_events():
    """At the live edge: events up to a log time, control to its end."""
    before = Planner._before

    def mutated(self, log_time, there, begun):
        return Ends(before(self, log_time, there, begun).events, there.control)

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
            records = self._sources[run.source][run.offsets[0] : run.offsets[-1] + 1]
            times = np.array([record.log_time for record in records], np.int64)
            yield replace(run, log_time=np.maximum.accumulate(np.maximum(times, floor)))

    with patch.object(SimFeed, "read", mutated):
        yield


@mutant
def changes_are_sorted_without_their_source():
    records = cut.cut_records

    def mutated(*planned):
        return sorted(records(*planned), key=lambda change: (change.log_time, -change.source))

    with patch.object(cut, "cut_records", mutated):
        yield


@mutant
def a_run_up_to_an_end_cuts_at_the_clock():
    after = Planner._log_time_after

    def mutated(self, log_time, there, begun):
        end = after(self, log_time, there, begun)
        before = self._before

        def taken(at, there, begun):
            return before(end if at == log_time else at, there, begun)

        self._before = taken
        return log_time

    with patch.object(Planner, "_log_time_after", mutated):
        yield


@mutant
def a_first_batch_that_runs_again_begins_at_what_is_left():
    with patch.object(Planner, "initial_mark", Planner.mark_at_start_of_logs):
        yield


# -- rules -------------------------------------------------------------------------------------------------------------


@mutant
def the_ledger_is_not_copied_before_it_is_changed():
    with patch.object(Ledger, "copy", lambda self: self):
        yield


@mutant
def a_list_that_has_changed_is_not_saved_again():
    save = ledger._save_list

    def mutated(folder, number, name, of):
        saved = of.saved_lists.get(name)
        return saved.file if saved else save(folder, number, name, of)

    with patch.object(ledger, "_save_list", mutated):
        yield


@mutant
def muted_alerts_are_counted_and_given():
    without = windows.without_muted
    with patch.object(
        windows,
        "without_muted",
        lambda store, columns, rows, book: (rows, without(store, columns, rows, book)[1]),
    ):
        yield


@mutant
def events_come_before_control_of_the_same_log_time():
    routed = task.route_events

    def mutated(batch, rules, changes, settings):
        later = [replace(change, log_time=change.log_time + 1) for change in changes]
        return routed(batch, rules, later, settings)

    with patch.object(task, "route_events", mutated):
        yield


@mutant
def resets_are_not_filtered_by_when_a_rule_joined():
    load_resets = WindowState._load_resets

    def mutated(self, store, rows, joined):
        if "joined" in rows.column_names:
            known = pa.array([joined.get(rule, -1) for rule in rows["rule"].to_pylist()], pa.int64())
            rows = rows.set_column(rows.column_names.index("joined"), "joined", known)
        load_resets(self, store, rows, joined)

    with patch.object(WindowState, "_load_resets", mutated):
        yield


@mutant
def a_rule_that_left_for_a_moment_keeps_its_resets():
    change = RouteStore.change_rules

    def mutated(self, fields, rules, gone):
        change(self, fields, rules, {rule.rule_id for rule in self.rules} - {rule.rule_id for rule in rules})

    with patch.object(RouteStore, "change_rules", mutated):
        yield


@mutant
def a_rule_that_had_another_filter_for_a_moment_keeps_its_resets():
    def mutated(self, rule_id):
        before, after = self._members.pop(rule_id, None), self.book.rules.get(rule_id)
        if after:
            self._members[rule_id] = after
        stays = before and after and before.route.keys == after.route.keys
        joined = self.entries[before.route].joined_by_rule_id[rule_id] if stays else self._number()
        if before:
            self._leave(before)
        if after:
            self._join(after, joined)
        if before and not self.entries[before.route].joined_by_rule_id:
            del self.entries[before.route]

    with patch.object(Ledger, "_move", mutated):
        yield


@mutant
def what_a_narrow_window_let_go_comes_back():
    change = Windows._change

    def mutated(self, *changes):
        acks = change(self, *changes)
        self.forgot = False
        return acks

    with patch.object(Windows, "_change", mutated):
        yield


# -- tasks -------------------------------------------------------------------------------------------------------------


@mutant
def events_of_several_tasks_are_not_merged_by_log_time():
    def mutated(parts):
        return {name: concat_columns([part[name] for part in parts]) for name in parts[0]}

    with patch.object(windows, "in_log_order", mutated):
        yield


@mutant
def an_event_may_be_dated_any_time():
    with patch.object(task, "decode", lambda runs, schema, _: decode.decode(runs, schema, 10**14)):
        yield
