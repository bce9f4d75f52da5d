"""The alert feed: the newest alerts first, by rule; behind each, its window; and how many there are over time."""

import csv
import io
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.apps.backtest import Past
from lab.model.alerts import Alert, utc
from lab.model.reference import Held, aggregate_of
from lab.model.rules import Rule, meaning, symbol
from lab.model.schema import PAYMENTS
from lab.model.words import plain
from lab.widgets.backtest import span
from lab.widgets.look import BLUE, GREY, ORANGE, PALETTE, figure, sentence
from lab.widgets.part import Part
from lab.widgets.table import Table

if TYPE_CHECKING:
    from lab.apps.studio import Studio

KEPT, SHOWN = 5_000, 50
SHOWN_EVENTS = 100  # of a window
BINS, FEWEST_BINS = 120, 10  # of the picture of alerts over time
CHOOSE = "Choose an alert: the window behind it shows here, event by event."
PATTERNS = ("", "/", "x", ".", "\\", "+", "-", "|")  # beside colours


class AlertFeed(Part):
    """Alerts, the newest first, at most KEPT of them in memory. `past` and `rules` show the window behind the one chosen.

    >>> from decimal import Decimal
    >>> feed = AlertFeed()
    >>> feed.add([Alert(1, 2, "{payeeId=25}", Decimal("50.10"), "GREATER", Decimal(50), 7, 1356998400000)])
    >>> feed.table.rows[0][1:4]
    ['1 v2', 'payeeId=25', '50.10 > 50']
    """

    def __init__(
        self,
        alerts: Iterable[Alert] = (),
        *,
        past: Past | None = None,
        rules: Mapping[int, Rule] | None = None,
    ):
        self.past, self.rules = Past(PAYMENTS) if past is None else past, {} if rules is None else rules
        self._alerts: deque[Alert] = deque(maxlen=KEPT)
        self._total, self._seen = 0, 0
        self._by_time: dict[int, Counter[int]] = {}  # rule id -> bin -> alerts
        self._bin_ms = 1_000
        self._make_controls()
        detail = widgets.VBox([self.said, self.window, self.events])
        super().__init__(
            [self.rule, self.hold, self.export, self.count], [self.over_time, self.table], detail
        )
        self.add(alerts)

    def _make_controls(self) -> None:
        columns = ("rule", "group", "held", "ms", "time, UTC")
        none = "No alert yet; each shows here as it comes. A lower limit, or a planted burst, brings some."
        self.table = Table(columns, "Alerts, the newest first", (2, 3), (1,), none, steady=True)
        self.table.observe(self._chosen, "selected")
        self.rule = widgets.Dropdown(options=[("all rules", 0)], description="show")
        self.rule.add_class("lab-short")
        self.rule.observe(lambda change: self.show(), "value")
        self.hold = widgets.ToggleButton(description="Hold", icon="pause", tooltip="leave the list as it is")
        self.hold.observe(lambda change: self.show(), "value")
        self.export = widgets.Button(description="CSV", icon="download", tooltip="save the alerts as CSV")
        self.export.on_click(lambda _: self.table.download("alerts.csv", self.csv()))
        self.count, self.said = widgets.Label(), widgets.HTML(sentence(CHOOSE))
        self.over_time = figure("", height=None, barmode="stack", bargap=0.1)
        self.over_time.add_class("lab-strip")
        self.over_time.update_layout(
            margin={"l": 50, "t": 34, "b": 0}, yaxis={"nticks": 3, "automargin": False}, xaxis={"nticks": 6}
        )
        self.behind = figure("", x="event time (UTC)", y="", height=230)
        self.behind.layout.showlegend = True
        self.behind.add_bar(x=[], y=[], name="each event", marker={"color": GREY})
        self.behind.add_scatter(
            x=[],
            y=[],
            name="aggregate so far",
            mode="lines+markers",
            line={"color": BLUE, "shape": "hv"},
            connectgaps=True,
        )
        self.behind.add_scatter(
            x=[], y=[], name="limit", mode="lines", line={"color": ORANGE, "dash": "dash"}
        )
        self.window = widgets.VBox([self.behind], layout={"display": "none"})
        self.events = Table((), "Events in the window, the newest first")
        self.events.layout.display = "none"

    # -- what came -----------------------------------------------------------------------------------------------------

    def update(self, studio: "Studio") -> None:
        """Takes in the new alerts of a studio, all at once."""
        self.past, self.rules = studio.past, studio.book.rules
        if new := studio.alerts.since(self._seen):
            self._seen = studio.alerts.total
            self.add(new)

    def add(self, alerts: Iterable[Alert]) -> None:
        """Takes in alerts and shows them."""
        for alert in alerts:
            self._alerts.append(alert)
            self._total += 1
            self._by_time.setdefault(alert.rule_id, Counter())[alert.event_time // self._bin_ms] += 1
        self._coarsen()
        known = [("all rules", 0), *((f"rule {rule_id}", rule_id) for rule_id in sorted(self._by_time))]
        if tuple(known) != tuple(self.rule.options):
            chosen = self.rule.value
            self.rule.options = known
            self.rule.value = chosen
        self.show()

    def _coarsen(self) -> None:
        """Doubles the width of a bin until all fit: the picture stays small however long it runs."""
        times = [bin for bins in self._by_time.values() for bin in bins]
        while times and max(times) - min(times) >= BINS:
            self._bin_ms *= 2
            times = [bin // 2 for bin in times]
            for rule_id, bins in self._by_time.items():
                wider: Counter[int] = Counter()
                for bin, count in bins.items():
                    wider[bin // 2] += count
                self._by_time[rule_id] = wider

    def show(self) -> None:
        """Shows the newest alerts of the rule chosen, unless the list is held."""
        held = " (held)" if self.hold.value else ""
        self.count.value = f"{self._total:,} alerts{held}"
        if self.hold.value:
            return
        newest = []
        for alert in reversed(self._alerts):
            if self.rule.value in (0, alert.rule_id):
                newest.append(alert)
                if len(newest) == SHOWN:
                    break
        days = {utc(alert.event_time)[:10] for alert in newest}
        self.table.rows = [_row(alert, only_time=len(days) == 1) for alert in newest]
        self._show_over_time()

    def _show_over_time(self) -> None:
        figure = self.over_time
        with figure.batch_update():
            for n in range(len(figure.data), len(self._by_time)):
                pattern = {"shape": PATTERNS[n % len(PATTERNS)], "fgcolor": "white", "size": 5}
                figure.add_bar(x=[], y=[], marker={"color": PALETTE[n % len(PALETTE)], "pattern": pattern})
            for trace, (rule_id, bins) in zip(figure.data, sorted(self._by_time.items())):
                trace.name = f"rule {rule_id}"
                trace.x = [utc(bin * self._bin_ms) for bin in bins]
                trace.y = list(bins.values())
            if drawn := [bin for counts in self._by_time.values() for bin in counts]:
                last = max(*drawn, min(drawn) + FEWEST_BINS)
                ends = [utc(bin * self._bin_ms - self._bin_ms // 2) for bin in (min(drawn), last + 1)]
                same_day = ends[0][:10] == ends[1][:10]  # else plotly names the days
                figure.layout.xaxis.update(range=ends, tickformat="%H:%M:%S" if same_day else "")
            figure.layout.yaxis.title.text = f"per {span(self._bin_ms)}"
            figure.layout.showlegend = True

    # -- the window behind an alert --------------------------------------------------------------------------------------

    def leave(self) -> None:
        """No alert is chosen any more."""
        self.table.selected = ""

    def _chosen(self, change: dict) -> None:
        alert = next((alert for alert in self._alerts if alert.alert_id == change["new"]), None)
        if alert is None:
            return
        rule = self.rules.get(alert.rule_id)
        events = self.past.window(rule, alert.event_id) if rule else []
        self.window.layout.display = self.events.layout.display = "" if events else "none"
        if rule is None:
            self._say(f"Rule {alert.rule_id} is gone, and with it what its windows were.")
        elif not events:
            self._say(
                f"Event {alert.event_id} is no longer in memory, which holds the newest {len(self.past):,}."
            )
        else:
            self._say(
                f"{meaning(rule)}: {len(events)} events in the window of {span(rule.window_ms)} that ends with "
                f"event {alert.event_id}, group {alert.key}. The alert said {alert.aggregate:,}."
            )
            self._show_window(rule, alert, events)
        self.opens(f"Alert of rule {alert.rule_id}")

    def _show_window(self, rule: Rule, alert: Alert, events: list[dict]) -> None:
        schema = self.past.schema
        self._show_events(rule, events)
        times = [utc(event[schema.time_field]) for event in events]
        so_far = building_up(rule, events)
        each = [float(event[rule.field] or 0) if rule.field else 1.0 for event in events]
        same_day = times[0][:10] == times[-1][:10]
        with self.behind.batch_update():
            self.behind.layout.xaxis.tickformat = "%H:%M:%S" if same_day else None
            self.behind.layout.yaxis.title.text = rule.field or "events"
            for trace, y in zip(self.behind.data, (each, so_far, [float(alert.limit)] * len(times))):
                trace.update(x=times, y=y)
            if len(times) == 1:
                self.behind.data[2].update(x=times * 2, y=[float(alert.limit)] * 2)

    def _show_events(self, rule: Rule, events: list[dict]) -> None:
        """The newest events of a window, with what the rule looks at."""
        schema = self.past.schema
        names = list(dict.fromkeys((*rule.needs, *rule.keys, *(name for name, _ in rule.filter))))
        numeric = [n for n, name in enumerate(names, 2) if schema.field(name).numeric]
        newest = reversed(events[-SHOWN_EVENTS:])
        with self.events.hold_sync():
            self.events.columns, self.events.numeric = ["event", "time (UTC)", *names], [0, *numeric]
            self.events.rows = [
                [
                    str(n),
                    str(event[schema.id_field]),
                    utc(event[schema.time_field])[11:],
                    *(_text(event[name]) for name in names),
                ]
                for n, event in enumerate(newest)
            ]

    def _say(self, text: str) -> None:
        self.said.value = sentence(text)

    # -- export --------------------------------------------------------------------------------------------------------------

    def csv(self) -> str:
        """The alerts in memory as CSV, the oldest first, with a header."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            (
                "alertId",
                "ruleId",
                "ruleVersion",
                "key",
                "aggregate",
                "operator",
                "limit",
                "eventId",
                "eventTime",
            )
        )
        for a in self._alerts:
            aggregate, limit = plain(a.aggregate), plain(a.limit)
            writer.writerow(
                (
                    a.alert_id,
                    a.rule_id,
                    a.rule_version,
                    a.key,
                    aggregate,
                    a.operator,
                    limit,
                    a.event_id,
                    a.event_time,
                )
            )
        return file.getvalue()


def building_up(rule: Rule, events: list[dict], at_most: int = 100) -> list[float | None]:
    """The rule's aggregate over the first event of a window, the first two, …, as the specification computes it.

    Of many events only about `at_most` of these are computed, the last one always; the others are None.
    """
    held = [Held(n, 0, n, event) for n, event in enumerate(events)]
    step = -(-len(held) // at_most)
    so_far: list[float | None] = [None] * len(held)
    for n in range(len(held), 0, -step):
        counted = [e for e in held[:n] if all(e.fields[name] is not None for name in rule.needs)]
        so_far[n - 1] = float(aggregate_of(rule, counted)[0]) if counted else None
    return so_far


def _row(alert: Alert, only_time: bool) -> list[str]:
    took = f"{alert.alert_time - alert.log_time:,}" if alert.alert_time else ""
    return [
        alert.alert_id,
        f"{alert.rule_id} v{alert.rule_version}",
        alert.key.strip("{}").replace(";", "; "),
        f"{alert.aggregate:,} {symbol(alert.operator)} {alert.limit:,}",
        took,
        utc(alert.event_time)[11 if only_time else 0 : -4],
    ]


def _text(value: object) -> str:
    """A field's value: amounts as people write them, ids as they are."""
    return f"{value:,}" if isinstance(value, Decimal) else "–" if value is None else str(value)
