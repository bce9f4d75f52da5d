"""Durable windows: what the epochs stored, as Arrow files that anybody can read.

    epoch 1   epoch 2   …   epoch 8        each epoch adds one file a task: the events it stored, the resets
      ▪         ▪       …      ▪      ──►  ▬  eight files of a level merge into one of the next

So few files remain, each event is rewritten O(log n) times, and files wholly older than the widest window go. An epoch that
stored nothing leaves an empty file: a file that is missing is a loss. A file is written from the arrays in memory; it is read
only to rebuild them. Its name says what it covers:

    state/000000017-000000010-00000-00007.arrow       epochs 10 … 17 of key-groups 0 … 7

A task that owns other key-groups than those reads what concerns it: rescaling moves nothing. A file of an epoch that
was not saved is passed over, and written again, the same, when that epoch runs again.

>>> pyarrow.feather.read_table("checkpoint/state/000000017-000000010-00000-00007.arrow")      # doctest: +SKIP
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.records.columns import BEFORE_ALL, Columns, take_rows
from lab.engine.records.parallel import WORTH_ROWS

FOLDER = "state"
MERGED_AT_ONCE = 8
EVENTS_FREE, EVENTS_AT_MOST = 1 << 17, 1 << 22  # in a file that merges write: in any; in one of large epochs
EPOCH_BITS = 32  # a seq is its epoch's number, then the place in it
NAME = re.compile(r"(\d{9,})-(\d{9,})-(\d{5})-(\d{5})\.arrow")
# of events and of resets
COLUMNS = {"store": pa.int32(), **dict.fromkeys(("time", "id", "seq", "keyGroup"), pa.int64())}

NOTHING = pa.table({name: pa.array([], kind) for name, kind in COLUMNS.items()})


class FileGone(ValueError):
    """A file that should be in the checkpoint is not."""

    def __init__(self, what: str):
        super().__init__(
            f"{what} is gone: the checkpoint is not whole, restore all of it or start with a new one"
        )


class StaleEpoch(RuntimeError):
    """A task runs for an epoch that is long done, so the files that it would need may have been merged or removed."""

    def __init__(self, epoch: int, what: str, newest: int):
        super().__init__(
            f"epoch {epoch}: {what} of epoch {newest} already, so another engine, "
            "or another attempt at the task, has gone on without this one"
        )


class StateFile(NamedTuple):
    """One file: the epochs and key-groups it covers, its level, what it holds, and the key-groups to be read from it.

    `newest`: the newest event time, in ms, of all records of the log up to its last epoch, whoever got them. `reached`: up to which
    log time that epoch took what was logged. `awaited`: until when something that it holds is awaited, in ms. `since`: the first
    epoch of its chain. Of an older one no file is needed, though an attempt that was late may have written it again.
    """

    last: int
    first: int
    low: int
    high: int
    level: int = 0
    bytes: int = 0
    events: int = 0
    newest: int = BEFORE_ALL
    serves: tuple[int, ...] = ()
    reached: int = BEFORE_ALL
    awaited: int = BEFORE_ALL
    since: int = 0

    @property
    def name(self) -> str:
        return f"{self.last:09d}-{self.first:09d}-{self.low:05d}-{self.high:05d}.arrow"


def first_seq(epoch: int) -> int:
    """The seq of the first event of an epoch."""
    return epoch << EPOCH_BITS


def named_files(names: Iterable[str]) -> Iterator[StateFile]:
    """The state files among the names of a folder, by what their names say."""
    for match in filter(None, map(NAME.fullmatch, names)):
        last, first, low, high = map(int, match.groups())
        yield StateFile(last, first, low, high)


def choose_files(names: Iterable[str], upto: int, low: int, high: int) -> tuple[list[StateFile], list[str]]:
    """The files that hold the key-groups `low` … `high` after epoch `upto`, oldest first, and the names that nobody needs.

    Newest first, longest first, a file serves those of its key-groups for which no file chosen before covers its epochs.

    >>> merged, first, second = "000000001-000000000-00000-00003.arrow", *(f"00000000{n}-00000000{n}-00000-00003.arrow" for n in "01")
    >>> files, idle = choose_files([merged, first, second], 1, 0, 3)
    >>> [file.name for file in files], idle
    (['000000001-000000000-00000-00003.arrow'], ['000000001-000000001-00000-00003.arrow', '000000000-000000000-00000-00003.arrow'])
    """
    found = sorted(
        (file for file in named_files(names) if file.last <= upto),
        key=lambda file: (-file.last, file.first, (file.low, file.high) != (low, high), file.low),
    )
    needed: dict[int, int] = {}  # key-group -> the newest epoch that is still wanted
    serving, idle = [], []
    for _, alike in groupby(found, key=lambda file: (file.last, file.first)):
        before = needed.copy()
        for file in alike:
            covers = range(file.low, file.high + 1)
            if all(file.last > before.get(kg, upto) for kg in covers):
                idle.append(file.name)
            served = [kg for kg in covers if file.last <= needed.get(kg, upto)]
            needed |= dict.fromkeys(served, file.first - 1)
            if mine := tuple(kg for kg in served if low <= kg <= high):
                serving.append(file._replace(serves=mine))
    return serving[::-1], idle


def files_before_gaps(files: Sequence[StateFile]) -> Iterator[tuple[StateFile, int]]:
    """Files, oldest first, and key-groups of which no file covers some later epoch: of those all has expired, or one is lost.

    >>> old, new = (StateFile(n, n, 0, 1, serves=(0, 1)) for n in (1, 3))
    >>> [(file.last, key_group) for file, key_group in files_before_gaps([old, StateFile(2, 2, 0, 0, serves=(0,)), new])]
    [(1, 1)]
    """
    reached: dict[int, int] = {}  # key-group -> the first epoch from which on all are covered
    for file in reversed(files):
        for key_group in file.serves:
            if file.last < reached.setdefault(key_group, file.last + 1) - 1:
                yield file, key_group
            else:
                reached[key_group] = file.first


def stores_table(
    parts: Sequence[tuple[int, Columns, Columns]], waits: Iterable[tuple[int, Columns]] = ()
) -> pa.Table:
    """The events and resets of stores as one table, and what is awaited; a reset's row has a `rule`, an event's has none.

    `parts`: (store, events, resets), as `RouteStore.export` gives them; resets also with `joined`. `waits`: (store, what
    `Waits.export` gives).
    """
    of_stores: list[tuple[int, Columns]] = []
    for store, events, resets in parts:
        order = np.lexsort((resets["rule"], resets["seq"]))
        of_stores += [
            (store, events),
            (store, {name: take_rows(values, order) for name, values in resets.items()}),
        ]
    batches = [NOTHING]
    for store, columns in (*of_stores, *waits):
        if rows := len(columns["seq"]):
            named = {"store": np.full(rows, store, np.int32), **columns}
            batches.append(pa.table({name: pa.array(values) for name, values in named.items()}))
    return pa.concat_tables(batches, promote_options="default").combine_chunks()


class StateFiles:
    """The files of one checkpoint, as one task sees those of its key-groups `low` … `high`."""

    def __init__(self, checkpoint: CheckpointFolder, low: int, high: int):
        self.folder, self.low, self.high = checkpoint / FOLDER, low, high

    def find(self, upto: int, begins: bool = True) -> tuple[list[StateFile], list[str]]:
        """The files that hold the key-groups after epoch `upto`, oldest first, and the names of those that nobody needs.

        `begins`: for a task of the next epoch. Raises StaleEpoch if that epoch is long done, FileGone if `upto` left no file.
        """
        names = self.folder.names()
        files, idle = choose_files(names, upto, self.low, self.high)
        newest = max((file.last for file in named_files(names)), default=-1)
        if begins and newest > upto + 1:  # which is begun after the commit of the one before
            raise StaleEpoch(upto + 1, f"{self.folder} has files", newest)
        there = {kg for file in files if file.last == upto for kg in file.serves}
        if upto >= 0 and (lost := set(range(self.low, self.high + 1)) - there):
            raise FileGone(f"{self.folder}: what epoch {upto} left of key-groups {min(lost)} … {max(lost)}")
        described = [self._described(file) for file in files]
        since = {kg: file.since for file in described if file.last == upto for kg in file.serves}
        needed = []
        for file in described:
            serves = tuple(kg for kg in file.serves if file.last >= since.get(kg, 0))
            if serves:
                needed.append(file._replace(serves=serves))
            elif (file.low, file.high) == (self.low, self.high):
                idle.append(file.name)
        return needed, idle

    def overlaps_other_tasks(self, file: StateFile) -> bool:
        """Whether there are files of other tasks with epochs and key-groups that a file covers, too."""
        return any(
            other.last <= file.last
            and (other.low, other.high) != (file.low, file.high)
            and other.low <= file.high
            and file.low <= other.high
            for other in named_files(self.folder.names())
        )

    def _described(self, file: StateFile) -> StateFile:
        data = self._data(file.name)
        with _readable(f"{self.folder}/{file.name}"):
            meta = json.loads(pa.ipc.open_file(data).schema.metadata[b"lab"])
            return file._replace(
                level=meta["level"],
                bytes=data.size,
                events=sum(meta["events"].values()),
                # a file of an engine from before it was told has at least these
                newest=meta.get(
                    "newestOfLog", max((time for *_, time in meta["newest"]), default=BEFORE_ALL)
                ),
                reached=meta.get("reached", BEFORE_ALL),
                awaited=meta.get("awaited", BEFORE_ALL),
                since=meta.get("since", 0),
            )

    def newest(self, file: StateFile) -> list[list[int]]:
        """(store, key-group, newest event time in ms) of what a file holds. Raises FileGone."""
        return _meta(self.folder.where, file.name)["newest"]

    def sizes(self, file: StateFile) -> dict[int, float]:
        """Key-group -> about how many bytes of a file are its own: a share for each event."""
        events = _meta(self.folder.where, file.name)["events"]
        return {int(key_group): file.bytes * count / file.events for key_group, count in events.items()}

    def _data(self, name: str) -> pa.Buffer:
        data = self.folder.read(name)
        if data is None:
            raise FileGone(f"{self.folder}/{name}")
        return pa.py_buffer(data)

    def read(self, file: StateFile) -> pa.Table:
        """What a file holds of the key-groups that it serves; other files may have replaced it for its others."""
        data = self._data(file.name)
        with _readable(f"{self.folder}/{file.name}"):
            rows = pa.ipc.open_file(data).read_all()
            rows.validate(full=True)
            if len(file.serves) == file.high - file.low + 1:
                return rows
            return rows.filter(pa.array(np.isin(rows["keyGroup"].to_numpy(), file.serves)))

    def write(
        self,
        last: int,
        first: int,
        level: int,
        rows: pa.Table,
        newest_of_log: int = BEFORE_ALL,
        reached: int = BEFORE_ALL,
        awaited: int = BEFORE_ALL,
        since: int = 0,
    ) -> StateFile:
        """Writes what epochs `first` … `last` stored; `since`: the first epoch of the chain that it continues."""
        times = {"newest": newest_of_log, "reached": reached, "awaited": awaited, "since": since}
        events, newest = _summary(rows)
        meta = json.dumps(
            times | {"level": level, "events": events, "newest": newest, "newestOfLog": newest_of_log}
        )
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=len(rows) >= WORTH_ROWS)
        with pa.ipc.new_file(sink, rows.schema.with_metadata({"lab": meta}), options=options) as writer:
            writer.write_table(rows)
        data = sink.getvalue()
        count = sum(events.values())
        covers = last, first, self.low, self.high
        file = StateFile(*covers, level, data.size, count, newest_of_log, (), reached, awaited, since)
        self.folder.write(file.name, data)
        return file


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """What is done in it reads a file that anything may have happened to, on a disk or on its way here."""
    try:
        yield
    except (
        pa.ArrowException,
        MemoryError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise ValueError(
            f"{where} is no state file, or a damaged one: {error}; restore the checkpoint"
        ) from None


@lru_cache(maxsize=64)
def _meta(where: str, name: str) -> dict:
    data = CheckpointFolder(where).read(name)
    if data is None:
        raise FileGone(f"{where}/{name}")
    with _readable(f"{where}/{name}"):
        return json.loads(pa.ipc.open_file(data).schema.metadata[b"lab"])


def _summary(rows: pa.Table) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
    """Events of each key-group, and (store, key-group, newest event time in ms)."""
    found = rows.group_by(["store", "keyGroup"], use_threads=False).aggregate(
        [("time", "max"), ("time", "count")]
    )
    columns = (found[name].to_pylist() for name in ("store", "keyGroup", "time_max", "time_count"))
    each = sorted(row for row in zip(*columns, strict=True) if row[-1])
    events: Counter[int] = Counter()
    for _, key_group, _, count in each:
        events[key_group] += count
    return events, [row[:3] for row in each]


def files_to_merge(chain: Sequence[StateFile], events: int) -> tuple[int, int]:
    """How many of the newest files the next one, of so many events, replaces, and its level: eight of a level make one of the next.

    Events wait while a merge is written, so it is small, or no more than eight epochs like this one.

    >>> files_to_merge([StateFile(n, n, 0, 3, events=5) for n in range(7)], 5)
    (7, 1)
    >>> large = [StateFile(n, n, 0, 3, events=100_000) for n in range(7)]
    >>> files_to_merge(large, 5), files_to_merge(large, 100_000)
    ((0, 0), (7, 1))
    """
    at_most = min(max(MERGED_AT_ONCE * events, EVENTS_FREE), EVENTS_AT_MOST)
    level, taken, merged = 0, 0, events
    while True:
        end = len(chain) - taken
        run = chain[max(end - (MERGED_AT_ONCE - 1), 0) : end]
        merged += sum(file.events for file in run)
        full = len(run) == MERGED_AT_ONCE - 1 and all(file.level == level for file in run)
        if not full or merged > at_most:
            return taken, level
        taken, level = taken + len(run), level + 1
