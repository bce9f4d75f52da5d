"""From data to policy."""

import sqlite3
from collections import Counter
from itertools import accumulate
from random import Random

from lab.model.language import say
from lab.model.schema import LOGINS
from lab.teach.exercises.given import canonical_rule_text, rule_from_message
from lab.teach.judge import AnswerRefused, FunctionExercise, Mistake, ValueExercise
from lab.teach.learner import answer_text

POLICY = {
    "ruleId": 3,
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["ip"],
    "filter": {"action": "login_failed"},
    "aggregatorFunctionType": "UNIQUE_COUNT",
    "unique": ["userId"],
    "limitOperatorType": ">=",
    "limit": 5,
    "window": "10m",
    "action": "block_login",
    "ttl": "1d",
}
EDITED = {"rule 2: rule_state": "PAUSE"}
READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
SQL_STEPS = 100_000  # of SQLite's machine; an edit of three rows takes less than a hundred


def policy_rule_text(message: object) -> str:
    """The canonical text of the rule in a policy on logins."""
    rule = rule_from_message(message, "stuffing", LOGINS, rule_id=3)
    if rule.rule_id != POLICY["ruleId"]:
        raise AnswerRefused(say("its id must be 3, not {answer}", answer=rule.rule_id))
    return canonical_rule_text(rule, LOGINS)


def run_edit_and_list_changes(edit: object, database: sqlite3.Connection) -> dict[str, object]:
    """Runs an edit on rules that are all active, and lists what the edit changed; undoes the edit if it is not the requested one."""
    if not isinstance(edit, str):
        raise AnswerRefused(say("an edit must be SQL in a string, not {answer}", answer=answer_text(edit)))
    try:
        database.execute("BEGIN")
        solved_before = database.execute(
            "UPDATE rules SET rule_state = 'ACTIVE' WHERE rule_id = 2 AND rule_state = 'PAUSE'"
        ).rowcount
        before = _rows(database)
        _run(edit, database)
        changed = _changes(before, _rows(database))
    except sqlite3.Error as error:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise AnswerRefused(say("the database says: {reason}", reason=error)) from None
    database.execute("COMMIT" if changed == EDITED and not solved_before else "ROLLBACK")
    return changed


def _run(edit: str, database: sqlite3.Connection) -> None:
    """One statement that reads, or writes the table of rules; it may not end the transaction, nor go on for ever."""

    def allowed(
        action: int, one: str | None, _two: str | None, _file: str | None, trigger: str | None
    ) -> int:
        writes = (
            action in (sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_DELETE) and one == "rules"
        )
        return sqlite3.SQLITE_OK if action in READS or writes or trigger else sqlite3.SQLITE_DENY

    database.set_authorizer(allowed)
    database.set_progress_handler(lambda: True, SQL_STEPS)
    try:
        database.execute(edit).fetchmany(1)
    finally:
        database.set_authorizer(None)
        database.set_progress_handler(None, 0)


def _rows(database: sqlite3.Connection) -> dict[int, dict]:
    found = database.execute("SELECT * FROM rules ORDER BY rule_id")
    names = [column[0] for column in found.description]
    return {row["rule_id"]: row for row in (dict(zip(names, values)) for values in found.fetchall())}


def _changes(before: dict[int, dict], after: dict[int, dict]) -> dict[str, object]:
    """What differs, by rule and column; who made the change is no part of it."""
    changed: dict[str, object] = {}
    for number in sorted(before.keys() | after.keys()):
        was, now = before.get(number, {}), after.get(number, {})
        for column in (was.keys() | now.keys()) - {"changed_by"}:
            if was.get(column) != now.get(column):
                changed[f"rule {number}: {column}"] = now.get(column, "gone")
    return changed


