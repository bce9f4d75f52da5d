"""Right answers are checked again from what a hand-in says, without running any code of a learner."""

import json
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import pytest

import lab
from lab import teach
from lab.model.jsontext import BadRecord
from lab.teach import progress
from lab.teach.handins import read_and_recheck_hand_ins
from lab.teach.judge import RIGHT, FunctionExercise, ValueExercise
from lab.teach.learner import OpaqueValue
from lab.teach.replay import answer_from_text, answer_to_text, is_right
from tests.teach.test_exercises import JUNK, NAMES, answer_of, judged

AGAIN = [
    name
    for name in NAMES
    if isinstance(exercise := teach.exercise_of(name), FunctionExercise)
    or (isinstance(exercise, ValueExercise) and exercise.given_on_recheck is not None)
]


pytestmark = pytest.mark.usefixtures("progress_folder")


def test_all_but_four_exercises_can_be_checked_again():
    assert set(NAMES) - set(AGAIN) == {"8.4", "9.1", "9.2", "9.3"}


@pytest.mark.parametrize("name", AGAIN)
def test_a_solution_is_right_again(name):
    text = answer_to_text(judged(name, answer_of(name)).plain_answer)
    assert 0 < len(text) < progress.LONGEST_ANSWER
    assert is_right(teach.exercise_of(name), answer_from_text(text)) is True


@pytest.mark.parametrize("name", AGAIN)
def test_a_typical_mistake_or_junk_is_not(name):
    exercise = teach.exercise_of(name)
    wrong = [mistake.answer for mistake in exercise.mistakes]
    if isinstance(exercise, FunctionExercise):
        wrong = list(map(exercise._answers, wrong))
    for answer in (*wrong, *JUNK, [None] * 104):
        if not callable(answer):
            assert (
                is_right(exercise, answer_from_text(answer_to_text(teach.plain_value_or_failure(answer))))
                is False
            )


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        "a\u202e",
        0.1,
        [1, [2.5]],
        (1, ("x",)),
        {"a": {2: {3}}},
        {1, 2},
        Decimal("1.50"),
        Fraction(2, 3),
    ],
)
def test_a_value_is_read_as_it_was_written(value):
    found = answer_from_text(answer_to_text(value))
    assert found == value and type(found) is type(value)


def test_what_is_no_plain_value_is_written_as_it_reads():
    assert (
        answer_from_text(answer_to_text(OpaqueValue("<object>"))).text == "<object>"
        and answer_to_text(10**5_000) == ""
    )


HOSTILE = [
    '{"decimal":"1e999999999"}',
    '{"float":"1e999999999"}',
    '{"fraction":["1","3"]}',
    '{"fraction":[1,0]}',
    '{"fraction":[1e99,1]}',
    '{"dict":[[[1],2]]}',
    '{"dict":{"a":1}}',
    '{"set":[[1]]}',
    '{"tuple":7}',
    '{"eval":"1"}',
    '{"list":[],"set":[]}',
    "{}",
    "1.5",
    "9" * 5_000,
    "NaN",
    '"\\ud800"',
    "[" * 30_000,
    '{"tuple":[' * 150 + "]}" * 150,
    "__import__('os')",
    "",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_answer_is_refused_and_named(text, progress_folder):
    with pytest.raises(BadRecord):
        answer_from_text(text)
    lines = [
        {"at": 1, "learner": "a", "state": "right", "exercise": name, "replay": text}
        for name in ("0.1", "3.1", "3.4")
    ]
    (progress_folder / "one.jsonl").write_text("\n".join(map(json.dumps, lines)))
    files, bad = read_and_recheck_hand_ins(progress_folder)
    assert all(line["state"] == "wrong" for line in files["one.jsonl"])
    assert bad == ["one.jsonl: the file says right, but the answer in it is wrong, in 0.1, 3.1, 3.4"]


def test_sql_of_a_learner_is_not_run(progress_folder, monkeypatch):
    monkeypatch.setattr("sqlite3.connect", lambda *_, **__: 1 / 0)
    assert (
        is_right(teach.exercise_of("8.4"), "UPDATE rules SET rule_state = 'PAUSE' WHERE rule_id = 2") is None
    )


def test_what_a_learner_hands_in_is_what_the_report_confirms(progress_folder, monkeypatch):
    assert "nothing to hand in" in lab.hand_in().text
    lab.log_stumbles(name="Ada")
    lab.check("3.4", 5)
    lab.check("3.4", 864)
    lab.check_function("3.2", lambda time, end, width: end - width <= time <= end)
    lab.check("7.1", answer_of("7.1"), SimpleNamespace(ask=lambda message: {"status": "accepted"}))
    place = progress_folder / "room"
    place.mkdir()
    monkeypatch.chdir(place)
    said = lab.hand_in().text
    [file] = place.iterdir()
    assert str(file) in said and "4 checks, 3 of them of solved" in said
    files, bad = read_and_recheck_hand_ins(place)
    [lines] = files.values()
    assert [line.get("checked") for line in lines if line["state"] == RIGHT] == ["confirmed"] * 3 and not bad
