"""The latency scope: how long alerts take, in which stages, and whether that is within what was promised."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.followers.latency import PERCENTILES, STAGES
from lab.model.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from lab.model.language import say
from lab.model.quantiles import percentiles
from lab.model.times import now_ms
from lab.widgets.look import facts_html, figure, hide_axes_if_empty
from lab.widgets.panel import Panel

if TYPE_CHECKING:
    from lab.studio.studio import Studio

BUDGET_MS = 500
RECENT_S = 30  # what is older is not shown
WARM_UP_S = 10  # after the first alert: code is loaded and compiled, and alerts come late
BINS_MS = 20
SHOWN_BUDGETS = 3  # what took longer is in the last bar
AT_MOST = "{percent} % of the alerts take at most this long, from append of the event to append of its alert"
OVER = "{over} of {all} alerts over {budget} ms"
OVER_RECENTLY = "{over} of {all} alerts over {budget} ms in the last {seconds} s"
COLOURS = dict(zip(STAGES, (RED, GREY, BLUE, SKY, PURPLE, GREEN, ORANGE)))
PATTERNS = dict(zip(STAGES, ("-", "", "/", "x", ".", "\\", "+")))


class LatencyScope(Panel):
    """The newest alerts' latencies: percentiles, a histogram with the budget as a line, and the stages stacked for each percentile.

    >>> scope = LatencyScope()
    >>> scope.show([100, 200, 600], {})
    >>> "<b>200</b> <span>p50, ms</span>" in scope.ranks.value, "1 of 3 alerts over 500 ms" in scope.said.value
    (True, True)
    """

    def __init__(self, budget_ms: int = BUDGET_MS):
        self.budget_ms = budget_ms
        self.ranks, self.said = widgets.HTML(), widgets.HTML()
        self.histogram = figure("", y=say("alerts"), height=None)
        self.histogram.add_bar(x=[], y=[], width=BINS_MS * 0.9, name=say("alerts"), marker={"color": BLUE})
        self.histogram.add_vline(
            x=budget_ms, line={"color": RED, "dash": "dash"}, annotation_text=f"{budget_ms} ms"
        )
        self.histogram.update_layout(
            showlegend=False, margin_t=12, xaxis={"ticksuffix": " ms", "nticks": 5}, yaxis_nticks=4
        )
        self.stages = figure("", height=None, barmode="stack", bargap=0.25)
        axis = {"rangemode": "tozero", "ticksuffix": " ms", "nticks": 5}
        self.stages.update_layout(margin={"t": 5}, showlegend=False, xaxis=axis, yaxis_autorange="reversed")
        for stage in STAGES:
            marker = {
                "color": COLOURS[stage],
                "pattern": {"shape": PATTERNS[stage], "fgcolor": "white", "size": 5},
            }
            self.stages.add_bar(x=[], y=[], name=say(stage), orientation="h", marker=marker)
        key = "".join(
            f'<span><i style="background:{COLOURS[stage]}"></i>{say(stage)}</span>' for stage in STAGES
        )
        legend = widgets.HTML(f'<div class="lab-key">{key}</div>')
        super().__init__([], [self.ranks, self.said, self.histogram, legend, self.stages])
        self._hide_if_empty()
        self._warm_ms = 0  # ms since the epoch, as soon as there is an alert
        self.show([], {})

    def update(self, studio: "Studio") -> None:
        """Shows the alerts of the last seconds of a studio, without those of its warm-up."""
        if not studio.alerts.total:
            return
        self._warm_ms = self._warm_ms or now_ms() + WARM_UP_S * 1_000
        latencies = studio.latencies
        recent = latencies.count_since(max(self._warm_ms, now_ms() - RECENT_S * 1_000))
        if recent:
            stages = {name: values[-recent:] for name, values in latencies.stages().items()}
            self.show(latencies.total()[-recent:], stages, RECENT_S)
        elif now_ms() < self._warm_ms:
            self._say(say("Warming up: the first, slow alerts do not count."))
        else:
            self._say(say("No alerts in the last {seconds} s.", seconds=RECENT_S))

    def show(
        self, total_ms: Sequence[int], stages_ms: Mapping[str, Sequence[int]], recent_s: int = 0
    ) -> None:
        """Shows the latency of each alert in ms, the newest last, and the time of its stages in the same order, where known.

        `recent_s`: says that the alerts are those of the last `recent_s` seconds; 0: does not say so.
        """
        if not len(total_ms):
            self._say(say("No alerts yet."))
            return
        over = sum(ms > self.budget_ms for ms in total_ms)
        ranks = zip(PERCENTILES, percentiles(total_ms, PERCENTILES))
        self.ranks.value = facts_html(
            {f"p{p:g}, ms": (f"{ms:,.0f}", say(AT_MOST, percent=f"{p:g}")) for p, ms in ranks}
        )
        numbers = {"over": f"{over:,}", "all": f"{len(total_ms):,}", "budget": self.budget_ms}
        said = say(OVER_RECENTLY if recent_s else OVER, **numbers, seconds=recent_s)
        self.said.value = f"<p>{said}</p>"
        end = SHOWN_BUDGETS * self.budget_ms
        bins = Counter(min(max(ms, 0), end) // BINS_MS for ms in total_ms)
        counts = [bins[number] for number in range(end // BINS_MS + 1)]
        with self.histogram.batch_update():
            middles = [(number + 0.5) * BINS_MS for number in range(len(counts))]
            self.histogram.data[0].update(x=middles, y=counts)
            self.histogram.layout.yaxis.range = [0, max(max(counts) * 1.1, 4)]
        if stages_ms and len(stages_ms["wait"]):
            with self.stages.batch_update():
                around = stage_means_near_percentiles(stages_ms)
                for stage, trace in zip(STAGES, self.stages.data):
                    trace.update(x=around[stage], y=[f"p{p:g}" for p in PERCENTILES[:3]])
        self._hide_if_empty()

    def _hide_if_empty(self) -> None:
        for each in (self.histogram, self.stages):
            hide_axes_if_empty(each)

    def _say(self, text: str) -> None:
        self.ranks.value = facts_html({f"p{p:g}, ms": ("–", "") for p in PERCENTILES})
        self.said.value = f"<p>{text}</p>"


def stage_means_near_percentiles(stages_ms: Mapping[str, Sequence[int]]) -> dict[str, list[float]]:
    """The mean of each stage over the alerts whose whole latency is near p50, p90 and p99: these add up.

    >>> stage_means_near_percentiles({"wait": [1, 2, 3], "plan": [10, 10, 10]})["plan"]
    [10.0, 10.0, 10.0]
    """
    total = [sum(parts) for parts in zip(*stages_ms.values())]
    order = sorted(range(len(total)), key=total.__getitem__)
    near = max(len(total) // 50, 1)
    means: dict[str, list[float]] = {stage: [] for stage in stages_ms}
    for percentile in PERCENTILES[:3]:
        middle = int(percentile / 100 * (len(total) - 1))
        rows = order[max(middle - near, 0) : middle + near + 1]
        for stage, values in stages_ms.items():
            means[stage].append(fmean(values[row] for row in rows))
    return means
