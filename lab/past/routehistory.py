"""Finds the events that a route stored when an event was judged, by running the reference over the events and rule changes in memory.

control messages ──► RouteHistory.apply ──► what changed on each route, and when
events of a key-group ──► RouteHistory.window_event_numbers ──► the events over which the last one's aggregate was computed
"""

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from lab.engine.checkpoint.settings import Settings
from lab.model.alerts import event_id_text
from lab.model.field import Id, Value
from lab.model.group import Group, group_for_alert
from lab.model.horizon import note_time
from lab.model.jsontext import BadRecord
from lab.model.referencestate import StoredEvent
from lab.model.rules import Route, Rule, RuleBook
from lab.model.schema import Schema
from lab.model.whenreader import takes_back
from lab.past.fastreference import FastReference
from lab.sources.rows import RowSource, check_rows, is_table, source_of

FORGET_AT = 1_000  # changes of rules


@dataclass(frozen=True)
class PastEvent:
    """An event in memory, or a record that takes one back; times in ms. `group`: any value, the same for events of one group."""

    number: int  # in log order
    log_time: int
    event_time: int
    group: Hashable
    fields_if_own_group: dict[str, Any] | None  # None: the event is of another group


@dataclass(frozen=True)
class RouteChange:
    """From a log time on, a route has this rule (None: no rule with this id). `events_cleared`: the route forgets its events."""

    log_time: int
    rule_id: int
    rule: Rule | None
    events_cleared: bool = False


class RouteHistory:
    """The rules in force, and what changed on each route, when. `settings`: those of the engine.

    >>> history = RouteHistory(Settings())
    >>> history.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", log_time=7)["status"]
    'accepted'
    >>> [(change.log_time, change.rule_id) for change in history.changes[history.book.rules[1].route]]
    [(7, 1)]
    """

    def __init__(self, settings: Settings):
        self.settings, self.book = settings, RuleBook(settings.schema)
        self.changes: dict[Route, list[RouteChange]] = {}
        self._rules: dict[int, Rule] = {}  # those of the book, before a message
        self._noted = 0  # changes since `forget_before` last went through them

    def apply(self, message: str | bytes, log_time: int = 0) -> dict[str, Any]:
        """Carries out a control message and returns its acknowledgement."""
        ack = self.book.apply(message)
        if ack.get("controlType") == "CLEAR_STATE_ALL":
            for rule in self._rules.values():
                self._note(rule.route, RouteChange(log_time, rule.rule_id, rule, events_cleared=True))
        for rule_id in [ack["ruleId"]] if "ruleId" in ack else ack.get("ruleIds", ()):
            before, now = self._rules.pop(rule_id, None), self.book.rules.get(rule_id)
            if before and (now is None or now.route != before.route):
                self._note(before.route, RouteChange(log_time, rule_id, None))
            if now:
                self._note(now.route, RouteChange(log_time, rule_id, now))
                self._rules[rule_id] = now
        return ack

    def _note(self, route: Route, change: RouteChange) -> None:
        self.changes.setdefault(route, []).append(change)
        self._noted += 1

    @property
    def has_much_to_forget(self) -> bool:
        """Whether so many changes have come that `forget_before` is worth its time."""
        return self._noted >= FORGET_AT

    def forget_before(self, log_time: int) -> None:
        """Drops changes that no event in memory needs: of those up to a log time, keeps only the rules that they led to.

        If an event from before that time comes later, these rules apply to it, because earlier ones are no longer known.
        """
        for route, changes in list(self.changes.items()):
            rules = {each.rule_id: each for each in changes if each.log_time <= log_time}
            led_to = [replace(each, log_time=0, events_cleared=False) for each in rules.values() if each.rule]
            # the widest first: no window becomes wider among them
            led_to.sort(key=lambda each: -each.rule.widest_ms if each.rule else 0)
            self.changes[route] = led_to + [each for each in changes if each.log_time > log_time]
            if not self.changes[route]:
                del self.changes[route]
        self._noted = 0

    def window_event_numbers(
        self, rule: Rule, events: Sequence[PastEvent], newest_event_times_before: Callable[[int], list[int]]
    ) -> list[int]:
        """The numbers of the events in the rule's window that ends with the last of `events`, in the order of arrival.

        `events`: in log order, events of the rule's route and of the last event's key-group, at least all from the start of
        the window on. `newest_event_times_before`: those of the whole log before a log time, as `Reference.newest_of_log`.
        """
        last, replay, found = events[-1], _Replay(self.settings, rule), list[int]()
        changes = deque(self.changes.get(rule.route) or [RouteChange(0, rule.rule_id, rule)])
        for event in events:
            while changes and changes[0].log_time <= event.log_time:
                replay.change(changes.popleft(), newest_event_times_before)
            is_evaluated = replay.pass_on(event) == "evaluated"
            if (
                event.fields_if_own_group
                and event.event_time == last.event_time
                and replay.is_same(event, last)
            ):
                # if an event was taken back and came again, its last arrival counts; duplicates of it are not evaluated
                found = replay.window(event) if is_evaluated or not found else found
        return found


