"""What compiled Java calls and is not there: names in class files, looked up in jars without running any."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zipfile import ZipFile

U2, U4 = Struct(">H"), Struct(">I")
TEXT, LONG, DOUBLE, CLASS, FIELD, METHOD, INTERFACE_METHOD = 1, 5, 6, 7, 9, 10, 11
SIZES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}

Member = tuple[str, str]  # name and type


class ClassFile(NamedTuple):
    above: list[str]  # the class and the interfaces that it extends
    members: set[Member]
    uses: set[tuple[str, Member | None]]  # classes, and members of them


class Jars:
    """The classes of some jars; of two with one name the first counts."""

    def __init__(self, jars: Iterable[Path]):
        self._at: dict[str, ZipFile] = {}
        for jar in map(ZipFile, jars):
            for name in jar.namelist():
                self._at.setdefault(name.removesuffix(".class"), jar)

    def missing(self, of: Path, package: str) -> Iterator[str]:
        """What classes of a jar use of a package that is nowhere."""
        for name in ZipFile(of).namelist():
            if name.endswith(".class"):
                for used, member in self._read(name.removesuffix(".class")).uses:
                    if used.startswith(package) and not self._has(used, member):
                        yield f"{name}: {used} {member or ''}"

    def _has(self, name: str, member: Member | None) -> bool:
        """Whether a class is there and has a member, or may have it from a class elsewhere."""
        if name not in self._at:
            return False
        found = self._read(name)
        return (
            not member
            or member in found.members
            or any(above not in self._at or self._has(above, member) for above in found.above)
        )

    @cache  # noqa: B019, as long as the test
    def _read(self, name: str) -> ClassFile:
        return parse(self._at[name].read(f"{name}.class"))


def parse(data: bytes) -> ClassFile:
    """The names in a class file, in the order of the Java Virtual Machine Specification, chapter 4."""
    at, entries = 10, {}
    number, count = 1, U2.unpack_from(data, 8)[0]
    while number < count:
        tag = data[at]
        size = 2 + U2.unpack_from(data, at + 1)[0] if tag == TEXT else SIZES[tag]
        entries[number] = tag, data[at + 1 : at + 1 + size]
        at, number = at + 1 + size, number + 1 + (tag in (LONG, DOUBLE))

    def text(number: int) -> str:
        return entries[number][1][2:].decode(errors="replace")

    def numbers(number: int) -> list[int]:
        return [each for (each,) in U2.iter_unpack(entries[number][1])]

    def class_name(number: int) -> str:
        return text(numbers(number)[0])

    uses: set[tuple[str, Member | None]] = set()
    for number, (tag, _) in entries.items():
        if tag == CLASS:
            uses.add((class_name(number), None))
        elif tag in (FIELD, METHOD, INTERFACE_METHOD):
            owner, named = numbers(number)
            name, kind = map(text, numbers(named))
            uses.add((class_name(owner), (name, kind)))
    interfaces = U2.unpack_from(data, at + 6)[0]
    above = [
        number for (number,) in U2.iter_unpack(data[at + 4 : at + 6] + data[at + 8 : at + 8 + 2 * interfaces])
    ]
    at += 8 + 2 * interfaces
    members = set()
    for _ in ("fields", "methods"):
        at, left = at + 2, U2.unpack_from(data, at)[0]
        for _ in range(left):
            _, name, kind, attributes = Struct(">4H").unpack_from(data, at)
            members.add((text(name), text(kind)))
            at += 8
            for _ in range(attributes):
                at += 6 + U4.unpack_from(data, at + 2)[0]
    return ClassFile([class_name(number) for number in above if number], members, uses)
