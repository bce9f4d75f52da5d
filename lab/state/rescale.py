"""Changes the parallelism of a stopped engine: key-groups get other tasks, and no file moves.

    stop at 3 ──► take the lock ──► note 4 in lab.json ──► start at 4: each task reads, of the files, what it now owns

A state file holds a range of key-groups, which its name gives. After a rescale, a task reads the files that overlap its own
range. Over time its own files replace them. Source: "A Deep Dive into Rescalable State".
"""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import Lease
from lab.engine.checkpoint.record import last_saved_mark, read_record, write_record
from lab.engine.windows.statefiles import StateFiles
from lab.model.formatting import html_table
from lab.model.language import say
from lab.state.placement import Move, by_range, moves

COLUMNS = ("partition", "key-groups", "bytes", "key-groups after", "bytes after")


class CannotRescale(ValueError):
    """The rescale was refused and the checkpoint is unchanged. The text says why, and what to do."""


@dataclass(frozen=True)
class KeyGroupLayout:
    """The partition and the bytes of each key-group, in order of the key-groups."""

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
    """The result of a rescale, or of a dry run. `move`: what other tasks will read; the files stay where they are."""

    checkpoint: Path | str
    before: KeyGroupLayout
    after: KeyGroupLayout
    move: Move
    dry_run: bool = False

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
            "dryRun": self.dry_run,
        }

    def table(self) -> list[tuple[str, ...]]:
        """A row for each partition, as in COLUMNS; empty where the partition does not exist."""

        def cells(rows: dict[int, tuple[list[int], int]], partition: int) -> tuple[str, str]:
            if partition not in rows:
                return "", ""
            of, size = rows[partition]
            return f"{of[0]} … {of[-1]}", f"{size:,}"

        before, after = self.before.rows(), self.after.rows()
        partitions = range(max(len(before), len(after)))
        return [(str(p), *cells(before, p), *cells(after, p)) for p in partitions]

    def summary(self) -> str:
        """One line for people."""
        move = self.move
        return say(
            "{before} to {after} partitions: {moved} of {all} key-groups, {bytes} of {of_bytes} bytes ({share}) would change hands; no file is moved"
            if self.dry_run
            else "{before} to {after} partitions: {moved} of {all} key-groups, {bytes} of {of_bytes} bytes ({share}) change hands; no file is moved",
            before=self.before.parallelism,
            after=self.after.parallelism,
            moved=move.key_groups,
            all=move.of_key_groups,
            bytes=f"{move.bytes:,}",
            of_bytes=f"{move.of_bytes:,}",
            share=f"{move.share:.0%}",
        )

    def _repr_html_(self) -> str:
        return f"<p>{self.summary()}</p>{html_table(say('Partitions'), map(say, COLUMNS), self.table())}"


def rescale(checkpoint: Path | str, to: int, *, dry_run: bool = False) -> Rescaled:
    """Changes the parallelism of a stopped engine to `to`. After its next start the engine continues, with the same alerts.

    `dry_run`: only returns what would happen. Raises CannotRescale (the same number, more tasks than key-groups, no checkpoint)
    and CheckpointInUse.
    """
    if (record := read_record(checkpoint)) is None:
        raise CannotRescale(f"{checkpoint} is no checkpoint of the engine: it has no lab.json")
    with Lease(CheckpointFolder(checkpoint), "a rescale"):
        record = read_record(checkpoint) or record  # it may have changed before we got the lock
        key_groups, before = record["key_groups"], record["parallelism"]
        if not 1 <= to <= key_groups:
            raise CannotRescale(
                f"--to {to}, expected 1 to {key_groups}: a partition without a key-group has nothing to do"
            )
        if to == before:
            raise CannotRescale(f"checkpoint {checkpoint} has {to} partitions already")
        sizes = _sizes(checkpoint, key_groups)
        if not dry_run:
            write_record(checkpoint, record | {"parallelism": to})
    old, new = (KeyGroupLayout(p, tuple(by_range(key_groups, p)), sizes) for p in (before, to))
    return Rescaled(checkpoint, old, new, moves(old.partition, new.partition, sizes), dry_run)


def _sizes(checkpoint: Path | str, key_groups: int) -> tuple[int, ...]:
    """The approximate size of each key-group in bytes."""
    sizes: Counter[int] = Counter()
    if newest := last_saved_mark(checkpoint):
        files = StateFiles(CheckpointFolder(checkpoint), 0, key_groups - 1)
        for file in files.find(newest["epoch"], begins_next_epoch=False)[0]:
            sizes.update(files.bytes_by_key_group(file))
    return tuple(round(sizes[number]) for number in range(key_groups))
