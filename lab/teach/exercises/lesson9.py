"""Attack my engine: functions of one's own against random logs, and a batch killed between two steps."""

from lab.teach.attack import AttackExercise
from lab.teach.attack.routegame import RouteGame
from lab.teach.attack.routemistakes import ROUTE
from lab.teach.attack.windowgames import CountGame, WindowGame
from lab.teach.attack.windowmistakes import COUNT, WINDOW
from lab.teach.judge import Mistake, ValueExercise

EXERCISES = {
    "9.1": AttackExercise(
        RouteGame(),
        because="Each route that wants the event gets one copy, with the fields that its rules need.",
        hints=(
            "First find the rules that want the event: their filter lets it through, and each of their keys has a value (not None).",
            "Then group these by (frozenset(rule.keys), str(sorted(rule.filter.items()))); each group of rules is one copy.",
        ),
        mistakes=ROUTE,
    ),
    "9.2": AttackExercise(
        WindowGame(),
        because="Both ends, late events, duplicates, crashes and changed rules all match the reference.",
        hints=(
            "Take three steps: return None for a duplicate (same id and time); append the event; return the events in [time - width, time].",
            "When you discard events, keep those at or after max(times) - width - late: a late event looks back from its own time.",
        ),
        mistakes=WINDOW,
    ),
    "9.3": AttackExercise(
        CountGame(),
        because="The count starts again in order of arrival, and the function still knows which events it has seen.",
        hints=(
            "Store pairs in memory: the event, and whether an alert has used it up.",
            "After an alert, mark all pairs as used up. Do not remove them: you must still recognise a duplicate of such an event.",
        ),
        mistakes=COUNT,
    ),
    "9.4": ValueExercise(
        right={"cut": False, "evaluate": True, "deliver": True, "commit": True},
        because="From the moment its marks are on disk until it is committed, a batch runs again after a crash and gives the same result.",
        hints=(
            "A new engine looks for offsets/N without commits/N.",
            "Send payments, press Step until the step in question is next, then press Kill: the last sentence says what the new engine found.",
        ),
        mistakes=(
            Mistake(
                {"cut": True},
                "Before the cut nothing is planned. A new batch takes the waiting records, so no batch runs again.",
            ),
            Mistake(
                {"evaluate": False},
                "No work was done yet, but the marks are on disk: this batch takes these records, whoever runs it.",
            ),
            Mistake(
                {"deliver": False},
                "The state file is on disk, but nobody has seen the alerts. The batch runs again and writes the same file.",
            ),
            Mistake(
                {"commit": False},
                "Its alerts are in their log, but nothing on disk says that the batch is done. So it runs again; the log takes no alert twice.",
            ),
        ),
    ),
}
