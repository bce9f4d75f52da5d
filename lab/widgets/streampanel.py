"""The stream panel: the generator's controls, and what goes through the engine."""

import time
from collections import deque
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.model.colours import BLUE, ORANGE
from lab.model.formatting import html_table
from lab.model.language import say, translated
from lab.model.routestats import WARNINGS, RouteTallies, bounded_route_id
from lab.widgets.look import button, facts_html, figure, hide_axes_if_empty, sentence_html, styled
from lab.widgets.panel import Panel
from lab.widgets.slider import TextSlider

if TYPE_CHECKING:
    from lab.studio.studio import Studio

ELSEWHERE = "The stream comes from elsewhere: you can watch it, but not control it."
KEPT_S = 120
RATES = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)  # events per second
BURSTS = {
    "pair": "a few large payments of one payer to one beneficiary",
    "beneficiary": "payments of many payers to one beneficiary, large in total",
    "surge": "very many payments of one type within two seconds",
}


class StreamPanel(Panel):
    """Start, pause, rate and bursts of a studio's stream; events per second, lag, stored events, bytes of state."""

    def __init__(self, studio: "Studio"):
        self.studio = studio
        # s since the start, records evaluated, lag, and when the evaluation of the last of them began
        self._samples: deque[tuple[float, int, int, float]] = deque()
        self._started = time.monotonic()
        self.facts, self.warnings, self.losses = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.rates = figure("", height=None)
        self.rates.add_scatter(x=[], y=[], name=say("evaluated/s"), mode="lines", line={"color": BLUE})
        lag = {"color": ORANGE, "dash": "dot"}
        self.rates.add_scatter(x=[], y=[], name=say("lag"), mode="lines", line=lag)
        self.rates.update_layout(
            margin={"t": 22}, yaxis={"rangemode": "tozero", "nticks": 5}, xaxis={"range": [-KEPT_S, 0]}
        )
        self.rates.layout.xaxis.ticksuffix = " s"
        hide_axes_if_empty(self.rates)
        self.paused = widgets.ToggleButton(description=say("Pause"), icon="pause")
        self.paused.tooltip = say("pause the stream: no events arrive")
        self.rate = TextSlider(say("events/s"), self._set_rate)
        self.bursts = [self._burst(kind) for kind in studio.player.kinds] if studio.player else []
        self.planted, self._burst_number = widgets.HTML(), 0
        tools = [self.paused] if studio.player else []
        super().__init__(tools, [*self._controls(), self.facts, self.warnings, self.losses, self.rates])

    def _controls(self) -> list[widgets.Widget]:
        player = self.studio.player
        if player is None:
            return [widgets.HTML(f"<p>{say(ELSEWHERE)}</p>")]
        self.paused.observe(lambda change: (player.pause if change["new"] else player.resume)(), "value")
        rates = sorted({*RATES, player.target_rate})
        self.rate.offer({f"{rate:,.0f}": rate for rate in rates}, rates.index(player.target_rate))
        bursts = styled(widgets.HBox([widgets.Label(say("plant")), *self.bursts]), "lab-tools")
        return [self.rate, bursts, self.planted] if self.bursts else [self.rate]

    def _set_rate(self, rate: float) -> None:
        if player := self.studio.player:
            player.target_rate = rate

    def _burst(self, kind: str) -> widgets.Button:
        name = say(kind.replace("_", " "))
        tooltip = say(BURSTS[kind]) if kind in BURSTS else say("plant a burst: {kind}", kind=kind)

        def plant() -> None:
            if player := self.studio.player:
                player.burst(kind)
                self._burst_number += 1  # the same text twice is not read aloud twice
                text = say("burst {number} planted: {kind}", number=self._burst_number, kind=name)
                self.planted.value = sentence_html(text)

        return button(name, "bolt", plant, tooltip=tooltip)

    def update(self, studio: "Studio") -> None:
        """Shows the events processed since the last update."""
        if studio.closed:
            for control in (self.paused, self.rate, *self.bursts):
                control.disabled = True
        now, done = time.monotonic() - self._started, studio.report.total["records"]
        self._samples.append((now, done, studio.lag, now - studio.report.span_s))
        while self._samples[0][0] < now - KEPT_S:
            self._samples.popleft()
        seconds, totals, lags, begins = zip(*self._samples)
        recent = sum(second >= now - 3 for second in seconds)
        rates = rates_per_second(seconds[-recent:], totals[-recent:], begins[-recent:], recent)
        rate = rates[-1] if rates else 0.0
        report = studio.report
        letters = (
            report.total["deadLetters"]
            if studio.player
            else studio.letters.total + studio.before["deadLetters"]
        )
        sent = {}
        if studio.player:
            sent = {
                say("sent/s"): (f"{studio.player.actual_rate:,.0f}", say("events that the generator sends"))
            }
        self.facts.value = facts_html(
            sent
            | {
                say("evaluated/s"): (f"{rate:,.0f}", say("events that the engine evaluates")),
                say("lag"): (f"{studio.lag:,}", say("events that have arrived but are not evaluated yet")),
                say("stored"): (
                    short_number(report.window_event_count),
                    say(
                        "{count} events that a window may still need", count=f"{report.window_event_count:,}"
                    ),
                ),
                say("state, bytes"): (
                    short_number(report.state_bytes),
                    say("the size of the engine's state"),
                ),
                say("dead letters"): (f"{letters:,}", say("records that could not be read")),
            }
        )
        said = "".join(sentence_html(text, kind) for kind, text in studio.warnings())
        if said != self.warnings.value:
            self.warnings.value = said
        self.losses.value = route_losses_html(report.routes)
        ago = [second - now for second in seconds]
        with self.rates.batch_update():
            self.rates.data[0].update(x=ago[1:], y=rates_per_second(seconds, totals, begins))
            self.rates.data[1].update(x=ago, y=lags)
            self.rates.layout.xaxis.range = [-min(max(now, 10), KEPT_S), 0]
        hide_axes_if_empty(self.rates)


