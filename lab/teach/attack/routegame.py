"""The game of `route(event, rules)`: which copies of an event are sent, for whom, with what?

    event ──► {userId: 7, country: KR}  rules 1 and 3, with amount
          └─► {userId: 7}               rule 2, with ip

Its answers are compared with the reference: the routes on which the reference stores the event, and the fields that it stores.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from random import Random
from typing import Any, NamedTuple

from lab.model.language import say
from lab.model.reference import Reference
from lab.model.schema import LOGINS
from lab.model.when import required_values
from lab.teach.attack.search import ENDLESS, Difference, failure_words, play_until_time_limit
from lab.teach.learner import FailureText, answer_text, plain_result_or_failure

KEYS = (("userId",), ("userId",), ("userId", "country"), ("country", "userId"), ("country",), ())
FILTERS: tuple[dict[str, list[str]], ...] = (
    {},
    {},
    {"action": ["login"]},
    {"country": ["KR", "CN"]},
    {"country": ["KR"]},
)
COMPUTED = (("SUM", "amount"), ("MAX", "amount"), ("COUNT", ""), ("UNIQUE_COUNT", "ip"))
EVENT = {
    "userId": (7, 7, 0, None),
    "country": ("KR", "KR", "CN", "US", None),
    "action": ("login", "login", "payment"),
}
EVENT |= {"ip": ("10.0.0.1", None), "device": ("phone", "phone", None), "amount": (30, 30, None)}
NAMES = ("userId", "country", "action", "ip", "device")
LIMIT = {"limitOperatorType": ">", "limit": 0, "windowMinutes": 10}
OTHERS = [f"other {n}" for n in range(20)]
MANY = 0.1  # of the histories have many rules, with more keys, filters and fields
LEFT = 'style="text-align:left"'
PLAIN = {name: values[0] for name, values in EVENT.items()}


class RuleInForce(NamedTuple):
    """A rule in force, as a learner's function receives it."""

    id: int
    keys: tuple[str, ...]
    filter: dict[str, list[str]]
    fields: tuple[str, ...]  # that it needs
    state: str  # ACTIVE or PAUSE


@dataclass(frozen=True)
class PublishedRule:
    """A rule as it goes to the control log; JSON, so that it can be compared."""

    message: str

    @property
    def as_dict(self) -> dict:
        return json.loads(self.message)


@dataclass(frozen=True)
class Login:
    """An event, as (field, value)."""

    fields: tuple[tuple[str, Any], ...]


History = tuple[PublishedRule | Login, ...]


