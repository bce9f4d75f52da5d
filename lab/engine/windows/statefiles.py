"""Durable windows: what the epochs stored, as Arrow files that anybody can read.

    epoch 1   epoch 2   …   epoch 8        each epoch adds one file a task: the events it stored, the resets
      ▪         ▪       …      ▪      ──►  ▬  eight files of a level merge into one of the next

So few files remain, each event is rewritten O(log n) times, and files wholly older than the widest window are removed. An epoch that
stored nothing leaves an empty file: a file that is missing is a loss. A file is written from the arrays in memory, a merged one, too
(`statemerge.py`); it is read only to rebuild them. Its name says what it covers:

    state/000000017-000000010-00000-00007.arrow       epochs 10 … 17 of key-groups 0 … 7

A task that owns other key-groups than those reads what concerns it: rescaling moves nothing. A file of an epoch that
was not saved is ignored, and written again with the same content when that epoch runs again.

>>> pyarrow.feather.read_table("checkpoint/state/000000017-000000010-00000-00007.arrow")      # doctest: +SKIP
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

from lab.engine.checkpoint.durable import WAY_ON, CheckpointFolder
from lab.engine.records.columns import BEFORE_ALL, Columns, take_rows
from lab.engine.records.parallel import WORTH_ROWS

CHECKSUM, CHECKSUM_DIGITS = "crc32", 8  # of the metadata, and how many digits its value has
CHECKSUM_PLACE = f'"{CHECKSUM}": "'.encode()
ZEROS = "0" * CHECKSUM_DIGITS


class ChecksummedFile:
    """A file that is written piece by piece, with metadata that begins with `CHECKSUM` and `ZEROS`: a changed bit would be another amount.

        ARROW1 │ schema: {"crc32": "5f1c09ab", …} │ rows │ footer: the schema again │ ARROW1

    Its metadata is there twice, before and after its rows. The CRC-32 in both is that of the file with zeros in their places.

    >>> sink = ChecksummedFile()
    >>> for piece in (b'{"crc32": "00000000"} rows ', b'{"crc32": "00000000"}'):
    ...     _ = sink.write(piece)
    >>> bytes(sink.content())
    b'{"crc32": "281cfae0"} rows {"crc32": "281cfae0"}'
    >>> is_intact(sink.content()), is_intact(b'{"crc32": "281cfae0"} rowt {"crc32": "281cfae0"}')
    (True, False)
    >>> is_intact(b"no checksum")
    False
    """

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._checksum = 0

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        self._checksum = crc32(self._pieces[-1], self._checksum)
        return len(data)

    def content(self) -> bytearray:
        """The whole file, with its checksum."""
        whole = bytearray().join(self._pieces)
        for at in _places(whole):
            whole[at : at + CHECKSUM_DIGITS] = b"%08x" % self._checksum
        return whole


def is_intact(data: bytes | bytearray) -> bool:
    """Whether the bytes of a file are those that were written."""
    places = _places(data)
    checksum = b"%08x" % _checksum(data)
    return len(places) > 1 and all(data[at : at + CHECKSUM_DIGITS] == checksum for at in places)


def _places(data: bytes | bytearray) -> list[int]:
    """The places of the checksum: in the first and in the last metadata. The rows lie between them."""
    return sorted(
        {
            at + len(CHECKSUM_PLACE)
            for at in (data.find(CHECKSUM_PLACE), data.rfind(CHECKSUM_PLACE))
            if at >= 0
        }
    )


def _around(data: bytes | bytearray) -> Iterator[memoryview]:
    """The pieces between these places."""
    view, begin = memoryview(data), 0
    for at in _places(data):
        yield view[begin:at]
        begin = at + CHECKSUM_DIGITS
    yield view[begin:]


def _checksum(data: bytes | bytearray) -> int:
    found = 0
    for number, piece in enumerate(_around(data)):
        found = crc32(piece, crc32(ZEROS.encode(), found) if number else found)
    return found


# -- the bytes of a file -----------------------------------------------------------------------------------------------


class RowSummary:
    """What a state file says of its rows. `events`: how many each key-group has; `newest_ms`: the newest event time of each store and key-group."""

    def __init__(self) -> None:
        self.events: Counter[int] = Counter()
        self.newest_ms: dict[tuple[int, int], int] = {}

    def add(self, rows: pa.Table) -> None:
        found = rows.group_by(["store", "keyGroup"], use_threads=False).aggregate(
            [("time", "max"), ("time", "count")]
        )
        columns = (found[name].to_pylist() for name in ("store", "keyGroup", "time_max", "time_count"))
        for store, key_group, newest, count in sorted(row for row in zip(*columns, strict=True) if row[-1]):
            self.events[key_group] += count
            place = store, key_group
            self.newest_ms[place] = max(newest, self.newest_ms.get(place, newest))

    @property
    def newest(self) -> list[tuple[int, int, int]]:
        """(store, key-group, newest event time in ms)."""
        return [(*place, time) for place, time in sorted(self.newest_ms.items())]


class StateFileEncoder:
    """Encodes a file with some metadata; its rows have the columns of `schema`, or some of them."""

    def __init__(self, schema: pa.Schema, metadata: dict[str, Any], use_threads: bool):
        text = json.dumps({CHECKSUM: ZEROS, **metadata})
        self._nothing, self._sink = schema.empty_table(), ChecksummedFile()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=use_threads)
        self._writer = pa.ipc.new_file(self._sink, schema.with_metadata({"lab": text}), options=options)

    def add(self, *tables: pa.Table) -> None:
        """Adds the rows of several tables as one record batch, those of one table as they are."""
        rows = pa.concat_tables([self._nothing, *tables], promote_options="default")
        self._writer.write_table(rows if len(tables) == 1 else rows.combine_chunks())

    def finish(self) -> bytearray:
        self._writer.close()
        return self._sink.content()


# -- files -------------------------------------------------------------------------------------------------------------


FOLDER = "state"
EPOCH_BITS = 32  # a seq is its epoch's number, then the place in it
NAME = re.compile(r"(\d{9,})-(\d{9,})-(\d{5})-(\d{5})\.arrow")
# of events and of resets
COLUMNS = {"store": pa.int32(), **dict.fromkeys(("time", "id", "seq", "keyGroup"), pa.int64())}

NOTHING = pa.table({name: pa.array([], kind) for name, kind in COLUMNS.items()})


class StateFileMissing(ValueError):
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

    `newest_times_ms`: the newest event times of all records of the log up to the file's last epoch, in any task, as `newest_times` gives them. `reached_log_ms`: the log time up
    to which that epoch read. `awaited_until_ms`: the end of the last wait in the file, in ms. `first_epochs_needed`: for each key-group that the file
    covers, the first epoch whose file is needed, because a late attempt may have written an older file again.
    """

    last_epoch: int
    first_epoch: int
    low_key_group: int
    high_key_group: int
    level: int = 0
    size_bytes: int = 0
    event_count: int = 0
    newest_times_ms: tuple[int, ...] = ()
    key_groups_to_read: tuple[int, ...] = ()
    reached_log_ms: int = BEFORE_ALL
    awaited_until_ms: int = BEFORE_ALL
    first_epochs_needed: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.last_epoch:09d}-{self.first_epoch:09d}-{self.low_key_group:05d}-{self.high_key_group:05d}.arrow"


