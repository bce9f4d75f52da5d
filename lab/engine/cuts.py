"""The cuts of an epoch, in a file of the checkpoint: each is durable before anything of it is seen.

    cuts/000000017.jsonl      begin   attempt   cut   cut   ┊ killed ┊   attempt   cut   end
                              after epoch 16                             the same two cuts again, then another

An epoch begins where the one before ended. Whoever runs it takes it over with an `attempt` and carries out the cuts that are
there; then it adds cuts. A record is added only if the file is as its writer left it, so an attempt that another one has
followed can add nothing, and no cut comes after the `end`, which stands before the epoch's state file is written. A line
begins with its checksum: a torn last line is no record, and nobody has seen anything of its cut.
"""

import json
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from lab.engine.durable import Durable

FOLDER = "cuts"
Mark = dict  # `lab.engine.cut.Mark`


class TakenOver(RuntimeError):
    """Another attempt at an epoch, or another engine, has gone on without this one; the text says so."""


class Cut(NamedTuple):
    """A cut between two marks. Its number is never used again in the life of a checkpoint."""

    number: int
    begin: Mark
    end: Mark


class Cuts:
    """The file of one epoch, taken over by this attempt. Raises TakenOver if a later epoch has begun.

    `before`: the mark at which the epoch begins, if the one before has no file here. `taken`: the cuts that earlier attempts left, to be carried out again. `mark`, `number`: where the next cut begins, and its number.

    >>> import tempfile
    >>> checkpoint, mark = Durable(tempfile.mkdtemp()), {"cut": 0, "ledger": ""}
    >>> first = Cuts(checkpoint, 0, lambda: mark)
    >>> first.add({"cut": 5, "ledger": ""}).number
    0
    >>> second = Cuts(checkpoint, 0, lambda: mark)
    >>> [cut.end["cut"] for cut in second.taken], second.number
    ([5], 1)
    >>> first.add({"cut": 6, "ledger": ""})
    Traceback (most recent call last):
    lab.engine.cuts.TakenOver: epoch 0 of ... has been taken over by another attempt at it
    """

    def __init__(self, checkpoint: Durable, epoch: int, before: Callable[[], Mark]):
        self._folder, self.epoch = checkpoint / FOLDER, epoch
        self._check_newest()
        while not self._take_over(before):
            pass
        self._check_newest()  # its file may have been removed while this attempt stood still
        for name in self._folder.names():
            if int(name.split(".")[0]) < epoch - 1:
                self._folder.remove(name)

    def _check_newest(self) -> None:
        names = self._folder.names()
        if names and (newest := int(names[-1].split(".")[0])) > self.epoch:
            raise TakenOver(f"epoch {self.epoch} of {self._folder}: epoch {newest} has begun")

    def _take_over(self, before: Callable[[], Mark]) -> bool:
        """Whether it has; False if somebody else wrote there meanwhile."""
        where = f"{self._folder}/{_name(self.epoch)}"
        data = self._folder.read(_name(self.epoch)) or b""
        records, whole = _records(data, where)
        if not records:
            self.begin, self.number = self._after_the_one_before(before)
            records = [{"begin": self.begin, "number": self.number}]
        added = records[:1] if not whole else []
        self.begin, self.number = records[0]["begin"], records[0]["number"]
        self.mark, self.taken, self.ended = self.begin, [], False
        for record in records[1:]:
            if "cut" in record:
                self._follow(record["cut"])
            self.ended |= "end" in record
        attempts = sum("attempt" in record for record in records)
        return self._append(len(data), whole, *added, {"attempt": attempts})

    def _after_the_one_before(self, before: Callable[[], Mark]) -> tuple[Mark, int]:
        """The mark at which the epoch begins, and the number of its first cut."""
        if self.epoch == 0:
            return before(), 0
        if self._folder.read(_name(self.epoch - 1)) is None:  # its one cut was chosen by the driver
            end = before()
            return end, end.get("number", -1) + 1
        return end_of(self._folder, self.epoch - 1)

    def _follow(self, end: Mark) -> Cut:
        cut = Cut(self.number, self.mark, end)
        self.taken.append(cut)
        self.mark, self.number = end, self.number + 1
        return cut

    def _append(self, size: int, whole: int, *records: dict) -> bool:
        data = b"".join(map(_line, records))
        self._size = whole + len(data)
        return self._folder.append(_name(self.epoch), size, whole, data)

    def _add(self, record: dict) -> None:
        if not self._append(self._size, self._size, record):
            raise self._taken_over()

    def _taken_over(self) -> TakenOver:
        return TakenOver(f"epoch {self.epoch} of {self._folder} has been taken over by another attempt at it")

    def add(self, end: Mark) -> Cut:
        """Writes a cut ahead. Raises TakenOver, and writes nothing, if another attempt has taken the epoch over."""
        self._add({"cut": end})
        return self._follow(end)

    def check(self) -> None:
        """Raises TakenOver if another attempt has taken the epoch over: what is delivered is left to that one."""
        if self._folder.size(_name(self.epoch)) != self._size:
            raise self._taken_over()

    def end(self) -> None:
        """No cut comes after this; a second time does nothing."""
        if not self.ended:
            self._add({"end": self.mark | {"number": self.number - 1}, "number": self.number})
            self.ended = True


