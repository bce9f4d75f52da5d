"""Rules as sentences: what is written reads back, and what cannot be read says where."""

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.model.attributes import carried, clause_attributes
from lab.model.conditions import BadConditions
from lab.model.formatting import UNSEEN
from lab.model.kinds import LABEL, BadRule
from lab.model.messages import build_message, parse_message
from lab.model.rule import Rule, readable_rule_sentence, readable_rule_summary
from lab.model.schema import LOGINS, Field, Schema
from lab.model.sentence import (
    EXAMPLE,
    parse_at_most,
    parse_carried,
    parse_further_conditions,
    parse_limit,
    parse_rule_sentence,
)
from lab.model.when import when_text
from tests.anylogs import rules

# names of fields that are words of the language as well
NAMES = (
    *("events", "Events", "not", "when", "at", "then", "severity", "title", "labels", "with", "of", "the"),
    *("per", "over", "where", "within", "without", "and", "or", "in", "is", "null", "hour", "no", "7", "-"),
    *("a.b", "é", "SUM", "NO", "most", "event", "true", "x"),
)
IDS = (Field("id", "long"), Field("time", "time", unit="ms"))
ODD = Schema(
    "odd",
    (*IDS, *(Field(name, "decimal(9,2)" if place % 2 else "string") for place, name in enumerate(NAMES))),
    ("id",),
    "time",
)
WORDS = (*clause_attributes(), "at most 1 per 1 h", ", severity low", '" ', "null", "of the event", "\\")


def read(text: str, schema: Schema = LOGINS) -> Rule:
    return build_message(
        parse_rule_sentence(text, schema) | {"ruleId": 1, "ruleState": "ACTIVE"}, schema
    ).rule


@given(rules(live=True))
def test_a_rule_reads_back_as_it_is_described_and_as_it_is_shown(message):
    try:
        rule = parse_message(message, LOGINS).rule
    except BadRule:
        return
    assert parse_message(f"{rule.rule_id} {rule.state}: {rule.describe()}", LOGINS).rule == rule
    rule = replace(rule, rule_id=1, state="ACTIVE")
    assert read(readable_rule_sentence(rule)) == rule
    silent = replace(rule, carried=(), event_fields=())
    assert read(rule.summarize()) == read(readable_rule_summary(rule)) == silent


def texts(least: int = 0):
    """What a title or a label may be: any text without blanks around it."""
    any_text = st.text(min_size=least, max_size=200) | st.sampled_from(WORDS)
    return any_text.filter(lambda text: text == text.strip(" "))


@given(
    title=st.none() | texts(1),
    labels=st.dictionaries(
        st.from_regex(LABEL, fullmatch=True) | st.sampled_from([*clause_attributes()]), texts(), max_size=16
    ),
)
@example("'\"\\\n\u2028\x1b\u202e", {"title": '", labels a = "', "when": "\r\n"})
def test_whatever_a_title_or_a_label_is_the_sentence_is_one_line_that_reads_back(title, labels):
    rule = replace(read(EXAMPLE), carried=carried(title=title, labels=tuple(sorted(labels.items()))))
    sentence = rule.describe()
    assert read(sentence) == rule
    assert len(sentence.splitlines()) == 1 and not UNSEEN.search(sentence)


@st.composite
def odd_rules(draw):
    """A rule on events whose fields are called like the words around them."""
    name, names = (
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3),
    )
    of = draw(
        st.sampled_from(["COUNT", "SUM", "COUNT_WITH_RESET"]).flatmap(
            lambda function: st.fixed_dictionaries(
                {"aggregatorFunctionType": st.just(function), "aggregateFieldName": name}
            )
        )
        | st.fixed_dictionaries({"aggregatorFunctionType": st.just("UNIQUE_COUNT"), "unique": names})
        | st.just({"aggregatorFunctionType": "COUNT"})
    )
    conditions = st.one_of(
        st.builds("{} is null and {} is not null".format, name, name),
        st.builds("{} = {}".format, name, name),
        st.builds('{} not in ("per", 7)'.format, name),
        st.builds("{} != 7 or {} in (7, 8)".format, name, name),
    )
    given = {"ruleId": 1, "ruleState": "ACTIVE", "window": "1m", "limitOperatorType": ">", "limit": 1} | of
    given |= {"groupingKeyNames": draw(names), "eventFields": draw(st.none() | names)}
    given |= {"filter": draw(st.none() | conditions | st.dictionaries(name, st.just("7"), max_size=3))}
    return given | {each: draw(st.none() | conditions) for each in ("where", "when")}


@given(odd_rules())
def test_a_rule_reads_back_whatever_fields_are_called(given):
    try:
        rule = build_message(given, ODD).rule
    except BadRule:
        return
    assert read(rule.describe(), ODD) == rule


