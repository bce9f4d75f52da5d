"""The derived fields of a batch of events in the page, as `lab.model.derived` computes each; events and their values are columns.

columns of the records' fields ──► Deriver ──► columns of the derived fields, of legs one for each, and which rows have none
"""

import json
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from lab.model.derived import (
    FUNCTIONS,
    Call,
    Constant,
    Derivation,
    Expression,
    Function,
    Name,
    OutOfRange,
    Stored,
    call_value,
    factors,
    most_of,
    names_in,
)
from lab.model.schema import Schema
from lab.model.times import MINUTE_MS, offset_ms
from lab.page.reader import pack, pack_int64s

QUARTER_MS = 15 * MINUTE_MS
MOST_KNOWN = 100_000  # values that are remembered of one call
Column = Sequence[Stored | None]


class Deriver:
    """Computes what a schema derives. `needed`: the fields of the records that it looks at."""

    def __init__(self, schema: Schema):
        self.schema, self._known = schema, dict[Call, dict]()
        recorded = {field.name for field in schema.fields}
        of_legs = (each for leg in schema.legs_of_record for each in leg.derivations)
        names = (name for each in (*schema.derivations, *of_legs) for name in names_in(each.expression))
        self.needed = [name for name in dict.fromkeys(names) if name in recorded]

    def derived(self, columns: Any, texts: str) -> str:
        """The columns of the derived fields, then of each leg its own: JSON of `{columns, failed}`.

        `columns`, `texts`: of the needed fields, see `columns_of`. `failed`: the rows of which a value does not fit its type.
        """
        given = {name: column for name, column in zip(self.needed, columns_of(columns, texts), strict=True)}
        self._failed: set[int] = set()
        made = self._derive(self.schema.derivations, given)
        legs = [self._derive(leg.derivations, dict(given)) for leg in self.schema.legs_of_record]
        packed = [_packed(column) for each in (made, *legs) for column in each]
        return json.dumps({"columns": packed, "failed": sorted(self._failed)})

    def _derive(self, derivations: Sequence[Derivation], columns: dict[str, Column]) -> list[Column]:
        """Adds their columns to others, each of which the next may look at."""
        for each in derivations:
            columns[each.field.name] = self._values(each.expression, columns)
        return [columns[each.field.name] for each in derivations]

    def _values(self, expression: Expression, columns: dict[str, Column]) -> Column:
        if isinstance(expression, Name):
            return columns[expression.name]
        assert isinstance(expression, Call), "an expression looks at a field"
        arguments = [
            repeat(each.value) if isinstance(each, Constant) else self._values(each, columns)
            for each in expression.arguments
        ]
        function = FUNCTIONS[expression.function]
        if function.bound:
            found = _of_integers(expression, function, arguments)
            if all(map(_fits(expression), found)):
                return found
        known = self._known.setdefault(expression, {})
        if len(known) > MOST_KNOWN:
            known.clear()
        value = self._at_quarter(expression, known) if function.of_local else self._of_each(expression, known)
        rows = enumerate(zip(*arguments, strict=False))
        return [self._checked(value(given), row) for row, given in rows]

    def _checked(self, value: Any, row: int) -> Stored | None:
        if isinstance(value, OutOfRange):
            self._failed.add(row)
            return None
        return value

    def _of_each(self, call: Call, known: dict) -> Callable[[tuple], Any]:
        """The value of a call of each different list of arguments, which is computed once; or why there is none."""

        def value(given: tuple) -> Any:
            if given not in known:
                try:
                    known[given] = call_value(call, given)
                except OutOfRange as error:
                    known[given] = error
            return known[given]

        return value

    def _at_quarter(self, call: Call, known: dict) -> Callable[[tuple], Any]:
        """What a clock shows in each quarter of an hour, at whose ends it is so far from UTC; else, at each time."""
        of_each = self._of_each(call, known)

        def value(given: tuple) -> Any:
            time, *zone = given
            if time is None:
                return None
            begin = time - time % QUARTER_MS
            quarter = begin, *zone
            if (None, quarter) not in known:
                ends = (begin, begin + QUARTER_MS - 1)
                same = len({(offset_ms(str(*zone or ["UTC"]), at), of_each((at, *zone))) for at in ends}) == 1
                known[None, quarter] = same
            return of_each(quarter if known[None, quarter] else given)

        return value


def _of_integers(call: Call, function: Function, arguments: Sequence[Any]) -> list[int | None]:
    """The values of a sign between two columns of numbers, whether they fit its type or not."""
    by, other_by = factors(call) if function.takes == "aligned" else (1, 1)
    compute = function.compute
    return [
        None if one is None or other is None else compute(one * by, other * other_by)
        for one, other in zip(*arguments, strict=False)
    ]


def _fits(call: Call) -> Callable[[int | None], bool]:
    most = most_of(call.type)
    least = -most - (call.type == "long")
    return lambda value: value is None or least <= value <= most


def columns_of(given: Any, texts: str) -> list[Column]:
    """The columns of some fields as JavaScript packs them: of each its numbers, or those of its texts, as int64s, and which of them there are.

    `texts`: of each of these fields the texts by number, in JSON.
    """
    return [
        _column(numbers.to_bytes(), valid.to_bytes(), known)
        for (numbers, valid), known in zip(given, json.loads(texts), strict=True)
    ]


def _column(numbers: bytes, valid: bytes, texts: dict[str, str] | None) -> Column:
    """A column of numbers; with `texts`, of those."""
    found = zip(memoryview(numbers).cast("q"), valid, strict=True)
    if texts is None:
        return [number if there else None for number, there in found]
    by_number = {int(number): text for number, text in texts.items()}
    return [by_number[number] if there else None for number, there in found]


def _packed(column: Column) -> dict[str, Any]:
    """A column as JavaScript takes it: numbers, or those of texts, and which of them there are."""
    valid = pack(bytes(each is not None for each in column))
    places = {text: place for place, text in enumerate(dict.fromkeys(filter(_is_text, column)))}
    if not places:
        return {"numbers": pack_int64s([int(each or 0) for each in column]), "valid": valid}
    numbers = pack_int64s([0 if each is None else places[each] for each in column])
    return {"numbers": numbers, "valid": valid, "texts": [*places]}


def _is_text(value: Stored | None) -> bool:
    return isinstance(value, str)