def first_seq(epoch: int) -> int:
    """The seq of the first event of an epoch."""
    return epoch << EPOCH_BITS


def parse_file_names(names: Iterable[str]) -> Iterator[StateFile]:
    """The state files among the names of a folder, by what their names say."""
    for match in filter(None, map(NAME.fullmatch, names)):
        last, first, low, high = map(int, match.groups())
        yield StateFile(last, first, low, high)


def choose_files(
    names: Iterable[str], upto_epoch: int, low_key_group: int, high_key_group: int
) -> tuple[list[StateFile], list[str]]:
    """The files that hold the key-groups `low_key_group` … `high_key_group` after epoch `upto_epoch`, oldest first, and the names of files that no task needs.

    It goes through the files, the newest and longest first. From each, it reads the key-groups whose epochs no file chosen before covers.

    >>> merged, first, second = "000000001-000000000-00000-00003.arrow", *(f"00000000{n}-00000000{n}-00000-00003.arrow" for n in "01")
    >>> files, idle = choose_files([merged, first, second], 1, 0, 3)
    >>> [file.name for file in files], idle
    (['000000001-000000000-00000-00003.arrow'], ['000000001-000000001-00000-00003.arrow', '000000000-000000000-00000-00003.arrow'])
    """
    found = sorted(
        (file for file in parse_file_names(names) if file.last_epoch <= upto_epoch),
        key=lambda file: (
            -file.last_epoch,
            file.first_epoch,
            (file.low_key_group, file.high_key_group) != (low_key_group, high_key_group),
            file.low_key_group,
        ),
    )
    needed: dict[int, int] = {}  # key-group -> the newest epoch that is still wanted
    serving, idle = [], []
    for _, alike in groupby(found, key=lambda file: (file.last_epoch, file.first_epoch)):
        before = needed.copy()
        for file in alike:
            covers = range(file.low_key_group, file.high_key_group + 1)
            if all(file.last_epoch > before.get(kg, upto_epoch) for kg in covers):
                idle.append(file.name)
            served = [kg for kg in covers if file.last_epoch <= needed.get(kg, upto_epoch)]
            needed |= dict.fromkeys(served, file.first_epoch - 1)
            if mine := tuple(kg for kg in served if low_key_group <= kg <= high_key_group):
                serving.append(file._replace(key_groups_to_read=mine))
    return serving[::-1], idle