@pytest.mark.parametrize("name", NAMES)
def test_a_field_of_any_name_stands_wherever_a_field_does(name):
    given = {"ruleId": 1, "ruleState": "ACTIVE", "window": "1m", "limitOperatorType": ">", "limit": 1}
    given |= {"aggregatorFunctionType": "COUNT", "aggregateFieldName": name, "eventFields": ["id", name]}
    given |= {"groupingKeyNames": ["id", name], "filter": {name: "7"}, "where": f"{name} is not null"}
    for more in ({}, {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": ["id", name]}):
        rule = build_message(given | more | {"when": f"id > 5 or {name} not in (7)"}, ODD).rule
        assert read(rule.describe(), ODD) == rule


def test_count_of_events_counts_every_event_also_where_a_field_is_called_so():
    assert read("COUNT(events) over 1 h > 3", ODD).aggregation.field is None
    assert read('COUNT("events") over 1 h > 3', ODD).aggregation.field == "events"


def test_clauses_come_in_any_order_and_in_any_case():
    clauses = [
        'Labels team = fraud, when = "2, x"',
        "WITH ip of the event",
        'title "Too much"',
        "severity HIGH",
    ]
    clauses += ["then notify for 24 h", "at most 1 per 10 min", "when amount > 5"]
    ordered, reverse = (read(", ".join([EXAMPLE, *of])) for of in (clauses, clauses[::-1]))
    assert ordered == reverse
    assert ordered.describe() == (
        f"{EXAMPLE}, when amount > 5.00, at most 1 per 10 min, then notify for 1 d, severity high, "
        'title "Too much", labels team = "fraud", when = "2, x", with ip of the event'
    )


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE,
        'count(events where action = "failed") per userId over 10m >= 5, when action = "login"',
        "SUM(amount) per userId over 1 h > 5 * SUM(amount) over 30 d / 30 and COUNT(events) over 30 d >= 10",
        "MAX(amount) over 10 min > MIN(amount) over 10 min + 1,000.5",
        "MAX(amount) over 10 min > 2 * MIN(amount) over 10 min without the current event / 3 - 5 or COUNT(events) over 1 h = 7",
        "UNIQUE_COUNT(ip, country) where action = pay over 1 d > 3, then notify for 24 h",
        "SUM(amount) over 1 h > 0.500 × SUM(amount where amount > 1234.50) over 1 d + 20.001",
        "SUM(amount) over 1 h > 1,234.500 or SUM(amount) over 1 d > 1234.500",
    ],
)
def test_people_write_a_little_otherwise(text):
    rule = read(text)
    assert read(rule.describe()) == rule


@pytest.mark.parametrize("places", range(7))
def test_a_rule_on_amounts_of_more_decimals_reads_back_however_many_zeros_are_shown(places):
    schema = Schema("fine", (*IDS, Field("amount", f"decimal(12,{places})")), ("id",), "time")
    message = {"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "amount", "window": "1h"}
    message |= {"aggregatorFunctionType": "SUM", "limitOperatorType": ">", "limit": "20000"}
    message["when"] = "amount > 20 or amount in (1500, 1)"
    rule = parse_message(json.dumps(message), schema).rule
    assert rule and parse_message(f"1: {rule.describe()}", schema).rule == rule


def test_a_message_may_be_a_sentence_after_the_id_and_a_mistake_keeps_its_place():
    text = "7 pause: SUM(amount) per userId over 1 h > 500"
    rule = parse_message(text, LOGINS).rule
    assert rule and (rule.rule_id, rule.state, rule.describe()) == (7, "PAUSE", text[9:])
    with pytest.raises(BadRule, match=r'did you mean amount.*\(at "amont", character 8\)'):
        parse_message("7: SUM(amont) per userId over 1 h > 500", LOGINS)
    with pytest.raises(BadRule, match="ruleState"):
        parse_message("7 asleep: SUM(amount) per userId over 1 h > 500", LOGINS)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("24 hours", "1 d"),
        ("36hours", "36 h"),
        ("1 hour", "1 h"),
        ("30 Days", "30 d"),
        ("10 minutes", "10 min"),
        ("5 Mins", "5 min"),
        ("5 seconds", "5 s"),
        ("1 week", "7 d"),
        ("2 weeks", "14 d"),
    ],
)
def test_a_unit_may_be_a_word_that_means_one_thing_and_is_said_in_its_short_form(typed, said):
    rule = (
        "COUNT(events) per userId over {0} ending {0} before > 3 and SUM(amount) over 5 events within {0} > 5"
    )
    rule += ", at most 1 per {0}, then notify for {0}"
    assert read(rule.format(typed)).describe() == rule.format(said)
    session = "COUNT(events) per userId over a session with gaps up to {0} within {0} > 3"
    assert read(session.format(typed)).describe() == session.format(said)
    absence = "NO(events) per userId within {0} after"
    assert read(absence.format(typed)).describe() == absence.format(said)


def test_what_is_said_of_at_most_alone_can_be_typed_there():
    with pytest.raises(BadConditions, match=r"^write 1 per 1 h \(at"):
        parse_at_most("once per hour", LOGINS)
    with pytest.raises(BadConditions, match=r"in whole s, min, h or d: write 3 per 1 d \(at"):
        parse_at_most("3 per day", LOGINS)


def test_a_text_of_labels_is_read_by_itself():
    labels = parse_carried("labels", 'team = fraud, desk = "2, \\"left\\""', LOGINS)
    assert labels == {"labels": {"team": "fraud", "desk": '2, "left"'}}
    with pytest.raises(BadConditions, match='expected a name, = and a text.* \\(at "desk", character 15\\)'):
        parse_carried("labels", "team = fraud, desk", LOGINS)


@given(st.text(alphabet="SUMcount()events,over 1hd>=×÷andor.:'\"\\2 ", max_size=80))
def test_any_text_is_read_or_refused(text):
    for reader in (
        parse_rule_sentence,
        parse_further_conditions,
        parse_limit,
        partial(parse_carried, "labels"),
    ):
        try:
            json.dumps(reader(text, LOGINS), default=when_text)
        except BadConditions:
            pass
