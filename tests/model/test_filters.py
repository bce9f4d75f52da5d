"""Filters: what they mean, what is refused and where, that they read back, and which of them are the same."""

import json
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.model.conditions import BadConditions, tokenize
from lab.model.examples import example_conditions as example_of
from lab.model.field import Field
from lab.model.rules import BadRule, parse_message, rule_message
from lab.model.schema import FLIGHTS, LOGINS, PAYMENTS, Schema
from lab.model.when import (
    canonical_filter,
    filter_json_value,
    filter_of_values,
    filter_text,
    is_true,
    passes_filter,
)
from lab.model.whenreader import parse_filter
from tests.model.test_when import AGENT, conditions, texts
from tests.strategies import FILTERS

RULE = {"ruleId": 1, "ruleState": "ACTIVE", "aggregatorFunctionType": "COUNT", "limitOperatorType": ">"}
RULE |= {"limit": 1, "window": 1}
EVENTS = [
    {"eventId": 1, "eventTime": 5, "device": None}
    | dict(zip(("userId", "action", "ip", "country", "amount"), values))
    for values in (
        (7, "login", "10.1.2.3", "KR", Decimal("500.01")),
        (None, None, None, None, None),
        (-1, "", "::1", "ip", Decimal("0.00")),
    )
]


def rule_of(filter):
    return parse_message(json.dumps(RULE | {"filter": filter}), LOGINS).rule


def filters():
    """Filters of logins, as rules keep them."""
    numbers = st.integers(-(1 << 63), (1 << 63) - 1)
    amounts = st.integers(-(10**18) + 1, 10**18 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
    values = {"userId": numbers, "amount": amounts} | dict.fromkeys(("action", "device", "country"), texts())
    lists = {
        name: st.sets(of, min_size=1, max_size=4).map(lambda chosen: tuple(sorted(chosen)))
        for name, of in values.items()
    }
    return st.fixed_dictionaries({}, optional=lists).map(
        lambda filter: filter_of_values(sorted(filter.items()))
    )


@given(filters())
@example(filter_of_values([("device", (AGENT,))]))
def test_a_filter_in_words_reads_back_as_itself(filter):
    assert parse_filter(filter_text(filter), LOGINS) == filter


@pytest.mark.parametrize("given_filter", FILTERS)
def test_words_mean_what_the_object_of_a_message_means(given_filter):
    parsed = rule_of(given_filter)
    assert parse_filter(filter_text(parsed.filter), LOGINS) == parsed.filter
    described = f" where {filter_text(parsed.filter)} over" if parsed.filter else "COUNT(events) over"
    assert described in parsed.describe()


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("", None),
        ("  ", None),
        ("action=login", {"action": "login"}),
        ("action = login AND country = KR", {"action": "login", "country": "KR"}),
        ("country in (KR,CN)", {"country": ["CN", "KR"]}),
        ("country IN ( 'KR' , \"CN\" )", {"country": ["CN", "KR"]}),
        ("country = IN", {"country": "IN"}),  # India, and Oregon: after = a keyword is a value
        ("country in (IN, or, and)", {"country": ["IN", "and", "or"]}),
        ('device = "a \\"b\\" \\u00e9"', {"device": 'a "b" é'}),
        ("device = 'C:\\temp'", {"device": "C:\\temp"}),
        ("device = O'Brien", {"device": "O'Brien"}),
        ("ip = 10.0.0.1 and userId = 7", {"ip": "10.0.0.1", "userId": 7}),
        ("device = Mozilla/5.0", {"device": "Mozilla/5.0"}),
        ("device = wow!", {"device": "wow!"}),
        ("amount in (-1, 2.5)", {"amount": [-1, "2.50"]}),
        ("country = KR and (action = login)", {"action": "login", "country": "KR"}),
        # any other condition stays in words
        ("amount > 500", "amount > 500.00"),
        ("country != KR and action = login", 'action = "login" and country != "KR"'),
        ("country = KR or country = CN", 'country = "CN" or country = "KR"'),
        ("country = ip", "country = ip"),
        ("ip in 10.0.0.0/8", "ip in 10.0.0.0/8"),
        ("ip is null", "ip is null"),
    ],
)
def test_conditions_mean(text, filter):
    assert filter_json_value(parse_filter(text, LOGINS)) == filter


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("amount > 500 and ip is null", "ip is null and amount > 500.0"),
        ("amount > 500 or amount > 500", "(amount > 500)"),
        ("action = a and (amount > 5 or ip is null)", "(ip is null or amount > 5) and action in (a)"),
        ("country not in (KR)", "country != KR"),
        ("country in (KR, CN) and action = a", "action = a and country in (CN, KR, KR)"),
        ("userId > 1 and (country = KR and ip is null)", "country = KR and ip is null and userId > 1"),
        # of the two in brackets, which are the same, one is left: then nothing is in brackets
        (
            "country != KR and ((action != a and userId > 1) or (userId > 1 and action != a))",
            "action != a and country != KR and userId > 1",
        ),
    ],
)
def test_what_differs_only_in_the_order_of_its_parts_is_one_filter_and_shares_a_route(one, other):
    rules = [rule_of(text) for text in (one, other)]
    assert rules[0].filter == rules[1].filter and rules[0].route == rules[1].route


