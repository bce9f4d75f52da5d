"""The forms in which aggregates are kept, and what the loop does with any of them."""

from collections.abc import Callable
from typing import NamedTuple

from lab.engine.compiled.aggregates.counted import (
    COUNT_SINCE,
    OWN_VALUE,
    count,
    is_counted,
    measure_of_count,
)
from lab.engine.compiled.aggregates.distinct import count_value
from lab.engine.compiled.aggregates.ordered import add_to_tree, measure_of_tree
from lab.engine.compiled.aggregates.pairs import PAIRS
from lab.engine.compiled.aggregates.queues import (
    BEATS,
    FIRST_QUEUE,
    has_queue,
    link_in_queue,
    measure_of_head,
)
from lab.engine.compiled.aggregates.sequences import LANES_OF_STEPS, measure_of_steps, take_step
from lab.engine.compiled.aggregates.sums import (
    LIMBS,
    add_value,
    add_value_and_square,
    measure_of_mean,
    measure_of_squares,
    measure_of_sum,
)
from lab.engine.compiled.layout import (
    HEAD,
    NEWER,
    NOTHING,
    TAIL,
    N,
    choose_compiled,
    njit_without_allocation,
)
from lab.model.aggregates import AGGREGATES, Aggregate


class Form(NamedTuple):
    """How an aggregate without a queue is kept.

    `lanes`: int64s of an accumulator. `add`: an event enters (sign 1) or leaves (-1). `measure`: the aggregate of the running window;
    denominator 0: no event counts, and it is no count.
    """

    name: str
    lanes: int
    add: Callable
    measure: Callable


FORMS = (
    Form("count since", 3, count, measure_of_count),
    Form("count", 2, count, measure_of_count),
    Form("sum", 4, add_value, measure_of_sum),
    Form("mean", 4, add_value, measure_of_mean),
    Form("squares", 8, add_value_and_square, measure_of_squares),
    Form("distinct", 2, count_value, measure_of_count),
    Form("ordered", 3, add_to_tree, measure_of_tree),
    Form("steps", LANES_OF_STEPS, take_step, measure_of_steps),
)
QUEUE_LANES, OTHER_WINDOW_LANES = 4, 3  # the latter are at the end: see `lab.engine.compiled.otherwindows`
KINDS = {form.name: kind for kind, form in enumerate(FORMS)}
DISTINCT, ORDERED, STEPS = KINDS["distinct"], KINDS["ordered"], KINDS["steps"]
assert len(FORMS) == FIRST_QUEUE and KINDS["count since"] == COUNT_SINCE
LANES = max(QUEUE_LANES, *(form.lanes for form in FORMS)) + OTHER_WINDOW_LANES
HUGE = LIMBS + LANES  # where in the scratch numbers of many limbs are, see `lab.engine.compiled.conditions`
SCRATCH = HUGE + 192


class AccumulatorLayout(NamedTuple):
    """How the engine keeps an aggregate: its kind, and how many lanes, int64s, its accumulator has. `percent`: as of `Aggregate`; `pair`: one of PAIRS."""

    kind: int
    lanes: int
    percent: int = 0
    pair: int = 0

    @classmethod
    def of_form(cls, name: str, percent: int = 0) -> "AccumulatorLayout":
        return cls(KINDS[name], FORMS[KINDS[name]].lanes, percent)

    @classmethod
    def of(cls, aggregate: Aggregate) -> "AccumulatorLayout":
        if not aggregate.has_window:
            return cls(OWN_VALUE, 0)
        if aggregate.beats:
            return cls(
                FIRST_QUEUE + BEATS.index(aggregate.beats), QUEUE_LANES, 0, PAIRS.get(aggregate.name, 0)
            )
        return cls.of_form(aggregate.kept_as, aggregate.percent)

    @property
    def queues(self) -> int:
        """How many pairs of columns of Store.queues it needs."""
        return 2 if self.kind == ORDERED else int(self.kind >= FIRST_QUEUE)


ACCUMULATOR_LAYOUTS = {name: AccumulatorLayout.of(aggregate) for name, aggregate in AGGREGATES.items()}

_add = choose_compiled([form.add for form in FORMS])
_measure = choose_compiled([*(form.measure for form in FORMS), *(measure_of_head for _ in BEATS)])


@njit_without_allocation
def clear_accumulator(rules, aggregate, accumulator):
    """An empty window; what was reset stays reset."""
    if has_queue(rules, aggregate):
        accumulator[HEAD] = NOTHING
        accumulator[TAIL] = NOTHING
    elif rules.aggregates[aggregate].kind == COUNT_SINCE:
        accumulator[N] = 0
    else:
        accumulator[N:] = 0


@njit_without_allocation
def enter_window(store, rules, aggregate, accumulator, event):
    """Adds an event to the running window; if the aggregate has a queue, at the newer end."""
    if is_counted(store, rules, aggregate, accumulator, event):
        if has_queue(rules, aggregate):
            link_in_queue(store, rules, aggregate, accumulator, event, accumulator[TAIL], NOTHING, True)
        else:
            add_or_subtract(store, rules, aggregate, accumulator, event, 1)


@njit_without_allocation
def leave_window(store, rules, aggregate, accumulator, event):
    """Removes an event from the running window; if the aggregate has a queue, from the older end."""
    if has_queue(rules, aggregate):
        if accumulator[HEAD] == event:
            accumulator[HEAD] = store.queues[event, rules.aggregates[aggregate].queue, NEWER]
    elif is_counted(store, rules, aggregate, accumulator, event):
        add_or_subtract(store, rules, aggregate, accumulator, event, -1)


@njit_without_allocation
def measure_of_accumulator(store, rules, aggregate, accumulator):
    """The aggregate of the running window; denominator 0: no event counts, and it is no count."""
    return _measure(rules.aggregates[aggregate].kind, store, rules, aggregate, accumulator)


@njit_without_allocation
def add_or_subtract(store, rules, aggregate, accumulator, event, sign):
    """Adds an event to an accumulator (sign 1) or subtracts it (sign -1)."""
    _add(rules.aggregates[aggregate].kind, store, rules, aggregate, accumulator, event, sign)
