"""Questions without an answer for the learner: three of a lesson, and an exit test of five minutes for each plan of a workshop.

They are not the lessons' predictions: each asks for an idea in a case that no lesson shows. `lab.TransferQuestions` and
`lab.ExitTest` ask them; `shows` is what `lab class report` tells an instructor.
"""

from typing import NamedTuple

WHEN, EXIT = ("before", "after", "later"), "exit"


class Question(NamedTuple):
    """A question with options; `right`: the number of the right one, `shows`: what the others do."""

    text: str
    options: tuple[str, ...]
    right: int
    shows: str


QUESTIONS: dict[str, tuple[Question, ...]] = {  # by lesson, or plan of a workshop
    "0": (
        Question(
            "A shop wants to know at once when a customer returns more than 5 items within 7 days. How often must this be checked?",
            ("once a day", "at each return", "when 7 days have passed"),
            1,
            shows="think of a report by the day, not of a verdict at each event",
        ),
        Question(
            "The shop changes the 5 to 3 while the program runs. What happens to the returns of the last days?",
            (
                "they count for the new limit",
                "they are forgotten, counting starts anew",
                "they count until the program restarts",
            ),
            0,
            shows="think that a rule owns its history: the events are kept, and the new limit judges them",
        ),
        Question(
            "Returns of one customer at minute 0, 4 and 10; the window is 10 minutes. How many returns has the window at minute 10?",
            ("1", "2", "3"),
            2,
            shows="leave out an end of the window: the event itself counts, and so does one exactly ten minutes before",
        ),
    ),
    "3": (
        Question(
            "Calls are counted per full hour. A line gets 40 calls from 9:50 to 10:10, and few at other times. The limit is 30 calls within an hour. What does this count show?",
            ("always more than 30", "maybe no hour with more than 30", "exactly 40 in one hour"),
            1,
            shows="do not see that an edge at 10:00 cuts the forty calls in two",
        ),
        Question(
            "The widest window of all rules is 2 hours, and readings come up to 10 minutes late. How long must a reading be kept?",
            ("2 hours", "2 hours and 10 minutes", "4 hours"),
            1,
            shows="forget that a late event needs what lies one window before its own time",
        ),
        Question(
            "A reading of 9:00 arrives after one of 9:05. The window is 10 minutes and ends with the reading. Over which readings is the late one judged?",
            ("those from 8:50 to 9:00", "those from 8:55 to 9:05", "none, it is too late"),
            0,
            shows="take the order of arrival for the order of events",
        ),
    ),
    "7": (
        Question(
            "A program writes a result, and is killed before it notes that it has read the input. It starts again. What does its reader see?",
            ("nothing", "the result once", "the result twice, unless one of the two is recognised"),
            2,
            shows="think that a restart loses or repeats nothing by itself",
        ),
        Question(
            "Ten messages of one customer must stay in order on a topic with 8 partitions. What is needed?",
            ("a topic with one partition", "the customer as key", "the same time on all messages"),
            1,
            shows="do not see that a key fixes the partition, and only order within a partition is kept",
        ),
        Question(
            "A reader is one minute behind its topic, and stays one minute behind. How fast does it read?",
            ("as fast as messages come", "slower than they come", "it has stopped"),
            0,
            shows="take lag for slowness: a lag that stays is a reader that keeps up",
        ),
    ),
    "half-day": (
        Question(
            "A bank changes a rule at noon while the program runs. A payment comes a second later. What judges it?",
            ("the old rule, until a restart", "the new rule", "both rules"),
            1,
            shows="think of rules as code that is deployed: here a rule is data on the same log as the payments",
        ),
        Question(
            "Alert when a card pays in 3 shops within 10 minutes. It pays at 9:57, 10:01 and 10:04, in another shop each time. Which count sees it?",
            ("one for each full ten minutes", "one for the ten minutes before each payment", "both"),
            1,
            shows="do not see that a fixed window ends at 10:00, between the payments",
        ),
        Question(
            "The payment of 9:57 arrives last, at 10:05, and nothing is too late yet. What does a window for each payment do?",
            (
                "it judges the payment over the ten minutes before 9:57",
                "it judges the payment over the ten minutes before 10:05",
                "it drops the payment",
            ),
            0,
            shows="take the time of arrival for the time of the event",
        ),
        Question(
            "The engine is killed after it delivered alerts, and before it noted how far it had read. What must hold, so that nothing is lost or twice?",
            (
                "the killed batch runs again over the same events, and its alerts are known by its number",
                "the engine continues after the last event that it has read",
                "the alerts are delivered later, all at once",
            ),
            0,
            shows="do not connect a fixed cut with a delivery that can be recognised",
        ),
        Question(
            "A panel says: lag 0, and no alert for an hour. Which question finds out whether a rule is wrong?",
            (
                "is the engine fast enough?",
                "how many events come per second?",
                "why did this rule not alert at this event?",
            ),
            2,
            shows="look at the engine's health, not at the rule: without lag, all events were judged",
        ),
    ),
    "two-days": (
        Question(
            "40 rules of a shop use 5 different combinations of keys, all without filters. How often must an order be sent at least?",
            ("once", "5 times", "40 times"),
            1,
            shows="send a copy for each rule, not for each route: rules with the same keys share one",
        ),
        Question(
            "Two tasks learn of a new rule at different times, because each listens by itself. What is wrong with the alerts?",
            (
                "which events the rule judges depends on chance",
                "nothing, they come later",
                "the rule is counted twice",
            ),
            0,
            shows="do not see that a rule needs a place in the order of the events",
        ),
        Question(
            "Windows of 24 hours that begin every 5 minutes. A crossing event waits for its alert. What shortens the wait?",
            ("windows of 12 hours", "more tasks", "windows that begin every minute"),
            2,
            shows="think that the length of the window makes the wait, and not the slide",
        ),
        Question(
            "State lies in 64 groups. 4 tasks become 6. What does each new task read?",
            ("all of the state", "a sixth of each group", "the groups that are its own now"),
            2,
            shows="think of single keys that are dealt out anew, not of groups that move whole",
        ),
        Question(
            "A rule alerts on 90 of 100 frauds, and on 900 honest customers. Its limit is raised. What happens?",
            (
                "fewer false alerts, and perhaps fewer frauds found",
                "fewer false alerts, and as many frauds found",
                "more of both",
            ),
            0,
            shows="hope for a limit without a price: precision and recall pull against each other",
        ),
        Question(
            "A reader prints a sum after each message. It is killed, and starts again from its last saved place. When are its sums right again?",
            (
                "at once, a sum needs no past",
                "if the place was saved after each message",
                "if the sum was saved together with the place",
            ),
            2,
            shows="save the place and forget the state that belongs to it",
        ),
    ),
}


def times_of(name: str) -> tuple[str, ...]:
    """When questions are asked: those of a lesson three times, those of a plan at its end.

    >>> times_of("3"), times_of("half-day")
    (('before', 'after', 'later'), ('exit',))
    """
    return WHEN if name.isdigit() else (EXIT,)


def names_of_lessons() -> list[str]:
    """The lessons that have questions."""
    return [name for name in QUESTIONS if name.isdigit()]


def names_of_plans() -> list[str]:
    """The plans of a workshop."""
    return [name for name in QUESTIONS if not name.isdigit()]
