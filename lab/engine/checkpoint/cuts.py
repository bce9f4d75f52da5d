"""The cuts of an epoch, in a file of the checkpoint: each cut is durable before any of its results is visible.

    cuts/000000017.jsonl      begin   attempt   cut   cut   ┊ killed ┊   attempt   cut   end   saved
                              after epoch 16                             the same two cuts again, then another

An epoch is what the loop does between two state files. It begins where the previous epoch ended. A process takes an epoch over with
an `attempt` record, carries out the cuts in the file, and then adds cuts. It adds a record only if the file is as it left it, which the
file's size and last record show. So an attempt can add nothing after another one has followed it. No cut comes after the `end`, which is
written before the epoch's state file; `saved` is written after that file. An attempt of an earlier start (`lab.engine.checkpoint.lease`)
is refused. A driver that chooses the cuts itself first closes the epoch after the loop's last one, so that no task adds cuts to it. A line
begins with its checksum: a torn last line is not a record, and no result of its cut is visible.

In a folder that is power-safe, `end` and `saved` wait for the disk, with all that the cuts before them need; a cut never waits. So after a
power failure the newest epoch that has an `end` is carried out again, or what came after its beginning is cut anew: no alert is lost, some come twice,
with the same `alertId`.
"""

import json
from typing import NamedTuple
from uuid import uuid4
from zlib import crc32

from lab.engine.checkpoint.durable import WAY_ON, CheckpointFolder
from lab.model.times import now_ms

FOLDER = "cuts"
# how much of a file's end identifies it: more than an `attempt` record, and each of these is unique
ENDING_BYTES = 200
Mark = dict  # `lab.engine.loop.cut.Mark`


class TakenOver(RuntimeError):
    """Another attempt at an epoch, or another engine, has gone on without this one; the text says so."""


class Cut(NamedTuple):
    """A cut between two marks. Its number is never used again in the life of a checkpoint."""

    number: int
    begin: Mark
    end: Mark


class CutId(NamedTuple):
    """Identifies a cut among all cuts of its checkpoint, even one with the same number after the checkpoint was restored."""

    number: int
    fingerprint: int  # `lab.engine.checkpoint.record.batch_fingerprint` of its end


