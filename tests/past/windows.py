"""The window of a rule at an event in memory, as `lab why` shows it."""

from typing import Any

from lab.desk.judging import Judge
from lab.model.field import Id
from lab.past.pastevents import PastEvents


def window(past: PastEvents, rule_id: int, event_id: Id) -> list[dict[str, Any]]:
    """The events over which the rule's first aggregate is computed at an event, in order of time; none without a verdict on it."""
    rows = past.rows_of(event_id)
    verdicts = (Judge(past).of_event(rule_id, past.event_in(row), row) for row in reversed(rows))
    shown = next((each.window for each in verdicts if each.window), ())
    return [each.fields for each in shown if each.is_in_first and each.counts[0]]