def route_losses_html(routes: RouteTallies) -> str:
    """Lists the losses of routes, largest first, and warnings below."""
    lost = sorted(
        (tally.lost_count, bounded_route_id(route), tally) for route, tally in routes.by_route.items()
    )
    rows = [
        (
            tally.lowest_rule_id,
            name,
            tally.record_count,
            tally.counts["duplicates"],
            tally.counts["droppedLate"],
        )
        for _, name, tally in reversed(lost)
        if tally.lost_count
    ]
    if not rows:
        return ""
    header = (say("rule"), say("route"), say("events"), say("duplicates"), say("dropped late"))
    return html_table(say("Losses of routes"), header, rows[:WARNINGS]) + "".join(
        f'<p class="lab-said bad">{escape(translated(warning))}</p>' for warning in routes.warnings()
    )


def short_number(number: int) -> str:
    """A number in at most four digits, and its unit.

    >>> short_number(950), short_number(13_988), short_number(520_392), short_number(7_300_000_000)
    ('950', '14.0 k', '520 k', '7.30 G')
    """
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            scaled = number / size
            return f"{scaled:.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f} {unit}"
    return f"{number:,}"


def rates_per_second(
    times_s: tuple[float, ...], totals: tuple[int, ...], begins_s: tuple[float, ...], over_samples: int = 4
) -> list[float]:
    """The growth of a total per second, each over the last few samples, and longer if what came with them began earlier.

    >>> rates_per_second((0, 1, 2), (0, 10, 30), (0, 1, 1.5), over_samples=1)
    [10.0, 20.0]
    >>> rates_per_second((0, 1, 2), (0, 10, 30), (0, 1, -2), over_samples=1)
    [10.0, 5.0]
    """
    starts = [max(i - over_samples, 0) for i in range(1, len(times_s))]
    return [
        (totals[i] - totals[start]) / ((times_s[i] - min(times_s[start], *begins_s[start + 1 : i + 1])) or 1)
        for i, start in enumerate(starts, 1)
    ]
