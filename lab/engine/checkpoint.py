"""What a checkpoint says about itself, without Spark: its record `lab.json`, and how far Spark's logs of batches have come.

checkpoint/
  lab.json     what is fixed for its life, and a change of parallelism that is under way
  lab.lock     who works on it (`lab.engine.held`)
  offsets/17   Spark: micro-batch 17 is planned; its second line tells the number of state partitions
  commits/17   Spark: micro-batch 17 is done
  rules/       the rule book after each micro-batch that changed it (`lab.engine.rulebooks`)
  state/0/2/   Spark: operator 0, partition 2
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from lab.engine import rulebooks

RECORD, VERSION = "lab.json", 2  # VERSION: of what the engine keeps in state; it reads no other
PARTITIONS = "spark.sql.shuffle.partitions"


def read_record(checkpoint: Path) -> dict | None:
    """The record, None if there is none yet. Raises ValueError for one of another version or that is no record."""
    path = Path(checkpoint, RECORD)
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
        version = record.get("version", 1)  # the first records did not tell
    except (json.JSONDecodeError, AttributeError) as error:
        raise ValueError(f"{path} is not the record of a checkpoint: {error}") from None
    if version != VERSION:
        raise ValueError(
            f"checkpoint {checkpoint} is of version {version}, this engine reads version {VERSION}: "
            "use the engine that made it, or start with a new checkpoint"
        )
    return record


def write_record(checkpoint: Path, record: dict) -> None:
    """Replaces the record, at once or not at all."""
    path = Path(checkpoint, RECORD)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with open(fresh, "w") as file:
        file.write(json.dumps(record))
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


@dataclass(frozen=True)
class Batches:
    """How far the logs of batches have come: the last one planned and the last one done, None before the first.

    They differ when the engine was stopped or killed in the middle of a micro-batch.
    """

    checkpoint: Path
    planned: int | None
    done: int | None

    @classmethod
    def read(cls, checkpoint: Path) -> "Batches":
        """As they are now."""
        return cls(Path(checkpoint), *(_last(Path(checkpoint, log)) for log in ("offsets", "commits")))

    def partitions(self, batch_id: int) -> int:
        """How many state partitions a planned micro-batch has."""
        path = self.checkpoint / "offsets" / str(batch_id)
        version, metadata, *_ = path.read_text().splitlines()
        if version != "v1":
            raise ValueError(f"{path} is of version {version!r}, expected 'v1': made by another Spark")
        return int(json.loads(metadata)["conf"][PARTITIONS])


def _last(log: Path) -> int | None:
    return max((int(path.name) for path in log.glob("*") if path.name.isdecimal()), default=None)


def give_up(checkpoint: Path, batch_id: int) -> None:
    """Takes back a micro-batch that was planned and not done: its input will be read again by a later one.

    Only for the last one, and only if nothing of its output was written. What it left in state goes first, the plan last:
    interrupted, it can be done again.
    """
    checkpoint = Path(checkpoint)
    rulebooks.path(checkpoint, batch_id).unlink(missing_ok=True)
    for path in (checkpoint / "state").glob(
        f"*/*/{batch_id + 1}[._]*"
    ):  # the state after batch n is version n + 1
        _remove(path)
    for path in (checkpoint / "state").glob(f"*/_metadata/v2/{batch_id}"):
        _remove(path)
    _remove(checkpoint / "offsets" / str(batch_id))


def _remove(path: Path) -> None:
    """Removes a file and Hadoop's checksum of it."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
