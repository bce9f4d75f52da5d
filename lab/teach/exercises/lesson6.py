"""Making it fast."""

from itertools import accumulate

from lab.teach.judge import Function, Mistake


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


EXERCISES = {
    "6.1": Function(
        cases=(
            ((1_000, 1, 16), (4_000, 48)),
            ((10, 1, 16), (40, 48), "in a batch of ten events the textbook sends fewer messages"),
            ((30_000, 3, 16), (120_000, 144)),
        ),
        because="The second number does not grow with the events.",
        hints=(
            "The textbook's number depends on the events alone, the other one not on the events at all.",
            "3 for each key-group in each batch.",
        ),
        mistakes=(
            Mistake(
                lambda events, batches, key_groups: (4 * events, 3 * key_groups),
                "A key-group reads and writes its state in each batch anew.",
            ),
            Mistake(
                lambda events, batches, key_groups: (4 * events * batches, 3 * key_groups * batches),
                "events is the number of all events: each is in one batch only.",
            ),
            Mistake(
                lambda events, batches, key_groups: (3 * key_groups * batches, 4 * events),
                "The textbook's number comes first.",
            ),
        ),
    ),
    "6.2": Function(
        cases=(
            (([0, 10, 11], [5, 2, 1], 10), [5, 7, 3], "at 10 the event at 0 still counts, at 11 it does not"),
            (([0, 0, 30], [1, 1, 1], 20), [1, 2, 1], "two events may leave at once"),
            (([1, 2, 3, 4], [1, 1, 1, 1], 100), [1, 2, 3, 4]),
        ),
        because="An event enters once and leaves once.",
        hints=(
            "Keep the index of the oldest event that is still in, and a total.",
            "While the oldest one's time is less than t − W, subtract its amount and go to the next.",
        ),
        mistakes=(
            Mistake(
                lambda times, amounts, W: _sums(times, amounts, lambda one, end: end - W < one <= end),
                "An event exactly W back still counts: it leaves when its time is less than t − W.",
            ),
            Mistake(
                lambda times, amounts, W: list(accumulate(amounts)),
                "Events enter, but none leaves: that is the sum of all so far.",
            ),
            Mistake(_only_one_leaves, "Several events may leave at once: while, not if."),
            Mistake(
                lambda times, amounts, W: amounts,
                "That is each event's own amount, not the sum of its window.",
            ),
        ),
    ),
    "6.3": Function(
        cases=tuple(
            ((n,), sum(map(int, oct(n)[2:])), f"{n} is {oct(n)[2:]} in base 8")
            for n in (1, 7, 8, 9, 63, 64, 100, 128)
        ),
        because="It is counting in base 8.",
        hints=(
            "Write n in base 8: oct(n). Eight ones become one of the next digit.",
            "The sum of the digits; oct(n) begins with 0o, so take oct(n)[2:].",
        ),
        mistakes=(
            Mistake(lambda n: n % 8, "That counts the smallest files only. The merged ones are kept, too."),
            Mistake(
                lambda n: n // 8 + n % 8,
                "Eight merged files are merged again: after 64 batches there is one.",
            ),
            Mistake(
                lambda n: len(oct(n)[2:]),
                "That is how many sizes of file there may be, not how many files.",
            ),
            Mistake(
                lambda n: n.bit_count(),
                "That would be right if every two of a kind were merged. Here it is eight.",
            ),
        ),
    ),
    "6.4": Function(
        cases=(
            ((0.5, 2), 1.33),
            ((0.05, 1000), 1.05, "a part that takes a twentieth is not worth a week"),
            ((0.9, 10), 5.26, "and what you left alone is now the largest part"),
        ),
        because="What you leave alone sets the limit.",
        hints=(
            "The new time is what stays, 1 − s, and what is left of the part, s / k.",
            "The whole took 1 before: divide 1 by the new time, and round(…, 2).",
        ),
        mistakes=(
            Mistake(lambda s, k: k, "Only a part gets k times faster, the rest stays."),
            Mistake(
                lambda s, k: round(1 - s + s / k, 2), "That is the new time. How many times faster is that?"
            ),
            Mistake(lambda s, k: 1 / (1 - s + s / k), "That is it, but not rounded to two digits."),
            Mistake(
                lambda s, k: round(1 / (1 - s), 2), "That is the limit, if the part took no time at all."
            ),
        ),
    ),
}
