"""Alerts as the lines of their log, made from columns."""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa

from lab.engine.columns import Columns
from lab.engine.store import MEASURING, RouteStore
from lab.model.alerts import Alert, group_key
from lab.model.rules import Rule


def alert_lines(
    store: RouteStore, columns: Columns, alerts: np.ndarray, alert_time_ms: int
) -> tuple[list[str], list[str]]:
    """Keys and JSON of the alerts that `RouteStore.evaluate` found on the columns."""
    keys, lines = zip(*_lines(store, columns, alerts, alert_time_ms))
    return list(keys), list(lines)


def _lines(
    store: RouteStore, columns: Columns, alerts: np.ndarray, alert_time_ms: int
) -> Iterator[tuple[str, str]]:
    rows = alerts[:, 0]
    ids, times, logged = (columns[name][rows].tolist() for name in ("id", "time", "logTime"))
    keys = {name: _key_values(store, columns, name, rows) for name in store.route.keys}
    for i, (_, r, high, low, count) in enumerate(alerts.tolist()):
        rule = store.rules[r]
        key = group_key(rule.keys, (keys[name][i] for name in rule.keys))
        aggregate = _aggregate(store, rule, (high << 32) + low, count)
        named = (rule.rule_id, rule.version, key, aggregate, rule.operator, rule.limit, ids[i], times[i])
        yield key, Alert(*named, *((logged[i], alert_time_ms) if logged[i] else ())).to_json()


def _key_values(store: RouteStore, columns: Columns, name: str, rows: np.ndarray) -> list:
    field = store.schema.field(name)
    if not field.numeric:
        return columns[f"text:{name}"].take(pa.array(rows)).to_pylist()
    values = columns[f"key:{name}"][rows].tolist()
    return [Decimal(f"{value}E-{field.scale}") for value in values] if field.scale else values


def _aggregate(store: RouteStore, rule: Rule, total: int, count: int) -> Decimal:
    if rule.function not in MEASURING:
        return Decimal(count)
    scale = store.schema.field(rule.field).scale
    if rule.function != "AVG":
        return Decimal(f"{total}E-{scale}")
    quotient, rest = divmod(total * 10**6, count * 10**scale)  # half-even at the sixth digit
    twice = 2 * rest - count * 10**scale
    return Decimal(f"{quotient + (twice > 0 or (twice == 0 and quotient % 2))}E-6")
