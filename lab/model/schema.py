"""What an event is: named, typed fields, read exactly from JSON or CSV.

    line of bytes ──► Schema.parse ──► {"transactionId": 1, "paymentAmount": Decimal("21.50"), ...}
                          └──────────► BadRecord: the field, its value and what is allowed

A new kind of event is one more `Schema`: at the end of this file, or a file of one's own (`lab.model.schemafile`).
"""

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any

from lab.model.derived import (
    LEG,
    Derivation,
    Leg,
    derive,
    expression_text,
    is_place,
    names_in,
    read_derivations,
    read_legs,
)
from lab.model.field import Field, Id, Value, parse_time_text_or_ms
from lab.model.formatting import expected_message, html_table, short_json, unknown_name_message
from lab.model.jsontext import (
    MAX_LINE_BYTES,
    BadRecord,
    decode_text,
    looks_like_json_object,
    parse_json_object,
    refuse_no_value,
    refuse_non_json_number,
)
from lab.model.language import say, translated
from lab.model.times import DAY_MS

# -- envelopes ---------------------------------------------------------------------------------------------------------
# As Debezium writes them: a record says what became of a row of a table, before and after.

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


MAX_TIME = 7_289_654_400_000  # 2201-01-01 in ms since the epoch: event times are below it
# an event's time may be so long after its record's log time, unless that is set otherwise
MAX_FUTURE_MS = DAY_MS

MAX_ID, MAX_ID_FIELDS = 200, 8  # characters of a text in an id; fields that are the id together
RECORDS, NAN = ("json", "csv", "either"), ("null", "dead letter")

CONSTANTS = ("NaN", "Infinity", "-Infinity")
ID_TYPES, TIME_TYPES = ("long", "string"), ("long", "time")


