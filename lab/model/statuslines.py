"""Acknowledgements, dead letters and statistics of an engine, read as strictly as events: anybody may have written a line."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from lab.model.formatting import expected_message, short_json
from lab.model.reference import LATE_POLICIES
from lab.model.schema import MAX_TIME, Schema

STAGES = ("start", "decode", "route", "evaluate", "end")  # a stage lasts from its time to the next one's
SCHEMA_STATUS = "schema"  # the status of an announcement
MOST = 1 << 63
MOST_KEY_GROUPS = 1 << 15
RULE = re.compile(r"[0-9]{1,19}\.[0-9]{1,19}|other")
KEY_GROUP, PARTITION = re.compile(r"[0-9]{1,5}"), re.compile(r"[0-9]{1,10}")
ANY = re.compile(".*", re.DOTALL)
Check = Callable[[Any], bool]


def parse_ack(text: str) -> dict[str, Any]:
    """An acknowledgement as `RuleBook.apply` makes it, with its place; or an announcement, with its `Schema`. Raises ValueError.

    >>> parse_ack('{"status": "accepted", "ruleId": 1, "version": 2, "ruleState": "ACTIVE", "place": "control/0:7"}')["version"]
    2
    """
    ack = _object(text, "an acknowledgement", {"status": _is_text})
    if ack["status"] == SCHEMA_STATUS:
        _checked(ack, {"events": _is_text, "schema": lambda schema: isinstance(schema, dict)})
        try:
            return ack | {"schema": Schema.from_dict(ack["schema"])}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"schema: not one that an engine writes there: {error}") from None
    _checked(ack, {"place": _is_text})
    if ack["status"] == "rejected":
        return _checked(ack, {"reason": _is_text})
    times: dict[str, Check] = {"logTime": _is_count} if "logTime" in ack else {}
    if "controlType" in ack:
        deleted: dict[str, Check] = (
            {"ruleIds": _are_counts} if ack["controlType"] == "DELETE_RULES_ALL" else {}
        )
        return _checked(ack, times | deleted | {"controlType": _is_text})
    return _checked(ack, times | {"ruleId": _is_count, "version": _is_count, "ruleState": _is_text})


def schema_announcement(schema: Schema, events: str) -> str:
    """The line by which an engine tells the schema of its events; `events`: the name of the events log that it reads."""
    return json.dumps({"status": SCHEMA_STATUS, "events": events, "schema": schema.to_dict()})


def parse_dead_letter(text: str) -> dict[str, Any]:
    """A dead letter with its reason and place. Raises ValueError."""
    return _object(text, "a dead letter", {"reason": _is_text, "place": _is_text})


def parse_stats(text: str) -> dict[str, Any]:
    """What an engine's task says of a micro-batch. Raises ValueError.

    >>> parse_stats('{"batch": 3, "keyGroups": [0, 15], "times": {"end": 17}}')["batch"]
    3
    >>> parse_stats('{"batch": 3, "keyGroups": [0, 15], "times": {"end": "now"}}')
    Traceback (most recent call last):
    ValueError: times: an object, which is not what an engine writes there
    """
    always: dict[str, Check] = {"batch": _is_count, "keyGroups": _is_range, "times": _counts_by(ANY)}
    stats = _object(text, "a line of statistics", always)
    maps: dict[str, Check] = {
        "alertsByRule": _counts_by(RULE),
        "suppressedByRule": _counts_by(RULE),
        "deadLettersBy": _counts_by(ANY),
        "stored": _counts_by(KEY_GROUP),
    }
    maps |= {"otherRoutes": _counts_by(ANY), "routes": _are_routes}
    others = stats.keys() - always.keys() - {"engine", "cut"}
    _checked(stats, {name: maps.get(name, _is_count) for name in others})
    if "engine" in stats:
        _checked(stats, {"engine": lambda engine: isinstance(engine, dict)})
        _checked(stats["engine"], {"id": _is_text, "since": _is_count})
        _checked(stats["engine"], {name: SETTINGS[name] for name in SETTINGS.keys() & stats["engine"].keys()})
    if "cut" in stats:
        _checked(stats, {"cut": lambda cut: isinstance(cut, dict)})
        positions = _counts_by(PARTITION)
        _checked(
            stats["cut"], {"from": _is_count, "to": _is_count, "events": positions, "control": positions}
        )
    if "start" in stats["times"]:  # one task has all
        _checked(stats["times"], dict.fromkeys(STAGES, _is_count))
    return stats


SETTINGS: dict[str, Check] = {
    "keyGroups": lambda value: _is_count(value) and 1 <= value <= MOST_KEY_GROUPS,
    "latePolicy": lambda value: value in LATE_POLICIES,
    "maxOutOfOrdernessMs": lambda value: _is_count(value),
    "maxFutureMs": lambda value: _is_count(value),
}


def _object(text: str, what: str, checks: Mapping[str, Check]) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        return _checked(given, checks)
    raise ValueError(expected_message("the line", text, what))


def _checked(given: dict[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    for name, check in checks.items():
        if not check(given.get(name)):
            value = "nothing" if name not in given else short_json(given[name])
            raise ValueError(f"{name}: {value}, which is not what an engine writes there")
    return given


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_count, value))


def _is_range(value: Any) -> bool:
    return _are_counts(value) and len(value) == 2 and value[0] <= value[1] < MOST_KEY_GROUPS


def _are_routes(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_route, value.values()))


def _is_route(value: Any) -> bool:
    """Whether it is what became of the events of a route, perhaps with examples of duplicates and of late events."""
    if not isinstance(value, dict) or not {"rule", "rules"} <= value.keys():
        return False
    counts = (count for name, count in value.items() if name not in ("example", "lateExample"))
    return (
        all(map(_is_count, counts))
        and ("example" not in value or _is_duplicate_example(value["example"]))
        and ("lateExample" not in value or _is_late_example(value["lateExample"]))
    )


def _is_duplicate_example(value: Any) -> bool:
    return (
        _is_example(value)
        and isinstance(records := value.get("records"), list)
        and len(records) == 2
        and all(isinstance(record, dict) for record in records)
    )


def _is_late_example(value: Any) -> bool:
    return (
        _is_example(value) and isinstance(value.get("newest"), dict) and _is_time(value["newest"].get("time"))
    )


def _is_example(value: Any) -> bool:
    return isinstance(value, dict) and {"id", "key"} <= value.keys() and _is_time(value.get("time"))


def _is_time(value: Any) -> bool:
    return _is_count(value) and value < MAX_TIME


def _counts_by(name: re.Pattern) -> Check:
    """Whether it is an object of counts with such names."""
    return lambda value: (
        isinstance(value, dict)
        and all(name.fullmatch(each) and _is_count(count) for each, count in value.items())
    )