def end_of(folder: Durable, epoch: int) -> tuple[Mark, int]:
    """The mark at the end of an epoch, and the number of the first cut after it. Raises ValueError if it is gone or has no end."""
    name = _name(epoch)
    data = folder.read(name)
    if data is None:
        raise ValueError(f"{folder}/{name} is gone: the cuts of the last two epochs are kept")
    records, _ = _records(data, f"{folder}/{name}")
    ends = [record for record in records if "end" in record]
    if not ends:
        raise ValueError(
            f"{folder}/{name} has no end: the checkpoint is not whole, restore all of it or start with a new one"
        )
    return ends[-1]["end"], ends[-1]["number"]


def written(folder: Durable) -> dict[int, Mark]:
    """The marks at the ends of the newest cuts, by number, and of the one before them."""
    found: dict[int, Mark] = {}
    for name in folder.names():
        records, _ = _records(folder.read(name) or b"", f"{folder}/{name}")
        if not records:
            continue
        number = records[0]["number"]
        found[number - 1] = records[0]["begin"]
        for record in records:
            if "cut" in record:
                found[number] = record["cut"]
                number += 1
    return found


def newest(folder: Durable) -> Mark | None:
    """The mark at the end of the newest cut, or at which an epoch without cuts begins; reads no more than it needs."""
    for name in reversed(folder.names()):
        for line in reversed((folder.read(name) or b"").split(b"\n")[:-1]):
            record = _record(line) or {}
            if found := record.get("cut", record.get("begin")):
                return found
    return None


def _name(epoch: int) -> str:
    return f"{epoch:09d}.jsonl"


def _line(record: dict) -> bytes:
    text = json.dumps(record).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _record(line: bytes) -> dict | None:
    """None: it is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if checksum == b"%08x" % crc32(text) else None


def _records(data: bytes, where: str) -> tuple[list[dict], int]:
    """The records of a file, and how many bytes they are; a torn tail is passed over. Raises ValueError for any other damage.

    >>> data = _line({"attempt": 0}) + _line({"attempt": 1})
    >>> _records(data[:-1], "…")
    ([{'attempt': 0}], 24)
    >>> _records(data[1:], "cuts/000000000.jsonl")
    Traceback (most recent call last):
    ValueError: cuts/000000000.jsonl is damaged at byte 0: restore the checkpoint
    """
    records, at = [], 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1]):
        record = _record(line)
        if record is None:
            if number == len(lines) - 2 and not lines[-1]:
                break
            raise ValueError(f"{where} is damaged at byte {at}: restore the checkpoint")
        records.append(record)
        at += len(line) + 1
    return records, at
