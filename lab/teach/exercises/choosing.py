"""Choosing a rule's number by the figures of its backtests: the last exercise of lesson 10."""

from random import Random

from lab.teach.judge import FunctionExercise, Mistake

FIGURES = ("recall", "precision", "delay")


def _tried(number: float, precision: float, recall: float, delay: float) -> dict[str, float]:
    return {"number": number, "precision": precision, "recall": recall, "delay": delay}


def _best(tried: list[dict[str, float]]) -> dict[str, float]:
    return min(tried, key=lambda each: (-each["recall"], -each["precision"], each["delay"]))


def _chosen(tried: list[dict[str, float]]) -> float:
    return _best(tried)["number"]


def _figures(random: Random, size: int) -> list[dict[str, float]]:
    """Numbers in any order, many with equal figures, but no two with the same three."""
    shares = (0.2, 0.4, 0.6, 0.8, 1.0) if size % 2 else (0.8, 1.0)
    found = {
        (random.choice(shares), random.choice(shares), random.choice((1, 2, 5, 30.5)))
        for _ in range(2 + size // 4)
    }
    numbers = random.sample([n / 8 for n in range(1, 99)] + list(range(10, 2_000)), len(found))
    return [
        _tried(n, precision, recall, delay) for n, (recall, precision, delay) in zip(numbers, sorted(found))
    ]


CHOOSE_NUMBER = FunctionExercise(
    cases=(
        (
            ([_tried(5, 0.5, 1.0, 9), _tried(8, 0.9, 1.0, 9), _tried(20, 1.0, 0.6, 2)],),
            8,
            "20 misses cases, however precise it is",
        ),
        (([_tried(5, 0.9, 1.0, 9), _tried(8, 0.9, 1.0, 4)],), 8, "these differ in the delay only"),
        (([_tried(0.5, 0.4, 0.8, 1), _tried(8, 0.9, 0.6, 1)],), 0.5, "no number finds all cases"),
    ),
    right=_chosen,
    draw=lambda random, size: (_figures(random, size),),
    because="First find the cases, then bother few people, then be early.",
    hints=(
        "min and max take a key, which may be a tuple: they compare its first entries, and the next ones if these are equal.",
        "A tuple of -recall, -precision and delay is smallest where recall is highest.",
    ),
    mistakes=(
        Mistake(
            lambda tried: max(tried, key=lambda each: each["precision"])["number"],
            "That is the most precise number, but it may miss cases. Recall comes first.",
        ),
        Mistake(
            lambda tried: max(tried, key=lambda each: each["recall"])["number"],
            "That has the highest recall. If several have it, precision decides, then delay.",
        ),
        Mistake(
            lambda tried: min(tried, key=lambda each: each["delay"])["number"],
            "That alerts earliest, but an early alert at the wrong event helps nobody. Delay comes last.",
        ),
        Mistake(
            lambda tried: max(tried, key=lambda each: tuple(map(each.get, FIGURES)))["number"],
            "Of equal recall and precision, take the shortest delay, not the longest.",
        ),
        Mistake(
            lambda tried: max(tried, key=lambda each: (each["precision"], each["recall"], -each["delay"]))[
                "number"
            ],
            "That puts precision first. Here recall comes first.",
        ),
        Mistake(_best, "That is the right row. Return its number."),
    ),
)
