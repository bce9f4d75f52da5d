"""A user's own schema as a TOML file, which `lab infer` proposes and people correct.

name = "orders"
id = "orderId"               # or several fields that are the id together: ["device", "seq"]
time = "placed"
records = "json"             # or "csv": lines with the fields in their order; or "either"
nan = "null"                 # what NaN and Infinity are; or "dead letter"
taken_back = "status = void" # which records take back the event with their id, time and group; none if it is not there

[fields.orderId]
path = "order.id"            # in objects inside each other; a list of names if one of them has a dot
type = "string"              # long, decimal(P,S), string, boolean or time: see `lab.model.field`

[fields.placed]
path = "order.placedAt"
type = "time"
unit = "iso"                 # of a time: s, ms, us, ns, m, h, d, iso, utc, or local with a zone = "Europe/Berlin"
example = "2024-05-01T10:00:00+09:00"

[derived]                    # fields that are computed from those of the record: see `lab.model.derived`
day = 'date(placed, "Europe/Berlin")'

[legs.out]                   # each record is an event for each leg, with these fields and the field leg
account = "payer"
[legs.in]
account = "payee"
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.model.conditions import BadConditions
from lab.model.field import Field
from lab.model.formatting import UNSEEN, escape_control_characters, expected_message, unknown_name_message
from lab.model.schema import SCHEMAS, Schema
from lab.model.whenreader import taken_back_condition

MAX_BYTES = 256 << 10
MAX_DOTS = 200  # of a line: names inside each other take TOML's reader the square of their number

TOP = ("name", "id", "time", "fields", "derived", "legs", "records", "nan", "taken_back")
OPTIONS = TOP[6:]
OF_A_FIELD = ("path", "type", "unit", "zone", "doc", "example", "examples")


def schema(name: str | Path) -> Schema:
    """The schema of that name (payments, logins, flights), or that of a file.

    Raises ValueError, naming what is wrong in the file; OSError if it cannot be read.

    >>> schema("payments").id_fields
    ('transactionId',)
    >>> schema("paymets")
    Traceback (most recent call last):
    ValueError: unknown schema "paymets", did you mean payments? (known: payments, logins, flights), and there is no such file
    """
    if name in SCHEMAS:
        return SCHEMAS[name]
    path = Path(name)
    if not path.exists() or path.is_dir():
        raise ValueError(f"{unknown_name_message('schema', str(name), SCHEMAS)}, and there is no such file")
    try:
        with path.open("rb") as file:
            return schema_from_toml(file.read(MAX_BYTES + 1).decode())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def schema_from_toml(text: str) -> Schema:
    """The schema that the text describes. Raises ValueError."""
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise ValueError(f"a schema of more than {MAX_BYTES:,} bytes, expected at most that")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MAX_DOTS:
            raise ValueError(f"line {number} has {line.count('.'):,} dots, expected at most {MAX_DOTS}")
    try:
        given = tomllib.loads(text)
    except RecursionError:
        raise ValueError("lists or tables nested too deeply") from None
    for name in given:
        if name not in TOP:
            raise ValueError(unknown_name_message("name", name, TOP))
    name, time_field = (_text_at(given, key) for key in ("name", "time"))
    tables = given.get("fields")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError(expected_message("fields", tables, "a table [fields.NAME] for each field"))
    fields = tuple(_field(name, table) for name, table in tables.items())
    derived = given.get("derived", {})
    if type(derived) is not dict:
        raise ValueError(
            expected_message("derived", derived, 'a table [derived] with lines such as day = "date(time)"')
        )
    expressions = tuple((name, _text_at(derived, name, "derived.")) for name in derived)
    legs = given.get("legs", {})
    if not isinstance(legs, dict) or not all(isinstance(leg, dict) for leg in legs.values()):
        raise ValueError(
            expected_message(
                "legs", legs, 'a table [legs.NAME] for each leg, with lines such as account = "payer"'
            )
        )
    of_legs = tuple(
        (leg, tuple((name, _text_at(of, name, f"legs.{leg}.")) for name in of)) for leg, of in legs.items()
    )
    options = {key: _text_at(given, key) for key in OPTIONS if key in given}
    schema = Schema(
        name, fields, _id_fields(given.get("id")), time_field, derived=expressions, legs=of_legs, **options
    )
    if schema.taken_back:
        try:
            taken_back_condition(schema)
        except BadConditions as error:
            raise ValueError(f"taken_back: {error}") from None
    _check_of_row(schema)
    return schema


def _check_of_row(schema: Schema) -> None:
    """Raises ValueError if events are rows of a table that are taken back, but the id or the time is the envelope's, which is another each time."""
    if schema.operation_field is None:
        return
    row = (*schema.operation_field.record_path[:-1], "after")
    for role, name in (("time", schema.time_field), *(("id", name) for name in schema.id_fields)):
        path = schema.field(name).record_path
        if path[: len(row)] != row:
            allowed = f"a field of the row, in {'.'.join(row)}, because taken_back finds the event by its id and time"
            raise ValueError(expected_message(role, ".".join(path), allowed))


