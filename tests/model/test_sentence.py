"""Rules as sentences: what is written reads back, and what cannot be read says where."""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.model.attributes import LABEL, BadRule
from lab.model.conditionreader import EXAMPLE
from lab.model.conditions import BadConditions
from lab.model.messages import build_message, parse_message
from lab.model.refusals import CLAUSES
from lab.model.rule import Rule, readable_rule_sentence, readable_rule_summary
from lab.model.schema import LOGINS, Field, Schema
from lab.model.sentence import (
    parse_at_most,
    parse_further_conditions,
    parse_labels,
    parse_limit,
    parse_rule_sentence,
)
from lab.model.words import UNSEEN
from tests.strategies import rules

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
WORDS = (*CLAUSES, "at most 1 per 1 h", ", severity low", '" ', "null", "of the event", "\\")
# sentences, the word at which each is refused, and what is said
MISTAKES = (
    ("", "", "expected a function"),
    ("MEDIAN(amount) over 1 h > 3", "MEDIAN", "expected a function"),
    ("SUM amount over 1 h > 3", "amount", "expected ( after SUM, as in SUM(…)"),
    ("SUM(amont) over 1 h > 3", "amont", "did you mean amount?"),
    ("SUM(amount, userId) over 1 h > 3", ")", "SUM takes one field"),
    ("SUM(amount) over 1 h 30 min > 3", "30", "expected one number and one unit: write 90 min"),
    ("SUM(amount) over 1 h 30 min 20 s > 3", "30", "expected one number and one unit: write 5420 s"),
    ("SUM(amount) over 1 week > 3", "week", "expected a duration in whole s, min, h or d: write 7 d "),
    ("SUM(amount) over 1.5 h > 3", "1.5", "in whole s, min, h or d, such as 90 min"),
    ("SUM(amount) over 0 h > 3", "0", "expected a duration from 1 s to 3660 d"),
    ("SUM(amount) over 3661 d > 3", "3661", "expected a duration from 1 s to 3660 d"),
    ("SUM(amount) userId over 1 h > 3", "userId", "expected per and fields, or over and a window"),
    ("SUM(amount) over 1 h > 1,5", ",", "expected commas only before three digits each"),
    ("SUM(amount) over 1 h > 20.000,50", ",", "expected commas only before three digits each"),
    ("SUM(amount) over 1 h > 20.000", "20.000", "between thousands: write 20 or 20000 "),
    ("SUM(amount) over 1 h > -1.500", "-1.500", "between thousands: write -1.5 or -1500 "),
    ("SUM(amount) over 1 h > 1.500.000", "1.500.000", "between thousands: write 1500000 "),
    ("SUM(amount) over 1 h > €20.000", "€20.000", "between thousands: write 20 or 20000 "),
    ("SUM(amount) over 1 h > EUR 1.500", "EUR", "between thousands: write 1.5 or 1500 "),
    ("SUM(amount) over 1 h > 20.000, severity low", "20.000", "write 20 or 20000 "),
    ("SUM(amount) over 1 h > 1.500 × SUM(amount) over 1 d", "1.500", "write 1.5 or 1500 "),
    ("SUM(amount) over 1 h > MIN(amount) over 1 d - 2.500", "2.500", "write 2.5 or 2500 "),
    ("COUNT(events) over 1 h > 3, when amount > 20.000", "20.000", "write 20 or 20000 "),
    ("SUM(amount where amount in (1, 2.500)) over 1 h > 3", "2.500", "write 2.5 or 2500 "),
    ("SUM(amount) where userId = 1.000 over 1 h > 3", "1.000", "write 1 or 1000 "),
    ("SUM(amount) over 1 h > €500", "€500", "no currency: write 500 "),
    ("SUM(amount) over 1 h > $1,000,000.50", "$1", "no currency: write 1000000.50 "),
    ("SUM(amount) over 1 h > 1 × 500", "500", "a function"),
    ("SUM(amount) over 1 h > USD 1,000", "USD", "no currency: write 1000 "),
    ("SUM(amount) over 1 h > 20M", "20M", "no unit and no currency: write 20000000 "),
    ("SUM(amount) over 1 h > 500eur", "500eur", "write 500 "),
    ("SUM(amount) over 1 h > 1.5k", "1.5k", "without units"),
    ("SUM(amount) over 1 h > USD", "USD", "without units"),
    ("SUM(amount) over 1 h > USD, severity low", "USD", "without units"),
    ("SUM(amount) over 1 h > 500 EUR", "EUR", "expected and, or, × or a comma after the limit"),
    ("SUM(amount) over 1 h > 20 000", "000", "a number without blanks and units"),
    ("SUM(amount) over 1 h > 30% × SUM(amount) over 1 d", "30%", "0.3 for 30 %"),
    ("SUM(amount) over 1 h == 3", "==", "write =: = 500"),
    ("SUM(amount) over 1 h => 3", "=", "write >=: >= 500"),
    ("SUM(amount) over 1 h ≥ 3", "≥", "write >=: >= 500"),
    ("SUM(amount where amount > 5 EUR) over 1 h > 3", "EUR", "expected and or or after a number"),
    ("SUM(amount) where country = KR, CN over 1 h > 3", ",", "one of several values: country in (KR, …)"),
    ("SUM(amount) where ip is null, amount > 5 over 1 h > 3", ",", "write and between two conditions"),
    ("SUM(amount) where ip is null | amount > 5 over 1 h > 3", "|", "write or between two conditions"),
    ("SUM(amount) where ip = a amount > 5 over 1 h > 3", "amount", "… and amount > …"),
    ("SUM(amount) where ip is null; over 1 h > 3", ";", "write and between two conditions"),
    ("SUM(amount) where ip is null country over 1 h > 3", "country", "expected and or or"),
    ("SUM(amount where amount > 5,5) over 1 h > 3", ",", "a number in a condition has no commas"),
    ("SUM(amount where amount > 5 over 1 h > 3", "over", "expected where and conditions, or )"),
    ("SUM(country) over 1 h > 3", "country", "expected a numeric field for SUM: eventId"),
    ("COUNT(*) over 1 h > 3", "*", "write COUNT(events)"),
    ("COUNT_WITH_RESET() over 1 h > 3", ")", "write COUNT_WITH_RESET(events)"),
    ("COUNT(amont) over 1 h > 3", "amont", "did you mean amount?"),
    ("COUNT(distinct ip) over 1 h > 3", "distinct", "counted by UNIQUE_COUNT(…)"),
    ("count_distinct(ip) over 1 h > 3", "count_distinct", "it is called UNIQUE_COUNT; there are SUM, AVG"),
    ("MEAN(amount) over 1 h > 3", "MEAN", "it is called AVG; there are SUM, AVG"),
    ("TOTAL(amount) over 1 h > 3", "TOTAL", "it is called SUM; there are SUM, AVG"),
    ("SUM(amount) over 1 h > 3 and amount > 5", "amount", "a comma: , when amount …"),
    ("COUNT(events) over 1 h > 3, where ip is null", "where", "or before per and over"),
    ("COUNT(events) over 1 h > 3, when amount > 5 & ip is null", "&", "write and between two conditions"),
    ("COUNT(events) over 1 h > 3, when device = Mozilla 5", "5", "goes in quotes"),
    ("COUNT(events) over 1 h > 3, when amount > 5 severity low", "severity", "expected a comma and when"),
    ("NO(events) within 1 h after and COUNT(events) over 1 h > 3", "and", "expected a comma and when"),
    ("NO(events) within 1 h after, at most 1 per 1 h", "at", "at most: not beside absence"),
    ("COUNT(events) over 1 h > 3, severity low and", "and", "expected a comma and when"),
    (" and ".join(["COUNT(events) over 1 h > 3"] * 4) + " AND", "AND", "expected at most 4 conditions"),
    ("SUM(amount) per over 1 h > 3", "over", "unknown logins field"),
    ("SUM(amount) where action = pay and per userId over 1 h > 3", "per", "after and, not per"),
    ("COUNT(events) over 1 h > 3, when action = pay or at most 1 per 1 h", "at", "after or, not at"),
    ("SUM(amount) where action = over 1 h > 3", "1", "goes in quotes"),
    ("SUM(amount) over 1 h without current > 3", "current", "expected without the current event"),
    ("SUM(amount) over 1 h is 3", "is", "expected one of = != > >= < <="),
    ("SUM(amount) over 1 h > many", "many", "expected a limit, such as 500"),
    ("SUM(amount) over 1 h > 1.500,000", ",", "expected commas only before three digits each"),
    ("SUM(amount) over 1 h > 12345,678", ",", "expected commas only before three digits each"),
    ("SUM(amount) over 1 h > 1_0,000", ",", "expected commas only before three digits each"),
    ("SUM(amount) over 1 h > 20,000.5,000", ",", "expected commas only before three digits each"),
    ("SUM(amount) over 1 h > 5 × MIN(amount) over 1 d - -5", "-5", "without signs between the digits"),
    (
        "COUNT(events) over 1 h > 3 and COUNT(events) over 2 h > 3 or COUNT(events) over 1 d > 1",
        "or",
        "not by both",
    ),
    ("SUM(events) over 1 h > 3", "events", 'unknown logins field "events"'),
    ("SUM(amount) per userId, ip, when ip is null", ",", "expected over and a window"),
    ("SUM(amount) per userId, userId over 1 h > 3", "userId", "expected each field once"),
    ("COUNT(events) over 1 h > 3, if amount > 3", "if", "expected when, at most, then"),
    ("COUNT(events) over 1 h > 3 when amount > 3", "when", "a comma and when, at most, then"),
    ("COUNT(events) over 1 h > 3, at 1 per 1 h", "1", "expected at most and how often"),
    ("COUNT(events) over 1 h > 3, when ip is null, when ip is null", "when", "when is given twice"),
    ("COUNT(events) over 1 h > 3, then block for 1 h", "block", "block_login, hold_payment, notify"),
    ("COUNT(events) over 1 h > 3, then block_login for 1 h", "block_login", "without groupingKeyNames"),
    ("COUNT(events) over 1 h > 3, severity urgent", "urgent", "expected one of low, medium, high"),
    (
        'COUNT(events) over 1 h > 3, title "\U0001f600", severity urgent',
        "urgent",
        "expected one of low, medium, high",
    ),
    ("COUNT(events) over 1 h > 3, severity", "", "expected one of low, medium, high"),
    ("COUNT(events) over 1 h > 3, title Too much", "Too", "expected the title in quotes"),
    ('COUNT(events) over 1 h > 3, title ""', '""', "a text of 1 to 200 characters"),
    ('COUNT(events) over 1 h > 3, title "x" y', "y", "expected a comma and when"),
    ("COUNT(events) over 1 h > 3, labels", "", "expected a name, = and a text"),
    ("COUNT(events) over 1 h > 3, labels team", "team", "expected a name, = and a text"),
    ("COUNT(events) over 1 h > 3, labels 2nd = x", "2nd", "names of 1 to 64 letters"),
    ("COUNT(events) over 1 h > 3, labels team = ", "", "expected a value for team"),
    (
        "COUNT(events) over 1 h > 3, labels team = night shift",
        "shift",
        "a text with blanks goes in quotes",
    ),
    ('COUNT(events) over 1 h > 3, labels team = " x"', '" x"', "without blanks before and after it"),
    ("COUNT(events) over 1 h > 3, labels a = x, a = y", "a", "expected each label once"),
    ("COUNT(events) over 1 h > 3, labels a = x, b", "b", "expected a name, = and a text"),
    ("COUNT(events) over 1 h > 3, with", "", "expected the name of a field"),
    ("COUNT(events) over 1 h > 3, with ipp of the event", "ipp", "did you mean ip?"),
    ("COUNT(events) over 1 h > 3, with ip, ip of the event", "ip", "expected each field once"),
    ("COUNT(events) over 1 h > 3, with ip of event", "event", "expected of the event after the fields"),
    ("COUNT(events) over 1 h > 3, with ip", "", "expected of the event after the fields"),
    (
        "SUM(amount) over 1 h > 5 × (SUM(amount) over 30 d ÷ 30)",
        "(",
        "no brackets: write > 5 × SUM(amount) over 30 d ÷ 30",
    ),
    ("SUM(amount) over 1 h > (SUM(amount) over 30 d)", "(", "no brackets: write > 5 × SUM(amount)"),
    ("SUM(amount) over 1 h > (500)", "(", "a limit has no brackets"),
    ("SUM(amount) over 1 h > ((500))", "(", "a limit has no brackets"),
    (
        "(COUNT(events) over 1 h > 3 or SUM(amount) over 1 h > 5) and COUNT(events) over 1 d > 9",
        "(",
        "have no brackets: join all by and, or all by or; or write several rules",
    ),
    (
        "COUNT(events) over 1 h > 3 and (SUM(amount) over 1 h > 5 or COUNT(events) over 1 d > 9)",
        "(",
        "conditions have no brackets",
    ),
    (
        "SUM(amount) per userId over 1 h > 5 × SUM(amount) per userId over 30 d",
        "per",
        "per and its fields stand once, before the first over or within, as in SUM(amount) per userId over 1 h > 500",
    ),
    (
        "COUNT(events) over 10 min per userId >= 5",
        "per",
        "per and its fields stand once, before the first over",
    ),
    (
        "COUNT(events) over 10 min >= 5 per userId",
        "per",
        "per and its fields stand once, before the first over",
    ),
    ("SUM(amount) over 1 h > SUM(amount) over 30 d per userId", "per", "per and its fields stand once"),
    ("SUM(amount) over 1 h > SUM(amount) over 30 d ÷ 30 per userId", "per", "per and its fields stand once"),
    ("NO(events) within 1 h after per userId", "per", "before the first over or within"),
    ("COUNT per userId over 1 h > 3", "per", "expected ( after COUNT, as in COUNT(events)"),
    ("UNIQUE_COUNT ip over 1 h > 3", "ip", "as in UNIQUE_COUNT(…)"),
    (
        "COUNT(events) over 1 h >= 5 where action = pay",
        "where",
        "as in COUNT(events where …), or before per and over; a condition on the event that alerts follows a comma: , when …",
    ),
    ("COUNT(events) over 1 h where action = pay >= 5", "where", "stand in the brackets"),
    ("SUM(amount) over 1 h > 5 × SUM(amount) where ip is null over 30 d", "where", "stand in the brackets"),
    ("SUM(amount) over 1 h > SUM(amount) over 30 d where ip is null", "where", "stand in the brackets"),
    ("NO(events) within 1 h after where action = pay", "where", "a comma: , when …"),
    ("SUM(amount) over 1 h > 2 × SUM(amount) over 30 d ÷ 24 -5", "-5", "write a blank after -, as in - 5"),
    ("SUM(amount) over 1 h > MIN(amount) over 30 d +1,000", "+1", "write a blank after +, as in + 5"),
    ("SUM(amount) over 1 h > AVG(amount) over 30 d × 2", "×", "the factor stands first: 2 × AVG(…)"),
    ("SUM(amount) over 1 h > SUM(amount) over 30 d ÷ 30 * 1.5", "*", "the factor stands first: 1.5 × SUM(…)"),
    ("SUM(amount) over 1 h > SUM(amount) over 30 d × many", "×", "the factor stands first: 5 × SUM(…)"),
    (
        "NO(events) per userId within 15 min after action = order",
        "action",
        "follows a comma: , when action …",
    ),
    ("COUNT(events) over 1 h > 3 action = order", "action", "follows a comma: , when action …"),
    ("SUM(amount) over 1 h > SUM(amount) over 1 d country in (KR, CN)", "country", ", when country …"),
    ("NO(action = pay) within 1 h after", "action", "write NO(events where action …)"),
    ("COUNT(action = pay) over 1 h > 3", "action", "write COUNT(events where action …)"),
    (
        "COUNT_WITH_RESET(ip not in 10.0.0.0/8) over 1 h > 3",
        "ip",
        "write COUNT_WITH_RESET(events where ip …)",
    ),
    ("COUNT(events) over 1 h > 3, at most once per hour", "once", "write at most 1 per 1 h "),
    ("COUNT(events) over 1 h > 3, at most twice a day", "twice", "write at most 2 per 1 d "),
    ("COUNT(events) over 1 h > 3, at most 3 alerts per hour", "3", "write at most 3 per 1 h "),
    ("COUNT(events) over 1 h > 3, at most 2 times a day", "2", "write at most 2 per 1 d "),
    ("COUNT(events) over 1 h > 3, when amount > 5 per userId", "per", "per and its fields stand once"),
    ("COUNT(events) over 1 h > 3, when ip is null where amount > 5", "where", "stand in the brackets"),
    ("NO(type = pay) within 1 h after", "type", "write NO(events where type …)"),
    ("NO(events = 5) within 1 h after", "=", "expected where and conditions, or )"),
    ("COUNT(events) over 1 h > 3, at most once", "once", "write at most 1 per 1 h "),
    ("COUNT(events) over 1 h > 3, at most once every 10 minutes", "once", "write at most 1 per 10 min "),
    ("COUNT(events) over 1 h > 3, at most 1 per hour", "hour", "write at most 1 per 1 h "),
    ("COUNT(events) over 1 h > 3, at most 2 per 1 week", "week", "write at most 2 per 7 d "),
    ("COUNT(events) over 24 hours > 3", "hours", "in whole s, min, h or d: write 24 h "),
    ("COUNT(events) over 24hours > 3", "24hours", "write 24 h "),
    ("COUNT(events) over 5 Mins > 3", "Mins", "write 5 min "),
    ("COUNT(events) over 1 month > 3", "month", "write 30 d "),
    ("COUNT(events) over week > 3", "week", "write 7 d "),
    ("COUNT(events) over 600 weeks > 3", "600", "expected a duration from 1 s to 3660 d"),
    ("COUNT(events) over 1 h > 3, then notify for 2 days", "days", "write 2 d "),
    ("NO(events) within 0 hours after", "0", "expected a duration from 1 s to 3660 d"),
    (
        "SUM(amount) over 1 h > 2 × STDDEV(amount) over 30 d",
        "STDDEV",
        "STDDEV is a root, which is not compared with another aggregate: take VARIANCE",
    ),
    ("STDDEV(amount) over 1 h > SUM(amount) over 30 d", "STDDEV", "not compared with another aggregate"),
    (
        "COUNT(events) over 1 h > 3 and stddev(amount) over 1 h > 2 × SUM(amount) over 30 d",
        "stddev",
        "take VARIANCE",
    ),
    (
        "COUNT(events) over 1 h > COUNT_WITH_RESET(events) over 30 d",
        "COUNT_WITH_RESET",
        "COUNT_WITH_RESET is no limit: take COUNT",
    ),
    ("SUM(amount) over 1 h > MIN(amount) over 1 d + much", "much", "expected a number, such as 500"),
    ("SUM(amount) over 1 h > 30 % × SUM(amount) over 1 d", "%", "0.3 for 30 %"),
    ("amount > 500 and country = KR", "amount", "alone write COUNT(events) over 1 s >= 1, when …"),
    ("when amount > 500", "when", "alone write COUNT(events) over 1 s >= 1, when …"),
    ("amount", "amount", "expected a function with what it is of"),
    (
        "SUM(amount) over 1 h ÷ SUM(amount) over 30 d > 0.2",
        "÷",
        "with a factor: SUM(amount) over 1 h > 0.2 × SUM(amount) over 30 d",
    ),
    (
        "MAX(amount) over 1 h > AVG(amount) over 30 d + 3 × MAX(amount) over 1 d",
        "3",
        "is a multiple of one aggregate, plus or minus a number",
    ),
    ("MAX(amount) over 1 h > AVG(amount) over 30 d - MIN(amount) over 1 d", "MIN", "of one aggregate, plus"),
    ("COUNT(events) per userId and ip over 1 h > 3", "and", "write a comma between two fields"),
    ("UNIQUE_COUNT(userId and ip) over 1 h > 3", "and", "write a comma between two fields"),
    ("COUNT(events) over 1 h > 3, with userId & ip of the event", "&", "write a comma between two fields"),
    ("COUNT(events) over 1 h > 2 × SUM(amount) over 1 d ÷ 1.5", "1.5", "expected a whole number"),
)


