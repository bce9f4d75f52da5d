"""Alerts as lines of JSON, all of a batch at once: columns of text are joined, without an object for each alert.

row, rule, group, aggregate   ──►   {"alertId":"1.2. … .7fbfe0f0…","ruleId":1, … }     as `Alert.to_json` writes it
"""

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.compiled import layout
from lab.engine.compiled.measures import exact_fraction, join_halves, measured_conditions
from lab.engine.compiled.rulenumbers import measure_scale
from lab.engine.compiled.window import WITHDRAWN
from lab.engine.records.arrowjson import quote_json
from lab.engine.records.columns import ID_TEXT, LOG_TIME, Columns, take_rows
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.windows.store import RouteStore
from lab.model.aggregates import (
    AGGREGATES,
    PLACES,
    Aggregate,
    round_to_6_places,
    square_root_in_millionths,
    square_root_to_6_places,
)
from lab.model.aggregation import MeasuredCondition
from lab.model.alerts import Alert, conditions_member, event_for_alert
from lab.model.attributes import carried_members
from lab.model.field import Id, Value
from lab.model.formatting import plain_text
from lab.model.group import group_for_alert, group_hash, group_key, shorten_key
from lab.model.rule import Rule
from lab.model.rules import RuleBook

TEXT = pa.large_string()  # a batch's lines may be more than 2 GB
SAFE = 1 << 62  # products below this fit an int64
NOT_WORTH_ARROW = 20  # alerts: one by one they take less time than Arrow needs to begin
PLAIN_DIGITS = 6  # after the point, up to which Arrow writes decimals without an exponent


def alert_lines(
    store: RouteStore, columns: Columns, alert_rows: np.ndarray, first_rows: np.ndarray, alert_time_ms: int
) -> KeyedLines:
    """Keys and JSON of the alerts that `store.evaluate(columns, …)` found; `columns` has also log times and `text:…`.

    `first_rows`: the alerts' `first_row_of_each_alert`. If the log time is 0, the log is not live, and the alerts get no `logTime` or `alertTime`.
    """
    if len(first_rows) <= NOT_WORTH_ARROW:
        few = list(alerts_one_by_one(store, columns, alert_rows, first_rows, alert_time_ms))
        return KeyedLines([alert.key for alert in few], JoinedLines(alert.to_json() for alert in few))
    alerts = alert_rows if len(first_rows) == len(alert_rows) else alert_rows[first_rows]
    row = alerts[:, layout.ROW]
    fired = np.bincount(alerts[:, layout.RULE]) > 0
    rules = [store.rules[number] for number in np.flatnonzero(fired).tolist()]
    which = (np.cumsum(fired) - 1)[alerts[:, layout.RULE]]
    heads = [f'{{"alertId":"{rule.rule_id}.{rule.version}.' for rule in rules]
    named = [f'","ruleId":{rule.rule_id},"ruleVersion":{rule.version},' for rule in rules]
    limits = [_after_aggregate(rule.first.operator, plain_text(rule.first.limit), rule) for rule in rules]
    of_rule = [
        pa.array(texts, TEXT).take(pa.array(which)) if len(rules) > 1 else texts[0]
        for texts in (heads, named, limits)
    ]
    if all(rule.is_plain for rule in rules):
        aggregates = _aggregates(store, alerts, rules, which)
    else:
        aggregates, of_rule[2] = _of_conditions(store, alert_rows, first_rows, rules, which, limits)
    event_time, log_time = columns["time"][row], columns[LOG_TIME][row]
    ends: pa.Array | str = "}\n"
    if log_time.any():
        live = _joined(',"logTime":', _text(log_time), f',"alertTime":{alert_time_ms}}}\n')
        ends = pc.if_else(pa.array(log_time > 0), live, pa.scalar(ends, TEXT))
    time = _text(event_time)
    event_id, json_id = event_id_texts(store, columns, row)
    keys, hashes, groups = _groups(store, columns, alerts, rules, which)
    lines = _joined(
        *(of_rule[0], event_id, ".", time, hashes),
        *(of_rule[1], groups, aggregates),
        *(of_rule[2], _events(store, columns, alerts, rules, which)),
        *(',"eventId":', json_id, ',"eventTime":', time, ends),
    )
    return KeyedLines(keys, JoinedLines(lines.buffers()[-1]))


