"""The window behind an alert: its events, their aggregate, and any difference from what the engine saw."""

from lab.model.alerts import Alert, id_text
from lab.model.language import say
from lab.model.rules import Rule, meaning
from lab.model.schema import Schema
from lab.model.stored import StoredEvent, aggregate_of
from lab.model.times import duration_words

WINDOW = "{rule}: {count} events in the window of {window} that ends with event {event}, group {group}. The alert's value was {value}."
RESET = "The first {count}, in grey, no longer count: the rule alerted on them and reset its count."
NO_VALUE = "These events give no value: the rule or its window has changed since, or some of the events are no longer in memory."
DIFFERS = "These events give {value}: the rule or its window has changed since, or some of the events are no longer in memory."


def explain(rule: Rule, alert: Alert, events: list[dict], counted: list[dict]) -> str:
    """Explains the picture and any difference from what the engine saw."""
    of_window = {"rule": meaning(rule), "count": len(events), "window": duration_words(rule.window_ms)}
    of_alert = {"event": id_text(alert.event_id), "group": alert.key, "value": f"{alert.aggregate:,}"}
    said = [say(WINDOW, **of_window, **of_alert)]
    if not rule.is_plain:
        own = rule.aggregations[0].describe()
        said.append(say("Of them {count} count for {aggregation}.", count=len(counted), aggregation=own))
    elif before := len(events) - len(counted):
        said.append(say(RESET, count=before))
    adds_up = building_up(rule, counted)[-1] if counted else None
    if rule.joined == "or":  # the alert's value may be that of another condition
        return " ".join(said)
    if adds_up is None or abs(adds_up - float(alert.aggregate)) > 1e-6 * max(1, abs(adds_up)):
        said.append(say(NO_VALUE) if adds_up is None else say(DIFFERS, value=f"{adds_up:,.10g}"))
    return " ".join(said)


def building_up(rule: Rule, events: list[dict], at_most: int = 100) -> list[float | None]:
    """The rule's aggregate over the first event of a window, the first two, …, as the specification computes it.

    Of many events only about `at_most` of these are computed, the last one always; the others are None.
    """
    held = [StoredEvent(n, 0, n, event) for n, event in enumerate(events)]
    step = -(-len(held) // at_most)
    so_far: list[float | None] = [None] * len(held)
    for n in range(len(held), 0, -step):
        counted = [event for event in held[:n] if rule.aggregations[0].counts(event.fields)]
        so_far[n - 1] = float(aggregate_of(rule, counted)[0]) if counted else None
    return so_far


def id_of(event: dict, schema: Schema) -> tuple:
    """What tells an event from others: its id at its time."""
    return schema.id_of(event), event[schema.time_field]
