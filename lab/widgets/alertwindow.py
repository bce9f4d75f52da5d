"""The window behind an alert: its events, their aggregate, and any difference from what the engine saw."""

from collections.abc import Iterable
from decimal import Decimal

import ipywidgets as widgets

from lab.desk.world import NotFound, World
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import MeasuredCondition
from lab.model.alerts import Alert, event_id_text, utc_text
from lab.model.colours import BLUE, FAINT, GREY, ORANGE, PURPLE
from lab.model.formatting import escape_control_characters
from lab.model.group import sorted_group
from lab.model.language import say
from lab.model.referencestate import StoredEvent, compute_aggregate_and_holds
from lab.model.rules import Rule, readable_rule_summary
from lab.model.schema import Schema
from lab.model.times import duration_words, now_ms
from lab.past.backtest import Past
from lab.widgets.alertfacts import alert_facts_html, value_text
from lab.widgets.look import figure, sentence_html
from lab.widgets.table import SelectableTable

WINDOW = "{rule}: {count} events in the window of {window} that ends with event {event}, group {group}. The alert's value was {value}."
OTHER = "This is the value of {condition}. The picture shows the first condition's aggregate, {aggregation}: {value}."
RESET = "The first {count}, in grey, no longer count: the rule alerted on them and reset its count."
NO_VALUE = "These events give no value: the rule or its window has changed since, or some of the events are no longer in memory."
DIFFERS = "These events give {value}: the rule or its window has changed since, or some of the events are no longer in memory."

NOT_IN_MEMORY = "The events in memory no longer tell why; `lab why` reads the whole log."
SHOWN_EVENTS = 100  # of a window
CHOOSE = "Choose an alert to see the window behind it, event by event."
GONE = "Event {event} is no longer in memory, which keeps the newest {kept}, so the window of group {group} cannot be drawn."
SINCE = "The event was at {time} UTC. Below are the last {count} alerts of this rule and group."
BELOW = "The alert was {values} at {time} UTC. Below are the last {count} alerts of this rule and group."


