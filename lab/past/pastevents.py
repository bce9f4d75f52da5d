"""Past events as programs give them: lines of a log, rows, tables or files; what of a filter occurs in none of them."""

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.engine.checkpoint.settings import Settings
from lab.model.jsontext import BadRecord
from lab.model.schema import Schema
from lab.model.when import When, required_values
from lab.past.routehistory import EventsInMemory, RouteHistory
from lab.sources.rows import RowSource, check_rows, is_table, source_of

RECENT = 2_000  # events in which the frequent values of a field are looked for
MOST_CHECKED = 20  # values of a filter


class PastEvents(EventsInMemory):
    """What the two implementations of past events, with and without NumPy, have in common."""

    def __init__(self, schema: Schema, at_most: int, history: RouteHistory | None):
        self.schema, self.at_most = schema, at_most
        self.history = history or RouteHistory(Settings(schema))
        self.arrived = 0  # all that ever came

    @abstractmethod
    def __len__(self) -> int: ...

    def add(self, lines: Any, log_times: Sequence[int] | None = None) -> int:
        """Takes in records as they stand in a log; those that are dead letters are left out. Returns how many are new.

        They may also be the rows of a DataFrame, a list of dicts or the `Path` of a file, as `lab.alerts` takes them.
        `log_times`: of each record; None: the log is not live, and a warning says how many are dead letters, which windows
        then lack. Raises TypeError for what is none of these.
        """
        given = lines_of(lines, self.schema)
        new = self._add(given, log_times)
        if log_times is None and new < len(given) * max(len(self.schema.legs), 1):
            warn_of_bad_records(given, self.schema)
        return new

    @abstractmethod
    def _add(self, lines: list[str | bytes], log_times: Sequence[int] | None) -> int:
        """Does what `add` says with lines that were checked."""

    @abstractmethod
    def all_events(self) -> list[dict[str, Any]]:
        """The events in memory, as {field: value}, in the order in which they came; without the records that take one back."""

    def absent_filter_values(self, filter: When | None) -> list[tuple[str, Any, list[Any]]]:
        """The values of a filter that occur in none of these events, and those that are most frequent there instead.

        Checks only the first `MOST_CHECKED` values.
        """
        if not len(self):
            return []
        wanted = [(name, value) for name, values in required_values(filter) for value in values]
        missing = [each for each in wanted[:MOST_CHECKED] if not self._occurs(*each)]
        newest = {name: Counter(self._newest_values(name, RECENT)) for name in {name for name, _ in missing}}
        frequent = {
            name: [each for each, _ in counted.most_common(3) if each is not None]
            for name, counted in newest.items()
        }
        return [(name, value, frequent[name]) for name, value in missing]

    def has_null(self, name: str) -> bool:
        """Whether a field is null in any of the events in memory."""
        return bool(len(self)) and None in self._newest_values(name, len(self))

    @abstractmethod
    def _occurs(self, name: str, value: Any) -> bool:
        """Whether a field has a value in any of the events in memory, as a filter sees it."""

    @abstractmethod
    def _newest_values(self, name: str, most: int) -> list:
        """The values of a field in the newest events."""


def lines_of(given: Any, schema: Schema) -> list[str | bytes]:
    """Lines as a list, also those of a table, of dicts or of a file. Raises TypeError, which says what to pass."""
    if isinstance(given, str):
        raise TypeError(
            "one text, expected a list of lines, as in a log: text.splitlines(); or Path(name) of a file"
        )
    if isinstance(given, Path) or is_table(given):
        return list(source_of(given, schema))
    check_rows(given)
    found = list(given)
    return found if all(isinstance(line, str | bytes) for line in found) else list(RowSource(found, schema))


def warn_of_bad_records(lines: Sequence[str | bytes], schema: Schema) -> None:
    """Warns how many of the lines, of a log that is not live, are dead letters, with the reason of the first one."""
    given = [line if isinstance(line, bytes) else line.encode() for line in lines if line.strip()]
    reasons = []
    for line in given:
        try:
            schema.events(line)
        except BadRecord as error:
            reasons.append(str(error))
    if reasons:
        some = f"{len(reasons):,} of {len(given):,} records are none of {schema.name}, and left out"
        if len(reasons) == len(given):
            some = f"none of {len(given):,} records is one of {schema.name}"
        warnings.warn(f"{some}; the first: {reasons[0]}", stacklevel=3)