def split_by_epochs(files: Sequence[StateFile]) -> list[list[StateFile]]:
    """The files, oldest first, such that those with some of the same epochs are together: a rescale may have left several.

    >>> of_two, first, last = StateFile(1, 0, 0, 1), StateFile(2, 2, 0, 0), StateFile(2, 2, 1, 1)
    >>> [len(files) for files in split_by_epochs([of_two, first, last])]
    [1, 2]
    >>> [len(files) for files in split_by_epochs([StateFile(0, 0, 0, 0), StateFile(1, 1, 0, 0), StateFile(1, 0, 1, 1)])]
    [3]
    """
    parts: list[list[StateFile]] = []
    for file in files:
        together = [file]
        while parts and parts[-1][-1].last_epoch >= min(each.first_epoch for each in together):
            together = [*parts.pop(), *together]
        parts.append(together)
    return parts


def find_epoch_gaps(files: Sequence[StateFile]) -> Iterator[tuple[StateFile, int]]:
    """Finds (file, key-group) such that no file covers some later epoch of the key-group: its events there have expired, or a file is lost.

    `files`: oldest first.

    >>> old, new = (StateFile(n, n, 0, 1, key_groups_to_read=(0, 1)) for n in (1, 3))
    >>> [(file.last_epoch, key_group) for file, key_group in find_epoch_gaps([old, StateFile(2, 2, 0, 0, key_groups_to_read=(0,)), new])]
    [(1, 1)]
    """
    reached: dict[int, int] = {}  # key-group -> the first epoch from which on all are covered
    for file in reversed(files):
        for key_group in file.key_groups_to_read:
            if file.last_epoch < reached.setdefault(key_group, file.last_epoch + 1) - 1:
                yield file, key_group
            else:
                reached[key_group] = file.first_epoch


