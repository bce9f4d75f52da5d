"""Every planted mistake is found, on a short history; what a learner's function does wrong is said kindly."""

import re
from math import inf

import pytest

import lab
from lab.teach.attack import search
from lab.teach.attack.routemistakes import ROUTE
from lab.teach.attack.search import shortest_counterexample
from lab.teach.attack.timeline import (
    LATE,
    BatchEnd,
    Crash,
    Event,
    History,
    WidthChange,
    history_size,
    random_history,
    simpler_histories,
)
from lab.teach.attack.windowgames import WindowGame
from lab.teach.attack.windowmistakes import COUNT, WINDOW, _windowed
from lab.teach.exercises.lesson9 import EXERCISES
from lab.teach.judge import OPEN, RIGHT, WRONG

GAMES = {"9.1": ROUTE, "9.2": WINDOW, "9.3": COUNT}
PLANTED = [(name, mistake) for name, mistakes in GAMES.items() for mistake in mistakes]
EVENTS = 6


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """A busy machine tries as many histories as another; nobody waits long for a loop without an end."""
    monkeypatch.setattr(search, "CALL_S", 0.2)
    monkeypatch.setattr(search, "SECONDS", inf)
    monkeypatch.setattr(search, "SHRINKING_S", inf)


def right_window(memory, event, width, late):
    if event in memory:
        return None
    memory.append(event)
    newest = max(other.time for other in memory)
    memory[:] = [other for other in memory if other.time >= newest - width - late]
    return [other for other in memory if event.time - width <= other.time <= event.time]


def test_there_are_many_planted_mistakes():
    assert len(PLANTED) >= 15


@pytest.mark.parametrize(("name", "mistake"), PLANTED, ids=[mistake.says[:60] for _, mistake in PLANTED])
def test_a_planted_mistake_is_found_soon_on_a_short_history(name, mistake):
    game = EXERCISES[name].game
    found = shortest_counterexample(game, mistake.answer)
    assert found.difference and game.size(found.history)[0] <= EVENTS


def test_a_right_function_stands_all_histories():
    verdict = EXERCISES["9.2"].judge(right_window)
    assert verdict.state == RIGHT and "no difference from the reference in 400 histories" in verdict.text


def test_the_history_the_answers_and_the_reason_are_told_and_drawn():
    verdict = EXERCISES["9.2"].judge(WINDOW[0].answer)
    assert re.search(
        r"At b expected: a, b. Your function gave: b.\na is missing: it is exactly \d+ min before b",
        verdict.text,
    )
    assert verdict.picture_html.startswith("<svg") and ">a: missing<" in verdict.picture_html
    assert verdict.picture_html in verdict._repr_html_()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda memory, event, width, late: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda memory: [], "raised TypeError"),
        (lambda memory, event, width, late: 5, "gave 5; expected a list of events, or None for a duplicate"),
        (lambda memory, event, width, late: [7], "gave a list with 7 in it"),
        (lambda *given: again(*given), "called itself without end"),
    ],
    ids=["error", "arguments", "number", "not an event", "recursion"],
)
def test_what_a_function_does_wrong_is_told_with_the_history_that_made_it(function, says):
    verdict = EXERCISES["9.2"].judge(function)
    assert verdict.state == WRONG and says in verdict.text
    assert "1. a happened at minute 0" in verdict.text


def again(*given):
    return again(*given)


def test_looking_at_an_attack_is_no_try(progress_folder):
    lab.log_stumbles()
    for _ in range(3):
        assert "Hint" not in lab.attack("9.2", WINDOW[0].answer).text
    assert "Hint" not in lab.check_function("9.2", WINDOW[0].answer).text
    [log] = progress_folder.glob("stumbles-*")
    assert len(log.read_text().splitlines()) == 2


def endless(memory, event, width, late):
    while memory:
        pass
    memory.append(event)
    return [event]


def stubborn(memory, event, width, late):
    while True:
        try:
            len(memory)
        except Exception:  # noqa: BLE001, S110
            pass


@pytest.mark.parametrize("function", [endless, stubborn])
def test_a_function_that_never_ends_is_stopped_whatever_it_catches(function):
    assert "did not finish within" in EXERCISES["9.2"].judge(function).text


def test_a_function_that_remembers_elsewhere_is_told_so_each_time():
    for _ in range(2):
        assert EXERCISES["9.2"].judge(WINDOW[-1].answer).text.startswith(WINDOW[-1].says)


@pytest.mark.parametrize("name", GAMES)
def test_a_stub_is_open(name):
    assert EXERCISES[name].judge(lambda *given: ...).state == OPEN


def test_a_route_that_gives_nothing_is_told_what_is_expected():
    assert "gave None; expected a list of copies" in EXERCISES["9.1"].judge(lambda event, rules: None).text
    text = EXERCISES["9.1"].judge(lambda event, rules: [1]).text
    assert "gave [1]; expected a list of (rule ids, group, fields)" in text


def test_a_crash_gives_memory_back_as_it_was_at_the_cut():
    seen = []

    def watching(memory, event, width, late):
        seen.append((event.id, list(memory)))
        return right_window(memory, event, width, late)

    a, b = Event(1, 0, 1), Event(2, 5, 1)
    game, history = WindowGame(), History(10, (a, BatchEnd(), b, Crash()))
    assert game.first_difference(history, game.run(watching, history)) is None
    assert seen == [(1, []), (2, [a]), (2, [a])]


def test_what_is_forgotten_before_the_rule_widens_may_be_known_or_not():
    game = WindowGame()
    history = History(10, (Event(1, 0, 1), Event(2, 20, 1), WidthChange(40), Event(3, 21, 1)))
    for function in (right_window, _windowed(oldest=lambda *_: -1)):
        assert game.first_difference(history, game.run(function, history)) is None


def test_histories_have_all_kinds_of_trouble():
    many = [random_history(seed, 8) for seed in range(100)]
    entries = [entry for history in many for entry in history.entries]
    assert {type(entry) for entry in entries} == {Event, BatchEnd, Crash, WidthChange}
    assert any(len(history.names) < len(history.events) for history in many)  # duplicates
    assert any(not history.has_no_too_late_events for history in many) is False, "too late to be judged"
    late = [
        e
        for h in many
        for e, f in zip(h.events, h.events[1:])
        if f.payee == e.payee and 0 < e.time - f.time <= LATE
    ]
    assert late


def test_what_is_simpler_is_another_history_and_small_in_the_end():
    history = random_history(3, 8)
    assert all(
        other != history
        for other in simpler_histories(history)
        if history_size(other) < history_size(history)
    )
    assert any(history_size(other) < history_size(history) for other in simpler_histories(history))
