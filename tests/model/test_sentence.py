"""Rules as sentences: what is written reads back, and what cannot be read says where."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.attributes import BadRule
from lab.model.conditions import BadConditions
from lab.model.messages import build_message, parse_message
from lab.model.rule import Rule, rule_in_english
from lab.model.schema import LOGINS
from lab.model.sentence import EXAMPLE, read_limit, read_more, read_sentence
from tests.strategies import rules


def read(text: str) -> Rule:
    return build_message(read_sentence(text, LOGINS) | {"ruleId": 1, "ruleState": "ACTIVE"}, LOGINS).rule


@given(rules(absence=True))
def test_a_rule_reads_back_as_it_is_described_and_as_it_is_shown(message):
    try:
        rule = parse_message(message, LOGINS).rule
    except BadRule:
        return
    silent = {"severity": None, "title": None, "labels": (), "rule_id": 1, "state": "ACTIVE"}
    rule = Rule(**{name: getattr(rule, name) for name in Rule.__dataclass_fields__} | silent)
    assert read(rule.describe()) == rule
    assert read(rule_in_english(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE,
        'count(events where action = "failed") per userId over 10m >= 5, when action = "login"',
        "SUM(amount) per userId over 1 h > 5 * SUM(amount) over 30 d / 30 and COUNT(events) over 30 d >= 10",
        "MAX(amount) over 10 min > MIN(amount) over 10 min + 1,000.5",
        "MAX(amount) over 10 min > 2 * MIN(amount) over 10 min without the current event / 3 - 5 or COUNT(events) over 1 h = 7",
        "UNIQUE_COUNT(ip, country) where action = pay over 1 d > 3, then notify for 24 h",
    ],
)
def test_people_write_a_little_otherwise(text):
    rule = read(text)
    assert read(rule.describe()) == rule


@pytest.mark.parametrize(
    ("text", "wrong", "reason"),
    [
        ("", "", "expected a function"),
        ("TOTAL(amount) over 1 h > 3", "TOTAL", "expected a function"),
        ("SUM amount over 1 h > 3", "amount", "SUM and what it is of stand as SUM(…)"),
        ("SUM(amont) over 1 h > 3", "amont", "did you mean amount?"),
        ("SUM(amount, userId) over 1 h > 3", ")", "SUM takes one field"),
        ("SUM(amount) over 1 week > 3", "week", "expected a duration in s, min, h or d"),
        ("SUM(amount) per over 1 h > 3", "over", "unknown logins field"),
        ("SUM(amount) where action = over 1 h > 3", "1", "goes in quotes"),
        ("SUM(amount) over 1 h without current > 3", "current", "expected without the current event"),
        ("SUM(amount) over 1 h is 3", "is", "expected one of = != > >= < <="),
        ("SUM(amount) over 1 h > many", "many", "expected a limit, such as 500"),
        (
            "COUNT(events) over 1 h > 3 and COUNT(events) over 2 h > 3 or COUNT(events) over 1 d > 1",
            "or",
            "not by both",
        ),
        ("COUNT(events) over 1 h > 3, if amount > 3", "if", "expected when and a condition"),
        ("COUNT(events) over 1 h > 3 when amount > 3", "when", "expected and, or, a comma with when"),
        ("SUM(amount) over 1 h > MIN(amount) over 1 d + much", "much", "expected a number, such as 500"),
        ("COUNT(events) over 1 h > 2 × SUM(amount) over 1 d ÷ 1.5", "1.5", "expected a whole number"),
    ],
)
def test_what_cannot_be_read_says_where(text, wrong, reason):
    with pytest.raises(BadConditions) as error:
        read_sentence(text, LOGINS)
    assert reason in str(error.value)
    assert text[error.value.start : error.value.end] == wrong


def test_a_message_may_be_a_sentence_after_the_id_and_a_mistake_keeps_its_place():
    text = "7 pause: SUM(amount) per userId over 1 h > 500"
    rule = parse_message(text, LOGINS).rule
    assert rule and (rule.rule_id, rule.state, rule.describe()) == (7, "PAUSE", text[9:])
    with pytest.raises(BadRule, match=r'did you mean amount.*\(at "amont", character 8\)'):
        parse_message("7: SUM(amont) per userId over 1 h > 500", LOGINS)
    with pytest.raises(BadRule, match="ruleState"):
        parse_message("7 asleep: SUM(amount) per userId over 1 h > 500", LOGINS)


@given(st.text(alphabet="SUMcount()events,over 1hd>=×÷andor.:'\"\\2 ", max_size=80))
def test_any_text_is_read_or_refused(text):
    for reader in (read_sentence, read_more, read_limit):
        try:
            json.dumps(reader(text, LOGINS))
        except BadConditions:
            pass
