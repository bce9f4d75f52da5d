"""A rule with one number that a slider changes: what it finds of a typology, and when.

sentence with {} ──value──► backtest of labelled events ──► precision, recall, delay ──► curves, cases, the sentence
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from lab.desk.tuning import pareto
from lab.model.alerts import event_id_text
from lab.model.colours import BLUE, GREEN, ORANGE, PURPLE
from lab.model.language import say
from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS, rounded_duration_words
from lab.past.typologies import DetectionCounts, LabelledPast
from lab.stream.accounts import CASES
from lab.widgets.figures import Figure
from lab.widgets.look import StylesAndAccessibility, facts_html, figure
from lab.widgets.pictures import lanes
from lab.widgets.slider import TextSlider

HEIGHT = 300  # px
UNITS = {"days": DAY_MS, "hours": HOUR_MS, "minutes": MINUTE_MS, "seconds": 1_000}


class RuleTuningScope(widgets.VBox):
    """A slider over `values`, which stand for `{}` in the sentence `rule`, and what the rule finds of a typology with each.

    Left: precision, recall and delay at all values. Right: a lane for each of the first cases from its first event on, with the
    alerts. Below: precision over recall, with the Pareto edge. `past`, `typology`: for labels of one's own, `world.labelled(labels)`
    and "labels".
    `label`: of the slider, "limit" if empty; `value`: where it stands first.

    >>> scope = RuleTuningScope(LabelledPast(), "velocity", "COUNT(events where action = pay) per account over 10 min >= {}", [2, 8, 11])
    >>> [each.recall for each in scope.found], scope.rules[1]
    ([1.0, 1.0, 0.0], 'COUNT(events where action = "pay") per account over 10 min >= 8')
    """

    def __init__(
        self,
        past: LabelledPast,
        typology: str,
        rule: str,
        values: Sequence[object],
        label: str = "",
        value: object = None,
    ):
        self.past = past
        self.rules = [past.rule(rule.format(each)).describe() for each in values]
        self.found = [past.detection_counts(each, typology) for each in self.rules]
        shown = min(past.case_count(typology), CASES)
        self._cases = {
            say("case {number}", number=number): past.case(typology, number) for number in range(1, shown + 1)
        }
        self._schema = past.past.schema
        self._lane_of = {self._id_text(each): lane for lane, case in self._cases.items() for each in case}
        spans = ([each[self._schema.time_field] for each in case] for case in self._cases.values())
        longest = max((times[-1] - times[0] for times in spans), default=0)
        self._unit = next((unit for unit, ms in UNITS.items() if longest >= 2 * ms), "minutes")
        texts = list(map(str, values))
        self.slider = TextSlider(label or say("limit"), self._show)
        at = 0 if value is None else texts.index(str(value))
        self.slider.offer(dict(zip(texts, range(len(texts)))), at)
        self.sentence, self.facts = widgets.HTML(), widgets.HTML()
        self.curves, self.lanes = self._draw_curves(texts), self._draw_lanes()
        self.edge = _draw_edge(dict(zip(texts, self.found)))
        halves = (widgets.VBox([picture], layout={"width": "50%"}) for picture in (self.curves, self.lanes))
        super().__init__(
            [
                self.slider,
                self.sentence,
                self.facts,
                widgets.HBox(list(halves)),
                self.edge,
                StylesAndAccessibility(),
            ]
        )
        self.add_class("lab")
        self._show(self.slider.position)

    def _draw_curves(self, texts: list[str]) -> Figure:
        picture = figure(y=say("share"), height=HEIGHT, xaxis_type="category", yaxis_range=[-0.05, 1.1])
        drawn = (
            (say("precision"), [each.precision for each in self.found], BLUE, "solid", "circle"),
            (say("recall"), [each.recall for each in self.found], GREEN, "dash", "square"),
        )
        for name, shares, colour, dash, symbol in drawn:
            line, marker = {"color": colour, "dash": dash}, {"symbol": symbol, "size": 8}
            picture.add_scatter(x=texts, y=shares, name=name, mode="lines+markers", line=line, marker=marker)
        delays = [
            each.median_delay_ms / UNITS[self._unit] if each.cases_found else None for each in self.found
        ]
        line, marker = {"color": PURPLE, "dash": "dot"}, {"symbol": "diamond", "size": 8}
        name = say("delay, {unit}", unit=say(self._unit))
        picture.add_scatter(
            x=texts, y=delays, name=name, mode="lines+markers", line=line, marker=marker, yaxis="y2"
        )
        top = max(filter(None, delays), default=1)
        right: dict[str, Any] = {
            "overlaying": "y",
            "side": "right",
            "range": [-0.05 * top, 1.1 * top],
            "tickmode": "auto",
        }
        right |= {"showgrid": False, "zeroline": False, "automargin": True}
        picture.update_layout(yaxis2=right, xaxis_title_text=self.slider.label)
        picture.add_vline(x=0, line={"color": ORANGE, "width": 2})
        return picture

    def _draw_lanes(self) -> Figure:
        rows = {
            lane: [(self._after(lane, each[self._schema.time_field]), _kind(each)) for each in case]
            for lane, case in self._cases.items()
        }
        return lanes(
            rows, {}, x=say("{unit} since the first event of the case", unit=say(self._unit)), height=HEIGHT
        )

    def _id_text(self, event: Mapping[str, Any]) -> str:
        return event_id_text(self._schema.id_of(event))

    def _after(self, lane: str, time: int) -> float:
        return (time - self._cases[lane][0][self._schema.time_field]) / UNITS[self._unit]

    def _show(self, position: int) -> None:
        rule, found = self.rules[position], self.found[position]
        self.sentence.value = f"<code>{escape(rule)}</code>"
        precision = "–" if found.precision is None else f"{found.precision:.2f}"
        delay = rounded_duration_words(found.median_delay_ms) if found.cases_found else "–"
        figures = facts_html(
            {
                say("precision"): (
                    precision,
                    say("of the right and the wrong alerts, the share that is right"),
                ),
                say("recall"): (f"{found.recall:.2f}", say("of the cases, the share with an alert")),
                say("delay"): (delay, say("from the first event of a case to its first alert, the median")),
                say("right"): (f"{found.right_alerts:,}", say("alerts at events of the cases")),
                say("wrong"): (f"{found.wrong_alerts:,}", say("alerts at ordinary events")),
                say("at other patterns"): (
                    f"{found.alerts_at_other_cases:,}",
                    say("alerts at events of other typologies' cases"),
                ),
            }
        )
        self.facts.value = (
            f'<div role="status" aria-live="polite">{figures}</div>'  # read aloud: nothing else says it
        )
        alerts = [each for each in self.past.alerts(rule) if event_id_text(each.event_id) in self._lane_of]
        at = [self._lane_of[event_id_text(each.event_id)] for each in alerts]
        with self.lanes.batch_update():
            self.lanes.data[-1].update(
                x=[self._after(*each) for each in zip(at, (a.alert_time for a in alerts))], y=at
            )
        with self.curves.batch_update():
            self.curves.layout.shapes[0].update(x0=position, x1=position)


def compare_rules(past: LabelledPast, typology: str, case: int | None, rules: Mapping[str, str]) -> Figure:
    """The events of one case in a lane for each rule, with the rule's alerts; of all cases (None), precision over recall.

    >>> picture = compare_rules(LabelledPast(), "velocity", 1, {"eight": "COUNT(events) per account over 10 min >= 8"})
    >>> list(picture.data[-1].y)
    ['eight', 'eight', 'eight']
    """
    if case is None:
        return _draw_edge({name: past.detection_counts(rule, typology) for name, rule in rules.items()})
    events, schema = past.case(typology, case), past.past.schema
    begins = events[0][schema.time_field]
    minutes = {
        event_id_text(schema.id_of(each)): (each[schema.time_field] - begins) / MINUTE_MS for each in events
    }
    shown = [(at, _kind(each)) for at, each in zip(minutes.values(), events)]
    alerts = {
        name: [
            minutes[event_id_text(alert.event_id)]
            for alert in past.alerts(rule)
            if event_id_text(alert.event_id) in minutes
        ]
        for name, rule in rules.items()
    }
    return lanes(dict.fromkeys(rules, shown), alerts, x=say("minutes since the first event"), height=240)


def _kind(event: Mapping[str, Any]) -> str:
    """What an event is called in a picture."""
    return str(event.get("action") or say("event"))


def _draw_edge(found: Mapping[str, DetectionCounts]) -> Figure:
    """Precision over recall, a point for each name; the Pareto edge is a line."""
    picture = figure(x=say("recall"), y=say("precision"), height=HEIGHT)
    picture.update_layout(xaxis_range=[-0.05, 1.1], yaxis_range=[-0.05, 1.15])
    points = {name: (of.recall, of.precision) for name, of in found.items() if of.precision is not None}
    names, places = list(points), list(points.values())
    edge = [places[n] for n in pareto([(precision, recall) for recall, precision in places])]
    for name, some, mode, colour in (
        (say("Pareto edge"), edge, "lines", ORANGE),
        (say("rules"), places, "markers+text", BLUE),
    ):
        picture.add_scatter(
            x=[recall for recall, _ in some],
            y=[precision for _, precision in some],
            name=name,
            mode=mode,
            line={"color": colour},
            text=names if some is places else None,
            textposition="top right",
            marker={"size": 8},
        )
    return picture
