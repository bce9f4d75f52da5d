"""Derived fields of all rows of a batch at once: what `lab.model.derived` says of each.

amount − fee     ──►     [20.50, null, 3.00, …], and which rows have a value that fits its type
"""

from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.records.conditions import zone_offsets
from lab.model.derived import (
    FUNCTIONS,
    LEG,
    Call,
    Constant,
    Expression,
    Name,
    OutOfRange,
    call_value,
    date_text,
    factors,
    most_of,
)
from lab.model.schema import Schema

INT64 = (1 << 63) - 1


def derived_columns(columns: dict[str, pa.Array], schema: Schema) -> tuple[dict[str, pa.Array], np.ndarray]:
    """The columns with those of a schema's derived fields, for the rows of which all could be computed, and which rows these are.

    Of a schema with legs, each row is as many, one after another.
    """
    rows = len(columns[schema.time_field])
    evaluator = ColumnEvaluator(dict(columns), rows)
    for each in schema.derivations:
        evaluator.columns[each.field.name] = evaluator.column(each.expression)
    legs = [[evaluator.column(each.expression) for each in leg.derivations] for leg in schema.legs_of_record]
    computed = evaluator.computed
    if not legs and computed.all():
        return evaluator.columns, computed
    kept = pa.array(np.flatnonzero(np.repeat(computed, max(len(legs), 1))))
    if not legs:
        return {name: column.take(kept) for name, column in evaluator.columns.items()}, computed
    turns = np.arange(len(legs) * rows)
    record = pa.array(turns // len(legs))
    found = {name: column.take(record) for name, column in evaluator.columns.items()}
    found[LEG] = pa.array([leg.name for leg in schema.legs_of_record]).take(pa.array(turns % len(legs)))
    in_turns = pa.array(turns % len(legs) * rows + turns // len(legs))
    for each, of_legs in zip(schema.legs_of_record[0].derivations, zip(*legs, strict=True), strict=True):
        found[each.field.name] = pa.concat_arrays(of_legs).take(in_turns)
    return {name: column.take(kept) for name, column in found.items()}, computed


class ColumnEvaluator:
    """Computes expressions over columns. `computed`: in which rows each step so far had a value that fits its type."""

    def __init__(self, columns: dict[str, pa.Array], rows: int):
        self.columns, self.computed = columns, np.ones(rows, bool)

    def column(self, expression: Expression) -> pa.Array:
        """The values of an expression that looks at fields."""
        if isinstance(expression, Name):
            return self.columns[expression.name]
        assert isinstance(expression, Call)
        arguments = [
            each.value if isinstance(each, Constant) else self.column(each) for each in expression.arguments
        ]
        function = FUNCTIONS[expression.function]
        found = None
        if function.of_local:
            times, *zone = arguments
            found = _of_clock(expression, times, str(*zone or ["UTC"]))
        elif function.bound:
            found = _of_integers(expression, arguments)
        return self._row_by_row(expression, arguments) if found is None else found

    def _row_by_row(self, call: Call, arguments: list) -> pa.Array:
        """The values of a call, each different list of arguments looked at once."""
        lists = [each.to_pylist() if isinstance(each, pa.Array) else repeat(each) for each in arguments]
        known: dict[tuple, Any] = {}
        values = []
        for row, given in enumerate(zip(*lists, strict=False)):
            if given not in known:
                try:
                    known[given] = call_value(call, given)
                except OutOfRange as error:
                    known[given] = error
            value = known[given]
            if isinstance(value, OutOfRange):
                self.computed[row] = False
                value = None
            values.append(value)
        return pa.array(values, pa.string() if call.type in ("string", "boolean") else pa.int64())


def _whole(values: Any) -> Any:
    """Integers, 0 for null: a column as an array of NumPy's, a constant as it is."""
    return pc.fill_null(values, 0).to_numpy() if isinstance(values, pa.Array) else values


def _with_nulls(values: np.ndarray, arguments: list) -> pa.Array:
    """A column that is null where one of its arguments is."""
    nulls = [
        each.is_null().to_numpy(zero_copy_only=False) for each in arguments if isinstance(each, pa.Array)
    ]
    return pa.array(values, mask=np.logical_or.reduce(nulls))


def _of_integers(call: Call, arguments: list) -> pa.Array | None:
    """The values of a sign between two numbers; None if 64 bits may not be enough, or if a value may not fit its type."""
    function = FUNCTIONS[call.function]
    assert function.bound
    whole = [_whole(each) for each in arguments]
    by = factors(call) if function.takes == "aligned" else (1,) * len(whole)
    most = [_largest(each) * factor for each, factor in zip(whole, by, strict=True)]
    if max(*most, function.bound(*most)) > INT64:
        return None
    found = function.compute(*(each * factor for each, factor in zip(whole, by, strict=True)))
    return None if _largest(found) > most_of(call.type) else _with_nulls(found, arguments)


def _largest(whole: Any) -> int:
    """The largest distance from 0 of some integers."""
    return max(int(np.max(whole, initial=0)), -int(np.min(whole, initial=0)))


def _of_clock(call: Call, times: pa.Array, zone: str) -> pa.Array | None:
    """What clocks show; None if a day may have no date."""
    function, whole = FUNCTIONS[call.function], _whole(times)
    assert function.of_local
    shown = function.of_local(whole + zone_offsets(zone, whole))
    if call.type != "string":
        return _with_nulls(shown, [times])
    days, which = np.unique(shown, return_inverse=True)
    try:
        texts = pa.array([date_text(day) for day in days.tolist()], pa.string()).take(pa.array(which))
    except OutOfRange:
        return None
    return pc.if_else(times.is_valid(), texts, None)
