"""The truth of a condition on events, for all rows of a batch at once: what `lab.model.when` says of each.

amount > 500 and country != KR     ──►     [True, False, True, …]
"""

from decimal import Context, Decimal
from functools import reduce
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.records.columns import Columns, take_rows_in_order
from lab.model.lists import NEVER, ListOperand, NamedList
from lab.model.operators import OPERATORS, Operator, are_networks
from lab.model.schema import Schema
from lab.model.times import HOUR_MS, fixed_offset_ms, offset_ms
from lab.model.when import AllOf, AnyOf, Comparison, OtherField, When

FEW_TEXTS = 10_000  # different ones, which are looked up one by one in less time than Arrow needs for a table of a long list


class ConditionEvaluator:
    """Some rows of events, ascending, or all if None; each of their columns is looked up once."""

    def __init__(self, events: Columns, rows: np.ndarray | None, schema: Schema):
        self._events, self._rows, self._schema = events, rows, schema
        self._taken: dict[str, Any] = {}

    def true_mask(self, when: When) -> np.ndarray:
        """Of which rows a condition is true."""
        match when:
            case AllOf(parts):
                return reduce(np.logical_and, map(self.true_mask, parts))
            case AnyOf(parts):
                return reduce(np.logical_or, map(self.true_mask, parts))
        operator = OPERATORS[when.operator]
        valid = self._valid(when.field)
        if operator.takes == "nothing":
            return valid == operator.is_negated
        numeric = self._schema.field(when.field).is_number_or_time
        if isinstance(when.operand, ListOperand):
            until = self._until_of_numbers(when) if numeric else self._until_of_texts(when)
            true = until > self._whole(self._schema.time_field)
        else:
            true = self._numbers(when, operator) if numeric else self._texts(when, operator)
        true = (true != operator.is_negated) & valid
        return true & self._valid(when.operand.name) if isinstance(when.operand, OtherField) else true

    def _column(self, name: str) -> np.ndarray | pa.Array:
        if name not in self._taken:
            values = self._events[name]
            self._taken[name] = values if self._rows is None else take_rows_in_order(values, self._rows)
        return self._taken[name]

    def _valid(self, name: str) -> np.ndarray:
        column = self._column(name)
        if isinstance(column, np.ndarray):
            return np.ones(len(column), bool)
        return column.is_valid().to_numpy(zero_copy_only=False)

    def _whole(self, name: str) -> np.ndarray:
        """A number's column, in units of its last digit, 0 for null."""
        column = self._column(name)
        return column if isinstance(column, np.ndarray) else pc.fill_null(column, 0).to_numpy()

    def _compared_numbers(self, when: Comparison) -> tuple[np.ndarray, int]:
        """The numbers that are compared, in units of the last of so many digits after the point."""
        values, scale = self._whole(when.field), self._schema.field(when.field).scale
        if when.local_time_part:
            values = when.local_time_part.value_at_local(
                values + zone_offsets(when.local_time_part.zone, values)
            )
        return values, scale

    def _until_of_numbers(self, when: Comparison) -> np.ndarray:
        """The time before which each number is in a named list, ms; NEVER if it is not."""
        assert isinstance(when.operand, ListOperand)
        values, scale = self._compared_numbers(when)
        numbers, untils = _sorted_numbers(when.operand.entries, scale)
        if not len(numbers):
            return np.full(len(values), NEVER)
        distinct, which = np.unique(values, return_inverse=True)  # sorted ones are found ten times as fast
        at = np.minimum(np.searchsorted(numbers, distinct), len(numbers) - 1)
        return np.where(numbers[at] == distinct, untils[at], NEVER)[which]

    def _until_of_texts(self, when: Comparison) -> np.ndarray:
        """The same for texts: each different one is looked up once."""
        assert isinstance(when.operand, ListOperand)
        encoded, entries = self._column(when.field).dictionary_encode(), when.operand.entries
        texts, known = encoded.dictionary, entries.until_by_value
        if len(texts) <= FEW_TEXTS:
            untils = np.array([*map(known.get, texts.to_pylist(), repeat(NEVER)), NEVER], np.int64)
        else:
            if "texts" not in entries.memo:
                entries.memo["texts"] = (
                    pa.array(known, texts.type),
                    np.array([*known.values(), NEVER], np.int64),
                )
            listed, of_listed = entries.memo["texts"]
            at = pc.fill_null(pc.index_in(texts, listed), len(listed)).to_numpy()
            untils = np.append(of_listed[at], NEVER)
        return untils[pc.fill_null(encoded.indices, len(texts)).to_numpy()]

    def _numbers(self, when: Comparison, operator: Operator) -> np.ndarray:
        values, scale = self._compared_numbers(when)
        wanted: Any
        match when.operand:
            case OtherField(name):
                values, wanted = _signs(values, scale, self._whole(name), self._schema.field(name).scale)
            case tuple(listed):
                wanted = np.array([_minor(value, scale) for value in listed], np.int64)
            case value:
                wanted = np.int64(_minor(value, scale))
        return operator.numbers(np, values, wanted) if operator.numbers else operator.holds(values, wanted)

    def _texts(self, when: Comparison, operator: Operator) -> np.ndarray:
        column, operand = self._column(when.field), when.operand
        if isinstance(operand, tuple) and are_networks(operand) or not operator.texts:
            true = _of_each_text(operator, column, operand)
        elif isinstance(operand, OtherField):
            true = operator.texts(pc, column, self._column(operand.name))
        elif operator.takes == "values":
            true = operator.texts(pc, column, pa.array(operand, column.type))
        elif operator.takes == "value":
            true = operator.texts(pc, column, pa.scalar(operand, column.type))
        else:
            each = (operator.texts(pc, column, text) for text in operator.alternatives(operand))
            true = reduce(pc.or_, each)
        return pc.fill_null(true, False).to_numpy(zero_copy_only=False)


