"""Making it fast."""

from itertools import accumulate
from random import Random

from lab.model.language import say
from lab.teach.judge import FunctionExercise, Mistake

LONG = 2_000  # events of which one window holds half
LARGE = 2**64  # no array of NumPy takes such a number apart from Python's own addition


def _sums(times: list, amounts: list, within) -> list:
    return [sum(amounts[j] for j in range(i + 1) if within(times[j], times[i])) for i in range(len(times))]


def _only_one_leaves(times: list, amounts: list, W: int) -> list:
    oldest, total, sums = 0, 0, []
    for time_ms, amount in zip(times, amounts):
        total += amount
        if times[oldest] < time_ms - W:
            total -= amounts[oldest]
            oldest += 1
        sums.append(total)
    return sums


def _running(times: list, amounts: list, W: int) -> list:
    oldest, total, sums = 0, 0, []
    for time_ms, amount in zip(times, amounts):
        total += amount
        while times[oldest] < time_ms - W:
            total -= amounts[oldest]
            oldest += 1
        sums.append(total)
    return sums


class AdditionCountingInt(int):
    """An amount; the class counts how often amounts are added or taken away."""

    additions = 0

    def __add__(self, other):
        AdditionCountingInt.additions += 1
        return int(self) + int(other)

    def __sub__(self, other):
        AdditionCountingInt.additions += 1
        return int(self) - int(other)

    def __rsub__(self, other):
        AdditionCountingInt.additions += 1
        return int(other) - int(self)

    __radd__ = __add__


