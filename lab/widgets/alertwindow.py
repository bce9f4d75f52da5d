"""The window behind an alert: its events, their aggregate, and any difference from what the engine saw."""

from collections.abc import Iterable

import ipywidgets as widgets

from lab.desk.judging import Judge
from lab.desk.picture import AlertPicture, shown_value
from lab.desk.verdict import Verdict
from lab.model.alerts import Alert, event_id_text, utc_text
from lab.model.colours import BLUE, FAINT, GREY, ORANGE, PURPLE
from lab.model.group import sorted_group
from lab.model.language import say
from lab.model.rules import Rule, readable_rule_summary
from lab.model.schema import Schema
from lab.model.times import duration_words, now_ms
from lab.past.backtest import Past
from lab.widgets.alertfacts import alert_facts_html, value_text
from lab.widgets.look import figure, sentence_html, styled
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
        self.why = styled(widgets.HTML(), "lab-why")
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
        verdict = Judge(past, now_ms()).of_alert(alert) if past.history.changes else None
        self.why.value = _why_html(alert, verdict) if past.history.changes else ""
        window = AlertPicture(alert, verdict) if verdict else None
        has_events = bool(window and window.events)
        self.picture.layout.display, self.events.layout.display = "" if has_events else "none", ""
        if window and has_events:
            self._say(explain(window))
            self._show_picture(window)
            self._show_events(past.schema, window)
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

    def _show_picture(self, window: AlertPicture) -> None:
        events, measured = window.events, window.first
        limit = None if measured.limit is None else float(measured.limit)
        times = [utc_text(event.time) for event in events]
        so_far = [None if event.so_far[0] is None else float(event.so_far[0]) for event in events]
        each = [window.height(event) for event in events]
        same_day = times[0][:10] == times[-1][:10]
        resets = [n for n, event in enumerate(events) if not event.counts[0]][-1:]
        with self.chart.batch_update():
            self.chart.layout.xaxis.tickformat = "%H:%M:%S" if same_day else None
            self.chart.layout.yaxis.title.text = window.amount_field or say("events")
            for trace, y in zip(self.chart.data, (each, so_far, [limit] * len(times))):
                trace.update(x=times, y=y)
            if len(times) == 1:
                self.chart.data[2].update(x=times * 2, y=[limit] * 2)
            colours = [GREY if event.counts[0] else FAINT for event in events] if resets else GREY
            self.chart.data[0].marker.color = colours
            top = max(limit or 0.0, float(measured.aggregate or 0), 1.0)
            self.chart.data[3].update(
                x=[times[n] for n in resets * 2], y=[0, top][: 2 * len(resets)], showlegend=bool(resets)
            )

    def _show_events(self, schema: Schema, window: AlertPicture) -> None:
        """The newest events of a window, whole."""
        names = window.shown_fields(schema)
        numeric = [n for n, name in enumerate(names, 2) if schema.field(name).is_number_or_time]
        newest = window.counted[-SHOWN_EVENTS:][::-1]
        same_day = len({utc_text(event.time)[:10] for event in newest}) == 1
        with self.events.hold_sync():
            self.events.label = say("Events in the window, newest first")
            self.events.columns = [say("event"), say("time (UTC)"), *names]
            self.events.numeric = [0, *numeric]
            self.events.rows = [
                [
                    str(n),
                    event.id,
                    utc_text(event.time)[11 if same_day else 0 :],
                    *(shown_value(event.fields[name]) for name in names),
                ]
                for n, event in enumerate(newest)
            ]

    def _say(self, text: str) -> None:
        self.said.value = sentence_html(text)


def _why_html(alert: Alert, verdict: Verdict | None) -> str:
    """What `lab why` says of the alert, if the events in memory still give it."""
    if verdict is None or verdict.alert is None or _measured_of(verdict.alert) != _measured_of(alert):
        return sentence_html(say(NOT_IN_MEMORY))
    return sentence_html(verdict.said) + verdict.html(picture=False)


def _measured_of(alert: Alert) -> tuple:
    return alert.own_condition, alert.conditions


def _rule_and_group(alert: Alert) -> tuple:
    """What alerts of one rule and group have in common, whatever the order in which the rule named the fields."""
    return alert.rule_id, sorted_group(alert.group)


def explain(window: AlertPicture) -> str:
    """Explains the picture and any difference from what the engine saw."""
    rule, alert, measured = window.rule, window.alert, window.first.aggregate
    of_window = {
        "rule": readable_rule_summary(rule),
        "count": len(window.events),
        "window": duration_words(rule.aggregation.window_ms),
    }
    of_alert = {"event": event_id_text(alert.event_id), "group": alert.key, "value": f"{alert.aggregate:,}"}
    said, own = [say(WINDOW, **of_window, **of_alert)], rule.aggregations[0].describe()
    if other := window.other_condition:
        value = say("no value") if measured is None else f"{measured:,}"
        said.append(say(OTHER, condition=other.describe(), aggregation=own, value=value))
    before = len(window.events) - len(window.counted)
    if not rule.is_plain or before and not rule.aggregation.resets:
        count = len(window.counted)
        said.append(say("Of them {count} count for {aggregation}.", count=count, aggregation=own))
    elif before:
        said.append(say(RESET, count=before))
    if window.adds_up != measured:
        value = "" if window.adds_up is None else f"{window.adds_up:,}"
        said.append(say(DIFFERS, value=value) if value else say(NO_VALUE))
    return " ".join(said)
