"""Other parallelism for a stopped engine: its keyed state is dealt out to other partitions, nothing of it is lost.

    stop at 3 ──► 1 take the lock ──► 2 look at the state ──► 3 note "3 → 4" in lab.json ──► 4 Spark repartitions
    ──► 5 look again: the same rows? ──► 6 note 4 in lab.json ──► start at 4

From step 3 on no engine starts, until `rescale` has been run (again) to its end; it goes on where it was interrupted. Spark
writes the new partitions as a micro-batch of their own, beside the old state, and step 4 takes effect with the commit of
that batch. Sources: "A Deep Dive into Rescalable State"; Spark's `OfflineStateRepartitionRunner`.
"""

import os
import shutil
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lab.engine.checkpoint import Batches, give_up, read_record, write_record
from lab.engine.held import Held, held
from lab.model.keygroups import placed_ids
from lab.model.words import html_table
from lab.state.placement import Move, by_spark_hash, moves
from lab.state.stored import Stored, stored

COLUMNS = ("partition", "key-groups", "bytes", "key-groups after", "bytes after")


class CannotRescale(ValueError):
    """The checkpoint stays as it is; the text says why, and what would help."""


@dataclass(frozen=True)
class Layout:
    """Which partition each key-group is on, and the bytes that each holds, in order of the key-groups."""

    parallelism: int
    partition: tuple[int, ...]
    sizes: tuple[int, ...]

    def rows(self) -> dict[int, tuple[list[int], int]]:
        """Partition -> its key-groups and their bytes."""
        groups: dict[int, list[int]] = {partition: [] for partition in range(self.parallelism)}
        for key_group, partition in enumerate(self.partition):
            groups[partition].append(key_group)
        return {partition: (of, sum(self.sizes[g] for g in of)) for partition, of in groups.items()}


@dataclass(frozen=True)
class Rescaled:
    """What a rescale did, or would do (`dry_run`). `seconds`: Spark's repartition; `all_seconds`: with both looks at the state."""

    checkpoint: Path
    before: Layout
    after: Layout
    move: Move
    seconds: float
    all_seconds: float
    dry_run: bool = False
    backup: Path | None = None

    def to_dict(self) -> dict:
        """As JSON."""
        layouts = {name: layout.rows() for name, layout in (("before", self.before), ("after", self.after))}
        return {
            "checkpoint": str(self.checkpoint),
            "from": self.before.parallelism,
            "to": self.after.parallelism,
            **{
                name: [{"partition": p, "keyGroups": of, "bytes": size} for p, (of, size) in rows.items()]
                for name, rows in layouts.items()
            },
            "moved": {**asdict(self.move), "share": round(self.move.share, 4)},
            "seconds": round(self.seconds, 3),
            "allSeconds": round(self.all_seconds, 3),
            "dryRun": self.dry_run,
            "backup": str(self.backup) if self.backup else None,
        }

    def table(self) -> list[tuple[str, ...]]:
        """A row for each partition, as in COLUMNS; empty where there is no such partition."""

        def cells(rows: dict[int, tuple[list[int], int]], partition: int) -> tuple[str, str]:
            if partition not in rows:
                return "", ""
            of, size = rows[partition]
            return " ".join(map(str, of)), f"{size:,}"

        before, after = self.before.rows(), self.after.rows()
        partitions = range(max(len(before), len(after)))
        return [(str(p), *cells(before, p), *cells(after, p)) for p in partitions]

    def summary(self) -> str:
        """One line for people."""
        verb, move = "would move" if self.dry_run else "moved", self.move
        return (
            f"{self.before.parallelism} to {self.after.parallelism} partitions: {verb} {move.key_groups} of "
            f"{move.of_key_groups} key-groups, {move.bytes:,} of {move.of_bytes:,} bytes ({move.share:.0%})"
            + ("" if self.dry_run else f", in {self.seconds:.1f} s; nothing lost")
        )

    def _repr_html_(self) -> str:
        return f"<p>{self.summary()}</p>{html_table(COLUMNS, self.table())}"


def rescale(
    checkpoint: Path | str,
    to: int,
    *,
    dry_run: bool = False,
    backup: bool = False,
    spark: SparkSession | None = None,
) -> Rescaled:
    """Changes the parallelism of a stopped engine to `to`; started again it continues, with the same alerts.

    `dry_run`: only tells what it would do. `backup`: keeps the old checkpoint beside it, as `NAME.parallelism-P.batch-N`.
    Raises CannotRescale (same number, more than key-groups, an interrupted micro-batch, …) and CheckpointInUse.
    """
    checkpoint = Path(checkpoint)
    record = read_record(checkpoint)
    if record is None:
        raise CannotRescale(f"{checkpoint} is no checkpoint of the engine: it has no lab.json")
    with held(checkpoint, "a rescale") as lock:
        record = read_record(checkpoint)  # it may have changed until the lock was ours
        batches = Batches.read(checkpoint)
        check(record, batches, to, lock)
        if batches.planned is None:
            return _without_state(checkpoint, record, to, dry_run)
        started = time.monotonic()
        with nullcontext(spark) if spark else _session() as on:
            before = stored(on, checkpoint, _state_batch(record, batches))
            if dry_run:
                after = tuple(by_spark_hash(record["key_groups"], to).tolist())
                return _told(checkpoint, record, before, after, to, (0.0, time.monotonic() - started), True)
            kept = None
            if backup and "rescaling" not in record:
                kept = _backup(checkpoint, batches.done, before.parallelism)
            record = _begin(checkpoint, record, batches, to)
            seconds = _repartition(on, checkpoint, record["rescaling"])
            after = stored(on, checkpoint)
            _same(checkpoint, before, after)
            del record["rescaling"]
            write_record(checkpoint, record | {"parallelism": to})
    placed = tuple(_by_key_group(after, record)[1])
    return _told(checkpoint, record, before, placed, to, (seconds, time.monotonic() - started), False, kept)