def _sorted_numbers(entries: NamedList, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers in a list, in units of the last of `scale` digits and ascending, with the time until which each is there."""
    if scale not in entries.memo:
        exact, least = Context(prec=100), -(1 << 63)
        pairs = (
            (n * 10**scale if isinstance(n, int) else n.scaleb(scale, exact), until)
            for n, until in entries.until_by_number.items()
        )
        fit = {int(n): until for n, until in pairs if least <= n < -least and n == int(n)}
        numbers = np.array(sorted(fit), np.int64)
        entries.memo[scale] = numbers, np.array([fit[number] for number in numbers.tolist()], np.int64)
    return entries.memo[scale]


def _of_each_text(operator: Operator, column: pa.Array, operand: Any) -> pa.Array:
    """Of which texts an operator holds: each different text is looked at once."""
    encoded = column.dictionary_encode()
    holds = [operator.holds_of(text, operand) for text in encoded.dictionary.to_pylist()]
    return pa.array(holds, pa.bool_()).take(encoded.indices)


def zone_offsets(zone: str, times: np.ndarray) -> np.ndarray | int:
    """The difference of a zone to UTC at each time, ms. It is looked up once for an hour, unless it changes within."""
    if (fixed := fixed_offset_ms(zone)) is not None:
        return fixed
    hours, which = np.unique(times // HOUR_MS, return_inverse=True)
    first = [offset_ms(zone, hour * HOUR_MS) for hour in hours.tolist()]
    last = [offset_ms(zone, (hour + 1) * HOUR_MS - 1) for hour in hours.tolist()]
    offsets = np.array(first, np.int64)[which]
    changing = np.flatnonzero((np.array(first) != np.array(last))[which])
    offsets[changing] = [offset_ms(zone, time) for time in times[changing].tolist()]
    return offsets


def _minor(value: Any, scale: int) -> int:
    """In units of the last of `scale` digits after the point."""
    return int(value.scaleb(scale)) if isinstance(value, Decimal) else value


def _signs(one: np.ndarray, scale: int, other: np.ndarray, other_scale: int) -> tuple[np.ndarray, int]:
    """Two columns of numbers with so many digits after the point, as signs to compare with 0: exact, as nothing is scaled up.

    >>> _signs(np.array([1, 2, -1, 0]), 0, np.array([10, 21, -9, -1]), 1)[0].tolist()  # 1 and 1.0, 2 and 2.1, -1 and -0.9, 0 and -0.1
    [0, -1, -1, 1]
    """
    if scale > other_scale:
        return -_signs(other, other_scale, one, scale)[0], 0
    whole, rest = np.divmod(other, np.int64(10 ** (other_scale - scale)))
    signs = (one > whole).astype(np.int8) - (one < whole).astype(np.int8)
    return np.where(signs == 0, -(rest > 0).astype(np.int8), signs), 0
