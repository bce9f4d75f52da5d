"""Hints are right: compared with what rules can do at all, and absent for rules that mean what they say."""

import json
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.engine.checkpoint.ledger import Ledger
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import OPERATORS
from lab.model.hints import condition_hints
from lab.model.reference import Reference
from lab.model.rules import RuleBook, parse_message
from lab.model.schema import FLIGHTS, LOGINS, PAYMENTS
from lab.past.replay import read_rules
from lab.stream.accounts import ACCOUNT_EVENTS
from lab.stream.datasets import dataset
from lab.stream.typologies import TYPOLOGIES
from lab.studio.demo import first_rules
from tests.model.test_wishes import rows, rule_of, schema_of

RULE = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "window": "5m"}


def of(function: str, operator: str, limit: object) -> dict:
    """A rule on an aggregate."""
    rule = RULE | {"aggregatorFunctionType": function, "limitOperatorType": operator, "limit": limit}
    rule |= {"events": {}, "steps": {"steps": "action = a, action = b, action = c"}}.get(
        AGGREGATES[function].argument_kind, {"aggregateFieldName": "amount"}
    )
    return rule | ({} if AGGREGATES[function].has_window else {"window": "1s"})


def hinted(function: str, operator: str, limit: object, schema=LOGINS, **changed) -> str:
    rule = of(function, operator, limit)
    return "; ".join(condition_hints(parse_message(json.dumps(rule | changed), schema).rule, schema))


@pytest.mark.parametrize(
    "function, operator, limit, says",
    [
        *(
            (name, "=", 0, f"{name} = 0 is never true")
            for name in ("COUNT", "COUNT_WITH_RESET", "UNIQUE_COUNT")
        ),
        *((name, "<", 1, "is never true") for name in ("COUNT", "COUNT_WITH_RESET", "UNIQUE_COUNT")),
        ("COUNT", "<=", 0, "that event counts, so COUNT is at least 1"),
        ("COUNT", "<", 0, "is never true"),
        ("COUNT", "=", "2.5", "is never true: COUNT is a whole number"),
        ("COUNT", ">=", 1, "is always true, so every event that counts alerts"),
        ("COUNT", ">", 0, "is always true"),
        ("COUNT", "!=", 0, "is always true"),
        ("VARIANCE", "<", 0, "is never true: VARIANCE is never below 0"),
        ("STDDEV", ">=", 0, "is always true"),
        ("SUM", "=", "10.005", "is never true: SUM is a multiple of 0.01"),
        ("AVG", "=", 10, "is almost never true: did you mean >= or <=?"),
        (
            "SEQUENCE",
            ">",
            3,
            "SEQUENCE > 3 is never true: SEQUENCE is the number of steps that were taken, from 0 to 3",
        ),
        ("SEQUENCE", ">=", 0, "is always true"),
        ("SEQUENCE", "=", 3, ""),
        ("COUNT", "=", 1, ""),
        ("COUNT", ">", 1, ""),
        ("COUNT", "<", 2, ""),
        ("COUNT", ">", "2.5", ""),
        ("VARIANCE", "=", 0, ""),  # all are the same
        ("SUM", "=", "10.01", ""),
        ("SUM", "<", -5, ""),
        ("MIN", ">", "0.001", ""),
        ("AVG", ">=", 10, ""),
    ],
)
def test_a_limit_that_decides_nothing_is_said(function, operator, limit, says):
    hint = hinted(function, operator, limit)
    assert says in hint and bool(says) == bool(hint)


def test_how_many_different_values_there_can_be_is_known_from_keys_and_filter():
    ways = {
        "unique": ["action", "userId"],
        "aggregateFieldName": None,
        "filter": {"action": ["login", "payment"]},
    }
    assert hinted("UNIQUE_COUNT", "=", 2, **ways) == ""
    assert "is from 1 to 2 with these keys and this filter" in hinted("UNIQUE_COUNT", ">", 2, **ways)
    assert "is always true" in hinted("UNIQUE_COUNT", "<=", 2, **ways)
    assert hinted("UNIQUE_COUNT", ">", 2, **ways | {"unique": ["action", "ip"]}) == ""