def is_of_group(group: Group | None, rule: Rule, values: Iterable[Value]) -> bool:
    """Whether an event with these values of a rule's keys is in an alert's group; True if the group has other keys."""
    if group is None or {name for name, _ in group} != {*rule.keys}:
        return True
    return dict(group) == dict(group_for_alert(rule.keys, values))


class PastEvents(ABC):
    """What the two implementations of past events, with and without NumPy, have in common."""

    schema: Schema
    history: RouteHistory

    def seeing_lists(self, rule: Rule) -> Rule:
        """A rule whose conditions see the named lists as they are now."""
        return rule.with_lists(self.history.book.lists)

    def add(self, lines: Any, log_times: Sequence[int] | None = None) -> int:
        """Takes in records as they stand in a log; those that are dead letters are left out. Returns how many are new.

        They may also be the rows of a DataFrame, a list of dicts or the `Path` of a file, as `lab.alerts` takes them.
        `log_times`: of each record; None: the log is not live, and a warning says if all are dead letters. Raises TypeError
        for what is none of these.
        """
        given = lines_of(lines, self.schema)
        new = self._add(given, log_times)
        if not new and log_times is None:
            warn_if_nothing_was_read(given, self.schema)
        return new

    @abstractmethod
    def _add(self, lines: list[str | bytes], log_times: Sequence[int] | None) -> int:
        """Does what `add` says with lines that were checked."""

    @abstractmethod
    def _arrived_in_window(
        self, rule: Rule, event_id: Id, event_time: int | None, group: Group | None
    ) -> list[dict]:
        """All events in memory of the group in the rule's window, in the order of arrival: see `window`."""

    def window(
        self,
        rule: Rule,
        event_id: Id,
        event_time: int | None = None,
        counted_since_reset: int | None = None,
        group: Group | None = None,
        all_events: bool = False,
    ) -> list[dict]:
        """The events over which the rule's first aggregate was computed at an event, as {field: value}, in order of event time.

        These are the events that count in the window that ends with the event, which the engine stored at that time, as far as
        they are in memory. Empty if the event is not. `event_time`, `group`: which event is meant if several have the id; by
        default the newest. `counted_since_reset`: the value of a COUNT_WITH_RESET; returns only this many of the events that
        count, those that arrived last. `all_events`: also those that do not count. Conditions see the named lists as they are now.
        """
        rule = self.seeing_lists(rule)
        events, own = self._arrived_in_window(rule, event_id, event_time, group), rule.aggregations[0]
        if not own.has_window:
            events = events[-1:]  # the event itself came last
        if counted_since_reset is not None:
            counting = [event for event in events if own.is_counted(event)]
            events = counting[max(len(counting) - counted_since_reset, 0) :]
        events = sorted(events, key=lambda event: event[self.schema.time_field])
        if all_events:
            return events
        text = event_id_text(event_id)
        judged = [n for n, event in enumerate(events) if event_id_text(self.schema.id_of(event)) == text]
        left_out = judged[-1:] if own.exclude_current else []
        return [event for n, event in enumerate(events) if own.is_counted(event) and n not in left_out]