def check(record: dict, batches: Batches, to: int, lock: Held) -> None:
    """Raises CannotRescale if it cannot be done, now or at all."""
    checkpoint, limit = batches.checkpoint, record["key_groups"]
    if not 1 <= to <= limit:
        raise CannotRescale(
            f"--to {to}, expected 1 to {limit}: a partition without a key-group has nothing to do"
        )
    if change := record.get("rescaling"):
        if to != change["to"]:
            raise CannotRescale(
                f"checkpoint {checkpoint} is half way from {change['from']} to {change['to']} partitions; "
                f"finish that first: --to {change['to']}"
            )
        return
    if batches.planned is None:
        return
    if batches.planned != batches.done and (lock.output is None or lock.output >= batches.planned):
        raise CannotRescale(
            f"checkpoint {checkpoint}: micro-batch {batches.planned} was interrupted after its output had begun; "
            "start the engine once more, it completes the batch first; then stop it and rescale"
        )
    if batches.done is None:
        raise CannotRescale(
            f"checkpoint {checkpoint}: no micro-batch was completed yet; let the engine complete one first"
        )
    if to == batches.partitions(batches.done):
        raise CannotRescale(f"checkpoint {checkpoint} has {to} partitions already")


# -- the steps ---------------------------------------------------------------------------------------------------------


def _begin(checkpoint: Path, record: dict, batches: Batches, to: int) -> dict:
    """Notes what is under way: from here on only a rescale to the same number may touch the checkpoint."""
    if "rescaling" not in record:
        change = {"from": batches.partitions(batches.done), "to": to, "batch": batches.done}
        record = record | {"rescaling": change}
        write_record(checkpoint, record)
    return record


def _repartition(spark: SparkSession, checkpoint: Path, change: dict) -> float:
    """Has Spark write the new partitions, unless it did before an interruption; returns the seconds it took.

    A micro-batch that was stopped before it wrote any output is taken back first. (Spark would mark it as done without
    its input; a stream of files does not start behind such a mark, and an interruption there would lose the input.)
    """
    batches = Batches.read(checkpoint)
    if batches.planned > change["batch"] and batches.partitions(batches.planned) != change["to"]:
        give_up(checkpoint, batches.planned)
    elif batches.done > change["batch"]:
        return 0.0
    started = time.monotonic()
    spark._streamingCheckpointManager.repartition(str(checkpoint), change["to"])
    return time.monotonic() - started


def _state_batch(record: dict, batches: Batches) -> int:
    """The micro-batch whose state is the old one."""
    return record["rescaling"]["batch"] if "rescaling" in record else batches.done


def _same(checkpoint: Path, before: Stored, after: Stored) -> None:
    """Raises RuntimeError unless both hold the same rows under the same keys."""
    lost = [key for key, content in before.contents.items() if after.contents.get(key) != content]
    lost += [key for key in after.contents if key not in before.contents]
    if lost:
        raise RuntimeError(
            f"checkpoint {checkpoint}: after the repartition the state of {len(lost)} keys differs, the first is "
            f"{lost[0]}; the engine refuses this checkpoint. Go back to a backup"
        )


def _backup(checkpoint: Path, batch_id: int, parallelism: int) -> Path:
    """A copy of the whole checkpoint beside it, to be moved back to its place if need be.

    It has its name when it is whole: one of the same micro-batch is kept, one that an interruption cut short is made anew.
    """
    kept = checkpoint.with_name(f"{checkpoint.name}.parallelism-{parallelism}.batch-{batch_id}")
    aside = kept.with_name(f"{kept.name}.unfinished")
    if not kept.exists():
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(checkpoint, aside)
        os.replace(aside, kept)
    return kept


def _without_state(checkpoint: Path, record: dict, to: int, dry_run: bool) -> Rescaled:
    """A checkpoint of an engine that never began a micro-batch: there is only the number to change."""
    if to == record["parallelism"]:
        raise CannotRescale(f"checkpoint {checkpoint} has {to} partitions already")
    if not dry_run:
        write_record(checkpoint, record | {"parallelism": to})
    nothing, key_groups = (0,) * record["key_groups"], record["key_groups"]
    layouts = [
        Layout(p, tuple(by_spark_hash(key_groups, p).tolist()), nothing) for p in (record["parallelism"], to)
    ]
    return Rescaled(checkpoint, *layouts, Move(0, key_groups, 0, 0, 0), 0.0, 0.0, dry_run)


# -- what it tells -----------------------------------------------------------------------------------------------------


def _by_key_group(found: Stored, record: dict) -> tuple[list[int], list[int]]:
    """Bytes and partition of each key-group; one that has no state yet is where Spark would put it."""
    ids = placed_ids(record["key_groups"])
    expected = by_spark_hash(len(ids), found.parallelism).tolist()
    sizes = Counter({id: content.bytes for id, content in found.contents.items()})
    return [sizes[id] for id in ids], [found.partition.get(id, there) for id, there in zip(ids, expected)]


def _told(
    checkpoint: Path,
    record: dict,
    before: Stored,
    after: tuple[int, ...],
    to: int,
    seconds: tuple[float, float],
    dry_run: bool,
    backup: Path | None = None,
) -> Rescaled:
    sizes, partition = map(tuple, _by_key_group(before, record))
    move = moves(partition, after, sizes)
    layouts = Layout(before.parallelism, partition, sizes), Layout(to, after, sizes)
    return Rescaled(checkpoint, *layouts, move, *seconds, dry_run, backup)


def _session():
    from lab.machine.session import session

    return session()