def _walks(function) -> str:
    """Whether the function adds up each window from scratch, judged by its number of additions."""
    AdditionCountingInt.additions = 0
    function(list(range(LONG)), [AdditionCountingInt(LARGE + n) for n in range(LONG)], LONG // 2)
    each = AdditionCountingInt.additions / LONG
    if each <= 8:
        return ""
    return say(
        "The sums are right, but each window is added up from scratch: with {events} events, half of them in a window, that took {additions} additions per event. "
        "Each amount needs to be added once and taken away once.",
        events=f"{LONG:,}",
        additions=f"{each:,.0f}",
    )


def _times_amounts_window(random: Random, size: int) -> tuple:
    times = list(accumulate(random.choice((0, 1, 1, 5, 30)) for _ in range(1 + size // 6)))
    return times, [random.randint(1, 9) for _ in times], random.choice((1, 2, 5, 10, 31, 100))


def _round_trips(random: Random, size: int) -> tuple:
    batches, key_groups = random.randint(1, 1 + size // 10), random.randint(1, 128)
    return batches * key_groups * random.randint(1, size), batches, key_groups


def _share_and_factor(random: Random, size: int) -> tuple:
    """Nowhere near where two ways of rounding, or of computing, part."""
    while True:
        s, k = random.randint(1, 99) / 100, random.randint(2, 10 + 5 * size)
        if abs(100 / (1 - s + s / k) % 1 - 0.5) > 0.01:
            return s, k


EXERCISES = {
    "6.1": FunctionExercise(
        cases=(
            ((1_000, 1, 16), (4_000, 48)),
            ((64, 2, 16), (256, 96), "a key-group reads and writes its state in each batch"),
            ((30_000, 3, 128), (120_000, 1_152)),
            ((3_000_000_000, 1, 16), (12_000_000_000, 48)),
        ),
        right=lambda events, batches, key_groups: (4 * events, 3 * key_groups * batches),
        draw=_round_trips,
        because="The second number does not grow with the events.",
        hints=(
            "The textbook's number depends only on the events. The other number does not depend on the events at all.",
            "Count 3 for each key-group in each batch.",
        ),
        mistakes=(
            Mistake(
                lambda events, batches, key_groups: (4 * events, 3 * key_groups),
                "A key-group reads and writes its state again in each batch.",
            ),
            Mistake(
                lambda events, batches, key_groups: (4 * events * batches, 3 * key_groups * batches),
                "`events` is the total number of events: each is in only one batch.",
            ),
            Mistake(
                lambda events, batches, key_groups: (3 * key_groups * batches, 4 * events),
                "The textbook's number comes first.",
            ),
        ),
    ),
    "6.2": FunctionExercise(
        cases=(
            (([0, 10, 11], [5, 2, 1], 10), [5, 7, 3], "at 10 the event at 0 still counts, at 11 it does not"),
            (([0, 5, 30], [1, 1, 1], 20), [1, 2, 1], "two events may leave at once"),
            (([1, 2, 3, 4], [1, 1, 1, 1], 100), [1, 2, 3, 4]),
            (([], [], 10), [], "no events"),
            (([0, 2**32], [2**32, 2**33], 10), [2**32, 2**33]),
            (
                ([7, 7], [1, 1], 20),
                [1, 2],
                "of two events at the same time, the first does not see the second",
            ),
        ),
        right=_running,
        draw=_times_amounts_window,
        extra_check=_walks,
        because="An event enters once and leaves once.",
        hints=(
            "Keep a running total, and the index of the oldest event that is still in the window.",
            "While the oldest event's time is less than t − W, subtract its amount and go to the next event.",
        ),
        mistakes=(
            Mistake(
                lambda times, amounts, W: _sums(times, amounts, lambda one, end: end - W < one <= end),
                "An event exactly W back still counts: it leaves when its time is less than t − W.",
            ),
            Mistake(
                lambda times, amounts, W: list(accumulate(amounts)),
                "Events enter, but none leaves: that is the sum of all events so far.",
            ),
            Mistake(
                lambda times, amounts, W: [
                    sum(a for at, a in zip(times, amounts) if t - W <= at <= t) for t in times
                ],
                "An event sees only itself and the events before it in the list, not the next one, even if that has the same time.",
            ),
            Mistake(_only_one_leaves, "Several events may leave at once: use while, not if."),
            Mistake(
                lambda times, amounts, W: amounts,
                "That is each event's own amount, not the sum of its window.",
            ),
        ),
    ),
    "6.3": FunctionExercise(
        cases=(
            *(((1,), 1), ((7,), 7), ((9,), 2), ((63,), 14), ((100,), 9), ((128,), 2), ((511,), 21)),
            ((8,), 1, "eight files of the same size become one"),
            ((64,), 1, "eight merged files become one, too"),
            *(((512,), 1), ((513,), 2), ((2**40,), 2)),
        ),
        right=lambda n: sum(map(int, oct(n)[2:])),
        draw=lambda random, size: (random.randint(0, size * size),),
        because="It is counting in base 8.",
        hints=(
            "Write n in base 8 with oct(n). Eight ones become a single one in the next digit.",
            "Add up the digits. oct(n) begins with 0o, so take oct(n)[2:].",
        ),
        mistakes=(
            Mistake(lambda n: n % 8, "That counts only the smallest files. The merged ones are kept, too."),
            Mistake(
                lambda n: n // 8 + n % 8,
                "Eight merged files are merged again: after 64 batches there is one file.",
            ),
            Mistake(
                lambda n: len(oct(n)[2:]),
                "That is the number of possible file sizes, not the number of files.",
            ),
            Mistake(
                lambda n: n.bit_count(),
                "That would be right if files were merged two at a time. Here eight are merged at a time.",
            ),
        ),
    ),
    "6.4": FunctionExercise(
        cases=(
            ((0.5, 2), 1.33),
            ((0.05, 1000), 1.05, "a part that takes a twentieth of the time is not worth a week of work"),
            ((0.9, 10), 5.26, "the rest, which you did not speed up, is now the largest part"),
            ((0.6, 3), 1.67, "1.666… is rounded up"),
            ((0.9999, 100_000), 9_090.99),
            ((0.5, 2**32), 2.0),
        ),
        right=lambda s, k: round(1 / (1 - s + s / k), 2),
        draw=_share_and_factor,
        because="The part that you do not speed up sets the limit.",
        hints=(
            "The new time is the unchanged rest, 1 − s, plus what is left of the part, s / k.",
            "The old time was 1: divide 1 by the new time, then round(…, 2).",
        ),
        mistakes=(
            Mistake(lambda s, k: k, "Only one part gets k times faster; the rest does not."),
            Mistake(
                lambda s, k: round(1 - s + s / k, 2), "That is the new time. How many times faster is that?"
            ),
            Mistake(lambda s, k: 1 / (1 - s + s / k), "That is right, but not rounded to two digits."),
            Mistake(
                lambda s, k: round(1 / (1 - s), 2),
                "That is the limit: the speedup if the part took no time at all.",
            ),
        ),
    ),
}