@dataclass(frozen=True)
class Schema:
    """The fields of one kind of event, in CSV order, and which of them are its id, one or several together, and its time.

    `records`: what a record is: "json", an object; "csv", a line with the fields in their order; "either". `nan`: what NaN,
    Infinity and -Infinity are where a value is expected: "null", or the whole record a "dead letter". `taken_back`: a condition
    in the language of `when`; a record of which it is true takes back the event with its id, time and group. `derived`: names
    and expressions of `lab.model.derived`: fields that are not in records, but computed from those that are. `legs`: names, and for
    each such fields: a record is an event for each of its legs, such as a payment for who pays and for who is paid.

    PAYMENTS is `com.ververica.field.dynamicrules.Transaction` of the Flink demo.

    >>> event = PAYMENTS.parse(b"1,2013-01-01 00:00:00,1001,1002,CSH,21.5,1")
    >>> event["eventTime"], event["paymentAmount"]
    (1356998400000, Decimal('21.50'))
    >>> LOGINS.parse(b'{"eventId": 1, "eventTime": 1356998400000, "userId": "7"}')
    Traceback (most recent call last):
    lab.model.jsontext.BadRecord: userId: "7", expected an integer of signed 64 bit
    """

    name: str
    fields: tuple[Field, ...]
    id_fields: tuple[str, ...]
    time_field: str
    records: str = "json"
    nan: str = "null"
    taken_back: str = ""
    derived: tuple[tuple[str, str], ...] = ()
    legs: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= len(set(self.id_fields)) == len(self.id_fields) <= MAX_ID_FIELDS:
            allowed = f"1 to {MAX_ID_FIELDS} different fields"
            raise ValueError(
                f"schema {self.name}: id {', '.join(self.id_fields) or 'of no field'}, expected {allowed}"
            )
        for name, value, known in (("records", self.records, RECORDS), ("nan", self.nan, NAN)):
            if value not in known:
                raise ValueError(expected_message(name, value, " or ".join(map(short_json, known))))
        recorded = [field.name for field in self.fields]
        if len(set(recorded)) < len(recorded):
            raise ValueError(f"schema {self.name}: two fields have the same name: {', '.join(recorded)}")
        ids = (("id", name, ID_TYPES) for name in self.id_fields)
        for role, name, types in (*ids, ("time", self.time_field, TIME_TYPES)):
            if self.field(name).name not in recorded:
                allowed = f"a field of the records as {role}, not a derived one"
                raise ValueError(expected_message(role, name, allowed))
            if self.field(name).type not in types:
                allowed = " or ".join(types)
                raise ValueError(
                    expected_message(f"type of {name}", self.field(name).type, f"{allowed}: it is the {role}")
                )
        paths = sorted((field.record_path, field.name) for field in self.fields)
        for (path, name), (other, below) in pairwise(paths):
            if other[: len(path)] == path:
                raise ValueError(f"schema {self.name}: {name} and {below} cannot both be at {'.'.join(path)}")

    @cached_property
    def derivations(self) -> tuple[Derivation, ...]:
        """Its derived fields, and what each is computed from."""
        return read_derivations(self.derived, self.fields, self.time_field)

    @cached_property
    def legs_of_record(self) -> tuple[Leg, ...]:
        """The legs, and how the fields of each are derived; () if a record is one event."""
        derived = (each.field for each in self.derivations)
        return read_legs(self.legs, (*self.fields, *derived), self.time_field)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        fields = [*self.fields, *(each.field for each in self.derivations)]
        if self.legs:
            fields += [Field(LEG, "string", examples=tuple(leg.name for leg in self.legs_of_record))]
            fields += [each.field for each in self.legs_of_record[0].derivations]
        return {field.name: field for field in fields}

    @cached_property
    def event_id_fields(self) -> tuple[str, ...]:
        """The fields that are an event's id together: those of its record, and which leg it is."""
        return (*self.id_fields, *((LEG,) if self.legs else ()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all fields of an event, the derived ones last."""
        return tuple(self._by_name)

    def fields_behind(self, names: Collection[str]) -> list[Field]:
        """The fields of a record that these fields of an event are, or are computed from.

        >>> at = Field("at", "long", unit="ms")
        >>> fields = Field("id", "long"), at, Field("payer", "string"), Field("payee", "string")
        >>> logins = Schema("logins", fields, ("id",), "at", derived=(("pair", "concat(payer, payee)"), ("day", 'date(at, "UTC")')))
        >>> [field.name for field in logins.fields_behind({"pair"})]
        ['payer', 'payee']
        """
        sources: dict[str, set[str]] = {}
        for each in chain(self.derivations, *(leg.derivations for leg in self.legs_of_record)):
            sources.setdefault(each.field.name, set()).update(names_in(each.expression))
        found, left = set[str](), [*names]
        while left:
            if (name := left.pop()) not in found:
                found.add(name)
                left += sources.get(name, ())
        return [field for field in self.fields if field.name in found]

    @property
    def number_names(self) -> list[str]:
        """Of the fields on which SUM and the like can work."""
        return [name for name, field in self._by_name.items() if field.is_number_or_time]

    @property
    def place_names(self) -> set[str]:
        """Of the fields that are places: those that are derived so, of legs in each."""
        sides = [leg.derivations for leg in self.legs_of_record] or [()]
        found = [{each.field.name for each in side if is_place(each.expression)} for side in sides]
        return {each.field.name for each in self.derivations if is_place(each.expression)}.union(
            set.intersection(*found)
        )

    def field(self, name: str) -> Field:
        """The field of that name; raises ValueError naming the fields there are."""
        if name not in self._by_name:
            raise ValueError(unknown_name_message(f"{self.name} field", name, self.names))
        return self._by_name[name]

    def parse(self, line: bytes, nan_as_null: Counter[str] | None = None) -> dict[str, Any]:
        """The event of a record, the last if there are two: see `events`.

        >>> nan_as_null = Counter()
        >>> PAYMENTS.parse(b'{"transactionId": 1, "eventTime": 5, "paymentAmount": NaN}', nan_as_null)["paymentAmount"]
        >>> nan_as_null
        Counter({'paymentAmount': 1})
        """
        return self.events(line, nan_as_null)[-1]

    def events(self, line: bytes, nan_as_null: Counter[str] | None = None) -> list[dict[str, Any]]:
        """One JSON object, or one CSV line in the order of `fields`, as {field: value}. Raises BadRecord.

        It is one event. Where events can be taken back, the envelope of a row that was updated is two: the row before, with `op`
        "d" as if it had been deleted, then the row as it is now; that of a row that was deleted is the row before.

        Of each of them, a schema with legs makes an event for each leg. All fields of the id and the time (ms since the epoch) are required, all else may be absent: None. Derived fields are
        added. `nan_as_null` counts, by field, the NaN and the like that were read as null.

        >>> fields = Field("id", "long", path=("after", "id")), Field("at", "long", path=("after", "at")), Field("op", "string")
        >>> rows = Schema("rows", fields, ("id",), "at", taken_back="op = d")
        >>> rows.events(b'{"op": "u", "before": {"id": 1, "at": 5}, "after": {"id": 1, "at": 6}}')
        [{'id': 1, 'at': 5, 'op': 'd'}, {'id': 1, 'at': 6, 'op': 'u'}]
        """
        text = decode_text(line, "line", MAX_LINE_BYTES)
        refuse_no_value(text)
        if looks_like_json_object(text):
            if self.records == "csv":
                raise BadRecord(f"not a CSV line: {short_json(text)}")
            records = self.rows_in(text)
            found: list[dict[str, Any]] = [
                {field.name: field.read(each) for field in self.fields} for each in records
            ]
        elif self.records == "json":
            raise BadRecord(f"not one JSON object: {short_json(text.strip())}")
        else:
            records, found = [{}], [self._parse_csv(text)]
        for values, event in zip(records, found, strict=True):
            nans = (
                [name for name, value in event.items() if isinstance(value, float)]
                if "N" in text or "I" in text
                else []
            )
            event |= dict.fromkeys(nans)
            self._check(event, values)
            if self.derived:
                derive(event, self.derivations)
            if nans and nan_as_null is not None:
                nan_as_null.update(nans)
        return [leg for event in found for leg in self._legs_of(event)] if self.legs else found

    def rows_in(self, text: str) -> list[dict[str, Any]]:
        """The rows that a JSON record tells of: the object itself, or those in the envelope of a change. Raises BadRecord."""
        record = parse_json_object(text, float if self.nan == "null" else refuse_non_json_number)
        return unwrap_envelope(record, self.operation_field)

    def _legs_of(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for leg in self.legs_of_record:
            of_leg = event | {LEG: leg.name}
            derive(of_leg, leg.derivations)
            yield of_leg

    def _check(self, event: dict[str, Any], record: dict[str, Any]) -> None:
        """Raises BadRecord for an event without an id or a time. `record`: the object that it was read from."""
        for name in self.id_fields:
            if event[name] is None:
                check_not_deleted(record, self.field(name), self.operation_field)
            self._check_id(self.field(name), event[name])
        time = event[self.time_field]
        if time is None or not 0 <= time < MAX_TIME:
            allowed = f"the event time, 0 to {MAX_TIME - 1} ms since the epoch (1970 to 2200)"
            raise BadRecord(expected_message(self.field(self.time_field).label, time, allowed))

    def _check_id(self, field: Field, value: Value) -> None:
        part = "the id of the event" if len(self.id_fields) == 1 else "a part of the id of the event"
        if value is None:
            raise BadRecord(expected_message(field.label, None, part))
        if isinstance(value, str) and not 1 <= len(value) <= MAX_ID:
            raise BadRecord(expected_message(field.label, value, f"{part}, 1 to {MAX_ID} characters"))

    def id_of(self, event: Mapping[str, Any]) -> Id:
        """The id of an event: the value of its field, or of several fields all their values.

        >>> PAYMENTS.id_of({"transactionId": 7, "payeeId": 25})
        7
        """
        return self._read_id(event)

    @cached_property
    def _read_id(self) -> Callable[[Mapping[str, Any]], Id]:
        return itemgetter(*self.event_id_fields)

    @cached_property
    def has_numeric_id(self) -> bool:
        """Whether the id is one number."""
        return len(self.event_id_fields) == 1 and self.field(self.id_fields[0]).is_number_or_time

    @cached_property
    def operation_field(self) -> Field | None:
        """Where records are envelopes of rows that change, and events can be taken back, the field that says what became of a row."""
        keys = self.field(self.id_fields[0]).record_path
        if not self.taken_back or "after" not in keys:
            return None
        path = (*keys[: keys.index("after")], "op")
        return next((field for field in self.fields if field.record_path == path), None)

    def check_future(self, event: dict[str, Any], log_time: int, max_future_ms: int) -> None:
        """Raises BadRecord if an event says that it is later than the log allows: one such event would end the windows of many.

        `log_time`: when its record was logged, ms since the epoch; 0: the log is not live, and any time may come.

        >>> PAYMENTS.check_future({"eventTime": 12_001}, log_time=2_000, max_future_ms=10_000)
        Traceback (most recent call last):
        lab.model.jsontext.BadRecord: eventTime: 12001, expected at most 10000 ms after the log time of its record, which is 2000
        """
        time = event[self.time_field]
        if log_time and time > log_time + max_future_ms:
            allowed = f"at most {max_future_ms} ms after the log time of its record, which is {log_time}"
            raise BadRecord(expected_message(self.field(self.time_field).label, time, allowed))

    def _parse_csv(self, text: str) -> dict[str, Any]:
        try:
            rows = list(csv.reader([text]))
        except csv.Error as error:
            raise BadRecord(f"not a CSV line: {error}") from None
        cells = rows[0] if rows else []
        if len(cells) > len(self.fields):
            names = ",".join(field.name for field in self.fields)
            raise BadRecord(f"{len(cells)} cells, at most {len(self.fields)}: {names}")
        cells += [""] * (len(self.fields) - len(cells))
        return {
            field.name: self.parse_cell(field, cell) for field, cell in zip(self.fields, cells, strict=True)
        }

    def parse_cell(self, field: Field, cell: str) -> Value | float:
        """One CSV cell in a field's type, a float for NaN and the like. Raises BadRecord."""
        if cell in CONSTANTS and field.is_number_or_time and self.nan == "null":
            return float(cell)
        return parse_time_text_or_ms(field, cell) if field is self.long_time else field.parse_csv_cell(cell)

    @cached_property
    def long_time(self) -> Field | None:
        """The event time if it is a long: in CSV it may then be text as well."""
        field = self.field(self.time_field)
        return field if field.type == "long" else None

    def to_dict(self) -> dict[str, Any]:
        """Ready for `json.dumps`; `from_dict` gives an equal schema."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict) -> "Schema":
        """The schema that `to_dict` gave, also after a turn through JSON.

        >>> Schema.from_dict(PAYMENTS.to_dict()) == PAYMENTS
        True
        """
        fields = (
            Field(**field | {name: tuple(field.get(name, ())) for name in ("path", "examples")})
            for field in given["fields"]
        )
        derived = tuple((name, text) for name, text in given.get("derived", ()))
        legs = tuple((leg, tuple((name, text) for name, text in of)) for leg, of in given.get("legs", ()))
        ids = tuple(given["id_fields"])
        return cls(**given | {"fields": tuple(fields), "id_fields": ids, "derived": derived, "legs": legs})

    def incompatibility_with(self, before: "Schema") -> str | None:
        """Why state and rules made under an earlier schema are of no use with this one; None if they go on.

        A new field is compatible, it is null in earlier events, and so are other words: names of schemas, docs, units of
        anything but times. A derived field is another one if its expression says something else. `taken_back` may be new or different, but not removed: state has the records that took events back.

        >>> PAYMENTS.incompatibility_with(LOGINS)
        'the id is transactionId, before it was eventId'
        """
        ids, old_ids = (", ".join(schema.event_id_fields) for schema in (self, before))
        for role, mine, old in (("id", ids, old_ids), ("time", self.time_field, before.time_field)):
            if mine != old:
                return f"the {role} is {mine}, before it was {old}"
        if before.taken_back and not self.taken_back:
            return f"there is no taken_back any more, it was {before.taken_back}"
        derivations = [schema._expressions() for schema in (self, before)]
        for past in map(before.field, before.names):
            if past.name not in self._by_name:
                return f"there is no field {past.name} any more"
            field = self.field(past.name)
            derived, was_derived = (each.get(past.name, "a field of the records") for each in derivations)
            if derived != was_derived:
                return f"{past.name} is {derived}, before it was {was_derived}"
            for what, now, then in (
                ("type", field.type, past.type),
                ("path", ".".join(field.record_path), ".".join(past.record_path)),
                ("unit", f"{field.unit} {field.zone}".strip(), f"{past.unit} {past.zone}".strip()),
            ):
                if now != then and (what != "unit" or field.type == "time"):
                    return f"the {what} of {past.name} is {now}, before it was {then}"
        return None

    def _expressions(self) -> dict[str, str]:
        """What each derived field is computed from, in words."""
        found = {each.field.name: expression_text(each.expression) for each in self.derivations}
        for leg in self.legs_of_record:
            for each in leg.derivations:
                of_leg = f"{expression_text(each.expression)} in {leg.name}"
                found[each.field.name] = (
                    f"{found[each.field.name]}, {of_leg}" if each.field.name in found else of_leg
                )
        return found | ({LEG: ", ".join(leg.name for leg in self.legs_of_record)} if self.legs else {})

    def _repr_html_(self) -> str:
        roles = dict.fromkeys(self.id_fields, "id") | {self.time_field: say("event time")}
        rows = [
            (field.name, field.type, roles.get(field.name, ""), translated(field.doc or field.unit))
            for field in map(self.field, self.names)
        ]
        return html_table(say("Fields"), (say("field"), say("type"), say("role"), say("meaning")), rows)


PAYMENTS = Schema(
    "payments",
    (
        Field("transactionId", "long"),
        Field("eventTime", "long", "ms since the epoch"),
        Field("payeeId", "long", "who pays"),
        Field("beneficiaryId", "long", "who is paid"),
        Field("paymentType", "string", "CSH (cash) or CRD (card)", examples=("CSH", "CRD")),
        Field("paymentAmount", "decimal(18,2)"),
        Field("ingestionTimestamp", "long", "ms since the epoch"),
    ),
    id_fields=("transactionId",),
    time_field="eventTime",
    records="either",
)
LOGINS = Schema(
    "logins",
    (
        Field("eventId", "long"),
        Field("eventTime", "long", "ms since the epoch"),
        Field("userId", "long"),
        Field(
            "action",
            "string",
            "login, login_failed, password_reset, payment, ...",
            examples=("login", "login_failed", "password_reset", "payment"),
        ),
        Field("ip", "string"),
        Field("device", "string"),
        Field("country", "string", "two letters, such as KR", examples=("KR", "CN")),
        Field("amount", "decimal(18,2)", "of a payment"),
    ),
    id_fields=("eventId",),
    time_field="eventTime",
    records="either",
)
FLIGHTS = Schema(
    "flights",
    (
        Field("flightId", "long"),
        Field("eventTime", "long", "actual departure, ms since the epoch"),
        Field("carrier", "string", examples=("UA", "B6", "EV", "DL")),
        Field("flight", "long", "flight number"),
        Field("tailnum", "string"),
        Field("origin", "string", examples=("EWR", "JFK", "LGA")),
        Field("dest", "string", examples=("ATL", "ORD", "LAX", "BOS")),
        Field("departureDelay", "decimal(9,2)", "minutes, negative: early"),
        Field("arrivalDelay", "decimal(9,2)", "minutes, negative: early"),
        Field("airTime", "decimal(9,2)", "minutes"),
        Field("distance", "long", "miles"),
    ),
    id_fields=("flightId",),
    time_field="eventTime",
    records="either",
)
SCHEMAS: dict[str, Schema] = {schema.name: schema for schema in (PAYMENTS, LOGINS, FLIGHTS)}