def stores_to_table(
    parts: Sequence[tuple[int, Columns, Columns]], waits: Iterable[tuple[int, Columns]] = ()
) -> pa.Table:
    """The events, resets and waits of stores as one table; a reset's row has a `rule`, an event's has none.

    `parts`: (store, events, resets), as `RouteStore.export_events_and_resets` returns them; resets also with `joined`. `waits`: (store,
    what `Waits.export` returns).
    """
    of_stores: list[tuple[int, Columns]] = []
    for store, events, resets in parts:
        order = np.lexsort((resets["rule"], resets["seq"]))
        of_stores += [
            (store, events),
            (store, {name: take_rows(values, order) for name, values in resets.items()}),
        ]
    return columns_to_table([*of_stores, *waits])


def columns_to_table(of_stores: Iterable[tuple[int, Columns]]) -> pa.Table:
    """(store, columns) as one table."""
    batches = [NOTHING]
    for store, columns in of_stores:
        if rows := len(columns["seq"]):
            named = {"store": np.full(rows, store, np.int32), **columns}
            batches.append(pa.table({name: pa.array(values) for name, values in named.items()}))
    return pa.concat_tables(batches, promote_options="default")


class StateFiles:
    """The state files of one checkpoint, as seen by the task with the key-groups `low_key_group` … `high_key_group`."""

    def __init__(self, checkpoint: CheckpointFolder, low_key_group: int, high_key_group: int):
        self.folder = checkpoint / FOLDER
        self.low_key_group, self.high_key_group = low_key_group, high_key_group

    def find(self, upto_epoch: int, begins_next_epoch: bool = True) -> tuple[list[StateFile], list[str]]:
        """The files with the task's key-groups after epoch `upto_epoch`, oldest first, and the names of files that no task needs.

        `begins_next_epoch`: the caller begins the next epoch. Raises StaleEpoch if a later epoch has files, StateFileMissing if `upto_epoch` has none.
        """
        names = self.folder.names()
        files, idle = choose_files(names, upto_epoch, self.low_key_group, self.high_key_group)
        newest = max((file.last_epoch for file in parse_file_names(names)), default=-1)
        # an epoch begins only after the commit of the previous one
        if begins_next_epoch and newest > upto_epoch + 1:
            raise StaleEpoch(upto_epoch + 1, f"{self.folder} has files", newest)
        there = {kg for file in files if file.last_epoch == upto_epoch for kg in file.key_groups_to_read}
        if upto_epoch >= 0 and (lost := set(range(self.low_key_group, self.high_key_group + 1)) - there):
            raise StateFileMissing(
                f"{self.folder}: what epoch {upto_epoch} left of key-groups {min(lost)} … {max(lost)}"
            )
        described = [self._described(file) for file in files]
        since = {
            kg: file.first_epochs_needed[kg - file.low_key_group]
            for file in described
            if file.last_epoch == upto_epoch
            for kg in file.key_groups_to_read
        }
        needed = []
        for file in described:
            serves = tuple(kg for kg in file.key_groups_to_read if file.last_epoch >= since.get(kg, 0))
            if serves:
                needed.append(file._replace(key_groups_to_read=serves))
            elif (file.low_key_group, file.high_key_group) == (self.low_key_group, self.high_key_group):
                idle.append(file.name)
        return needed, idle

    def _described(self, file: StateFile) -> StateFile:
        with _readable(f"{self.folder}/{file.name}"):
            data = _data(self.folder, file.name)
            meta = json.loads(pa.ipc.open_file(data).schema.metadata[b"lab"])
            covered = range(file.low_key_group, file.high_key_group + 1)
            return file._replace(
                level=meta["level"],
                size_bytes=data.size,
                event_count=sum(meta["events"].values()),
                newest_times_ms=tuple(meta["newestOfLog"]),
                reached_log_ms=meta["reached"],
                awaited_until_ms=meta["awaited"],
                first_epochs_needed=tuple(
                    int(epoch) for _, epoch in zip(covered, meta["since"], strict=True)
                ),
            )

    def newest_event_ms_by_store_and_key_group(self, file: StateFile) -> list[list[int]]:
        """(store, key-group, newest event time in ms) for all events of a file. Raises StateFileMissing."""
        return _meta(self.folder.where, file.name)["newest"]

    def bytes_by_key_group(self, file: StateFile) -> dict[int, float]:
        """Key-group -> about how many bytes of a file are its own: a share for each event."""
        events = _meta(self.folder.where, file.name)["events"]
        return {
            int(key_group): file.size_bytes * count / file.event_count for key_group, count in events.items()
        }

    def read(self, file: StateFile) -> pa.Table:
        """The rows of the key-groups that are read from a file; for its other key-groups, other files may have replaced it."""
        with _readable(f"{self.folder}/{file.name}"):
            rows = pa.ipc.open_file(_data(self.folder, file.name)).read_all()
            rows.validate(full=True)
            if len(file.key_groups_to_read) == file.high_key_group - file.low_key_group + 1:
                return rows
            return rows.filter(pa.array(np.isin(rows["keyGroup"].to_numpy(), file.key_groups_to_read)))

    def write(
        self,
        last_epoch: int,
        first_epoch: int,
        level: int,
        rows: pa.Table,
        newest_times_ms: Sequence[int] = (),
        reached_log_ms: int = BEFORE_ALL,
        awaited_until_ms: int = BEFORE_ALL,
        first_epochs_needed: tuple[int, ...] = (),
    ) -> StateFile:
        """Writes what epochs `first_epoch` … `last_epoch` stored. `first_epochs_needed`: one for each key-group, by default 0.

        `newest_times_ms`: the newest event times of the whole log.
        """
        own = tuple(range(self.low_key_group, self.high_key_group + 1))
        covers = last_epoch, first_epoch, self.low_key_group, self.high_key_group
        times_ms = tuple(newest_times_ms), own, reached_log_ms, awaited_until_ms
        file = StateFile(*covers, level, 0, 0, *times_ms, first_epochs_needed or (0,) * len(own))
        summary = RowSummary()
        summary.add(rows)
        encoder = begin_encoding(file, rows.schema, summary, use_threads=len(rows) >= WORTH_ROWS)
        encoder.add(rows)
        return self.put(file, encoder.finish(), summary)

    def put(self, file: StateFile, content: bytearray, summary: RowSummary) -> StateFile:
        """Writes a file with this content, which the disk has then; returns it with how much it holds."""
        file = file._replace(size_bytes=len(content), event_count=summary.events.total())
        self.folder.write(file.name, content)
        self.folder.keep_names()
        return file