class AlertWindow(widgets.VBox):
    """The window behind one alert: a sentence about it, what it carries, its picture, and its events."""

    def __init__(self) -> None:
        self.said, self.facts = widgets.HTML(sentence_html(say(CHOOSE))), widgets.HTML()
        self.why = widgets.HTML()
        self.why.add_class("lab-why")
        self.chart = figure("", x=say("event time (UTC)"), y="", height=230)
        self.chart.layout.showlegend = True
        self.chart.add_bar(x=[], y=[], name=say("each event"), marker={"color": GREY})
        self.chart.add_scatter(
            x=[],
            y=[],
            name=say("aggregate so far"),
            mode="lines+markers",
            line={"color": BLUE, "shape": "hv"},
            connectgaps=True,
        )
        self.chart.add_scatter(
            x=[], y=[], name=say("limit"), mode="lines", line={"color": ORANGE, "dash": "dash"}
        )
        dots = {"color": PURPLE, "dash": "dot"}
        self.chart.add_scatter(x=[], y=[], name=say("reset"), mode="lines", line=dots, showlegend=False)
        self.picture = widgets.VBox([self.chart], layout={"display": "none"})
        self.events = SelectableTable((), "")
        self.events.layout.display = "none"
        super().__init__([self.said, self.facts, self.picture, self.why, self.events])

    def show(self, alert: Alert, rule: Rule | None, past: Past, alerts: Iterable[Alert]) -> None:
        """Shows the window of an alert, or, where there is none, those of `alerts` that are of the same rule and group."""
        self.facts.value = alert_facts_html(alert, rule)
        self.why.value = _why_html(alert, past)
        shows = rule and not rule.absence  # else the window comes after the event
        events = _window_of(alert, rule, past) if rule and shows else []
        self.picture.layout.display, self.events.layout.display = "" if events else "none", ""
        if rule and events:
            counted = _counted_of(alert, rule, past, events)
            self._say(explain(rule, alert, events, counted))
            self._show_picture(past.schema, rule, alert, events, counted)
            self._show_events(past.schema, rule, counted)
        else:
            self._show_alone(alert, rule, len(past), alerts)

    def _show_alone(self, alert: Alert, rule: Rule | None, kept: int, alerts: Iterable[Alert]) -> None:
        """An alert whose window cannot be shown: what is known of its group."""
        of_event = {"event": event_id_text(alert.event_id), "group": alert.key}
        if rule is None:
            gone = say("Rule {id} was deleted, so its windows are unknown.", id=alert.rule_id)
        elif rule.absence:
            gone = say(
                "{rule}: after event {event} of group {group} none came in time.",
                rule=readable_rule_summary(rule),
                **of_event,
            )
        else:
            gone = say(GONE, kept=f"{kept:,}", **of_event)
        of_group = [other for other in alerts if _rule_and_group(other) == _rule_and_group(alert)]
        below = {"time": utc_text(alert.event_time), "count": len(of_group[-SHOWN_EVENTS:])}
        absent = rule is not None and rule.absence
        more = say(SINCE, **below) if absent else say(BELOW, values=value_text(alert, rule), **below)
        self._say(f"{gone} {more}")
        with self.events.hold_sync():
            self.events.label = say("Alerts of this rule and group, newest first")
            self.events.columns, self.events.numeric = [say("event"), say("value"), say("time (UTC)")], [1]
            self.events.rows = [
                [str(n), event_id_text(other.event_id), value_text(other, rule), utc_text(other.event_time)]
                for n, other in enumerate(reversed(of_group[-SHOWN_EVENTS:]))
            ]

    def _show_picture(
        self, schema: Schema, rule: Rule, alert: Alert, events: list[dict], counted: list[dict]
    ) -> None:
        measured = first_measured(alert, rule)
        limit = None if measured.limit is None else float(measured.limit)
        place = {event_identity(event, schema): n for n, event in enumerate(events)}
        counts = [place[event_identity(event, schema)] for event in counted]
        times = [utc_text(event[schema.time_field]) for event in events]
        so_far: list[float | None] = [None] * len(events)
        for n, value in zip(counts, running_aggregates(rule, counted)):
            so_far[n] = value
        aggregate = AGGREGATES[rule.aggregation.function]
        amounts = aggregate.argument_kind == "field" and not aggregate.of_place
        each = [float(event[rule.aggregation.field] or 0) if amounts else 1.0 for event in events]
        same_day = times[0][:10] == times[-1][:10]
        resets = sorted(set(range(len(events))) - set(counts))[-1:]
        with self.chart.batch_update():
            self.chart.layout.xaxis.tickformat = "%H:%M:%S" if same_day else None
            self.chart.layout.yaxis.title.text = rule.aggregation.field if amounts else say("events")
            for trace, y in zip(self.chart.data, (each, so_far, [limit] * len(times))):
                trace.update(x=times, y=y)
            if len(times) == 1:
                self.chart.data[2].update(x=times * 2, y=[limit] * 2)
            colours = [GREY if n in counts else FAINT for n in range(len(events))] if resets else GREY
            self.chart.data[0].marker.color = colours
            top = max(limit or 0.0, float(measured.aggregate or 0), 1.0)
            self.chart.data[3].update(
                x=[times[n] for n in resets * 2], y=[0, top][: 2 * len(resets)], showlegend=bool(resets)
            )

    def _show_events(self, schema: Schema, rule: Rule, events: list[dict]) -> None:
        """The newest events of a window, whole: what the rule looks at comes first."""
        known = {*schema.id_fields, schema.time_field} - {*rule.field_names}
        names = [name for name in dict.fromkeys((*rule.field_names, *schema.names)) if name not in known]
        numeric = [n for n, name in enumerate(names, 2) if schema.field(name).is_number_or_time]
        newest = events[-SHOWN_EVENTS:][::-1]
        same_day = len({utc_text(event[schema.time_field])[:10] for event in newest}) == 1
        with self.events.hold_sync():
            self.events.label = say("Events in the window, newest first")
            self.events.columns = [say("event"), say("time (UTC)"), *names]
            self.events.numeric = [0, *numeric]
            self.events.rows = [
                [
                    str(n),
                    event_id_text(schema.id_of(event)),
                    utc_text(event[schema.time_field])[11 if same_day else 0 :],
                    *(_text(event[name]) for name in names),
                ]
                for n, event in enumerate(newest)
            ]

    def _say(self, text: str) -> None:
        self.said.value = sentence_html(text)


def _window_of(alert: Alert, rule: Rule, past: Past, newest: int | None = None) -> list[dict]:
    return past.window(rule, alert.event_id, alert.event_time, newest, alert.group, all_events=True)


