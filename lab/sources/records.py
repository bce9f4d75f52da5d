"""The interface for reading a file of events, whatever its format."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.sources.csvcolumns import ColumnStyle

# what holds events, for errors
TAKEN = "a DataFrame of pandas, polars or Spark, a table of pyarrow, a list of dicts, a path, or lab.source_at(path)"


class UnreadableFile(ValueError):
    """A file that is not read; the message has a way that works."""


class Format(ABC):
    """A file in a format. `name`: what people call that; `record_format`: of its lines, as `Schema.records` says; None: not
    decided, as in a live log. `texts`: whether all values are texts, as the cells of CSV are; `styles`: how the columns of CSV are written, by name."""

    name = "JSON lines"
    record_format: str | None = "json"
    texts = False
    styles: Mapping[str, "ColumnStyle"] = {}
    delimiter = ","  # of cells of CSV

    @abstractmethod
    def lines(self) -> Iterator[bytes]:
        """Its records, one per line, without line ends."""

    @abstractmethod
    def place(self, index: int) -> str:
        """Where record `index` of the last reading stands in the file: a line, or what its format counts."""

    def count(self) -> int:
        """How many lines there are."""
        return sum(1 for _ in self.lines())

    def typed(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record that a person typed, with its texts read as cells of this file are. Raises BadRecord."""
        return record
