"""What a class learned, from its answers to transfer questions and exit tests.

lab.TransferQuestions(3, "before") ─┬─► log of stumbles ──► lab.hand_in() ──► lab class report: gains, with intervals,
lab.ExitTest("half-day") ───────────┘                                        shares, and what wrong answers show
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from lab.teach.questions import EXIT, QUESTIONS, WHEN, names_of_lessons, names_of_plans, times_of

Answers = Mapping[tuple[str, str], int]  # the option by question, such as "3.1", and time
RESAMPLES, SHARE = 2_000, 0.95
FEWEST = 5  # learners of whom an interval says something


class Gain(NamedTuple):
    """What a class gained in a lesson. Shares of right answers, of the learners who answered both times."""

    lesson: str
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


def what_a_class_learned(answers: Sequence[Answers]) -> list[str]:
    """A sentence for each gain, each exit test, and each question that somebody had wrong after the lesson or at the exit.

    >>> what_a_class_learned([{(f"half-day.{n}", "exit"): 1 for n in range(1, 6)}])[:2]
    ['exit test half-day: 2.0 of 5 right (n = 1)', 'half-day.3, exit: 0 of 1 right; the others take the time of arrival for the time of the event']
    """
    sentences = [f"transfer questions: {gain}" for gain in class_gains(answers)]
    for plan in names_of_plans():
        of_plan = [share for given in answers if (share := _right_share(given, plan, EXIT)) is not None]
        if of_plan:
            count = len(QUESTIONS[plan])
            mean = sum(of_plan) / len(of_plan) * count
            sentences.append(f"exit test {plan}: {mean:.1f} of {count} right (n = {len(of_plan)})")
    return sentences + list(_wrong_questions(answers))


def _wrong_questions(answers: Sequence[Answers]) -> Iterator[str]:
    for name, questions in QUESTIONS.items():
        for when in times_of(name):
            for number, question in enumerate(questions, 1):
                key = f"{name}.{number}", when
                chosen = [given[key] for given in answers if key in given and when != "before"]
                right = chosen.count(question.right)
                if right < len(chosen):
                    yield f"{name}.{number}, {when}: {right} of {len(chosen)} right; the others {question.shows}"


def class_gains(answers: Iterable[Answers]) -> list[Gain]:
    """The gains of a class, by lesson, after it and later, from each learner's answers. Who answered all three questions both times counts."""
    shares: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for given in answers:
        for lesson in names_of_lessons():
            before = _right_share(given, lesson, "before")
            for when in WHEN[1:]:
                after = _right_share(given, lesson, when)
                if before is not None and after is not None:
                    shares[lesson, when].append((before, after))
    return [_gain(lesson, when, pairs) for (lesson, when), pairs in sorted(shares.items(), key=_by_lesson)]


def _right_share(answers: Answers, lesson: str, when: str) -> float | None:
    """Of the questions of a lesson or a plan; None if not all were answered."""
    asked = QUESTIONS[lesson]
    given = [answers.get((f"{lesson}.{number}", when)) for number in range(1, len(asked) + 1)]
    if None in given:
        return None
    return sum(each.right == option for each, option in zip(asked, given)) / len(asked)


def _by_lesson(item: tuple[tuple[str, str], list]) -> tuple[int, str]:
    (lesson, when), _ = item
    return int(lesson), when


def _gain(lesson: str, when: str, pairs: list[tuple[float, float]]) -> Gain:
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
