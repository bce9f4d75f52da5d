"""Shows how many alerts another limit or window would have raised on past events."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import ipywidgets as widgets

from lab.apps.backtest import Aggregates, Past
from lab.apps.limits import multiples, nearest, round_limits, without_limit
from lab.model.hints import step_of_values
from lab.model.language import say
from lab.model.quantiles import percentiles
from lab.model.rules import Rule
from lab.model.times import DAY_MS, duration_words, rounded_duration_words
from lab.widgets.look import BLUE, ORANGE, StylesAndAccessibility, figure, hide_axes_if_empty, sentence_html
from lab.widgets.slider import TextSlider

WINDOWS = (1, 2, 5, 10, 30, *(n * 60 for n in (1, 2, 5, 10, 20, 30)), *(n * 3600 for n in (1, 3, 6, 12)))
WINDOWS = (*(n * 1_000 for n in WINDOWS), *(n * DAY_MS for n in (1, 3, 7, 14, 30, 60, 90)))
POINTS = 200
NOTHING_YET = (
    "No past events yet. Once there are some, this shows how many alerts the rule would have raised."
)
ALERTS = (
    "A limit of {limit} over {window} would have raised {alerts} alerts in the last {time} ({events} events)."
)
ONE_ALERT = (
    "A limit of {limit} over {window} would have raised {alerts} alert in the last {time} ({events} events)."
)
WAIT = "Waiting {window} would have raised {alerts} alerts in the last {time} ({events} events)."
ONE_WAIT = "Waiting {window} would have raised {alerts} alert in the last {time} ({events} events)."
NO_LIMIT = "Such a rule has no limit: it alerts when no event that counts has come in time."


class Backtest(widgets.VBox):
    """Shows a rule against past events; the sliders call `on_change` with the rule as it would then be."""

    def __init__(self, past: Past, on_change: Callable[[Rule], None] = lambda rule: None):
        self.past, self._on_change = past, on_change
        self._rule: Rule | None = None
        self._known: dict[tuple, Aggregates] = {}  # by what they depend on
        self._arrived = -1  # events, when they were computed
        self._rests_until = 0.0
        self.limit = TextSlider(say("limit"), self._limit_moved)
        self.window = TextSlider(say("window"), self._window_moved)
        self._limits: list[Decimal] = []  # of the limit's slider
        self._kind: tuple = ()  # of these limits
        self._windows: list[int] = []  # ms, of the window's slider
        self.said = widgets.HTML()
        self.figure = figure("", x=say("limit"), y=say("alerts"), height=150)
        self.figure.layout.yaxis.tickformat = ","  # in full, also on a logarithmic scale
        self.figure.add_scatter(
            x=[], y=[], mode="lines", name=say("alerts at a limit"), line={"color": BLUE, "shape": "hv"}
        )
        self.figure.add_scatter(
            x=[],
            y=[],
            mode="markers",
            name=say("this limit"),
            marker={"color": ORANGE, "size": 12, "symbol": "diamond"},
        )
        super().__init__([self.limit, self.window, self.said, self.figure, StylesAndAccessibility()])
        self.show(None)

    def recompute_if_due(self) -> None:
        """Recounts if there are new events, in at most a tenth of the time."""
        new = self._rule and (self._arrived != self.past.arrived)
        if new and (began := time.monotonic()) >= self._rests_until:
            self.show(self._rule)
            self._rests_until = time.monotonic() + 9 * (time.monotonic() - began)

    def show(self, rule: Rule | None) -> None:
        """Computes the rule's aggregates at past events, if they are not those that are shown, and counts alerts."""
        self._rule = rule
        hide_axes_if_empty(self.figure)
        if rule is None or not len(self.past):
            self.said.value = sentence_html(
                say(NOTHING_YET if rule else "The draft is not a valid rule: fix it above.")
            )
            self.limit.disabled = self.window.disabled = True
            return
        found = self._aggregates([rule] if rule.absence else [rule, without_limit(rule)])
        self._follow(rule, found[-1])
        self._tell(rule, found[0])

    def _aggregates(self, rules: list[Rule]) -> list[Aggregates]:
        """Those of rules; computes only what the last call did not."""
        before = self._known if self._arrived == self.past.arrived else {}
        self._known, self._arrived = {}, self.past.arrived
        for rule in rules:
            essence = _essence(rule)
            if essence not in self._known:
                self._known[essence] = before.get(essence) or self.past.aggregates(rule)
        return [self._known[_essence(rule)] for rule in rules]

    def _follow(self, rule: Rule, at_any_limit: Aggregates) -> None:
        """Puts the sliders where the rule is."""
        self.limit.layout.display = "none" if rule.absence else ""
        self._windows = sorted({*WINDOWS, rule.window_ms})
        self.window.texts = [duration_words(ms) for ms in self._windows]
        with self.limit.hold_sync(), self.window.hold_sync():
            if not rule.absence:
                self._offer_limits(rule, at_any_limit)
            self.window.position = self._windows.index(rule.window_ms)
            self.window.text = duration_words(rule.window_ms)
        self.limit.disabled, self.window.disabled = rule.absence, False

    def _offer_limits(self, rule: Rule, found: Aggregates) -> None:
        """Limits that the rule's aggregate reaches. Those on the slider stay if they do, so that it stays as it is while events come."""
        reached = found.ascending()
        if rule.limit_of:
            reached = multiples(rule, found.values.tolist(), found.bases.tolist())
        limits = round_limits(rule, reached, self.past.schema)
        kind = (bool(rule.limit_of), step_of_values(rule, self.past.schema))
        before = self._limits if kind == self._kind else limits[:1]
        covers = before[0] <= limits[0] and limits[-1] <= before[-1]
        if not covers or before[-1] - before[0] > 2 * (limits[-1] - limits[0]):
            self._limits, self._kind = limits, kind
            self.limit.texts = [f"{limit:,f}" for limit in limits]
        # a slider knows round numbers only, a rule keeps its own until it is moved
        self.limit.position, self.limit.text = nearest(self._limits, rule.limit), f"{rule.limit:,f}"

    def _limit_moved(self, position: int) -> None:
        self._change(limit=Decimal(f"{self._limits[position].normalize():f}"))

    def _window_moved(self, position: int) -> None:
        self._change(window_ms=self._windows[position])

    def _change(self, **changes: Any) -> None:
        if self._rule:
            rule = replace(self._rule, **changes)
            self.show(rule)
            self._on_change(rule)

    def _tell(self, rule: Rule, found: Aggregates) -> None:
        alerts = int(found.alert_mask(rule, rule.limit).sum())
        events, first, last = self.past.evaluated_count_and_time_range_ms(rule)
        of_rule = {
            "limit": rule.conditions[0].describe_limit(f"{rule.limit:,}"),
            "window": duration_words(rule.window_ms),
            "alerts": f"{alerts:,}",
        }
        past = {"time": rounded_duration_words(last - first), "events": f"{events:,}"}
        if rule.absence:
            said = f"{say(ONE_WAIT if alerts == 1 else WAIT, **of_rule, **past)} {say(NO_LIMIT)}"
        else:
            said = say(ONE_ALERT if alerts == 1 else ALERTS, **of_rule, **past)
        self.said.value = sentence_html(said, "good")
        at = [] if rule.absence else [float(rule.limit)]
        if not rule.can_count_alerts_at_other_limits or not len(found.values):
            limits, counts = at, [alerts] * len(at)  # what it counts depends on the limit: no curve
        else:
            values = found.ascending()
            evenly = [n / (POINTS - 1) for n in range(POINTS)]
            quantiles = percentiles(values, [100 * share for share in evenly])
            across = (values[0] + share * (values[-1] - values[0]) for share in evenly)
            limits = sorted({*quantiles, *across})
            counts = [alerts_at(values, rule.operator, limit) for limit in limits]
        with self.figure.batch_update():
            self.figure.data[0].update(x=limits, y=counts)
            self.figure.data[1].update(x=at, y=[alerts] * len(at))
            self.figure.layout.yaxis.type = "log" if counts and max(counts) > 1000 else "linear"
        hide_axes_if_empty(self.figure)


def alerts_at(ascending: Sequence[float], operator: str, limit: float) -> int:
    """How many of some values in ascending order are in an operator's relation to a limit.

    >>> [alerts_at([1, 2, 2, 3], operator, 2) for operator in ("GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL", "LESS")]
    [1, 3, 2, 2, 1]
    """
    less, upto, of = bisect_left(ascending, limit), bisect_right(ascending, limit), len(ascending)
    return {
        "EQUAL": upto - less,
        "NOT_EQUAL": of - (upto - less),
        "GREATER": of - upto,
        "GREATER_EQUAL": of - less,
        "LESS": less,
        "LESS_EQUAL": upto,
    }[operator]


def _essence(rule: Rule) -> tuple:
    """What its aggregates depend on."""
    if rule.can_count_alerts_at_other_limits:
        rule = without_limit(rule)
    of = (rule.keys, rule.filter, rule.when, rule.joined_by, rule.conditions)
    return *of, rule.at_most, rule.at_most_per_ms, rule.absence