def _fullest_windows(times: list, window: int, first: int = 0, left: int = 0) -> tuple[int, int]:
    tumbling = max(Counter((time - first) // window for time in times).values())
    return tumbling, max(sum(end - window + left <= time <= end for time in times) for end in times)


def _times_and_window(random: Random, size: int) -> tuple:
    times = list(accumulate(random.choice((0, 1, 5, 10, 30, 60)) for _ in range(1 + size // 6)))
    return times, random.choice((5, 10, 30, 60))


def _alerts_of_episodes(random: Random, size: int) -> tuple:
    events = range(1, 3 + size // 5)
    episode_of = {number: random.randint(1, 6) for number in events if random.random() < 0.7}
    return (
        sorted(random.sample(events, random.randint(0, len(events)))),
        episode_of,
        set(random.sample(range(1, 7), 3)),
    )


def _precision_recall(alerted: list, episode_of: dict, wanted: set) -> tuple:
    hits = _hits(alerted, episode_of)
    return len(hits) / len(alerted) if alerted else 1, len(wanted & set(hits)) / len(wanted)


def _hits(alerted: list, episode_of: dict) -> list:
    return [episode_of[number] for number in alerted if number in episode_of]


EXERCISES = {
    "8.1": FunctionExercise(
        cases=(
            (
                ([30, 40, 50, 60, 70, 80], 60),
                (3, 6),
                "the edge at 60 cuts the six events into three and three",
            ),
            (([0, 10, 20], 60), (3, 3)),
            (([0, 2**32], 60), (1, 1)),
            (([0, 60], 60), (1, 2), "both ends of the window that ends with an event count"),
            (([0, 1, 2, 500], 60), (3, 3), "the fullest window need not be the last"),
        ),
        right=_fullest_windows,
        draw=_times_and_window,
        because="Only the window that ends with an event sees the whole of an attack that crosses an edge.",
        hints=(
            "Counter(time // window for time in times) counts by tumbling window.",
            "For each end in times, count the times with end - window <= time <= end. Then take the max(…) of these counts.",
        ),
        mistakes=(
            Mistake(
                lambda times, window: _fullest_windows(times, window)[::-1],
                "The tumbling window's number comes first.",
            ),
            Mistake(
                lambda times, window: _fullest_windows(times, window, left=1),
                "The window that ends with an event also contains an event exactly W before it: both ends count.",
            ),
            Mistake(
                lambda times, window: _fullest_windows(times, window, times[0]),
                "Tumbling windows start at multiples of W, not where the attack begins.",
            ),
        ),
    ),
    "8.2": ValueExercise(
        right=policy_rule_text(POLICY),
        read=policy_rule_text,
        because="This is rule 3 of the rule book.",
        hints=(
            "It needs groupingKeyNames, filter, aggregatorFunctionType with unique, limitOperatorType, limit, window, action with ttl.",
            "UNIQUE_COUNT counts the distinct values of the fields in unique: here userId, for each ip.",
        ),
        mistakes=(
            Mistake(
                {"ruleId": 1}, "Its id must be 3: id 1 would replace the policy on wrong passwords per user."
            ),
            Mistake(
                {"groupingKeyNames": ["userId"]}, "That counts per user. The policy counts per address: ip."
            ),
            Mistake(
                {"filter": {"action": "login"}},
                "A wrong password is not a login: its action is login_failed.",
            ),
            Mistake(
                {"aggregatorFunctionType": "COUNT"},
                "That counts wrong passwords. The policy counts different users.",
            ),
            Mistake(
                {"limitOperatorType": ">", "limit": 5},
                "Five users must already alert: the policy says five or more.",
            ),
            Mistake({"window": "10s"}, "The window must be ten minutes: 10m."),
            Mistake(
                {"ruleState": "PAUSE"}, "That policy is paused, so it never alerts. Its state must be ACTIVE."
            ),
            Mistake({"action": None}, "The action is missing: block_login, with a ttl of a day."),
        ),
    ),
    "8.3": FunctionExercise(
        cases=(
            (
                ([1, 2, 9], {1: 7, 2: 7, 3: 8}, {7, 8}),
                (2 / 3, 1 / 2),
                "event 9 is a false alarm, episode 8 is missed",
            ),
            (([], {1: 7}, {7}), (1, 0), "without alerts nothing is wrong, and nothing is found"),
            (([1, 3], {1: 7, 3: 8}, {7, 8}), (1, 1)),
            (([2**32 + 1], {1: 7}, {7}), (0, 0)),
            ((list(range(1, 151)), {150: 7}, {7}), (1 / 150, 1)),
            (
                ([1, 2], {1: 7, 2: 9}, {7, 8}),
                (1, 1 / 2),
                "episode 9 is an attack, but not one of the wanted ones",
            ),
        ),
        right=_precision_recall,
        draw=_alerts_of_episodes,
        because="Precision counts events, recall counts episodes.",
        hints=(
            "Alerted events that are not in the dictionary are false alarms.",
            "An episode is found if any of its events is alerted: intersect wanted with the set of the episodes that were hit.",
        ),
        mistakes=(
            Mistake(
                lambda alerted, episode_of, wanted: (
                    len(_hits(alerted, episode_of)) / len(alerted) if alerted else 1,
                    len(_hits(alerted, episode_of)) / len(wanted),
                ),
                "An episode with two alerts counts once: recall counts distinct episodes.",
            ),
            Mistake(
                lambda alerted, episode_of, wanted: (
                    len(_hits(alerted, episode_of)) / len(alerted),
                    len(wanted & set(_hits(alerted, episode_of))) / len(wanted),
                ),
                "Without alerts the precision is 1, because no alert was wrong.",
            ),
            Mistake(
                lambda alerted, episode_of, wanted: (
                    len(wanted & set(_hits(alerted, episode_of))) / len(wanted),
                    len(_hits(alerted, episode_of)) / len(alerted) if alerted else 1,
                ),
                "Precision comes first, recall second.",
            ),
        ),
    ),
    "8.4": ValueExercise(
        right=EDITED,
        read=run_edit_and_list_changes,
        needs={"database": "set_authorizer"},
        given_on_recheck=None,  # an instructor's machine does not run a learner's SQL
        because="The change is on its way to the engine.",
        hints=(
            "The column is rule_state; the states are ACTIVE and PAUSE.",
            "UPDATE rules SET … WHERE rule_id = …; without WHERE, all rows change.",
        ),
        mistakes=(
            Mistake(
                "UPDATE rules SET rule_state = 'PAUSE'",
                "That pauses all rules: choose one with WHERE. The edit was undone.",
            ),
            Mistake(
                "UPDATE rules SET rule_state = 'PAUSE' WHERE rule_id = 1",
                "That pauses rule 1, not rule 2. The edit was undone.",
            ),
            Mistake(
                "DELETE FROM rules WHERE rule_id = 2",
                "That deletes the row, and with it the rule. Only pause it. The edit was undone.",
            ),
            Mistake("SELECT 1", "That changes nothing. Change the value of one column in the row of rule 2."),
            Mistake(
                "UPDATE rules SET rule_state = 'PAUSED' WHERE rule_id = 2",
                "The state is spelled PAUSE; the rule book accepts no other spelling. The edit was undone.",
            ),
        ),
    ),
}
