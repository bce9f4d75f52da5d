"""The alert feed: the newest alerts first, by rule; behind each, its window; and how many there are over time."""

import csv
import io
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.model.alerts import Alert, Withdrawals, event_id_text, utc_text
from lab.model.attributes import carried_attributes
from lab.model.colours import PALETTE
from lab.model.formatting import spreadsheet_cell
from lab.model.jsontext import compact_json
from lab.model.language import say
from lab.model.rule import Rule
from lab.model.schema import PAYMENTS
from lab.model.times import duration_words
from lab.past.backtest import Past
from lab.widgets.alertfacts import shown, value_text
from lab.widgets.alertwindow import AlertWindow
from lab.widgets.look import button, figure, hide_axes_if_empty, styled
from lab.widgets.panel import Panel
from lab.widgets.table import SelectableTable

if TYPE_CHECKING:
    from lab.studio.studio import Studio

KEPT, SHOWN = 5_000, 50
BINS, FEWEST_BINS = 120, 10  # of the picture of alerts over time
NAMED = 200  # rules that are counted over time one by one
DRAWN = 8  # kinds of bars that an eye can tell apart
OTHERS = 0  # in place of a rule's id
CSV = [
    "alertId",
    "ruleId",
    "ruleVersion",
    "key",
    "group",
    "aggregate",
    "operator",
    "limit",
    "eventId",
    "eventTime",
    "withdrawn",  # yes, if its event was taken back
    *(name for name, _ in carried_attributes()),
    "conditions",
    "event",
]
# as JSON
OBJECTS = (
    "group",
    *(name for name, kind in carried_attributes() if kind.sql_type == "document"),
    "conditions",
    "event",
)
LOWER = "No alerts yet; new alerts appear here. Lower a limit to get some."
TITLE, SEVERITY = 60, 12  # characters of them in the list
PATTERNS = ("", "/", "x", ".", "\\", "+", "-", "|")  # beside colours


