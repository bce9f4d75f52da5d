"""Typical mistakes of those who write `route`, each planted into a right one."""

from collections.abc import Callable

from lab.teach.attack.routegame import RuleInForce
from lab.teach.judge import Mistake


def _passes(event: dict, rule: RuleInForce) -> bool:
    return all(event[name] in values for name, values in rule.filter.items())


def _has_group(event: dict, rule: RuleInForce) -> bool:
    return all(event[name] is not None for name in rule.keys)


def _by(event: dict, rule: RuleInForce) -> object:
    return frozenset(rule.keys), str(sorted(rule.filter.items()))


def _needed(event: dict, rule: RuleInForce) -> dict:
    return {name: event[name] for name in rule.fields}


def _routing(
    goes: Callable = lambda event, rule: _passes(event, rule) and _has_group(event, rule),
    where: Callable = _by,
    carries: Callable = _needed,
) -> Callable:
    """A route function, right but for what is put in place of one of its parts."""

    def route(event: dict, rules: list[RuleInForce]) -> list:
        copies: dict = {}
        for rule in rules:
            if goes(event, rule):
                ids, group, fields = copies.setdefault(where(event, rule), ([], {}, {}))
                ids.append(rule.id)
                group.update({name: event[name] for name in rule.keys})
                fields.update(carries(event, rule))
        return list(copies.values())

    return route


def _first_fields(event: dict, rules: list[RuleInForce]) -> list:
    copies: dict = {}
    for rule in rules:
        if _passes(event, rule) and _has_group(event, rule):
            group = {name: event[name] for name in rule.keys}
            copies.setdefault(_by(event, rule), ([], group, _needed(event, rule)))[0].append(rule.id)
    return list(copies.values())


ROUTE = (
    Mistake(
        _routing(where=lambda event, rule: rule.id),
        "A copy for each rule works, but it is more than needed: rules with the same keys and filter share one.",
    ),
    Mistake(
        _routing(where=lambda event, rule: (rule.keys, str(rule.filter))),
        "The order in which a rule names its keys does not change the route.",
    ),
    Mistake(
        _routing(where=lambda event, rule: frozenset(rule.keys)),
        "Rules with the same keys but different filters see different events: they cannot share a copy.",
    ),
    Mistake(
        _routing(goes=_has_group),
        "An event that a rule's filter does not let through is not sent for that rule.",
    ),
    Mistake(
        _routing(goes=_passes),
        "An event without a value for a key has no group: it is not sent for that rule.",
    ),
    Mistake(
        _routing(goes=lambda event, rule: _passes(event, rule) and all(event[name] for name in rule.keys)),
        "User 0 is a user like any other: only None means that there is no value.",
    ),
    Mistake(
        _routing(carries=lambda event, rule: event),
        "The copy carries too much: send only the fields that its rules need.",
    ),
    Mistake(
        _first_fields,
        "A copy for several rules carries the fields that any of them needs, not only those of the first.",
    ),
    Mistake(
        _routing(goes=lambda event, rule: rule.keys and _passes(event, rule) and _has_group(event, rule)),
        "A rule without keys has one group for all events: {}.",
    ),
    Mistake(
        _routing(
            goes=lambda event, rule: (
                rule.state == "ACTIVE" and _passes(event, rule) and _has_group(event, rule)
            )
        ),
        "A paused rule raises no alerts, but its history goes on: its events are sent.",
    ),
    Mistake(
        _routing(
            goes=lambda event, rule: (
                _passes(event, rule)
                and _has_group(event, rule)
                and all(event[name] is not None for name in rule.fields)
            )
        ),
        "Only the keys must have values. The window decides what another field's missing value means.",
    ),
    Mistake(
        _routing(
            goes=lambda event, rule: (
                all(event[name] == values[0] for name, values in rule.filter.items())
                and _has_group(event, rule)
            )
        ),
        "A filter may name several values: an event matches if it has any of them.",
    ),
    Mistake(
        lambda event, rules: _routing()(event, rules)[:1],
        "An event goes to every route that wants it, not only to the first one.",
    ),
)
