"""Finished events, to try rules on: the lines of a file, of a log's folder, or of a topic as far as it goes when it is asked.

partition 0   ──a───────c──────e──►     of a topic: a b c d e, by log time, then partition, then offset; a log time is
partition 1   ──────b───────d─────►     never less than those before it in its partition
"""

import gzip
import heapq
import re
import zlib
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate, islice
from json import JSONDecoder
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lab.logs.files import FileLog
from lab.logs.opened import opened
from lab.logs.places import KAFKA

if TYPE_CHECKING:
    from lab.logs.config import Config
    from lab.logs.kafka import KafkaLog

BETWEEN = re.compile(r"[\s,]*")  # elements of a list
QUEUE_KB = 8 << 10  # of each partition's records wait at most


class Events(ABC):
    """Events, one a line, as often as they are asked for."""

    @abstractmethod
    def __len__(self) -> int:
        """How many lines at most, blank ones included."""

    @abstractmethod
    def __iter__(self) -> Iterator[bytes]:
        """The lines without their ends."""

    @abstractmethod
    def place(self, index: int) -> str:
        """Where line `index` of the last reading stands, for people."""


def source_at(where: Path | str, config: "Config | None" = None) -> Events:
    """The events at a place: a file (also .gz), the folder of a log, or kafka://HOST:PORT/TOPIC. Raises ValueError, NoBroker, BadTopic."""
    if str(where).startswith(KAFKA):
        return TopicSource(cast("KafkaLog", opened(str(where), config)))
    return Source(Path(where))


class Source(Events):
    """The lines of a file, or of an events log's folder; of a file that is one JSON list, its elements."""

    def __init__(self, path: Path):
        if path.is_dir():
            log = FileLog(path)
            files = sorted(path.glob("*.jsonl"))
            self._files = [(file, f"{path.name}/{file.name}") for file in files] if log.end() else []
        else:
            self._files = [(path, path.name)]
        lengths = [sum(1 for _ in self._lines(file)) for file, _ in self._files]
        self._starts = [0, *accumulate(lengths)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[bytes]:
        lines = (line.rstrip(b"\r\n") for file, _ in self._files for line in self._lines(file))
        return islice(lines, len(self))  # a log may grow meanwhile

    def place(self, index: int) -> str:
        """`payments.jsonl:1`."""
        file = bisect_right(self._starts, index) - 1
        return f"{self._files[file][1]}:{index - self._starts[file] + 1}"

    @staticmethod
    def _lines(path: Path) -> Iterator[bytes]:
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                if file.peek(1)[:1] == b"[" and (elements := _elements(file.read())):
                    yield from elements
                    return
                file.seek(0)
                yield from file
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise OSError(f"{path} is not a whole gzip file: {error}") from None


def _elements(text: bytes) -> list[bytes]:
    """The elements of a JSON list as they stand, a line each; nothing if it is no such list.

    >>> _elements(b'[{"a": 1.0},\\n {"a":\\n 2}]')
    [b'{"a": 1.0}', b'{"a":\\r 2}']
    """
    try:
        rest, found, decoder = text.decode(), [], JSONDecoder()
        at = BETWEEN.match(rest, 1).end()
        while rest[at] != "]":
            _, end = decoder.raw_decode(rest, at)
            found.append(rest[at:end].replace("\n", "\r").encode())
            at = BETWEEN.match(rest, end).end()
    except (ValueError, IndexError):
        return []
    return found if not rest[at + 1 :].strip() else []


class TopicSource(Events):
    """The records of all partitions of a topic that are there when it is made, in the order of the log."""

    def __init__(self, log: "KafkaLog"):
        from lab.logs.partitions import Partitions

        self._log = log
        partitions = Partitions(log.cluster, log.topic)
        self._starts, self._ends = partitions.starts(), partitions.ends()
        self._partitions, self._offsets = array("q"), array("q")

    def __len__(self) -> int:
        return sum(self._ends.values()) - sum(self._starts.values())

    def __iter__(self) -> Iterator[bytes]:
        self._partitions, self._offsets = array("q"), array("q")
        for _, number, offset, value in heapq.merge(*map(self._partition, self._starts)):
            self._partitions.append(number)
            self._offsets.append(offset)
            # a blank line would not count; to JSON a carriage return is what a line feed is
            yield value.replace(b"\n", b"\r") if value.strip() else b"null"

    def _partition(self, number: int) -> Iterator[tuple[int, int, int, bytes]]:
        """(log time, partition, offset, value) of each record."""
        from lab.logs.cluster import ANSWER_S
        from lab.logs.partitions import Reader

        newest, span = 0, (self._starts[number], self._ends[number])
        with closing(Reader(self._log.cluster, self._log.topic, QUEUE_KB)) as reader:
            for _, messages in reader.read({number: span}, ANSWER_S):
                for message in messages:
                    newest = max(newest, message.timestamp()[1])
                    yield newest, number, message.offset(), message.value() or b""

    def place(self, index: int) -> str:
        """`events/3:17`."""
        return f"{self._log.topic}/{self._partitions[index]}:{self._offsets[index]}"
