"""The six logs for other programs: JSON Schemas of what is in them, and an AsyncAPI page. Made from what the code accepts.

`lab spec` prints the page for a schema of events, docs/asyncapi.yaml is that of payments.
"""

from collections.abc import Iterable
from dataclasses import fields
from decimal import Decimal
from typing import Any

from lab.model.alerts import MAX_KEY, Alert
from lab.model.field import MAX_TEXT, Field
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.messages import (
    CONDITION,
    JOINED,
    LABEL,
    LIMIT_OF,
    MAX_ALERTS,
    MAX_CONDITIONS,
    MAX_DIVIDED_BY,
    MAX_EVENT_FIELDS,
    MAX_LABELS,
    MAX_SAID,
    SEVERITIES,
)
from lab.model.rules import (
    ACTIONS,
    ATTRIBUTES,
    CONTROLS,
    COUNT_WORDS,
    FUNCTIONS,
    MAX_KEYS,
    OPERATOR_ALIASES,
    OPERATORS,
    STATES,
)
from lab.model.schema import MAX_ID, Schema
from lab.model.tallies import COUNTS, FATES, ROUTES_TOLD
from lab.model.times import NUMBERS, PATTERNS, expected_time

Json = dict[str, Any]

LONG: Json = {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1}
MS: Json = {"type": "integer", "minimum": 0, "description": "ms since the epoch"}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
DECIMAL_TEXT: Json = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
LOGS = {  # name -> (does the engine send or receive it, what it is)
    "events": (
        "receive",
        f"One JSON object a record, of at most {MAX_LINE_BYTES:,} bytes. What does not fit becomes a dead letter.",
    ),
    "control": ("receive", "Rules, changes of their state, and commands. Each is answered once on acks."),
    "alerts": (
        "send",
        "A rule that held at an event; keyed by its group. At least once on Kafka: `alertId` tells repeats.",
    ),
    "acks": ("send", "The answer to a control message: accepted or rejected, with the place of the message."),
    "deadLetters": ("send", "A record that could not be read: why, where it stands, and its beginning."),
    "stats": ("send", "Counts and times of a micro-batch."),
}


def json_schemas(schema: Schema) -> dict[str, Json]:
    """The JSON Schema of each log's records, for events of a schema.

    >>> from lab.model.schema import PAYMENTS
    >>> json_schemas(PAYMENTS)["events"]["required"]
    ['transactionId', 'eventTime']
    """
    made = {
        "events": _event(schema),
        "control": _message(schema),
        "alerts": _alert(schema),
        "acks": _ack(),
        "deadLetters": _dead_letter(),
        "stats": _stats(),
    }
    return {name: {"description": LOGS[name][1], **of} for name, of in made.items()}


def asyncapi(schema: Schema, version: str) -> Json:
    """An AsyncAPI 3 document of the engine for events of a schema, as data; `version`: of the kit."""
    payloads = json_schemas(schema)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"Rules on {schema.name}",
            "version": version,
            "description": "Two logs that the engine reads and four that it writes: Kafka topics, or folders of JSON lines.",
        },
        "defaultContentType": "application/json",
        "channels": {
            name: {"address": name, "messages": {name: {"$ref": f"#/components/messages/{name}"}}}
            for name in LOGS
        },
        "operations": {
            name: {"action": action, "channel": {"$ref": f"#/channels/{name}"}}
            for name, (action, _) in LOGS.items()
        },
        "components": {"messages": {name: {"payload": payload} for name, payload in payloads.items()}},
    }


def _event(schema: Schema) -> Json:
    """Objects inside each other, as the paths say; id and time are required, and all around them."""
    top: Json = {"type": "object", "properties": {}, "required": []}
    for field in schema.fields:
        required = field.name in (*schema.id_fields, schema.time_field)
        *around, last = field.keys
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
        case "time" if field.unit not in NUMBERS:
            made = {"type": "string", "pattern": PATTERNS[field.unit]}
        case _:
            made = {"type": ["number", "string"]}
    said = field.doc or (expected_time(field.unit) if field.type == "time" else field.unit)
    said = f"{field.type}: {said}" if field.type.startswith("decimal") and said else said or field.type
    if not required:
        made = {"anyOf": [made, {"type": "null"}]}
    return {"description": said, **made}


