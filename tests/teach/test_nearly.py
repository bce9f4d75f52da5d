"""Answers that are nearly right are refused, and other ways to say the same are right."""

import sqlite3
from collections import Counter

import pytest

from lab import teach
from lab.stream.accounts import ACCOUNT_EVENTS
from lab.teach.exercises.given import rule_from_message
from lab.teach.judge import RIGHT, WRONG
from lab.teach.learner import plain_value
from tests.teach.test_exercises import answer_of, given, judged


def chunks(events, parallelism):
    size = max(len(events) // parallelism, 1)
    return max(sum(events[at : at + size]) for at in range(0, len(events), size)) / sum(events)


def walk(times, amounts, W):
    return [sum(a for t, a in zip(times[: i + 1], amounts) if t >= now - W) for i, now in enumerate(times)]


def slices(times, amounts, W):
    from bisect import bisect_left

    return [sum(amounts[bisect_left(times, now - W) : i + 1]) for i, now in enumerate(times)]


def arrays(times, amounts, W):
    import numpy as np

    times, amounts = np.array(times), np.array(amounts)
    return [int(amounts[np.searchsorted(times, t - W) : i + 1].sum()) for i, t in enumerate(times)]


def prefix_sums(times, amounts, W):
    from bisect import bisect_left
    from itertools import accumulate

    sums = [0, *accumulate(amounts)]
    return [sums[i + 1] - sums[bisect_left(times, t - W)] for i, t in enumerate(times)]


def last_window(times, window):
    tumbling = max(Counter(time // window for time in times).values())
    return tumbling, sum(times[-1] - window <= time for time in times)


def unwanted(alerted, episode_of, wanted):
    hits = [episode_of[number] for number in alerted if number in episode_of]
    return len(hits) / len(alerted) if alerted else 1, len(set(hits)) / len(wanted)


def without_values(event, rules):
    copies = {}
    for rule in rules:
        if all(event[n] in v for n, v in rule.filter.items()) and all(
            event[n] is not None for n in rule.keys
        ):
            ids, group, fields = copies.setdefault(
                (frozenset(rule.keys), frozenset(rule.filter)), ([], {}, {})
            )
            ids.append(rule.id)
            group.update({name: event[name] for name in rule.keys})
            fields.update({name: event[name] for name in rule.fields})
    return list(copies.values())


def duplicate_window(memory, event, width, late):
    if event in memory[-3:]:
        return None
    memory.append(event)
    return [old for old in memory if event.time - width <= old.time <= event.time]


def duplicate_count(memory, event, width, limit):
    if any(event == old for old, used in memory[-3:]):
        return False
    memory.append((event, False))
    enough = sum(not used and event.time - width <= old.time <= event.time for old, used in memory) >= limit
    if enough:
        memory[:] = [(old, True) for old, used in memory]
    return enough


def limit_two(memory, event, width, limit):
    return answer_of("9.3")(memory, event, width, 2)


OTHER_WAY_ROUND = (
    "SUM(amount where action = pay) per account, payee over 365 d without the current event < 10 "
    "or COUNT(events where action = pay) over 365 d without the current event = 0, when amount > 3000 and action = pay"
)
POLICY = answer_of("8.2")
NEARLY = [
    ("1.1", lambda event, names: "{" + ";".join(f"{name}={event[name]!r}" for name in names) + "}"),
    ("1.2", lambda rules: len({(frozenset(keys), bool(filter)) for keys, filter in rules})),
    ("1.3", chunks),
    ("2.1", [answer_of("2.1")[0].replace("active", "pause"), *answer_of("2.1")[1:]]),
    ("4.2", lambda budget, other: min(1000, max(0, 2 * (budget - other)))),
    ("6.1", lambda events, batches, key_groups: (4 * events, 3 * 16 * batches)),
    ("6.2", walk),
    ("6.2", slices),
    ("6.2", arrays),
    ("6.3", lambda n: n // 64 + n % 64 // 8 + n % 8),
    ("6.4", lambda s, k: int(100 / (1 - s + s / k)) / 100),
    ("7.1", answer_of("7.1").replace("active", "pause")),
    ("8.1", lambda times, window: (plain_value(answer_of("8.1")(times, window))[0], len(times))),
    ("8.1", last_window),
    ("8.2", POLICY | {"ruleState": "PAUSE"}),
    ("8.3", unwanted),
    ("9.1", without_values),
    ("9.2", duplicate_window),
    ("9.3", duplicate_count),
    ("9.3", limit_two),
    ("10.1", answer_of("10.1").replace("30 min", "31 min")),
    ("10.1", f"1 PAUSE: {answer_of('10.1')}"),
    ("10.1", f"{answer_of('10.1')}, at most 1 per 1 h"),
    ("10.3", answer_of("10.3").replace("SUM(amount", "MAX(amount")),
    (
        "10.3",
        answer_of("10.3").replace(
            "over 365 d without the current event < 10", "over 364 d without the current event < 10"
        ),
    ),
    ("10.4", answer_of("10.4").replace("action = reset", "action in (reset, pay)")),
    ("10.5", lambda times, most, per: times[:most]),
]
RIGHT_TOO = [
    ("6.2", prefix_sums),
    ("8.2", POLICY | {"limitOperatorType": ">", "limit": 4}),
    ("7.1", answer_of("7.1").replace("(>=),(15)", "(>),(14.99)")),
    ("10.1", answer_of("10.1").replace("<= 2", "< 2.01").replace("30 min", "1800 s").replace(">= 4", "> 3")),
    ("10.1", f"8: {answer_of('10.1')}"),
    ("10.1", rule_from_message(f"1: {answer_of('10.1')}", "it", ACCOUNT_EVENTS).to_dict()),
    ("10.3", OTHER_WAY_ROUND),
    ("10.4", answer_of("10.4").replace("15 min", "900 s")),
]


@pytest.mark.parametrize(("name", "answer"), NEARLY)
def test_what_is_nearly_right_is_refused(name, answer):
    assert judged(name, answer).state == WRONG


@pytest.mark.parametrize(("name", "answer"), RIGHT_TOO)
def test_another_way_to_say_the_same_is_right(name, answer):
    verdict = judged(name, answer)
    assert verdict.state == RIGHT, verdict


def test_a_walk_is_told_what_is_wrong_with_it():
    assert "The sums are right, but each window is added up from scratch" in judged("6.2", walk).text


def test_an_event_of_the_same_time_that_comes_later_in_the_list_is_explained():
    def ahead(times, amounts, W):
        return [sum(a for at, a in zip(times, amounts) if t - W <= at <= t) for t in times]

    assert "not the next one, even if that has the same time" in judged("6.2", ahead).text


def test_the_counterexamples_of_a_count_state_its_limit():
    assert "limit is 2" in judged("9.3", lambda memory, event, width, limit: True).text


# -- an edit of a database ---------------------------------------------------------------------------------------------

EDIT = answer_of("8.4")


def rules_of(database: sqlite3.Connection) -> list[tuple]:
    return database.execute("SELECT * FROM rules ORDER BY rule_id").fetchall()


def test_an_edit_that_is_right_may_be_checked_again_and_nothing_else_is_right_then():
    exercise, [database] = teach.exercise_of("8.4"), given("8.4")
    assert exercise.judge(EDIT, database).state == exercise.judge(EDIT, database).state == RIGHT
    edited = rules_of(database)
    for other in (
        "SELECT 1",
        "UPDATE rules SET rule_state = 'PAUSE'",
        "UPDATE rules SET rule_state = rule_state",
    ):
        assert exercise.judge(other, database).state == WRONG
    assert rules_of(database) == edited


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE rules SET rule_state = 'PAUSE', limit_value = '1' WHERE rule_id = 2",
        "COMMIT",
        "ROLLBACK",
        "DROP TABLE rules",
        "ATTACH DATABASE '/tmp/other.db' AS other",
        "PRAGMA user_version = 7",
        "INSERT INTO rules VALUES (4, 'ACTIVE', '3', 'me')",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "UPDATE rules SET rule_state = 'PAUSE' WHERE rule_id = 2; DROP TABLE rules",
        "\0",
    ],
)
def test_an_edit_that_does_something_else_is_undone(edit):
    [database] = given("8.4")
    before = rules_of(database)
    verdict = teach.exercise_of("8.4").judge(edit, database)
    assert verdict.state == WRONG and rules_of(database) == before and not database.in_transaction


def test_who_made_the_edit_may_be_noted():
    [database] = given("8.4")
    edit = EDIT.replace("WHERE", ", changed_by = 'me' WHERE")
    assert teach.exercise_of("8.4").judge(edit, database).state == RIGHT


def test_a_database_that_is_closed_is_told_so():
    [database] = given("8.4")
    database.close()
    assert "closed database" in teach.exercise_of("8.4").judge(EDIT, database).text
