"""Shows how many alerts another limit or window would have raised on past events."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import ipywidgets as widgets

from lab.model.colours import BLUE, ORANGE
from lab.model.hints import step_of_values
from lab.model.language import say
from lab.model.quantiles import percentiles
from lab.model.rules import Rule
from lab.model.times import DAY_MS, duration_words, rounded_duration_words
from lab.past.backtest import Aggregates, Past
from lab.past.limits import multiples, nearest, round_limits, without_limit
from lab.widgets.look import StylesAndAccessibility, figure, hide_axes_if_empty, sentence_html
from lab.widgets.slider import TextSlider

WINDOWS = (1, 2, 5, 10, 30, *(n * 60 for n in (1, 2, 5, 10, 20, 30)), *(n * 3600 for n in (1, 3, 6, 12)))
WINDOWS = (*(n * 1_000 for n in WINDOWS), *(n * DAY_MS for n in (1, 3, 7, 14, 30, 60, 90)))
POINTS = 200
CURVE_S = 0.3  # for a curve whose points are counted one by one
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
        self.limit = TextSlider(say("limit"), lambda limit: self._change(limit=limit))
        self.window = TextSlider(say("window"), lambda window_ms: self._change(window_ms=window_ms))
        self._limits: list[Decimal] = []  # of the limit's slider
        self._kind: tuple = ()  # of these limits
        # alerts at limits, of a rule that is evaluated anew for each limit
        self._curve: dict[float, int] = {}
        self._curve_of: tuple = ()  # what that curve depends on
        self._curve_rests_until = 0.0
        self.said = widgets.HTML()
        self.figure = figure("", x=say("limit"), y=say("alerts"), height=130)
        self.figure.update_layout(
            yaxis={"tickformat": ",", "nticks": 4}, xaxis={"nticks": 6}
        )  # no SI units of counts
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
        alerts = int(found[0].alert_mask(rule, rule.first.limit).sum())
        self._show_count(rule, alerts)
        self._draw(rule, found[-1], alerts)

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
        windows = sorted({*WINDOWS, rule.aggregation.window_ms})
        self.window.offer(
            {duration_words(ms): ms for ms in windows}, windows.index(rule.aggregation.window_ms)
        )
        if rule.absence:
            self.limit.disabled = True
        else:
            self._offer_limits(rule, at_any_limit)

    def _offer_limits(self, rule: Rule, found: Aggregates) -> None:
        """Limits that the rule's aggregate reaches. Those on the slider stay if they do, so that it stays as it is while events come."""
        reached = found.ascending()
        if rule.first.limit_of:
            reached = multiples(rule, found.values.tolist(), found.bases.tolist())
        limits = round_limits(rule, reached, self.past.schema)
        kind = (bool(rule.first.limit_of), step_of_values(rule, self.past.schema))
        before = self._limits if kind == self._kind else limits[:1]
        covers = before[0] <= limits[0] and limits[-1] <= before[-1]
        if not covers or before[-1] - before[0] > 2 * (limits[-1] - limits[0]):
            self._limits, self._kind = limits, kind
        plain = {f"{limit:,f}": Decimal(f"{limit.normalize():f}") for limit in self._limits}
        # a slider knows round numbers only, a rule keeps its own until it is moved
        self.limit.offer(plain, nearest(self._limits, rule.first.limit), f"{rule.first.limit:,f}")

    def _change(self, **changes: Any) -> None:
        if self._rule:
            rule = self._rule.with_first(**changes)
            self.show(rule)
            self._on_change(rule)

    def _show_count(self, rule: Rule, alerts: int) -> None:
        events, first, last = self.past.evaluated_count_and_time_range_ms(rule)
        of_rule = {
            "limit": rule.conditions[0].describe_limit(f"{rule.first.limit:,}"),
            "window": duration_words(rule.aggregation.window_ms),
            "alerts": f"{alerts:,}",
        }
        past = {"time": rounded_duration_words(last - first), "events": f"{events:,}"}
        if rule.absence:
            said = f"{say(ONE_WAIT if alerts == 1 else WAIT, **of_rule, **past)} {say(NO_LIMIT)}"
        else:
            said = say(ONE_ALERT if alerts == 1 else ALERTS, **of_rule, **past)
        self.said.value = sentence_html(said, "good")

    def _draw(self, rule: Rule, at_any_limit: Aggregates, alerts: int) -> None:
        at = [] if rule.absence else [float(rule.first.limit)]
        exact = rule.can_count_alerts_at_other_limits
        if exact:
            limits, counts = _steps(rule, at_any_limit.ascending())
        elif rule.absence:
            limits, counts = [], []
        else:
            curve = self._counted_one_by_one(rule, at_any_limit) | {at[0]: alerts}
            limits, counts = sorted(curve), [curve[limit] for limit in sorted(curve)]
        is_wide = bool(counts) and max(counts) > 1000
        # of a logarithmic axis only the powers of ten: there is no room for labels between them. The mode is told each time:
        # in the page, plotly keeps it after a step, and a linear axis has then a tick at each alert, hundreds of them
        axis = {"tickmode": "linear", "dtick": 1} if is_wide else {"tickmode": "auto", "dtick": None}
        with self.figure.batch_update():
            drawn = {"mode": "lines" if exact else "lines+markers", "line.shape": "hv" if exact else "linear"}
            self.figure.data[0].update(x=limits, y=counts, **drawn)
            self.figure.data[1].update(x=at, y=[alerts] * len(at))
            self.figure.layout.yaxis.update(type="log" if is_wide else "linear", **axis)
        hide_axes_if_empty(self.figure)

    def _counted_one_by_one(self, rule: Rule, at_any_limit: Aggregates) -> dict[float, int]:
        """Alerts at some limits of the slider, of a rule whose alerts at one limit do not tell those at another.

        The rule is evaluated for each, for about `CURVE_S`; when only events come, the curve stays ten times as long.
        """
        essence = (_essence(rule.with_first(limit=Decimal(1))), tuple(self._limits))
        if essence == self._curve_of and time.monotonic() < self._curve_rests_until:
            return self._curve
        began, values, last = time.monotonic(), at_any_limit.ascending(), len(self._limits) - 1
        evenly = [round(share * last) for share in (0, 1, 0.5, 0.25, 0.75, 0.125, 0.375, 0.625, 0.875)]
        quantiles = percentiles(values, [25, 50, 75, 90, 97]) if values and not rule.first.limit_of else []
        places = [*evenly[:3], *(nearest(self._limits, Decimal(each)) for each in quantiles), *evenly[3:]]
        self._curve = {}
        for place in dict.fromkeys(places):
            if len(self._curve) >= 3 and time.monotonic() > began + CURVE_S:
                break
            at_limit = rule.with_first(limit=Decimal(f"{self._limits[place].normalize():f}"))
            found = self.past.aggregates(at_limit)
            self._curve[float(at_limit.first.limit)] = int(
                found.alert_mask(at_limit, at_limit.first.limit).sum()
            )
        self._curve_of, self._curve_rests_until = essence, time.monotonic() + 9 * (time.monotonic() - began)
        return self._curve


def _steps(rule: Rule, ascending: list[float]) -> tuple[list[float], list[int]]:
    """Limits across some values and at their quantiles, and how many alerts each gives."""
    if not ascending:
        return [], []
    evenly = [n / (POINTS - 1) for n in range(POINTS)]
    quantiles = percentiles(ascending, [100 * share for share in evenly])
    across = (ascending[0] + share * (ascending[-1] - ascending[0]) for share in evenly)
    limits = sorted({*quantiles, *across})
    return limits, [alerts_at(ascending, rule.first.operator, limit) for limit in limits]


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