def read(text: str, schema: Schema = LOGINS) -> Rule:
    return build_message(
        parse_rule_sentence(text, schema) | {"ruleId": 1, "ruleState": "ACTIVE"}, schema
    ).rule


@given(rules(absence=True))
def test_a_rule_reads_back_as_it_is_described_and_as_it_is_shown(message):
    try:
        rule = parse_message(message, LOGINS).rule
    except BadRule:
        return
    assert parse_message(f"{rule.rule_id} {rule.state}: {rule.describe()}", LOGINS).rule == rule
    rule = replace(rule, rule_id=1, state="ACTIVE")
    assert read(readable_rule_sentence(rule)) == rule
    silent = replace(rule, severity=None, title=None, labels=(), event_fields=())
    assert read(rule.summarize()) == read(readable_rule_summary(rule)) == silent


def texts(least: int = 0):
    """What a title or a label may be: any text without blanks around it."""
    any_text = st.text(min_size=least, max_size=200) | st.sampled_from(WORDS)
    return any_text.filter(lambda text: text == text.strip(" "))


@given(
    title=st.none() | texts(1),
    labels=st.dictionaries(
        st.from_regex(LABEL, fullmatch=True) | st.sampled_from([*CLAUSES]), texts(), max_size=16
    ),
)
@example("'\"\\\n\u2028\x1b\u202e", {"title": '", labels a = "', "when": "\r\n"})
def test_whatever_a_title_or_a_label_is_the_sentence_is_one_line_that_reads_back(title, labels):
    rule = replace(read(EXAMPLE), title=title, labels=tuple(sorted(labels.items())))
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
    assert read("COUNT(events) over 1 h > 3", ODD).field is None
    assert read('COUNT("events") over 1 h > 3', ODD).field == "events"


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


