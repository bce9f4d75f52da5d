"""What the compiled reader expects of the records of a schema, as tables of numbers: made with NumPy, or without it in a page."""

import re
from functools import cache

import numpy as np

from lab.engine.compiled import scan
from lab.model.field import MAX_TEXT, Field
from lab.model.schema import MAX_ID, Schema
from lab.model.times import DIGITS, NUMBERS, STEP_DIGITS, STEP_SCALE, STEPS

UNNAMED = r'[\x00-\x1f"\\]'  # what no JSON string can hold as it is


@cache
def expected_members(schema: Schema) -> scan.Expected:
    """What records have, as tables for the compiled reader."""
    tree: dict = {}
    for number, field in enumerate(schema.fields):
        inside = tree
        for key in field.record_path[:-1]:
            inside = inside.setdefault(key, {})
        inside[field.record_path[-1]] = number
    names, members, objects, waiting = b"", [], [], [tree]
    for inside in waiting:  # grows meanwhile, by the objects around fields
        objects.append((len(members), len(members) + len(inside)))
        for key, value in inside.items():
            # a name that JSON cannot hold as it is, is never found: no text in UTF-8 has this byte
            name = b"\xff" if re.search(UNNAMED, key) else key.encode()
            is_field = isinstance(value, int)
            target = (value, scan.FAILED) if is_field else (scan.FAILED, len(waiting))
            members.append((len(names), len(name), *target))
            names += name
            waiting += [] if is_field else [value]
    return scan.Expected(
        np.frombuffer(names, np.uint8),
        np.array(members, scan.MEMBER),
        np.array(objects, scan.OBJECT),
        np.array([_field_row(field, field.name in schema.id_fields) for field in schema.fields], scan.FIELD),
        schema.nan == "null",
        schema.records != "csv",
        scan.FAILED if schema.records == "json" else scan.COMMA,
        next((n for n, field in enumerate(schema.fields) if field is schema.long_time), scan.FAILED),
    )


def _field_row(field: Field, is_id: bool) -> tuple[int, ...]:
    """A field as a row of `scan.FIELD`."""
    kept = allowed = digits = 0
    divisor = multiplier = 1
    if field.type == "string":
        return scan.TEXT, kept, allowed, MAX_ID if is_id else MAX_TEXT, divisor, multiplier
    kind = {"long": scan.INTEGER, "boolean": scan.BOOLEAN}.get(field.type, scan.DECIMAL)
    if field.is_decimal:
        kept, allowed, digits = field.scale, field.scale, field.precision
    elif field.type == "time" and field.unit in STEPS:
        kind, kept, allowed, digits = scan.TIME_NUMBER, STEP_SCALE, STEP_SCALE, STEP_DIGITS
        multiplier = STEPS[field.unit] // 10**STEP_SCALE
    elif field.type == "time" and field.unit in NUMBERS:
        kind, allowed = scan.TIME_NUMBER, NUMBERS[field.unit]
        kept, divisor = max(0, allowed - NUMBERS["ms"]), 10 ** max(0, NUMBERS["ms"] - allowed)
        digits = DIGITS - allowed + kept
    elif field.type == "time":
        kind = scan.TIME_TEXT if field.unit == "iso" else scan.DATE_OR_TIME_TEXT
    return kind, kept, allowed, 10**digits, divisor, multiplier
