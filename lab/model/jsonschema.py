"""Pieces of which the JSON Schemas of the logs are made, and whether a value is as such a schema says."""

import re
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

LONG: Json = {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1}
MS: Json = {"type": "integer", "minimum": 0, "description": "ms since the epoch"}
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}
DECIMAL_TEXT: Json = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$"}
TYPES = {"integer": int, "boolean": bool, "string": str, "array": list, "object": dict, "null": type(None)}


def is_as_schema_says(value: Any, schema: Json | bool) -> bool:
    """Whether JSON, as Python has it, is as a schema says. Knows the words of schemas that this file and `statuslines` use.

    >>> is_as_schema_says({"a": 1}, {"required": ["a"], "properties": {"a": COUNT}, "additionalProperties": False})
    True
    >>> [is_as_schema_says(value, COUNT) for value in (-1, 1.0, True, "1", None, 1 << 63)]
    [False, False, False, False, False, False]
    """
    if isinstance(schema, bool):
        return schema
    types = schema.get("type", [])
    if types and type(value) not in (TYPES[each] for each in ([types] if isinstance(types, str) else types)):
        return False
    match value:
        case int():
            return schema.get("minimum", value) <= value <= schema.get("maximum", value)
        case str():
            is_one = value in schema.get("enum", (value,))
            return is_one and ("pattern" not in schema or bool(re.fullmatch(schema["pattern"], value)))
        case list():
            items = schema.get("prefixItems", [schema.get("items", True)] * len(value))
            fits = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            return fits and all(map(is_as_schema_says, value, items))
        case dict():
            named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
            fits = value.keys() >= {*schema.get("required", ())}
            fits &= len(value) <= schema.get("maxProperties", len(value))
            fits = fits and all(is_as_schema_says(name, schema.get("propertyNames", True)) for name in value)
            return fits and all(
                is_as_schema_says(each, named.get(name, others)) for name, each in value.items()
            )
    return True


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
