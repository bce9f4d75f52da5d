"""How well rules find the cases of typologies: precision, recall and delay.

`measure_typologies` asks the reference for all typologies' rules; `LabelledPast` asks the backtest for any rule, as a slider moves.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lab.model.alerts import event_id_text
from lab.model.field import Id
from lab.model.messages import parse_message
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.times import MINUTE_MS, rounded_duration_words
from lab.past.backtest import Past
from lab.past.fastreference import FastReference
from lab.stream.accounts import ACCOUNT_EVENTS, CASES
from lab.stream.typologies import TYPOLOGIES, LabelledEvent, labelled_typology_events


class DetectionCounts(NamedTuple):
    """How well a rule finds a typology: its alerts at events of the typology's cases, of the background, and of other typologies' cases.

    `cases_found`: the cases in which the rule found at least one event.

    `median_delay_ms`: from the first event of a case to the first alert, for the cases found.

    >>> print(DetectionCounts(right_alerts=9, wrong_alerts=3, alerts_at_other_cases=1, cases_found=4, median_delay_ms=150_000))
    precision 0.75, recall 0.80, delay 2.5 min (alerts: 9 right, 3 wrong, 1 at other patterns)
    """

    right_alerts: int
    wrong_alerts: int
    alerts_at_other_cases: int
    cases_found: int
    median_delay_ms: int
    cases: int = CASES

    @property
    def precision(self) -> float | None:
        """Of the alerts that are right or wrong, the share that is right; None without such alerts."""
        return (
            self.right_alerts / (self.right_alerts + self.wrong_alerts)
            if self.right_alerts + self.wrong_alerts
            else None
        )

    @property
    def recall(self) -> float:
        """Of the cases, the share that was found."""
        return self.cases_found / self.cases if self.cases else 0.0

    def __str__(self) -> str:
        precision = "–" if self.precision is None else f"{self.precision:.2f}"
        delay = rounded_duration_words(self.median_delay_ms) if self.cases_found else "–"
        alerts = f"{self.right_alerts:,} right, {self.wrong_alerts:,} wrong, {self.alerts_at_other_cases:,} at other patterns"
        return f"precision {precision}, recall {self.recall:.2f}, delay {delay} (alerts: {alerts})"


class TimedAlert(NamedTuple):
    """An alert: the event that it names, its time, and when the alert comes: later, for a rule about absence."""

    event_id: Id
    event_time: int
    alert_time: int


class LabelledPast:
    """Labelled events to try rules on: a month of the typologies', or one's own, see `lab.World.labelled`."""

    def __init__(self, seed: int = 1, own: tuple[Past, list[LabelledEvent]] | None = None):
        if own:
            self.past, self.events = own
            return
        self.events = labelled_typology_events(seed)
        self.past = Past(ACCOUNT_EVENTS, at_most=len(self.events))
        self.past.add(json.dumps(each.event) for each in self.events)

    def rule(self, sentence: str) -> Rule:
        """The rule that a sentence means. Raises BadRule, which says where it goes wrong."""
        rule = parse_message(f"1: {sentence}", self.past.schema).rule
        assert rule is not None  # a sentence is always a rule
        return rule

    def alerts(self, sentence: str) -> list[TimedAlert]:
        """The alerts that a rule would have raised."""
        rule = self.rule(sentence)
        found = self.past.aggregates(rule)
        over = found.alert_mask(rule, rule.first.limit).tolist()
        alerts = zip(found.ids.tolist(), map(int, found.times), over)
        waits = rule.aggregation.window_ms if rule.absence else 0
        return [TimedAlert(event_id, time, time + waits) for event_id, time, is_over in alerts if is_over]

    def detection_counts(self, sentence: str, typology: str) -> DetectionCounts:
        """How well a rule would have found the cases of a typology."""
        return _found(typology, self.alerts(sentence), self.events, self.past.schema)

    def case_count(self, typology: str) -> int:
        """How many cases there are."""
        return len({each.case for each in self.events if each.typology == typology})

    def case(self, typology: str, number: int) -> list[dict]:
        """The events of one of the cases, which are numbered from 1."""
        return [each.event for each in self.events if (each.typology, each.case) == (typology, number)]


def measure_typologies(events: list[LabelledEvent]) -> dict[str, DetectionCounts]:
    """What the rules of all typologies find in one stream, by name."""
    engine = FastReference(ACCOUNT_EVENTS)
    for number, typology in enumerate(TYPOLOGIES, 1):
        ack = engine.control(f"{number}: {typology.rule}")
        if ack["status"] != "accepted":
            raise ValueError(f"{typology.name}: {ack['reason']}")
    for each in events:
        engine.event(json.dumps(each.event).encode())
    waits = {
        number: rule.aggregation.window_ms if rule.absence else 0
        for number, rule in engine.book.rules.items()
    }
    by_rule: dict[int, list[TimedAlert]] = {}
    for alert in engine.alerts:
        timed = TimedAlert(alert.event_id, alert.event_time, alert.event_time + waits[alert.rule_id])
        by_rule.setdefault(alert.rule_id, []).append(timed)
    return {each.name: _found(each.name, by_rule.get(n, []), events) for n, each in enumerate(TYPOLOGIES, 1)}


def _found(
    typology: str,
    alerts: Iterable[TimedAlert],
    events: Sequence[LabelledEvent],
    schema: Schema = ACCOUNT_EVENTS,
) -> DetectionCounts:
    mine = {event_id_text(schema.id_of(each.event)): each for each in events if each.typology == typology}
    begins: dict[int, int] = {}
    for each in mine.values():
        begins.setdefault(each.case, each.event[schema.time_field])
    alerts = [alert._replace(event_id=event_id_text(alert.event_id)) for alert in alerts]
    right = [alert for alert in alerts if alert.event_id in mine]
    first: dict[int, int] = {}
    for alert in right:
        first.setdefault(mine[str(alert.event_id)].case, alert.alert_time)
    delays = sorted(first[case] - begins[case] for case in first)
    background = {event_id_text(schema.id_of(each.event)) for each in events if not each.typology}
    wrong = sum(alert.event_id in background for alert in alerts)
    others = len(alerts) - len(right) - wrong
    delay = delays[len(delays) // 2] if delays else 0
    return DetectionCounts(len(right), wrong, others, len(first), delay, len(begins))


def typologies_table(seed: int = 1) -> str:
    """The measured figures as Markdown; `seed`: of the events."""
    events = labelled_typology_events(seed)
    found = measure_typologies(events)
    lines = [
        "| typology | what it is | right | wrong | others | precision | recall | delay, min |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for each in TYPOLOGIES:
        of = found[each.name]
        precision = "–" if of.precision is None else f"{of.precision:.2f}"
        recall, delay = f"{of.recall:.2f}", f"{of.median_delay_ms / MINUTE_MS:,.1f}"
        lines.append(
            f"| {each.name} | {each.meaning} | {of.right_alerts} | {of.wrong_alerts} | {of.alerts_at_other_cases} | {precision} | {recall} | {delay} |"
        )
    return "\n".join([f"{len(events):,} events, {CASES} cases of each typology, seed {seed}", "", *lines])