@pytest.mark.parametrize("value", ["!root", "~adm", "*", "*.example.org", "Chrome*"])
def test_a_value_that_looks_like_an_operator_is_said(value):
    hint = hinted("COUNT", ">", 5, filter={"device": ["phone", value]})
    assert (
        hint
        == f'device = "{value}" is compared literally: there are no wildcards; say device != …, or device startsWith, contains or endsWith …'
    )


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        *(
            (
                sentence,
                'action = device compares two fields of the event: for the text write action = "device"',
            )
            for sentence in (
                "COUNT(events) where action = device per userId over 1 h > 5",
                "COUNT(events where amount > 5 or action = device) per userId over 1 h > 5",
                "COUNT(events) per userId over 1 h > 5, when action = device and amount > 5",
            )
        ),
        ('COUNT(events) where action = "device" over 1 h > 5', ""),
        ("COUNT(events) over 1 h > 5, when action != device", ""),
        ("COUNT(events) over 1 h > 5, when userId = eventId", ""),
        ("COUNT(events) over 1 h > 5, when ip = 10.0.0.*", 'ip = "10.0.0.*" is compared literally'),
        ("COUNT(events where device = Chrome*) over 1 h > 5", "is compared literally"),
        ("COUNT(events) over 1 h > COUNT(events where device = !x) over 1 d", "is compared literally"),
        ("COUNT(events) over 1 h > 5, when action = pay and action = login", "so no event alerts"),
        ("COUNT(events) where action = pay over 1 h > 5, when action = login", "so no event alerts"),
        ("COUNT(events where action = pay) where action = login over 1 h > 5", "so no event counts"),
        ("SUM(amount) over 1 h > 5 and COUNT(events) over 20 d = 0", "COUNT = 0 is never true"),
        ("SUM(amount) over 1 h > 5 or COUNT(events) over 20 d < 1", "COUNT < 1 is never true"),
        ("SUM(amount) over 1 h > 5 and COUNT(events) over 20 d without the current event = 0", ""),
        ("SUM(amount) over 1 h > 5 and COUNT(events where ip is null) over 20 d = 0", ""),
        ("SUM(amount) over 1 h > 5 and COUNT(amount) over 20 d = 0", ""),
        ("SUM(amount) over 1 h > 5 and COUNT(events) over 20 d >= 1", ""),
        ("COUNT(events) over 1 s >= 1, when ip is null", ""),
        ("COUNT(events) over 1 s >= 1, at most 1 per 1 d", ""),
        ("COUNT(events) over 1 s >= 1, severity low", "is always true"),
        ("AVG(amount) over 1 h = 10, when ip is null", "is almost never true"),
        ("NO(events) within 1 h after, when action = pay or action = login", ""),
        ("COUNT(events) where action in (pay, login) over 1 h > 5, when action = login", ""),
    ],
)
def test_what_every_part_of_a_sentence_hardly_means_is_said(sentence, says):
    hint = "; ".join(condition_hints(parse_message(f"1: {sentence}", LOGINS).rule, LOGINS))
    assert says in hint and bool(says) == bool(hint)


def test_rules_of_the_documents_have_no_hints():
    sentences = [(rule_of(number), schema_of(number)) for number in rows()]
    for sentence, schema in [*sentences, *((each.rule, ACCOUNT_EVENTS) for each in TYPOLOGIES)]:
        assert condition_hints(parse_message(f"1: {sentence}", schema).rule, schema) == [], sentence


def test_a_hint_is_said_once():
    sentence = "COUNT(events) where ip = x* over 1 h > 5, when ip = x* and amount > 1"
    assert len(condition_hints(parse_message(f"1: {sentence}", LOGINS).rule, LOGINS)) == 1


