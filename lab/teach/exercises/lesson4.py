"""The S/2 latency of sliding windows."""

from random import Random

from lab.teach.judge import FunctionExercise, Mistake, ValueExercise


def _time_slide(random: Random, size: int) -> tuple:
    slide = 100 * random.randint(1, 50)
    return slide * random.randint(0, size) + random.choice((0, random.randrange(slide))), slide


EXERCISES = {
    "4.1": FunctionExercise(
        cases=(
            ((7_300, 1_000), 700),
            ((7_300, 5_000), 2_700),
            ((10_000, 5_000), 5_000, "an event exactly at an end waits for the next end"),
            ((9_999, 5_000), 1),
            ((1_700_000_000_123, 1_000), 877),
            ((2**32 + 1, 1_003), 1_003 - (2**32 + 1) % 1_003),
        ),
        right=lambda time, slide: slide - time % slide,
        draw=_time_slide,
        because="The wait is between 1 ms and a whole slide.",
        hints=(
            "time % slide is how far the event is into its slide.",
            "An event exactly at an end is in the windows that begin there, so it waits a whole slide.",
        ),
        mistakes=(
            Mistake(
                lambda time, slide: time % slide,
                "That is how far the event is into its slide. How much of the slide is left?",
            ),
            Mistake(
                lambda time, slide: -time % slide,
                "An event exactly at an end is not in the windows that end there: it waits for the next end.",
            ),
            Mistake(
                lambda time, slide: slide / 2,
                "That is the mean over many events. The question is about one event.",
            ),
            Mistake(
                lambda time, slide: (time // slide + 1) * slide,
                "That is the time of the next end. How long is it until then?",
            ),
            Mistake(
                lambda time, slide: (slide - time % slide) / 1_000,
                "That is in seconds. Give the wait in ms, like time and slide.",
            ),
        ),
    ),
    "4.2": FunctionExercise(
        cases=(
            ((500, 0), 1_000, "a slide of 1,000 ms is a wait of 500 ms on average"),
            ((300, 0), 600),
            ((500, 200), 600),
            ((500, 800), 0, "if the rest alone exceeds the budget, no slide helps"),
            ((5_000, 1_000), 8_000),
            ((3_000_000_000, 0), 6_000_000_000),
        ),
        right=lambda budget, other: max(0, 2 * (budget - other)),
        draw=lambda random, size: (random.randint(0, 100 * size), random.randint(0, 60 * size)),
        because="The slide is twice what is left for the wait.",
        hints=(
            "The time left for the wait is budget - other. The wait is half a slide.",
            "If nothing is left the answer is 0: max(0, …).",
        ),
        mistakes=(
            Mistake(
                lambda budget, other: max(0, budget - other),
                "That is the time left for the wait. A slide may be twice as long, because on average an event waits half of it.",
            ),
            Mistake(
                lambda budget, other: 2 * (budget - other),
                "A slide is never less than 0: if the rest alone exceeds the budget, answer 0.",
            ),
            Mistake(
                lambda budget, other: max(0, 2 * budget - other),
                "Subtract the rest from the budget first, then double what is left.",
            ),
            Mistake(
                lambda budget, other: max(0, (budget - other) / 2),
                "The wait is half a slide, so the slide is twice the wait, not half of it.",
            ),
            Mistake(
                lambda budget, other: max(0, 2 * (budget - other)) / 1_000,
                "That is in seconds. Give the slide in ms, like the budget.",
            ),
        ),
    ),
    "4.3": ValueExercise(
        right=86_400,
        unit="windows",
        because="Each payment of a pair is then in 86,400 rows of state.",
        hints=("Compute W / S, both in seconds.", "How many seconds are there in 24 hours?"),
        mistakes=(
            Mistake(24, "That is W in hours divided by S in seconds: take both in seconds."),
            Mistake(1_440, "24 hours are 1,440 minutes. The slide is a second: take both in seconds."),
            Mistake(86_400_000, "That is W in ms divided by S in seconds: take both in seconds."),
            Mistake(1, "Each event is in one window only if the slide is as long as the window."),
        ),
    ),
    "4.4": ValueExercise(
        right=86_400_000_000,
        unit="rows",
        because="A window per event needs only a million.",
        hints=(
            "There is one row for each window of each pair: payments × panes.",
            "There are a million payments, with 86,400 panes each.",
        ),
        mistakes=(
            Mistake(
                1_000_000, "That is one row for each payment. Each payment is in W / S windows of its pair."
            ),
            Mistake(
                86_400,
                "That is the number of rows for one payment. There are a million payments, each of a different pair.",
            ),
            Mistake(1_000_000 * 24, "24 is W / S for a slide of an hour. Here it is a second."),
        ),
    ),
}
