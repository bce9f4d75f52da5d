"""A timeline of one key's events with four ways to put windows over them: which of them sees the fraud, and when.

The windows themselves: `lab.contrast.windows`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import ipywidgets as widgets

from lab.contrast.windows import (
    Event,
    Window,
    WindowResults,
    account_payments,
    compare_window_types,
    crossing,
)
from lab.model.colours import BLUE, FAINT, ORANGE, RED
from lab.model.language import say
from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS, rounded_duration_words
from lab.widgets.look import StylesAndAccessibility, figure, sentence_html

UNITS = {"days": DAY_MS, "hours": HOUR_MS, "minutes": MINUTE_MS, "seconds": 1_000, "ms": 1}
# events are below 0, the lanes one above the other
LANE_TOP = {"per event": 1, "sliding": 2.1, "tumbling": 2.6, "session": 3.05}
TOP = 3.4
NOTHING = "No window of that length exceeds the limit: there is nothing to see."
FALSE_ALERT = "No window of that length exceeds the limit, but a session does, because it may last longer: a false alert."
SAW, AFTER = "{lane}: saw it {time} after the event that crossed the limit", "{lane}: {time} after"
ONE_PANE = "An event is in W / S = {count} sliding window, and in 1 tumbling window."
PANES = "An event is in W / S = {count} sliding windows, and in 1 tumbling window."
PANES_ON_AVERAGE = "An event is in W / S = {count} sliding windows on average, and in 1 tumbling window."
WHOLE = 100  # a sum from here on is shown without cents
LANE_HEIGHT = {"per event": 0.9, "sliding": 0.8, "tumbling": 0, "session": 0}


def window_rows(windows: Sequence[Window]) -> list[int]:
    """A row for each window, from 0, so that windows of a row do not overlap; each takes the first that is free.

    >>> window_rows([Window(0, 20, ()), Window(10, 30, ()), Window(20, 40, ())])
    [0, 1, 0]
    """
    ends: list[int] = []
    rows = []
    for window in windows:
        free = next((row for row, end in enumerate(ends) if end <= window.start_ms), len(ends))
        ends[free:] = [window.end_ms, *ends[free + 1 :]]
        rows.append(free)
    return rows


def describe_results(seen: dict[str, WindowResults]) -> str:
    """Describes which windows saw the fraud, and when.

    >>> describe_results(compare_window_types([Event(0, 5, 1), Event(90_000, 7, 2)], 120_000, 60_000, 60_000, limit=10))
    'tumbling: saw it 30 s after the event that crossed the limit; sliding: 30 s after; session: missed it; per event: at once.'
    """
    if all(what.delay_ms is None for what in seen.values()):
        return say(FALSE_ALERT if any(what.over_limit for what in seen.values()) else NOTHING)
    words, first = [], True
    for lane, what in seen.items():
        if what.delay_ms is None:
            words.append(say("{lane}: missed it", lane=say(lane)))
        elif what.delay_ms:
            words.append(
                say(SAW if first else AFTER, lane=say(lane), time=rounded_duration_words(what.delay_ms))
            )
            first = False
        else:
            words.append(say("{lane}: at once", lane=say(lane)))
    return say("{reports}.", reports="; ".join(words))


class WindowScope(widgets.VBox):
    """A timeline of one key with sliders for the window W, the slide S, the gap that ends a session and the limit on the sum.

    `events`: (time in ms since the epoch, amount, id), in order of arrival; default: `account_payments()`. `window_ms`, `slide_ms`,
    `limit`: where the sliders stand first; the gap begins as long as the slide. Windows start at multiples of S since the
    epoch. Raises ValueError without events.

    >>> scope = WindowScope()
    >>> scope.results_by_window_type["tumbling"].delay_ms, scope.results_by_window_type["sliding"].delay_ms, scope.results_by_window_type["per event"].delay_ms
    (None, 480000, 0)
    >>> scope.window.value = 120
    >>> scope.results_by_window_type["tumbling"].delay_ms
    3180000
    """

    def __init__(
        self,
        events: Sequence[tuple] | None = None,
        window_ms: int = 60 * MINUTE_MS,
        slide_ms: int = 15 * MINUTE_MS,
        limit: float = 110,
    ):
        self.events = [Event(*event) for event in (account_payments() if events is None else events)]
        if not self.events:
            raise ValueError("events is empty, expected one or more of (time_ms, amount, id)")
        unit, self._unit_ms = next(
            (name, ms) for name, ms in UNITS.items() if window_ms % ms == 0 and slide_ms % ms == 0
        )
        wide = {
            "style": {"description_width": "11em"},
            "layout": {"width": "34em"},
            "continuous_update": False,
        }
        window, slide = window_ms // self._unit_ms, slide_ms // self._unit_ms
        self.window = widgets.IntSlider(
            window, 1, 3 * window, description=say("window W, {unit}", unit=say(unit)), **wide
        )
        self.slide = widgets.IntSlider(
            slide, 1, window, description=say("slide S, {unit}", unit=say(unit)), **wide
        )
        self.gap = widgets.IntSlider(
            slide, 1, window, description=say("session gap, {unit}", unit=say(unit)), **wide
        )
        total = float(sum(event.amount for event in self.events))
        whole = {"step": 1, "readout_format": ".0f"} if total >= WHOLE else {}
        self.limit = widgets.FloatSlider(
            limit, min=0, max=max(total, limit), description=say("limit, sum >"), **whole, **wide
        )
        self.said = widgets.HTML()
        self.figure = figure(height=480)
        self._prepare()
        controls = [self.window, self.slide, self.gap, self.limit]
        for control in controls:
            control.observe(self._draw, "value")
        super().__init__([*controls, self.figure, self.said, StylesAndAccessibility()])
        self._draw()

    @property
    def results_by_window_type(self) -> dict[str, WindowResults]:
        """The results of each type of window ("tumbling", "sliding", "session", "per event") as the sliders stand."""
        window_ms, slide_ms, gap_ms = (
            control.value * self._unit_ms for control in (self.window, self.slide, self.gap)
        )
        return compare_window_types(self.events, window_ms, slide_ms, gap_ms, self.limit.value)

    def _prepare(self) -> None:
        fig = self.figure
        quiet = {"mode": "lines+markers", "line": {"color": BLUE, "width": 1.5, "dash": "dot"}}
        # where one ends
        quiet["marker"] = {"symbol": "line-ns", "size": 8, "line": {"color": BLUE, "width": 1.5}}
        over = {"mode": "lines", "line": {"color": RED, "width": 4}}
        fig.add_scatter(name=say("window"), hoverinfo="text", **quiet)
        fig.add_scatter(name=say("window over the limit"), hoverinfo="text", **over)
        diamond = {"symbol": "diamond", "size": 10, "color": RED}
        fig.add_scatter(name=say("result of the window"), mode="markers", marker=diamond, hoverinfo="text")
        largest = float(max(event.amount for event in self.events))
        sizes = [7 + 15 * float(event.amount) / largest for event in self.events]
        fig.add_scatter(
            name=say("event (size: amount)"),
            x=[plot_time(event.time_ms) for event in self.events],
            y=[-0.25] * len(self.events),
            text=[say("event {id}: {amount}", id=e.id, amount=e.amount) for e in self.events],
            mode="markers",
            hoverinfo="text+x",
            marker={"size": sizes, "color": BLUE, "symbol": "circle"},
        )
        ticks = {
            "tickvals": [-0.25, 0.5, 1.7, 2.6, 3.05],
            "ticktext": [say("events"), say("per event"), say("sliding"), say("tumbling"), say("session")],
        }
        fig.update_layout(yaxis=ticks | {"range": [-0.6, TOP], "showgrid": False, "zeroline": False})
        fig.update_layout(
            xaxis={"title": {"text": say("event time (UTC)")}}, margin={"l": 80, "r": 20, "t": 20, "b": 45}
        )

    def _draw(self, _change: dict | None = None) -> None:
        if self.slide.value > self.window.value or self.slide.max != self.window.value:
            self.slide.max = self.window.value  # moves the slide, too, where it has to
        seen = self.results_by_window_type
        lines: dict[bool, list[tuple]] = {False: [], True: []}
        reports: list[tuple] = []
        for lane, what in seen.items():
            rows = window_rows(what.windows) if lane != "per event" else range(len(what.windows))
            step = LANE_HEIGHT[lane] / max(len(set(rows)) - 1, 1)
            for window, row in zip(what.windows, rows):
                y, is_over = LANE_TOP[lane] - row * step, window in what.over_limit
                start, end = plot_time(window.start_ms), plot_time(window.end_ms)
                span = {"lane": say(lane), "start": start[11:19], "end": end[11:19], "sum": window.total}
                text = say("{lane}: {start} – {end}, sum {sum}", **span)
                lines[is_over] += [(start, y, text), (end, y, text), (None, None, "")]
                if is_over:
                    reports.append((end, y, say("{window}: result at {end}", window=text, end=end[11:19])))
        fraud = crossing(self.events, self.window.value * self._unit_ms, self.limit.value)
        with self.figure.batch_update():
            for trace, points in zip(self.figure.data, (lines[False], lines[True], reports)):
                trace.x, trace.y, trace.text = [list(column) for column in zip(*points)] or ([], [], [])
            self.figure.layout.shapes = self._marks(fraud)
            self.figure.layout.annotations = self._verdicts(seen)
            window_ms = self.window.value * self._unit_ms
            first, last = (
                self.events[0].time_ms - window_ms / 3,
                max(e.time_ms for e in self.events) + window_ms,
            )
            self.figure.layout.xaxis.range = [plot_time(first), plot_time(last)]
        # by itself: in a batch, the traces that do not get a property of another lose their own in the browser
        look = {True: (ORANGE, "star"), False: (BLUE, "circle")}
        colours, symbols = zip(*(look[event in fraud] for event in self.events))
        self.figure.data[3].marker.update(color=colours, symbol=symbols)
        self._say(seen)

    def _marks(self, fraud: Sequence[Event]) -> list[dict]:
        """A faint line up from each event, and a band from the first event of the fraud to its last."""
        shapes = [
            _shape("line", event.time_ms, event.time_ms, line={"color": FAINT, "width": 1})
            for event in self.events
        ]
        if fraud:
            first_ms, last_ms = fraud[0].time_ms, fraud[-1].time_ms
            shapes.append(
                _shape("rect", first_ms, last_ms, fillcolor=ORANGE, opacity=0.15, line={"width": 0})
            )
        return shapes

    def _verdicts(self, seen: dict[str, WindowResults]) -> list[dict]:
        """At the right of each lane: whether it saw the fraud."""
        if all(what.delay_ms is None for what in seen.values()):
            return []
        words = {
            lane: say("✗ missed")
            if what.delay_ms is None
            else say("✓ after {time}", time=rounded_duration_words(what.delay_ms))
            for lane, what in seen.items()
        }
        words |= {lane: say("✓ at once") for lane, what in seen.items() if what.delay_ms == 0}
        heights = {"session": 3.23, "tumbling": 2.78, "sliding": 2.28, "per event": 1.15}
        return [
            {
                "name": say(lane),  # for whoever does not see where it stands
                "text": text,
                "x": 1,
                "xref": "paper",
                "xanchor": "right",
                "y": heights[lane],
                "showarrow": False,
            }
            for lane, text in words.items()
        ]

    def _say(self, seen: dict[str, WindowResults]) -> None:
        unseen = [what.delay_ms is None for what in seen.values()]
        kind = "" if all(unseen) else "bad" if any(unseen) else "good"
        panes = self.window.value / self.slide.value
        cost = say(PANES_ON_AVERAGE if panes % 1 else ONE_PANE if panes == 1 else PANES, count=f"{panes:.3g}")
        self.said.value = sentence_html(f"{describe_results(seen)} {cost}", kind)


def plot_time(ms: float) -> str:
    """UTC, as plotly's axes take it. As text: a browser's kernel cannot send other times to its page.

    >>> plot_time(1_700_000_000_500)
    '2023-11-14T22:13:20.500'
    """
    return datetime.fromtimestamp(ms / 1_000, UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")


def _shape(kind: str, first_ms: float, last_ms: float, **how) -> dict:
    return {
        "type": kind,
        "x0": plot_time(first_ms),
        "x1": plot_time(last_ms),
        "y0": -0.6,
        "y1": TOP,
        "layer": "below",
    } | how
