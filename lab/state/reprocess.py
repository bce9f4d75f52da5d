"""Lets a restored checkpoint continue from where it was copied: everything logged since is evaluated again.

Logs recognize a checkpoint's cuts by its id and their numbers. With a new id the checkpoint is a new writer, so no log mistakes its
next cuts for those written before.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.record import last_saved_mark, new_id_fields, read_record, write_record


@dataclass(frozen=True)
class ReprocessStart:
    """Where a checkpoint continues: after an epoch that took the records logged before `log_time`, ms."""

    checkpoint: Path | str
    after_epoch: int | None
    log_time: int

    def to_dict(self) -> dict:
        """As JSON."""
        return {"checkpoint": str(self.checkpoint), "afterEpoch": self.after_epoch, "logTime": self.log_time}

    def summary(self) -> str:
        """One line for people."""
        begins = "from the beginning of its logs"
        if self.after_epoch is not None:
            since = datetime.fromtimestamp(self.log_time / 1000, UTC)
            begins = (
                f"after epoch {self.after_epoch}, with what was logged since {since:%Y-%m-%d %H:%M:%S} UTC"
            )
        return (
            f"{self.checkpoint} has a new id and goes on {begins}. What its engine has written since then comes again, "
            "alerts with the same alertId unless another version gave them: docs/operations.md, Upgrades"
        )


def reprocess(checkpoint: Path | str) -> ReprocessStart:
    """Gives a stopped engine's checkpoint a new id. Raises ValueError if there is no checkpoint, and CheckpointInUse."""
    if (record := read_record(checkpoint)) is None:
        raise ValueError(f"{checkpoint} is no checkpoint of the engine: it has no lab.json")
    with Lease(CheckpointFolder(checkpoint), "a reprocess"):
        write_record(checkpoint, (read_record(checkpoint) or record) | new_id_fields())
        newest = last_saved_mark(checkpoint)
    return ReprocessStart(checkpoint, *((newest["epoch"], newest["cut"]) if newest else (None, 0)))