def begin_encoding(
    file: StateFile, schema: pa.Schema, summary: RowSummary, use_threads: bool
) -> StateFileEncoder:
    """The encoder of a file, for rows of which there is a summary."""
    metadata: dict[str, Any] = {
        "newest": summary.newest,
        "reached": file.reached_log_ms,
        "awaited": file.awaited_until_ms,
        "since": file.first_epochs_needed,
        "level": file.level,
        "events": summary.events,
        "newestOfLog": file.newest_times_ms,
    }
    return StateFileEncoder(schema, metadata, use_threads)


def _data(folder: CheckpointFolder, name: str) -> pa.Buffer:
    data = folder.read(name)
    if data is None:
        raise StateFileMissing(f"{folder}/{name}")
    if not is_intact(data):
        raise ValueError("its checksum does not match its content")
    return pa.py_buffer(data)


@contextmanager
def _readable(where: str) -> Iterator[None]:
    """Reads in this block may meet a damaged file. Turns their errors into a ValueError that names the file."""
    try:
        yield
    except StateFileMissing:
        raise
    except (
        pa.ArrowException,
        MemoryError,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise ValueError(f"{where} is no state file, or a damaged one: {error}; {WAY_ON}") from None


@lru_cache(maxsize=64)
def _meta(where: str, name: str) -> dict:
    with _readable(f"{where}/{name}"):
        data = _data(CheckpointFolder(where), name)
        return json.loads(pa.ipc.open_file(data).schema.metadata[b"lab"])
