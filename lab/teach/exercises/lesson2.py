"""Broadcast rules."""

from lab.model.language import say
from lab.teach.exercises.given import canonical_rule_text, rule_from_message
from lab.teach.judge import AnswerRefused, FunctionExercise, Mistake, ValueExercise

WRONG = [
    "1,(active),(payeeId),,(paymentAmount),(TOTAL),(>),(50),(20)",
    "2,(active),(beneficiaryId),,(paymentType),(SUM),(>),(3),(20)",
    "3,(active),(payeeId),,(paymentAmount),(AVG),(>),(50),(1day)",
]
MENDED = [WRONG[0].replace("TOTAL", "SUM"), WRONG[1].replace("SUM", "COUNT"), WRONG[2].replace("1day", "1d")]


def rule_texts_of_messages(messages: object) -> dict[str, str]:
    """The canonical text of the rule in each of the three messages."""
    if not isinstance(messages, (list, tuple)) or len(messages) != len(WRONG):
        if isinstance(messages, (list, tuple)):
            raise AnswerRefused(
                say("expected a list of the three corrected messages; this has {count}", count=len(messages))
            )
        raise AnswerRefused(say("expected a list of the three corrected messages"))
    read = {}
    for number, message in enumerate(messages, 1):
        name = say("message {number}", number=number)
        rule = rule_from_message(message, name, rule_id=number)
        if rule.aggregation.function == "COUNT":
            rule = rule.with_first(field=None)
        read[name] = canonical_rule_text(rule)
    return read


def _mended(number: int, message: str) -> list[str]:
    return [message if n == number else right for n, right in enumerate(MENDED, 1)]


EXERCISES = {
    "2.1": ValueExercise(
        right=lambda *_: rule_texts_of_messages(MENDED),
        read=rule_texts_of_messages,
        because="Each message now means what the analyst wanted.",
        hints=(
            "One contains a word that does not exist, one sums strings where a count was meant, one has an unknown unit.",
            "The functions are SUM, AVG, MIN, MAX, COUNT, UNIQUE_COUNT; the units of a window are s, m, h and d.",
        ),
        mistakes=(
            Mistake(MENDED[0], "That is only one of the messages. Give a list of all three."),
            Mistake(
                _mended(2, "2,(active),(beneficiaryId),,(paymentAmount),(SUM),(>),(3),(20)"),
                "Message 2 now sums amounts. The analyst wants the number of payments.",
            ),
            Mistake(
                _mended(3, WRONG[2].replace("1day", "1")),
                "Message 3 now looks back one minute: a number without a unit means minutes. The analyst wants a day.",
            ),
            Mistake(
                [MENDED[1], MENDED[0], MENDED[2]], "Messages 1 and 2 are swapped: keep the order of `wrong`."
            ),
            Mistake(
                _mended(1, WRONG[0].replace("TOTAL", "MAX")),
                "Message 1 now looks at the largest payment only. The analyst wants the sum of the payments.",
            ),
        ),
    ),
    "2.2": ValueExercise(
        right={"limit": True, "key": False, "function": True, "filter": False, "pause": True},
        because="Keys and filter define the route, and the history belongs to the route. The events of a paused rule are still stored.",
        hints=(
            "Events are stored per route, that is, per keys and filter. This rule is the only one on its route.",
            "For each update, ask: does it change the keys or the filter? And does the route of a paused rule go on?",
        ),
        mistakes=(
            Mistake(
                {"key": True}, "Another key means another route, with other groups: its history is empty."
            ),
            Mistake({"filter": True}, "Adding a filter means another route: it stores different events."),
            Mistake(
                {"function": False},
                "The function only says what is computed from the events. The stored events stay.",
            ),
            Mistake({"pause": False}, "A paused rule does not alert, but its events are still stored."),
            Mistake({"limit": False}, "The limit is only compared with the sum. The stored events stay."),
        ),
    ),
    "2.3": FunctionExercise(
        cases=(
            ((5, [10, 20]), 0),
            ((15, [10, 20]), 1),
            ((20, [10, 20]), 2, "on a tie the control message comes first"),
            ((15, [10, 12, 14, 20]), 3),
            ((30, []), 0, "no changes"),
            ((5_000, list(range(1_500))), 1_500),
            ((2**32, [5, 2**32, 2**32 + 5]), 2),
        ),
        right=lambda event_ms, control_ms: sum(time <= event_ms for time in control_ms),
        draw=lambda random, size: (
            random.randint(0, size),
            sorted(random.choices(range(size + 2), k=random.randint(0, 2 + size // 8))),
        ),
        because="The position in the log is all that is needed.",
        hints=(
            "Count the control messages with a time up to the event's.",
            "sum(… for time in control_ms) counts how often a comparison is true; on a tie it must be true.",
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
                "That is one too few: it is the last message's index, counted from 0. How many messages are there?",
            ),
            Mistake(
                lambda event_ms, control_ms: any(time <= event_ms for time in control_ms),
                "That says whether there are any such messages. How many are there?",
            ),
        ),
    ),
    "2.4": ValueExercise(
        right=120,
        unit="reads an hour",
        because="Each change writes one file, and each task reads it once for all of its key-groups.",
        hints=(
            "Each cut with changes writes one ledger. Who has to read it?",
            "There are 30 ledgers, and every task reads each of them. A task's key-groups share what the task has read.",
        ),
        mistakes=(
            Mistake(30, "That is how many ledgers are written. Each task needs to read each of them."),
            Mistake(480, "Key-groups do not read: a task reads once for all of its key-groups."),
            Mistake(4, "That is what one change costs. There are 30 an hour."),
            Mistake(
                34, "Multiply the changes by the tasks instead of adding them: each task reads each ledger."
            ),
            Mistake(0, "Nothing goes through a shuffle, but every task has to learn the new rules."),
        ),
    ),
}
