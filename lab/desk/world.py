"""A world: a log of events, a history of rules, and a moment. It answers what rules made of events, by replaying the reference.

events, rules ──► World ──► why(alert), why_not(event, rule), would(event) ──► Verdict
"""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from shlex import quote
from typing import Any

from lab.desk.branch import Branch, branch_of, standing_alerts
from lab.desk.compare import MOST_TELLING, Comparison, comparison_of
from lab.desk.cost import Costs, costs_of
from lab.desk.judging import Judge
from lab.desk.labels import Labelled, labelled_halves, labels_fields, own_names
from lab.desk.logorder import engine_settings, ordered_records
from lab.desk.scores import Scores, scores_of
from lab.desk.suggest import MOST, SECONDS, Progress, Suggested, suggest
from lab.desk.tuning import Tuning, Window, tune
from lab.desk.verdict import Verdict
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import Aggregation, Condition
from lab.model.alerts import Alert, AlertTable, event_id_text, parse_alert_line
from lab.model.deadletters import SHOWN
from lab.model.field import Id
from lab.model.jsontext import BadRecord
from lab.model.language import say
from lab.model.rule import Rule
from lab.model.rules import BadRule, parse_message
from lab.model.schema import MAX_TIME, Schema
from lab.model.times import now_ms
from lab.model.when import filter_text
from lab.past.alertframe import AnySchema, warn_of_fields, with_schema
from lab.past.backtest import COMPILED, Past
from lab.past.badrows import bad_rows_of, check_bad_rows, tell_bad_rows
from lab.past.eventwarnings import event_warnings
from lab.past.overlap import Overlap, overlap_of
from lab.past.pastevents import PastEvents, lines_of
from lab.past.replay import Replayed, check_rules, replay
from lab.past.routehistory import RouteHistory
from lab.past.rulemessages import rule_messages, warn_of_hints
from lab.past.typologies import LabelledPast
from lab.sources.order import rows_advice
from lab.sources.sources import EventSource
from lab.stream.typologies import LabelledEvent

Records = Callable[[], Iterable[tuple[int, bytes]]]
AT_ONCE = 50_000  # lines
LOWEST_LIMIT = Decimal(1 - 10**24)  # of a condition
LONG_DIGITS = 19
LABELS = "labels"  # the typology of events that are labelled by others


class NotFound(ValueError):
    """There is no such event or alert in the world."""


class NoEvents(ValueError):
    """There are no events that a schema could be proposed for."""


