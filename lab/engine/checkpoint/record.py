"""What a checkpoint says about itself: its record `lab.json`, and how far Spark's logs of batches have come.

checkpoint/
  lab.json     what is fixed for its life, its parallelism, and its id, under which it writes to file logs
  lab.lock     who works on it (`lab.engine.checkpoint.lock`)
  lease/       who may go on (`lab.engine.checkpoint.lease`)
  rules/       the ledger after each cut that had control messages (`lab.engine.checkpoint.ledger`)
  state/       what the epochs stored (`lab.engine.windows.statefiles`)
  offsets/17   Spark: micro-batch 17 is planned: an epoch between two marks (`lab.engine.loop.cut`), or ten minutes of the loop
  cuts/        the cuts of an epoch of the loop (`lab.engine.checkpoint.cuts`)
  commits/17   Spark: micro-batch 17 is done
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from uuid import uuid4

from lab.engine.checkpoint import cuts
from lab.engine.checkpoint.durable import WAY_ON, CheckpointFolder
from lab.model.times import now_ms

RECORD, VERSION = "lab.json", 8  # VERSION: of what the engine keeps in a checkpoint


def read_record(checkpoint: Path | str) -> dict | None:
    """The record, None if there is none yet. Raises ValueError for one of another version or that is no record."""
    text = CheckpointFolder(checkpoint).read(RECORD)
    if text is None:
        return None
    try:
        record = json.loads(text)
        version = int(record["version"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{checkpoint}/{RECORD} is not the record of a checkpoint: {error}; {WAY_ON}"
        ) from None
    if version < VERSION:
        raise ValueError(
            f"checkpoint {checkpoint} is of version {version}; this engine reads version {VERSION}. Start with a new checkpoint: it reads the logs from their beginning and comes to the same windows, "
            "as far as the logs still have the events"
        )
    if version > VERSION:
        raise ValueError(f"checkpoint {checkpoint} is of version {version}, made by a newer engine: use that")
    return record


def new_id_fields() -> dict[str, str | int]:
    """The fields of a record with a new checkpoint's id, and when that was made, ms."""
    return {"id": uuid4().hex, "id_since": now_ms()}


def write_record(checkpoint: Path | str, record: dict) -> None:
    """Replaces the record, completely or not at all."""
    CheckpointFolder(checkpoint).write(RECORD, json.dumps(record).encode())


@dataclass(frozen=True)
class BatchProgress:
    """How far the logs of batches have come: the last one planned and the last one done, None before the first.

    They differ when the engine was stopped or killed in the middle of a micro-batch.
    """

    planned: int | None
    done: int | None

    @classmethod
    def read(cls, checkpoint: Path | str) -> "BatchProgress":
        """Reads it from the logs of batches."""
        return cls(*(_last(CheckpointFolder(checkpoint) / log) for log in ("offsets", "commits")))


def _last(log: CheckpointFolder) -> int | None:
    return max((int(name) for name in log.names() if name.isdecimal()), default=None)


def planned_end(checkpoint: Path | str, batch_id: int) -> dict:
    """The end of a planned micro-batch as Spark wrote it ahead: a mark, or only a number if the batch runs the loop."""
    text = (CheckpointFolder(checkpoint) / "offsets").read(str(batch_id))
    if text is None:
        raise ValueError(f"{checkpoint}/offsets/{batch_id} is gone: Spark keeps the last hundred")
    version, _, *marks = [*text.decode(errors="replace").splitlines(), "", ""]
    if len(marks) > 2 and version not in ("v1", "v2"):
        raise ValueError(f"{checkpoint}/offsets/{batch_id} is of version {version!r}: made by another Spark")
    try:
        found = json.loads(marks[0])
    except (IndexError, ValueError):
        raise ValueError(
            f"{checkpoint}/offsets/{batch_id} is cut short, as a power failure leaves a file: {WAY_ON}"
        ) from None
    if runs_loop(found):
        return found
    return {"number": batch_id, "epoch": batch_id} | found


