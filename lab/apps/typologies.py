"""How well each typology's rule finds its cases: precision, recall and delay, measured by the reference."""

import json
from typing import NamedTuple

from lab.apps.inorder import InOrder
from lab.model.alerts import Alert
from lab.model.times import MINUTE_MS
from lab.stream.accounts import ACCOUNT_EVENTS, CASES
from lab.stream.typologies import TYPOLOGIES, LabelledEvent, Typology, labelled_events


class Found(NamedTuple):
    """`right`: alerts at events of its cases, `wrong`: at the background's, `others`: at events of other typologies' cases.

    `cases`: of how many it found at least one event.

    `delay_ms`: from the first event of a case to its first alert, the median of the cases found.
    """

    right: int
    wrong: int
    others: int
    cases: int
    delay_ms: int


def measure(events: list[LabelledEvent]) -> dict[str, Found]:
    """What the rules of all typologies find in one stream, by name."""
    engine = InOrder(ACCOUNT_EVENTS)
    for number, typology in enumerate(TYPOLOGIES, 1):
        ack = engine.control(f"{number}: {typology.rule}")
        if ack["status"] != "accepted":
            raise ValueError(f"{typology.name}: {ack['reason']}")
    for each in events:
        engine.event(json.dumps(each.event).encode())
    by_rule: dict[int, list[Alert]] = {}
    for alert in engine.alerts:
        by_rule.setdefault(alert.rule_id, []).append(alert)
    waits = {number: rule.window_ms if rule.absence else 0 for number, rule in engine.book.rules.items()}
    return {
        each.name: _found(each, by_rule.get(n, []), events, waits[n]) for n, each in enumerate(TYPOLOGIES, 1)
    }


def _found(typology: Typology, alerts: list[Alert], events: list[LabelledEvent], wait_ms: int) -> Found:
    """`wait_ms`: how long after its event an alert of the rule comes."""
    mine = {each.event["eventId"]: each for each in events if each.typology == typology.name}
    begins: dict[int, int] = {}
    for each in mine.values():
        begins.setdefault(each.case, each.event["eventTime"])
    right = [alert for alert in alerts if alert.event_id in mine]
    first: dict[int, int] = {}
    for alert in right:
        first.setdefault(mine[alert.event_id].case, alert.event_time)
    delays = sorted(first[case] + wait_ms - begins[case] for case in first)
    background = {each.event["eventId"] for each in events if not each.typology}
    wrong = sum(alert.event_id in background for alert in alerts)
    others = len(alerts) - len(right) - wrong
    return Found(len(right), wrong, others, len(first), delays[len(delays) // 2] if delays else 0)


def table(seed: int = 1) -> str:
    """The measured figures as Markdown; `seed`: of the events."""
    events = labelled_events(seed)
    found = measure(events)
    lines = [
        "| typology | what it is | right | wrong | others | precision | recall | delay, min |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for each in TYPOLOGIES:
        of = found[each.name]
        told = of.right + of.wrong
        precision = f"{of.right / told:.2f}" if told else "–"
        recall, delay = f"{of.cases / CASES:.2f}", f"{of.delay_ms / MINUTE_MS:,.1f}"
        lines.append(
            f"| {each.name} | {each.meaning} | {of.right} | {of.wrong} | {of.others} | {precision} | {recall} | {delay} |"
        )
    return "\n".join([f"{len(events):,} events, {CASES} cases of each typology, seed {seed}", "", *lines])
