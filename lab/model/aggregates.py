"""What rules can compute: a row for each aggregate, with its definition over a list of values and all else that there is to know.

Readers, refusals, hints, the reference, forms, databases, the page and the documentation take an aggregate from here; no other
code names it. `lab.engine.compiled.aggregates` has the forms in which an engine maintains them.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor, inf, isqrt
from typing import Any, NamedTuple

from lab.model.distance import metres_between

Exact = Decimal | Fraction | int
PLACES = 6  # after the point, of a reported value that is not exact
A_PLACE = "a place, which is a derived field"
MAX_STEPS = 5
ARGUMENTS = {
    "events": "events",
    "field": "a numeric field",
    "unique": "one or more fields",
    "steps": f"two to {MAX_STEPS} conditions in their order",
}


class Aggregate(NamedTuple):
    """An aggregate over the events of a window that count for a rule; there is at least one.

    `argument_kind`: what the aggregate uses of each event: "events" nothing, "field" the value of a numeric field, "unique" a tuple of fields,
    "steps" of which conditions it is true.
    `unit_power`: the power of the field's unit in the measure: 0 for a count, 1 for a sum in euros, 2 for a variance in euros².
    `measure`: from the list of these, in order of time, to the exact result. `measure ⋛ to_compared_limit(limit)` decides; an alert shows `to_reported(measure)`.
    `kept_as`: the form in which an engine maintains it; "nothing" if it has no window, as it is of the judged event alone. As "queue", `beats` says of a value and one of an older event whether the older
    one matters no longer: it is compiled, so it is simple arithmetic.
    `other_names`: in other languages. `resets`: it counts only since its rule fired. `instead`: the aggregate that stands for it in a
    limit, which is a multiple of what is measured. `least`: no value is below. `is_multiple`: of the field's last digit.
    `of_events_before`: the judged event never counts for it. `of_pair`: it is of the judged event, if it counts, and of the last that counts before it.
    `of_place`: its field is a place, see `lab.model.distance`. `percent`: as "ordered", which value it is: see `percentile`; 50 for `median`.
    `result`, `maintained`: for the documentation's tables.
    """

    name: str
    argument_kind: str
    unit_power: int
    measure: Callable[[Sequence], Exact]
    kept_as: str
    beats: Callable[[Any, Any], bool] | None = None
    to_reported: Callable[[Any], Decimal] = Decimal
    to_compared_limit: Callable[[Fraction], Fraction] = lambda limit: limit
    other_names: tuple[str, ...] = ()
    resets: bool = False
    instead: str = ""
    least: float = -inf
    is_multiple: bool = False
    of_events_before: bool = False
    of_pair: bool = False
    of_place: bool = False
    percent: int = 0
    result: str = ""
    maintained: str = ""

    @property
    def is_root(self) -> bool:
        """Whether an alert shows the root of what is compared."""
        return self.to_reported is square_root_to_6_places

    @property
    def has_window(self) -> bool:
        """Whether it is of a window, and not of the judged event alone."""
        return self.kept_as != "nothing"

    @property
    def markdown_row(self) -> str:
        """Its row in docs/aggregates.md."""
        return f"| `{self.name}` | {self.result} | {self.maintained} |"

    @property
    def rules_markdown_row(self) -> str:
        """Its row in docs/rules.md."""
        return f"| `{self.name}` | {A_PLACE if self.of_place else ARGUMENTS[self.argument_kind]} | {self.result} |"


def mean(values: Sequence[Exact]) -> Fraction:
    return Fraction(sum(map(_exact, values))) / len(values)


def _exact(value: Exact) -> Fraction | int:
    """A value whose sums and products are exact; integers stay integers, which add up faster than fractions."""
    return value if isinstance(value, int) else Fraction(value)


def variance(values: Sequence[Exact]) -> Fraction:
    """Of the population: the mean of the squares less the square of the mean.

    >>> variance([1, 3])
    Fraction(1, 1)
    """
    return mean([_exact(value) ** 2 for value in values]) - mean(values) ** 2


def median(values: Sequence[Exact]) -> Fraction:
    """The value in the middle, of an even number of values the mean of the two.

    >>> median([3, 1, 2]), median([4, 1, 2, 3])
    (Fraction(2, 1), Fraction(5, 2))
    """
    ascending, middle = sorted(values), len(values) // 2
    return mean(ascending[middle - 1 + len(values) % 2 : middle + 1])


def percentile(percent: int) -> Callable[[Sequence[Exact]], Exact]:
    """The smallest of the values so that at least this percentage of them is not greater.

    >>> percentile(95)(range(1, 101)), percentile(95)(range(1, 20)), percentile(10)([7])
    (95, 19, 7)
    """
    return lambda values: sorted(values)[(percent * len(values) + 99) // 100 - 1]


def steps_taken(events: Sequence[Sequence[bool | None]]) -> int:
    """How many of the steps were taken in their order: of each event, whether it ends what has begun, and which steps it is.

    >>> steps_taken([(False, True, False), (False, False, True), (False, True, False)])
    2
    >>> steps_taken([(False, True, False), (True, True, False), (False, False, True)])
    0
    """
    taken = 0
    for ends, *steps in events:
        if ends:
            taken = 0
        elif taken < len(steps) and steps[taken]:
            taken += 1
    return taken


def round_to_6_places(value: Exact) -> Decimal:
    """Half-even to 6 places.

    >>> round_to_6_places(Fraction(1, 3)), round_to_6_places(Fraction(5, 10**7)), round_to_6_places(Fraction(15, 10**7))
    (Decimal('0.333333'), Decimal('0.000000'), Decimal('0.000002'))
    """
    return Decimal(f"{round(Fraction(value) * 10**PLACES)}E-{PLACES}")


def square_root_to_6_places(value: Exact) -> Decimal:
    """The square root, half-even to 6 places, without a float.

    >>> square_root_to_6_places(Fraction(2)), square_root_to_6_places(Fraction(25, 10**14)), square_root_to_6_places(Fraction(225, 10**14))
    (Decimal('1.414214'), Decimal('0.000000'), Decimal('0.000002'))
    """
    return Decimal(f"{square_root_in_millionths(*Fraction(value).as_integer_ratio())}E-{PLACES}")


def square_root_in_millionths(numerator: int, denominator: int) -> int:
    """`square_root_to_6_places` of a fraction, which need not be reduced, in units of the sixth place."""
    numerator *= 100**PLACES
    below = isqrt(numerator // denominator)
    above_middle = 4 * numerator - (2 * below + 1) ** 2 * denominator
    return below + (above_middle > 0 or (above_middle == 0 and below % 2 == 1))


def signed_square(limit: Fraction) -> Fraction:
    """What a variance is compared with instead of its root with the limit; below 0 every variance is greater."""
    return limit * abs(limit)


class WithRoot(NamedTuple):
    """`fraction` + √`square`, exactly; of a `square` below 0, `fraction` − √−`square`.

    >>> WithRoot(Fraction(-1), Fraction(2)).sign, WithRoot(Fraction(1), Fraction(-2)).sign, WithRoot(Fraction(2), Fraction(-4)).sign
    (1, -1, 0)
    >>> WithRoot(Fraction(10), Fraction(-2)).to_6_places, WithRoot(Fraction(1, 3), Fraction()).to_6_places
    (Decimal('8.585786'), Decimal('0.333333'))
    """

    fraction: Fraction = Fraction()
    square: Fraction = Fraction()

    def plus(self, factor: Fraction, measure: Exact, is_root: bool) -> "WithRoot":
        """This and a multiple of what an aggregate measures; `is_root`: of its root. At most one of those that are added is a root."""
        if is_root:
            return self._replace(square=self.square + signed_square(factor) * Fraction(measure))
        return self._replace(fraction=self.fraction + factor * Fraction(measure))

    @property
    def sign(self) -> int:
        """-1, 0 or 1: a + b is above 0 if a is above −b, and so if its signed square is."""
        of = signed_square(self.fraction) + self.square
        return (of > 0) - (of < 0)

    @property
    def to_6_places(self) -> Decimal:
        """Half-even."""
        exact = WithRoot(self.fraction * 10**PLACES, self.square * 100**PLACES)
        root = isqrt(floor(abs(exact.square)))
        rounded = floor(exact.fraction) + (root if exact.square > 0 else -root) - 2  # not above, and near
        while (beyond := exact.plus(Fraction(1), -rounded - Fraction(1, 2), False).sign) > 0:
            rounded += 1
        return Decimal(f"{rounded + (beyond == 0 and rounded % 2)}E-{PLACES}")


def _percentiles(*percents: int) -> Iterator[Aggregate]:
    for percent in percents:
        names = (f"PERCENTILE_{percent}", *(("PERCENTILE", "QUANTILE") if percent == 95 else ()))
        yield Aggregate(
            *(f"P{percent}", "field", 1, percentile(percent), "ordered"),
            other_names=names,
            is_multiple=True,
            percent=percent,
            result=f"the smallest value so that at least {percent} % of the values are not greater",
            maintained="the same",
        )


def supersedes_always(value: Exact, older: Exact) -> bool:
    """Of the last event only the newest one matters."""
    return True


A_QUEUE = "a queue of the events that no newer event supersedes (a monotonic queue)"
SHOWN = "reported half-even to 6 decimal places"
AGGREGATES = {
    row.name: row
    for row in (
        Aggregate(
            *("SUM", "field", 1, sum, "sum"),
            other_names=("TOTAL",),
            is_multiple=True,
            result="the sum",
            maintained="sum",
        ),
        Aggregate(
            *("AVG", "field", 1, mean, "mean"),
            to_reported=round_to_6_places,
            other_names=("MEAN", "AVERAGE"),
            result=f"the mean; {SHOWN}",
            maintained="sum and count",
        ),
        Aggregate(
            *("MIN", "field", 1, min, "queue", lambda value, older: value <= older),
            other_names=("MINIMUM",),
            is_multiple=True,
            result="the smallest value",
            maintained=A_QUEUE,
        ),
        Aggregate(
            *("MAX", "field", 1, max, "queue", lambda value, older: value >= older),
            other_names=("MAXIMUM",),
            is_multiple=True,
            result="the largest value",
            maintained=A_QUEUE,
        ),
        Aggregate(
            *("VARIANCE", "field", 2, variance, "squares"),
            to_reported=round_to_6_places,
            other_names=("VAR", "VAR_POP"),
            least=0,
            result=f"the population variance: the mean of the squares minus the square of the mean; {SHOWN}",
            maintained="sum, sum of squares, count",
        ),
        Aggregate(
            *("STDDEV", "field", 2, variance, "squares"),
            to_reported=square_root_to_6_places,
            to_compared_limit=signed_square,
            other_names=("STD", "STDEV", "STDDEV_POP"),
            instead="VARIANCE",
            least=0,
            result=(
                f"the square root of the variance; {SHOWN}. "
                "To decide exactly, the engine compares the variance with the square of the limit"
            ),
            maintained="the same, shared with `VARIANCE`",
        ),
        Aggregate(
            *("VALUE", "field", 1, lambda values: values[-1], "nothing"),
            is_multiple=True,
            result="the value of the event itself; it has no window",
            maintained="nothing",
        ),
        Aggregate(
            *("PREVIOUS", "field", 1, lambda values: values[-1], "queue", supersedes_always),
            other_names=("LAG", "PREV", "BEFORE"),
            is_multiple=True,
            of_events_before=True,
            result="the value of the event before, in order of time; of several at one time, of the one that came last",
            maintained="a queue of one event",
        ),
        Aggregate(
            *("CHANGE", "field", 1, lambda values: values[-1] - values[-2], "queue", supersedes_always),
            other_names=("GAP", "DELTA", "DIFF", "DIFFERENCE"),
            is_multiple=True,
            of_pair=True,
            result="the value of the event less that of the event before; of the event time, the gap in milliseconds",
            maintained="the same, and the event itself",
        ),
        Aggregate(
            *(
                "DISTANCE",
                "field",
                0,
                lambda values: metres_between(*values[-2:]),
                "queue",
                supersedes_always,
            ),
            least=0,
            is_multiple=True,
            of_pair=True,
            of_place=True,
            result="whole metres from the place of the event before, along the great circle",
            maintained="the same, and the event itself",
        ),
        Aggregate(
            *("MEDIAN", "field", 1, median, "ordered"),
            to_reported=round_to_6_places,
            other_names=("P50", "PERCENTILE_50"),
            percent=50,
            result=f"the value in the middle, of an even number of values the mean of the two in the middle; {SHOWN}",
            maintained="a balanced tree of the values in order, which knows how many are below each",
        ),
        *_percentiles(1, 5, 10, 25, 75, 90, 95, 99),
        Aggregate(*("COUNT", "events", 0, len, "count"), result="the number of events", maintained="count"),
        Aggregate(
            *("COUNT_WITH_RESET", "events", 0, len, "count since"),
            resets=True,
            instead="COUNT",
            result="the number of events since the rule last fired for the group",
            maintained="count, and the event at which the rule fired",
        ),
        Aggregate(
            *("UNIQUE_COUNT", "unique", 0, lambda values: len(set(values)), "distinct"),
            other_names=("UNIQUE", "NUNIQUE", "DISTINCT", "COUNT_DISTINCT", "DISTINCT_COUNT"),
            result="the number of distinct combinations of the fields in `unique`",
            maintained="a table with the number of events for each combination",
        ),
        Aggregate(
            *("SEQUENCE", "steps", 0, steps_taken, "steps"),
            other_names=("FUNNEL",),
            result="how many of the steps were taken, one after the other, in the order in which they are listed",
            maintained="for each number of steps, the event at which the last such sequence began",
        ),
    )
}


def aggregates_of(argument_kind: str) -> list[str]:
    """The names of those that use the same of each event."""
    return [name for name, aggregate in AGGREGATES.items() if aggregate.argument_kind == argument_kind]
