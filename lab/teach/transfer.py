"""Transfer questions: three of a lesson, asked before it, after it and a week later, to see whether people learned something.

    lab.TransferQuestions(3, "before") ──► log of stumbles ──► lab.hand_in() ──► lab class report: gains, with intervals

They are not the lesson's predictions: each asks for its idea in a case that the lesson does not show. Nobody is told what is right,
because the same questions come again. Lessons 0, 3 and 7 have them, which are the workshop of half a day.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple

Answers = Mapping[tuple[str, str], int]  # the option by question, such as "3.1", and time
WHEN = ("before", "after", "later")
RESAMPLES, SHARE = 2_000, 0.95
FEWEST = 5  # learners of whom an interval says something


class Question(NamedTuple):
    """A question with options; `right`: the number of the right one."""

    text: str
    options: tuple[str, ...]
    right: int


QUESTIONS: dict[int, tuple[Question, ...]] = {
    0: (
        Question(
            "A shop wants to know at once when a customer returns more than 5 items within 7 days. How often must this be checked?",
            ("once a day", "at each return", "when 7 days have passed"),
            1,
        ),
        Question(
            "The shop changes the 5 to 3 while the program runs. What happens to the returns of the last days?",
            (
                "they count for the new limit",
                "they are forgotten, counting starts anew",
                "they count until the program restarts",
            ),
            0,
        ),
        Question(
            "Returns of one customer at minute 0, 4 and 10; the window is 10 minutes. How many returns has the window at minute 10?",
            ("1", "2", "3"),
            2,
        ),
    ),
    3: (
        Question(
            "Calls are counted per full hour. A line gets 40 calls from 9:50 to 10:10, and few at other times. The limit is 30 calls within an hour. What does this count show?",
            ("always more than 30", "maybe no hour with more than 30", "exactly 40 in one hour"),
            1,
        ),
        Question(
            "The widest window of all rules is 2 hours, and readings come up to 10 minutes late. How long must a reading be kept?",
            ("2 hours", "2 hours and 10 minutes", "4 hours"),
            1,
        ),
        Question(
            "A reading of 9:00 arrives after one of 9:05. The window is 10 minutes and ends with the reading. Over which readings is the late one judged?",
            ("those from 8:50 to 9:00", "those from 8:55 to 9:05", "none, it is too late"),
            0,
        ),
    ),
    7: (
        Question(
            "A program writes a result, and is killed before it notes that it has read the input. It starts again. What does its reader see?",
            ("nothing", "the result once", "the result twice, unless one of the two is recognised"),
            2,
        ),
        Question(
            "Ten messages of one customer must stay in order on a topic with 8 partitions. What is needed?",
            ("a topic with one partition", "the customer as key", "the same time on all messages"),
            1,
        ),
        Question(
            "A reader is one minute behind its topic, and stays one minute behind. How fast does it read?",
            ("as fast as messages come", "slower than they come", "it has stopped"),
            0,
        ),
    ),
}


class Gain(NamedTuple):
    """What a class gained in a lesson. Shares of right answers, of the learners who answered both times."""

    lesson: int
    when: str  # compared with before
    learners: int
    before: float
    after: float
    interval: tuple[float, float] | None  # of after − before; None for too few learners

    def __str__(self) -> str:
        between = (
            f"95% of {self.interval[0]:+.0%} to {self.interval[1]:+.0%}"
            if self.interval
            else "too few for an interval"
        )
        return (
            f"lesson {self.lesson}, {self.when}: {self.before:.0%} right before, {self.after:.0%} {self.when}, "
            f"gain {self.after - self.before:+.0%} ({between}; n = {self.learners})"
        )


def class_gains(answers: Iterable[Answers]) -> list[Gain]:
    """The gains of a class, by lesson, after it and later, from each learner's answers. Who answered all three questions both times counts."""
    shares: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for given in answers:
        for lesson in QUESTIONS:
            before = _right_share(given, lesson, "before")
            for when in WHEN[1:]:
                after = _right_share(given, lesson, when)
                if before is not None and after is not None:
                    shares[lesson, when].append((before, after))
    return [_gain(lesson, when, pairs) for (lesson, when), pairs in sorted(shares.items())]


def _right_share(answers: Answers, lesson: int, when: str) -> float | None:
    given = [answers.get((f"{lesson}.{number}", when)) for number in (1, 2, 3)]
    if None in given:
        return None
    return sum(each.right == option for each, option in zip(QUESTIONS[lesson], given)) / len(given)


def _gain(lesson: int, when: str, pairs: list[tuple[float, float]]) -> Gain:
    """With an interval by bootstrap: the same learners drawn again and again, always with the same seed."""
    count, gains = len(pairs), [after - before for before, after in pairs]
    interval = None
    if count >= FEWEST:
        rng = Random(1)
        means = sorted(sum(rng.choices(gains, k=count)) / count for _ in range(RESAMPLES))
        cut = int(RESAMPLES * (1 - SHARE) / 2)
        interval = means[cut], means[-cut - 1]
    before, after = (sum(column) / count for column in zip(*pairs))
    return Gain(lesson, when, count, before, after, interval)
