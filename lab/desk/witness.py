"""Replays the group of one event for one rule, and keeps what decided there.

past events ──► Witness, the reference for one group and one rule ──► what was stored and measured, and what came of it
"""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from lab.model.aggregates import Exact
from lab.model.aggregation import Aggregation
from lab.model.alerts import Alert
from lab.model.reference import Reference
from lab.model.referencestate import AbsenceWait, StoredEvent
from lab.model.rule import Rule
from lab.model.when import is_true
from lab.past.routehistory import EventsInMemory, PastEvent, Replay


@dataclass(frozen=True)
class Moment:
    """A rule at an event: the stored events of the group, by time, as they were then, `current` among them.

    `reference`: as it was then, so that it measures the same again. `event`: all fields of the current one.
    """

    reference: Reference
    rule: Rule
    group: tuple
    stored: list[StoredEvent]
    current: StoredEvent
    event: dict[str, Any]

    def measures(self) -> list[list[Exact | None]]:
        """What the aggregates of each condition measure."""
        return self.reference._measure_conditions(self.rule, self.group, self.stored, self.current)

    def counts(self, of: Aggregation, stored: StoredEvent) -> bool:
        """Whether a stored event counts for an aggregation, in whatever window."""
        return self.reference._counts(self.rule, of, self.group, stored)

    def holds(self, rule: Rule | None = None) -> bool:
        """Whether the rule, or another one in its place, alerts here unless `at most` suppresses it."""
        rule = rule or self.rule
        if rule.when and not is_true(rule.when, self.event):
            return False
        return rule.conditions_for_alert(replace(self, rule=rule).measures()) is not None

    def with_event(self, **values: Any) -> "Moment":
        """The same with other values of its event."""
        event = self.event | values
        current = replace(self.current, fields=self.current.fields | self.rule.fields_to_store(event))
        stored = [current if each is self.current else each for each in self.stored]
        return replace(self, stored=stored, current=current, event=event)


class Witness(Replay):
    """Keeps the `moment` of the event with number `at`, its alert and, of a rule with `absence`, its wait.

    `known`: an alert that the event raised, which tells what the rule made of earlier events. `fates`: what became of each record of the group. `wait_ended_by`: the event that came in time.
    """

    def __init__(self, past: EventsInMemory, rule: Rule, at: int, known: Alert | None = None):
        super().__init__(past, rule.route, judged=rule.rule_id)
        self.rule = rule
        self._known = known
        self._at, self._now = at, PastEvent(-1, 0, 0, 0, (), None)
        self.fates: list[tuple[PastEvent, str]] = []
        self.moment: Moment | None = None
        self.alert: Alert | None = None
        self.wait: AbsenceWait | None = None
        self.wait_ended_by: PastEvent | None = None
        self.was_suppressed = self.was_muted = self.was_taken_back = False

    @property
    def fate(self) -> str:
        """What became of the event."""
        return next(fate for event, fate in self.fates if event.number == self._at)

    def run(self, events: list[PastEvent], reached: int) -> None:
        """Replays the events of the key-group, up to a log time."""
        target = events[self._at]
        for event in events:
            self._now = event
            suppressed = self.suppressed.total() if event is target else 0
            fate = self.pass_on(event)
            if event.fields_if_own_group is None:
                continue
            self.fates.append((event, fate))
            if event is target:
                self.was_suppressed = self.suppressed.total() > suppressed
            if fate == "takenBack" and event.number > self._at:
                is_same = event.event_time == target.event_time and self._id_of(event) == self._id_of(target)
                self.was_taken_back |= is_same
        self.finish(reached)

    def _id_of(self, event: PastEvent) -> Any:
        return self.schema.id_of(event.fields_if_own_group or {})

    def _is_judged(self, rule: Rule, group: tuple, current: StoredEvent) -> bool:
        if rule.rule_id == self._judged and current.arrival == self._at:
            held = self.stored_events[self._route, group]
            copies = [each.copied() for each in held]
            own = next(copied for copied, each in zip(copies, held) if each is current)
            if self._known and any(each.resets for each in rule.aggregations):
                self.reset[rule.rule_id, group] = self._last_reset(self._known, rule, group, current)
            then = copy(self)
            then.reset = dict(self.reset)
            self.moment = Moment(then, rule, group, copies, own, self._now.fields_if_own_group or {})
        elif self._known or not (rule.at_most or any(each.resets for each in rule.aggregations)):
            return False  # what a rule made of earlier events matters only if it counts its alerts or resets at them
        return super()._is_judged(rule, group, current)

    def _last_reset(self, known: Alert, rule: Rule, group: tuple, current: StoredEvent) -> int:
        """The arrival at which a rule was last reset before an alert, which tells how many events it has counted since."""
        measured = known.conditions or (known.own_condition,)
        place = next(n for n, each in enumerate(rule.conditions) if each.aggregation.resets)
        since = int(measured[place].aggregate or 0) if place < len(measured) else 0
        of, counts = rule.conditions[place].aggregation, []
        for each in of.window_of(current, self.stored_events[self._route, group]):
            if all(each.fields.get(name) is not None for name in of.needed_names) and not each.taken_back:
                counts.append(each.arrival)
        return -1 if len(counts) <= since else sorted(counts)[-since - 1]

    def _wait(self, event: dict[str, Any], rules: tuple[Rule, ...], live: bool, may_alert: bool) -> None:
        waited = self.wait in self.waits
        super()._wait(event, rules, live, may_alert)
        if waited and self.wait not in self.waits:
            self.wait_ended_by = self._now
        if self._now.number == self._at and self.waits:
            newest = self.waits[-1]  # of its own, if it has started one
            is_own = (newest.id, newest.time) == (self.schema.id_of(event), event[self.schema.time_field])
            self.wait = newest if is_own else None

    def _alert(self, rule: Rule, values: tuple, compared: Any, at: tuple, **more: Any) -> None:
        is_of_wait = (
            self.wait is not None and self.wait not in self.waits and at == (self.wait.id, self.wait.time)
        )
        # the event may have been taken back and have come again, and then it has another wait
        is_of_wait &= not (self.alert or self.was_muted or self.was_taken_back)
        logs: tuple[list, list] = (self.alerts_and_withdrawals, self.shadow_alerts)
        before = [len(log) for log in logs]
        super()._alert(rule, values, compared, at, **more)
        if is_of_wait if rule.absence else self._now.number == self._at:
            new = [line for log, old in zip(logs, before) for line in log[old:]]
            self.was_muted = not new
            self.alert = next((line for line in new if isinstance(line, Alert)), None)