def _message(schema: Schema) -> Json:
    names: Json = {"type": "array", "items": {"enum": list(schema.names)}, "uniqueItems": True}
    keys = names | {"maxItems": MAX_KEYS}
    window: Json = {"type": ["integer", "string"], "pattern": "^[0-9]{1,12}[smhd]?$"}
    either: Json = {"type": ["string", "number", "boolean"]}
    attributes: dict[str, Json] = {
        "ruleId": {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]{1,19}$"}]
        },
        "ruleState": _words(STATES),
        "groupingKeyNames": keys,
        "unique": names,
        "aggregateFieldName": {"enum": [*schema.names, *COUNT_WORDS]},
        "aggregatorFunctionType": _words((*FUNCTIONS, *COUNT_WORDS)),
        "limitOperatorType": _words((*OPERATORS, *OPERATOR_ALIASES)),
        "limit": {"type": ["number", "string"]},
        "window": window,
        "windowMinutes": window,
        "filter": {
            "anyOf": [
                {
                    "type": "object",
                    "propertyNames": {"enum": list(schema.names)},
                    "additionalProperties": {
                        "anyOf": [either, {"type": "array", "items": either, "minItems": 1}]
                    },
                },
                TEXT | {"description": "in words: action = login and country in (KR, CN)"},
            ]
        },
        "where": TEXT | {"description": "which events count for the aggregate, in the language of when"},
        "excludeCurrent": {"type": "boolean"},
        "when": TEXT | {"description": "which event may alert: amount > 500 and country not in (KR, CN)"},
        "controlType": _words(CONTROLS),
        "version": {"type": "integer"},
        "action": _words(ACTIONS),
        "ttl": window,
        **_said(),
        "eventFields": names
        | {
            "maxItems": MAX_EVENT_FIELDS,
            "description": "fields of its event that each alert carries as event",
        },
        "changeId": {"type": "string"},
    }
    attributes["dividedBy"] = {"type": "integer", "minimum": 1, "maximum": MAX_DIVIDED_BY}
    attributes["limitOf"] = _nullable(attributes, LIMIT_OF) | {
        "description": "the limit is a multiple of this aggregate, divided by `dividedBy`"
    }
    conditions = {"type": "array", "items": _nullable(attributes, CONDITION), "minItems": 1}
    attributes |= dict.fromkeys(JOINED, conditions | {"maxItems": MAX_CONDITIONS - 1})
    most: Json = {"type": "integer", "minimum": 1, "maximum": MAX_ALERTS}
    attributes["atMost"] = {"type": "object", **_closed({"alerts": most, "per": window}, {})}
    attributes["absence"] = {
        "type": "boolean",
        "description": "alert at an event after which none that counts is logged within the window",
    }
    made = _nullable(attributes, ATTRIBUTES)
    made["properties"]["ruleState"] = attributes["ruleState"]
    return made | {"required": ["ruleState"]}


def _nullable(attributes: dict[str, Json], names: Iterable[str]) -> Json:
    """An object of some attributes, each of which may be null."""
    properties = {name: {"anyOf": [attributes[name], {"type": "null"}]} for name in names}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _said() -> dict[str, Json]:
    """What a rule says for readers of its alerts, and they carry."""
    text: Json = {"type": "string", "maxLength": MAX_SAID}
    return {
        "severity": {"enum": list(SEVERITIES)},
        "title": text | {"minLength": 1},
        "labels": {
            "type": "object",
            "propertyNames": {"pattern": f"^{LABEL}$"},
            "additionalProperties": text,
            "maxProperties": MAX_LABELS,
        },
    }


def _words(words: Iterable[str]) -> Json:
    """Any of the words, in capitals or not."""
    return {"enum": list(dict.fromkeys(each for word in words for each in (word, word.lower())))}


def _alert(schema: Schema) -> Json:
    of_type: dict[Any, Json] = {int: LONG, Decimal: DECIMAL_TEXT, str: TEXT}
    properties: dict[str, Json] = {
        "alertId": {"type": "string", "description": "the same for the same alert, however often it comes"}
    }
    for field in fields(Alert):
        first, *rest = field.name.split("_")
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
    ids = [LONG if schema.field(name).numeric else TEXT for name in schema.id_fields]
    all_of = {"type": "array", "prefixItems": ids, "minItems": len(ids), "maxItems": len(ids)}
    properties["eventId"] = ids[0] if len(ids) == 1 else all_of | {"description": ", ".join(schema.id_fields)}
    properties["eventTime"] = MS
    properties["logTime"] = MS | {
        "description": "when the event was logged, ms since the epoch; live logs only"
    }
    properties["alertTime"] = MS | {
        "description": "when the alert was made, ms since the epoch; live logs only"
    }
    either: Json = {"anyOf": [DECIMAL_TEXT, {"type": "null"}]}
    told = _closed({"aggregate": either, "operator": _words(OPERATORS), "limit": either}, {})
    properties["conditions"] = {
        "type": "array",
        "items": {"type": "object", **told},
        "description": "of a rule with several conditions all; aggregate, operator and limit are those of the first that holds",
    }
    said = _said()
    properties |= {name: of | {"description": "the rule's, if it has one"} for name, of in said.items()}
    properties["event"] = {
        "type": "object",
        "description": "the fields of its event that the rule names in eventFields; decimals as text",
        "propertyNames": {"enum": list(schema.names)},
        "additionalProperties": {"anyOf": [LONG, TEXT, {"type": "null"}]},
        "maxProperties": MAX_EVENT_FIELDS,
    }
    optional = ("logTime", "alertTime", "conditions", "event", *said)
    required = [name for name in properties if name not in optional]
    alert = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    if not schema.taken_back:
        return alert
    of_both = {name: properties[name] for name in ("key", "group", "eventId", "eventTime")}
    times = {name: properties[name] for name in ("logTime", "alertTime")}
    withdrawn = {"type": "object", **_closed({"withdrawn": {"const": True}, **of_both}, times)}
    says = "the event at which there were alerts with this eventId, eventTime and group was taken back"
    return {"oneOf": [alert, withdrawn | {"description": says}]}


