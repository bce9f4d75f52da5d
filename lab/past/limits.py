"""Which limits are worth trying for a rule: those that its first aggregate reaches at past events.

rule ──► the same without its limit ──► the values of its first aggregate ──► round limits from the least to the greatest
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil, floor, log10

from lab.model.aggregates import AGGREGATES
from lab.model.hints import step_of_values
from lab.model.messages import MAX_MULTIPLE
from lab.model.rule import Rule
from lab.model.schema import Schema

ANY_LIMIT = Decimal("-1E35")  # every aggregate is greater
NO_MULTIPLE = Decimal("999999.999983")  # hardly any aggregate is this multiple of another
STEPS = 200  # of a slider, at least
MOST = Decimal("1E24")  # limits are below
LEAST_MULTIPLE, DECADES = 1e-9, 4  # of a slider over multiples


def without_limit(rule: Rule) -> Rule:
    """The rule so that it alerts wherever its first condition may hold with one limit or another.

    It alerts at each event at which its other conditions hold. Those after `or` go, as do `atMost` and the resets of a count.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import PAYMENTS
    >>> text = "1: SUM(paymentAmount) per payeeId over 20 min < 50 and COUNT(events) over 1 h > 2, at most 1 per 1 h"
    >>> without_limit(parse_message(text, PAYMENTS).rule).describe()
    'SUM(paymentAmount) per payeeId over 20 min > -100000000000000000000000000000000000 and COUNT(events) over 1 h > 2'
    """
    aggregate = AGGREGATES[rule.aggregation.function]
    if rule.joined_by == "or":
        rule = replace(rule, joined_by=None, conditions=rule.conditions[:1])
    any_limit = rule.with_first(
        function=aggregate.instead if aggregate.resets else aggregate.name,
        operator="NOT_EQUAL" if rule.first.limit_of else "GREATER",
        limit=NO_MULTIPLE if rule.first.limit_of else ANY_LIMIT,
    )
    return replace(any_limit, at_most=None, at_most_per_ms=0)


def multiples(rule: Rule, values: Iterable[float], bases: Iterable[float]) -> list[float]:
    """The multiples of the aggregate in the rule's limit, as `bases`, that the values of its first one are, in order.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import PAYMENTS
    >>> text = "1: SUM(paymentAmount) over 20 min > 5 × SUM(paymentAmount) over 1 h ÷ 3 + 10"
    >>> multiples(parse_message(text, PAYMENTS).rule, [20.0, 30.0, 40.0], [30.0, 15.0, 0.0])
    [1.0, 4.0]
    """
    plus, by = float(rule.first.plus), rule.first.divided_by
    found = ((value - plus) * by / base for value, base in zip(values, bases) if base)
    return sorted(each for each in found if each > 0)


def slider_step(low: float, high: float) -> Decimal:
    """A round step for a slider from `low` to `high`.

    >>> slider_step(0, 20_000_000), slider_step(0, 50)
    (Decimal('1E+5'), Decimal('0.1'))
    """
    return Decimal(1).scaleb(floor(log10(max(high - low, 1e-6) / STEPS)))


def round_limits(rule: Rule, reached: Sequence[float], schema: Schema) -> list[Decimal]:
    """Round limits in order, over what is reached (values in order, or `multiples`) and the rule's own limit.

    Limits of counts are whole numbers, and those of exact sums have no more digits than these. Multiples have two digits.

    >>> from lab.model.rules import parse_message
    >>> from lab.model.schema import PAYMENTS
    >>> rule = parse_message("1: COUNT(events) per payeeId over 20 min > 3", PAYMENTS).rule
    >>> list(map(str, round_limits(rule, [1.0, 5.0], PAYMENTS)))
    ['1', '2', '3', '4', '5']
    """
    low, high = (reached[0], reached[-1]) if reached else (float(rule.first.limit),) * 2
    low, high = min(low, float(rule.first.limit)), max(high, float(rule.first.limit))
    if rule.first.limit_of:
        return _two_digit_numbers(low, high)
    low, high = max(low, float(-MOST)), min(high, float(MOST))
    if low == high:
        low, high = min(low, 0.0), max(high, 0.0 if low else 1.0)
    step = max(slider_step(low, high), step_of_values(rule, schema) or Decimal(0))
    numbers = (n * step for n in range(floor(low / float(step)), ceil(high / float(step)) + 1))
    return [number for number in numbers if abs(number) < MOST]


def _two_digit_numbers(low: float, high: float) -> list[Decimal]:
    """Positive numbers of two digits around a range of multiples, which may be cut at its lower end."""
    high = min(max(high, LEAST_MULTIPLE), float(MAX_MULTIPLE))
    low = max(low, high / 10**DECADES, LEAST_MULTIPLE)
    if low == high:
        low, high = low / 10, min(high * 10, float(MAX_MULTIPLE))
    decades = range(floor(log10(low)) - 1, floor(log10(high)) + 1)
    numbers = [Decimal(n).scaleb(decade - 1) for decade in decades for n in range(10, 100)]
    numbers += [Decimal(10).scaleb(decades[-1])]
    first, last = bisect_right(numbers, low) - 1, bisect_left(numbers, high)
    return numbers[first : last + 1]


def nearest(limits: Sequence[Decimal], limit: Decimal) -> int:
    """The place of the one next to a limit.

    >>> nearest([Decimal(0), Decimal(2), Decimal(4)], Decimal("2.9"))
    1
    """
    after = bisect_left(limits, limit)
    around = [place for place in (after - 1, after) if 0 <= place < len(limits)]
    return min(around, key=lambda place: abs(limits[place] - limit))