def _why_html(alert: Alert, past: Past) -> str:
    """What `lab why` says of the alert, from the events in memory; empty if it is not known which rules judged them."""
    if not past.history.changes:
        return ""
    try:
        verdict = World.of_past(past, now_ms()).why(alert)
    except NotFound:
        return sentence_html(say(NOT_IN_MEMORY))
    if verdict.alert is None or _measured_of(verdict.alert) != _measured_of(alert):
        return sentence_html(say(NOT_IN_MEMORY))
    return sentence_html(verdict.said) + verdict.html(picture=False)


def _measured_of(alert: Alert) -> tuple:
    return alert.own_condition, alert.conditions


def _rule_and_group(alert: Alert) -> tuple:
    """What alerts of one rule and group have in common, whatever the order in which the rule named the fields."""
    return alert.rule_id, sorted_group(alert.group)


def _counted_of(alert: Alert, rule: Rule, past: Past, events: list[dict]) -> list[dict]:
    """Those of the events in the window that count for the rule's first aggregate; of a plain rule all since the last reset."""
    own, judged = rule.aggregations[0], (alert.event_id, alert.event_time)
    excluded = [
        event for event in events if own.exclude_current and event_identity(event, past.schema) == judged
    ]
    if own.resets:
        newest = int(first_measured(alert, rule).aggregate or 0) + sum(map(own.is_counted, excluded))
        events = _window_of(alert, rule, past, newest)
    elif rule.is_plain:
        return events
    return [event for event in events if own.is_counted(event) and event not in excluded]


def first_measured(alert: Alert, rule: Rule) -> MeasuredCondition:
    """What an alert tells of its rule's first condition: its own value and limit may be those of another one."""
    if len(alert.conditions) == len(rule.conditions):
        return alert.conditions[0]
    return alert.own_condition


def _text(value: object) -> str:
    """A field's value: amounts as people write them, ids as they are."""
    return (
        f"{value:,}"
        if isinstance(value, Decimal)
        else "–"
        if value is None
        else escape_control_characters(str(value))
    )


def explain(rule: Rule, alert: Alert, events: list[dict], counted: list[dict]) -> str:
    """Explains the picture and any difference from what the engine saw."""
    of_window = {
        "rule": readable_rule_summary(rule),
        "count": len(events),
        "window": duration_words(rule.aggregation.window_ms),
    }
    of_alert = {"event": event_id_text(alert.event_id), "group": alert.key, "value": f"{alert.aggregate:,}"}
    said = [say(WINDOW, **of_window, **of_alert)]
    own, measured = rule.aggregations[0].describe(), first_measured(alert, rule).aggregate
    first_that_held = (
        alert.conditions.index(alert.own_condition) if alert.own_condition in alert.conditions else 0
    )
    if 0 < first_that_held < len(rule.conditions):
        value = say("no value") if measured is None else f"{measured:,}"
        of_other = {
            "condition": rule.conditions[first_that_held].describe(),
            "aggregation": own,
            "value": value,
        }
        said.append(say(OTHER, **of_other))
    if not rule.is_plain:
        said.append(say("Of them {count} count for {aggregation}.", count=len(counted), aggregation=own))
    elif before := len(events) - len(counted):
        said.append(say(RESET, count=before))
    of_none = None if AGGREGATES[rule.aggregation.function].argument_kind == "field" else 0.0
    adds_up = running_aggregates(rule, counted)[-1] if counted else of_none
    if adds_up is None:
        if measured is not None:
            said.append(say(NO_VALUE))
    elif measured is None or abs(adds_up - float(measured)) > 1e-6 * max(1, abs(adds_up)):
        said.append(say(DIFFERS, value=f"{adds_up:,.10g}"))
    return " ".join(said)


def running_aggregates(rule: Rule, events: list[dict], max_points: int = 100) -> list[float | None]:
    """The rule's aggregate over the first event of a window, the first two, …, as the specification computes it.

    If there are many events, it computes only about `max_points` values, always including the last one; the others are None.
    """
    stored = [StoredEvent(n, 0, n, event) for n, event in enumerate(events)]
    step = max(-(-len(stored) // max_points), 1)
    so_far: list[float | None] = [None] * len(stored)
    for n in range(len(stored), 0, -step):
        counted = [event for event in stored[:n] if rule.aggregations[0].is_counted(event.fields)]
        so_far[n - 1] = float(compute_aggregate_and_holds(rule, counted)[0]) if counted else None
    return so_far


def event_identity(event: dict, schema: Schema) -> tuple:
    """What tells an event from others: its id at its time."""
    return schema.id_of(event), event[schema.time_field]
