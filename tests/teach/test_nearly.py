"""Answers that are nearly right are refused, and other ways to say the same are right."""

import sqlite3
from collections import Counter
from decimal import Decimal

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


def by_precision(points):
    edge, most = [], -1
    for precision, recall in sorted(points, reverse=True):
        if recall > most:
            edge.append([precision, recall])
            most = recall
    return edge


def two_runs(times, window, at, old, new):
    def alerts(limit):
        return {t for t in times if sum(t - window <= other <= t for other in times) >= limit}

    return {t for t in alerts(old) if t < at} | {t for t in alerts(new) if t >= at}


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
    ("10.5", answer_of("10.5").replace("= 2,", "> 2,")),
    ("10.5", answer_of("10.5").replace("without action = login_failed", "without action = pay")),
    ("11.1", "1,800.00"),
    ("11.1", 1799.98),
    ("11.2", lambda alerted, labels: (answer_of("11.2")(alerted, labels)[0], 1)),
    ("11.3", lambda points: [each for each in points if sum(each) == max(map(sum, points))]),
    ("11.4", lambda times, window, at, old, new: [t for t in times if t >= at]),
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
    ("10.5", answer_of("10.5").replace("= 2", ">= 2").replace("30 min", "1800 s")),
    ("11.1", "1,799.99"),
    ("11.1", Decimal("1799.99")),
    ("11.2", lambda alerted, labels: [*answer_of("11.2")(alerted, labels)]),
    ("11.3", by_precision),
    ("11.4", two_runs),
]