class RouteGame:
    """`route(event, rules)`: a list of (rule ids, group, fields), one for each copy that is sent."""

    def random_history(self, seed: int, event_count: int) -> History:
        # more show no more: each is routed by itself
        rng, event_count = Random(f"{seed} {event_count}"), min(event_count, 2)
        if rng.random() < MANY:
            rules = [_large_rule(rng, number) for number in range(1, 17)]
            gaps = [{}, *({name: None} for name in NAMES)]
            return (*rules, *(Login(tuple((PLAIN | gap).items())) for gap in gaps))
        entries: list[PublishedRule | Login] = [_rule(rng) for _ in range(rng.randint(1, 4))]
        for _ in range(event_count):
            if rng.random() < 0.3:
                entries.append(_rule(rng))
            entries.append(Login(tuple((name, rng.choice(values)) for name, values in EVENT.items())))
        return tuple(entries)

    def run(self, function: Callable, history: History) -> list:
        answers: list = []
        in_force = _in_force(history)

        def play() -> None:
            for entry, rules in zip(history, in_force):
                answers.append(None)
                if isinstance(entry, Login):
                    answers[-1] = ENDLESS
                    answers[-1] = _copies(
                        plain_result_or_failure(function, dict(entry.fields), _copied(rules))
                    )
                    if isinstance(answers[-1], FailureText):
                        return

        play_until_time_limit(play)
        return answers

    def hidden_state_fault(self, function: Callable) -> str:
        """It is given nothing to remember with; what it remembers by itself shows when a rule changes."""
        return ""

    def first_difference(self, history: History, answers: list) -> Difference | None:
        for at, (expected, got) in enumerate(zip(_expected(history), answers)):
            if expected != got:
                return Difference(at, expected, got)
        return None

    def simpler_histories(self, history: History) -> Iterator[History]:
        for at, entry in enumerate(history):
            yield history[:at] + history[at + 1 :]
            for one in _plainer(entry):
                yield (*history[:at], one, *history[at + 1 :])

    def size(self, history: History) -> tuple:
        events = sum(isinstance(entry, Login) for entry in history)
        return events, len(history), sum(_oddness(entry) for entry in history)

    def describe_difference(self, history: History, difference: Difference) -> str:
        lines = [say("Your function differs from the reference. The shortest history that shows it:")]
        lines += [
            f"{n:3}. {_said(entry)}" for n, entry in enumerate(history[: difference.entry_index + 1], 1)
        ]
        if isinstance(difference.got, FailureText):
            return "\n".join([*lines, say("Your function {failure}.", failure=failure_words(difference.got))])
        lines.append(say("Expected {copies}.", copies=_listed(difference.expected)))
        lines.append(say("Your function gave {copies}.", copies=_listed(difference.got)))
        return "\n".join(lines)

    def draw_difference(self, history: History, difference: Difference) -> str:
        """The copies side by side: those that both send, those that are missing, those that are too much."""
        if isinstance(difference.got, FailureText):
            return ""
        both = [copy for copy in difference.expected if copy in difference.got]
        rows = [(say("✓ both"), copy) for copy in both]
        rows += [(say("missing"), copy) for copy in difference.expected if copy not in both]
        rows += [(say("✗ unexpected"), copy) for copy in difference.got if copy not in both]
        cells = "".join(
            f"<tr><td {LEFT}>{state}</td><td {LEFT}>{', '.join(map(str, ids))}</td>"
            f"<td {LEFT}>{_pairs(group)}</td><td {LEFT}>{_pairs(fields)}</td></tr>"
            for state, (ids, group, fields) in rows
        )
        titles = ("", say("for rules"), say("group"), say("carries"))
        head = "".join(f'<th scope="col" {LEFT}>{title}</th>' for title in titles)
        return f"<table aria-label='{say('Copies of the event')}'><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"


def _rule(rng: Random) -> PublishedRule:
    function, field = rng.choice(COMPUTED)
    rule: dict[str, Any] = {
        "ruleId": rng.randint(1, 3),
        "ruleState": rng.choice(("ACTIVE", "ACTIVE", "PAUSE")),
    }
    rule |= {"groupingKeyNames": list(rng.choice(KEYS)), "filter": rng.choice(FILTERS)}
    return _published(rule, function, field)


def _copied(rules: list[RuleInForce]) -> list[RuleInForce]:
    """For a function that may change what it is given."""
    return [
        rule._replace(filter={name: list(values) for name, values in rule.filter.items()}) for rule in rules
    ]


