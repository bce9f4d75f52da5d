"""Alerts one by one, out of the rows that the compiled loop found, and the exact values that these contain."""

import json
from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lab.engine.compiled import layout
from lab.engine.compiled.rulenumbers import measure_scale
from lab.engine.records.columns import ID_TEXT, LOG_TIME, Columns
from lab.engine.windows.store import RouteStore
from lab.model.aggregates import AGGREGATES, Exact
from lab.model.aggregation import Aggregation, MeasuredCondition
from lab.model.alerts import Alert, event_for_alert
from lab.model.field import Id, Value
from lab.model.group import group_for_alert, group_key
from lab.model.rule import Rule


def alerts_one_by_one(
    store: RouteStore, columns: Columns, alert_rows: np.ndarray, first_rows: np.ndarray, alert_time_ms: int
) -> Iterator[Alert]:
    """The alerts that `store.evaluate(columns, …)` found; the arguments are those of `alertlines.alert_lines`."""
    for start, end in pairwise([*first_rows.tolist(), len(alert_rows)]):
        row, rule = int(alert_rows[start, layout.ROW]), store.rules[alert_rows[start, layout.RULE]]
        (aggregate, operator, limit), conditions = measured_conditions(store, rule, alert_rows[start:end])
        assert aggregate is not None and limit is not None, "a condition that holds has both"
        values = [_value(store, columns, "key", name, row) for name in rule.keys]
        told = {name: _value(store, columns, "told", name, row) for name in rule.event_fields}
        log_time = max(int(columns[LOG_TIME][row]), 0) or None
        yield Alert(
            rule.rule_id,
            rule.version,
            group_key(rule.keys, values),
            aggregate,
            operator,
            limit,
            _event_id(store, columns, row),
            int(columns["time"][row]),
            log_time,
            log_time and alert_time_ms,
            group=group_for_alert(rule.keys, values),
            severity=rule.severity,
            title=rule.title,
            labels=rule.labels,
            conditions=conditions,
            event=event_for_alert(rule.event_fields, told),
        )


def _value(store: RouteStore, columns: Columns, kind: str, name: str, row: int) -> Value:
    """The value of a field at an event, as events have it; `kind`: "key" or "told"."""
    field = store.schema.field(name)
    if kind == "key" and not field.is_number_or_time:
        kind = "text"
    value = columns[f"{kind}:{name}"][row]
    value = value.as_py() if isinstance(value, pa.Scalar) else int(value)
    return Decimal(value).scaleb(-field.scale) if field.is_decimal and value is not None else value


def _event_id(store: RouteStore, columns: Columns, row: int) -> Id:
    if store.schema.has_numeric_id:
        return int(columns["id"][row])
    text = columns[ID_TEXT][row].as_py()
    return text if len(store.schema.id_fields) == 1 else tuple(json.loads(text))


def measured_conditions(
    store: RouteStore, rule: Rule, rows: np.ndarray
) -> tuple[MeasuredCondition, tuple[MeasuredCondition, ...]]:
    """What `Rule.conditions_for_alert` gives for an alert; `rows`: its rows."""
    if rule.is_plain:
        (own,) = rule.conditions
        return own.measured_condition(_exact(rows[0], own.aggregation, store)), ()
    by_condition = {int(row[layout.CONDITION]): row for row in rows}
    measures = [
        (
            _exact(by_condition.get(2 * place), each.aggregation, store),
            _exact(by_condition.get(2 * place + 1), each.limit_of, store),
        )
        for place, each in enumerate(rule.conditions)
    ]
    with localcontext(prec=100):
        for_alert = rule.conditions_for_alert(measures)
    assert for_alert is not None, "only what fired is here"
    return for_alert


def _exact(row: np.ndarray | None, of: Aggregation | None, store: RouteStore) -> Exact | None:
    """The value that an aggregation measured: a decimal if that is exact, otherwise a fraction."""
    if row is None or of is None:
        return None
    scale = measure_scale(of, store.schema)
    measure = row[layout.HIGH_PART :].tolist()
    if AGGREGATES[of.function].to_reported is Decimal:
        return Decimal(join_halves(*measure[:2])).scaleb(-scale, Context(prec=100))
    return exact_fraction(measure, scale)


def join_halves(high: int, low: int) -> int:
    """Two halves of 64 bits as one number.

    >>> join_halves(-1, -5), join_halves(1, -1) == (1 << 65) - 1
    (-5, True)
    """
    return (high << 64) + low % (1 << 64)


def exact_fraction(measure: list[int], scale: int) -> Fraction:
    """The value in the columns of an alert from HIGH_PART on."""
    high, low, numerator, denominator = measure
    return (join_halves(high, low) + Fraction(numerator, denominator)) / 10**scale