def _ack() -> Json:
    place = {"place": TEXT, "logTime": MS}
    long = {"bytes": COUNT, "sha256": TEXT}
    about_rule = {"ruleId": LONG, "version": COUNT, "ruleState": {"enum": list(STATES)}}
    hint = TEXT | {"description": "why the rule hardly means what it says; it is in force"}
    about_all: Json = {
        "controlType": {"enum": list(CONTROLS)},
        "rules": {"type": "array"},
        "leftOut": COUNT,
        "ruleIds": {"type": "array"},
    }
    return {
        "type": "object",
        "oneOf": [
            _closed({"status": {"const": "accepted"}, **about_rule}, {"hint": hint} | place),
            _closed(
                {"status": {"const": "accepted"}, "controlType": about_all.pop("controlType")},
                about_all | place,
            ),
            _closed({"status": {"const": "rejected"}, "reason": TEXT, "message": TEXT}, long | place),
        ],
    }


def _dead_letter() -> Json:
    always, long = {"reason": TEXT, "place": TEXT}, {"bytes": COUNT, "sha256": TEXT}
    base64 = TEXT | {"contentEncoding": "base64"}
    return {
        "type": "object",
        "oneOf": [_closed(always | {"raw": TEXT}, long), _closed(always | {"rawBase64": base64}, long)],
    }


def _stats() -> Json:
    counts = dict.fromkeys(
        (
            *COUNTS,
            "nanAsNull",
            "alerts",
            "suppressed",
            "heldEvents",
            "groups",
            "memoryBytes",
            "files",
            "stateBytes",
        ),
        COUNT,
    )
    by_name = {"type": "object", "additionalProperties": COUNT}
    fates = dict.fromkeys(FATES, COUNT)
    record = {"type": "object", "additionalProperties": {"type": ["string", "integer", "null"]}}
    example = {"id": {"type": ["string", "integer"]}, "time": COUNT, "key": TEXT}
    pair = {"type": "array", "items": record, "minItems": 2, "maxItems": 2}
    route = _closed(
        {"rule": COUNT, "rules": COUNT, "routed": COUNT},
        fates | {"example": _closed(example | {"records": pair}, {})},
    )
    properties = {
        "batch": COUNT,
        "keyGroups": {
            "type": "array",
            "prefixItems": [COUNT, COUNT],
            "description": "the first and the last",
        },
        **counts,
        "routes": {
            "type": "object",
            "additionalProperties": route,
            "maxProperties": ROUTES_TOLD,
            "description": "of each route the lowest id and the number of its rules, and what became of its events: `routed` is the "
            "sum of the others; with two duplicates as an example where they are more than 1 %. Of many routes those that lost most",
        },
        "otherRoutes": _closed({}, fates) | {"description": "the sums of the routes that are not named"},
        "alertsByRule": by_name
        | {
            "description": "by rule id and version, such as 1.3; of many rules those that alerted most, and `other`"
        },
        "suppressedByRule": by_name
        | {"description": "alerts that were not given, as the rule says `atMost`; like alertsByRule"},
        "deadLettersBy": by_name | {"description": "by what is bad: a field, or the record"},
        "stored": by_name | {"description": "events that each key-group has stored"},
        "engine": {
            "type": "object",
            "properties": {"id": TEXT, "since": COUNT},
            "description": "its checkpoint's id, and since when it runs, ms",
        },
        "cut": _closed({"from": COUNT, "to": COUNT, "events": by_name, "control": by_name}, {})
        | {
            "description": "what the micro-batch took: up to these ends of each source; none of it counts as logged before `from`, ms"
        },
        "times": by_name | {"description": "when each stage began, and the end: ms since the epoch"},
    }
    return {"type": "object", "properties": properties, "required": ["batch", "keyGroups", "times"]}


def _closed(required: dict[str, Json], optional: dict[str, Json]) -> Json:
    properties = required | optional
    return {"properties": properties, "required": list(required), "additionalProperties": False}
