"""The typologies: each rule finds its cases, the page has what the command prints, and the compiled windows agree."""

import json
from pathlib import Path

import pytest

from lab.apps.columnpast import Past
from lab.apps.typologies import measure
from lab.cli.main import main
from lab.model.messages import parse_message
from lab.stream.accounts import ACCOUNT_EVENTS, CASES
from lab.stream.typologies import TYPOLOGIES, labelled_events

PAGE = Path(__file__).parents[2] / "docs" / "typologies.md"


@pytest.fixture(scope="module")
def found():
    return measure(labelled_events())


def test_each_rule_finds_all_of_its_cases_and_is_more_often_right_than_wrong(found):
    assert len(found) == len(TYPOLOGIES) == 26
    for name, of in found.items():
        assert of.cases == CASES and of.right > of.wrong, name


def test_the_page_has_what_the_command_prints_and_every_rule(capsys):
    assert main(["typologies"]) == 0
    text = PAGE.read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() in text
    for typology in TYPOLOGIES:
        assert f"| {typology.name} | `{typology.rule}` |" in text


def test_another_seed_gives_other_events_and_the_same_seed_the_same():
    assert labelled_events(1) == labelled_events(1) != labelled_events(2)


def test_the_compiled_windows_give_the_alerts_that_the_table_counts(found):
    past = Past(ACCOUNT_EVENTS)
    past.add(json.dumps(each.event) for each in labelled_events())
    for number, typology in enumerate(TYPOLOGIES, 1):
        rule = parse_message(f"{number}: {typology.rule}", ACCOUNT_EVENTS).rule
        assert rule is not None
        of = found[typology.name]
        aggregates = past.aggregates(rule)
        assert int(aggregates.over(rule, float(rule.limit)).sum()) == of.right + of.wrong + of.others, (
            typology.name
        )
