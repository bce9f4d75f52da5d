"""Envelopes, as Debezium writes them: a record says what became of a row of a table, before and after."""

from typing import Any

from lab.model.field import Field
from lab.model.jsontext import BadRecord
from lab.model.words import expected_message

NO_EVENT = {"d": "a delete", "t": "a truncate", "m": "a message"}  # values of `op`


def unwrap_envelope(record: dict[str, Any], operation_field: Field | None) -> list[dict[str, Any]]:
    """The rows in an envelope, as one record each; a record without an envelope is returned as it is.

    `operation_field`: the field with the operation on a row, if events can be taken back.
    """
    if operation_field is None:
        return [record]
    around = operation_field.record_path[:-1]
    inner: Any = record
    for key in around:
        inner = inner.get(key) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("before"), dict):
        return [record]
    before = _with(record, around, inner | {"op": "d", "after": inner["before"]})
    match inner.get("op"):
        case "d":
            return [before]
        case "u":
            return [before, record]
    return [record]


def check_not_deleted(record: dict[str, Any], id_field: Field, operation_field: Field | None) -> None:
    """Raises BadRecord for the envelope of a row that is gone: `op` stands beside `after`, which has the id of others."""
    inner: Any = record
    for key in id_field.record_path:
        op = inner.get("op")
        if key == "after" and isinstance(op, str) and op in NO_EVENT:
            if op == "d" and operation_field:
                raise BadRecord(
                    "before: null, expected the row that was deleted: in PostgreSQL, REPLICA IDENTITY FULL"
                )
            raise BadRecord(expected_message("op", op, f"c, r or u: {NO_EVENT[op]} has no event"))
        inner = inner.get(key)
        if not isinstance(inner, dict):
            return


def _with(record: dict[str, Any], path: tuple[str, ...], inner: dict[str, Any]) -> dict[str, Any]:
    """A record with another object at a path of objects."""
    return record | {path[0]: _with(record[path[0]], path[1:], inner)} if path else inner
