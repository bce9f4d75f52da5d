"""Random logs as `tests.engine.drawn` and the simulator draw them, from a generator of random numbers: rules, changes, events."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from lab.model.aggregates import AGGREGATES
from lab.model.rules import CONTROLS, OPERATORS
from tests.strategies import (
    DERIVED_FOR,
    DERIVED_WHENS,
    LEG_WHENS,
    LEGS_FOR,
    LIST_WHENS,
    LISTED,
    LOG_STEPS,
    PATTERN_WHENS,
    WHENS,
    with_windows_of_functions,
)

Entry = tuple[str, bytes]

MINUTE = 60_000
AMOUNTS = (
    ("0", "1", "2.5", "-3.25", "0.01"),
    ("1", "2", "3"),
    ("9999999999999999.99", "-9999999999999999.99", "0.01", "9999999999999999.98"),
)
LIMITS = ("0", "1", "2", "2.5", "3", "5", "-3.25", "0.333333", "19999999999999999.98", "0.000000000001")
MULTIPLES = ("1", "2", "0.5", "1.000000000001", "1000000")
UNIQUE = (["ip"], ["country"], ["ip", "country"], ["amount"], ["eventId"])
LAST_EVENTS = (1, 1, 2, 3, 10)
ENDS_BEFORE = ("1s", "10s", "1m", "5m", "30m")
# of the percentiles, which differ in a number only, two
FUNCTIONS = tuple(
    name for name, each in AGGREGATES.items() if each.percent in (0, 5, 50, 95) and not each.of_place
)
USERS = ((1,), (1, 2, None), (1, 1, 1, 9_200_000_000_000_000_000, -9_200_000_000_000_000_000, None))
STEPS = ((0, 1), (0, 1, 10_000, 10_000, 20_000, MINUTE, 4 * MINUTE), (10_000,), (1000, 2000))
BEHIND = (
    (0,),
    (0, 0, 0, 0, 0, 1, 10_000, 30_000, 2 * MINUTE, 7 * MINUTE, 50 * MINUTE),
    (0, 1000, 2000, 5000, 10_000),
    (0, 0, 0, 0, 5 * MINUTE),
)


EVERY_ROUTE: list[tuple] = [
    (keys, filter)
    for keys in ([], ["userId"], ["userId", "country"], ["country", "userId"], ["amount"], ["ip"])
    for filter in (None, {"action": "login"}, {"country": ["KR", "CN"]}, "amount <= 1 or ip is null")
]


def random_rule(rng: random.Random, routes: list[tuple], functions: Sequence[str] = FUNCTIONS) -> bytes:
    keys, filter = rng.choice(routes)
    function = rng.choice(functions)
    field = rng.choice(["amount", "amount", "userId"])
    rule = {
        "ruleId": rng.randint(1, 12),
        "ruleState": rng.choice(["ACTIVE"] * 5 + ["PAUSE"]),
        "groupingKeyNames": keys,
        "filter": filter,
        "aggregatorFunctionType": function,
        "limitOperatorType": rng.choice(OPERATORS),
        "limit": rng.choice(LIMITS),
        "window": rng.choice(["1s", "30s", "1m", "2m", "5m", "30m"]),
    }
    if function == "UNIQUE_COUNT":
        rule["unique"] = rng.choice(UNIQUE)
    else:
        rule["aggregateFieldName"] = field
    if rng.random() < 0.3:
        rule["when"] = rng.choice(WHENS)
    if rng.random() < 0.2:
        rule["atMost"] = {"alerts": rng.choice([1, 1, 2, 5]), "per": rng.choice(["1s", "1m", "5m", "30m"])}
    if rule["ruleId"] % 2 == 0:
        rule["eventFields"] = ["amount", "country", "eventId", "ip"][: 1 + rule["ruleId"] % 4]
    if rng.random() < 0.4:
        rule |= more_said(rng, functions)
        if "limitOf" in rule:
            rule["limit"] = rng.choice(MULTIPLES)
            _with_one_root(rule)
    return json.dumps(with_windows_of_functions(rule)).encode()


def absent(rng: random.Random, rule: dict) -> dict:
    """The rule as one that says `absence`, with the same id, state, route, window and fields of events."""
    same = ("ruleId", "ruleState", "groupingKeyNames", "filter", "window", "when", "where", "eventFields")
    said = {name: rule[name] for name in same if name in rule} | {"absence": True}
    return said | rng.choice(
        [{}, {"where": rng.choice(WHENS)}, {"where": 'action = "login"', "when": 'action = "pay"'}]
    )


def more_said(rng: random.Random, functions: Sequence[str]) -> dict:
    """What makes a rule more than plain."""
    said: dict[str, Any] = rng.choice([{}, {"where": rng.choice(WHENS)}]) | rng.choice(
        [{}, {"excludeCurrent": True}]
    )
    if rng.random() < 0.3:
        said |= _other_window(rng)
    if rng.random() < 0.4:
        said["limitOf"] = _limit_of(rng, functions)
    if rng.random() < 0.5:
        joined = rng.choice(["and", "or"])
        said[joined] = [_condition(rng, functions) for _ in range(rng.choice([1, 1, 2, 3]))]
    return said


def _aggregation(rng: random.Random, functions: Sequence[str]) -> dict:
    function = rng.choice(functions)
    of = {"unique": rng.choice(UNIQUE)} if function == "UNIQUE_COUNT" else {"aggregateFieldName": "amount"}
    return of | {
        "aggregatorFunctionType": function,
        "window": rng.choice(["1s", "1m", "5m", "30m"]),
        "where": rng.choice([None, rng.choice(WHENS)]),
        "excludeCurrent": rng.choice([None, False, True]),
        **rng.choice([{}, {}, _other_window(rng)]),
    }


def _other_window(rng: random.Random) -> dict:
    """What makes a window another one than the time up to the event."""
    last, before, gap = rng.choice(LAST_EVENTS), rng.choice(ENDS_BEFORE), rng.choice(ENDS_BEFORE)
    return rng.choice(
        [
            {"lastEvents": last},
            {"endsBefore": before},
            {"lastEvents": last, "endsBefore": before},
            {"sessionGap": gap},
            {"sessionGap": gap},
        ]
    )


def _condition(rng: random.Random, functions: Sequence[str]) -> dict:
    condition = _aggregation(rng, functions)
    condition |= {"limitOperatorType": rng.choice(OPERATORS), "limit": rng.choice(LIMITS)}
    if rng.random() < 0.3:
        condition |= {"limit": rng.choice(MULTIPLES), "limitOf": _limit_of(rng, functions)}
    return _with_one_root(condition)


def _limit_of(rng: random.Random, functions: Sequence[str]) -> dict:
    comparable = [name for name in functions if not AGGREGATES[name].resets]
    divisors = [None, 1, 2, 3, 60]
    of = _aggregation(rng, comparable) | {
        "dividedBy": rng.choice(divisors),
        "plus": rng.choice([None, None, "1", "-2.5", "0.000000000001"]),
    }
    if rng.random() < 0.5:
        times = rng.choice([None, *MULTIPLES, "-1", "-0.5", "-1000000"])
        of["plusOf"] = _aggregation(rng, comparable) | {"times": times, "dividedBy": rng.choice(divisors)}
    return of


def _with_one_root(condition: dict) -> dict:
    """The condition with at most one STDDEV, the last."""
    base = condition.get("limitOf") or {}
    for number, of in enumerate(every := [each for each in (condition, base, base.get("plusOf")) if each]):
        if (
            of["aggregatorFunctionType"]
            == "STDDEV"
            in [other["aggregatorFunctionType"] for other in every[number + 1 :]]
        ):
            of["aggregatorFunctionType"] = "VARIANCE"
    return condition


def random_change(rng: random.Random, routes: list[tuple]) -> bytes:
    kind = rng.randrange(8)
    if kind < 4:
        return random_rule(rng, routes)
    if kind < 7:
        state = rng.choice(["ACTIVE", "PAUSE", "DELETE"])
        return json.dumps({"ruleId": rng.randint(1, 12), "ruleState": state}).encode()
    return json.dumps({"ruleState": "CONTROL", "controlType": rng.choice(CONTROLS)}).encode()


def random_log(rng: random.Random, short: bool) -> list[Entry]:
    """Rules first, then events with changes between them; each log has habits of its own."""
    routes = rng.sample(EVERY_ROUTE, rng.choice([1, 1, 2, 4]))
    amounts, users = rng.choice(AMOUNTS), rng.choice(USERS)
    steps, behind, ids = rng.choice(STEPS), rng.choice(BEHIND), rng.choice([5, 40, 10**6])
    changes = rng.choice([0, 0, 0.03, 0.1])
    log: list[Entry] = [
        ("control", random_rule(rng, routes))
        for _ in range(rng.choice([1, 3, 10] if short else [1, 3, 10, 25]))
    ]
    now = 100 * MINUTE
    for _ in range(rng.choice([5, 10, 20] if short else [5, 20, 60, 150])):
        if rng.random() < changes:
            log.append(("control", random_change(rng, routes)))
            continue
        now += rng.choice(steps)
        event = {
            "eventId": rng.randrange(ids),
            "eventTime": now - rng.choice(behind),
            "userId": rng.choice(users),
            "action": rng.choice(["login", "pay"]),
            "ip": rng.choice(["a", "a", "b", "c", None]),
            "country": rng.choice(["KR", "KR", "CN", "US"]),
            "amount": rng.choice([None, *amounts]),
        }
        log.append(("event", json.dumps(event).encode()))
    return log


def crowded_log(rng: random.Random) -> list[Entry]:
    """A few seconds, one group, values that are often null, every third event late: what queues find hard."""
    hard = [
        each
        for each in AGGREGATES.values()
        if each.beats or each.argument_kind in ("unique", "steps") or each.percent
    ]
    functions = [each.name for each in hard if each.name in FUNCTIONS]
    log: list[Entry] = [("control", random_rule(rng, [([], None)], functions)) for _ in range(4)]
    now, nulls = 100 * MINUTE, rng.choice([0, 0.3, 0.6])
    for number in range(rng.choice([10, 40])):
        now += rng.choice([0, 0, 1000, 20_000])
        late = rng.choice([0, 0, 0, 1000, 2000, 20_000, 40_000, 2 * MINUTE])
        amount = None if rng.random() < nulls else rng.randint(1, 9)
        log.append(
            ("event", json.dumps({"eventId": number, "eventTime": now - late, "amount": amount}).encode())
        )
    return log


def with_returns(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with records that take events back, or nothing, and with events that come again."""
    often, again = rng.choice([0.05, 0.3, 1]), rng.choice([0, 0.5])
    returned: list[Entry] = []
    events: list[dict[str, Any]] = []
    for kind, text in log:
        returned.append((kind, text))
        if kind == "event":
            events.append(json.loads(text))
        while events and rng.random() < often / 2:
            event = rng.choice(events[-rng.choice([1, 5, 100]) :])
            other: dict[str, Any] = rng.choice([{}, {}, {}, {"amount": None}, {"userId": 2}, {"eventId": 3}])
            returned.append(("event", json.dumps(event | {"action": "returned"} | other).encode()))
            if rng.random() < again:
                returned.append(("event", json.dumps(event).encode()))
    return returned


