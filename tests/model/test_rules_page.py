"""`docs/rules.md` has every attribute, function, operator, unit and spelling that a rule can have, and its examples are rules."""

import json
import re
from pathlib import Path

import pytest

from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import FUNCTIONS, OPERATORS
from lab.model.attributes import ACTIONS, SEVERITIES, clause_attributes, clause_markdown_rows, markdown_rows
from lab.model.messages import ATTRIBUTES, CONTROLS, COUNT_WORDS, OPERATOR_ALIASES, STATES, parse_message
from lab.model.reference import Reference
from lab.model.rule import UNIT_SECONDS
from lab.model.schema import LOGINS, PAYMENTS
from lab.model.sentence import EXAMPLE
from lab.model.when import filter_text, when_text

PAGE = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
QUOTED = set(re.findall(r"`([^`\n]+)`", PAGE))
WORDS = (
    *ATTRIBUTES,
    *STATES,
    *CONTROLS,
    *ACTIONS,
    *SEVERITIES,
    *COUNT_WORDS,
    *FUNCTIONS,
    *OPERATORS,
    *UNIT_SECONDS,
)


@pytest.mark.parametrize("word", [*WORDS, *(alias.lower() for alias in OPERATOR_ALIASES)])
def test_the_page_has_every_word_of_a_rule(word):
    assert word in QUOTED


@pytest.mark.parametrize("unit", UNIT_SECONDS)
def test_units_are_as_long_as_the_page_says(unit):
    assert f"| `{unit}` | {UNIT_SECONDS[unit]} |" in PAGE


def test_both_spellings_of_the_example_are_the_same_rule():
    [in_json] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    [in_text] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert parse_message(in_json, PAYMENTS).rule == parse_message(in_text.strip(), PAYMENTS).rule


def test_each_clause_of_a_sentence_is_on_the_page_with_its_attribute():
    rows = re.findall(rf"^\| `((?:{'|'.join(clause_attributes())}) [^`]+)` \| `(\w+)`", PAGE, re.MULTILINE)
    assert {clause.split()[0]: attribute for clause, attribute in rows} == {
        word: row.name for word, row in clause_attributes().items()
    }
    rule = parse_message(f"1: {', '.join([EXAMPLE, *(clause for clause, _ in rows)])}", LOGINS).rule
    assert rule and {row.name for row in clause_attributes().values()} <= rule.to_dict().keys()


README = (Path(__file__).parents[2] / "README.md").read_text()
OF_PAYMENTS = PAGE.partition("Rules can say more than that:")[2].partition("\n\n## ")[0]
SENTENCES = sorted({*re.findall(r"\| `([A-Z_]+\([^`]+)` \|\n", README + OF_PAYMENTS)})


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_sentence_of_the_readme_and_the_page_is_a_rule_for_payments(sentence):
    rule = parse_message(f"8: {sentence}", PAYMENTS).rule
    assert rule and parse_message(f"8: {rule.describe()}", PAYMENTS).rule == rule


def test_the_page_shows_what_makes_rules_more_than_plain():
    rules = [parse_message(f"8: {sentence}", PAYMENTS).rule for sentence in SENTENCES]
    said = {name for rule in rules if rule for name in rule.to_dict()}
    assert {"when", "where", "and", "limitOf", "excludeCurrent", "absence", "atMost"} <= said


@pytest.mark.parametrize("change", re.findall(r'`(\{"ruleId".*?\})`', PAGE))
def test_each_change_on_the_page_is_a_message(change):
    assert parse_message(change, PAYMENTS).rule_id == 1


def test_a_filter_in_a_sentence_stands_outside_the_brackets_and_differs_from_where_inside():
    _, table = PAGE.split("| in a sentence | events of other actions | alerts at |\n")
    outside, inside = (row.split("`")[1] for row in table.splitlines()[1:3])
    filtered, counted = (parse_message(f"1: {sentence}", LOGINS).rule for sentence in (outside, inside))
    assert filter_text(filtered.filter) == 'action = "login"' and not filtered.aggregations[0].where
    assert not counted.filter and when_text(counted.aggregations[0].where) == 'action = "login"'
    found = []
    for sentence in (outside, inside):
        reference = Reference(LOGINS)
        reference.control(f"1: {sentence}")
        for number, action in enumerate(["login"] * 6 + ["pay", "login"], 1):
            event = {"eventId": number, "eventTime": 10**6 + number, "userId": 1, "action": action}
            reference.event(json.dumps(event).encode())
        found.append(([alert.event_id for alert in reference.alerts], reference.counts["unrouted"]))
    assert found == [([6, 8], 1), ([6, 7, 8], 0)]


def test_the_tables_of_attributes_clauses_and_functions_are_made_of_these():
    functions = [each.rules_markdown_row for each in AGGREGATES.values()]
    for rows in (markdown_rows(), clause_markdown_rows(), functions):
        assert "\n".join(rows) + "\n\n" in PAGE
