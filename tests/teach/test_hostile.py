"""Answers that never end, or that claim to be what they are not."""

import threading
from contextlib import suppress
from copy import deepcopy

import pytest

import lab
from lab import teach
from lab.teach import judge
from lab.teach.attack import search
from lab.teach.judge import RIGHT, WRONG
from lab.teach.learner import MAX_SHOWN, TimeLimitExceeded, answer_text, call_with_time_limit, plain_value
from tests.teach.test_exercises import NAMES, answer_of, judged
from tests.waiting import PATIENCE_S

# -- what never ends ---------------------------------------------------------------------------------------------------


def endless(*_):
    while True:
        pass


def stubborn(*_):
    while True:
        try:
            len("x")
        except:  # noqa: E722, S110
            pass


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(search, "CALL_S", 0.2)
    monkeypatch.setattr(search, "HISTORIES", 40)
    monkeypatch.setattr(teach, "_wrong", {})  # after another wrong answer to the exercise, a hint follows


FUNCTIONS = [name for name in NAMES if not isinstance(teach.exercise_of(name), judge.ValueExercise)]


@pytest.mark.parametrize("function", [endless, stubborn])
@pytest.mark.parametrize("name", ["3.2", "6.2", "9.1", "9.3"])
def test_a_loop_without_an_end_is_stopped_and_told(name, function, monkeypatch):
    monkeypatch.setattr(judge, "COMPUTING_S", 0.05)
    assert "did not finish within" in judged(name, function).text


def test_what_a_function_prints_is_shown_for_the_cases_that_explain_and_for_no_drawn_one(capsys):
    """A `print` that somebody left in, or wrote in place of return, once put a hundred lines before the verdict."""
    exercise = teach.exercise_of("3.2")

    def told(*arguments):
        print("asked", *arguments)
        return exercise.right(*arguments)

    assert teach.check_function("3.2", told).state == RIGHT
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [" ".join(map(str, ("asked", *arguments))) for arguments, *_ in exercise.cases]
    assert lines[-1] == "… (what else it prints is not shown)"
    teach.check_function("3.2", exercise.right)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_prints_without_end_fills_no_notebook(name, monkeypatch, capsys):
    monkeypatch.setattr(judge, "COMPUTING_S", 0.05)

    def endless_print(*_):
        while True:
            print("again")

    verdict = teach.check_function(name, endless_print)
    assert "did not finish within" in verdict.text
    printed = capsys.readouterr().out
    assert len(printed) < 2_200 and print("still here") is None and capsys.readouterr().out == "still here\n"


