"""The six logs for other programs: JSON Schemas of what is in them, and an AsyncAPI page. Made from what the code accepts.

`lab spec` prints the page for a schema of events, docs/asyncapi.yaml is that of payments.
"""

from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from typing import Any

from lab.model.alerts import Alert
from lab.model.attributes import ATTRIBUTES, MAX_EVENT_FIELDS, carried_attributes
from lab.model.enginelogs import LOGS
from lab.model.field import MAX_TEXT, Field
from lab.model.group import MAX_KEY
from lab.model.jsonschema import (
    COUNT,
    DECIMAL_TEXT,
    LONG,
    MS,
    TEXT,
    Json,
    any_case_words_schema,
    closed_object,
    object_of_named_attributes_or_null,
)
from lab.model.lists import NAME
from lab.model.messages import CONDITION, JOINED, LIMIT_OF, MAX_ALERTS, MAX_DIVIDED_BY, PLUS_OF
from lab.model.rules import CONTROLS, MAX_KEYS, OPERATORS, STATES
from lab.model.schema import MAX_ID, MAX_TIME, Schema
from lab.model.sentence import MAX_CONDITIONS
from lab.model.statuslines import ALWAYS, SOMETIMES
from lab.model.times import PATTERNS, TEXTS, expected_time


def json_schemas_by_log(schema: Schema) -> dict[str, Json]:
    """The JSON Schema of each log's records, for events of a schema.

    >>> from lab.model.schema import PAYMENTS
    >>> json_schemas_by_log(PAYMENTS)["events"]["required"]
    ['transactionId', 'eventTime']
    """
    made = {
        "events": event_json_schema(schema),
        "control": control_message_json_schema(schema),
        "alerts": alert_json_schema(schema),
        "shadow": alert_json_schema(schema),
        "acks": acknowledgement_json_schema(),
        "deadLetters": dead_letter(),
        "stats": statistics_json_schema(),
    }
    said = {name: kind.said for name, kind in LOGS.items()}
    said["control"] += f" {control_message_texts(schema)}"
    return {name: {"description": said[name], **of} for name, of in made.items()}


def asyncapi_document(schema: Schema, version: str) -> Json:
    """An AsyncAPI 3 document of the engine for events of a schema, as data; `version`: of the kit."""
    payloads = json_schemas_by_log(schema)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"Rules on {schema.name}",
            "version": version,
            "description": "The logs that the engine reads and writes: Kafka topics, or folders of JSON lines.",
        },
        "defaultContentType": "application/json",
        "channels": {
            name: {"address": name, "messages": {name: {"$ref": f"#/components/messages/{name}"}}}
            for name in LOGS
        },
        "operations": {
            name: {"action": kind.action, "channel": {"$ref": f"#/channels/{name}"}}
            for name, kind in LOGS.items()
        },
        "components": {"messages": {name: {"payload": payload} for name, payload in payloads.items()}},
    }


