"""The stream panel: the generator's controls, and what goes through the engine."""

import time
from collections import deque
from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.widgets.look import BLUE, ORANGE, Fit, figure

if TYPE_CHECKING:
    from lab.apps.studio import Studio

KEPT_S = 120
BURSTS = {
    "pair": "a few large payments of one payer to one beneficiary",
    "beneficiary": "payments of many payers to one beneficiary, large together",
    "surge": "very many payments of one type within two seconds",
}
FACTS = {
    "events/s sent": "what the generator sends",
    "events/s evaluated": "what the engine judges",
    "lag, events": "events that have come and are not judged yet",
    "held events": "events that a window may still need",
    "state, bytes": "the size of what the engine remembers",
    "dead letters": "records that could not be read",
}


class StreamPanel(widgets.VBox):
    """Start, pause, rate and bursts of a studio's stream; events per second, lag, held events, bytes of state."""

    def __init__(self, studio: "Studio"):
        self.studio = studio
        self._samples: deque[tuple[float, int, int]] = deque()  # s since the start, records evaluated, lag
        self._started = time.monotonic()
        self.facts = widgets.HTML()
        self.rates = figure("", x="s", y="events/s", height=220)
        self.rates.add_scatter(x=[], y=[], name="evaluated per second", mode="lines", line={"color": BLUE})
        lag = {"color": ORANGE, "dash": "dash"}
        self.rates.add_scatter(x=[], y=[], name="lag, events", mode="lines", line=lag, yaxis="y2")
        self.rates.update_layout(
            margin={"r": 60},
            yaxis2={
                "title": {"text": "lag, events"},
                "overlaying": "y",
                "side": "right",
                "rangemode": "tozero",
            },
        )
        self.rates.layout.yaxis.rangemode = "tozero"
        super().__init__([self._controls(), self.facts, self.rates, Fit()])
        self.add_class("lab")

    def _controls(self) -> widgets.Widget:
        player = self.studio.player
        if player is None:
            return widgets.Label("The stream comes from elsewhere: it is watched, not steered.")
        self.paused = widgets.ToggleButton(description="Pause", icon="pause", layout={"width": "auto"})
        self.paused.observe(lambda change: (player.pause if change["new"] else player.resume)(), "value")
        self.rate = widgets.FloatLogSlider(
            value=player.rate, min=1, max=3.7, step=0.05, description="events/s", readout_format=",.0f",
            continuous_update=False,
        )  # fmt: skip
        self.rate.observe(lambda change: setattr(player, "rate", change["new"]), "value")
        self.bursts = [self._burst(kind) for kind in player.kinds]
        row = {"layout": {"flex_flow": "row wrap"}}
        bursts = widgets.HBox([widgets.Label("Plant a burst:"), *self.bursts], **row)
        return widgets.VBox([widgets.HBox([self.paused, self.rate], **row), bursts])

    def _burst(self, kind: str) -> widgets.Button:
        button = widgets.Button(description=kind.replace("_", " "), icon="bolt", layout={"width": "auto"})
        button.tooltip = BURSTS.get(kind, f"plant a burst: {kind}")
        button.on_click(lambda _: self.studio.player.burst(kind))
        return button

    def update(self, studio: "Studio") -> None:
        """Shows what went through since the last time."""
        now, done = time.monotonic() - self._started, studio.report.total["records"]
        self._samples.append((now, done, studio.lag))
        while self._samples[0][0] < now - KEPT_S:
            self._samples.popleft()
        then, before, _ = next(sample for sample in self._samples if sample[0] >= now - 3)
        rate = (done - before) / (now - then) if now > then else 0.0
        report = studio.report
        facts = (
            f"{studio.player.actual_rate:,.0f}" if studio.player else "–",
            f"{rate:,.0f}",
            f"{studio.lag:,}",
            f"{report.held:,}",
            f"{report.state_bytes:,}",
            f"{report.total['deadLetters']:,}",
        )
        cells = "".join(
            f'<div title="{meaning}" style="margin-right:2em"><div style="font-size:20px">{value}</div>{name}</div>'
            for (name, meaning), value in zip(FACTS.items(), facts)
        )
        self.facts.value = f'<div style="display:flex;flex-wrap:wrap">{cells}</div>'
        seconds, totals, lags = zip(*self._samples)
        with self.rates.batch_update():
            self.rates.data[0].update(x=seconds[1:], y=per_second(seconds, totals))
            self.rates.data[1].update(x=seconds, y=lags)


def per_second(seconds: tuple[float, ...], totals: tuple[int, ...], over: int = 4) -> list[float]:
    """The growth of a total per second, each over the last few samples.

    >>> per_second((0, 1, 2), (0, 10, 30), over=1)
    [10.0, 20.0]
    """
    starts = [max(i - over, 0) for i in range(1, len(seconds))]
    return [
        (totals[i] - totals[start]) / ((seconds[i] - seconds[start]) or 1)
        for i, start in enumerate(starts, 1)
    ]
