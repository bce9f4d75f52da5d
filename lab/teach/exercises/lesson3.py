"""Custom windows."""

from lab.teach.judge import Function, Mistake, Value

EXERCISES = {
    "3.1": Function(
        cases=(
            ((67, 60, 60), [60]),
            ((67, 60, 15), [15, 30, 45, 60], "W / S = 4 windows"),
            ((60, 60, 30), [30, 60], "the window from 0 ends at 60 and does not include it"),
            ((5, 20, 10), [-10, 0], "a window may start before 0"),
        ),
        because="W / S of them, where S divides W.",
        hints=(
            "The last start is time // slide * slide. Go back from there by slide while the window still holds the time.",
            "range(first, end, -slide) counts down; a start that is window or more before the time is too early.",
        ),
        mistakes=(
            Mistake(
                lambda time, window, slide: sorted(range(time // slide * slide, time - window - 1, -slide)),
                "A window does not include its end: one that ends exactly at the event does not hold it.",
            ),
            Mistake(
                lambda time, window, slide: [s for s in range(0, time + 1, slide) if s + window > time],
                "Windows may also start before 0.",
            ),
            Mistake(
                lambda time, window, slide: list(range(time // slide * slide, time - window, -slide)),
                "These are the right ones. The earliest should come first.",
            ),
            Mistake(
                lambda time, window, slide: [time // slide * slide],
                "That is the last window that holds the event. Earlier ones hold it, too.",
            ),
        ),
    ),
    "3.2": Function(
        cases=(
            ((15, 20, 20), True),
            ((0, 20, 20), True, "exactly W back still counts"),
            ((-1, 20, 20), False),
            ((20, 20, 20), True, "the event itself counts"),
            ((21, 20, 20), False, "what happened later is not in the window of an earlier event"),
            ((45, 20, 20), False),
        ),
        because="Both ends count.",
        hints=(
            "Python chains comparisons: a <= b <= c.",
            "The window begins at end - width and ends at end; the time lies between them, or on one of them.",
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
                "An event of a later time may be there already, when the current one is late. It does not count.",
            ),
            Mistake(
                lambda time, end, width: abs(end - time) <= width,
                "The window reaches back only: what happened after the current event does not count.",
            ),
        ),
    ),
    "3.3": Function(
        cases=(
            ((100, [20], 0), 80),
            ((100, [20, 60, 5], 0), 40, "the widest window decides"),
            ((100, [20, 60, 5], 10), 30, "a late event looks back from its own time"),
        ),
        because="What is older is in no window that is still to come.",
        hints=(
            "The widest window is max(windows): all rules share the history.",
            "The latest late event is at newest - out_of_order. Its window begins a widest window before that.",
        ),
        mistakes=(
            Mistake(
                lambda newest, windows, out_of_order: newest - min(windows) - out_of_order,
                "The rule with the widest window would miss events: it decides, not the narrowest one.",
            ),
            Mistake(
                lambda newest, windows, out_of_order: newest - max(windows),
                "An event that comes late looks back from its own time: that much more has to be kept.",
            ),
            Mistake(
                lambda newest, windows, out_of_order: newest - max(windows) + out_of_order,
                "With more lateness more has to be kept: the horizon moves back, not forward.",
            ),
            Mistake(
                lambda newest, windows, out_of_order: newest - sum(windows) - out_of_order,
                "Windows do not follow each other: all of them end at the same event.",
            ),
        ),
    ),
    "3.4": Value(
        right=864,
        unit="in whole seconds",
        because="1% of 86,400 s; the state is then about a hundred sums for each key.",
        hints=(
            "At worst, almost one whole bucket is counted too much. Its share of an even stream is bucket / window.",
            "24 hours are 86,400 seconds. What is 1% of that?",
        ),
        mistakes=(
            Mistake(864_000, "That is in ms. The answer is in whole seconds."),
            Mistake(86_400, "That bucket is the whole window: the sum may be almost twice too large."),
            Mistake(14, "That is in minutes. The answer is in whole seconds."),
            Mistake(100, "About a hundred is how many buckets there are. How long is each, in seconds?"),
        ),
    ),
    "3.5": Value(
        right=[4, 8],
        because="After each alert it counts from 1 again.",
        hints=(
            "A plain count would alert at 4, 5, 6, 7, 8 and 9. With reset, the count at payment 5 is 1.",
            "Write the count under each payment: 1 2 3 4, and then from 1 again.",
        ),
        mistakes=(
            Mistake([4, 5, 6, 7, 8, 9], "That is a plain count. With reset it begins anew after an alert."),
            Mistake([4], "After its first alert the rule goes on counting, from 1."),
            Mistake([4, 7], "After the alert at 4 the count at payment 5 is 1, so at payment 7 it is 3."),
            Mistake([4, 9], "The count at payment 5 is 1 already, not 0."),
        ),
    ),
}