# -- what the engine reads: events and control messages ----------------------------------------------------------------


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
    attributes["times"] = attributes["limit"]
    attributes["plusOf"] = object_of_named_attributes_or_null(attributes, PLUS_OF) | {
        "description": "this aggregate, times `times` (1 if missing) and divided by `dividedBy`, is added to the limit"
    }
    attributes["limitOf"] = object_of_named_attributes_or_null(attributes, LIMIT_OF) | {
        "description": "the limit is a multiple of this aggregate, divided by `dividedBy`, and `plusOf` and `plus` more"
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
    return {"anyOf": [made | {"required": ["ruleState"]}, *_list_message_json_schemas(schema)]}


def _list_message_json_schemas(schema: Schema) -> Iterator[Json]:
    """Messages that change a list, and those that mute a rule or end that."""
    entry: Json = {"anyOf": [TEXT | {"minLength": 1}, {"type": "number"}]}
    entries = {"anyOf": [{"type": "array", "items": entry}, {"type": "null"}]}
    until: Json = {"anyOf": [MS | {"maximum": MAX_TIME - 1}, TEXT, {"type": "null"}]}
    until |= {"description": "events with earlier times see what is added: ms, or a time of ISO 8601"}
    change: dict[str, Json] = {"add": entries, "remove": entries, "clear": {"type": ["boolean", "null"]}}
    more: dict[str, Json] = {"until": until, "changeId": TEXT}
    listed = closed_object({"list": TEXT | {"pattern": f"^{NAME}$"}}, change | more)
    yield {
        "type": "object",
        "description": "changes a named list: empties it, removes values, adds others",
        **listed,
    }
    group: Json = {"type": ["object", "null"], "propertyNames": {"enum": list(schema.names)}}
    for verb, optional in (("mute", more), ("unmute", {"changeId": TEXT})):
        rule_id = {verb: {"type": "integer", "minimum": 1}}
        yield {"type": "object", **closed_object(rule_id, {"group": group} | optional)}


# -- what the engine writes: alerts, acknowledgements, dead letters and statistics -------------------------------------


def alert_json_schema(schema: Schema) -> Json:
    of_type: dict[Any, Json] = {int: LONG, Decimal: DECIMAL_TEXT, str: TEXT}
    properties: dict[str, Json] = {
        "alertId": {
            "type": "string",
            "description": "the same for the same alert, however often it comes; of one that was withdrawn and comes again, too",
        }
    }
    for field in fields(Alert):
        first, *rest = field.name.split("_")
        if first != "carried":
            properties[first + "".join(map(str.title, rest))] = of_type.get(field.type, MS)
    properties["key"] = TEXT | {
        "description": f"the group for people, {{name=value;…}}; of more than {MAX_KEY:,} characters the first, and a hash of all"
    }
    properties["group"] = {
        "type": "object",
        "description": "the group: the rule's fields in its order, whole; values as in events, decimals as text; of the global group {}",
        "propertyNames": {"enum": list(schema.names)},
        "additionalProperties": {"anyOf": [LONG, TEXT]},
        "maxProperties": MAX_KEYS,
    }
    ids = [LONG if schema.field(name).is_number_or_time else TEXT for name in schema.event_id_fields]
    all_of = {"type": "array", "prefixItems": ids, "minItems": len(ids), "maxItems": len(ids)}
    properties["eventId"] = (
        ids[0] if len(ids) == 1 else all_of | {"description": ", ".join(schema.event_id_fields)}
    )
    properties["eventTime"] = MS
    properties["logTime"] = MS | {
        "description": "when the event was logged, ms since the epoch; live logs only"
    }
    properties["alertTime"] = MS | {
        "description": "when the alert was made, ms since the epoch; live logs only"
    }
    either: Json = {"anyOf": [DECIMAL_TEXT, {"type": "null"}]}
    condition = closed_object(
        {"aggregate": either, "operator": any_case_words_schema(OPERATORS), "limit": either}, {}
    )
    properties["conditions"] = {
        "type": "array",
        "items": {"type": "object", **condition},
        "description": "of a rule with several conditions all; aggregate, operator and limit are those of the first that holds",
    }
    of_rule = {name: kind.json_schema(schema) for name, kind in carried_attributes()}
    properties |= {name: of | {"description": "the rule's, if it has one"} for name, of in of_rule.items()}
    properties["event"] = {
        "type": "object",
        "description": "the fields of its event that the rule names in eventFields; decimals as text",
        "propertyNames": {"enum": list(schema.names)},
        "additionalProperties": {"anyOf": [LONG, TEXT, {"type": "null"}]},
        "maxProperties": MAX_EVENT_FIELDS,
    }
    optional = ("logTime", "alertTime", "conditions", "event", *of_rule)
    required = [name for name in properties if name not in optional]
    alert = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if not schema.taken_back:
        return alert
    of_both = {name: properties[name] for name in ("key", "group", "eventId", "eventTime")}
    times = {name: properties[name] for name in ("logTime", "alertTime")}
    withdrawn = {"type": "object", **closed_object({"withdrawn": {"const": True}, **of_both}, times)}
    says = "the event of the alerts with this eventId, eventTime and group, whose fields may stand in another order, was taken back: they are withdrawn if their logTime is earlier, or the same and they come before this line"
    return {"oneOf": [alert, withdrawn | {"description": says}]}


def acknowledgement_json_schema() -> Json:
    place = {"place": TEXT, "logTime": MS}
    long = {"bytes": COUNT, "sha256": TEXT}
    about_rule = {"ruleId": LONG, "version": COUNT, "ruleState": {"enum": list(STATES)}}
    hint = {"hint": TEXT | {"description": "why the message hardly means what it says; it was carried out"}}
    about_all: Json = {
        "controlType": {"enum": list(CONTROLS)},
        "rules": {"type": "array"},
        "leftOut": COUNT,
        "ruleIds": {"type": "array"},
    }
    schema: Json = {
        "type": "object",
        "description": "of the events, as an engine announces it when it starts",
    }
    return {
        "type": "object",
        "oneOf": [
            closed_object({"status": {"const": "accepted"}, **about_rule}, hint | place),
            closed_object(
                {"status": {"const": "accepted"}, "controlType": about_all.pop("controlType")},
                about_all | place,
            ),
            closed_object(
                {"status": {"const": "accepted"}, "list": TEXT, "version": COUNT, "entries": COUNT},
                hint | place,
            ),
            closed_object({"status": {"const": "rejected"}, "reason": TEXT, "message": TEXT}, long | place),
            closed_object({"status": {"const": "schema"}, "events": TEXT, "schema": schema}, {}),
        ],
    }


def dead_letter() -> Json:
    base64 = TEXT | {"contentEncoding": "base64"}
    always = {"reason": TEXT, "place": TEXT}
    known = {"logTime": MS, "bytes": COUNT, "sha256": TEXT}
    known |= {"key": TEXT, "keyBase64": base64, "keyBytes": COUNT}  # of a record of Kafka
    return {
        "type": "object",
        "oneOf": [
            closed_object(always | {"raw": TEXT}, known),
            closed_object(always | {"rawBase64": base64}, known),
        ],
    }


def statistics_json_schema() -> Json:
    return {
        "type": "object",
        "properties": ALWAYS | SOMETIMES,
        "required": list(ALWAYS),
        "additionalProperties": COUNT,
    }