def test_hints_stay_short_whatever_a_rule_holds():
    hint = hinted(
        "COUNT", ">", 5, filter={"device": ["!" + "x" * n for n in range(200)] + ["!" + "y" * 1_900]}
    )
    assert len(hint) < 200
    assert len(hinted("COUNT", "=", "-" + "9" * 24)) < 300


def test_rules_that_are_shipped_have_no_hints():
    for schema in (PAYMENTS, LOGINS, FLIGHTS):
        for file in dataset(schema.name).glob("rules*.json"):
            for message in read_rules(file):
                if rule := parse_message(message, schema).rule:
                    assert condition_hints(rule, schema) == [], message
    for message in first_rules(200):
        assert condition_hints(parse_message(json.dumps(message), PAYMENTS).rule, PAYMENTS) == []


AMOUNTS = st.lists(st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100), min_size=1, max_size=4)


@given(
    function=st.sampled_from([name for name, row in AGGREGATES.items() if not row.of_place]),
    operator=st.sampled_from(OPERATORS),
    limit=st.sampled_from(["-1", "0", "0.5", "0.005", "1", "1.01", "2", "3"]),
    values=AMOUNTS,
)
def test_what_never_holds_does_not_and_what_always_holds_does(function, operator, limit, values):
    """Over windows of any values, as the reference aggregates them."""
    hint, row = hinted(function, operator, limit), AGGREGATES[function]
    if row.argument_kind == "steps":  # each of a, b and c is one of the values
        values = [(False, *(value * 100 % 4 == step for step in (1, 2, 3))) for value in values]
    measure = row.measure(values) if len(values) > row.of_pair else None
    holds = parse_message(json.dumps(of(function, operator, limit)), LOGINS).rule.first.holds(measure)
    assert not ("never holds" in hint or "is never true" in hint) or not holds
    assert "is always true" not in hint or holds


def test_a_hint_is_given_for_each_limit_at_which_counts_of_up_to_a_hundred_decide_nothing():
    for operator, limit in product(OPERATORS, ("-1", "0", "0.5", "1", "1.5", "2")):
        rule = RULE | {"aggregatorFunctionType": "COUNT", "limitOperatorType": operator, "limit": limit}
        rule = parse_message(json.dumps(rule), LOGINS).rule
        decided = {rule.first.holds(count) for count in range(1, 101)}
        assert bool(condition_hints(rule, LOGINS)) == (len(decided) == 1), rule.describe()


def test_reference_and_engine_give_the_same_hint_with_the_acceptance():
    message = b'{"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": "=", "limit": 0, "window": 1}'
    ack = RuleBook(LOGINS).apply(message)
    assert ack["status"] == "accepted" and "is never true" in ack["hint"]
    assert Ledger(RuleBook(LOGINS)).apply(message) == Reference(LOGINS).control(message) == ack


def test_a_filter_that_no_event_passes_is_said():
    hint = hinted("COUNT", ">", 5, filter="country = KR and amount > 5 and country = CN")
    assert hint.startswith("country never has two values at once, so no event passes the filter")


@pytest.mark.parametrize(
    ("tail", "is_said"),
    [
        ("action = d) over 1 h = 2, when action = d", True),
        ("action = d or action = e) over 1 h = 2, when action = d and amount > 5", True),
        ("action = d) over 1 h = 2, when action = c", False),
        ("action = d) over 1 h without the current event = 2, when action = d", False),
    ],
)
def test_a_sequence_that_the_event_that_may_alert_clears_is_said(tail, is_said):
    rule = parse_message(f"1: SEQUENCE(action = a, action = b without {tail}", LOGINS).rule
    assert any("clears the steps" in hint for hint in condition_hints(rule, LOGINS)) == is_said


def test_a_text_compared_with_a_number_is_said():
    rule = parse_message("1: COUNT(events where country > 5) over 1 h > 3, when ip < b", LOGINS).rule
    (hint,) = condition_hints(rule, LOGINS)
    assert hint.startswith('country > 5 compares texts by their characters, so "10" is less than "9"')
