"""Parses the messages of PostgreSQL's plug-in `pgoutput`: the rows that a publication inserts, transaction by transaction.

    Begin  Relation  Insert  Insert  …  Commit          in the order of the commits

Source: PostgreSQL's documentation, "Logical Replication Message Formats", protocol version 1. Each message is a letter
and big-endian fields; a row is its columns as text.
"""

import struct
from collections.abc import Iterator
from typing import Any


class UnexpectedMessage(ValueError):
    """A message that a publication of insertions never sends."""


def commit_end(message: bytes) -> int | None:
    """The end of a transaction in the server's log, if the message is its commit. This position can be confirmed."""
    return struct.unpack_from(">Q", message, 10)[0] if message[:1] == b"C" else None


class PgoutputDecoder:
    """Turns messages into rows. Remembers the columns of each table, which the server sends once.

    >>> decoder = PgoutputDecoder()
    >>> decoder.inserted_row(b"R" + struct.pack(">I", 9) + b"public\\0t\\0d" + struct.pack(">H", 1) + b"\\1id\\0" + bytes(8))
    >>> decoder.inserted_row(b"I" + struct.pack(">I", 9) + b"N" + struct.pack(">H", 1) + b"t" + struct.pack(">I", 2) + b"17")
    {'id': '17'}
    """

    def __init__(self) -> None:
        self._columns: dict[int, list[str]] = {}

    def inserted_row(self, message: bytes) -> dict[str, Any] | None:
        """The row that a message inserts; None for messages without a row. Raises UnexpectedMessage."""
        kind = message[:1]
        if kind == b"R":
            table, columns = _relation(_Reader(message[1:]))
            self._columns[table] = columns
        elif kind == b"I":
            reader = _Reader(message[1:])
            columns = self._columns[reader.number(">I")]
            reader.take(1)  # N: a new row follows
            return dict(zip(columns, _tuple(reader), strict=True))
        elif kind not in (b"B", b"C", b"O", b"Y", b"M"):  # begin, commit, origin, type, message
            raise UnexpectedMessage(
                f"message {kind!r} of pgoutput, expected insertions only: the publication was changed"
            )
        return None


class _Reader:
    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def number(self, format: str) -> int:
        return struct.unpack(format, self.take(struct.calcsize(format)))[0]

    def word(self) -> str:
        return self.take(self._data.index(b"\0", self._at) + 1 - self._at)[:-1].decode()


def _relation(reader: _Reader) -> tuple[int, list[str]]:
    table = reader.number(">I")
    reader.word(), reader.word(), reader.take(1)  # schema, name, replica identity
    columns = []
    for _ in range(reader.number(">H")):
        reader.take(1)  # whether it is part of the key
        columns.append(reader.word())
        reader.take(8)  # its type and modifier
    return table, columns


def _tuple(reader: _Reader) -> Iterator[str | None]:
    for _ in range(reader.number(">H")):
        null = reader.take(1) == b"n"
        yield None if null else reader.take(reader.number(">I")).decode()
