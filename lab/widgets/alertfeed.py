"""The alert feed: the newest alerts first, by rule; behind each, its window; and how many there are over time."""

import csv
import io
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

import ipywidgets as widgets

from lab.apps.backtest import Past
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import WHERE, symbol
from lab.model.alerts import Alert, id_text, utc
from lab.model.filters import condition_of
from lab.model.jsontext import compact_json
from lab.model.language import say
from lab.model.rule import Rule, meaning
from lab.model.schema import PAYMENTS
from lab.model.times import duration_words
from lab.model.when import fields_of
from lab.model.words import cell, visible
from lab.widgets.alertwindow import building_up, explain, id_of
from lab.widgets.look import BLUE, FAINT, GREY, ORANGE, PALETTE, PURPLE, figure, sentence
from lab.widgets.part import Part
from lab.widgets.table import Table

if TYPE_CHECKING:
    from lab.apps.studio import Studio

KEPT, SHOWN = 5_000, 50
SHOWN_EVENTS = 100  # of a window
BINS, FEWEST_BINS = 120, 10  # of the picture of alerts over time
CHOOSE = "Choose an alert to see the window behind it, event by event."
GONE = "Event {event} is no longer in memory, which keeps the newest {kept}, so the window of group {group} cannot be drawn."
BELOW = "The alert was {values} at {time} UTC. Below are the last {count} alerts of this rule and group."
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
]
LOWER = "No alerts yet; new alerts appear here. Lower a limit to get some."
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
        self._total, self._seen, self._before, self._withdrawn = 0, 0, 0, 0
        self._by_time: dict[int, Counter[int]] = {}  # rule id -> bin -> alerts
        self._bin_ms = 1_000
        self._make_controls()
        detail = widgets.VBox([self.said, self.window, self.events])
        super().__init__(
            [self.rule, self.hold, self.export, self.count], [self.over_time, self.table], detail
        )
        self.add(alerts)

    def _make_controls(self) -> None:
        columns = (say("rule"), say("group"), say("value"), say("ms"), say("time, UTC"))
        self.table = Table(columns, say("Alerts, newest first"), (2, 3), (1,), say(LOWER), steady=True)
        self.table.observe(self._chosen, "selected")
        self.rule = widgets.Dropdown(options=[(say("all rules"), 0)], description=say("show"))
        self.rule.add_class("lab-short")
        self.rule.observe(lambda change: self.show(), "value")
        self.hold = widgets.ToggleButton(
            description=say("Hold"), icon="pause", tooltip=say("stop updating the list")
        )
        self.hold.observe(lambda change: self.show(), "value")
        self.export = widgets.Button(
            description="CSV", icon="download", tooltip=say("save the alerts as CSV")
        )
        self.export.on_click(lambda _: self.table.download("alerts.csv", self.csv()))
        self.count, self.said = widgets.Label(), widgets.HTML(sentence(say(CHOOSE)))
        self.over_time = figure("", height=None, barmode="stack", bargap=0.1)
        self.over_time.add_class("lab-strip")
        self.over_time.update_layout(
            margin={"l": 50, "t": 34, "b": 0}, yaxis={"nticks": 3, "automargin": False}, xaxis={"nticks": 6}
        )
        self.behind = figure("", x=say("event time (UTC)"), y="", height=230)
        self.behind.layout.showlegend = True
        self.behind.add_bar(x=[], y=[], name=say("each event"), marker={"color": GREY})
        self.behind.add_scatter(
            x=[],
            y=[],
            name=say("aggregate so far"),
            mode="lines+markers",
            line={"color": BLUE, "shape": "hv"},
            connectgaps=True,
        )
        self.behind.add_scatter(
            x=[], y=[], name=say("limit"), mode="lines", line={"color": ORANGE, "dash": "dash"}
        )
        dots = {"color": PURPLE, "dash": "dot"}
        self.behind.add_scatter(x=[], y=[], name=say("reset"), mode="lines", line=dots, showlegend=False)
        self.window = widgets.VBox([self.behind], layout={"display": "none"})
        self.events = Table((), "")
        self.events.layout.display = "none"

    # -- what came -----------------------------------------------------------------------------------------------------

    def update(self, studio: "Studio") -> None:
        """Takes in the new alerts of a studio, all at once."""
        self.past, self.rules = studio.past, studio.book.rules
        if not self._total and (empty := self._none_yet(studio)) != self.table.empty:
            self.table.empty = empty
        self._withdrawn = studio.withdrawn
        if new := studio.alerts.since(self._seen):
            self._seen = studio.alerts.total
            self._before = studio.before["alerts"] + studio.alerts.total - self._total - len(new)
            self.add(new)

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
            self._by_time.setdefault(alert.rule_id, Counter())[alert.event_time // self._bin_ms] += 1
        self._coarsen()
        known = [
            (say("all rules"), 0),
            *((say("rule {id}", id=rule_id), rule_id) for rule_id in sorted(self._by_time)),
        ]
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
        """Shows the newest alerts of the selected rule, unless the list is paused."""
        count = self._total + self._before
        counts = [say("{count} alert" if count == 1 else "{count} alerts", count=f"{count:,}")]
        if self._withdrawn:
            counts.append(say("{count} times withdrawn", count=f"{self._withdrawn:,}"))
        self.count.value = ", ".join(counts) + (f" ({say('held')})" if self.hold.value else "")
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
                trace.name = say("rule {id}", id=rule_id)
                trace.x = [utc(bin * self._bin_ms) for bin in bins]
                trace.y = list(bins.values())
            if drawn := [bin for counts in self._by_time.values() for bin in counts]:
                last = max(*drawn, min(drawn) + FEWEST_BINS)
                ends = [utc(bin * self._bin_ms - self._bin_ms // 2) for bin in (min(drawn), last + 1)]
                same_day = ends[0][:10] == ends[1][:10]  # else plotly names the days
                figure.layout.xaxis.update(range=ends, tickformat="%H:%M:%S" if same_day else "")
            figure.layout.yaxis.title.text = say("per {time}", time=duration_words(self._bin_ms))
            figure.layout.showlegend = True

    # -- the window behind an alert --------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Clears the selection of an alert."""
        self.table.selected = ""

    def _chosen(self, change: dict) -> None:
        alert = next((alert for alert in self._alerts if alert.alert_id == change["new"]), None)
        if alert is None:
            return
        rule = self.rules.get(alert.rule_id)
        shows = rule and not rule.absence  # else the window comes after the event
        events = self.past.window(rule, alert.event_id, alert.event_time) if rule and shows else []
        self.window.layout.display, self.events.layout.display = "" if events else "none", ""
        if rule and events:
            counted = events
            if rule.function == "COUNT_WITH_RESET":
                counted = self.past.window(rule, alert.event_id, alert.event_time, int(alert.aggregate))
            elif not rule.is_plain:
                own = rule.aggregations[0]
                judged = (alert.event_id, alert.event_time)
                counted = [
                    event
                    for event in events
                    if own.counts(event)
                    and not (own.exclude_current and id_of(event, self.past.schema) == judged)
                ]
            self._say(explain(rule, alert, events, counted))
            self._show_window(rule, alert, events, counted)
            self._show_events(rule, counted)
        else:
            self._show_alone(alert, rule)
        self.opens(say("Alert of rule {id}", id=alert.rule_id))

    def _show_alone(self, alert: Alert, rule: Rule | None) -> None:
        """An alert whose window cannot be shown: what is known of its group."""
        of_event = {"event": id_text(alert.event_id), "group": alert.key}
        if rule is None:
            gone = say("Rule {id} was deleted, so its windows are unknown.", id=alert.rule_id)
        elif rule.absence:
            gone = say(
                "{rule}: after event {event} of group {group} none came in time.",
                rule=meaning(rule),
                **of_event,
            )
        else:
            gone = say(GONE, kept=f"{len(self.past):,}", **of_event)
        of_group = [
            other
            for other in self._alerts
            if (other.rule_id, other.key, other.group) == (alert.rule_id, alert.key, alert.group)
        ]
        below = len(of_group[-SHOWN_EVENTS:])
        self._say(f"{gone} {say(BELOW, values=_held(alert), time=utc(alert.event_time), count=below)}")
        with self.events.hold_sync():
            self.events.label = say("Alerts of this rule and group, newest first")
            self.events.columns, self.events.numeric = [say("event"), say("value"), say("time (UTC)")], [1]
            self.events.rows = [
                [str(n), id_text(other.event_id), _held(other), utc(other.event_time)]
                for n, other in enumerate(reversed(of_group[-SHOWN_EVENTS:]))
            ]

    def _show_window(self, rule: Rule, alert: Alert, events: list[dict], counted: list[dict]) -> None:
        schema = self.past.schema
        place = {id_of(event, schema): n for n, event in enumerate(events)}
        counts = [place[id_of(event, schema)] for event in counted]
        times = [utc(event[schema.time_field]) for event in events]
        so_far: list[float | None] = [None] * len(events)
        for n, value in zip(counts, building_up(rule, counted)):
            so_far[n] = value
        amounts = AGGREGATES[rule.function].of == "field"
        each = [float(event[rule.field] or 0) if amounts else 1.0 for event in events]
        same_day = times[0][:10] == times[-1][:10]
        resets = sorted(set(range(len(events))) - set(counts))[-1:]
        with self.behind.batch_update():
            self.behind.layout.xaxis.tickformat = "%H:%M:%S" if same_day else None
            self.behind.layout.yaxis.title.text = rule.field if amounts else say("events")
            for trace, y in zip(self.behind.data, (each, so_far, [float(alert.limit)] * len(times))):
                trace.update(x=times, y=y)
            if len(times) == 1:
                self.behind.data[2].update(x=times * 2, y=[float(alert.limit)] * 2)
            colours = [GREY if n in counts else FAINT for n in range(len(events))] if resets else GREY
            self.behind.data[0].marker.color = colours
            top = max(float(alert.limit), float(alert.aggregate), 1.0)
            self.behind.data[3].update(
                x=[times[n] for n in resets * 2], y=[0, top][: 2 * len(resets)], showlegend=bool(resets)
            )

    def _show_events(self, rule: Rule, events: list[dict]) -> None:
        """The newest events of a window, whole: what the rule looks at comes first."""
        schema = self.past.schema
        of_filter = fields_of(condition_of(rule.filter))
        wheres = (name for each in rule.aggregations for name in fields_of(each.where))
        kept = (name for name in rule.needs if not name.startswith(WHERE))
        looked_at = (*kept, *rule.keys, *of_filter, *wheres, *fields_of(rule.when))
        known = {*schema.id_fields, schema.time_field} - {*looked_at}
        names = [name for name in dict.fromkeys((*looked_at, *schema.names)) if name not in known]
        numeric = [n for n, name in enumerate(names, 2) if schema.field(name).numeric]
        newest = events[-SHOWN_EVENTS:][::-1]
        same_day = len({utc(event[schema.time_field])[:10] for event in newest}) == 1
        with self.events.hold_sync():
            self.events.label = say("Events in the window, newest first")
            self.events.columns = [say("event"), say("time (UTC)"), *names]
            self.events.numeric = [0, *numeric]
            self.events.rows = [
                [
                    str(n),
                    id_text(schema.id_of(event)),
                    utc(event[schema.time_field])[11 if same_day else 0 :],
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
        writer.writerow(CSV)
        for alert in self._alerts:
            given = json.loads(alert.to_json())
            given["group"] = given.get("group") and compact_json(given["group"])
            given["eventId"] = id_text(alert.event_id)
            writer.writerow([cell(given[name]) for name in CSV])
        return file.getvalue()


def _row(alert: Alert, only_time: bool) -> list[str]:
    took = "" if alert.took_ms is None else f"{alert.took_ms:,}"
    return [
        alert.alert_id,
        " ".join(filter(None, (f"{alert.rule_id} v{alert.rule_version}", visible(alert.severity or "")))),
        visible(alert.key.strip("{}").replace(";", "; ")),
        _held(alert),
        took,
        utc(alert.event_time)[11 if only_time else 0 : -4],
    ]


def _held(alert: Alert) -> str:
    return f"{alert.aggregate:,} {symbol(alert.operator)} {alert.limit:,}"


def _text(value: object) -> str:
    """A field's value: amounts as people write them, ids as they are."""
    return f"{value:,}" if isinstance(value, Decimal) else "–" if value is None else visible(str(value))
