"""`when` of a route's rules, for all events of a batch at once: a bit for each event and each different condition.

rules 1, 2  when amount > 500   bit 0  ┐
rule 3      when country = "KR" bit 1  ├─►  column `when:0`: 0b01, 0b11, 0b10, …     rule 4, without one, needs no bit
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.compiled.layout import COUNTS, TAKES_BACK
from lab.engine.compiled.rulenumbers import STATE, distinct_whens, when_bit
from lab.engine.records.columns import Columns, take_rows_in_order
from lab.model.aggregation import WHERE
from lab.model.clock import LocalTimePart
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.takenback import taken_back_condition
from lab.model.times import HOUR_MS
from lab.model.when import (
    RELATIONS,
    AllOf,
    AnyOf,
    Comparison,
    Network,
    OtherField,
    When,
    are_networks,
    parse_ip_address,
)
from lab.model.whenreader import parse_when

TEXT_RELATIONS: dict[str, Callable] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "<": pc.less,
    "<=": pc.less_equal,
}


def when_columns(rules: Iterable[Rule], events: Columns, rows: np.ndarray, schema: Schema) -> Columns:
    """Which of the rules' conditions are true of some rows of events."""
    columns: Columns = {}
    whens = distinct_whens(rules)
    if whens:
        given = ConditionEvaluator(events, rows, schema)
        for number, when in enumerate(whens):
            name, bit = when_bit(number)
            word = columns.setdefault(name, np.zeros(len(rows), np.int64))
            word |= np.where(given.true_mask(when), np.int64(bit), 0)
    return columns


def with_take_back_column(events: Columns, schema: Schema) -> Columns:
    """Events, with what each is, where some take back others."""
    condition = taken_back_condition(schema)
    if condition is None:
        return events
    true = ConditionEvaluator(events, None, schema).true_mask(condition)
    return events | {STATE: np.where(true, TAKES_BACK, COUNTS)}


def where_column(where_name: str, events: Columns, rows: np.ndarray, schema: Schema) -> pa.Array:
    """What some rows of events keep of a `where`, by its name: 1 where it is true, else null."""
    true = ConditionEvaluator(events, rows, schema).true_mask(_parsed(where_name.removeprefix(WHERE), schema))
    return pa.array(np.ones(len(rows), np.int64), mask=~true)


@lru_cache(maxsize=1_000)
def _parsed(words: str, schema: Schema) -> When:
    return parse_when(words, schema)


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
            case Comparison(field, "is null"):
                return ~self._valid(field)
            case Comparison(field, "is not null"):
                return self._valid(field)
        numeric = self._schema.field(when.field).is_number_or_time
        true = self._numbers(when) if numeric else self._texts(when)
        true &= self._valid(when.field)
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

    def _numbers(self, when: Comparison) -> np.ndarray:
        values, scale = self._whole(when.field), self._schema.field(when.field).scale
        if when.local_time_part:
            values = when.local_time_part.value_at_local(values + _offsets(when.local_time_part, values))
        match when.operand:
            case OtherField(name):
                return RELATIONS[when.operator](
                    *_signs(values, scale, self._whole(name), self._schema.field(name).scale)
                )
            case tuple(listed):
                wanted = np.array([_minor(value, scale) for value in listed], np.int64)
                return np.isin(values, wanted, invert=when.operator == "not in")
            case value:
                return RELATIONS[when.operator](values, np.int64(_minor(value, scale)))

    def _texts(self, when: Comparison) -> np.ndarray:
        column, operand = self._column(when.field), cast(Any, when.operand)
        if isinstance(operand, OtherField):
            true = TEXT_RELATIONS[when.operator](column, self._column(operand.name))
        elif when.operator in TEXT_RELATIONS:
            true = TEXT_RELATIONS[when.operator](column, pa.scalar(operand, column.type))
        elif when.operator.endswith("startsWith"):
            true = pc.starts_with(column, operand)
        elif are_networks(operand):
            true = _in_networks(column, operand)
        else:
            true = pc.is_in(column, pa.array(operand, column.type))
        true = pc.fill_null(true, False).to_numpy(zero_copy_only=False)
        return ~true if when.operator.startswith("not ") else true.copy()


def _offsets(clock: LocalTimePart, times: np.ndarray) -> np.ndarray | int:
    """The difference to UTC at each time, ms. It is looked up once for an hour, unless it changes within."""
    if clock.fixed_offset_ms is not None:
        return clock.fixed_offset_ms
    hours, which = np.unique(times // HOUR_MS, return_inverse=True)
    first = [clock.offset_ms(hour * HOUR_MS) for hour in hours.tolist()]
    last = [clock.offset_ms((hour + 1) * HOUR_MS - 1) for hour in hours.tolist()]
    offsets = np.array(first, np.int64)[which]
    changing = np.flatnonzero((np.array(first) != np.array(last))[which])
    offsets[changing] = [clock.offset_ms(time) for time in times[changing].tolist()]
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


def _in_networks(column: pa.Array, networks: tuple[Network, ...]) -> pa.Array:
    """Which texts are addresses in one of the networks: each different text is looked at once, for each length of a prefix."""
    encoded, masks = column.dictionary_encode(), _masks(networks)
    texts = encoded.dictionary.to_pylist()
    inside = pa.array([_is_inside(text, masks) for text in texts], pa.bool_())
    return inside.take(encoded.indices)


# of IPv4 and IPv6: how far to shift, and what networks are then
Masks = dict[int, list[tuple[int, frozenset[int]]]]


@lru_cache(maxsize=256)
def _masks(networks: tuple[Network, ...]) -> Masks:
    by_shift: dict[tuple[int, int], set[int]] = {}
    for network in networks:
        shift = network.max_prefixlen - network.prefixlen
        by_shift.setdefault((network.version, shift), set()).add(int(network.network_address) >> shift)
    masks: Masks = {4: [], 6: []}
    for (version, shift), found in by_shift.items():
        masks[version].append((shift, frozenset(found)))
    return masks


def _is_inside(text: str, masks: Masks) -> bool:
    address = parse_ip_address(text)
    return address is not None and any(
        int(address) >> shift in found for shift, found in masks[address.version]
    )