@pytest.mark.parametrize(("text", "wrong", "reason"), MISTAKES)
def test_what_cannot_be_read_says_where(text, wrong, reason):
    with pytest.raises(BadConditions) as error:
        parse_rule_sentence(text, LOGINS)
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


def test_what_is_said_of_at_most_alone_can_be_typed_there():
    with pytest.raises(BadConditions, match=r"^write 1 per 1 h \(at"):
        parse_at_most("once per hour", LOGINS)
    with pytest.raises(BadConditions, match=r"in whole s, min, h or d: write 3 per 1 d \(at"):
        parse_at_most("3 per day", LOGINS)


def test_a_text_of_labels_is_read_by_itself():
    labels = parse_labels('team = fraud, desk = "2, \\"left\\""', LOGINS)
    assert labels == {"labels": {"team": "fraud", "desk": '2, "left"'}}
    with pytest.raises(BadConditions, match='expected a name, = and a text.* \\(at "desk", character 15\\)'):
        parse_labels("team = fraud, desk", LOGINS)


@given(st.text(alphabet="SUMcount()events,over 1hd>=×÷andor.:'\"\\2 ", max_size=80))
def test_any_text_is_read_or_refused(text):
    for reader in (parse_rule_sentence, parse_further_conditions, parse_limit, parse_labels):
        try:
            json.dumps(reader(text, LOGINS))
        except BadConditions:
            pass