def lines_of(given: Any, schema: Schema) -> list[str | bytes]:
    """Lines as a list, also those of a table, of dicts or of a file. Raises TypeError, which says what to pass."""
    if isinstance(given, str):
        raise TypeError(
            "one text, expected a list of lines, as in a log: text.splitlines(); or Path(name) of a file"
        )
    if isinstance(given, Path) or is_table(given):
        return list(source_of(given, schema))
    check_rows(given)
    found = list(given)
    return found if all(isinstance(line, str | bytes) for line in found) else list(RowSource(found, schema))


def warn_if_nothing_was_read(lines: Sequence[str | bytes], schema: Schema) -> None:
    """Warns that all of the lines, of a log that is not live, are dead letters, with the reason of the first one."""
    given = [line if isinstance(line, bytes) else line.encode() for line in lines if line.strip()]
    for line in given:
        try:
            schema.events(line)
        except BadRecord as error:
            warnings.warn(
                f"none of {len(given):,} records is one of {schema.name}; the first: {error}", stacklevel=3
            )
            return


class _Replay(FastReference):
    """Replays one group of a rule's route. It judges no event, because only the stored events matter."""

    def __init__(self, settings: Settings, rule: Rule):
        super().__init__(
            settings.schema,
            late_policy=settings.late_policy,
            max_out_of_orderness_ms=settings.max_out_of_orderness_ms,
            key_groups=1,
        )
        self._rule, self._rules = rule, dict[int, Rule]()

    def change(self, change: RouteChange, newest_event_times_before: Callable[[int], list[int]]) -> None:
        route, before = self._rule.route, self.routes.get(self._rule.route)
        self._rules.pop(change.rule_id, None)
        if change.rule:
            self._rules[change.rule_id] = change.rule
        if change.events_cleared or not self._rules:
            self._forget(route)
        # of many rules those that matter: the widest one, and one for each set of fields that is kept
        widest = max(self._rules.values(), key=lambda rule: rule.widest_ms, default=None)
        kept = {
            rule.stored_field_names: rule for rule in chain(self._rules.values(), [widest] if widest else [])
        }
        self.routes = {route: tuple(kept.values())} if kept else {}
        if widest and before and widest.widest_ms > (narrow := max(rule.widest_ms for rule in before)):
            self.newest_of_log = newest_event_times_before(change.log_time)
            self.advance_to(change.log_time or max(self.newest_of_log, default=0))
            self._forget_out_of_reach(route, narrow)

    def pass_on(self, event: PastEvent) -> str:
        """What becomes of an event on the route."""
        route = self._rule.route
        if route not in self.routes:
            return "unrouted"
        self.advance_to(event.log_time or event.event_time)
        if event.fields_if_own_group is None:
            note_time(self.newest[route, 0], event.group, event.event_time)
            return "ofAnotherGroup"
        if takes_back(event.fields_if_own_group, self.schema):
            return self._take_back(event.fields_if_own_group, route, event.log_time)
        self.counts["records"] = event.number  # the arrival of what is held
        return self._on_route(event.fields_if_own_group, route, self.routes[route])[0]

    def is_same(self, one: PastEvent, other: PastEvent) -> bool:
        return self.schema.id_of(one.fields_if_own_group or {}) == self.schema.id_of(
            other.fields_if_own_group or {}
        )

    def window(self, at: PastEvent) -> list[int]:
        """The numbers of the stored events in the window, without those from before the route stored the fields that the rule needs."""
        group = tuple((at.fields_if_own_group or {})[name] for name in self._rule.route.keys)
        stored = self.stored_events[self._rule.route, group]
        inside = [
            event
            for event in stored
            if at.event_time - self._rule.aggregation.window_ms <= event.time <= at.event_time
        ]
        return sorted(event.arrival for event in inside if not event.taken_back and self._is_kept(event))

    def _is_kept(self, event: StoredEvent) -> bool:
        return event.fields.keys() >= set(self._rule.aggregations[0].stored_field_names)

    def _is_judged(self, rule: Rule, group: tuple, current: StoredEvent) -> bool:
        return False
