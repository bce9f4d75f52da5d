"""Events that are taken back: which records of a schema say so."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lab.model.schema import Schema
from lab.model.when import When, is_true
from lab.model.whenreader import parse_when


def takes_back(event: Mapping[str, Any], schema: Schema) -> bool:
    """Whether a record takes back an event that came before.

    >>> from dataclasses import replace
    >>> from lab.model.schema import LOGINS
    >>> takes_back({"action": "returned"}, replace(LOGINS, taken_back="action = returned"))
    True
    """
    condition = taken_back_condition(schema)
    return condition is not None and is_true(condition, event)


@lru_cache(maxsize=100)
def taken_back_condition(schema: Schema) -> When | None:
    """Which of its events take one back that came before; None if none do. Raises BadConditions."""
    return parse_when(schema.taken_back, schema) if schema.taken_back else None
