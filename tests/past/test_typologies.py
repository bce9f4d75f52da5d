"""The typologies: each rule finds its cases, the page has what the command prints, and the compiled windows agree."""

from pathlib import Path

import pytest

from lab.cli.main import main
from lab.past import typologies
from lab.past.typologies import DetectionCounts, LabelledPast, measure_typologies
from lab.stream.accounts import CASES
from lab.stream.typologies import TYPOLOGIES, labelled_typology_events

PAGE = Path(__file__).parents[2] / "docs" / "typologies.md"


@pytest.fixture(scope="module")
def events():
    return labelled_typology_events()


@pytest.fixture(scope="module")
def found():
    return counts_of_past()


def counts_of_past() -> dict[str, DetectionCounts]:
    """Counts by the compiled windows; the reference takes far longer."""
    past = LabelledPast()
    return {each.name: past.detection_counts(each.rule, each.name) for each in TYPOLOGIES}


def test_each_rule_finds_all_of_its_cases_and_is_more_often_right_than_wrong(found):
    assert len(found) == len(TYPOLOGIES) == 32
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
def test_the_reference_gives_the_same_counts_for_every_rule(events, found):
    assert measure_typologies(events) == found


def test_the_reference_gives_the_same_counts_if_there_are_only_the_events_of_cases(events, monkeypatch):
    alone = [each for each in events if each.typology]
    monkeypatch.setattr(typologies, "labelled_typology_events", lambda seed: alone)
    found = counts_of_past()
    assert measure_typologies(alone) == found and sum(of.cases_found for of in found.values()) > 20 * CASES
