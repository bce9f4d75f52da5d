"""JSON Schemas of what the engine writes: alerts, acknowledgements, dead letters and statistics."""

from dataclasses import fields
from decimal import Decimal
from typing import Any

from lab.model.alerts import Alert
from lab.model.attributes import MAX_EVENT_FIELDS, carried_attributes
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
)
from lab.model.reference import LATE_POLICIES
from lab.model.rules import CONTROLS, MAX_KEYS, OPERATORS, STATES
from lab.model.schema import Schema
from lab.model.tallies import COUNTS, FATES, ROUTES_TOLD


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
    ids = [LONG if schema.field(name).is_number_or_time else TEXT for name in schema.id_fields]
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
    hint = TEXT | {"description": "why the rule hardly means what it says; it is in force"}
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
            closed_object({"status": {"const": "accepted"}, **about_rule}, {"hint": hint} | place),
            closed_object(
                {"status": {"const": "accepted"}, "controlType": about_all.pop("controlType")},
                about_all | place,
            ),
            closed_object({"status": {"const": "rejected"}, "reason": TEXT, "message": TEXT}, long | place),
            closed_object({"status": {"const": "schema"}, "events": TEXT, "schema": schema}, {}),
        ],
    }


def dead_letter() -> Json:
    always, long = {"reason": TEXT, "place": TEXT}, {"bytes": COUNT, "sha256": TEXT}
    base64 = TEXT | {"contentEncoding": "base64"}
    return {
        "type": "object",
        "oneOf": [
            closed_object(always | {"raw": TEXT}, long),
            closed_object(always | {"rawBase64": base64}, long),
        ],
    }


def statistics_json_schema() -> Json:
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
            "additionalProperties": _route_json_schema(),
            "maxProperties": ROUTES_TOLD,
            "description": "of each route the lowest id and the number of its rules, and what became of its events: `routed` is the "
            "sum of the others; with two duplicates as an example where they are more than 1 %. Of many routes those that lost most",
        },
        "otherRoutes": closed_object({}, dict.fromkeys(FATES, COUNT))
        | {"description": "the sums of the routes that are not named"},
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
            "properties": {
                "id": TEXT,
                "since": COUNT,
                "keyGroups": COUNT,
                "latePolicy": {"enum": list(LATE_POLICIES)},
                "maxOutOfOrdernessMs": COUNT,
                "maxFutureMs": COUNT,
                "exactlyOnce": {"type": "boolean"},
            },
            "description": "its checkpoint's id, since when it runs, ms, and its settings, which earlier versions do not tell",
        },
        "cut": closed_object({"from": COUNT, "to": COUNT, "events": by_name, "control": by_name}, {})
        | {
            "description": "what the micro-batch took: up to these ends of each source; none of it counts as logged before `from`, ms"
        },
        "times": by_name | {"description": "when each stage began, and the end: ms since the epoch"},
    }
    return {"type": "object", "properties": properties, "required": ["batch", "keyGroups", "times"]}


def _route_json_schema() -> Json:
    """What became of a route's events, with examples of those that were lost."""
    record = {"type": "object", "additionalProperties": {"type": ["string", "integer", "null"]}}
    example = {"id": {"type": ["string", "integer"]}, "time": COUNT, "key": TEXT}
    pair = {"type": "array", "items": record, "minItems": 2, "maxItems": 2}
    newest = closed_object({"time": COUNT}, {"id": example["id"]})
    examples = {
        "example": closed_object(example | {"records": pair}, {}),
        "lateExample": closed_object(example | {"newest": newest}, {}),
    }
    return closed_object(
        {"rule": COUNT, "rules": COUNT, "routed": COUNT}, dict.fromkeys(FATES, COUNT) | examples
    )
