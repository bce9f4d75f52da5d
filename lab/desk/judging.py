"""Judges one event for one rule, among events in memory: the first thing that was false of it, or the alert.

events in memory, their rules ──► Judge ──► Witness, the event's group replayed ──► Verdict
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lab.desk.explain import (
    events_after,
    false_part,
    measured_conditions,
    part_and_values,
    smallest_changes,
    wait_changes,
    window_events,
)
from lab.desk.verdict import Verdict
from lab.desk.witness import Moment, Witness
from lab.model.alerts import Alert, event_id_text
from lab.model.language import say
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.times import duration_words
from lab.model.when import is_true, passes_filter
from lab.model.whenreader import takes_back
from lab.past.routehistory import EventsInMemory, PastEvent, RouteChange, group_of

WIDER = 10  # times the widest window, in which longer windows are looked for
WIDER_RULE = -1  # the id of a rule that keeps events for so long


@dataclass(frozen=True)
class Judge:
    """Says what rules made of events in memory. `reached`: the log time of now, ms; 0 in a log that is not live."""

    past: EventsInMemory
    reached: int = 0

    @property
    def schema(self) -> Schema:
        return self.past.schema

    def of_alert(self, alert: Alert, with_changes: bool = True) -> Verdict | None:
        """What the events in memory say of an alert's event, its own alert if they still give it; None without that event.

        What a rule made of earlier events, such as its last reset, is taken from the alert, as these may not be in memory.
        """
        rows = reversed(self.past.rows_of(alert.event_id, alert.event_time))
        verdicts = [
            self.of_event(alert.rule_id, self.past.event_in(row), row, alert, with_changes) for row in rows
        ]
        own = (each for each in verdicts if each.alert and each.alert.alert_id == alert.alert_id)
        others = (each for each in verdicts if each.outcome != "duplicate")
        return next(own, None) or next(others, None)

    def of_event(
        self,
        rule_id: int,
        event: dict[str, Any],
        row: int | None,
        alert: Alert | None = None,
        with_changes: bool = True,
    ) -> Verdict:
        """What a rule made of the event in a row, or would make of one that comes now: None. `alert`: as of `of_alert`."""
        log_time, reached = self._now(event) if row is None else self.past.log_times_of(row)
        event_id, time = self.schema.id_of(event), event[self.schema.time_field]
        rule = self.past.history.rule_at(rule_id, log_time)
        of = {"id": rule_id, "event": event_id_text(event_id)}

        def verdict(outcome: str, said: str, **more: Any) -> Verdict:
            return Verdict(outcome, said, rule_id, rule, event, event_id, time, **more)

        if takes_back(event, self.schema):
            return verdict("takesBack", say("Record {event} takes an event back.", **of))
        if rule is None:
            return verdict("notInForce", say("Rule {id} was not in force when event {event} came.", **of))
        if not rule.is_judged:
            return verdict("paused", say("Rule {id} was paused when event {event} came.", **of))
        if not passes_filter(rule.filter, event) and rule.filter:
            part, values = part_and_values(false_part(rule.filter, event), event)
            return verdict("filter", say(FILTER, **of, part=part, values=values))
        if nulls := [name for name in rule.keys if event[name] is None]:
            said = say("Event {event} has no {field}, and rule {id} groups by it.", **of, field=nulls[0])
            return verdict("nullKey", said)
        witness, at, until = self._witness(rule, event, row, log_time, reached, alert)
        return self._decide(witness, at, until if with_changes else None, verdict)

    def _now(self, event: dict[str, Any]) -> tuple[int, int]:
        if self.reached:
            return self.reached, self.reached
        newest = self.past.newest_event_times_before(sys.maxsize)
        return 0, max([*newest, event[self.schema.time_field]])

    def _witness(
        self,
        rule: Rule,
        event: dict[str, Any],
        row: int | None,
        log_time: int,
        reached: int,
        alert: Alert | None,
    ) -> tuple[Witness, PastEvent, list[PastEvent]]:
        """A replay of the event's group for a rule, the event in it, and the events of the key-group until it."""
        group, time = group_of(rule.route, event), event[self.schema.time_field]
        events = self.past.events_of_key_group(rule.route, group, last=row)
        if row is None:
            events.append(PastEvent(len(events), log_time, reached, time, group, event))
        at, until = events[-1], events
        if row is not None and (rule.absence or self.schema.taken_back):  # what comes later counts, too
            events = self.past.events_of_key_group(rule.route, group)
            reached = self.reached or reached
            if not (self.reached or log_time):
                reached = self.past.newest_event_times_before(sys.maxsize)[0]
        witness = Witness(self.past, rule, at.number, alert)
        witness.run(events, reached)
        return witness, at, until

    def _decide(
        self,
        witness: Witness,
        at: PastEvent,
        until: list[PastEvent] | None,
        verdict: Callable[..., Verdict],
    ) -> Verdict:
        """The verdict on an event that has reached the rule's route. `until`: None leaves out the smallest changes."""
        of, fate = {"event": event_id_text(self.schema.id_of(at.fields_if_own_group or {}))}, witness.fate
        if fate == "droppedLate":
            return verdict("tooLate", say("Event {event} came too late and was dropped.", **of))
        if fate == "duplicates":
            return verdict("duplicate", say(DUPLICATE, **of))
        if fate == "storedLate":
            return verdict("late", say(LATE, **of))
        if witness.rule.absence:
            return self._decide_absence(witness, at, verdict)
        moment = witness.moment
        assert moment, "an event that was evaluated is judged"
        rule, fields = moment.rule, moment.current.fields
        if rule.is_plain and not moment.counts(rule.aggregation, moment.current):
            missing = next(name for name in rule.aggregation.needed_names if fields.get(name) is None)
            return verdict(
                "notCounted", say("Event {event} has no {field}, so it is not judged.", **of, field=missing)
            )
        more: dict[str, Any] = {"conditions": measured_conditions(moment), "alert": witness.alert}
        more |= {"window": window_events(witness, moment), "withdrawn": witness.was_taken_back}
        if rule.when and not is_true(rule.when, moment.event):
            part, values = part_and_values(false_part(rule.when, moment.event), moment.event)
            return verdict("when", say(WHEN, **of, part=part, values=values), **more)
        if witness.was_suppressed:
            return verdict("atMost", say(AT_MOST, **of, most=rule.describe_at_most()), **more)
        if witness.was_muted:
            return verdict("muted", say(IS_MUTED, **of, id=rule.rule_id), **more)
        first = next(each for each in more["conditions"] if each.holds == bool(witness.alert))
        shown = {"condition": first.condition.describe(), **of, **first.shown()}
        said = say((HOLDS if first.holds else FAILS) if first.off_by is not None else NO_VALUE, **shown)
        if until is not None:
            wider = None if witness.alert else self._wider(rule, at, until)
            more["changes"] = smallest_changes(moment, wider)
        outcome = "alerted" if witness.alert else "conditions"
        return verdict(outcome, said, **more)

    def _wider(self, rule: Rule, at: PastEvent, until: list[PastEvent]) -> Moment | None:
        """The same moment, had the route kept events for longer."""
        witness, keeps = Witness(self.past, rule, at.number), WIDER * rule.widest_ms
        conditions = tuple(
            replace(each, aggregation=replace(each.aggregation, window_ms=keeps)) for each in rule.conditions
        )
        witness.add_change(
            RouteChange(0, WIDER_RULE, replace(rule, rule_id=WIDER_RULE, conditions=conditions))
        )
        witness.run(until, at.reached)
        return witness.moment

    def _decide_absence(self, witness: Witness, at: PastEvent, verdict: Callable[..., Verdict]) -> Verdict:
        """The verdict on an event after which another one is awaited."""
        rule, wait, event = witness.rule, witness.wait, at.fields_if_own_group or {}
        of = {
            "event": event_id_text(self.schema.id_of(event)),
            "time": duration_words(rule.aggregation.window_ms),
        }
        if wait is None:
            assert rule.when
            part, values = part_and_values(false_part(rule.when, event), event)
            return verdict("when", say(WHEN, **of, part=part, values=values))
        more: dict[str, Any] = {"window": events_after(witness, at), "changes": wait_changes(witness, at)}
        if witness.alert:
            more |= {"alert": witness.alert, "withdrawn": witness.was_taken_back}
            return verdict("alerted", say(ABSENT, **of), **more)
        if witness.was_muted:
            return verdict("muted", say(IS_MUTED, **of, id=rule.rule_id), **more)
        if ended := witness.wait_ended_by:
            other = event_id_text(self.schema.id_of(ended.fields_if_own_group or {}))
            return verdict("fulfilled", say(FULFILLED, **of, other=other), **more)
        if wait in witness.waits:
            return verdict(
                "waiting", say("The wait of {time} after event {event} is not over.", **of), **more
            )
        return verdict("ended", say(ENDED, **of), **more)


FILTER = "The filter of rule {id} is false of event {event}: {part}, and the event has {values}."
WHEN = "`when` is false of event {event}: {part}, and the event has {values}."
DUPLICATE = "Event {event} is a duplicate: its group had stored an event with this id and time."
LATE = "Event {event} was late: it counts for later events, but raises no alert."
AT_MOST = "All conditions hold at event {event}, but the rule may alert at most {most}."
IS_MUTED = "Rule {id} would have alerted at event {event}, but it is muted there."
HOLDS = "{condition} holds at event {event}: the value is {value}, {off} from the limit {limit}."
FAILS = "{condition} is false at event {event}: the value is {value}, {off} from the limit {limit}."
NO_VALUE = "{condition} is false at event {event}: there is no value."
ABSENT = "No event that counts came within {time} after event {event}."
FULFILLED = "Event {other} came within {time} after event {event}."
ENDED = "The wait of {time} after event {event} ended without an alert: the rule changed, windows were cleared, or the event was taken back."
