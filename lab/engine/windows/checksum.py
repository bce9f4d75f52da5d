"""The checksum of a state file, inside the file: Arrow has none, and a changed bit would be another amount.

    ARROW1 │ schema: {"crc32": "5f1c09ab", …} │ rows │ footer: the schema again │ ARROW1

Each file has its metadata twice, before and after its rows. The CRC-32 in both is that of the file with zeros in their places.
"""

from collections.abc import Iterator
from zlib import crc32

KEY, SIZE = "crc32", 8  # of the metadata, and how many digits its value has
PLACE = f'"{KEY}": "'.encode()
ZEROS = "0" * SIZE


class Sink:
    """A file that is written piece by piece, with metadata that begins with `KEY` and `ZEROS`.

    >>> sink = Sink()
    >>> for piece in (b'{"crc32": "00000000"} rows ', b'{"crc32": "00000000"}'):
    ...     _ = sink.write(piece)
    >>> bytes(sink.content())
    b'{"crc32": "281cfae0"} rows {"crc32": "281cfae0"}'
    >>> is_intact(sink.content()), is_intact(b'{"crc32": "281cfae0"} rowt {"crc32": "281cfae0"}')
    (True, False)
    >>> is_intact(b"no checksum")
    False
    """

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._checksum = 0

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self._checksum = crc32(self._pieces[-1], self._checksum)
        return len(data)

    def content(self) -> bytearray:
        """The whole file, with its checksum."""
        whole = bytearray().join(self._pieces)
        for at in _places(whole):
            whole[at : at + SIZE] = b"%08x" % self._checksum
        return whole


def is_intact(data: bytes | bytearray) -> bool:
    """Whether the bytes of a file are those that were written."""
    places = _places(data)
    checksum = b"%08x" % _checksum(data)
    return len(places) > 1 and all(data[at : at + SIZE] == checksum for at in places)


def _places(data: bytes | bytearray) -> list[int]:
    """The places of the checksum: in the first and in the last metadata. The rows lie between them."""
    return sorted({at + len(PLACE) for at in (data.find(PLACE), data.rfind(PLACE)) if at >= 0})


def _around(data: bytes | bytearray) -> Iterator[memoryview]:
    """The pieces between these places."""
    view, begin = memoryview(data), 0
    for at in _places(data):
        yield view[begin:at]
        begin = at + SIZE
    yield view[begin:]


def _checksum(data: bytes | bytearray) -> int:
    found = 0
    for number, piece in enumerate(_around(data)):
        found = crc32(piece, crc32(ZEROS.encode(), found) if number else found)
    return found
