"""Alerts that can be proved: an alert with a seal over itself, its rule and the records of its window, and what checks it by a log.

alert, World ──► sealed ──► {alert, "proof": {"rule": …, "records": [[id, time, digest], …], "seal": …}} ──► findings(line, World) ──► words

The engine keeps what rules count, not the records, so the seal is made from the log, after the alert. It says what the log said then:
who can write log and seal can forge both, so keep seals where those who write the log cannot.
"""

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from lab.desk.verdict import Verdict
from lab.desk.world import NotFound, World
from lab.model.aggregation import operator_symbol
from lab.model.alerts import Alert, event_id_text
from lab.model.formatting import plain_text, short_json
from lab.model.group import sorted_group
from lab.model.jsontext import compact_json

SHOWN = 10  # records that differ
PROOF = "proof"


def sealed(alert: str, world: World) -> str:
    """The line of an alert with its proof, as one line of JSON. `alert`: its id, or its line in the alerts' log.

    Raises NotFound if the log does not give it, with these values.
    """
    verdict = world.why(alert)
    assert verdict.alert, "only an alert has a why"
    given = Alert.from_json(alert) if alert.lstrip().startswith("{") else verdict.alert
    if differing := _differing_values(given, verdict):
        raise NotFound(differing)
    line = json.loads(given.to_json())
    proof: dict[str, Any] = {"rule": _rule_of(verdict), "records": _records(verdict)}
    return compact_json(line | {PROOF: proof | {"seal": _seal(line, proof)}})


def findings(line: str, world: World) -> list[str]:
    """What is wrong with a sealed alert, or with the log that it is of, one sentence each; empty if it is proved. Raises ValueError."""
    alert, given = Alert.from_json(line), json.loads(line)
    proof = given.pop(PROOF, None)
    if not _is_proof(proof):
        raise ValueError(f"{short_json(line)}: no sealed alert, as `lab prove` writes it")
    seal = proof.pop("seal")
    if seal != _seal(given, proof):
        return ["The alert or its proof was changed after it was sealed: the seal is of other values."]
    try:
        verdict = _judged(alert, world)
    except NotFound:
        return [
            f"Event {event_id_text(alert.event_id)}, at which the alert was raised, is missing from this log."
        ]
    found = [*_of_records(proof["records"], _records(verdict))] if verdict.window else []
    if proof["rule"] != _rule_of(verdict):
        found.append(
            f"Rule {alert.rule_id} is not version {alert.rule_version} as it was when the alert was sealed."
        )
    differing = _differing_values(alert, verdict)
    return [*found, differing] if differing else found


def _judged(alert: Alert, world: World) -> Verdict:
    """What the log makes of the event of an alert. Raises NotFound if it has no such event."""
    try:
        return world.why(alert)
    except NotFound:
        return world.why_not(alert.event_id, alert.rule_id, alert.event_time)


def _differing_values(alert: Alert, verdict: Verdict) -> str:
    """What the log gives in place of an alert; "" if it gives the same."""
    given = verdict.alert
    if given is None:
        return f"The log gives no such alert: {verdict.said}"
    if _values(alert) == _values(given):
        return ""
    mine, other = (
        f"{plain_text(of.aggregate)} {operator_symbol(of.operator)} {plain_text(of.limit)}"
        for of in (alert, given)
    )
    if mine == other:
        return "The log gives the alert with other conditions, or other fields of the rule or of its event."
    return f"The alert says {mine}, and the log gives {other}."


def _values(of: Alert) -> tuple:
    values = of.rule_version, of.aggregate, of.operator, of.limit, of.conditions, of.carried, of.event
    return *values, sorted_group(of.group)


def _is_proof(proof: Any) -> bool:
    return (
        isinstance(proof, dict)
        and isinstance(proof.get("seal"), str)
        and isinstance(proof.get("records"), list)
        and all(isinstance(each, list) and [*map(type, each)] == [str, int, str] for each in proof["records"])
        and "rule" in proof
    )


def _seal(alert: dict[str, Any], proof: dict[str, Any]) -> str:
    """Over everything that an alert and its proof say, but for when the alert left the engine, which a second run does not repeat."""
    said = {name: value for name, value in alert.items() if name != "alertTime"}
    return _digest([said, proof])


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _rule_of(verdict: Verdict) -> str:
    return _digest(verdict.rule and verdict.rule.as_active.to_dict())


def _records(verdict: Verdict) -> list[list[Any]]:
    """The records of the group in the window, in order of time: id, time, and a digest of all fields, whatever the record's spelling."""
    return [
        [
            each.id,
            each.time,
            _digest({name: _plain(of) for name, of in each.fields.items()}),
        ]
        for each in verdict.window
    ]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | str) else plain_text(value)


def _of_records(then: list[list[Any]], now: list[list[Any]]) -> Iterator[str]:
    """What became of the records of a window."""
    gone, new = (
        Counter(map(tuple, then)) - Counter(map(tuple, now)),
        Counter(map(tuple, now)) - Counter(map(tuple, then)),
    )
    at_now = {(event, time) for event, time, _ in new}
    at_then = {(event, time) for event, time, _ in gone}
    said = [
        f"Event {event} is not what it was when the alert was sealed."
        if (event, time) in at_now
        else f"Event {event} is missing: it was in the window when the alert was sealed."
        for event, time, _ in gone
    ]
    said += [
        f"Event {event} was not in the window when the alert was sealed."
        for event, time, _ in new
        if (event, time) not in at_then
    ]
    yield from said[:SHOWN]
    if len(said) > SHOWN:
        yield f"… and {len(said) - SHOWN:,} more"