def check_spark_logs_are_whole(checkpoint: Path | str) -> None:
    """Raises ValueError if what Spark reads first is cut short: its own message would say neither why nor how to go on."""
    folder, progress = CheckpointFolder(checkpoint), BatchProgress.read(checkpoint)
    if progress.planned is not None:
        planned_end(checkpoint, progress.planned)
    for log, name in ((folder, "metadata"), (folder / "commits", str(progress.done))):
        if (text := log.read(name)) is not None:
            try:
                json.loads(text.splitlines()[-1])
            except (IndexError, ValueError):
                raise ValueError(
                    f"{log}/{name} is cut short, as a power failure leaves a file: {WAY_ON}"
                ) from None


def runs_loop(end: Mapping) -> bool:
    """Whether the end of a micro-batch says that the batch runs the loop, which chooses its cuts itself; otherwise the end is a mark.

    >>> runs_loop({"batch": 17}), runs_loop({"cut": 5, "ledger": ""})
    (True, False)
    """
    return end.keys() == {"batch"}


def mark_at_end_of(checkpoint: Path | str, epoch: int) -> dict:
    """The mark at the end of an epoch, chosen by the driver or the loop. Raises ValueError if the checkpoint does not have it."""
    folder = CheckpointFolder(checkpoint)
    for end in _planned_ends(folder):
        if not runs_loop(end) and end["epoch"] == epoch:
            return end
    return cuts.loop_mark_at_end_of(folder / cuts.FOLDER, epoch)


def _planned_ends(folder: CheckpointFolder) -> Iterator[dict]:
    """The ends of the planned micro-batches, newest first."""
    for batch_id in sorted(map(int, filter(str.isdecimal, (folder / "offsets").names())), reverse=True):
        yield planned_end(folder.where, batch_id)


def last_saved_mark(checkpoint: Path | str) -> dict | None:
    """The mark at the end of the last epoch whose state is saved, None before the first."""
    done = BatchProgress.read(checkpoint).done
    by_loop = cuts.last_saved_loop_mark(CheckpointFolder(checkpoint) / cuts.FOLDER)
    by_driver = None if done is None else planned_end(checkpoint, done)
    if by_driver is None or runs_loop(by_driver):
        return by_loop
    return by_loop if by_loop and by_loop["epoch"] > by_driver["epoch"] else by_driver


def cut_mark(checkpoint: Path | str, number: int | None = None) -> dict | None:
    """The mark at the end of a cut, by default of the newest one; None if the checkpoint does not have it, or no longer.

    Cuts of the loop are in `cuts/`, those that the driver chose in `offsets/`; one line of numbers counts both.
    """
    folder = CheckpointFolder(checkpoint)
    if number is None:
        newest = cuts.newest_loop_mark(folder / cuts.FOLDER)
        found = {} if newest is None else {newest.get("number", -1): newest}
    else:
        found = cuts.loop_marks_by_cut_number(folder / cuts.FOLDER)
    for end in _planned_ends(folder):
        if not runs_loop(end):
            found[end["number"]] = end
            if number is None or end["number"] <= number:
                break
    return found.get(max(found, default=-1) if number is None else number)


def batch_fingerprint(end: Mapping) -> int:
    """Distinguishes micro-batches of the same number by the mark at their end: 31 bits of its log time and positions.

    The results of a micro-batch depend only on that mark and on the batches before it, except for the times at which it ran.

    >>> mark = {"cut": 5, "at": 7, "events": {"0": 120}, "control": {"0": 60}, "ledger": ""}
    >>> batch_fingerprint(mark) == batch_fingerprint(mark | {"at": 8}), batch_fingerprint(mark) == batch_fingerprint(mark | {"cut": 6})
    (True, False)
    """
    text = json.dumps([end["cut"], end["events"], end["control"]], sort_keys=True)
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1
