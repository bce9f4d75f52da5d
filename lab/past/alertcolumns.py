"""Alerts as Arrow's columns, whose names and types follow from the rules and the schema alone, so that no alerts have them, too."""

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.json

from lab.model.aggregates import AGGREGATES, PLACES
from lab.model.attributes import carried_attributes
from lab.model.field import Field
from lab.model.kinds import Texts
from lab.model.rule import Rule
from lab.model.schema import Schema

DIGITS, MOST_DIGITS = 38, 76  # of decimals with 128 and 256 bits
TIME = pa.timestamp("ms", "UTC")
BLOCK = 1 << 26  # bytes that Arrow reads at once: more than the longest alert


def alert_columns(
    lines: Sequence[str], rules: Sequence[Rule], schema: Schema | None, withdrawn: Sequence[bool] | None
) -> pa.Table:
    """A row for each line. `schema`: None: of no events; `withdrawn`: of each line, whether its event was taken back; None: none can be."""
    try:
        table = _read(lines, _types(rules, schema, pa.decimal128(DIGITS, _places(rules, schema))))
    except pa.ArrowInvalid:  # the squares of the largest numbers have more digits
        table = _read(lines, _types(rules, schema, pa.decimal256(MOST_DIGITS, _places(rules, schema))))
    columns = {name: table.column(name) for name in table.column_names}
    if schema and len(schema.event_id_fields) > 1:
        ids = (
            zip(*(json.loads(line)["eventId"] for line in lines))
            if lines
            else [[]] * len(schema.event_id_fields)
        )
        named = {
            f"eventId.{name}": pa.array(values, type_of(schema.field(name)))
            for name, values in zip(schema.event_id_fields, ids)
        }
        at = columns.pop("eventTime")
        columns |= named | {"eventTime": at}
    if withdrawn is not None:
        columns["withdrawn"] = pa.array(withdrawn, pa.bool_())
    return pa.table(columns)


def _read(lines: Sequence[str], types: pa.Schema) -> pa.Table:
    """Lines of JSON as columns of these types; an object becomes a column for each member."""
    if not lines:
        return types.empty_table().flatten()
    # Arrow reads decimals that JSON has as texts, but no numbers as times
    written = pa.schema([field.with_type(_as_written(field.type)) for field in types])
    table = pyarrow.json.read_json(
        pa.BufferReader("\n".join(lines).encode()),
        pyarrow.json.ReadOptions(block_size=BLOCK),
        pyarrow.json.ParseOptions(explicit_schema=written, unexpected_field_behavior="ignore"),
    )
    return table.flatten().cast(types.empty_table().flatten().schema)


def _as_written(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_written(field.type)) for field in kind])
    return pa.int64() if kind == TIME else kind


def _types(rules: Sequence[Rule], schema: Schema | None, amount: pa.DataType) -> pa.Schema:
    """The members of an alert's JSON in their order, objects as structs; of several id fields none. `amount`: of aggregates and limits."""
    measured = [("aggregate", amount), ("operator", pa.string()), ("limit", amount)]
    types: dict[str, pa.DataType] = {"alertId": pa.string(), "ruleId": pa.int64(), "ruleVersion": pa.int64()}
    types |= {"key": pa.string(), "group": _struct(schema, (name for rule in rules for name in rule.keys))}
    types |= dict(measured)
    if any(len(rule.conditions) > 1 for rule in rules):
        types["conditions"] = pa.list_(pa.struct(measured))
    for name, kind in carried_attributes():
        if given := [rule.carries(name) for rule in rules if rule.carries(name)]:
            labels = (
                dict.fromkeys(label for each in given for label, _ in each) if isinstance(kind, Texts) else ()
            )
            types[name] = pa.struct([(label, pa.string()) for label in labels]) if labels else pa.string()
    types["event"] = _struct(schema, (name for rule in rules for name in rule.event_fields))
    id = schema.field(schema.id_fields[0]) if schema else None
    types["eventId"] = type_of(id) if id else pa.string()
    types["eventTime"] = TIME
    several = schema and len(schema.event_id_fields) > 1
    left_out = {name for name, kind in types.items() if pa.types.is_struct(kind) and not kind.num_fields}
    return pa.schema(
        [pair for pair in types.items() if pair[0] not in left_out if not (several and pair[0] == "eventId")]
    )


def _struct(schema: Schema | None, names: Iterable[str]) -> pa.DataType:
    """An object with these fields of events, each once."""
    return pa.struct([(name, type_of(schema.field(name))) for name in dict.fromkeys(names)] if schema else [])


def decimal_type(rules: Sequence[Rule], schema: Schema, values: Iterable[Decimal | None]) -> pa.DataType:
    """The type of exact values of rules' aggregates: with 128 bits, and with 256 only if they do not fit."""
    places = _places(rules, schema)
    largest = max((abs(value) for value in values if value is not None), default=Decimal(0))
    fits = largest < Decimal(1).scaleb(DIGITS - places)
    return pa.decimal128(DIGITS, places) if fits else pa.decimal256(MOST_DIGITS, places)


def type_of(field: Field) -> pa.DataType:
    """The type of a field's values."""
    if field.is_decimal:
        return pa.decimal128(DIGITS, field.scale)
    return {"long": pa.int64(), "time": TIME}.get(field.type, pa.string())


def _places(rules: Sequence[Rule], schema: Schema | None) -> int:
    """How many digits after the point aggregates and limits have at most, as the rules say."""
    places = 0
    for rule in rules:
        for each in rule.conditions:
            places = max(places, -int(each.limit.as_tuple().exponent), PLACES if each.limit_of else 0)
            is_rounded = AGGREGATES[each.aggregation.function].to_reported is not Decimal
            field = schema.field(each.aggregation.field) if schema and each.aggregation.field else None
            places = max(places, PLACES if is_rounded else field.scale if field else 0)
    return places