class AlertFeed(Panel):
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
        self._total, self._seen, self._before, self._withdrawn = 0, 0, 0, 0
        self._withdrawals = Withdrawals()
        # rule id -> bin -> alerts; of the first NAMED rules, all later ones as OTHERS
        self._by_time: dict[int, Counter[int]] = {}
        self._bin_ms = 1_000
        self._make_controls()
        tools = [self.rule, self.hold, self.export, self.count]
        super().__init__(tools, [self.over_time, self.table], self.window)
        self.add(alerts)

    def _make_controls(self) -> None:
        self.table = SelectableTable((), say("Alerts, newest first"), empty=say(LOWER), steady=True)
        self._set_columns(titled=False)
        self.table.observe(self._on_selected, "selected")
        rules = widgets.Dropdown(options=[(say("all rules"), 0)], description=say("show"))
        self.rule = styled(rules, "lab-short")
        self.rule.observe(lambda change: self.redraw(), "value")
        self.hold = widgets.ToggleButton(
            description=say("Hold"), icon="pause", tooltip=say("stop updating the list")
        )
        self.hold.observe(lambda change: self.redraw(), "value")
        self.export = button("CSV", "download", self._download, tooltip=say("save the alerts as CSV"))
        self.count, self.window = widgets.Label(), AlertWindow()
        self.over_time = styled(figure("", height=None, barmode="stack", bargap=0.1), "lab-strip")
        self.over_time.update_layout(
            margin={"l": 50, "t": 34, "b": 0}, yaxis={"nticks": 3, "automargin": False}, xaxis={"nticks": 6}
        )

    def _set_columns(self, titled: bool) -> None:
        """The list has a column of titles from the first alert on that has one."""
        self._titled, title = titled, [say("title")] * titled
        with self.table.hold_sync():
            self.table.columns = [
                say("rule"),
                *title,
                say("group"),
                say("value"),
                say("ms"),
                say("time, UTC"),
            ]
            self.table.numeric, self.table.wide = [2 + titled, 3 + titled], [*range(1, 2 + titled)]

    # -- what came -----------------------------------------------------------------------------------------------------

    def update(self, studio: "Studio") -> None:
        """Takes in the new alerts of a studio, all at once."""
        self.past, self.rules = studio.past, studio.book.rules
        if not self._total and (empty := self._none_yet(studio)) != self.table.empty:
            self.table.empty = empty
        before, self._withdrawn, self._withdrawals = self._withdrawn, studio.withdrawn, studio.withdrawals
        if new := studio.alerts.since(self._seen):
            self._seen = studio.alerts.total
            self._before = studio.before["alerts"] + studio.alerts.total - self._total - len(new)
            self.add(new)
        elif self._withdrawn > before:
            self.redraw()

    @staticmethod
    def _none_yet(studio: "Studio") -> str:
        """What a user can do to get an alert."""
        if any(kind == "bad" for kind, _ in studio.warnings()):
            return say("No alerts yet. There will be none until the engine can read the events: see Stream.")
        if studio.player and studio.player.kinds:
            return say("No alerts yet; new alerts appear here. Lower a limit, or plant a burst, to get some.")
        return say(LOWER)

    def add(self, alerts: Iterable[Alert]) -> None:
        """Takes in alerts and shows them."""
        for alert in alerts:
            self._alerts.append(alert)
            self._total += 1
            named = alert.rule_id in self._by_time or len(self._by_time) < NAMED
            bins = self._by_time.setdefault(alert.rule_id if named else OTHERS, Counter())
            bins[alert.event_time // self._bin_ms] += 1
        self._coarsen()
        in_list = {alert.rule_id for alert in self._alerts} | {self.rule.value} - {0}
        known = [
            (say("all rules"), 0),
            *((say("rule {id}", id=rule_id), rule_id) for rule_id in sorted(in_list)),
        ]
        if tuple(known) != tuple(self.rule.options):
            chosen = self.rule.value
            self.rule.options = known
            self.rule.value = chosen
        self.redraw()

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

    def redraw(self) -> None:
        """Shows the newest alerts of the selected rule, unless the list is paused."""
        count = self._total + self._before
        counts = [say("{count} alert" if count == 1 else "{count} alerts", count=f"{count:,}")]
        if self._withdrawn:
            counts.append(say("{count} times withdrawn", count=f"{self._withdrawn:,}"))
        self.count.value = ", ".join(counts) + (f" ({say('held')})" if self.hold.value else "")
        if self.hold.value:
            return
        newest: dict[str, Alert] = {}
        for alert in reversed(self._alerts):
            if self.rule.value in (0, alert.rule_id):
                newest.setdefault(alert.alert_id, alert)  # of one that came again the last
                if len(newest) == SHOWN:
                    break
        days = {utc_text(alert.event_time)[:10] for alert in newest.values()}
        if not self._titled and any(alert.carries("title") for alert in newest.values()):
            self._set_columns(titled=True)
        self.table.rows = [self._row(alert, only_time=len(days) == 1) for alert in newest.values()]
        self._show_over_time()

    def _row(self, alert: Alert, only_time: bool) -> list[str]:
        rule = f"{alert.rule_id} v{alert.rule_version} {shown(alert.carries('severity') or '', SEVERITY)}".rstrip()
        title = [shown(alert.carries("title") or "", TITLE)] * self._titled
        took = "" if alert.log_to_alert_ms is None else f"{alert.log_to_alert_ms:,}"
        withdrawn = "" if self._withdrawals.add_and_check_stands(alert) else f" ({say('withdrawn')})"
        return [
            alert.alert_id,
            rule,
            *title,
            shown(alert.key.strip("{}").replace(";", "; ")),
            value_text(alert, self.rules.get(alert.rule_id)) + withdrawn,
            took,
            utc_text(alert.event_time)[11 if only_time else 0 : -4],
        ]

    def _bars(self) -> list[tuple[str, Counter[int]]]:
        """Names and bins to draw: the chosen rule, those with the most alerts, and all others as one."""
        drawn = sorted(self._by_time.keys() - {OTHERS})
        if len(self._by_time) > DRAWN:
            order = {id: (id == self.rule.value, self._by_time[id].total()) for id in drawn}
            drawn = sorted(sorted(drawn, key=order.__getitem__, reverse=True)[: DRAWN - 1])
        bars = [(say("rule {id}", id=rule_id), self._by_time[rule_id]) for rule_id in drawn]
        others: Counter[int] = Counter()
        for rule_id in self._by_time.keys() - set(drawn):
            others.update(self._by_time[rule_id])
        return [*bars, (say("other rules"), others)] if others else bars

    def _show_over_time(self) -> None:
        figure, bars = self.over_time, self._bars()
        with figure.batch_update():
            for n in range(len(figure.data), len(bars)):
                pattern = {"shape": PATTERNS[n % len(PATTERNS)], "fgcolor": "white", "size": 5}
                figure.add_bar(x=[], y=[], marker={"color": PALETTE[n % len(PALETTE)], "pattern": pattern})
            for trace, (name, bins) in zip(figure.data, bars):
                trace.name = name
                trace.x = [utc_text(bin * self._bin_ms) for bin in bins]
                trace.y = list(bins.values())
            if drawn := [bin for counts in self._by_time.values() for bin in counts]:
                last = max(*drawn, min(drawn) + FEWEST_BINS)
                ends = [utc_text(bin * self._bin_ms - self._bin_ms // 2) for bin in (min(drawn), last + 1)]
                same_day = ends[0][:10] == ends[1][:10]  # else plotly names the days
                figure.layout.xaxis.update(range=ends, tickformat="%H:%M:%S" if same_day else "")
            figure.layout.yaxis.title.text = say("per {time}", time=duration_words(self._bin_ms))
            figure.layout.showlegend = True
        hide_axes_if_empty(figure)

    # -- the window behind an alert --------------------------------------------------------------------------------------

    def clear_selection(self) -> None:
        """Clears the selection of an alert."""
        self.table.selected = ""

    def _on_selected(self, change: dict) -> None:
        alert = next((alert for alert in reversed(self._alerts) if alert.alert_id == change["new"]), None)
        if alert is not None:
            self.window.show(alert, self.rules.get(alert.rule_id), self.past, self._alerts)
            self.opens(say("Alert of rule {id}", id=alert.rule_id))

    # -- export --------------------------------------------------------------------------------------------------------------

    def _download(self) -> None:
        self.table.download("alerts.csv", self.csv())

    def csv(self) -> str:
        """The alerts in memory as CSV, the oldest first, with a header."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV)
        for alert in self._alerts:
            given = json.loads(alert.to_json())
            given |= {name: given.get(name) and compact_json(given[name]) for name in OBJECTS}
            given["eventId"] = event_id_text(alert.event_id)
            given["withdrawn"] = None if self._withdrawals.add_and_check_stands(alert) else "yes"
            writer.writerow([spreadsheet_cell(given.get(name)) for name in CSV])
        return file.getvalue()