class World:
    """Events in log order and the rules that were in force, up to a moment.

    `events`, `rules`, `schema`: as `lab.alerts` takes them; all rules are in force before the first event. `settings`: those of
    the engine. `bad_rows`: "raise": a row that is no event is a ValueError, as it would be missing in windows; "warn": it is left out,
    with a warning (`BadRows`), and `why_not` says of it that it is a dead letter. `World.of_logs` is the world of an engine, whether it
    runs or not.

    >>> events = [{"id": n, "at": 1714557600000 + n, "card": "a", "amount": 30 * n} for n in range(1, 4)]
    >>> world = World(events, "SUM(amount) per card over 1 h > 80")
    >>> print(world.why_not(1, 1).said)
    SUM(amount) over 1 h > 80 is false at event 1: the value is 30, 50 from the limit 80.
    """

    _alert_lines: Callable[[], list[str]]  # those of the alerts' log
    _shadow_lines: Callable[[], list[str]]  # those of the shadow log
    _replay: Callable[[list[str]], Replayed]  # of other rules
    _control: Callable[[], Iterable[tuple[int, bytes | str]]]  # the control messages with their log times

    def __init__(
        self,
        events: Any,
        rules: Any,
        schema: AnySchema = None,
        settings: Settings | None = None,
        *,
        bad_rows: str = "raise",
    ):
        check_bad_rows(bad_rows)
        source, known = with_schema(events, schema or (settings.schema if settings else None))
        if known is None:
            raise NoEvents("there are no events, and so no schema can be proposed: schema=…")
        proposed = source
        if source.record_format:
            known = replace(known, records=source.record_format)
            source = source.for_schema(known)
        messages = rule_messages(rules, known)
        in_force = check_rules(messages, known).sorted()
        self._begin(
            replace(settings or Settings(known), schema=known),
            lambda: ((0, line, source.place(n)) for n, line in enumerate(source)),
        )
        self._typed = source.typed
        late_ms = self.settings.max_out_of_orderness_ms
        if not isinstance(events, EventSource):
            warn_of_fields(proposed, in_force)
            for warning in event_warnings(
                source, in_force, known, rows_advice, late_ms=late_ms, missing_paths=False
            ):
                warnings.warn(warning, stacklevel=2)
        engine, of_file = "local" if COMPILED else "reference", self.settings
        self._replay = lambda rules: replay(source, rules, engine=engine, settings=of_file)
        self._take_rules(messages)
        rows = self._add((line, 0) for line in source)
        if self.past.arrived < rows * max(len(known.legs), 1):
            tell_bad_rows(bad_rows, bad_rows_of(source, known), rows, source, known)

    def _take_rules(self, messages: list[str]) -> None:
        """The rules before the first event."""
        acks = [self.history.apply(message) for message in messages]
        self._control = lambda: [(0, message) for message in messages]
        self._list_messages = [message for message, ack in zip(messages, acks) if "list" in ack]
        self._alert_lines = lambda: self._replay(messages).alert_lines
        self._shadow_lines = lambda: self._replay(messages).shadow_lines

    def with_rules(self, rules: Any) -> "World":
        """The same events with other rules, all in force before the first one. Raises BadRule."""
        messages = rule_messages(rules, self.schema)
        check_rules(messages, self.schema)
        other = copy(self)
        other.__dict__.pop("alerts", None)
        other.past, other.history = copy(self.past), RouteHistory(self.settings)
        other.past.history = other.history
        other._take_rules(messages)
        return other

    @classmethod
    def of_logs(cls, logs: Logs, schema: Schema, at: int | None = None) -> "World":
        """The world of an engine, read from its logs: its events up to now, in its order, and its rules. `at`: as of that log time, ms."""
        settings, before = engine_settings(logs, schema), at or MAX_TIME
        control, events = (partial(ordered_records, logs, name, before) for name in ("control", "events"))
        world = cls.of_records(settings, control, events, at or now_ms())
        world._alert_lines, world._shadow_lines = logs.log("alerts").read, logs.log("shadow").read
        return world

    @classmethod
    def of_records(cls, settings: Settings, control: Records, events: Records, reached: int) -> "World":
        """A world of records with log times, in log order, each given by a function; `reached`: the log time of now, ms."""
        world = cls.__new__(cls)
        world._begin(settings, lambda: ((log_time, line, "") for log_time, line in events()))
        world._control = control
        for log_time, message in control():
            world.history.apply(message, log_time)
        world._add((line, log_time) for log_time, line in events())
        world.reached = reached
        return world

    @classmethod
    def of_past(cls, past: Past, reached: int = 0) -> "World":
        """The world of the events in memory and the rules that their history knows; `reached`: as in `of_records`."""
        world = cls.__new__(cls)
        world._begin(past.history.settings, lambda: iter(()), past)
        world.reached = reached
        return world

    def _begin(
        self,
        settings: Settings,
        lines: Callable[[], Iterator[tuple[int, bytes, str]]],
        past: Past | None = None,
    ) -> None:
        """`lines`: the records with log times and places; `past`: the events, if they are in memory alone."""
        self.settings, self.schema, self._lines = settings, settings.schema, lines
        self.is_in_memory = past is not None
        self.past = past or Past(self.schema, sys.maxsize, RouteHistory(settings))
        self.history, self.reached = self.past.history, 0
        self._alert_lines = self._shadow_lines = list
        self._replay, self._list_messages = _refuse_replay, list[str]()
        self._typed = _as_it_is

    def _add(self, lines: Iterable[tuple[bytes, int]]) -> int:
        """Takes in records with their log times; returns how many there are, good and bad."""
        left, count = iter(lines), 0
        while some := list(islice(left, AT_ONCE)):
            kept = [each for each in some if each[0].strip()]
            self.past.add([line for line, _ in kept], [log_time for _, log_time in kept])
            count += len(kept)
        return count

    @property
    def judge(self) -> Judge:
        """Judges single events of this world."""
        return Judge(self.past, self.reached)

    # -- questions -----------------------------------------------------------------------------------------------------

    def why(self, alert: Any, rule_id: int | None = None) -> Verdict:
        """Why an alert was raised. `alert`: an alert, its line in the alerts' log, its id, or a row of `lab.alerts`.

        With `rule_id`, the number of a rule, `alert` is an event's id or record, at which the rule alerted. Raises NotFound.
        """
        if rule_id is not None:
            at = self.why_not(alert, rule_id)
            if at.alert is None:
                event = "EVENT" if at.event_id is None else quote(event_id_text(at.event_id))
                raise NotFound(say(NO_ALERT_AT, event=event, id=rule_id))
            return at
        alert_id = alert.alert_id if isinstance(alert, Alert) else _alert_id(alert)
        rule_id, event_id, time = self._parts_of(alert_id)
        verdict = None
        for row in reversed(self.past.rows_of(event_id, time)):
            verdict = self.judge.of_event(rule_id, self.past.event_in(row), row)
            if verdict.alert and verdict.alert.alert_id == alert_id:
                return verdict
        version = alert_id.split(".", 2)[1]
        if verdict and (verdict.rule is None or str(verdict.rule.version) != version):
            of = {"version": version[:SHOWN], "id": rule_id, "event": event_id_text(event_id)}
            raise NotFound(say(NO_VERSION, **of))
        reason = verdict.said if verdict else say("The log has no such event.")
        raise NotFound(say("No alert has the id {id} here. {reason}", id=alert_id, reason=reason))

    def why_not(self, event: Any, rule_id: int, event_time: int | None = None) -> Verdict:
        """The first thing that was false of a rule at an event, or the alert. `event`: its id, or its record, also as a row of a DataFrame.

        `event_time`: which event is meant if several have the id. Of several records of an event, the last is meant; if that is a
        duplicate, the verdict also tells of the one that was evaluated. Raises NotFound.
        """
        try:
            event_id, event_time = self._id_and_time(event, event_time)
        except BadRecord as error:
            return self._dead_letter(rule_id, str(error), "", None)
        rows = self.past.rows_of(event_id, event_time)
        if not rows:
            return self._bad_record_of(rule_id, event_id)
        verdict, *before = (
            self.judge.of_event(rule_id, self.past.event_in(row), row) for row in reversed(rows)
        )
        first = next((each for each in before if each.outcome != "duplicate"), None)
        if verdict.outcome != "duplicate" or first is None:
            return verdict
        return replace(first, outcome="duplicate", said=f"{verdict.said} {first.said}")

    def would(self, event: Any) -> list[Verdict]:
        """What each rule in force would make of an event that came now, at the end of the log; nothing is stored. Raises BadRecord."""
        last = list(self._events_of(event))[-1]
        if self.reached:
            self.schema.check_future(last, self.reached, self.settings.max_future_ms)
        return [self.judge.of_event(rule.rule_id, last, None) for rule in self.history.book.sorted()]

    # -- what rules are worth ------------------------------------------------------------------------------------------

    @cached_property
    def alerts(self) -> AlertTable:
        """The alerts that stand: of finished events, those of a replay; of an engine, those in its log."""
        return AlertTable(standing_alerts([*map(parse_alert_line, self._alert_lines())]))

    def overlap(self) -> Overlap:
        """What each rule in force adds: its alerts, groups and events, and at how many of these no other rule alerts."""
        return overlap_of(self.alerts, [rule.rule_id for rule in self.history.book.sorted()])

    def cost(self) -> Costs:
        """The time and memory that leaving each rule in force out would save, in a replay. Raises ValueError without Numba."""
        return costs_of(self.past, [rule for rule in self.history.book.sorted() if rule.is_judged])

    def compare(self, rules: Any, top: int = MOST_TELLING) -> Comparison:
        """What other rules would change: alerts of both, only of these rules, only of the others, and the most telling events.

        Those are `top` events at which only one of the two alerts, nearest to the limit, each with what the other rules say of it.
        Raises BadRule, and ValueError for an engine's world.
        """
        other = self.with_rules(rules)

        def said(is_new: bool, alert: Alert) -> str:
            return (self if is_new else other)._said_of(alert.rule_id, alert)

        return comparison_of(self.alerts, other.alerts, said, top)

    def compare_rules(self, old: int, new: int, top: int = MOST_TELLING) -> Comparison:
        """Two rules by number, as `compare`: such as one in force and its successor in state SHADOW, whose alerts count, too.

        Of an engine, alerts count from when both were in force. Raises NotFound for a rule that never was.
        """
        changes = [each for of in self.history.changes.values() for each in of]
        began = [[each.log_time for each in changes if each.rule_id == rule_id] for rule_id in (old, new)]
        for rule_id, times in zip((old, new), began):
            if not times:
                raise NotFound(say("Rule {id} was never in force.", id=rule_id))
        since = max(map(min, began))
        shadow = (line for line in map(parse_alert_line, self._shadow_lines()) if isinstance(line, Alert))
        counted = [each for each in (*self.alerts, *shadow) if (each.log_time or since) >= since]
        # by event, whatever the fields by which each of them groups
        before, after = (
            [replace(each, rule_id=old, group=()) for each in counted if each.rule_id == rule_id]
            for rule_id in (old, new)
        )
        return comparison_of(before, after, lambda is_new, at: self._said_of(old if is_new else new, at), top)

    def branch(self, rules: Any, at: int, top: int = MOST_TELLING) -> Branch:
        """What other rules would have raised, had they come in place of these at a moment, with what the windows then held.

        `rules`: all that are in force from then on. `at`: the log time, ms; of finished events, the time of the first event that they
        see. Messages about rules that come later are not theirs; those about lists and mutes are. The log is replayed by the
        reference, one to two thousand events a second. Raises BadRule, and ValueError for a world of events in memory.
        """
        if self.is_in_memory:
            raise ValueError("a branch needs the log: lab.World(events, rules) or lab.World.of_logs")
        messages = rule_messages(rules, self.schema)
        check_rules(messages, self.schema)
        control = ((log_time, True, message) for log_time, message in self._control())
        events = ((log_time, False, line) for log_time, line, _ in self._lines() if line.strip())
        entries = merge(control, events, key=itemgetter(0))  # control first among equal times
        return branch_of(
            *(self.settings, entries, at, messages, lambda alert: self._said_of(alert.rule_id, alert)),
            *(top, self.reached),
        )

    def _said_of(self, rule_id: int, at: Alert) -> str:
        """What a rule says of the event of an alert."""
        try:
            return self.why_not(at.event_id, rule_id, at.event_time).said
        except NotFound as reason:
            return str(reason)

    def scores(
        self, labels: Any, amount: str | None = None, by: str | None = None, case: str | None = None
    ) -> Scores:
        """How well each rule, and all together, find labelled events, in the half to choose rules by and in the held-out half.

        `labels`: the name of a field that says which events are meant; a condition, such as `kind = "stolen"`; ids; {id: case}, where
        several events are one case; (id, yes or no) pairs; or the `Path` of a file (`lab.desk.labels.read_labels`). `amount`: a field whose sum over the events that are
        found counts, too. `by`: the held-out half is that of a hash of this field; None: the later half by time. `case`: labelled
        events with one value of this field are one case.
        """
        first, held_out, said = self._halves(labels, amount, by, case)
        rule_ids = [rule.rule_id for rule in self.history.book.sorted()]
        return scores_of(self.alerts, rule_ids, (first, held_out), said)

    def _halves(
        self, labels: Any, amount: str | None, by: str | None, case: str | None
    ) -> tuple[Labelled, Labelled, tuple[str, ...]]:
        events = {event_id_text(self.schema.id_of(event)): event for event in self.past.all_events()}
        return labelled_halves(labels, events, self.schema, amount, by, case, self._count_dead_letters)

    def _count_dead_letters(self, ids: set[str]) -> int:
        """How many of the ids are of dead letters: a record that cannot be read, and has the id between signs that are no letters."""
        found = set[str]()
        for _, line, _ in self._lines():
            words = ids.intersection(re.findall(r"[\w-]+", line.decode(errors="replace")))
            if words - found:
                try:
                    self.schema.events(line)
                except BadRecord:
                    found |= words
        return len(found)

    def tune(
        self,
        rule: Any,
        labels: Any,
        windows: Window | Sequence[Window] = (),
        amount: str | None = None,
        by: str | None = None,
        case: str | None = None,
    ) -> Tuning:
        """What a rule would find with every limit, and with several windows of its first condition; without windows, its own.

        `windows`: each as text ("10m"), a timedelta, or ms. The rule need not be in force, and is judged at all events; mutes do not count. It sees the world's named lists, of finished events
        also as messages that are given beside it change them. Other arguments as of `scores`. Raises BadRule, and ValueError for a
        rule whose alerts at other limits do not follow from its values.
        """
        world, one = self._with_one_rule(rule)
        warn_of_hints(world.history.book, [one])
        return tune(world.past, one, windows, *self._halves(labels, amount, by, case))

    def suggest(
        self,
        labels: Any,
        amount: str | None = None,
        by: str | None = None,
        case: str | None = None,
        without: Sequence[str] = (),
        most: int = MOST,
        seconds: float = SECONDS,
        progress: Progress = lambda tried, most: None,
    ) -> Suggested:
        """The shortest sentences that find labelled events, tuned on one half and checked on the held-out one; none if chance does as well.

        No sentence names the fields `without`, nor those that are the labels; of others that tell the labelled events exactly, a
        LabelWarning says so. At most `most` sentences are tried, and none after so many seconds; `progress(tried, most)` is called
        after each. Other arguments as of `scores`. Raises ValueError for events that can be taken back.
        """
        without = own_names(self.schema, *without)
        for name in without:
            self.schema.field(name)
        halves = self._halves(labels, amount, by, case)
        left_out = (*labels_fields(labels, self.schema), *without)
        return suggest(self.past, halves, left_out, most, seconds, progress)

    def labelled(self, labels: Any, case: str | None = None) -> LabelledPast:
        """The events for `lab.RuleTuningScope` and `lab.compare_rules`, whose typology is then "labels". Arguments as of `scores`."""
        halves = self._halves(labels, None, None, case)[:2]
        numbers: dict[Any, int] = {}
        events = []
        for event in self.past.all_events():
            at = event_id_text(self.schema.id_of(event))
            of = next((half.cases[at] for half in halves if at in half.cases), None)
            is_other = of is None and any(half.is_wrong(at) for half in halves)
            number = 0 if of is None else numbers.setdefault(of, len(numbers) + 1)
            events.append(LabelledEvent(event, LABELS if number else "" if is_other else "unknown", number))
        return LabelledPast(own=(self.past, events))

    def _with_one_rule(self, given: Any) -> tuple["World", Rule]:
        """The only rule that is given, and a world whose lists are changed by the messages beside it. Raises BadRule."""
        messages = rule_messages(given, self.schema)
        parsed = [parse_message(message, self.schema) for message in messages]
        rules = [each.rule for each in parsed if each.rule]
        lists = [message for message, each in zip(messages, parsed) if each.kind == "list"]
        if len(rules) != 1 or len(lists) + 1 < len(messages):
            raise BadRule(
                f"{len(messages)} messages with {len(rules)} rules, expected one rule, and perhaps some about lists"
            )
        if lists and self.reached:
            raise BadRule("the lists of an engine's world are those of its log, expected a rule alone")
        return self.with_rules([*self._list_messages, *lists]) if lists else self, rules[0]

    def features(self) -> list[dict[str, Any]]:
        """The value of each aggregate of the rules in force at each event, in order of event time: a row where one has a value.

        Its columns are eventId, eventTime and, for each aggregate, its words; None where the event is not on the route, or there is no
        value. `when`, limits and `at most` do not matter; a count that is reset counts all. Raises ValueError for an engine's world.
        """
        rules = self.rules_of_features()
        replayed = self._replay(
            [*self._list_messages, *(json.dumps(rule.to_dict()) for rule in rules.values())]
        )
        names = {rule.rule_id: name for name, rule in rules.items()}
        rows: dict[tuple, dict[str, Any]] = {}
        for alert in replayed.alerts:
            at = {"eventId": alert.event_id, "eventTime": alert.event_time}
            row = rows.setdefault(tuple(at.values()), at | dict.fromkeys(names.values()))
            row[names[alert.rule_id]] = alert.aggregate
        return sorted(rows.values(), key=lambda row: row["eventTime"])

    def rules_of_features(self) -> dict[str, Rule]:
        """For each aggregate of the rules, in words, a rule that alerts with its value wherever it has one."""
        found: dict[str, Rule] = {}
        for rule in self.history.book.sorted():
            where = f" where {filter_text(rule.filter)}" if rule.filter else ""
            per = where + (f" per {', '.join(rule.keys)}" if rule.keys else "")
            for each in () if rule.absence else rule.aggregations:
                of = replace(each, function=AGGREGATES[each.function].instead) if each.resets else each
                always = conditions_that_hold(of, self.past)
                joined_by = "or" if len(always) > 1 else None
                new = Rule(len(found) + 1, "ACTIVE", rule.keys, rule.filter, always, joined_by)
                found.setdefault(of.describe(per), new)
        return found

    # -- finding -------------------------------------------------------------------------------------------------------

    def _parts_of(self, alert_id: str) -> tuple[int, Id, int]:
        """Rule, event and time of an alert's id; the event's id may have any characters."""
        try:
            rule_id, _, rest = alert_id.split(".", 2)
            event_id, time, _ = rest.rsplit(".", 2)
            return int(rule_id), self._id_of_text(event_id), int(time)
        except ValueError:
            raise NotFound(say(NO_ALERT, text=alert_id[:SHOWN])) from None

    def _id_of_text(self, text: str) -> Id:
        if len(self.schema.id_fields) > 1:
            return tuple(json.loads(text))
        return int(text) if self.schema.has_numeric_id else text

    def _id_and_time(self, event: Any, time: int | None) -> tuple[Id, int | None]:
        event = _without_index(event)
        if isinstance(event, dict | bytes) or isinstance(event, str) and event.lstrip().startswith("{"):
            last = list(self._events_of(event))[-1]
            return self.schema.id_of(last), last[self.schema.time_field]
        if isinstance(event, str):
            with suppress(ValueError, TypeError):
                return self._id_of_text(event), time
        return event, time

    def _events_of(self, event: Any) -> list[dict[str, Any]]:
        """The events of a record that is given as a dict or a line. Its texts may be those of the world's file. Raises BadRecord."""
        record = event = _without_index(event)
        if not isinstance(event, dict):
            with suppress(ValueError, TypeError, RecursionError):  # the schema says what is wrong with it
                record = json.loads(event, parse_float=Decimal)
        if isinstance(record, dict) and (typed := self._typed(record)) != record:
            event = typed
        (line,) = lines_of([event], self.schema)
        raw = line if isinstance(line, bytes) else line.encode()
        is_json = raw.lstrip().startswith(b"{")  # of a file of CSV lines, too
        return (replace(self.schema, records="json") if is_json else self.schema).events(raw)

    def _bad_record_of(self, rule_id: int, event_id: Id) -> Verdict:
        """A record that has the id and is a dead letter. Raises NotFound if there is none."""
        text = str(event_id[0] if isinstance(event_id, tuple) else event_id).encode()
        for _, line, place in self._lines():
            if text in line:
                try:
                    self.schema.events(line)
                except BadRecord as error:
                    return self._dead_letter(rule_id, str(error), place, event_id)
        of = {"event": event_id_text(event_id)}
        raise NotFound(say(NOT_IN_MEMORY if self.is_in_memory else NO_EVENT, **of))

    def _dead_letter(self, rule_id: int, reason: str, place: str, event_id: Id | None) -> Verdict:
        said = say("The record is a dead letter: {reason}", reason=f"{place}: {reason}" if place else reason)
        return Verdict("deadLetter", said, rule_id, None, {}, event_id, None)


