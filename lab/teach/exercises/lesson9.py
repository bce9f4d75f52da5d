"""Attack my engine: functions of one's own against random logs, and a batch killed between two steps."""

from lab.teach.attack import Attack
from lab.teach.attack.routegame import RouteGame
from lab.teach.attack.routemistakes import ROUTE
from lab.teach.attack.windowgames import CountGame, WindowGame
from lab.teach.attack.windowmistakes import COUNT, WINDOW
from lab.teach.judge import Mistake, Value

EXERCISES = {
    "9.1": Attack(
        RouteGame(),
        "A copy for each route that wants the event, with what its rules need.",
        (
            "First, which rules want the event: their filter lets it through, and each of their keys has a value (not None).",
            "Then group these by (frozenset(rule.keys), str(sorted(rule.filter.items()))); each group of rules is one copy.",
        ),
        ROUTE,
    ),
    "9.2": Attack(
        WindowGame(),
        "Both ends, late events, duplicates, crashes and changed rules: all as the reference has them.",
        (
            "Three steps: return None for a duplicate (same id and time); append the event; return what lies in [time - width, time].",
            "To forget, keep what is at or after max(times) - width - late: a late event looks back from its own time.",
        ),
        WINDOW,
    ),
    "9.3": Attack(
        CountGame(),
        "It begins anew in order of arrival, and still knows what it has seen.",
        (
            "Put pairs into memory: the event, and whether it was used up by an alert.",
            "After an alert mark all pairs as used up. Do not remove them: a duplicate of one must still be recognised.",
        ),
        COUNT,
    ),
    "9.4": Value(
        right={"cut": False, "evaluate": True, "deliver": True, "commit": True},
        because="From the moment at which its marks are on disk until it is committed, a batch runs again, and gives the same.",
        hints=(
            "A new engine looks for offsets/N without commits/N.",
            "Send payments, press Step until the step in question is the next one, then Kill: the last sentence says what it found.",
        ),
        mistakes=(
            Mistake(
                {"cut": True},
                "Before the cut nothing is planned. What waits is taken by a batch that is new, not by one that runs again.",
            ),
            Mistake(
                {"evaluate": False},
                "Nothing was done yet, but the marks are on disk: this batch takes these records, whoever runs it.",
            ),
            Mistake(
                {"deliver": False},
                "The state file is there, and nobody has seen the alerts. The batch runs again, and writes the same file.",
            ),
            Mistake(
                {"commit": False},
                "Its alerts are in their log, but nothing on disk says that the batch is done. So it runs again; the log takes nothing twice.",
            ),
        ),
    ),
}
