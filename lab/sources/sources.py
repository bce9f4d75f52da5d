"""Finished events, to try rules on: the records of a file, of a log's folder, or of a topic as far as it goes when it is asked.

partition 0   ──a───────c──────e──►     of a topic: a b c d e, by log time, then partition, then offset; a log time is
partition 1   ──────b───────d─────►     never less than those before it in its partition
"""

import json
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from lab.engine.loop.ends import kind_of
from lab.logs.config import Config
from lab.logs.files import FileLog
from lab.logs.protocol import Log
from lab.model.schema import Schema
from lab.sources.csvcolumns import ColumnStyle
from lab.sources.formats import BOM, LineFormat, detect_format
from lab.sources.records import Format, UnreadableFile


class EventSource(ABC):
    """Events, one a line, as often as they are asked for.

    `format`: what people call it; `record_format`: of each line, as `Schema.records` says; None: whatever the schema says;
    `texts`: whether all values are texts, as the cells of CSV are; `schema`: for which it was made, None: for none;
    `styles`: how the columns of CSV are written, by name; `delimiter`: what divides its cells; `doubts`: of a schema that was proposed
    for them, by the names of its fields.
    """

    format, texts = "a log", False
    schema: Schema | None = None
    record_format: str | None = None
    styles: Mapping[str, ColumnStyle] = {}
    delimiter = ","
    doubts: Mapping[str, Sequence[str]] = {}

    @abstractmethod
    def __len__(self) -> int:
        """How many lines at most, blank ones included."""

    @abstractmethod
    def __iter__(self) -> Iterator[bytes]:
        """The lines without their ends."""

    def live_log_lines(self) -> Iterator[bytes]:
        """The lines for a live log, which decides by itself what each is: what is bad in a file's format is a text there, too."""
        for line in self:
            if not line.strip():  # no record, and no event
                continue
            an_object = line.removeprefix(BOM).lstrip()[:1] == b"{"
            wrong = self.record_format and line.strip() and an_object != (self.record_format == "json")
            yield json.dumps(line.decode(errors="replace")).encode() if wrong else line

    @abstractmethod
    def place(self, index: int) -> str:
        """Where line `index` of the last reading stands, for people."""

    def for_schema(self, schema: Schema) -> "EventSource":
        """The same events, read for a schema."""
        return self

    def typed(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record that a person typed, with its texts read as those of these events are. Raises BadRecord."""
        return record


def source_at(where: Path | str, config: Config | None = None, schema: Schema | None = None) -> EventSource:
    """The events at a place, of a schema: a file (also gzip), the folder of a log, or kafka://HOST:PORT/TOPIC.

    Raises ValueError, NoBroker, UnusableTopic.
    """
    if "://" in str(where):
        return TopicSource(kind_of(str(where)).open_log(str(where), config or Config()), schema)
    return Source(Path(where), schema)


class Source(EventSource):
    """The records of a file, whose format its beginning decides (`lab.sources.formats`), of a folder of such files, or of an events log.

    `schema`: of the records; CSV needs it, whose cells otherwise stay texts. Raises ValueError for a file that cannot be read.
    """

    def __init__(self, path: Path, schema: Schema | None = None):
        self._files: list[tuple[Format, str]]
        self._path, self.schema = path, schema
        if path.exists() and not path.is_dir() and not path.is_file():
            raise UnreadableFile(
                f"{path} is a pipe or a device, which can be read only once: save it to a file, and name that file"
            )
        if not path.is_dir():
            self._files = [(detect_format(path, schema), path.name)]
        elif FileLog(path).end():
            files = sorted(path.glob("*.jsonl"))
            self._files = [(LineFormat(file, None, "a log"), f"{path.name}/{file.name}") for file in files]
        else:  # as Spark writes it
            there = [file for file in sorted(path.iterdir()) if file.name[0] not in "._"]
            files = [file for file in there if file.is_file()]
            if there and not files:
                raise UnreadableFile(
                    f"{path} has no files, only folders, expected one of them: {', '.join(map(str, there[:6]))}"
                )
            self._files = [(detect_format(file, schema), f"{path.name}/{file.name}") for file in files]
        formats = {format.name for format, _ in self._files}
        if len(formats) > 1:
            raise UnreadableFile(
                f"{path} has files of several formats: {', '.join(sorted(formats))}; move them apart"
            )
        if self._files:
            format = self._files[0][0]
            self.format, self.record_format, self.texts = format.name, format.record_format, format.texts
            self.styles, self.delimiter = format.styles, format.delimiter
        self._starts = [0, *accumulate(file.count() for file, _ in self._files)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[bytes]:
        lines = (line for file, _ in self._files for line in file.lines())
        return islice(lines, len(self))  # a log may grow meanwhile

    def place(self, index: int) -> str:
        """`payments.jsonl:1`."""
        number = bisect_right(self._starts, index) - 1
        file, name = self._files[number]
        return f"{name}:{file.place(index - self._starts[number])}"

    def for_schema(self, schema: Schema) -> EventSource:
        return Source(self._path, schema)

    def typed(self, record: dict[str, Any]) -> dict[str, Any]:
        return self._files[0][0].typed(record) if self._files else record


class TopicSource(EventSource):
    """The records of all partitions of a topic, or another log that is no folder, that are there when it is made, in the order of the log."""

    def __init__(self, log: Log, schema: Schema | None = None):
        self._log, self.schema = log, schema
        self._starts, self._ends = log.bounds()
        self._partitions, self._offsets = array("q"), array("q")

    def __len__(self) -> int:
        return sum(self._ends.values()) - sum(self._starts.values())

    def __iter__(self) -> Iterator[bytes]:
        self._partitions, self._offsets = array("q"), array("q")
        for _, number, offset, value in self._log.values_in_order(self._starts, self._ends):
            self._partitions.append(number)
            self._offsets.append(offset)
            # a blank line would not count; to JSON a carriage return is what a line feed is
            yield value.replace(b"\n", b"\r") if value.strip() else b"null"

    def place(self, index: int) -> str:
        """`events/3:17`."""
        return self._log.place_of(self._partitions[index], self._offsets[index])

    def for_schema(self, schema: Schema) -> EventSource:
        return TopicSource(self._log, schema)