class CutLog:
    """The newest epoch, taken over by this attempt; where that is saved, the next one.

    `before`: the mark at which the first epoch begins, None if there was one. `lease`: the one under which the attempt runs.
    Raises ValueError if a file that should be there is missing, TakenOver if a later epoch or start has begun meanwhile. `taken`: the cuts that earlier attempts left, to be carried out again.
    `mark`, `number`: where the next cut begins, and its number.

    >>> import tempfile
    >>> checkpoint, mark = CheckpointFolder(tempfile.mkdtemp()), {"cut": 0, "ledger": "", "number": -1, "epoch": -1}
    >>> first = CutLog(checkpoint, mark)
    >>> first.add({"cut": 5, "ledger": ""}).number
    0
    >>> second = CutLog(checkpoint, mark)
    >>> [cut.end["cut"] for cut in second.taken], second.number
    ([5], 1)
    >>> first.add({"cut": 6, "ledger": ""})
    Traceback (most recent call last):
    lab.engine.checkpoint.cuts.TakenOver: epoch 0 of ... has been taken over by another attempt at it
    >>> second.end_epoch()
    >>> second.mark_epoch_saved()
    >>> second.begin_next_epoch()
    >>> second.epoch, second.number
    (1, 1)
    """

    def __init__(self, checkpoint: CheckpointFolder, before: Mark | None, lease: str = ""):
        self._folder, self._lease = checkpoint / FOLDER, lease
        while not self._take_over(before):
            pass
        self._tidy()

    def _take_over(self, before: Mark | None) -> bool:
        """Takes the newest epoch over; returns False if another attempt has written there meanwhile."""
        torn = b""
        for name in reversed(self._folder.names()):
            epoch = _epoch(name)
            if before and epoch <= before["epoch"]:
                break
            data = self._folder.read(name) or b""
            records, whole = _records(data, f"{self._folder}/{name}")
            if (later := max(map(_lease, records), default="")) > self._lease:
                raise TakenOver(
                    f"epoch {epoch} of {self._folder}: a later start has begun, under lease {later}"
                )
            if not records:
                torn = data
            elif records[0].get("closed") == self._lease:
                raise TakenOver(f"epoch {epoch} of {self._folder} is the driver's")
            elif "saved" in records[-1]:
                before = _end(records, epoch, f"{self._folder}/{name}")
                break
            else:
                return self._load_epoch(epoch, records, data, whole)
        if before is None:
            raise ValueError(
                f"{self._folder} has no cuts: the checkpoint is not whole, restore all of it or start with a new one"
            )
        return self._begin(before, torn)

    def _begin(self, before: Mark, torn: bytes = b"", **closed: str) -> bool:
        """Begins the epoch after a mark, in place of a torn first record."""
        begin = {"begin": before, "number": before["number"] + 1} | closed
        return self._load_epoch(before["epoch"] + 1, [begin], torn, 0)

    def _load_epoch(self, epoch: int, records: list[dict], data: bytes, whole: int) -> bool:
        self.epoch, self.number = epoch, records[0]["number"]
        self.begin = records[0]["begin"] | {"number": self.number - 1, "epoch": epoch - 1}
        self.mark, self.taken, self.ended, self.is_saved = self.begin, [], False, False
        for record in records[1:]:
            if "cut" in record:
                self._take_cut(record["cut"])
            if "end" in record:
                self._take_end(record["end"])
        attempt = {"attempt": uuid4().hex, "lease": self._lease}
        return self._append(data, whole, *(() if whole else records), attempt)

    def _tidy(self) -> None:
        """Removes the files of epochs that are no longer needed."""
        names = self._folder.names()
        if _epoch(names[-1]) > self.epoch:  # its file may have been removed while this attempt stood still
            raise TakenOver(f"epoch {self.epoch} of {self._folder}: epoch {_epoch(names[-1])} has begun")
        for name in names:
            if _epoch(name) < self.epoch - 1:
                self._folder.remove(name)

    def _take_cut(self, end: Mark) -> Cut:
        end = end | {"number": self.number, "epoch": self.epoch}
        cut = Cut(self.number, self.mark, end)
        self.taken.append(cut)
        self.mark, self.number = end, self.number + 1
        return cut

    def _append(self, found: bytes, whole: int, *records: dict) -> bool:
        """Adds records to the file if it is still as it was found; returns whether it did. `whole`: how many of its bytes are records."""
        lines = list(map(_line, records))
        self._size, self._ending = whole + sum(map(len, lines)), lines[-1]
        return self._folder.append_if_unchanged(
            _name(self.epoch), len(found), whole, b"".join(lines), found[-ENDING_BYTES:]
        )

    def _add(self, record: dict, kept: bool = False) -> None:
        line, size, ending = _line(record), self._size, self._ending
        self._size, self._ending = size + len(line), line
        if not self._folder.append_if_unchanged(_name(self.epoch), size, size, line, ending, kept):
            raise self._taken_over()

    def _taken_over(self) -> TakenOver:
        return TakenOver(f"epoch {self.epoch} of {self._folder} has been taken over by another attempt at it")

    def add(self, end: Mark) -> Cut:
        """Writes a cut ahead. Raises TakenOver, and writes nothing, if another attempt has taken the epoch over."""
        assert not self.ended, "no cut comes after the end of an epoch"
        assert end["cut"] >= self.mark["cut"], "a cut ends no earlier than it begins"
        self._add({"cut": end})
        return self._take_cut(end)

    def check_not_taken_over(self) -> None:
        """Raises TakenOver if another attempt has taken the epoch over: what is delivered is left to that one."""
        if not self._folder.has_size_and_ending(_name(self.epoch), self._size, self._ending):
            raise self._taken_over()

    def end_epoch(self) -> None:
        """Ends the epoch: no cut comes after this. A second call does nothing."""
        if not self.ended:
            end = self.mark | {"stopped": now_ms()}
            self._add({"end": end, "number": self.number}, kept=True)
            self._folder.keep_names()
            self._take_end(end)

    def _take_end(self, end: Mark) -> None:
        self.mark, self.ended = end | {"number": self.number - 1, "epoch": self.epoch}, True

    def mark_epoch_saved(self) -> None:
        """Records that the state file of the epoch is written, so that its cuts are not carried out again."""
        assert self.ended, "an epoch is saved after its end"
        self._add({"saved": True}, kept=True)
        self.is_saved = True

    def begin_next_epoch(self) -> None:
        """Begins the epoch after this one, which is saved. Raises TakenOver if another attempt has begun it."""
        assert self.is_saved, "an epoch begins after the one before is saved"
        if not self._begin(self.mark):
            raise self._taken_over()
        self._tidy()

    def close_to_tasks(self) -> None:
        """Keeps the tasks of this start, and of earlier ones, from beginning the epoch after this one. Raises TakenOver if one has."""
        if not self._begin(self.mark, closed=self._lease):
            raise self._taken_over()