def _large_rule(rng: Random, number: int) -> PublishedRule:
    """With up to five keys, filters on up to four fields and up to five fields that it needs."""
    rule: dict[str, Any] = {"ruleId": number, "ruleState": "ACTIVE"}
    rule["groupingKeyNames"] = rng.sample(NAMES, rng.randint(0, 5))
    passing = {
        name: rng.sample([str(PLAIN[name]), *OTHERS], rng.choice((1, len(OTHERS) + 1)))
        for name in rng.sample(NAMES[1:], rng.randint(0, 4))
    }
    rule["filter"] = passing
    rule |= {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": rng.sample(NAMES, rng.randint(1, 5))}
    return PublishedRule(json.dumps(rule | LIMIT))


def _published(rule: dict, function: str, field: str) -> PublishedRule:
    rule |= {"aggregatorFunctionType": function} | LIMIT
    rule |= (
        {"unique": [field]} if function == "UNIQUE_COUNT" else {"aggregateFieldName": field} if field else {}
    )
    return PublishedRule(json.dumps(rule))


@lru_cache(maxsize=20_000)
def _in_force(history: History) -> list[list[RuleInForce]]:
    """The rules at each entry, as the learner's function gets them."""
    book, found = Reference(LOGINS).book, []
    for entry in history:
        if isinstance(entry, PublishedRule):
            book.apply(entry.message)
        rules = [
            RuleInForce(
                r.rule_id,
                tuple(r.keys),
                {name: list(map(str, v)) for name, v in required_values(r.filter)},
                tuple(r.stored_field_names),
                r.state,
            )
            for r in book.sorted()
        ]
        found.append(rules)
    return found


@lru_cache(maxsize=20_000)
def _expected(history: History) -> list:
    """What the reference holds of each event, and for which rules."""
    reference, found = Reference(LOGINS), []
    for number, entry in enumerate(history, 1):
        if isinstance(entry, PublishedRule):
            reference.control(entry.message)
            found.append(None)
            continue
        event = {"eventId": number, "eventTime": number, "device": None, **dict(entry.fields)}
        reference.event(json.dumps(event).encode())
        copies = [
            (
                [rule.rule_id for rule in reference.routes[route]],
                dict(zip(route.keys, group)),
                _whole(stored[-1].fields),
            )
            for (route, group), stored in reference.stored_events.items()
            if stored and stored[-1].id == number
        ]
        found.append(_copies(copies))
    return found


def _whole(fields: dict) -> dict:
    """Amounts as the learner's function has them."""
    return {
        name: int(value) if name == "amount" and value is not None else value
        for name, value in fields.items()
    }


def _copies(given: Any) -> Any:
    """An answer as it is compared, or why it is none."""
    if given is ... or isinstance(given, FailureText):
        return given
    if given is None:
        return FailureText(say("gave None; expected a list of copies, empty if none is sent"))
    try:
        copies = [(sorted(ids), dict(group), dict(fields)) for ids, group, fields in given]
        return sorted(copies, key=lambda copy: (copy[0], sorted(copy[1])))
    except (TypeError, ValueError):
        return FailureText(
            say("gave {answer}; expected a list of (rule ids, group, fields)", answer=answer_text(given))
        )


def _plainer(entry: PublishedRule | Login) -> Iterator[PublishedRule | Login]:
    if isinstance(entry, Login):
        for at, (name, value) in enumerate(entry.fields):
            if value != PLAIN[name]:
                yield Login((*entry.fields[:at], (name, PLAIN[name]), *entry.fields[at + 1 :]))
        return
    rule = entry.as_dict
    plain = {"filter": {}, "groupingKeyNames": ["userId"], "ruleState": "ACTIVE"}
    for name, value in plain.items():
        if rule[name] != value:
            yield replace(entry, message=json.dumps(rule | {name: value}))
    kept = {name: rule[name] for name in ("ruleId", "ruleState", "groupingKeyNames", "filter")}
    if rule["aggregatorFunctionType"] != "COUNT":
        yield _published(kept, "COUNT", "")


def _oddness(entry: PublishedRule | Login) -> int:
    if isinstance(entry, Login):
        return sum(value != PLAIN[name] for name, value in entry.fields)
    rule = entry.as_dict
    odd = (rule["filter"] != {}, rule["groupingKeyNames"] != ["userId"], rule["ruleState"] != "ACTIVE")
    return sum(odd) + (rule["aggregatorFunctionType"] != "COUNT")


def _said(entry: PublishedRule | Login) -> str:
    if isinstance(entry, Login):
        return say("Event: {fields}", fields=_plain(dict(entry.fields)))
    rule = entry.as_dict
    field = (rule.get("unique") or [rule.get("aggregateFieldName", "")])[0]
    where = "".join(
        say(", where {name} is {values}", name=name, values=say(" or ").join(values))
        for name, values in rule["filter"].items()
    )
    keys = ", ".join(rule["groupingKeyNames"])
    return say(
        "Rule {id}{paused}: {computed} {keys}{where}",
        id=rule["ruleId"],
        paused=say(" (paused)") if rule["ruleState"] == "PAUSE" else "",
        computed=f"{rule['aggregatorFunctionType']} {field}".strip(),
        keys=say("for each {keys}", keys=keys) if keys else say("over all events"),
        where=where,
    )


def _listed(copies: list) -> str:
    if not copies:
        return say("no copy")
    return "; ".join(
        say(
            "a copy for rules {rules} of group {group} with {fields}"
            if len(ids) > 1
            else "a copy for rule {rules} of group {group} with {fields}",
            rules=", ".join(map(str, ids)),
            group=f"{{{_plain(group)}}}",
            fields=f"{{{_plain(fields)}}}",
        )
        for ids, group, fields in copies
    )


def _plain(pairs: dict) -> str:
    return ", ".join(f"{name}: {value}" for name, value in pairs.items())


def _pairs(pairs: dict) -> str:
    return escape(_plain(pairs)) or "–"