def _id_fields(id: object) -> tuple[str, ...]:
    names = [id] if isinstance(id, str) else id
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(expected_message("id", id, 'the name of a field, or several: ["device", "seq"]'))
    return tuple(names)


def _field(name: str, table: dict) -> Field:
    for key in table:
        if key not in OF_A_FIELD:
            raise ValueError(f"fields.{name}: {unknown_name_message('name', key, OF_A_FIELD)}")
    where = f"fields.{name}."
    type, unit, doc, zone = (_text_at(table, key, where) for key in ("type", "unit", "doc", "zone"))
    path = table.get("path", [name])
    path = path.split(".") if isinstance(path, str) else path
    if not isinstance(path, list) or not path or not all(isinstance(key, str) and key for key in path):
        raise ValueError(
            expected_message(f"{where}path", table["path"], 'names such as "order.id" or ["order", "id"]')
        )
    path = () if path == [name] else tuple(path)
    examples = [table["example"]] if "example" in table else table.get("examples", [])
    if not isinstance(examples, list) or not all(isinstance(example, str) for example in examples):
        raise ValueError(expected_message(f"{where}examples", examples, 'texts, such as ["web", "app"]'))
    return Field(name, type, doc, path, unit, tuple(examples), zone)


def _text_at(table: dict, key: str, where: str = "") -> str:
    """A text, "" for a unit, zone or doc that is not there. Raises ValueError."""
    value = table.get(key, "" if key in ("unit", "zone", "doc") else None)
    if type(value) is not str:
        raise ValueError(expected_message(where + key, value, "a text"))
    return value


def schema_to_toml(
    schema: Schema, head: Sequence[str] = (), notes: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The text of a file from which `schema_from_toml` reads this schema.

    `head` and, for a field, `notes` become comments.
    """
    lines = [f"# {escape_control_characters(line)}" for line in head]
    id = [_text(name) for name in schema.id_fields]
    lines.append(f"name = {_text(schema.name)}")
    lines.append(f"id = {id[0] if len(id) == 1 else '[' + ', '.join(id) + ']'}")
    lines.append(f"time = {_text(schema.time_field)}")
    lines += [
        f"{key} = {_text(getattr(schema, key))}"
        for key in OPTIONS
        if getattr(schema, key) != getattr(Schema, key)
    ]
    for field in schema.fields:
        lines += ["", *(f"# {escape_control_characters(note)}" for note in (notes or {}).get(field.name, ()))]
        lines += [f"[fields.{_key(field.name)}]"]
        if field.record_path != (field.name,):
            dotted = any("." in key for key in field.record_path)
            path = (
                f"[{', '.join(map(_text, field.record_path))}]"
                if dotted
                else _text(".".join(field.record_path))
            )
            lines.append(f"path = {path}")
        values = {"type": field.type, "unit": field.unit, "zone": field.zone, "doc": field.doc}
        lines += [f"{key} = {_text(value)}" for key, value in values.items() if value]
        if len(field.examples) == 1:
            lines.append(f"example = {_text(field.examples[0])}")
        elif field.examples:
            lines.append(f"examples = [{', '.join(map(_text, field.examples))}]")
    tables = [("derived", schema.derived)] if schema.derived else []
    for table, derived in (*tables, *((f"legs.{_key(leg)}", of) for leg, of in schema.legs)):
        lines += ["", f"[{table}]", *(f"{_key(name)} = {_text(text)}" for name, text in derived)]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A basic string of TOML: JSON's, which leaves one control character as it is."""
    # unlike JSON, TOML has one escape for a character beyond 16 bits
    return UNSEEN.sub(
        lambda found: (
            f"\\U{ord(found[0]):08x}" if found[0] > "\uffff" else escape_control_characters(found[0])
        ),
        json.dumps(value, ensure_ascii=False),
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)