def with_rules_again(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with rules that pause, go, and come back as they were before."""
    often, again = rng.choice([0.05, 0.2]), list[Entry]()
    said: list[bytes] = []
    for kind, text in log:
        again.append((kind, text))
        if kind == "control" and b"window" in text:
            said.append(text)
        while said and rng.random() < often:
            before = rng.choice(said)
            state = {
                "ruleId": json.loads(before)["ruleId"],
                "ruleState": rng.choice(["PAUSE", "ACTIVE", "DELETE"]),
            }
            again.append(("control", rng.choice([before, json.dumps(state).encode()])))
    return again


def with_shadow(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with some of its rules in state SHADOW, and with rules that are promoted, whole or by their state alone."""
    often, found = rng.choice([0.2, 0.6, 1]), list[Entry]()
    said: dict[int, dict] = {}
    for kind, text in log:
        if kind == "control" and b"window" in text and rng.random() < often:
            rule = said[json.loads(text)["ruleId"]] = json.loads(text) | {"ruleState": "SHADOW"}
            text = json.dumps(rule).encode()
        found.append((kind, text))
        if said and rng.random() < 0.05:
            rule = rng.choice([*said.values()])
            state = {"ruleState": rng.choice(["ACTIVE", "ACTIVE", "SHADOW", "PAUSE"])}
            whole = rule if rng.random() < 0.5 else {"ruleId": rule["ruleId"]}
            found.append(("control", json.dumps(whole | state).encode()))
    return found


def with_absence(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with some of its rules as rules that say `absence`."""
    often = rng.choice([0.2, 0.5, 1])
    return [
        (kind, json.dumps(absent(rng, json.loads(text))).encode())
        if kind == "control" and b"window" in text and rng.random() < often
        else (kind, text)
        for kind, text in log
    ]


def with_derived(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with derived fields in some of its rules: for the fields that they name, and in conditions."""
    return _with_rules(log, lambda rule: derived_rule(rng, rule))


def with_patterns(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with regular expressions in conditions of some of its rules."""
    names = ("when", "where", "filter")
    return _with_rules(
        log, lambda rule: rule | {name: rng.choice(PATTERN_WHENS) for name in names if rng.random() < 0.2}
    )


def with_legs(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with the fields of legs in some of its rules."""
    return _with_rules(log, lambda rule: legged_rule(rng, rule))


def _with_rules(log: list[Entry], changed: Callable[[dict], dict]) -> list[Entry]:
    return [
        (kind, json.dumps(changed(json.loads(text))).encode())
        if kind == "control" and b"window" in text
        else (kind, text)
        for kind, text in log
    ]


def legged_rule(rng: random.Random, rule: dict) -> dict:
    """The rule with fields of legs for some that it names, and perhaps in its keys and conditions."""
    rule = _with_others(rng, rule, LEGS_FOR)
    if rng.random() < 0.15:
        rule["groupingKeyNames"] = [*(rule["groupingKeyNames"] or ()), "leg"]
    return rule | {name: rng.choice(LEG_WHENS) for name in ("when", "where", "filter") if rng.random() < 0.2}


def derived_rule(rng: random.Random, rule: dict) -> dict:
    """The rule with derived fields for some that it names, and perhaps in its keys and conditions."""
    rule = _with_others(rng, rule, DERIVED_FOR)
    if rng.random() < 0.15:
        rule["groupingKeyNames"] = [*(rule["groupingKeyNames"] or ()), rng.choice(["day", "label"])]
    if rng.random() < 0.3 and rule.get("aggregatorFunctionType") in FUNCTIONS:
        of = {"aggregatorFunctionType": "DISTANCE", "aggregateFieldName": "spot", "limit": "100000"}
        rule = with_windows_of_functions(rule | of)
    return rule | {
        name: rng.choice(DERIVED_WHENS) for name in ("when", "where", "filter") if rng.random() < 0.2
    }


def _with_others(rng: random.Random, said: Any, instead: Mapping[str, str]) -> Any:
    """What a rule says, with some names of fields replaced."""
    match said:
        case dict():
            return {name: _with_others(rng, value, instead) for name, value in said.items()}
        case list():
            return [_with_others(rng, value, instead) for value in said]
    return instead[said] if said in instead and rng.random() < 0.6 else said


def with_lists(rng: random.Random, log: list[Entry]) -> list[Entry]:
    """The log with conditions on named lists in some of its rules, and with messages that change lists and mute groups."""
    often, muting = rng.choice([0.05, 0.3, 0.5]), rng.choice([0, 0.5, 0.9])
    found: list[Entry] = []
    said: list[dict] = []
    events = [
        json.loads(text) if kind == "event" and text.startswith(b'{"eventId"') and text.endswith(b"}") else {}
        for kind, text in log
    ]
    for number, (kind, text) in enumerate(log):
        if kind == "control" and b"window" in text:
            said.append(looking_at_lists(rng, json.loads(text)))
            text = json.dumps(said[-1]).encode()
        found.append((kind, text))
        while rng.random() < often:
            about = rng.choice(events[number : number + 8])  # soon: it may see what changes
            change = random_mute(rng, rng.choice(said), about) if said and rng.random() < muting else None
            found.append(("control", change or random_list_change(rng, about.get("eventTime"))))
    return found


def looking_at_lists(rng: random.Random, rule: dict) -> dict:
    """The rule with conditions on named lists in place of others."""
    if rule.get("steps"):
        rule = rule | {"steps": f"{rng.choice(LIST_WHENS)}, {rng.choice(LIST_WHENS)}"}
    return rule | {name: rng.choice(LIST_WHENS) for name in ("when", "where", "filter") if rng.random() < 0.3}


def random_until(rng: random.Random, time_ms: Any) -> int | None:
    """A time about which an entry expires; None: it does not."""
    if type(time_ms) is not int or rng.random() < 0.5:
        return None
    return max(time_ms + rng.choice([0, 0, 1, 10_000]), 0)


def random_list_change(rng: random.Random, time_ms: Any) -> bytes:
    name, values = rng.choice([*LISTED.items()])
    if rng.random() < 0.05:
        return json.dumps({"list": name, "clear": True}).encode()
    some = rng.choices(values, k=rng.choice([1, 1, 3]))
    if rng.random() < 0.4:
        return json.dumps({"list": name, "remove": some}).encode()
    return json.dumps({"list": name, "add": some, "until": random_until(rng, time_ms)}).encode()


def random_mute(rng: random.Random, rule: dict, event: dict) -> bytes:
    """Mutes a rule, or the group of an event, or ends that."""
    group = {name: event.get(name) for name in rule["groupingKeyNames"] or ()}
    of = {"group": group} if rng.random() < 0.8 else {}
    if rng.random() < 0.25:
        return json.dumps({"unmute": rule["ruleId"]} | of).encode()
    until = random_until(rng, event.get("eventTime"))
    return json.dumps({"mute": rule["ruleId"], "until": until} | of).encode()


def log_times(rng: random.Random, count: int) -> list[int]:
    """When so many records are logged, after all event times: by habits of the log, often together."""
    steps = rng.choice(LOG_STEPS)
    return list(accumulate((rng.choice(steps) for _ in range(count)), initial=10**9))[1:]