def loop_mark_at_end_of(folder: CheckpointFolder, epoch: int) -> Mark:
    """The mark at the end of an epoch. Raises ValueError if it is gone or has no end."""
    where = f"{folder}/{_name(epoch)}"
    data = folder.read(_name(epoch))
    if data is None:
        raise ValueError(
            f"{where} is gone: the last two epochs of the loop are kept, and the driver's last hundred"
        )
    return _end(_records(data, where)[0], epoch, where)


def _end(records: list[dict], epoch: int, where: str) -> Mark:
    ends = [record for record in records if "end" in record]
    if not ends:
        raise ValueError(
            f"{where} has no end: the checkpoint is not whole, restore all of it or start with a new one"
        )
    return ends[-1]["end"] | {"number": ends[-1]["number"] - 1, "epoch": epoch}


def may_have_cuts_after_epoch(folder: CheckpointFolder, epoch: int, lease: str) -> bool:
    """Whether tasks may have added cuts after an epoch, or may still add some: not once the start with the lease has closed it to them."""
    names = folder.names()
    return bool(names) and _epoch(names[-1]) > epoch and not is_closed_to_tasks(folder, lease)


def is_closed_to_tasks(folder: CheckpointFolder, lease: str) -> bool:
    """Whether the start with the lease has closed the newest epoch to tasks."""
    names = folder.names()[-1:]
    return any(record.get("closed") == lease for name in names for record in _read(folder, name)[:1])


def last_lease(folder: CheckpointFolder) -> str:
    """The lease of the last attempt at the newest epoch; "" if there is none."""
    for name in reversed(folder.names()[-2:]):
        if records := _read(folder, name):
            return max(map(_lease, records))
    return ""


def last_saved_loop_mark(folder: CheckpointFolder) -> Mark | None:
    """The mark at the end of the newest epoch whose state file is there; None before the first.

    If the loop has begun its first epoch but not saved it, that is the driver's last epoch.
    """
    for name in reversed(folder.names()[-2:]):
        if records := _read(folder, name):
            epoch, number = _epoch(name), records[0]["number"]
            if "saved" in records[-1]:
                return _end(records, epoch, f"{folder}/{name}")
            return records[0]["begin"] | {"number": number - 1, "epoch": epoch - 1} if epoch else None
    return None


def loop_marks_by_cut_number(folder: CheckpointFolder) -> dict[int, Mark]:
    """The marks at the ends of the newest cuts, by number, and of the one before them."""
    found: dict[int, Mark] = {}
    for name in folder.names():
        records = _read(folder, name)
        if not records:
            continue
        number = records[0]["number"]
        found[number - 1] = records[0]["begin"]
        for record in records:
            if "cut" in record:
                found[number] = record["cut"]
                number += 1
    return found


def newest_loop_mark(folder: CheckpointFolder) -> Mark | None:
    """The mark at the end of the newest cut, or the beginning of an epoch without cuts; reads only as much as it needs."""
    for name in reversed(folder.names()):
        for line in reversed((folder.read(name) or b"").split(b"\n")[:-1]):
            record = _record(line) or {}
            if found := record.get("cut", record.get("begin")):
                return found
    return None


def _read(folder: CheckpointFolder, name: str) -> list[dict]:
    return _records(folder.read(name) or b"", f"{folder}/{name}")[0]


def _name(epoch: int) -> str:
    return f"{epoch:09d}.jsonl"


def _epoch(name: str) -> int:
    return int(name.split(".")[0])


def _lease(record: dict) -> str:
    return record.get("lease", "")


def _line(record: dict) -> bytes:
    text = json.dumps(record).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _record(line: bytes) -> dict | None:
    """The record of a line; None if the line is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if checksum == b"%08x" % crc32(text) else None


def _records(data: bytes, where: str) -> tuple[list[dict], int]:
    """The records of a file, and how many bytes they are. Raises ValueError if what the disk had to keep is damaged.

    A tail is ignored that is torn, or of which a power failure has left pieces: no `saved` comes after the damage.

    >>> data = _line({"attempt": 0}) + _line({"attempt": 1})
    >>> _records(data[:-1], "…")
    ([{'attempt': 0}], 24)
    >>> _records(_line({"attempt": 0}) + bytes(20) + data + _line({"end": {}}), "…")
    ([{'attempt': 0}], 24)
    >>> _records(data[1:] + _line({"saved": True}), "cuts/000000000.jsonl")
    Traceback (most recent call last):
    ValueError: cuts/000000000.jsonl is damaged at byte 0: restore the checkpoint, ...
    """
    records, at = [], 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1]):
        record = _record(line)
        if record is None:
            if not any(later and "saved" in later for later in map(_record, lines[number + 1 :])):
                break
            raise ValueError(f"{where} is damaged at byte {at}: {WAY_ON}")
        records.append(record)
        at += len(line) + 1
    return records, at