def withdrawal_lines(
    store: RouteStore, record_columns: Columns, record_fates: np.ndarray, alert_time_ms: int
) -> tuple[KeyedLines, np.ndarray]:
    """Keys and JSON of the lines that withdraw alerts, and for each the row of the record that took back their event.

    The columns and fates are those of all records of the batch. A record gives one line for each order in which rules name
    the keys, with the key and the group of the alerts that it withdraws.
    """
    keys, lines, rows = [], [], np.flatnonzero(record_fates == WITHDRAWN)
    if not len(rows):
        return KeyedLines(keys, JoinedLines()), rows
    ids = event_id_texts(store, record_columns, rows).as_json
    times, logged = record_columns["time"][rows], record_columns[LOG_TIME][rows]
    orders = dict.fromkeys(rule.keys for rule in store.rules)
    for names in orders:
        texts, groups = group_texts(store, record_columns, names, rows)
        keys += (mine := [shorten_key(text) for text in texts.to_pylist()])
        lines += [
            f'{{"withdrawn":true,"key":{json.dumps(key)},"group":{group},"eventId":{event_id},"eventTime":{time}'
            + (f',"logTime":{log_time},"alertTime":{alert_time_ms}}}' if log_time else "}")
            for key, group, event_id, time, log_time in zip(
                mine, groups.to_pylist(), ids.to_pylist(), times.tolist(), logged.tolist(), strict=True
            )
        ]
    return KeyedLines(keys, JoinedLines(lines)), np.tile(rows, len(orders))


def first_row_of_each_alert(store: RouteStore, alert_rows: np.ndarray) -> np.ndarray:
    """The first row of each alert that is not suppressed. The alert of a rule that is not plain has a row for each value."""
    if not len(store.numbers.rules_with_conditions):
        return np.arange(len(alert_rows))
    another = np.diff(alert_rows[:, layout.ROW]) | np.diff(alert_rows[:, layout.RULE])
    begins = np.append(True, another != 0)[: len(alert_rows)]
    return np.flatnonzero(begins & (alert_rows[:, layout.CONDITION] != layout.SUPPRESSED))


