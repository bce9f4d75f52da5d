"""The desk."""

from decimal import Decimal, InvalidOperation
from itertools import accumulate
from random import Random
from typing import Any

from lab.model.language import say
from lab.teach.judge import AnswerRefused, FunctionExercise, Mistake, ValueExercise
from lab.teach.learner import answer_text

Point = tuple[float, float]  # precision, recall


def _limit(answer: object) -> object:
    """A limit as the desk writes it, as a number."""
    if not isinstance(answer, str):
        return answer
    try:
        return float(Decimal(answer.replace(",", "")))
    except InvalidOperation:
        raise AnswerRefused(
            say("expected a limit, such as 2500, not {answer}", answer=answer_text(answer))
        ) from None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _score(alerted: list[int], labels: dict[int, bool]) -> tuple[float | None, float | None]:
    judged = [labels[number] for number in alerted if number in labels]
    return _share(sum(judged), len(judged)), _share(sum(judged), sum(labels.values()))


def _all_others_wrong(alerted: list[int], labels: dict[int, bool]) -> tuple[float | None, float | None]:
    right = sum(labels.get(number, False) for number in alerted)
    return _share(right, len(alerted)), _share(right, sum(labels.values()))


def _of_all_labels(alerted: list[int], labels: dict[int, bool]) -> tuple[float | None, float | None]:
    right = sum(labels.get(number, False) for number in alerted)
    return _score(alerted, labels)[0], _share(right, len(labels))