@given(conditions())
def test_a_filter_passes_the_events_of_which_its_condition_is_true_and_reads_back(when):
    filter = canonical_filter(when)
    assert parse_filter(filter_text(filter), LOGINS) == filter == canonical_filter(filter)
    given_value = filter_json_value(filter)
    assert rule_of(given_value).filter == filter
    for event in EVENTS:
        assert passes_filter(filter, event) == is_true(when, event)


def test_each_filter_has_a_route_of_its_own():
    texts = ("action = a", "action != a", "amount > 5", "amount > 5 and action = a", 'action = "a != b"', "")
    assert len({rule_of(text).route.id for text in texts}) == len(texts)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*"=;|&,()!<>'\" \\", "and", "in", "country", "KR"])).map("".join)
)
def test_any_text_is_read_or_refused_within_it(text):
    try:
        parse_filter(text, LOGINS)
    except BadConditions as error:
        assert 0 <= error.start <= error.end <= len(text)


@pytest.mark.parametrize(
    "part", ["(", "'", '"', '"\\', "a ", "a=b;", "a|", "country=KR and ", "! ", "in (", " ", "=,"]
)
def test_a_long_text_is_read_once_from_left_to_right(part):
    """Tokens do not overlap, so their number bounds the work; and an error quotes a bounded part of the text."""
    text = "country in (" + part * 5_000
    try:
        places = [(token.start, token.end) for token in tokenize(text)]
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
    except BadConditions:
        pass
    with pytest.raises(BadConditions) as refused:
        parse_filter(text, LOGINS)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("schema", [PAYMENTS, LOGINS, FLIGHTS])
def test_the_example_of_a_schema_can_be_read(schema):
    assert parse_filter(example_of(schema), schema)


def test_a_schema_without_texts_or_examples_has_an_example_too():
    id, at = Field("id", "long"), Field("at", "time", unit="s")
    for more, text in ((), "id = 7"), ((Field("city", "string"),), 'city = "some text"'):
        schema = Schema("visits", (id, at, *more), ("id",), "at")
        assert example_of(schema) == text and parse_filter(text, schema)


MANY = replace(
    LOGINS, name="many", fields=(*LOGINS.fields, *(Field(f"f{number}", "long") for number in range(150)))
)


@pytest.mark.parametrize("count", [100, 101, 150])
def test_a_filter_of_values_reads_back_in_every_form_however_many_fields_it_names(count):
    filter = {f"f{number}": number if number % 2 else [number, -1] for number in range(count)}
    rule = rule_message(1, ["userId"], None, "COUNT", "GREATER", 5, "1h", filter=filter)
    parsed = parse_message(json.dumps(rule), MANY).rule
    assert len(parsed.route.field_values) == count
    for text in (json.dumps(parsed.to_dict()), f"1: {parsed.describe()}"):
        assert parse_message(text, MANY).rule.filter == parsed.filter
    assert parse_filter(filter_text(parsed.filter), MANY) == parsed.filter


def test_any_other_filter_has_as_many_comparisons_as_a_condition():
    text = " or ".join(f"f{number} = 1" for number in range(101))
    rule = rule_message(1, ["userId"], None, "COUNT", "GREATER", 5, "1h", filter=text)
    for message in (json.dumps(rule), f"1: COUNT(events) where {text} per userId over 1 h > 5"):
        with pytest.raises(BadRule, match=r'expected at most 100 comparisons \(at "f100"'):
            parse_message(message, MANY)