def without_muted(
    store: RouteStore, columns: Columns, alert_rows: np.ndarray, book: RuleBook
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the alerts that are not muted, and how many alerts of each rule of the store are."""
    has_mutes = np.array([rule.rule_id in book.rules_with_mutes for rule in store.rules])
    muted = np.zeros(len(store.rules), np.int64)
    if not len(alert_rows) or not has_mutes.any():
        return alert_rows, muted
    first = first_row_of_each_alert(store, alert_rows)
    first = first[has_mutes[alert_rows[first, layout.RULE]]]
    rows, rules = alert_rows[first][:, [layout.ROW, layout.RULE]].T
    groups = group_texts(store, columns, store.route.keys, rows).as_json.to_pylist()
    times = columns["time"][rows].tolist()
    is_muted = [
        book.is_muted(f"{store.rules[rule].rule_id} {group}", time)
        for rule, group, time in zip(rules.tolist(), groups, times, strict=True)
    ]
    muted += np.bincount(rules[is_muted], minlength=len(muted))
    alert_of_row = alert_rows[:, layout.ROW] * len(muted) + alert_rows[:, layout.RULE]
    gone = np.isin(alert_of_row, (rows * len(muted) + rules)[is_muted])
    return alert_rows[~gone], muted


def split_shadow(store: RouteStore, alert_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the alerts of rules that are ACTIVE, and of those in state SHADOW."""
    in_shadow = np.array([rule.state == "SHADOW" for rule in store.rules])[alert_rows[:, layout.RULE]]
    return (
        (alert_rows[~in_shadow], alert_rows[in_shadow]) if in_shadow.any() else (alert_rows, alert_rows[:0])
    )


def _after_aggregate(
    operator: str, limit: str, rule: Rule, conditions: Iterable[MeasuredCondition] = ()
) -> str:
    members = f"{conditions_member(conditions)}{carried_members(rule)}"
    return f'","operator":"{operator}","limit":"{limit}"{members}'


def _of_conditions(
    store: RouteStore,
    found: np.ndarray,
    first: np.ndarray,
    rules: list[Rule],
    which: np.ndarray,
    limits: list[str],
) -> tuple[pa.Array, pa.Array]:
    """The aggregates of all alerts, and what follows them; `limits`: what follows those of plain rules."""
    mine = np.flatnonzero(np.array([rule.is_plain for rule in rules])[which])
    written, after = np.empty(len(first), object), [limits[number] for number in which.tolist()]
    written[mine] = _aggregates(store, found[first[mine]], rules, which[mine]).to_pylist()
    for number, (start, end) in enumerate(pairwise([*first.tolist(), len(found)])):
        rule = rules[which[number]]
        if rule.is_plain:
            continue
        (aggregate, operator, limit), conditions = _measured(store, rule, found[start:end])
        assert aggregate is not None and limit is not None, "a condition that holds has both"
        written[number] = plain_text(aggregate)
        after[number] = _after_aggregate(operator, plain_text(limit), rule, conditions)
    return pa.array(written, TEXT), pa.array(after, TEXT)


def _measured(
    store: RouteStore, rule: Rule, rows: np.ndarray
) -> tuple[MeasuredCondition, tuple[MeasuredCondition, ...]]:
    measures = {int(row[layout.CONDITION]): row[layout.HIGH_PART :].tolist() for row in rows}
    return measured_conditions(store.schema, rule, measures)


def _joined(*texts: pa.Array | str) -> pa.Array:
    scalars = (pa.scalar(text, TEXT) if isinstance(text, str) else text for text in (*texts, ""))
    return pc.binary_join_element_wise(*scalars)


def _text(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(TEXT)


class EventIdTexts(NamedTuple):
    """Ids of events as they stand inside a JSON string, and as JSON."""

    inside_string: pa.Array
    as_json: pa.Array


def event_id_texts(store: RouteStore, columns: Columns, rows: np.ndarray) -> EventIdTexts:
    if store.schema.has_numeric_id:
        ids = _text(columns["id"][rows])
        return EventIdTexts(ids, ids)
    texts = take_rows(columns[ID_TEXT], rows).cast(TEXT)
    inside = quote_json(texts)
    as_json = inside if len(store.schema.event_id_fields) == 1 else texts
    return EventIdTexts(pc.utf8_slice_codeunits(inside, 1, -1), as_json)


def _events(
    store: RouteStore, columns: Columns, alerts: np.ndarray, rules: list[Rule], which: np.ndarray
) -> pa.Array | str:
    """For each alert the part of its JSON with the event fields that its rule includes."""
    if not any(rule.event_fields for rule in rules):
        return ""
    texts = np.full(len(alerts), "", object)
    for names in {rule.event_fields for rule in rules if rule.event_fields}:
        mine = np.flatnonzero(np.array([rule.event_fields == names for rule in rules])[which])
        events = event_fields_json(store, columns, names, alerts[mine, layout.ROW])
        texts[mine] = [f',"event":{event}' for event in events.to_pylist()]
    return pa.array(texts, TEXT)


def event_fields_json(
    store: RouteStore, columns: Columns, field_names: tuple[str, ...], rows: np.ndarray
) -> pa.Array:
    """Fields of events as a JSON object, with the values that `lab.model.alerts.event_for_alert` gives."""
    parts: list[pa.Array | str] = []
    for number, name in enumerate(field_names):
        field, values = store.schema.field(name), pa.array(take_rows(columns[f"told:{name}"], rows))
        if field.is_number_or_time:
            whole = pc.fill_null(values, 0).to_numpy()
            written = _decimals(whole >> 63, whole, field.scale)
            written = _joined('"', written, '"') if field.is_decimal else written
        else:
            written = quote_json(pc.fill_null(values.cast(TEXT), ""))
        parts += [f"{',' if number else '{'}{json.dumps(name)}:"]
        parts += [pc.if_else(values.is_valid(), written, pa.scalar("null", TEXT))]
    return _joined(*parts, pa.array(["}"] * len(rows), TEXT))


# -- groups ------------------------------------------------------------------------------------------------------------


def _groups(
    store: RouteStore, columns: Columns, alerts: np.ndarray, rules: list[Rule], which: np.ndarray
) -> tuple[list[str], pa.Array, pa.Array]:
    """For each alert its key, the part of its id that comes from its group, and its JSON from the key up to the aggregate.

    A group is written once for each order of the keys.
    """
    orders = list(dict.fromkeys(rule.keys for rule in rules))
    order = np.array([orders.index(rule.keys) for rule in rules])[which]
    again = pa.array(alerts[:, layout.IN_GROUP] * len(orders) + order).dictionary_encode().indices
    first = np.empty(pc.max(again).as_py() + 1, np.int64)
    first[again.to_numpy()[::-1]] = np.arange(len(alerts))[::-1]
    keys, groups = np.empty(len(first), object), np.empty(len(first), object)
    for number, names in enumerate(orders):
        mine = np.flatnonzero(order[first] == number)
        texts, jsons = group_texts(store, columns, names, alerts[first[mine], layout.ROW])
        keys[mine] = [shorten_key(text) for text in texts.to_pylist()]
        groups[mine] = jsons.to_pylist()
    hashes = pa.array([f".{group_hash(group)}" for group in groups], TEXT)
    jsons = _joined(
        '"key":', quote_json(pa.array(keys, TEXT)), ',"group":', pa.array(groups, TEXT), ',"aggregate":"'
    )
    return keys[again.to_numpy()].tolist(), hashes.take(again), jsons.take(again)


class GroupTexts(NamedTuple):
    """Groups as `lab.model.group.group_key` writes them, but not cut, and as `group_json` writes them."""

    whole_keys: pa.Array
    as_json: pa.Array


def group_texts(
    store: RouteStore, columns: Columns, field_names: tuple[str, ...], rows: np.ndarray
) -> GroupTexts:
    """The groups of the given rows, with the fields in this order."""
    texts: list[pa.Array | str] = ["{"]
    jsons: list[pa.Array | str] = ["{"]
    for number, name in enumerate(field_names):
        field = store.schema.field(name)
        if field.is_number_or_time:
            values = take_rows(columns[f"key:{name}"], rows)
            values = _decimals(values >> 63, values, field.scale)
            written = _joined('"', values, '"') if field.is_decimal else values
        else:
            values = take_rows(columns[f"text:{name}"], rows).cast(TEXT)
            written = quote_json(values)
        texts += [f";{name}=" if number else f"{name}=", values]
        jsons += [f",{json.dumps(name)}:" if number else f"{json.dumps(name)}:", written]
    end = pa.array(["}"] * len(rows), TEXT)
    return GroupTexts(_joined(*texts, end), _joined(*jsons, end))


# -- aggregates --------------------------------------------------------------------------------------------------------


def _aggregates(store: RouteStore, alerts: np.ndarray, rules: list[Rule], which: np.ndarray) -> pa.Array:
    """For each alert of a plain rule its aggregate as text."""
    kinds = [(rule.aggregation.function, measure_scale(rule.aggregation, store.schema)) for rule in rules]
    distinct = list(dict.fromkeys(kinds))
    kind = np.array([distinct.index(each) for each in kinds])[which]
    texts = np.empty(len(alerts), object)
    for number, (function, scale) in enumerate(distinct):
        mine = np.flatnonzero(kind == number)
        values = _reported(AGGREGATES[function], scale, alerts if len(distinct) == 1 else alerts[mine])
        if len(distinct) == 1:
            return values
        texts[mine] = values.to_pylist()
    return pa.array(texts, TEXT)


def _reported(aggregate: Aggregate, scale: int, alerts: np.ndarray) -> pa.Array:
    """The values of one aggregate as alerts report them, as text; `scale`: digits after the point of what it measures."""
    if aggregate.to_reported is Decimal:
        return _decimals(alerts[:, layout.HIGH_PART], alerts[:, layout.LOW_PART], scale)
    high, low, numerator, denominator = alerts[:, layout.HIGH_PART :].T
    if aggregate.to_reported is square_root_to_6_places:
        measures = alerts[:, layout.HIGH_PART :].tolist()
        roots = [
            square_root_in_millionths(join_halves(h, l) * n + p, n * 10**scale) for h, l, p, n in measures
        ]
        if max(roots, default=0) < SAFE:
            whole = np.array(roots, np.int64)
            return _decimals(whole >> 63, whole, PLACES)
    factor = 10 ** max(PLACES - scale, 0)
    bound = SAFE // factor
    safe = (high == low >> 63) & (-bound < low) & (low < bound) & (denominator < bound)
    if aggregate.to_reported is not round_to_6_places or scale > PLACES or not safe.all():
        fractions = (exact_fraction(measure, scale) for measure in alerts[:, layout.HIGH_PART :].tolist())
        return pa.array([plain_text(aggregate.to_reported(value)) for value in fractions], TEXT)
    whole, rest = np.divmod(numerator * factor, denominator)
    whole += low * factor
    whole += (2 * rest > denominator) | ((2 * rest == denominator) & (whole % 2 == 1))
    return _decimals(whole >> 63, whole, PLACES)


def _decimals(high: np.ndarray, low: np.ndarray, scale: int) -> pa.Array:
    """128-bit integers with `scale` digits after the point, as text."""
    if scale > PLAIN_DIGITS:
        numbers = zip(high.tolist(), low.tolist())
        return pa.array([f"{Decimal(f'{join_halves(*halves)}E-{scale}'):f}" for halves in numbers], TEXT)
    halves = np.column_stack((low, high))
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(low), [None, pa.py_buffer(halves)]).cast(TEXT)


# -- one by one --------------------------------------------------------------------------------------------------------


def alerts_one_by_one(
    store: RouteStore, columns: Columns, alert_rows: np.ndarray, first_rows: np.ndarray, alert_time_ms: int
) -> Iterator[Alert]:
    """The alerts that `store.evaluate(columns, …)` found; the arguments are those of `alertlines.alert_lines`."""
    for start, end in pairwise([*first_rows.tolist(), len(alert_rows)]):
        row, rule = int(alert_rows[start, layout.ROW]), store.rules[alert_rows[start, layout.RULE]]
        (aggregate, operator, limit), conditions = _measured(store, rule, alert_rows[start:end])
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
            carried=rule.carried,
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
    return text if len(store.schema.event_id_fields) == 1 else tuple(json.loads(text))
