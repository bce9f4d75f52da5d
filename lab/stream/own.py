"""Generates plausible events for a schema from its types and examples, or plays recorded events.

[fields.city]                        Seoul Seoul Busan Seoul …      texts and ids: some frequent, many rare
examples = ["Seoul", "Busan"]
[fields.amount]                      612.08 1187.45 790.00 …        amounts: around the example
example = "853.34"
"""

import json
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

from lab.model.field import Field
from lab.model.jsontext import DECIMAL_TEXT
from lab.model.schema import Schema
from lab.model.times import EPOCH, NUMBERS, STEP_SCALE, STEPS, offset_ms
from lab.stream.simulate import EpisodeLabel, Event, Script, json_text, random_generators

POOL = 100  # number of different values of a text or an id with one example
CODE = 3  # characters: such a short text without digits is a constant code, such as a currency
SURGE, SURGE_MS = 60, 2_000  # events of a burst, and how long it takes


class OwnSchemaScripts:
    """Generates the scripts of a schema's events: ordinary ones, and bursts in which one group is very active.

    >>> from lab.model.schema import FLIGHTS
    >>> make = OwnSchemaScripts(FLIGHTS, seed=1)
    >>> _, [(_, event)], _ = make.ordinary_script(0)
    >>> make.to_line({"flightId": 1, "eventTime": 0} | event)[:51]
    '{"flightId": 1, "eventTime": 0, "carrier": "DL", "f'
    """

    kinds = ("surge",)

    def __init__(self, schema: Schema, seed: int):
        self.random, self._planted, self.disorder = random_generators(seed)
        # if several fields form the id, the last one counts up
        self.id_field, self.time_field, self._schema = schema.id_fields[-1], schema.time_field, schema
        others = [field for field in schema.fields if field.name not in (self.id_field, self.time_field)]
        self._draw = {field.name: _values(field, Random(f"{seed}/{field.name}")) for field in others}
        self._measures = [field.name for field in others if field.scale]
        self._id = schema.field(self.id_field)

    def ordinary_script(self, time: int) -> Script:
        """One event."""
        return time, [(0, self._event(self.random))], None

    def planted_script(self, number: int, start: int, kind: str) -> Script:
        """Events that differ only in their measures."""
        rng = self._planted
        shared = self._event(rng)
        steps = [
            (SURGE_MS * i // SURGE, shared | {name: self._draw[name](rng) for name in self._measures})
            for i in range(SURGE)
        ]
        return start, steps, EpisodeLabel(number, kind, ())

    def _event(self, rng: Random) -> Event:
        return {name: draw(rng) for name, draw in self._draw.items()}

    def to_line(self, event: Event) -> str:
        """The event as a record of the schema: fields at their paths, times in their units, text ids as text."""
        time, record = event[self.time_field], {}
        for field in self._schema.fields:
            inside: dict[str, Any] = record
            *around, last = field.record_path
            for key in around:
                inside = inside.setdefault(key, {})
            inside[last] = self._written(field, event.get(field.name), time)
        return _json(record)

    def _written(self, field: Field, value: Any, time: int) -> Any:
        if field.type == "time":
            return _time(time, field.unit, field.zone)
        if field is self._id and not field.is_number_or_time:
            example = field.examples[0] if field.examples else f"{field.name}-0"
            text, found = re.subn(r"(?<![0-9])[0-9]++(?=[^0-9]*$)", str(value), example)
            return text if found else f"{example}-{value}"
        return value == "true" if field.type == "boolean" else value


class RecordedLines:
    """Recorded lines as scripts for a player: one event each, unchanged."""

    kinds: tuple[str, ...] = ()
    id_field, time_field = "id", "time"

    def __init__(self, lines: Iterable[str | bytes]):
        self._lines, self.disorder = iter(lines), Random(0)

    def ordinary_script(self, time: int) -> Script | None:
        """The next line; None at their end."""
        line = next(self._lines, None)
        return None if line is None else (time, [(0, {"line": line})], None)

    def to_line(self, event: Event) -> str | bytes:
        """The line."""
        return event["line"]


def _values(field: Field, rng: Random) -> Callable[[Random], Any]:
    """A function that draws values of a field. `rng` draws the set of possible values."""
    examples = [
        example
        for example in field.examples
        if not field.is_number_or_time or DECIMAL_TEXT.fullmatch(example)
    ]
    if field.type == "boolean":
        return lambda rng: "true" if rng.random() < 0.1 else "false"
    if field.type == "time":
        return lambda rng: None  # the event's own
    if field.is_decimal:
        return _amounts(field, float(examples[0]) if examples else 50.0)
    if field.type == "long":
        known = [int(Decimal(example)) for example in examples] or [POOL]
        if len(known) == 1:
            known = rng.sample(range(min(0, 2 * known[0]), max(POOL, 2 * known[0]) + 1), POOL)
        return _some(known)
    if len(examples) > 1:
        return _some(examples)
    if not examples:
        return _some([f"{field.name}-{number}" for number in range(1, POOL + 1)])
    if not re.search("[0-9]", examples[0]):
        if len(examples[0]) <= CODE:
            return lambda rng: examples[0]
        return _some([examples[0], *(f"{examples[0]}-{number}" for number in range(2, POOL + 1))])
    return _some([re.sub("[0-9]", lambda _: str(rng.randrange(10)), examples[0]) for _ in range(POOL)])


def _some(known: list) -> Callable[[Random], Any]:
    weights = [1 / rank for rank in range(1, len(known) + 1)]
    return lambda rng: rng.choices(known, weights)[0]


def _amounts(field: Field, typical: float) -> Callable[[Random], Decimal]:
    most = 10**field.precision - 1

    def draw(rng: Random) -> Decimal:
        value = typical * rng.lognormvariate(0, 0.6)
        return Decimal(max(-most, min(most, round(value * 10**field.scale)))).scaleb(-field.scale)

    return draw


def _time(ms: int, unit: str, zone: str) -> Any:
    if unit in NUMBERS:
        digits = NUMBERS["ms"] - NUMBERS[unit]  # of s: -3
        return ms * 10**digits if digits >= 0 else Decimal(ms).scaleb(digits)
    if unit in STEPS:
        return Decimal(ms * 10**STEP_SCALE // STEPS[unit]).scaleb(-STEP_SCALE)
    ms += offset_ms(zone, ms) if zone else 0
    text = (EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return f"{text}Z" if unit == "iso" else text


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(each)}" for name, each in value.items()) + "}"
    return json_text(value)
