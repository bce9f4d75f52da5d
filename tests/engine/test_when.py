"""`when` for all events of a batch at once gives what the reference says of each."""

import json
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.engine.compiled.rulenumbers import BITS
from lab.engine.loop.route import when_columns
from lab.engine.records import conditions as conditions_of_columns
from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import LooseLines
from lab.model.field import Field
from lab.model.lists import NamedList
from lab.model.rules import parse_message
from lab.model.schema import LOGINS, Schema
from lab.model.when import is_true
from lab.model.whenreader import parse_when
from tests.model.test_clock import AUTUMN, SPRING
from tests.model.test_when import conditions
from tests.strategies import PATTERN_WHENS, WHENS

RULE = {"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": ">"}
RULE |= {"limit": 0, "window": "1m"}
VALUES = {
    "userId": [None, 7, -(1 << 63), (1 << 63) - 1, 0],
    "amount": [None, "0", "7", "7.01", "-7.01", "9999999999999999.99", "-9999999999999999.99"],
    "country": [None, "", "KR", "K", "é", "\U0001f600", "\uffee"],
    "ip": [None, "10.1.2.3", "11.0.0.0", "::1", "::ffff:10.1.2.3", "010.1.2.3", "1" * 2000, "KR"],
    "device": [None, "", "KR", "curl/8"],
}


def rule_of(text: str, schema: Schema = LOGINS):
    return parse_message(json.dumps(RULE | {"when": text}), schema).rule


def truth(rules, lines: list[str], schema: Schema) -> tuple[list, list]:
    """Which conditions are true of which events, by the engine and by the reference."""
    data = "\n".join(lines).encode()
    columns = decode_records(LooseLines(data), schema)[0]
    columns = {name: values for name, values in columns.items() if name in schema.names}
    found = when_columns(rules, columns, np.arange(len(lines)), schema)
    events = [schema.parse(line.encode()) for line in lines]
    by_engine = [
        [bool(found[f"when:{n // BITS}"][row] >> n % BITS & 1) for n in range(len(rules))]
        for row in range(len(lines))
    ]
    return by_engine, [[is_true(rule.when, event) for rule in rules] for event in events]


def events():
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


@given(st.lists(events(), min_size=1, max_size=8), st.lists(conditions(), min_size=1, max_size=3))
def test_conditions_are_true_of_the_events_of_which_they_are_in_the_reference(given_events, whens):
    from dataclasses import replace

    lines = [
        json.dumps({"eventId": n, "eventTime": 1000 + n, "action": "login", **event})
        for n, event in enumerate(given_events)
    ]
    rules = [replace(rule_of("userId = 1"), when=when) for when in dict.fromkeys(whens)]
    by_engine, by_reference = truth(rules, lines, LOGINS)
    assert by_engine == by_reference


@given(st.lists(events(), min_size=1, max_size=8))
def test_the_conditions_of_random_rules_too_and_more_than_a_word_has_bits(given_events):
    lines = [
        json.dumps({"eventId": n, "eventTime": 1000 + n, "action": "login", **event})
        for n, event in enumerate(given_events)
    ]
    texts = [*WHENS, *PATTERN_WHENS, *(f"userId > {n}" for n in range(2 * BITS))]
    by_engine, by_reference = truth([rule_of(text) for text in texts], lines, LOGINS)
    assert by_engine == by_reference


@pytest.mark.parametrize("few", [0, 10_000])
def test_an_entry_is_in_a_list_until_the_millisecond_before_it_expires(monkeypatch, few):
    monkeypatch.setattr(conditions_of_columns, "FEW_TEXTS", few)
    entries = NamedList.of(1, {"KR": 1_002, "7": 1_002, "US": 1_000, "CN": 1_004})
    texts = ("country in @some", "userId in @some", "country not in @some", "ip not in @some")
    rules = [rule_of(text).with_lists({"some": entries}) for text in texts]
    event = {"country": "KR", "userId": 7, "ip": "US"}
    lines = [json.dumps({"eventId": n, "eventTime": 1_000 + n, **event}) for n in range(4)]
    by_engine, by_reference = truth(rules, lines, LOGINS)
    assert by_engine == by_reference == [[n < 2, n < 2, n >= 2, True] for n in range(4)]


@pytest.mark.parametrize("one, other", [(0, 0), (0, 18), (18, 0), (2, 5), (9, 9)])
def test_two_fields_with_other_digits_after_the_point_are_compared_exactly(one, other):
    schema = Schema(
        "two",
        (
            *(Field("id", "long"), Field("at", "long")),
            Field("a", "long" if one == 0 else f"decimal(18,{one})"),
            Field("b", "long" if other == 0 else f"decimal(18,{other})"),
        ),
        id_fields=("id",),
        time_field="at",
    )

    def edges(scale: int) -> list[str]:
        most = (1 << 63) - 1 if scale == 0 else 10**18 - 1
        least = -(1 << 63) if scale == 0 else -most
        return [
            f"{Decimal(number).scaleb(-scale):f}"
            for number in (0, 1, -1, 10**scale % 10**18, most, most - 1, least, least + 1)
        ]

    lines = [
        json.dumps({"id": 1, "at": 5, "a": "@", "b": "#"})
        .replace('"@"', a if one == 0 else f'"{a}"')
        .replace('"#"', b if other == 0 else f'"{b}"')
        for a in edges(one)
        for b in edges(other)
    ]
    rules = [
        rule_of(f"{of} {sign} {to}", schema) for of, to in ("ab", "ba") for sign in ("<", "<=", "=", "!=")
    ]
    by_engine, by_reference = truth(rules, lines, schema)
    assert by_engine == by_reference


@pytest.mark.parametrize("zone", ["UTC", "-03:30", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Monrovia"])
def test_clocks_show_what_they_show_in_the_reference(zone):
    changes = [SPRING, AUTUMN, 63_593_070_000, 1_728_142_200_000]  # Berlin, Monrovia, Lord Howe Island
    times = [change + off for change in changes for off in (-3_600_001, -1, 0, 1, 1_800_000, 86_400_000)]
    lines = [json.dumps({"eventId": n, "eventTime": time}) for n, time in enumerate(times)]
    rules = [rule_of(f'hour(eventTime, "{zone}") = {hour}') for hour in range(24)]
    rules += [rule_of(f'weekday(eventTime, "{zone}") in ({day})') for day in range(1, 8)]
    by_engine, by_reference = truth(rules, lines, LOGINS)
    assert by_engine == by_reference and all(sum(row) == 2 for row in by_engine)


def test_each_different_condition_is_evaluated_once_and_rules_without_one_need_no_column():
    columns = decode_records(LooseLines(b'{"eventId": 1, "eventTime": 5, "amount": 7}'), LOGINS)[0]
    plain = parse_message(json.dumps(RULE), LOGINS).rule
    assert when_columns([plain], columns, np.arange(1), LOGINS) == {}
    rules = [rule_of("amount > 5"), plain, rule_of("amount>5.00"), rule_of("amount > 9")]
    assert when_columns(rules, columns, np.arange(1), LOGINS)["when:0"].tolist() == [0b01]
    assert rules[0].when == parse_when("amount > 5", LOGINS)
