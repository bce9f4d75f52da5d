"""Acknowledgements, dead letters and statistics of an engine, read as strictly as events: anybody may have written a line."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from lab.model.enginelogs import READ
from lab.model.formatting import expected_message, short_json
from lab.model.jsonschema import COUNT, TEXT, Json, closed_object, is_as_schema_says
from lab.model.reference import LATE_POLICIES
from lab.model.routestats import COUNTS, FATES, ROUTES_TOLD
from lab.model.schema import MAX_TIME, Schema

STAGES = ("start", "decode", "route", "evaluate", "end")  # a stage lasts from its time to the next one's
SCHEMA_STATUS = "schema"  # the status of an announcement
MOST_KEY_GROUPS = 1 << 15
OBJECT: Json = {"type": "object"}
COUNTS_BY_NAME: Json = OBJECT | {"additionalProperties": COUNT}


def _counts_by(names: str) -> Json:
    """The schema of counts with names that fit a pattern."""
    return COUNTS_BY_NAME | {"propertyNames": {"pattern": f"^({names})$"}}


def _routes() -> Json:
    """What became of the events of each route, with examples of those that were lost."""
    record = OBJECT | {"additionalProperties": {"type": ["string", "integer", "null"]}}
    time = COUNT | {"maximum": MAX_TIME - 1}
    example = {"id": {"type": ["string", "integer"]}, "time": time, "key": TEXT}
    pair = {"type": "array", "items": record, "minItems": 2, "maxItems": 2}
    newest = OBJECT | closed_object({"time": time}, {"id": example["id"]})
    examples = {
        "example": OBJECT | closed_object(example | {"records": pair}, {}),
        "lateExample": OBJECT | closed_object(example | {"newest": newest}, {}),
    }
    always = {"rule": COUNT, "rules": COUNT, "routed": COUNT}
    route = OBJECT | closed_object(always, dict.fromkeys(FATES, COUNT) | examples)
    return OBJECT | {"additionalProperties": route, "maxProperties": ROUTES_TOLD}


Cut = dict[str, Any]  # a line of the stats log that tells one
Ends = dict[str, dict[int, int]]  # of each log


class AlertCount(NamedTuple):
    """A count of alerts in a line of the stats log: the field with its parts by rule and version, its metric, and words.

    `sentence`: what a report says after the number; none about alerts of the alerts log, which it shows.
    """

    by_rule: str
    metric: str
    about: str
    sentence: str = ""


ALERT_COUNTS = {  # by the field with the whole count; what fires for a rule is counted in one of them
    "alerts": AlertCount("alertsByRule", "lab_alerts", "alerts by rule and version"),
    "shadowAlerts": AlertCount(
        "shadowByRule",
        "lab_shadow_alerts",
        "alerts of rules in state SHADOW",
        "alerts in the shadow log, of rules in state SHADOW",
    ),
    "suppressed": AlertCount(
        "suppressedByRule",
        "lab_suppressed_alerts",
        "alerts that were not given, as the rule says `atMost`",
        "alerts suppressed, as their rules say at most how many",
    ),
    "muted": AlertCount(
        "mutedByRule",
        "lab_muted_alerts",
        "alerts that were not given, as their rule or group is muted",
        "alerts muted: lab lists show muted",
    ),
}


KEY_GROUP = COUNT | {"maximum": MOST_KEY_GROUPS - 1}
POSITIONS, OF_RULES = _counts_by("[0-9]{1,10}"), _counts_by("[0-9]{1,19}\\.[0-9]{1,19}|other")
MEASURES = (
    "nanAsNull",
    *ALERT_COUNTS,
    "heldEvents",
    "groups",
    "memoryBytes",
    "diskBytes",
    "diskWaitMs",
    "files",
    "stateBytes",
)
ALWAYS: dict[str, Json] = {  # what a line of the stats log has
    "batch": COUNT,
    "keyGroups": {
        "type": "array",
        "prefixItems": [KEY_GROUP, KEY_GROUP],
        "minItems": 2,
        "maxItems": 2,
        "description": "the first and the last",
    },
    "times": COUNTS_BY_NAME | {"description": "when each stage began, and the end: ms since the epoch"},
}
SOMETIMES: dict[str, Json] = {
    **dict.fromkeys((*COUNTS, *MEASURES), COUNT),
    "routes": _routes()
    | {
        "description": "of each route the lowest id and the number of its rules, and what became of its events: `routed` is the "
        "sum of the others; with two duplicates as an example where they are more than 1 %. Of many routes those that lost most"
    },
    "otherRoutes": OBJECT
    | closed_object({}, dict.fromkeys(FATES, COUNT))
    | {"description": "the sums of the routes that are not named"},
    **{
        count.by_rule: OF_RULES | {"description": f"{count.about}; like alertsByRule"}
        for count in ALERT_COUNTS.values()
    },
    "alertsByRule": OF_RULES
    | {
        "description": "by rule id and version, such as 1.3; of many rules those that alerted most, and `other`"
    },
    "deadLettersBy": COUNTS_BY_NAME | {"description": "by what is bad: a field, or the record"},
    "stored": _counts_by("[0-9]{1,5}") | {"description": "events that each key-group has stored"},
    "engine": OBJECT
    | {
        "properties": {
            "id": TEXT,
            "since": COUNT,
            "keyGroups": COUNT | {"minimum": 1, "maximum": MOST_KEY_GROUPS},
            "latePolicy": {"type": "string", "enum": list(LATE_POLICIES)},
            "maxOutOfOrdernessMs": COUNT,
            "maxFutureMs": COUNT,
            "exactlyOnce": {"type": "boolean"},
        },
        "required": ["id", "since"],
        "description": "its checkpoint's id, since when it runs, ms, and its settings",
    },
    "cut": OBJECT
    | closed_object({"from": COUNT, "to": COUNT, "events": POSITIONS, "control": POSITIONS}, {})
    | {
        "description": "what the micro-batch took: up to these ends of each source; none of it counts as logged before `from`, ms"
    },
}


def parse_ack(text: str) -> dict[str, Any]:
    """An acknowledgement as `RuleBook.apply` makes it, with its place; or an announcement, with its `Schema`. Raises ValueError.

    >>> parse_ack('{"status": "accepted", "ruleId": 1, "version": 2, "ruleState": "ACTIVE", "place": "control/0:7"}')["version"]
    2
    """
    ack = _object(text, "an acknowledgement", {"status": TEXT})
    if ack["status"] == SCHEMA_STATUS:
        _checked(ack, {"events": TEXT, "schema": OBJECT})
        try:
            return ack | {"schema": Schema.from_dict(ack["schema"])}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"schema: not one that an engine writes there: {error}") from None
    _checked(ack, {"place": TEXT})
    if ack["status"] == "rejected":
        return _checked(ack, {"reason": TEXT})
    times = {"logTime": COUNT} if "logTime" in ack else {}
    if "list" in ack:
        return _checked(ack, times | {"list": TEXT, "version": COUNT, "entries": COUNT})
    if "controlType" in ack:
        ids = {"ruleIds": {"type": "array", "items": COUNT}}
        deleted = ids if ack["controlType"] == "DELETE_RULES_ALL" else {}
        return _checked(ack, times | deleted | {"controlType": TEXT})
    return _checked(ack, times | {"ruleId": COUNT, "version": COUNT, "ruleState": TEXT})


def schema_announcement(schema: Schema, events: str) -> str:
    """The line by which an engine tells the schema of its events; `events`: the name of the events log that it reads."""
    return json.dumps({"status": SCHEMA_STATUS, "events": events, "schema": schema.to_dict()})


def parse_dead_letter(text: str) -> dict[str, Any]:
    """A dead letter with its reason and place. Raises ValueError."""
    return _object(text, "a dead letter", {"reason": TEXT, "place": TEXT})


def parse_stats(text: str) -> dict[str, Any]:
    """What an engine's task says of a micro-batch. Raises ValueError.

    >>> parse_stats('{"batch": 3, "keyGroups": [0, 15], "times": {"end": 17}}')["batch"]
    3
    >>> parse_stats('{"batch": 3, "keyGroups": [0, 15], "times": {"end": "now"}}')
    Traceback (most recent call last):
    ValueError: times: an object, which is not what an engine writes there
    """
    stats = _object(text, "a line of statistics", ALWAYS)
    _checked(stats, {name: SOMETIMES.get(name, COUNT) for name in stats.keys() - ALWAYS.keys()})
    first, last = stats["keyGroups"]
    _checked(stats, {"keyGroups": first <= last})
    if "start" in stats["times"]:  # one task has all
        _checked(stats["times"], dict.fromkeys(STAGES, COUNT))
    return stats


def cuts_in(lines: Iterable[str]) -> Iterator[Cut]:
    """The lines of the stats log that tell a cut."""
    for line in lines:
        with suppress(ValueError):  # anybody may have written it
            stats = parse_stats(line)
            if "cut" in stats:
                yield stats


def engine_of(cut: Cut) -> dict[str, Any]:
    """The engine that took a cut: its id and settings; empty for one in a notebook, which has no id."""
    return cut.get("engine", {})


def ends_of(cut: Cut) -> Ends:
    """Up to where a cut read each log."""
    return {name: mark_positions(cut["cut"][name]) for name in READ}


def mark_positions(saved: Mapping[str, int]) -> dict[int, int]:
    """The positions of a log in a mark, with integers as the numbers of the sources."""
    return {int(number): position for number, position in saved.items()}


def _object(text: str, what: str, schemas: Mapping[str, Json]) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        return _checked(given, schemas)
    raise ValueError(expected_message("the line", text, what))


def _checked(given: dict[str, Any], schemas: Mapping[str, Json | bool]) -> dict[str, Any]:
    for name, schema in schemas.items():
        if name not in given or not is_as_schema_says(given[name], schema):
            value = short_json(given[name]) if name in given else "nothing"
            raise ValueError(f"{name}: {value}, which is not what an engine writes there")
    return given
