"""Custom windows."""

from random import Random

from lab.teach.judge import FunctionExercise, Mistake, ValueExercise


def _time_window_slide(random: Random, size: int) -> tuple:
    slide = random.randint(1, 1 + size // 4)
    return random.randint(-size, 4 * size), slide * random.randint(1, 6 + size // 8), slide


def _time_end_width(random: Random, size: int) -> tuple:
    end, width = random.randint(-size, size), random.randint(1, size)
    return end - random.choice((0, 1, width - 1, width, width + 1, -1, -width)), end, width


EXERCISES = {
    "3.1": FunctionExercise(
        cases=(
            ((67, 60, 60), [60]),
            ((67, 60, 15), [15, 30, 45, 60], "W / S = 4 windows"),
            ((60, 60, 30), [30, 60], "the window from 0 ends at 60 and does not include it"),
            ((5, 20, 10), [-10, 0], "a window may start before 0"),
        ),
        right=lambda time, window, slide: sorted(range(time // slide * slide, time - window, -slide)),
        draw=_time_window_slide,
        because="An event is in W / S windows if S divides W.",
        hints=(
            "The last start is time // slide * slide. Go back from there by `slide` while the window still contains the time.",
            "range(first, end, -slide) counts down. A start that is `window` or more before the time is too early.",
        ),
        mistakes=(
            Mistake(
                lambda time, window, slide: sorted(range(time // slide * slide, time - window - 1, -slide)),
                "A window does not include its end: a window that ends exactly at the event does not contain it.",
            ),
            Mistake(
                lambda time, window, slide: [s for s in range(0, time + 1, slide) if s + window > time],
                "Windows may also start before 0.",
            ),
            Mistake(
                lambda time, window, slide: list(range(time // slide * slide, time - window, -slide)),
                "These are the right windows. Return the earliest one first.",
            ),
            Mistake(
                lambda time, window, slide: [time // slide * slide],
                "That is the last window that contains the event. Earlier ones contain it, too.",
            ),
        ),
    ),
    "3.2": FunctionExercise(
        cases=(
            ((15, 20, 20), True),
            ((0, 20, 20), True, "exactly W back still counts"),
            ((-1, 20, 20), False),
            ((20, 20, 20), True, "the event itself counts"),
            ((21, 20, 20), False, "what happened later is not in the window of an earlier event"),
            ((45, 20, 20), False),
        ),
        right=lambda time, end, width: end - width <= time <= end,
        draw=_time_end_width,
        because="Both ends count.",
        hints=(
            "Python chains comparisons: a <= b <= c.",
            "The window begins at end - width and ends at end. The time lies between the two or equals one of them.",
        ),
        mistakes=(
            Mistake(
                lambda time, end, width: end - width < time <= end,
                "An event exactly W back still counts: the left end belongs to the window.",
            ),
            Mistake(
                lambda time, end, width: end - width <= time < end,
                "The current event itself counts: the right end belongs to the window.",
            ),
            Mistake(
                lambda time, end, width: time >= end - width,
                "When the current event is late, events with a later time may already have arrived. They do not count.",
            ),
            Mistake(
                lambda time, end, width: abs(end - time) <= width,
                "The window only reaches back: what happened after the current event does not count.",
            ),
        ),
    ),
    "3.3": FunctionExercise(
        cases=(
            ((100, [20], 0), 80),
            ((100, [20, 60, 5], 0), 40, "the widest window decides"),
            ((100, [20, 60, 5], 10), 30, "a late event looks back from its own time"),
            ((100, [60], 40), 0),
            ((1_700_000_000_000, [2_592_000_000], 300_000), 1_697_407_700_000),
            ((1_000, list(range(1, 201)), 0), 800),
        ),
        right=lambda newest, windows, out_of_order: newest - max(windows) - out_of_order,
        draw=lambda random, size: (
            random.randint(0, 50 * size),
            [random.randint(1, size) for _ in range(random.randint(1, 6))],
            random.randint(0, size // 3),
        ),
        because="Anything older is in no future window.",
        hints=(
            "The widest window is max(windows): all rules share the history.",
            "The oldest time that a late event can have is newest - out_of_order. Its widest window begins max(windows) before that.",
        ),
        mistakes=(
            Mistake(
                lambda newest, windows, out_of_order: newest - min(windows) - out_of_order,
                "The rule with the widest window would miss events: the widest window decides, not the narrowest.",
            ),
            Mistake(
                lambda newest, windows, out_of_order: newest - max(windows),
                "A late event looks back from its own time, so the engine has to keep that much more.",
            ),
            Mistake(
                lambda newest, windows, out_of_order: newest - max(windows) + out_of_order,
                "Later events mean that more has to be kept: the horizon moves back, not forward.",
            ),
            Mistake(
                lambda newest, windows, out_of_order: newest - sum(windows) - out_of_order,
                "The windows do not follow one another: all of them end at the same event.",
            ),
        ),
    ),
    "3.4": ValueExercise(
        right=864,
        unit="in whole seconds",
        because="That is 1% of 86,400 s; the state is then about a hundred sums for each key.",
        hints=(
            "In the worst case, almost one whole bucket too much is counted. In an even stream its share is bucket / window.",
            "24 hours are 86,400 seconds. What is 1% of that?",
        ),
        mistakes=(
            Mistake(864_000, "That is in ms. The answer is in whole seconds."),
            Mistake(86_400, "That bucket is the whole window: the sum may be almost twice too large."),
            Mistake(14, "That is in minutes. The answer is in whole seconds."),
            Mistake(100, "About a hundred is the number of buckets. How long is each, in seconds?"),
        ),
    ),
    "3.5": ValueExercise(
        right=[4, 8],
        any_order=True,
        because="After each alert the count starts from 1 again.",
        hints=(
            "A plain count would alert at 4, 5, 6, 7, 8 and 9. With reset, the count at payment 5 is 1.",
            "Write the count under each payment: 1 2 3 4, then start from 1 again.",
        ),
        mistakes=(
            Mistake(
                [4, 5, 6, 7, 8, 9], "That is a plain count. With reset the count starts again after an alert."
            ),
            Mistake([4], "After its first alert the rule goes on counting, starting from 1."),
            Mistake([4, 7], "After the alert at 4 the count at payment 5 is 1, so at payment 7 it is 3."),
            Mistake([4, 9], "The count at payment 5 is already 1, not 0."),
        ),
    ),
}
