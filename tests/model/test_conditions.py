"""Conditions in words: what they mean, what is refused and where, and that they read back."""

import json
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.model.conditions import (
    BadConditions,
    conditions_text,
    parse_conditions,
    tokens,
)
from lab.model.conditions import example as example_of
from lab.model.field import Field
from lab.model.rule import filter_object
from lab.model.rules import parse_message
from lab.model.schema import FLIGHTS, LOGINS, PAYMENTS, Schema
from tests.strategies import FILTERS

AGENT = "Mozilla/5.0 (X11; Linux x86_64) a=b, 'c' | \"d\" & \\e"


def texts():
    """Texts of valid Unicode, and those that a grammar stumbles over."""
    signs = st.sampled_from(
        ["and", "in", "OR", "not", "", " ", "a b", "'", '"', "a|b", "a;b=c", "\\", "(", AGENT, "\n"]
    )
    return signs | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def filters():
    """Filters of logins, as rules keep them."""
    numbers = st.integers(-(1 << 63), (1 << 63) - 1)
    amounts = st.integers(-(10**18) + 1, 10**18 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
    values = {"userId": numbers, "amount": amounts} | dict.fromkeys(("action", "device", "country"), texts())
    lists = {
        name: st.sets(of, min_size=1, max_size=4).map(lambda chosen: tuple(sorted(chosen)))
        for name, of in values.items()
    }
    return st.fixed_dictionaries({}, optional=lists).map(lambda filter: tuple(sorted(filter.items())))


@given(filters())
@example((("device", (AGENT,)),))
def test_a_filter_in_words_reads_back_as_itself(filter):
    assert parse_conditions(conditions_text(filter), LOGINS) == filter


@pytest.mark.parametrize("given_filter", FILTERS)
def test_words_mean_what_the_object_of_a_message_means(given_filter):
    rule = {"ruleId": 1, "ruleState": "ACTIVE", "aggregatorFunctionType": "COUNT", "limitOperatorType": ">"}
    message = json.dumps(rule | {"limit": 1, "window": 1, "filter": given_filter})
    parsed = parse_message(message, LOGINS).rule
    assert parse_conditions(conditions_text(parsed.filter), LOGINS) == parsed.filter
    described = f" where {conditions_text(parsed.filter)} over" if parsed.filter else "COUNT(events) over"
    assert described in parsed.describe()


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("", {}),
        ("  ", {}),
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
        # as the form wrote it before
        ("action=login|payment; country=KR", {"action": ["login", "payment"], "country": "KR"}),
        ("country=KR|CN", {"country": ["CN", "KR"]}),
        ("country=KR;", {"country": "KR"}),
    ],
)
def test_conditions_mean(text, filter):
    assert filter_object(parse_conditions(text, LOGINS)) == filter


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        # what was one value before, and never fired
        ("action=login, country=KR", ",", "joined by and: action = login and country …"),
        ("action=login&country=KR", "&", "joined by and: action = login and country …"),
        ("action=login && country=KR", "&&", "joined by and: action = login and country …"),
        ("action=login country=KR", "country", "joined by and: action = login and country …"),
        ("country=New York", "York", 'in quotes: country = "New York"'),
        ("country=New York and ip=x", "York", 'in quotes: country = "New York"'),
        ("device=Mozilla/5.0 (X11; Linux)", "(", 'in quotes: device = "Mozilla/5.0 (X11; Linux)"'),
        ("device=a;b", ";", 'in quotes: device = "a;b"'),
        ("country=KR, CN", ",", "country in (KR, …)"),
        ("country=KR or country=CN", "or", "country in (KR, …)"),
        ("country=KR || CN", "||", "country in (KR, …)"),
        ("country=KR|CN and action=login", "and", "; and | do not go with and"),
        ("country in KR, CN", "KR", "country in (…, …)"),
        ("country in (KR CN)", "CN", "expected , or )"),
        ("country in (KR, CN", "", "expected , or )"),
        ("country in ()", ")", "expected a value of country"),
        ("country == KR", "==", "write one =: country = …"),
        ("country != KR", "!=", "only = and in compare so far"),
        ("country not in (KR)", "not", "only = and in compare so far"),
        ("amount > 500", ">", "only = and in compare so far"),
        ("country KR", "KR", "expected = or in"),
        ("country", "", "expected = or in"),
        ("country =", "", "expected a value of country"),
        ("= KR", "=", "expected the name of a field"),
        ("action = login and", "", "expected the name of a field"),
        ("action = login and and country = KR", "country", "expected = or in"),
        ("contry = KR", "contry", "did you mean country?"),
        ("action = login and contry in (KR)", "contry", "did you mean country?"),
        ("country = KR and country = CN", "country", "country in (…, …)"),
        ("userId = seven", "seven", "integer of signed 64 bit"),
        ('userId = ""', '""', "not an empty text"),
        ("amount in (1, 2.505)", "2.505", "2 after it"),
        ("device = \"a", '"', "not closed"),
        ("device = 'a", "'", "not closed"),
        ("device = “a”", "“", "is no quote here"),
        ('device = "C:\\temp\\x"', '"C:\\temp\\x"', "put the value into '…'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place_and_what_would_be_right(text, at, says):
    with pytest.raises(BadConditions) as refused:
        parse_conditions(text, LOGINS)
    assert says in str(refused.value)
    assert text[refused.value.start : refused.value.end] == at
    if at:
        assert f"character {refused.value.start + 1})" in str(refused.value)
    else:
        assert str(refused.value).endswith("(at the end)")


def test_the_second_of_two_conditions_on_a_field_is_pointed_at():
    with pytest.raises(BadConditions) as refused:
        parse_conditions("country = KR and country = CN", LOGINS)
    assert refused.value.start == len("country = KR and ")


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*"=;|&,()!<>'\" \\", "and", "in", "country", "KR"])).map("".join)
)
def test_any_text_is_read_or_refused_within_it(text):
    try:
        parse_conditions(text, LOGINS)
    except BadConditions as error:
        assert 0 <= error.start <= error.end <= len(text)


@pytest.mark.parametrize(
    "part", ["(", "'", '"', '"\\', "a ", "a=b;", "a|", "country=KR and ", "! ", "in (", " ", "=,"]
)
def test_a_long_text_is_read_once_from_left_to_right(part):
    """Tokens do not overlap, so their number bounds the work; and an error quotes a bounded part of the text."""
    text = "country in (" + part * 5_000
    try:
        places = [(token.start, token.end) for token in tokens(text)]
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
    except BadConditions:
        pass
    with pytest.raises(BadConditions) as refused:
        parse_conditions(text, LOGINS)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("schema", [PAYMENTS, LOGINS, FLIGHTS])
def test_the_example_of_a_schema_can_be_read(schema):
    assert parse_conditions(example_of(schema), schema)


def test_a_schema_without_texts_or_examples_has_an_example_too():
    id, at = Field("id", "long"), Field("at", "time", unit="s")
    for more, text in ((), "id = 7"), ((Field("city", "string"),), 'city = "some text"'):
        schema = Schema("visits", (id, at, *more), ("id",), "at")
        assert example_of(schema) == text and parse_conditions(text, schema)
