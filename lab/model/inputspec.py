"""JSON Schemas of what the engine reads: events and control messages."""

from lab.model.attributes import ATTRIBUTES
from lab.model.field import MAX_TEXT, Field
from lab.model.jsonschema import (
    LONG,
    Json,
    closed_object,
    object_of_named_attributes_or_null,
)
from lab.model.messages import CONDITION, JOINED, LIMIT_OF, MAX_ALERTS, MAX_DIVIDED_BY
from lab.model.schema import MAX_ID, Schema
from lab.model.sentence import MAX_CONDITIONS
from lab.model.times import PATTERNS, TEXTS, expected_time


def event_json_schema(schema: Schema) -> Json:
    """Objects inside each other, as the paths say; id and time are required, and all around them."""
    top: Json = {"type": "object", "properties": {}, "required": []}
    for field in schema.fields:
        required = field.name in (*schema.id_fields, schema.time_field)
        *around, last = field.record_path
        inside = top
        for key in around:
            if required:
                inside["required"] = sorted({*inside["required"], key})
            inside = inside["properties"].setdefault(
                key, {"type": ["object", "null"], "properties": {}, "required": []}
            )
            if required:
                inside["type"] = "object"
        if required:
            inside["required"] = [*inside["required"], last]
        inside["properties"][last] = _value(field, schema, required)
    return top


def _value(field: Field, schema: Schema, required: bool) -> Json:
    match field.type:
        case "long":
            made = dict(LONG)
        case "string":
            is_id = field.name in schema.id_fields
            made = {"type": "string"} | (
                {"minLength": 1, "maxLength": MAX_ID} if is_id else {"maxLength": MAX_TEXT}
            )
        case "boolean":
            made = {"enum": [True, False, "true", "false"]}
        case "time" if field.unit in TEXTS:
            made = {"type": "string", "pattern": PATTERNS[field.unit]}
        case _:
            made = {"type": ["number", "string"]}
    said = field.doc or (expected_time(field.unit) if field.type == "time" else field.unit)
    said = f"{said}, on the clocks of {field.zone}" if field.zone else said
    said = f"{field.type}: {said}" if field.is_decimal and said else said or field.type
    if not required:
        made = {"anyOf": [made, {"type": "null"}]}
    return {"description": said, **made}


def control_message_texts(schema: Schema) -> str:
    """Says which texts a control message may be instead of JSON, with an example of each.

    >>> from lab.model.schema import LOGINS
    >>> control_message_texts(LOGINS).partition(", or")[0]
    'Instead of JSON, a rule may be its id, a colon and a sentence, such as `7: COUNT(events) per userId over 10 min >= 5`'
    """
    others = (name for name in schema.names if name not in (*schema.id_fields, schema.time_field))
    key = next(others, schema.id_fields[0])
    return (
        f"Instead of JSON, a rule may be its id, a colon and a sentence, such as `7: COUNT(events) per {key} over 10 min >= 5`, "
        f"or the demo's line of text, such as `7,(active),({key}),,,(COUNT),(>=),(5),(10)`: docs/rules.md."
    )


def control_message_json_schema(schema: Schema) -> Json:
    attributes = {row.name: row.kind.json_schema(schema) for row in ATTRIBUTES.values()}
    attributes["ruleId"] = {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]{1,19}$"}]
    }
    attributes["version"] = {"type": "integer"}
    attributes["dividedBy"] = {"type": "integer", "minimum": 1, "maximum": MAX_DIVIDED_BY}
    attributes["plus"] = attributes["limit"]
    attributes["limitOf"] = object_of_named_attributes_or_null(attributes, LIMIT_OF) | {
        "description": "the limit is a multiple of this aggregate, divided by `dividedBy`, and `plus` more"
    }
    conditions = {
        "type": "array",
        "items": object_of_named_attributes_or_null(attributes, CONDITION),
        "minItems": 1,
    }
    attributes |= dict.fromkeys(JOINED, conditions | {"maxItems": MAX_CONDITIONS - 1})
    most: Json = {"type": "integer", "minimum": 1, "maximum": MAX_ALERTS}
    attributes["atMost"] = {
        "type": "object",
        "description": "at most so many alerts per group at events within `per`, counted back from the time of each event",
        **closed_object({"alerts": most, "per": attributes["window"]}, {}),
    }
    made = object_of_named_attributes_or_null(attributes, ATTRIBUTES)
    made["properties"]["ruleState"] = attributes["ruleState"]
    return made | {"required": ["ruleState"]}
