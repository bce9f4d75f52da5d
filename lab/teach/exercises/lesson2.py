"""Broadcast rules."""

from lab.teach.exercises.given import rule_of
from lab.teach.judge import Function, Mistake, Refused, Value

WRONG = [
    "1,(active),(payeeId),,(paymentAmount),(TOTAL),(>),(50),(20)",
    "2,(active),(beneficiaryId),,(paymentType),(SUM),(>),(3),(20)",
    "3,(active),(payeeId),,(paymentAmount),(AVG),(>),(50),(1day)",
]
MENDED = [
    WRONG[0].replace("TOTAL", "SUM"),
    WRONG[1].replace("SUM", "COUNT"),
    WRONG[2].replace("1day", "1d"),
]


def meant(messages: object) -> dict[str, str]:
    """What the engine makes of the three messages."""
    if not isinstance(messages, (list, tuple)) or len(messages) != len(WRONG):
        count = f"; this has {len(messages)}" if isinstance(messages, (list, tuple)) else ""
        raise Refused(f"a list of three messages is expected, the mended ones{count}")
    read = {}
    for number, message in enumerate(messages, 1):
        rule = rule_of(message, f"message {number}")
        minutes = rule.window_ms // 60_000
        read[f"message {number}"] = (
            f"{rule.function} per {', '.join(rule.keys)} over {minutes} min {rule.symbol} {rule.limit}"
        )
    return read


def _mended(number: int, message: str) -> list[str]:
    return [message if n == number else right for n, right in enumerate(MENDED, 1)]


EXERCISES = {
    "2.1": Value(
        right=lambda *_: meant(MENDED),
        read=meant,
        because="Each means what the analyst wanted.",
        hints=(
            "One has a word that does not exist, one sums up texts where a count was meant, one has an unknown unit.",
            "The functions are SUM, AVG, MIN, MAX, COUNT, UNIQUE_COUNT; the units of a window s, m, h and d.",
        ),
        mistakes=(
            Mistake(MENDED[0], "A list of all three messages is expected, this is one of them."),
            Mistake(
                _mended(2, "2,(active),(beneficiaryId),,(paymentAmount),(SUM),(>),(3),(20)"),
                "Message 2 now sums up amounts. The analyst wants to know how many payments there are.",
            ),
            Mistake(
                _mended(3, WRONG[2].replace("1day", "1")),
                "Message 3 now looks back one minute: a number alone is minutes. The analyst wants a day.",
            ),
            Mistake(
                [MENDED[1], MENDED[0], MENDED[2]],
                "Messages 1 and 2 have changed places: give them in the order of `wrong`.",
            ),
            Mistake(
                _mended(1, WRONG[0].replace("TOTAL", "MAX")),
                "Message 1 now looks at the largest payment alone. The analyst wants their sum.",
            ),
        ),
    ),
    "2.2": Value(
        right={
            "another limit": True,
            "another key": False,
            "MAX instead of SUM": True,
            "a filter": False,
            "a pause of an hour": True,
        },
        because="Keys and filter make the route, and the route has the history; a paused rule's events are stored.",
        hints=(
            "Events are stored by route: keys and filter. The rule is the only one of its route.",
            "Ask of each update: does it change keys or filter? And does a paused rule's route go on?",
        ),
        mistakes=(
            Mistake(
                {"another key": True},
                "Another key is another route, with other groups: its history is empty.",
            ),
            Mistake({"a filter": True}, "A filter makes another route: which events it holds has changed."),
            Mistake(
                {"MAX instead of SUM": False},
                "The function only says what is computed from the events. The events stay.",
            ),
            Mistake(
                {"a pause of an hour": False},
                "A paused rule does not alert, but its events are still stored.",
            ),
            Mistake({"another limit": False}, "The limit is only compared with the sum. The events stay."),
        ),
    ),
    "2.3": Function(
        cases=(
            ((5, [10, 20]), 0),
            ((15, [10, 20]), 1),
            ((20, [10, 20]), 2, "on a tie the control message is first"),
            ((15, [10, 12, 14, 20]), 3),
            ((30, []), 0, "no changes"),
        ),
        because="A place in the log is all it takes.",
        hints=(
            "Count the control messages with a time up to the event's.",
            "sum(… for time in control_ms) counts where a comparison is true; on a tie it has to be true.",
        ),
        mistakes=(
            Mistake(
                lambda event_ms, control_ms: sum(time < event_ms for time in control_ms),
                "On a tie the control message comes first: it counts, too.",
            ),
            Mistake(
                lambda event_ms, control_ms: sum(time >= event_ms for time in control_ms),
                "Those are the messages after the event. Which ones come before it?",
            ),
            Mistake(
                lambda event_ms, control_ms: sum(time <= event_ms for time in control_ms) - 1,
                "That is one less: a message's number from 0. How many are there?",
            ),
            Mistake(
                lambda event_ms, control_ms: any(time <= event_ms for time in control_ms),
                "That says whether there are any. How many are there?",
            ),
        ),
    ),
    "2.4": Value(
        right=120,
        unit="reads an hour",
        because="A file for each change, read once by each task for all of its key-groups.",
        hints=(
            "A ledger is written once for each cut with changes. Who has to read it?",
            "30 ledgers, each read by every task; a task's key-groups share what it has read.",
        ),
        mistakes=(
            Mistake(30, "That is how many are written. Each task needs to read each of them."),
            Mistake(480, "Key-groups do not read: a task reads once for all that it has."),
            Mistake(4, "That is what one change costs. There are 30 an hour."),
            Mistake(34, "Changes and tasks are multiplied: each task reads each ledger."),
            Mistake(0, "Nothing goes through a shuffle for it, but every task has to know the new rules."),
        ),
    ),
}
