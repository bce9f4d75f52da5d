"""The typologies: each rule finds its cases, the page has what the command prints, and the compiled windows agree."""

from pathlib import Path

import pytest

from lab.apps import typologies
from lab.apps.typologies import LabelledPast, measure_typologies
from lab.cli.main import main
from lab.stream.accounts import CASES
from lab.stream.typologies import TYPOLOGIES, labelled_typology_events

PAGE = Path(__file__).parents[2] / "docs" / "typologies.md"


@pytest.fixture(scope="module")
def events():
    return labelled_typology_events()


@pytest.fixture(scope="module")
def found(events):
    return measure_typologies(events)


def test_each_rule_finds_all_of_its_cases_and_is_more_often_right_than_wrong(found):
    assert len(found) == len(TYPOLOGIES) == 26
    for name, of in found.items():
        assert of.cases_found == CASES and of.right_alerts > of.wrong_alerts, name


def test_the_page_has_what_the_command_prints_and_every_rule(capsys, monkeypatch, events, found):
    monkeypatch.setattr(typologies, "measure_typologies", lambda given: found if given == events else {})
    assert main(["typologies"]) == 0
    text = PAGE.read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() in text
    for typology in TYPOLOGIES:
        assert f"| {typology.name} | `{typology.rule}` |" in text


def test_another_seed_gives_other_events_and_the_same_seed_the_same():
    assert labelled_typology_events(1) == labelled_typology_events(1) != labelled_typology_events(2)


@pytest.mark.slow
def test_labelled_past_events_tell_the_same_of_every_rule(found):
    past = LabelledPast()
    for typology in TYPOLOGIES:
        assert past.detection_counts(typology.rule, typology.name) == found[typology.name], typology.name
