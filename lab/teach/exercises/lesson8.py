"""From data to policy."""

import sqlite3
from collections import Counter

from lab.model.schema import LOGINS
from lab.teach.exercises.given import rule_of
from lab.teach.judge import Function, Mistake, Refused, Value

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
STATES = {1: "ACTIVE", 2: "PAUSE", 3: "ACTIVE"}


def policy(message: object) -> str:
    """What a policy on logins says."""
    rule = rule_of(message, "stuffing", LOGINS)
    if rule.rule_id != POLICY["ruleId"]:
        raise Refused(f"its id is to be 3, not {rule.rule_id}")
    return rule.describe()


def states_after(edit: object, database) -> dict[int, str]:
    """The states of the rules after an edit, which is undone if they are not those that were asked for."""
    if not isinstance(edit, str):
        raise Refused(f"an edit is SQL, a text, not {edit!r}")
    database.execute("BEGIN")
    try:
        database.execute(edit)
        states = dict(database.execute("SELECT rule_id, rule_state FROM rules ORDER BY rule_id").fetchall())
    except sqlite3.Error as error:
        database.execute("ROLLBACK")
        raise Refused(f"the database says: {error}") from None
    database.execute("COMMIT" if states == STATES else "ROLLBACK")
    return states


def _seen(times: list, window: int, first: int = 0, left: int = 0) -> tuple[int, int]:
    tumbling = max(Counter((time - first) // window for time in times).values())
    return tumbling, max(sum(end - window + left <= time <= end for time in times) for end in times)


def _hits(alerted: list, episode_of: dict) -> list:
    return [episode_of[number] for number in alerted if number in episode_of]


EXERCISES = {
    "8.1": Function(
        cases=(
            (([30, 40, 50, 60, 70, 80], 60), (3, 6), "the edge at 60 cuts six into three and three"),
            (([0, 10, 20], 60), (3, 3)),
            (([0, 60], 60), (1, 2), "both ends of the window that ends with an event count"),
        ),
        because="An attack that lies across an edge is seen whole by the second one only.",
        hints=(
            "Counter(time // window for time in times) counts by tumbling window.",
            "For each end in times, count the times with end - window <= time <= end; max(…) of these.",
        ),
        mistakes=(
            Mistake(
                lambda times, window: _seen(times, window)[::-1], "The tumbling window's number comes first."
            ),
            Mistake(
                lambda times, window: _seen(times, window, left=1),
                "An event exactly W back is in the window that ends with an event: both ends count.",
            ),
            Mistake(
                lambda times, window: _seen(times, window, times[0]),
                "Tumbling windows start at multiples of W, wherever the attack begins.",
            ),
        ),
    ),
    "8.2": Value(
        right=policy(POLICY),
        read=policy,
        because="It is the rule 3 of the book.",
        hints=(
            "groupingKeyNames, filter, aggregatorFunctionType with unique, limitOperatorType, limit, window, action with ttl.",
            "UNIQUE_COUNT counts the different values of the fields in unique: here userId, for each ip.",
        ),
        mistakes=(
            Mistake(
                {"ruleId": 1}, "Its id is to be 3: 1 would replace the policy on wrong passwords per user."
            ),
            Mistake(
                {"groupingKeyNames": ["userId"]},
                "That counts for each user. The policy is about an address: ip.",
            ),
            Mistake(
                {"filter": {"action": "login"}},
                "Wrong passwords are not logins: their action is login_failed.",
            ),
            Mistake(
                {"aggregatorFunctionType": "COUNT"},
                "That counts wrong passwords. Five different users are meant.",
            ),
            Mistake({"limitOperatorType": ">", "limit": 5}, "Five users are to alert already: five or more."),
            Mistake({"window": "10s"}, "Ten minutes are meant: 10m."),
        ),
    ),
    "8.3": Function(
        cases=(
            (
                ([1, 2, 9], {1: 7, 2: 7, 3: 8}, {7, 8}),
                (2 / 3, 1 / 2),
                "event 9 is a false alarm, episode 8 is missed",
            ),
            (([], {1: 7}, {7}), (1, 0), "no alerts: nothing wrong, and nothing found"),
            (([1, 3], {1: 7, 3: 8}, {7, 8}), (1, 1)),
        ),
        because="Events for precision, episodes for recall.",
        hints=(
            "Alerted events that are not in the dictionary are false alarms.",
            "An episode is found if any of its events is alerted: wanted & set(of the episodes that were hit).",
        ),
        mistakes=(
            Mistake(
                lambda alerted, episode_of, wanted: (
                    len(_hits(alerted, episode_of)) / len(alerted) if alerted else 1,
                    len(_hits(alerted, episode_of)) / len(wanted),
                ),
                "An episode with two alerts is found once: recall counts different episodes.",
            ),
            Mistake(
                lambda alerted, episode_of, wanted: (
                    len(_hits(alerted, episode_of)) / len(alerted),
                    len(wanted & set(_hits(alerted, episode_of))) / len(wanted),
                ),
                "Without alerts the precision is 1: nothing was wrong.",
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
    "8.4": Value(
        right=STATES,
        read=states_after,
        because="The change is on its way to the engine.",
        hints=(
            "The column is rule_state; the states are ACTIVE and PAUSE.",
            "UPDATE rules SET … WHERE rule_id = …: without WHERE all rows change.",
        ),
        mistakes=(
            Mistake(
                "UPDATE rules SET rule_state = 'PAUSE'",
                "That lets all rules rest: say which, with WHERE. It was undone.",
            ),
            Mistake(
                "UPDATE rules SET rule_state = 'PAUSE' WHERE rule_id = 1",
                "That lets rule 1 rest; rule 2 is meant. It was undone.",
            ),
            Mistake(
                "DELETE FROM rules WHERE rule_id = 2",
                "The row would be gone, and with it the rule. It is only to rest. It was undone.",
            ),
            Mistake(
                "UPDATE rules SET rule_state = 'PAUSED' WHERE rule_id = 2",
                "The state is spelled PAUSE: the rule book knows no other. It was undone.",
            ),
        ),
    ),
}
