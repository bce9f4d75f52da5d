"""Pieces of which the JSON Schemas of the logs are made."""

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

LONG: Json = {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1}
MS: Json = {"type": "integer", "minimum": 0, "description": "ms since the epoch"}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0}
DECIMAL_TEXT: Json = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}


def any_case_words_schema(words: Iterable[str]) -> Json:
    """Any of the words, in capitals or not."""
    return {"enum": list(dict.fromkeys(each for word in words for each in (word, word.lower())))}


def closed_object(required: dict[str, Json], optional: dict[str, Json]) -> Json:
    """What an object has: some properties always, some sometimes, and no others."""
    properties = required | optional
    return {"properties": properties, "required": list(required), "additionalProperties": False}


def object_of_named_attributes_or_null(attributes: dict[str, Json], names: Iterable[str]) -> Json:
    """An object of some attributes, each of which may be null."""
    properties = {name: {"anyOf": [attributes[name], {"type": "null"}]} for name in names}
    return {"type": "object", "properties": properties, "additionalProperties": False}