def _alerts_and_labels(random: Random, size: int) -> tuple:
    events = random.sample(range(1, 10 + 2 * size), 6 + size // 4)
    labelled = random.sample(events, random.randint(0, len(events)))
    share = random.choice((0.0, 0.4, 0.4, 0.7, 1.0))
    labels = {number: random.random() < share for number in labelled}
    return random.sample(events, random.randint(0, len(events))), labels


def _edge(points: list[Point]) -> list[Point]:
    return sorted(each for each in points if not any(_beats(other, each) for other in points))


def _beats(one: Point, other: Point) -> bool:
    return one != other and all(mine >= its for mine, its in zip(one, other))


def _points(random: Random, size: int) -> tuple[list[Point]]:
    steps = random.choice((4, 10, 20))
    found = {
        (random.randint(0, steps) / steps, random.randint(0, steps) / steps) for _ in range(2 + size // 4)
    }
    if size % 4 == 0:  # a long edge, and points below it
        found = {each for each in found if sum(each) < 1} | {(n / 20, 1 - n / 20) for n in range(21)}
    return (random.sample(sorted(found), len(found)),)


def _branch(
    times: list[int], window: int, at: int, old: int, new: int, left: int = 0, after: int = 0
) -> list[int]:
    found = []
    for n, time in enumerate(times, 1):
        count = sum(time - window + left <= earlier for earlier in times[:n])
        found += [time] if count >= (new if time >= at + after else old) else []
    return found


def _emptied(times: list[int], window: int, at: int, old: int, new: int) -> list[int]:
    before, later = ([time for time in times if (time >= at) == is_later] for is_later in (False, True))
    return _branch(before, window, at, old, new) + _branch(later, window, at, old, new)


def _times_and_limits(random: Random, size: int) -> tuple:
    window = random.choice((5, 10, 60))
    gaps = random.choice(((1, 2, window), (1, window - 1, window, window + 1), (1,)))
    times = list(accumulate(random.choice(gaps) for _ in range(2 + size // 4)))
    old, new = random.sample(random.choice((range(1, 6), range(1, 6), range(10, 15))), 2)
    return times, window, random.choice([*times, times[-1] + 1, 0]), old, new


EXERCISES: dict[str, Any] = {
    "11.1": ValueExercise(
        right=1799.99,
        read=_limit,
        because="The payments after a reset set the limit: at 1,800 they are equal to it, and the rule wants more.",
        hints=(
            "Ask world.why_not(event_id, 1) at the last payment of each case, and look at its changes.",
            "The changes name a limit for each case. All cases need the lowest of these limits.",
        ),
        mistakes=(
            Mistake(
                2099.99,
                "That finds the case with the payments of 700. The payments after a reset need a lower limit.",
            ),
            Mistake(1800, "A sum of exactly 1,800 is not more than 1,800: the desk names a limit below it."),
            Mistake(
                2100, "A sum of exactly 2,100 is not more than 2,100, and other cases have smaller sums."
            ),
            Mistake(2500, "That is the limit in force, with which the rule misses all of them."),
            Mistake(
                2500.01,
                "That is an amount: what the payment itself would have to be. Look at the changes of the limit.",
            ),
            Mistake(
                699.99,
                "That is below the first payment of 700. The rule need not alert at it: the last payment of a case is enough.",
            ),
        ),
    ),
    "11.2": FunctionExercise(
        cases=(
            (
                ([1, 2, 3, 4], {1: True, 2: False, 9: True}),
                (1 / 2, 1 / 2),
                "nobody has labelled 3 and 4, so they count nowhere",
            ),
            (([1, 2], {1: True, 2: True}), (1, 1), "all labels are of events with an alert"),
            (([5, 6], {1: True}), (None, 0), "no alert has a label"),
            (([1], {1: False}), (0, None), "no event is labelled True"),
            (([], {}), (None, None)),
            (([2**32 + 1, 7], {2**32 + 1: True, 8: False}), (1, 1)),
        ),
        right=_score,
        draw=_alerts_and_labels,
        because="What nobody has looked at says nothing about the rule.",
        hints=(
            "Keep the alerts that have a label: judged = [labels[number] for number in alerted if number in labels].",
            "The right alerts are sum(judged). Divide them by len(judged), and by sum(labels.values()).",
        ),
        mistakes=(
            Mistake(
                _all_others_wrong,
                "An alert without a label is not wrong: nobody has looked at it. It counts nowhere.",
            ),
            Mistake(
                _of_all_labels,
                "Recall is a share of the events that are labelled True, not of all labelled events.",
            ),
            Mistake(
                lambda alerted, labels: _score(alerted, labels)[::-1],
                "Precision comes first, recall second.",
            ),
            Mistake(
                lambda alerted, labels: tuple(share or 0 for share in _score(alerted, labels)),
                "Without anything to divide by, a share is unknown: None, not 0.",
            ),
            Mistake(
                lambda alerted, labels: (
                    sum(labels.get(number, False) for number in alerted)
                    / sum(number in labels for number in alerted),
                    sum(labels.get(number, False) for number in alerted) / sum(labels.values()),
                ),
                "If no alert has a label, or no event is labelled True, there is nothing to divide by: return None there.",
            ),
        ),
    ),
    "11.3": FunctionExercise(
        cases=(
            (
                ([(1.0, 0.4), (0.8, 0.8), (0.7, 0.5), (0.5, 1.0)],),
                [(0.5, 1.0), (0.8, 0.8), (1.0, 0.4)],
                "(0.8, 0.8) is better than (0.7, 0.5) in both numbers",
            ),
            (
                ([(0.8, 0.8), (0.8, 0.6)],),
                [(0.8, 0.8)],
                "equal in one number and better in the other is better",
            ),
            (([(0.9, 0.1), (0.1, 0.9)],), [(0.1, 0.9), (0.9, 0.1)], "neither of the two is better in both"),
            (([(0.3, 0.3)],), [(0.3, 0.3)]),
            (([],), [], "no points"),
            (([(0.0, n / 150) for n in range(151)],), [(0.0, 1.0)]),
        ),
        right=_edge,
        draw=_points,
        any_order=True,
        because="Between the points of the edge, only you can choose: each of them gives up one number for the other.",
        hints=(
            "Keep a point if no other one beats it: not any(… for other in points).",
            "One point beats another if both of its numbers are at least as high, and the two points are not the same.",
        ),
        mistakes=(
            Mistake(
                lambda points: [
                    each
                    for each in points
                    if not any(all(a > b for a, b in zip(other, each)) for other in points)
                ],
                "A point is also beaten by one that is equal in one number, and better in the other.",
            ),
            Mistake(
                lambda points: [
                    each
                    for each in points
                    if not any(all(a >= b for a, b in zip(other, each)) for other in points)
                ],
                "Each point is at least as good as itself. Compare it with the other points only.",
            ),
            Mistake(
                lambda points: list(points), "Those are all points. Leave out each that another one beats."
            ),
            Mistake(
                lambda points: [max(points)],
                "That is the most precise point alone. The edge has every point that no other one beats.",
            ),
            Mistake(
                lambda points: [each for each in points if each not in _edge(points)],
                "Those are the points that are beaten. Keep the others.",
            ),
            Mistake(
                lambda points: [
                    each
                    for each in points
                    if not any(any(a > b for a, b in zip(other, each)) for other in points)
                ],
                "A point that is better in one number only does not beat another one.",
            ),
        ),
    ),
    "11.4": FunctionExercise(
        cases=(
            (
                ([0, 10, 20, 30], 60, 25, 4, 3),
                [30],
                "at 30 there are four events in the window, and three of them came before the branch",
            ),
            (
                ([0, 10, 20, 30], 60, 20, 4, 3),
                [20, 30],
                "an event exactly at the moment is judged by the new rule",
            ),
            (
                ([0, 10, 20, 30], 60, 25, 2, 9),
                [10, 20],
                "the alerts before the branch stay",
            ),
            (([0, 60], 60, 0, 9, 2), [60], "both ends of the window count"),
            (([], 60, 0, 1, 2), [], "no events"),
            (([0, 2**32], 60, 5, 1, 2), [0]),
        ),
        right=_branch,
        draw=_times_and_limits,
        any_order=True,
        because="The rule changes at the moment of the branch, and the window does not.",
        hints=(
            "Only the limit depends on the moment. The count looks back over the whole window, also beyond the moment.",
            "Event n of times (from 1) has sum(time - window <= earlier for earlier in times[:n]) events in its window.",
        ),
        mistakes=(
            Mistake(
                _emptied,
                "The new rule does not begin with an empty window: the events before the branch still count.",
            ),
            Mistake(
                lambda times, window, at, old, new: _branch(times, window, at, new, new),
                "Before the branch, the old limit decides.",
            ),
            Mistake(
                lambda times, window, at, old, new: _branch(times, window, at, old, old),
                "From the moment of the branch on, the new limit decides.",
            ),
            Mistake(
                lambda times, window, at, old, new: _branch(times, window, at, old, new, after=1),
                "An event exactly at the moment of the branch is judged by the new rule.",
            ),
            Mistake(
                lambda times, window, at, old, new: _branch(times, window, at, old, new, left=1),
                "An event exactly `window` back still counts: both ends of the window belong to it.",
            ),
            Mistake(
                lambda times, window, at, old, new: _branch(times, window, at, old + 1, new + 1),
                "As many events as the limit are enough: the rule asks for at least so many.",
            ),
            Mistake(
                lambda times, window, at, old, new: _branch(times, times[-1], at, old, new),
                "Only the events of the window count, from time - window on.",
            ),
            Mistake(
                lambda times, window, at, old, new: [
                    time for time in _branch(times, window, at, old, new) if time >= at
                ],
                "Those are the alerts from the branch on. The lane also has the alerts before it.",
            ),
        ),
    ),
}