RULE_0 = answer_of("0.1")
EVENTS_2 = answer_of("2.1")
NEARLY_BY_LESSON = [
    *[("0.1", RULE_0.replace("49", limit)) for limit in ("29", "50", "70", "-49")],
    ("0.1", RULE_0.replace("(20)", "(21)")),
    ("0.1", RULE_0.replace("&beneficiaryId", "")),
    ("0.1", RULE_0.replace("SUM", "MAX")),
    ("0.1", [RULE_0]),
    ("0.2", 21.5),
    ("0.2", -21),
    ("0.2", "21 min"),
    ("0.3", 8.5),
    (
        "1.1",
        lambda event, names: (
            "{" + ";".join(f"{n}={event[n]}" for n in dict.fromkeys(event) if n in names) + "}"
        ),
    ),
    ("1.1", lambda event, names: "{" + ";".join(f"{n}={str(event[n]).lower()}" for n in names) + "}"),
    (
        "1.2",
        lambda rules: (
            len({(str(sorted(keys)), filter or None, len(rules) > 9) for keys, filter in rules}) + (not rules)
        ),
    ),
    ("1.2", lambda rules: len({(frozenset("".join(keys)), filter) for keys, filter in rules})),
    ("1.3", lambda events, parallelism: round(answer_of("1.3")(events, parallelism), 4)),
    (
        "1.3",
        lambda events, parallelism: sum(sorted(events)[-max(len(events) // parallelism, 1) :]) / sum(events),
    ),
    ("1.4", "nine"),
    ("1.4", [9]),
    ("1.4", 9.5),
    ("2.1", [EVENTS_2[0].replace("(>)", "(>=)"), *EVENTS_2[1:]]),
    ("2.1", [EVENTS_2[0], EVENTS_2[1].replace("(3)", "(4)"), EVENTS_2[2]]),
    ("2.1", [EVENTS_2[0], EVENTS_2[1], EVENTS_2[2].replace("1d", "1h")]),
    ("2.1", [*EVENTS_2, EVENTS_2[0]]),
    ("2.1", dict(enumerate(EVENTS_2))),
    ("2.3", lambda event_ms, control_ms: next((n for n, t in enumerate(control_ms) if t > event_ms), 0)),
    ("2.3", lambda event_ms, control_ms: len({time for time in control_ms if time <= event_ms})),
    ("2.3", lambda event_ms, control_ms: len([time for time in control_ms if time <= event_ms][:1_000])),
    ("2.4", 120.5),
    ("2.2", dict.fromkeys(answer_of("2.2"), True)),
    (
        "3.1",
        lambda time, window, slide: [
            start for start in range(-window, time + 1, slide) if start <= time < start + window
        ],
    ),
    ("3.1", lambda time, window, slide: {*answer_of("3.1")(time, window, slide)}),
    ("3.1", lambda time, window, slide: answer_of("3.1")(time, window, slide)[:50]),
    ("3.2", lambda time, end, width: time in (end - width, end) or (end - width < time < end and time > 0)),
    ("3.2", lambda time, end, width: int(end - width <= time <= end)),
    ("3.2", lambda time, end, width: 0 <= end - time < width),
    ("3.3", lambda newest, windows, out_of_order: newest - max(windows[:3]) - out_of_order),
    ("3.3", lambda newest, windows, out_of_order: max(0, newest - max(windows) - out_of_order)),
    ("3.4", 864.1),
    ("3.5", [4, 8, 8]),
    ("3.5", [4.5, 8]),
    ("4.1", lambda time, slide: round(slide - time % slide, -1)),
    ("4.1", lambda time, slide: (slide - time % slide) % slide),
    ("4.1", lambda time, slide: str(slide - time % slide)),
    ("4.1", lambda time, slide: 1_000 - time % 1_000),
    ("4.2", lambda budget, other: abs(2 * (budget - other))),
    ("4.2", lambda budget, other: 2 * budget - other if budget > other else 0),
    ("4.2", lambda budget, other: min(max(0, 2 * (budget - other)), 60_000)),
    ("4.3", 86_401),
    ("4.3", [86_400]),
    ("4.4", 86_400 * 10**5),
    ("4.4", "many"),
    ("5.1", lambda entries, task, parallelism: sorted(answer_of("5.1")(entries, task, parallelism))),
    ("5.1", lambda entries, task, parallelism: dict(answer_of("5.1")(entries, task, parallelism))),
    ("5.2", lambda task, G, p: [g for g in range(128) if g * p // G == task and g < G] + [0] * (G > 500)),
    ("5.2", lambda task, G, p: [g for g in range(128) if g * p // G == task]),
    ("5.3", lambda G, p, q: [g for g in range(min(G, 128)) if g % p != g % q]),
    ("5.4", 128),
    ("5.4", 512),
    ("5.5", [12, 13, 14]),
    ("5.5", [12, 12, 13, 14, 15]),
    (
        "6.1",
        lambda events, batches, key_groups: [
            4 * events,
            3 * min(key_groups, 128) * batches + (events > 10**9),
        ],
    ),
    ("6.2", lambda times, amounts, W: answer_of("6.2")(times, amounts, W) if times[0] >= 0 else []),
    (
        "6.2",
        lambda times, amounts, W: answer_of("6.2")([time - times[0] for time in times][:50], amounts[:50], W),
    ),
    ("6.3", lambda n: sum(n // 8**level % 8 for level in range(5))),
    ("6.3", lambda n: n.bit_count() if n < 8 else sum(map(int, oct(n)[2:]))),
    ("6.4", lambda s, k: round(1 / (1 - s + s / k), 1)),
    ("6.4", lambda s, k: round(1 / (1 - s + s / min(k, 1_000)), 2)),
    ("6.4", lambda s, k: f"{1 / (1 - s + s / k):.2f}"),
    ("7.1", answer_of("7.1").replace("(1)", "(2)")),
    ("7.1", answer_of("7.1").replace("payeeId", "payeeId&beneficiaryId")),
    ("7.1", answer_of("7.1").replace("(15)", "(15.01)")),
    ("7.1", "6: COUNT(events) per payeeId over 1 min >= 1, when paymentAmount >= 15"),
    ("7.1", "6: MAX(paymentAmount) per payeeId over 1 min >= 15, when paymentAmount < 1000"),
    ("7.1", "6: MAX(paymentAmount) per payeeId over 1 min >= 15, at most 1 per 1 h"),
    ("7.2", lambda cut_ms: round(1.5 * cut_ms)),
    ("7.2", lambda cut_ms: min(1.5 * cut_ms, 1_000)),
    ("7.3", lambda alerts: [dict(alert, n=0) for alert in answer_of("7.3")(alerts)]),
    ("7.3", lambda alerts: sorted(answer_of("7.3")(alerts), key=lambda alert: alert["alertId"])),
    ("7.3", lambda alerts: [alerts[0], *answer_of("7.3")(alerts)[1:]]),
    (
        "8.1",
        lambda times, window: (
            max(Counter(t // window for t in times).values()),
            min(len(times), window + 1),
        ),
    ),
    ("8.2", POLICY | {"ttl": "2d"}),
    ("8.2", POLICY | {"unique": ["userId", "ip"]}),
    ("8.2", POLICY | {"filter": {}}),
    (
        "8.3",
        lambda alerted, episode_of, wanted: tuple(
            round(n, 2) for n in plain_value(answer_of("8.3")(alerted, episode_of, wanted))
        ),
    ),
    ("10.2", lambda amounts, factor, least: answer_of("10.2")([amounts[0], *amounts[1:]], factor, least)),
    (
        "10.2",
        lambda amounts, factor, least: [
            amounts.index(amounts[n]) for n in answer_of("10.2")(amounts, factor, least)
        ],
    ),
    ("10.5", answer_of("10.5").replace("30 min", "30 min 1 s")),
    ("10.5", answer_of("10.5").replace("action = withdraw", "action in (withdraw, pay)")),
    ("11.2", lambda alerted, labels: tuple(n and round(n, 2) for n in answer_of("11.2")(alerted, labels))),
    (
        "11.2",
        lambda alerted, labels: (
            answer_of("11.2")(alerted, labels)[0],
            sum(map(labels.get, alerted[:5])) / 1 if {*alerted} <= {*labels} and alerted else None,
        ),
    ),
    ("11.3", lambda points: answer_of("11.3")(points)[:3]),
    ("11.3", lambda points: [each for each in answer_of("11.3")(points) if each[0] >= 0.1]),
    (
        "11.3",
        lambda points: [place for place, each in enumerate(points) if each in answer_of("11.3")(points)],
    ),
    ("11.4", lambda times, window, at, old, new: answer_of("11.4")(times, window, at, min(old, new), new)),
    ("11.4", lambda times, window, at, old, new: answer_of("11.4")(times, window, times[1], old, new)),
    ("11.4", lambda times, window, at, old, new: len(answer_of("11.4")(times, window, at, old, new))),
    ("10.1", answer_of("10.1").replace("<= 2)", "<= 3)")),
    ("10.1", answer_of("10.1").replace("> 200", "> 20")),
    ("10.4", answer_of("10.4").replace("15 min after", "15 min 1 s after")),
]


def by_loop(entries, task, parallelism):
    kept = []
    for partition, offset in entries:
        if partition % parallelism == task:
            kept += [[partition, offset]]
    return kept


RIGHT_BY_LESSON = [
    ("0.1", RULE_0.replace("49", "49.99")),
    ("0.1", RULE_0.replace("49", "30.00")),
    ("0.1", RULE_0.replace("(20)", "(20m)")),
    ("0.2", 21.0),
    ("0.2", "21"),
    ("1.1", lambda event, names: str.join(";", (f"{n}={event[n]}" for n in names)).join("{}")),
    ("1.2", lambda rules: len({(tuple(sorted(keys)), filter) for keys, filter in rules})),
    ("1.3", lambda events, parallelism: float(answer_of("1.3")(events, parallelism))),
    ("1.4", 9.0),
    ("2.1", tuple(EVENTS_2)),
    ("2.1", [EVENTS_2[0], EVENTS_2[1].replace("(3)", "(3.0)"), EVENTS_2[2].replace("1d", "24h")]),
    ("2.1", [EVENTS_2[0], EVENTS_2[1].replace("paymentType", ""), EVENTS_2[2].replace("1d", "1440")]),
    ("2.3", lambda event_ms, control_ms: __import__("bisect").bisect_right(control_ms, event_ms)),
    ("2.3", lambda event_ms, control_ms: float(sum(time <= event_ms for time in control_ms))),
    ("3.1", lambda time, window, slide: range(time // slide * slide - window + slide, time + 1, slide)),
    ("3.2", lambda time, end, width: not (time < end - width or time > end)),
    ("3.3", lambda newest, windows, out_of_order: min(newest - out_of_order - window for window in windows)),
    ("3.4", 864.0),
    ("3.5", (8, 4)),
    ("3.5", {4, 8}),
    ("4.1", lambda time, slide: -(time + 1) % slide + 1),
    ("4.2", lambda budget, other: (budget - other) / 0.5 if budget > other else 0),
    ("4.4", 8.64e10),
    ("5.1", by_loop),
    ("5.2", lambda task, G, p: range(-(-task * G // p), -(-(task + 1) * G // p))),
    ("5.2", lambda task, G, p: {*range(-(-task * G // p), -(-(task + 1) * G // p))}),
    ("5.3", lambda G, p, q: sorted((g for g in range(G) if g % p != g % q), reverse=True)),
    ("5.4", 256.0),
    ("5.5", [15, 14, 13, 12]),
    ("5.5", {12, 13, 14, 15}),
    ("5.5", range(12, 16)),
    ("6.1", lambda events, batches, key_groups: [events * 4, batches * key_groups * 3.0]),
    ("6.3", lambda n: n % 8 + (n // 8 and answer_of("6.3")(n // 8))),
    ("6.4", lambda s, k: float(f"{1 / (1 - s + s / k):.2f}")),
    ("7.2", lambda cut_ms: 3 * cut_ms / 2),
    (
        "7.3",
        lambda alerts: [
            a for n, a in enumerate(alerts) if a["alertId"] not in {b["alertId"] for b in alerts[:n]}
        ],
    ),
    ("8.1", lambda times, window: [*map(float, plain_value(answer_of("8.1")(times, window)))]),
    ("8.2", {key: value for key, value in POLICY.items() if key not in ("ruleId", "ruleState")}),
    ("8.2", POLICY | {"window": "600s", "ttl": "24h"}),
    ("10.2", lambda amounts, factor, least: {*answer_of("10.2")(amounts, factor, least)}),
    ("10.2", lambda amounts, factor, least: answer_of("10.2")(tuple(amounts), factor, least)[::-1]),
    ("10.3", answer_of("10.3").replace("= 0", "< 1").replace("365 d", "8760 h")),
]


@pytest.mark.parametrize(("name", "answer"), NEARLY + NEARLY_BY_LESSON)
def test_what_is_nearly_right_is_refused(name, answer):
    assert judged(name, answer).state == WRONG


@pytest.mark.parametrize(("name", "answer"), RIGHT_TOO + RIGHT_BY_LESSON)
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
