"""Rows that are no events: an error, or a warning with what would make events of them."""

import re
import warnings
from collections.abc import Sequence

from lab.model.jsontext import BadRecord, LongLine
from lab.model.schema import Schema
from lab.sources.sources import EventSource

SHOWN = 3  # bad rows in an error
BAD_ROWS = ("raise", "warn")
ROUNDED = 6  # digits after the point, of floats
# a number with so many digits that it is a float that nobody rounded; how many a field has before and after the point
UNROUNDED = re.compile(
    r": -?([0-9]{1,18})(?:\.[0-9]{8,40}|(?:\.[0-9]{1,40})?[eE]-[0-9]{1,3}), "
    r"expected a number with at most ([0-9]+) digits before the point and ([0-9]+) after it"
)


class BadRows(UserWarning):
    """Rows that are no events: their windows lack them."""


def check_bad_rows(bad_rows: str) -> None:
    """Raises ValueError if it is neither "raise" nor "warn"."""
    if bad_rows not in BAD_ROWS:
        raise ValueError(f"bad_rows: {bad_rows!r}, expected {' or '.join(map(repr, BAD_ROWS))}")


def bad_rows_of(source: EventSource, schema: Schema) -> list[tuple[str, str]]:
    """The place of each row that is no event, and the reason."""
    found = []
    for number, line in enumerate(source):
        try:
            schema.events(line)
        except BadRecord as error:
            if line.strip():
                found.append(
                    (source.place(number), line.reason if isinstance(line, LongLine) else str(error))
                )
    return found


def tell_bad_rows(
    bad_rows: str, bad: Sequence[tuple[str, str]], rows: int, source: EventSource, schema: Schema
) -> None:
    """Raises ValueError, or warns, as `bad_rows` says, if some of so many rows are no events; `bad`: their places and reasons."""
    if not bad:
        return
    some = "; ".join(f"{place}: {reason}" for place, reason in bad[:SHOWN])
    said = f"{len(bad):,} of {rows:,} rows are no events: {some}{'; …' if len(bad) > SHOWN else ''}"
    advice = _how_to_round([reason for _, reason in bad], source, schema)
    if bad_rows == "raise":
        leave_out = 'bad_rows="warn" leaves them out, schema=… says what is right'
        raise ValueError(f"{said}. {advice or leave_out}")
    warnings.warn(f"{said}. They are left out{'; ' * bool(advice)}{advice}", BadRows, stacklevel=3)


def _how_to_round(reasons: Sequence[str], source: EventSource, schema: Schema) -> str:
    """What to do with columns of floats that have more digits than their fields; "" if there are none."""
    paths = {field.label: ".".join(field.record_path) for field in schema.fields}
    digits: dict[str, int] = {}
    for reason in reasons:
        found = UNROUNDED.search(reason)
        if found and len(found[1]) <= int(found[2]) and (path := paths.get(reason[: found.start()])):
            digits[path] = min(ROUNDED, int(found[3]))
    if not digits:
        return ""
    columns = ", ".join(f"{column} to {count}" for column, count in digits.items())
    column, count = next(iter(digits.items()))
    in_pandas = (
        f', in pandas df["{column}"] = df["{column}"].round({count})' if source.format == "a table" else ""
    )
    return f"Floats have more digits than fit: first round {columns} digits{in_pandas}"