def _without_index(event: Any) -> Any:
    """A row of a pandas DataFrame as a dict, and anything else as it is."""
    return (
        event.to_dict()
        if type(event).__module__.startswith("pandas.") and hasattr(event, "to_dict")
        else event
    )


NO_ALERT = (
    "{text}: not the id of an alert, nor a line of the alerts' log. `lab why EVENT RULE` asks about an event."
)
NO_ALERT_AT = "Rule {id} raised no alert at event {event}: `lab why-not {event} {id}` says what was false."
NO_EVENT = "The log has no event {event}."
NOT_IN_MEMORY = "Event {event} is not in memory; `lab why-not` looks in the whole log."
NO_VERSION = (
    "The control log has no version {version} of rule {id} that was in force when event {event} came. "
    "If its topic is compacted, it keeps only the newest version of a rule."
)


def conditions_that_hold(of: Aggregation, past: PastEvents) -> tuple[Condition, ...]:
    """Conditions of which one holds wherever an aggregate has a value at past events; one alone where that says the same.

    Alerts of one condition are written many at a time. It says the same if its limit is below all values, and each event counts.
    """
    field = past.schema.field(of.field) if of.field else None
    digits = 0 if field is None else field.precision - field.scale if field.is_decimal else LONG_DIGITS
    is_below = 10**digits * (past.arrived + 1) <= -LOWEST_LIMIT  # of a sum of all, or the difference of two
    alone = Condition(of, "GREATER_EQUAL", LOWEST_LIMIT)
    is_plain = Rule(0, "ACTIVE", (), None, (alone,)).is_plain
    if is_plain and is_below and not any(map(past.has_null, of.needed_names)):
        return (alone,)
    return tuple(Condition(of, operator, Decimal(0)) for operator in ("GREATER_EQUAL", "LESS"))


def _as_it_is(record: dict[str, Any]) -> dict[str, Any]:
    return record


def _refuse_replay(rules: list[str]) -> Replayed:
    raise ValueError(
        "this world is of an engine's logs; expected one of finished events, for example lab.World(path, rules)"
    )


def _alert_id(given: Any) -> str:
    """The id of an alert, from itself, a line of the alerts' log, or a row with the column alertId. Raises NotFound."""
    if not isinstance(given, str):
        try:
            return str(given["alertId"])
        except (TypeError, KeyError, IndexError):
            raise NotFound(
                f"a {type(given).__name__}, expected an alert, its id or line, or a row with alertId"
            ) from None
    if not given.lstrip().startswith("{"):
        return given.strip()
    try:
        return Alert.from_json(given).alert_id
    except ValueError as error:
        raise NotFound(str(error)) from None