def test_it_is_stopped_in_any_thread():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(judged("9.3", endless)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert "did not finish within" in verdicts[0].text


def test_no_interruption_reaches_whoever_set_the_limit():
    for _ in range(20):
        with pytest.raises(TimeLimitExceeded):
            call_with_time_limit(0.001, stubborn)
        assert sum(len(str(n)) for n in range(1000)) == 2890
    assert not [thread for thread in threading.enumerate() if thread.name == "limit"]


def test_what_ends_in_time_is_given_back():
    assert call_with_time_limit(60, max, 3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        call_with_time_limit(60, lambda: 1 / 0)


# -- what is not what it claims to be ----------------------------------------------------------------------------------


class Equal:
    """Equals everything."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class EqualNumber(int):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class EqualList(list):
    def __eq__(self, other):
        return True

    def __len__(self):
        raise RuntimeError("no")

    __hash__ = None


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


class Huge:
    def __repr__(self):
        return "x" * 1_000_000


class Endless:
    def __repr__(self):
        while True:
            pass


class Liar:
    @property  # type: ignore[misc]
    def __class__(self):
        return 1 / 0

    def __getattr__(self, name):
        raise RuntimeError(name)


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no")


def raising(error):
    def function(*_):
        raise error

    return function


deep: list = []
for _ in range(5_000):
    deep = [deep]
loop: list = []
loop.append(loop)
HOSTILE = {
    "equal": Equal(),
    "equal number": EqualNumber(-7),
    "equal list": EqualList([1]),
    "in a list": [Equal()] * 3,
    "as a key": {Equal(): Equal()},
    "unprintable": Unprintable(),
    "unprintable in a dictionary": {"ruleId": Unprintable()},
    "huge": Huge(),
    "endless": Endless(),
    "liar": Liar(),
    "deep": deep,
    "loop": loop,
    "large": [0] * 200_000,
    "huge number": 10**5_000,
    "not a number": float("nan"),
    "bytes": b"\xff" * 1000,
    "text": "\ud800" * 1000,
    "type": Equal,
}


@pytest.mark.parametrize("name", ["0.1", "2.2", "3.4", "3.5", "8.4", "5.1", "6.2", "9.1", "9.2", "9.3"])
@pytest.mark.parametrize("what", HOSTILE)
def test_an_object_that_is_not_what_it_claims_is_refused_in_a_few_words(name, what, monkeypatch):
    monkeypatch.setattr(teach.learner, "COMPUTING_S", 0.1)
    monkeypatch.setattr(judge, "COMPUTING_S", 0.1)
    answer = HOSTILE[what]
    verdict = judged(name, answer)
    assert verdict.state == WRONG and len(verdict.text) < 1_000
    if name in FUNCTIONS:
        verdict = judged(name, lambda *_: answer)
        assert verdict.state == WRONG and len(verdict.text) < 2_500


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "error",
    [SystemExit(1), GeneratorExit(), Silent(), MemoryError("m" * 10_000), RecursionError(), StopIteration()],
)
def test_an_error_of_any_kind_is_told(name, error):
    verdict = judged(name, raising(error))
    assert verdict.state == WRONG and len(verdict.text) < 2_500


def test_a_check_writes_down_hostile_answers_too(progress_folder):
    lab.log_stumbles()
    assert lab.check("3.4", Unprintable()).state == lab.check("3.4", Equal()).state == WRONG


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("change", ["clear", "pop", "reverse", "sort", "extend"])
def test_a_function_that_changes_what_it_is_given_is_told_so_and_spoils_nothing(name, change):
    """A caller may still need its list. Only the memory of lesson 9 is there to be changed, and its copies of rules are the function's own."""
    right, changed = answer_of(name), []

    def spoiling(*given):
        keep = given[0] if name in ("9.2", "9.3") else None
        answer = right(*given)
        for value in given:
            if value is not keep and isinstance(value, (list, dict, set)):
                before = deepcopy(value)
                with suppress(AttributeError, TypeError, IndexError, KeyError):
                    getattr(value, change)(*([[7]] if change == "extend" else []))
                changed.append(value != before)
        return answer

    verdict = judged(name, spoiling)
    if any(changed) and not name.startswith("9."):
        assert (
            verdict.state == WRONG
            and "changed what it was given" in verdict.text
            and " became " in verdict.text
        )
    else:
        assert verdict.state == RIGHT
    assert judged(name, right).state == RIGHT


def test_a_wrong_answer_is_told_before_a_changed_input():
    assert judged("7.3", lambda alerts: alerts.clear() or [1]).text.startswith("<lambda>([{'alertId'") and (
        "gave [1]" in judged("7.3", lambda alerts: alerts.clear() or [1]).text
    )


def test_what_cannot_be_written_down_in_memory_is_told():
    def locking(memory, event, width, late):
        memory.append(threading.Lock())
        return [event]

    text = judged("9.2", locking).text
    assert "did not finish" not in text and judged("9.2", locking).state == WRONG


def test_plain_keeps_what_was_meant():
    assert plain_value({"a": (True, 1.5, "x"), 2: {3}}) == {"a": (True, 1.5, "x"), 2: {3}}
    assert plain_value(EqualNumber(3)) == 3 and type(plain_value(EqualNumber(3))) is int
    assert len(answer_text(Huge())) == MAX_SHOWN and "cannot be printed" in answer_text(Unprintable())
