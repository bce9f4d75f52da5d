"""Labels as people have them: words for yes and no, columns named as in the source, events that are not there, conditions."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import lab
from lab.cli.main import main
from lab.desk import world as worlds
from lab.desk.labels import LabelWarning, labels_of_file, says_yes
from lab.desk.world import NotFound, World
from lab.model.schemafile import schema

AT = 1714557600000
SCHEMA = """\
name = "cards"
id = "Txn_Ref"
time = "at"
[fields.Txn_Ref]
path = "Txn Ref"
type = "string"
[fields.at]
type = "time"
unit = "ms"
[fields.Amt]
type = "decimal(18,2)"
[fields.Case]
type = "string"
[fields.Fraud]
path = "Fraud?"
type = "string"
"""
ROWS = [
    {"Txn Ref": f"T{n}", "at": AT + n, "Amt": 90 if case else 1, "Case": case, "Fraud?": "Y" if case else "N"}
    for n, case in enumerate([None, "A1", None, None, "D1", None, None, "A2", "A2", None])
]
BAD = {"Txn Ref": "T99", "at": AT, "Amt": "many", "Fraud?": "Y"}
RULE = "1: VALUE(Amt) > 50"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cards.toml").write_text(SCHEMA)
    (tmp_path / "cards.jsonl").write_text("\n".join(map(json.dumps, [*ROWS, BAD])))
    return tmp_path


@pytest.fixture
def world(files, monkeypatch):
    monkeypatch.setattr(worlds, "COMPILED", False)  # the alerts are the same, and nothing is compiled
    return World(files / "cards.jsonl", RULE, files / "cards.toml", bad_rows="warn")


@pytest.mark.parametrize(
    "no", ["N", "f", " FALSE", "-", "0.00", "+0", "legit", "Genuine", "OK", "n/a", float("nan")]
)
def test_usual_words_for_no_are_no(no):
    assert not says_yes(no)


@pytest.mark.parametrize("yes", ["Y", "t", "fraud", "1", "0.5", "A1", True, "-1"])
def test_other_values_are_yes(yes):
    assert says_yes(yes)


def test_labels_say_how_many_events_have_which_value(world):
    found = world.scores("Fraud")
    assert (found.earlier["all"].recall, found.held_out["all"].precision) == (1.0, 1.0)
    assert found.said[0] == "Labelled: 4 of 10 events (Y 4; no: N 6)."
    assert "Labelled: 4 of 10 events" in found.text()
    assert world.scores("Case").said[0] == "Labelled: 4 of 10 events (A2 2, A1 1, D1 1; no: null 6)."
    assert world.tune(RULE, "Fraud").said[0] == world.suggest("Fraud").said[0] == found.said[0]
    assert world.scores(["T1", "T4"]).said[0] == "Labelled: 2 of 10 events."


def test_a_file_with_y_and_n_and_the_names_of_the_source_is_read(world, files):
    (files / "labels.csv").write_text("Txn Ref;Case;Label\nT1;x;Y\nT4;x;y\nT5;;N\n")
    found = world.scores(files / "labels.csv")
    assert found.said[:2] == (
        "Labelled: 2 of 10 events (Y 1, y 1; no: N 1).",
        "Events without a label, which count nowhere: 7.",
    )
    assert found.earlier["all"].cases == 1


def test_fields_may_be_named_as_in_the_file_that_the_schema_reads(world, files, capsys):
    for mine, own in (("Fraud?", "Fraud"), ("Txn Ref", "Txn_Ref")):
        assert world.scores("Fraud?", by=mine, case=mine) == world.scores("Fraud", by=own, case=own)
    found = [each.rule.describe() for each in world.suggest("Fraud?", without=["Amt", "Txn Ref"]).rules]
    assert "Fraud" not in "".join(found) and "Txn_Ref" not in "".join(found)
    given = ["rules", "backtest", RULE, str(files / "cards.jsonl"), "--schema", str(files / "cards.toml")]
    assert main([*given, "--labels", "Fraud?", "--case", "Txn Ref", "--held-out-by", "Txn Ref"]) == 0
    assert "Labelled: 4 of 10 events (Y 4; no: N 6)." in capsys.readouterr().out


def test_ids_in_a_file_may_be_named_by_their_whole_path(world, files):
    text = SCHEMA.replace('path = "Txn Ref"', 'path = ["txn", "Txn Ref"]')
    (files / "nested.toml").write_text(text)
    (files / "labels.csv").write_text("txn.Txn Ref,label\nT1,Y\n")
    assert labels_of_file(files / "labels.csv", schema(files / "nested.toml")).cases == {"T1": "T1"}
    (files / "ids.txt").write_text("txn.Txn Ref\nT1\n")
    assert labels_of_file(files / "ids.txt", schema(files / "nested.toml")).cases == {"T1": "T1"}


def test_a_mapping_to_words_for_no_is_no(world):
    found = world.scores({"T1": "Y", "T4": "y", "T5": "N"})
    assert found.said[0] == "Labelled: 2 of 10 events (Y 1, y 1; no: N 1)."
    assert found.earlier["all"].cases == 2


def test_more_than_half_labelled_is_doubted(world):
    with pytest.warns(LabelWarning, match="6 of 10 events are labelled"):
        world.scores([f"T{n}" for n in range(6)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world.scores([f"T{n}" for n in range(5)])


def test_labels_of_dead_letters_are_left_out_with_a_warning(world):
    with pytest.warns(
        LabelWarning, match="2 of 4 are of no event, such as 'T99'; dead letters among them: 1"
    ):
        found = world.scores(["T1", "T99", "T4", "T77"])
    assert found.said[0] == "Labelled: 2 of 10 events."
    with pytest.raises(ValueError, match="2 of 2 are of no event, such as 'T99'"):
        world.scores(["T99", "T77"])


def test_a_condition_labels_events(world):
    found = world.scores('Case startsWith "A"', case="Case")
    assert found.said[0] == "Labelled: 3 of 10 events."
    assert (found.earlier["all"].cases, found.held_out["all"].cases) == (1, 1)
    for wrong in ("Csae = A1", "Case in @office"):
        with pytest.raises(ValueError, match="labels: "):
            world.scores(wrong)
    assert "Case" not in "".join(each.rule.describe() for each in world.suggest('Case startsWith "A"').rules)


def test_few_cases_in_a_half_are_said(world):
    assert "Cases to choose by: 2, held out: 2. Fewer than 10 say little." in world.scores("Fraud").said


def test_labels_are_checked_before_the_replay_and_warnings_are_lines(files, capsys):
    given = [
        "rules",
        "backtest",
        RULE,
        str(files / "cards.jsonl"),
        "--schema",
        str(files / "cards.toml"),
        "--engine",
        "reference",
    ]
    assert main([*given, "--labels", "nothing"]) == 2
    shown = capsys.readouterr()
    assert (
        "nothing: no such file, and labels: there is no field nothing, expected one of Txn_Ref, at"
        in shown.err
    )
    assert shown.out == ""
    (files / "labels.csv").write_text("which,what\nT1,Y\n")
    assert main([*given, "--labels", str(files / "labels.csv")]) == 1
    assert capsys.readouterr().out == ""
    assert main([*given, "--labels", "Fraud", "--amount", "none"]) == 1
    assert capsys.readouterr().out == ""
    (files / "labels.csv").write_text("Txn Ref,label\nT1,Y\nT99,Y\n")
    assert main([*given, "--labels", str(files / "labels.csv")]) == 0
    shown = capsys.readouterr()
    assert "lab: warning: labels: 1 of 2 are of no event, such as 'T99'" in shown.err
    assert main([*given, "--labels", 'Case startsWith "A"']) == 0
    assert "Labelled: 3 of 10 events." in capsys.readouterr().out


def test_fields_that_give_the_labels_away_are_named_and_may_be_left_out(world, files, capsys):
    with pytest.warns(LabelWarning, match="the field Case tells the labelled events from the others exactly"):
        world.suggest("Fraud")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = world.suggest("Fraud", without=["Case", "Amt"])
    assert not any("Case" in each.rule.describe() or "Amt" in each.rule.describe() for each in found.rules)
    with pytest.raises(ValueError, match="did you mean Case"):
        world.suggest("Fraud", without=["Csae"])
    given = [str(files / "cards.jsonl"), "--schema", str(files / "cards.toml"), "--labels", "Fraud"]
    assert main(["rules", "suggest", *given, "--without", "Amt"]) == 0
    shown = capsys.readouterr()
    assert "lab: warning: the field Case" in shown.err and "the field Amt" not in shown.err
    assert "VALUE(Amt)" not in shown.out


def test_scores_are_rows_and_a_score_shows_its_shares(world):
    found = world.scores("Fraud")
    table = pd.DataFrame(found.rows())
    assert list(table["rule"]) == [1, 1, "all", "all"] and list(table["half"])[:2] == list(found.names)
    assert list(table["precision"]) == list(table["f1"]) == [1.0] * 4
    assert "precision=1.0, recall=1.0, f1=1.0" in repr(found.held_out[1])


def test_why_takes_a_row_of_alerts_and_names_why_not_for_an_event(world, files):
    with pytest.warns(UserWarning, match="are left out"):
        rows = lab.alerts(files / "cards.jsonl", RULE, files / "cards.toml", bad_rows="warn")
    assert world.why(rows.iloc[0]).outcome == world.why(rows.iloc[0].to_dict()).outcome == "alerted"
    with pytest.raises(NotFound, match="T1: not the id of an alert.*`lab why EVENT RULE`"):
        world.why("T1")
    for wrong in (5, {"id": 7}, rows):
        with pytest.raises(NotFound):
            world.why(wrong)


def test_the_schema_of_the_tests_is_one(files):
    assert schema(files / "cards.toml").field("Fraud").record_path == ("Fraud?",)


def test_a_vector_of_yes_and_no_is_refused_with_what_to_write(world):
    """It was taken as ids: those of events 0 and 1, if there are such."""
    y = [0, 1, 0, 0, 1, 0, 0, 1, 1, 0]
    vectors = (
        y,
        np.array(y),
        pd.Series(y),
        [float(each) for each in y],
        y[:5],
        [str(each) for each in y],
        ["Y", "N"] * 5,
    )
    for given in vectors:
        with pytest.raises(
            ValueError, match=r"one label for each event.*ids of the labelled ones.*df\['Txn Ref'\]\[y == 1\]"
        ):
            world.scores(given)
    for mask in ([True, False], np.array(y) == 1, pd.Series(y) == 1):
        with pytest.raises(ValueError, match=r"a mask.*df\['Txn Ref'\]\[mask\]"):
            world.scores(mask)
    ids = [f"T{n}" for n in range(10)]
    several_alerts = ["T1", "T1", "T4"]  # such as the events of alerts of several rules
    assert world.scores(several_alerts).said[0] == "Labelled: 2 of 10 events."
    expected = world.scores([at for at, label in zip(ids, y) if label])
    for zero in (0, 0.0, np.int64(0), np.bool_(False)):
        one = type(zero)(1)
        labels = {at: one if label else zero for at, label in zip(ids, y)}
        for given in (labels, list(labels.items())):
            found = world.scores(given)
            assert found.held_out["all"] == expected.held_out["all"] and found.earlier["all"].cases == 2
    cases = {"T1": 0, "T4": 1, "T7": 2, "T8": 2}  # numbers of cases, as pandas numbers groups
    found = world.scores(cases)
    assert found.earlier["all"].cases == 2 and found.held_out["all"].cases == 1
