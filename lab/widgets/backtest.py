"""What another limit, another window would have raised on past events: two sliders, a sentence, a curve."""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import ipywidgets as widgets
import numpy as np

from lab.apps.backtest import Aggregates, Past
from lab.model.rules import Rule
from lab.widgets.look import BLUE, ORANGE, Fit, figure, sentence

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
UNITS = {"d": DAY, "h": HOUR, "min": MINUTE, "s": SECOND}
WINDOWS = (1, 2, 5, 10, 30, *(n * 60 for n in (1, 2, 5, 10, 20, 30)), *(n * 3600 for n in (1, 3, 6, 12)))
WINDOWS = (*(n * SECOND for n in WINDOWS), *(n * DAY for n in (1, 3, 7, 14, 30, 60, 90)))
STEPS, POINTS = 200, 200


def span(ms: int) -> str:
    """A length of time for people, in its largest unit.

    >>> span(30 * DAY), span(90 * SECOND), span(90 * MINUTE)
    ('30 d', '90 s', '90 min')
    """
    unit = next((unit for unit, size in UNITS.items() if ms and ms % size == 0), "ms")
    return f"{ms // UNITS.get(unit, 1):,} {unit}"


def roughly(ms: int) -> str:
    """A length of time for people, rounded.

    >>> roughly(3_456_123_000), roughly(3_700_000), roughly(12_300)
    ('40 d', '62 min', '12 s')
    """
    unit = next((unit for unit, size in UNITS.items() if ms >= 2 * size), "s")
    return f"{ms / UNITS[unit]:.0f} {unit}"


def step_of(low: float, high: float) -> Decimal:
    """A round step for a slider from `low` to `high`.

    >>> step_of(0, 20_000_000), step_of(0, 50)
    (Decimal('1E+5'), Decimal('0.1'))
    """
    return Decimal(1).scaleb(math.floor(math.log10(max(high - low, 1e-6) / STEPS)))


class Backtest(widgets.VBox):
    """Shows a rule against past events; the sliders call `changed` with the rule as it would then be."""

    def __init__(self, past: Past, changed: Callable[[Rule], None] = lambda rule: None):
        self.past, self._changed = past, changed
        self._rule: Rule | None = None
        self._known: tuple[object, Aggregates] | None = None  # what they were computed for
        wide = {"width": "98%"}, {"description_width": "5em"}
        self.limit = widgets.FloatSlider(
            description="limit", layout=wide[0], style=wide[1], readout=False, disabled=True
        )
        self.window = widgets.SelectionSlider(
            options=[(span(ms), ms) for ms in WINDOWS],
            description="window",
            layout=wide[0],
            style=wide[1],
            continuous_update=False,
            disabled=True,
        )
        self.said = widgets.HTML()
        self.figure = figure("", x="limit", y="alerts", height=230)
        self.figure.add_scatter(
            x=[], y=[], mode="lines", name="alerts at a limit", line={"color": BLUE, "shape": "hv"}
        )
        self.figure.add_scatter(
            x=[],
            y=[],
            mode="markers",
            name="this limit",
            marker={"color": ORANGE, "size": 12, "symbol": "diamond"},
        )
        self._following = False
        self.limit.observe(self._slid, "value")
        self.window.observe(self._slid, "value")
        super().__init__([self.limit, self.window, self.said, self.figure, Fit()])
        self.show(None)

    def again(self) -> None:
        """Counts anew if events have come."""
        if self._rule and (self._known is None or self._known[0][-1] != self.past.arrived):
            self.show(self._rule)

    def show(self, rule: Rule | None) -> None:
        """Computes the rule's aggregates at past events, if they are not those that are shown, and counts alerts."""
        self._rule = rule
        if rule is None or not len(self.past):
            self.said.value = sentence("No past events yet." if rule else "No rule to try.")
            self.limit.disabled = self.window.disabled = True
            return
        wanted = (*_essence(rule), self.past.arrived)
        if self._known is None or self._known[0] != wanted:
            self._known = wanted, self.past.aggregates(rule)
        self._follow(rule, self._known[1])
        self._tell(rule, self._known[1])

    def _follow(self, rule: Rule, found: Aggregates) -> None:
        """Puts the sliders where the rule is."""
        limit = float(rule.limit)
        low, high = (
            (float(found.values.min()), float(found.values.max())) if len(found.values) else (0.0, 1.0)
        )
        low, high = min(low, limit), max(high, limit, low + 1e-6)
        step = float(step_of(low, high))
        low, high = step * math.floor(low / step), step * math.ceil(high / step)
        self._following = True
        try:
            if (
                low < self.limit.min
                or high > self.limit.max
                or self.limit.max - self.limit.min > 2 * (high - low)
            ):
                self.limit.max = max(self.limit.max, high)  # min may not be over max, not even for a moment
                self.limit.min, self.limit.max, self.limit.step = low, high, step
            self.limit.value, self.limit.disabled = self._nearest(limit) * self.limit.step, False
            known = sorted({*WINDOWS, rule.window_ms})
            if known != [ms for _, ms in self.window.options]:
                self.window.options = [(span(ms), ms) for ms in known]
            self.window.value, self.window.disabled = rule.window_ms, False
        finally:
            self._following = False

    def _nearest(self, limit: float) -> int:
        """The slider's step next to a limit: a slider knows round numbers only, a rule keeps its own until it is moved."""
        return round(limit / self.limit.step)

    def _slid(self, change: dict) -> None:
        if self._following or self._rule is None:
            return
        rule = replace(self._rule, window_ms=self.window.value)
        steps = self._nearest(self.limit.value)
        if steps != self._nearest(float(rule.limit)):
            limit = (steps * Decimal(str(self.limit.step))).normalize()
            rule = replace(rule, limit=Decimal(format(limit, "f")))
        if rule != self._rule:
            self.show(rule)
            self._changed(rule)

    def _tell(self, rule: Rule, found: Aggregates) -> None:
        alerts = int(found.over(rule, float(rule.limit)).sum())
        first, last = self.past.span
        self.said.value = sentence(
            f"A limit of {rule.limit:,} over {span(rule.window_ms)} would have raised {alerts:,} alert{'s' * (alerts != 1)} in the last "
            f"{roughly(last - first)} ({len(self.past):,} events).",
            "good",
        )
        if rule.function == "COUNT_WITH_RESET" or not len(found.values):
            limits, counts = [float(rule.limit)], [alerts]  # what it counts depends on the limit: no curve
        else:
            evenly = np.linspace(0, 1, POINTS)
            quantiles = np.quantile(found.values, evenly)
            limits = np.unique([*quantiles, *(found.values.min() + evenly * np.ptp(found.values))])
            counts = [int(found.over(rule, limit).sum()) for limit in limits]
        with self.figure.batch_update():
            self.figure.data[0].update(x=list(limits), y=counts)
            self.figure.data[1].update(x=[float(rule.limit)], y=[alerts])
            self.figure.layout.yaxis.type = "log" if counts and max(counts) > 1000 else "linear"


def _essence(rule: Rule) -> tuple:
    """What its aggregates depend on."""
    limit = rule.limit if rule.function == "COUNT_WITH_RESET" else None
    return (*(rule.keys, rule.filter, rule.function, rule.field, rule.unique, rule.window_ms, limit),)
