"""The S/2 latency of sliding windows."""

from lab.teach.judge import Function, Mistake, Value

EXERCISES = {
    "4.1": Function(
        cases=(
            ((7_300, 1_000), 700),
            ((7_300, 5_000), 2_700),
            ((10_000, 5_000), 5_000, "an event at an end waits for the next one"),
            ((9_999, 5_000), 1),
        ),
        because="From 1 ms to a whole slide.",
        hints=(
            "time % slide is how far the event is into its slide.",
            "An event exactly at an end is in the windows that begin there, so it waits a whole slide.",
        ),
        mistakes=(
            Mistake(
                lambda time, slide: time % slide,
                "That is how far the event is into its slide. What is left of it?",
            ),
            Mistake(
                lambda time, slide: -time % slide,
                "An event exactly at an end is not in the windows that end there: it waits for the next end.",
            ),
            Mistake(
                lambda time, slide: slide / 2, "That is the mean over many events. This is about one of them."
            ),
            Mistake(
                lambda time, slide: (time // slide + 1) * slide,
                "That is the time of the next end. How long is it until then?",
            ),
            Mistake(
                lambda time, slide: (slide - time % slide) / 1_000,
                "That is in seconds. The wait is asked for in ms, as time and slide are.",
            ),
        ),
    ),
    "4.2": Function(
        cases=(
            ((500, 0), 1_000, "a slide of 1,000 ms is a wait of 500 ms on average"),
            ((300, 0), 600),
            ((500, 200), 600),
            ((500, 800), 0, "when the rest alone is over the budget, no slide helps"),
        ),
        because="Twice what is left for the wait.",
        hints=(
            "What is left for the wait is budget - other. The wait is half a slide.",
            "If nothing is left the answer is 0: max(0, …).",
        ),
        mistakes=(
            Mistake(
                lambda budget, other: max(0, budget - other),
                "That is the wait that is left. A slide may be twice as long: on average an event waits half of it.",
            ),
            Mistake(
                lambda budget, other: 2 * (budget - other),
                "A slide is never less than 0: if the rest alone is over the budget, answer 0.",
            ),
            Mistake(
                lambda budget, other: max(0, 2 * budget - other),
                "Take the rest off the budget first, then double what is left.",
            ),
            Mistake(
                lambda budget, other: max(0, (budget - other) / 2),
                "The wait is half a slide, so the slide is twice the wait, not half of it.",
            ),
            Mistake(
                lambda budget, other: max(0, 2 * (budget - other)) / 1_000,
                "That is in seconds. The slide is asked for in ms, as the budget is.",
            ),
        ),
    ),
    "4.3": Value(
        right=86_400,
        unit="windows",
        because="A payment of one pair is then in 86,400 rows of state.",
        hints=("W / S, both in seconds.", "How many seconds have 24 hours?"),
        mistakes=(
            Mistake(24, "That is W in hours divided by S in seconds: take both in seconds."),
            Mistake(1_440, "24 hours are 1,440 minutes. The slide is a second: take both in seconds."),
            Mistake(86_400_000, "That is W in ms divided by S in seconds: take both in seconds."),
            Mistake(1, "Each event is in one window only if the slide is as long as the window."),
        ),
    ),
    "4.4": Value(
        right=86_400_000_000,
        unit="rows",
        because="And a window per event needs a million.",
        hints=(
            "One row for each window of each pair: payments × panes.",
            "A million payments, 86,400 panes each.",
        ),
        mistakes=(
            Mistake(
                1_000_000, "That is a row for each payment. Each payment is in W / S windows of its pair."
            ),
            Mistake(
                86_400, "That is what one payment makes. There are a million of them, each of another pair."
            ),
            Mistake(1_000_000 * 24, "24 is W / S for a slide of an hour. Here it is a second."),
        ),
    ),
}
