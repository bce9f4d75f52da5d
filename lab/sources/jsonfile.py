"""JSON that is not one object a line: the elements of a list, as it stands or inside an object, and objects over several lines.

    [{"id": 1}, …]          {"Records": [{"id": 1}, …]}          {⏎ "id": 1⏎}⏎{⏎ …

Read a value at a time: of a file of any length, about a value is in memory.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab.sources.records import Format, UnreadableFile

CHUNK, MOST = 1 << 20, 1 << 26  # characters that are read at once, and that one value may have
BLANKS = re.compile(r"[ \t\r\n]*")
SCAN = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode  # for where a value ends


@dataclass(frozen=True)
class JsonLayout:
    """How the records stand: the elements of a list at the top, or of member `member` of an object; else objects in a row."""

    kind: str  # list, member, objects
    member: str = ""

    def __str__(self) -> str:
        if self.kind == "objects":
            return "JSON objects over several lines"
        return f"a JSON list, {json.dumps(self.member)}" if self.member else "a JSON list"


def detect_json_layout(text: str, is_complete: bool) -> JsonLayout | None:
    """The layout of a JSON text whose beginning is `text`; None: one value per line. `is_complete`: `text` is all of it.

    >>> str(detect_json_layout('{"Records": [{"id": 1}]}', True)), detect_json_layout('{"id": 1}\\n{"id": 2}', True)
    ('a JSON list, "Records"', None)
    """
    if text[0] == "[":
        return JsonLayout("list") if re.match(r"\[\s*([{\]]|$)", text) else None
    try:
        value, end = SCAN(text)
    except RecursionError:
        return None
    except json.JSONDecodeError as error:
        cut_off = not is_complete and error.pos > len(text) // 2
        member = _list_before(text) if cut_off else None
        return JsonLayout("member", member) if member else None
    lists = [name for name, inside in value.items() if _records(inside)]
    over_lines, rest = "\n" in text[:end], text[end:].strip(" \t\r")
    if lists and (len(value) == 1 or (len(lists) == 1 and over_lines and is_complete and not rest.strip())):
        return JsonLayout("member", lists[0])
    return JsonLayout("objects") if over_lines or rest.startswith("{") else None


def _records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _list_before(text: str) -> str | None:
    """The first member of an object that is cut off, if it is a list of objects; on one line only the very first."""
    values, several = JsonReader(_Given(text)), "\n" in text
    try:
        values.expect("{")
        while True:
            name = values.read_name()
            values.expect(":")
            if values.peek() == "[":
                values.expect("[")
                return name if values.peek() == "{" else None
            values.read_value()
            values.expect(",")
            if not several:
                return None
    except BadJson:
        return None


class BadJson(ValueError):
    """What is wrong in a JSON text, and near what."""


class _Given:
    """A text as a file."""

    def __init__(self, text: str):
        self._text = text.encode(errors="surrogateescape")

    def read(self, size: int) -> bytes:
        text, self._text = self._text, b""
        return text


class JsonReader:
    """The values of a JSON text, as they stand in it, one after the other."""

    def __init__(self, file: "IO[bytes] | _Given"):
        self._file, self._decoder = file, getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._text, self._at, self._ended = "", 0, False

    def peek(self) -> str:
        """The next character that is not blank; nothing at the end."""
        while True:
            self._at = BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more()

    def expect(self, character: str) -> None:
        """Goes on after that character. Raises BadJson if it is not the next one."""
        if self.peek() != character:
            raise BadJson(f"expected {character} at {self._near()}")
        self._at += 1

    def read_name(self) -> str:
        """The next value, the name of a member. Raises BadJson."""
        if self.peek() != '"':
            raise BadJson(f'expected " at {self._near()}')
        return json.loads(self.read_value())

    def read_value(self) -> str:
        """The next value. Raises BadJson."""
        self.peek()
        while True:
            try:
                _, end = SCAN(self._text, self._at)
                if end < len(self._text) or self._ended:  # else a number may go on
                    break
            except RecursionError:
                raise BadJson(f"nested too deeply at {self._near()}") from None
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self._at > MOST:
                    self._at = min(error.pos, len(self._text))
                    raise BadJson(f"{error.msg} at {self._near()}") from None
            self._more()
        text, self._at = self._text[self._at : end], end
        return text

    def _near(self) -> str:
        text = self._text[self._at : self._at + 30]
        return json.dumps(text, ensure_ascii=False) if text else "the end"

    def _more(self) -> None:
        rest = self._text[self._at :]
        data = self._file.read(max(CHUNK, len(rest)))
        self._ended = not data
        self._text, self._at = rest + self._decoder.decode(data, self._ended), 0


class JsonValues(Format):
    """The records of a file in a layout."""

    def __init__(
        self, path: Path, layout: JsonLayout, opened: Callable[[Path], AbstractContextManager[IO[bytes]]]
    ):
        self._path, self._layout, self._opened, self.name = path, layout, opened, str(layout)

    def lines(self) -> Iterator[bytes]:
        """A record a line. Raises UnreadableFile where the text is not JSON: nobody knows where the next record begins."""
        done = 0
        with self._opened(self._path) as file:
            try:
                for text in self._records(JsonReader(file)):
                    done += 1
                    yield re.sub("[\r\n]", " ", text).encode(errors="surrogateescape")
            except BadJson as error:
                raise UnreadableFile(
                    f"{self._path} is {self.name}, but broken after record {done:,}: {error}"
                ) from None

    def place(self, index: int) -> str:
        return f"record {index + 1}"

    def _records(self, values: JsonReader) -> Iterator[str]:
        if self._layout.kind == "list":
            yield from _elements(values)
            if values.peek():
                raise BadJson(f"more than one list (`jq -c '.[]'` turns them into lines) at {values.peek()}")
        while values.peek():
            if self._layout.kind == "objects":
                yield values.read_value()
            else:
                yield from self._member(values)

    def _member(self, values: JsonReader) -> Iterator[str]:
        """The elements of that member of the next object."""
        values.expect("{")
        while values.peek() != "}":
            name = values.read_name()
            values.expect(":")
            if values.peek() == "[" and name == self._layout.member:
                yield from _elements(values)
            else:
                values.read_value()
            if values.peek() == "}":
                break
            values.expect(",")
        values.expect("}")


def _elements(values: JsonReader) -> Iterator[str]:
    values.expect("[")
    while values.peek() != "]":
        yield values.read_value()
        if values.peek() == "]":
            break
        values.expect(",")
    values.expect("]")
