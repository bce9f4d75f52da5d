"""How a new subtask finds its state in files that others wrote: three ways, with their bytes, seeks and seconds.

    old subtask 0   ▕ k7 k1 k9 k4 …▏          naive    reads every file from end to end, keeps what is its own
    old subtask 1   ▕ k3 k8 k2 …   ▏          index    knows where each key lies, jumps from key to key
    old subtask 2   ▕ k6 k0 k5 …   ▏          ranges   keys lie in order of key-groups: at most one run in each file

The model of "A Deep Dive into Rescalable State": a snapshot is one file for each subtask; a new subtask opens the files that
hold something of its own. Keys are hashed to key-groups first and key-groups to subtasks by ranges (`lab.model.keygroups`); for
`naive` and `index` the files are in the order of a hash table, as a heap backend without key-groups would write them.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.model.formatting import html_table
from lab.model.keygroups import hash_rows
from lab.model.language import say

WAYS = ("naive", "index", "ranges")
READ_AT_ONCE = 1 << 20  # bytes


@dataclass(frozen=True)
class RestoreCost:
    """What the restore of all new subtasks took together. `index_bytes`: what had to be known beforehand."""

    way: str
    read_bytes: int
    kept_bytes: int
    seeks: int
    index_bytes: int
    seconds: float

    def as_texts(self) -> tuple[str, ...]:
        """As text: way, MB read, MB kept, seeks, KB of index, seconds."""
        mb = (f"{size / 1e6:,.1f}" for size in (self.read_bytes, self.kept_bytes))
        return self.way, *mb, f"{self.seeks:,}", f"{self.index_bytes / 1e3:,.1f}", f"{self.seconds:.2f}"


class RestoreCosts(list[RestoreCost]):
    """Costs side by side."""

    def _repr_html_(self) -> str:
        return html_table(
            say("Costs of restoring"),
            (say("way"), say("MB read"), say("MB kept"), say("seeks"), say("index KB"), say("seconds")),
            [c.as_texts() for c in self],
        )


@dataclass(frozen=True)
class Keys:
    """The state of many keys: where each belongs, and how many bytes it has. `order`: that of the old hash table."""

    key_group: np.ndarray
    size: np.ndarray
    order: np.ndarray
    key_groups: int

    @classmethod
    def generate(cls, keys: int, bytes_per_key: int, key_groups: int = 128) -> "Keys":
        """Keys of equal size.

        >>> Keys.generate(1000, 50).total_bytes
        50000
        """
        return cls.from_arrays(np.arange(keys), np.full(keys, bytes_per_key), key_groups)

    @classmethod
    def from_arrays(cls, keys: np.ndarray, sizes: np.ndarray, key_groups: int = 128) -> "Keys":
        """Keys given as int64 (or uint64 hashes) with the bytes of state that each has."""
        hashed = hash_rows([np.ascontiguousarray(keys).view(np.int64)], len(keys))
        group = (hashed % np.uint64(key_groups)).astype(np.int64)
        return cls(group, np.asarray(sizes, np.int64), np.argsort(hashed, kind="stable"), key_groups)

    @property
    def total_bytes(self) -> int:
        """Bytes of all keys."""
        return int(self.size.sum())

    def subtasks(self, parallelism: int) -> np.ndarray:
        """The subtask of each key."""
        return self.key_group * parallelism // self.key_groups


class Snapshot:
    """A snapshot at parallelism `p` in a folder, as files for each subtask; `restore` reads it for another parallelism.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     snapshot = Snapshot(Path(folder), Keys.generate(3000, 100), 3)
    ...     costs = [snapshot.restore(way, 4) for way in WAYS]
    >>> [(cost.way, cost.read_bytes, cost.kept_bytes) for cost in costs]
    [('naive', 1200000, 300000), ('index', 300000, 300000), ('ranges', 300000, 300000)]
    >>> [cost.seeks for cost in costs if cost.way != "index"]
    [12, 6]
    """

    def __init__(self, folder: Path, keys: Keys, parallelism: int):
        self.folder, self.keys, self.parallelism = Path(folder), keys, parallelism
        self.folder.mkdir(parents=True, exist_ok=True)
        old = keys.subtasks(parallelism)
        in_groups = keys.order[np.argsort(keys.key_group[keys.order], kind="stable")]
        self._files: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}  # keys in order, their offsets
        for layout, order in (("hash", keys.order), ("groups", in_groups)):
            for subtask in range(parallelism):
                mine = order[old[order] == subtask]
                offsets = np.concatenate(([0], np.cumsum(keys.size[mine])))
                self._files[layout, subtask] = mine, offsets
                self._write(layout, subtask, int(offsets[-1]))

    def _path(self, layout: str, subtask: int) -> Path:
        return self.folder / f"{layout}-{subtask}"

    def _write(self, layout: str, subtask: int, size: int) -> None:
        block = np.random.default_rng(subtask).bytes(READ_AT_ONCE)
        with open(self._path(layout, subtask), "wb") as file:
            file.writelines(
                block[: min(READ_AT_ONCE, size - first)] for first in range(0, size, READ_AT_ONCE)
            )
            file.flush()
            os.fsync(file.fileno())

    def restore(self, way: str, parallelism: int) -> RestoreCost:
        """All new subtasks one after the other, as if each were on a machine of its own.

        The files are dropped from the system's cache before each, where the system allows that.
        """
        if way not in WAYS:
            raise ValueError(f"way: {way!r}, expected one of {', '.join(WAYS)}")
        layout, new = "groups" if way == "ranges" else "hash", self.keys.subtasks(parallelism)
        read = kept = seeks = 0
        # key or group -> offset
        index = {"naive": 0, "index": 16 * len(new), "ranges": 8 * self.keys.key_groups}[way]
        seconds = 0.0
        for subtask in range(parallelism):
            self._forget_cached(layout)
            started = time.perf_counter()
            for old in range(self.parallelism):
                keys, offsets = self._files[layout, old]
                mine = new[keys] == subtask
                kept += int(self.keys.size[keys[mine]].sum())
                runs = list(self._runs(way, mine, offsets))
                read += _read(self._path(layout, old), runs)
                seeks += len(runs)
            seconds += time.perf_counter() - started
        return RestoreCost(way, read, kept, seeks, index, seconds)

    @staticmethod
    def _runs(way: str, mine: np.ndarray, offsets: np.ndarray) -> Iterator[tuple[int, int]]:
        """(from, to) of the stretches of a file that are read; keys side by side are one stretch."""
        if way == "naive":
            yield 0, int(offsets[-1])
            return
        edges = np.flatnonzero(np.diff(np.concatenate(([0], mine.astype(np.int8), [0]))))
        yield from zip(offsets[edges[::2]].tolist(), offsets[edges[1::2]].tolist())

    def _forget_cached(self, layout: str) -> None:
        if hasattr(os, "posix_fadvise"):
            for subtask in range(self.parallelism):
                with open(self._path(layout, subtask), "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(path: Path, runs: list[tuple[int, int]]) -> int:
    """Reads the stretches, without a buffer of Python's; returns their bytes."""
    total = 0
    with open(path, "rb", buffering=0) as file:
        for first, end in runs:
            while first < end:
                got = len(os.pread(file.fileno(), min(READ_AT_ONCE, end - first), first))
                if not got:
                    raise OSError(f"{path} ends at {first}, expected {end}")
                first, total = first + got, total + got
    return total


def compare_restores(folder: Path, keys: Keys, before: int, after: int) -> RestoreCosts:
    """A snapshot at `before`, restored at `after` in all three ways."""
    snapshot = Snapshot(folder, keys, before)
    return RestoreCosts(snapshot.restore(way, after) for way in WAYS)
