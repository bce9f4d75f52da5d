"""A task's windows between epochs: in shared memory for the next one, in state files for recovery after a crash.

    lock the note ─► memory is that of the epoch before? ─► evaluate in log order ─► write the state file ─► note the epoch
                          no: read the state files          pauses: merge files

The arrays are in shared memory, so it does not matter which of Spark's Python workers a task gets. The note is empty while
a task changes them. A task that finds it empty, or finds another epoch in it, rebuilds the arrays from the files, unless they lie on
a disk: then it takes over what an earlier start has left (`kept.py`), and undoes what a killed worker did (`undo.py`). So a task that is killed, runs twice or runs again gives the same rows and the same file. Older files are merged in the pauses between cuts.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.ledger import Ledger, RoutePlan
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.rulenumbers import AggregateKey
from lab.engine.records.columns import BEFORE_ALL, Columns, take_rows
from lab.engine.records.parallel import parallel_map
from lab.engine.windows import shared, undo
from lab.engine.windows.arrays import event_and_aggregate_files
from lab.engine.windows.evaluate import Windows, active_absence_rules_by_store
from lab.engine.windows.kept import boot_id, proof_of, take_over
from lab.engine.windows.statefiles import (
    StaleEpoch,
    StateFile,
    StateFileMissing,
    StateFiles,
    find_epoch_gaps,
    first_seq,
    split_by_epochs,
    stores_to_table,
)
from lab.engine.windows.statemerge import Merge, plan_merge
from lab.engine.windows.store import RouteStore


class WindowState:
    """Keeps the windows of the key-groups `low_key_group` … `high_key_group`."""

    def __init__(
        self,
        settings: Settings,
        checkpoint: CheckpointFolder,
        memory_folder: Path,
        low_key_group: int,
        high_key_group: int,
    ):
        self.checkpoint = checkpoint
        self.files = StateFiles(checkpoint, low_key_group, high_key_group)
        self.low_key_group, self.high_key_group = low_key_group, high_key_group
        self.key_groups = tuple(range(low_key_group, high_key_group + 1))
        self.windows = Windows(settings, memory_folder / f"{low_key_group}-{high_key_group}")
        self._merge: Merge | None = None
        self.opened = ""  # the note under which the stores are what shared memory holds

    @contextmanager
    def open_epoch(self, epoch: int, ledger: Ledger) -> Iterator[Windows]:
        """The windows as the epoch before left them; `ledger`: what was in force then. Saved at the end, unless that raises."""
        self.number, windows = epoch, self.windows
        windows.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with shared.locked_note(windows.folder / "lock") as note:
            noted = note.read()
            newest = json.loads(noted)["epoch"] if noted else -1
            if newest > epoch:
                raise StaleEpoch(epoch, "memory holds the windows", newest)
            note.write("")
            windows.ledger = ledger
            self._open(noted)
            self._begin_undo(note)
            newest = max((file.newest_times_ms for file in self.chain), default=())
            reached = max((file.reached_log_ms for file in self.chain), default=BEFORE_ALL)
            windows.begin_epoch(first_seq(epoch), newest, reached)
            for store in windows.stores.values():
                store.reached_log_ms = max(store.reached_log_ms, reached)
            yield windows
            self._save()
            self.opened = self._note(epoch)
            note.write(self.opened)

    def _note(self, epoch: int) -> str:
        """What the note says after an epoch; with a proof if some arrays lie on a disk, so that the next start may take them over."""
        windows, proof = self.windows, ""
        chain = [self._shortened(file) for file in self.chain]
        keys = {store: of.keys for store, of in windows.stores.items() if of.keeps}
        if self._is_on_disk:
            proof = proof_of(self.checkpoint, self.chain, windows.settings, windows.ledger)
        shared.keep(windows.folder, str(self.checkpoint.path) if proof else None)
        note = {"epoch": epoch, "chain": chain, "garbage": self.garbage, "keys": keys, "proof": proof}
        return json.dumps(note | {"by": uuid4().hex, "boot": boot_id()})

    @property
    def _is_on_disk(self) -> bool:
        return any(store.disk_bytes for store in self.windows.stores.values())

    def _begin_undo(self, note: shared.Note) -> None:
        """Has the stores note what the epoch changes, if some lie on a disk: then a worker that is killed costs no rebuild."""
        stores, before = self.windows.stores, ""
        if self._is_on_disk and not self.windows.all_waits and undo.can_be_undone(stores):
            before = self._note(self.number - 1)
        if before and json.loads(before)["proof"]:
            note.write(before)
            undo.begin_undo(self.windows.folder, before, stores)
            note.write("")
        else:
            undo.end_undo(self.windows.folder, stores)

    def _open(self, noted: str) -> None:
        """Restores the stores as they were after the previous epoch: the open ones, those in shared memory, or from the files.

        The open ones count only if this worker wrote the note: another one may have created the files of shared memory again.
        """
        plans = {plan.entry.store: plan for plan in self.windows.ledger.plans}
        note = json.loads(noted) if noted else {}
        if self._is_of_previous_epoch(note, plans):
            self._trust(note)
            if noted != self.opened:
                self._open_stores(plans, note["keys"])
            return
        if self._open_what_was_left(plans):
            return
        undo.end_undo(self.windows.folder, self.windows.stores)
        for path in self.windows.folder.glob("*.windows"):
            shared.remove_arrays(path)
        self.chain, idle = self.files.find(self.number - 1)
        self.garbage = [[], idle]
        self._open_stores(plans, {})
        self._rebuild(plans)

    def _is_of_previous_epoch(self, note: dict, plans: dict[int, RoutePlan]) -> bool:
        """Whether a note is of the arrays that the previous epoch left, and these are there; after a power failure a disk has lost parts of them."""
        windows = self.windows
        paths = [
            *(part for store in plans for part in event_and_aggregate_files(windows.memory_file(store))),
            *(windows.waits_file(*each) for each in active_absence_rules_by_store(plans.values())),
        ]
        is_mine = note.get("epoch") == self.number - 1 and note.get("boot") == boot_id()
        return is_mine and all(map(Path.exists, paths))

    def _open_what_was_left(self, plans: dict[int, RoutePlan]) -> bool:
        """Opens arrays of an earlier start of the engine, or of a worker that was killed, if they are provably those of the previous epoch or can be made so."""
        windows, left = self.windows, ""
        if not any(windows.folder.glob("*.windows")):
            left = take_over(windows.folder, self.checkpoint)
        for noted, must_undo in ((left, False), (undo.note_before_undo(windows.folder), True)):
            note = json.loads(noted) if noted else {}
            if not self._is_of_previous_epoch(note, plans):
                continue
            # of which a disk may have lost a part; or another version wrote the note
            with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
                self._trust(note)
                proof = proof_of(self.checkpoint, self.chain, windows.settings, windows.ledger)
                if not proof or proof != note.get("proof"):
                    continue
                self._open_stores(plans, note["keys"])
                stores = windows.stores.items()
                if must_undo and not all(
                    undo.undo_epoch(windows.folder, number, store) for number, store in stores
                ):
                    continue
                if all(store.is_whole_before(first_seq(self.number)) for _, store in stores):
                    return True
        return False

    def _trust(self, note: dict) -> None:
        """Takes the chain of state files from a note."""
        chain = [StateFile(*file) for file in note["chain"]]
        self.chain = [
            file._replace(
                key_groups_to_read=tuple(file.key_groups_to_read) or self.key_groups,
                newest_times_ms=tuple(file.newest_times_ms),
            )
            for file in chain
        ]
        self.garbage = note["garbage"]

    def _open_stores(self, plans: dict[int, RoutePlan], keys: dict[str, list]) -> None:
        """Opens the stores of routes with their shared memory; `keys`: the aggregates that it has beside those of the rules."""
        self._merge = None  # an attempt that failed may have left it without some of its rows
        self.windows.stores = {
            number: self.windows.open_store(
                plan, tuple(map(AggregateKey.from_json, keys.get(str(number), ())))
            )
            for number, plan in plans.items()
        }
        self.windows.open_waits(plans.values())

    def _shortened(self, file: StateFile) -> StateFile:
        """A file of the chain, as the note has it: with its key-groups only if they are not all of this task's."""
        read = file.key_groups_to_read
        return file._replace(
            key_groups_to_read=() if read == self.key_groups else read, first_epochs_needed=()
        )

    def _rebuild(self, plans: dict[int, RoutePlan]) -> None:
        """Fills empty stores from the files of the chain: with a file's events at a time, as there may be more than memory holds, then with all else."""
        others: dict[int, list[pa.Table]] = {number: [] for number in plans}

        def load_events(number: int) -> None:
            of_store = rows.filter(pc.equal(rows["store"], number)).sort_by("seq")
            is_event = of_store["time"].is_valid()
            if "waits" in of_store.column_names:
                is_event = pc.and_(is_event, of_store["waits"].is_null())
            store = self.windows.stores[number]
            store.load(_columns(of_store.filter(is_event)), store.export_resets(0, 0))
            others[number].append(of_store.filter(pc.invert(is_event)))

        for files in split_by_epochs(self.chain):
            rows = pa.concat_tables(map(self.files.read, files), promote_options="default")
            parallel_map(load_events, set(pc.unique(rows["store"]).to_pylist()) & plans.keys(), len(rows))
        for number, tables in others.items():
            if tables:
                rest = pa.concat_tables(tables, promote_options="default").sort_by("seq")
                if "waits" in rest.column_names:
                    is_wait = rest["waits"].is_valid()
                    self._await(number, rest.filter(is_wait))
                    rest = rest.filter(pc.invert(is_wait))
                self._load_resets(self.windows.stores[number], rest, plans[number].entry.joined_by_rule_id)
        for file, key_group in find_epoch_gaps(self.chain):
            if any(
                kg == key_group and number in plans and self.windows.stores[number].surely_retains(kg, at)
                for number, kg, at in self.files.newest_event_ms_by_store_and_key_group(file)
            ):
                raise StateFileMissing(
                    f"{self.files.folder}: what came after {file.name} of key-group {key_group}"
                )

    def _await(self, number: int, rows: pa.Table) -> None:
        """Restores the waits of a store's rules, without those whose alerts have been raised."""
        reached = max(file.reached_log_ms for file in self.chain)
        newest = max(max(file.newest_times_ms for file in self.chain), default=BEFORE_ALL)
        for each in self.windows.waits.get(number, ()):
            is_mine = pc.and_(
                pc.equal(rows["rule"], each.rule.rule_id), pc.equal(rows["version"], each.rule.version)
            )
            each.load(_columns(rows.filter(is_mine)))
            each.advance_to(reached, newest)

    def _load_resets(self, store: RouteStore, rows: pa.Table, joined: dict[int, int]) -> None:
        """Restores where the rules that are in force were reset."""
        resets = _columns(rows)
        resets.setdefault("rule", np.empty(0, np.int64))
        if len(resets["rule"]):
            known = np.array([joined.get(rule) for rule in resets["rule"].tolist()], float)
            mine = np.flatnonzero(known == resets["joined"])
            resets = {name: take_rows(values, mine) for name, values in resets.items()}
        store.load(store.export_events(0, 0), resets)

    def _save(self) -> None:
        """Writes what this epoch stored, then what a merge has made of older files; removes a file if all its events have expired."""
        expired = not self.windows.forgot and self._has_oldest_expired()
        kept, dropped = list(self.chain), []
        first, level = self.number, 0
        if self.windows.forgot:  # all earlier files contain events that are forgotten now
            kept, dropped = [], kept
            first = min((file.first_epoch for file in dropped), default=first)
            level = max((file.level for file in dropped), default=level)
        # before the next file is written, because that file records which epochs are needed
        elif expired:
            dropped.append(kept.pop(0))
        self.chain = [
            *kept,
            self.files.write(
                self.number,
                first,
                level,
                self._rows(first_seq(first)),
                self.windows.newest_times,
                self.windows.reached,
                max((each.awaited_until_ms for each in self.windows.all_waits), default=BEFORE_ALL),
                self._first_epochs_needed(kept, first),
            ),
        ]
        # The epoch that dropped these files is saved. A late attempt that would still read them finds the file just written: StaleEpoch
        for name in self.garbage[0]:
            self.files.folder.remove(name)
        self.garbage = [[*self.garbage[1], *(file.name for file in dropped if self._is_own(file))], []]
        self._advance_merge()

    def merge_slice(self) -> bool:
        """Does a little of the merge that is under way; False if nothing can be done until the epoch is saved."""
        return self._merge is not None and self._merge.slice(self.number)

    def _advance_merge(self) -> None:
        """Puts the file of a merge that is done in place of those that it replaces, and plans the next merge."""
        names = {file.name for file in self.chain}
        if self._merge and not all(file.name in names for file in self._merge.files):
            self._merge = None
        while merge := self._merge or self._planned_merge():
            self._merge = merge
            # whoever never pauses does all at once, when one more merge is due
            if plan_merge(merge.replaced_in(self.chain, merge.file), self.windows.stored):
                merge.finish(self.number)
            if not merge.content or merge.exported_in == self.number:
                return
            file = self.files.put(merge.file, merge.content, merge.summary)
            self.chain, self._merge = merge.replaced_in(self.chain, file), None
            alike = [
                of
                for of in self.chain
                if of.last_epoch >= file.first_epoch and of.first_epoch <= file.last_epoch
            ]
            assert alike == [file], "an epoch is in one file of a chain"
            # a twin of this epoch may have listed them; they stay until the next epoch is saved, too
            self.garbage[1] += [of.name for of in merge.files if self._is_own(of)]

    def _planned_merge(self) -> Merge | None:
        plan = plan_merge(self.chain, self.windows.stored)
        if plan is None:
            return None
        files = self.chain[plan.first : plan.end]
        first = min(file.first_epoch for file in files)
        newest, reached, awaited = (
            max(getattr(file, name) for file in files)
            for name in ("newest_times_ms", "reached_log_ms", "awaited_until_ms")
        )
        file = StateFile(
            max(file.last_epoch for file in files),
            first,
            self.low_key_group,
            self.high_key_group,
            plan.level,
            event_count=sum(file.event_count for file in files),
            newest_times_ms=newest,
            key_groups_to_read=self.key_groups,
            reached_log_ms=reached,
            awaited_until_ms=awaited,
            first_epochs_needed=self._first_epochs_needed(self.chain[: plan.first], first),
        )
        return Merge(self.windows, files, file)

    def _first_epochs_needed(self, kept: Sequence[StateFile], first: int) -> tuple[int, ...]:
        """For each key-group, the first epoch of the oldest file that holds it: of files that are kept, and one that begins with epoch `first`."""
        needed: dict[int, int] = {}
        for file in kept:
            if len(needed) < len(self.key_groups):
                needed = dict.fromkeys(file.key_groups_to_read, file.first_epoch) | needed
        return tuple(needed.get(key_group, first) for key_group in self.key_groups)

    def _rows(self, start: int) -> pa.Table:
        """Events and resets since a seq, as far as they are still stored."""
        end = first_seq(self.number + 1)

        def export(number: int) -> tuple[int, Columns, Columns]:
            store = self.windows.stores[number]
            assert store.last_seq < end, "a store has no event of a later epoch than its state file"
            return number, store.export_events(start, end), self.windows.export_resets(number, start, end)

        waits = [
            (number, each.export(start, end)) for number, of in self.windows.waits.items() for each in of
        ]
        return stores_to_table(parallel_map(export, self.windows.stores, self.windows.stored), waits)

    def _is_own(self, file: StateFile) -> bool:
        """Whether a file has exactly this task's key-groups; other tasks may need a file from before a rescale."""
        return (file.low_key_group, file.high_key_group) == (self.low_key_group, self.high_key_group)

    def _has_oldest_expired(self) -> bool:
        """Whether all events of the chain's oldest file have expired; finds the chain again if another attempt has merged that file."""
        if not self.chain:
            return False
        oldest = self.chain[0]
        try:
            return self._expired(oldest)
        except StateFileMissing:
            self.chain, idle = self.files.find(self.number - 1)
            self._merge = None
            if not any(
                of.first_epoch <= oldest.first_epoch and of.last_epoch >= oldest.last_epoch
                for of in self.chain
            ):
                raise
            self.garbage[1] += idle
            return False

    def _expired(self, file: StateFile) -> bool:
        """Whether no store keeps any event of a file, no wait in it is open, and no other task needs it."""
        if not self._is_own(file):
            return False
        newest = max(self.windows.newest_times, default=BEFORE_ALL)
        if self.windows.all_waits and file.awaited_until_ms >= min(self.windows.reached, newest):
            return False
        newest_events = self.files.newest_event_ms_by_store_and_key_group(file)
        return not any(self.windows.may_retain(*each) for each in newest_events)


def _columns(rows: pa.Table) -> Columns:
    """A table's columns as arrays, without those that are null in all rows."""
    columns: Columns = {}
    for name, values in zip(rows.column_names, rows.combine_chunks().columns):
        if values.null_count == 0:
            columns[name] = values.to_numpy()
        elif values.null_count < len(rows):
            columns[name] = values.chunk(0)
    return columns


_open: dict[tuple[Path, int, int], WindowState] = {}  # the windows that this worker has opened


def open_windows(
    settings: Settings,
    checkpoint: CheckpointFolder,
    memory_folder: Path,
    low_key_group: int,
    high_key_group: int,
) -> WindowState:
    """The windows as this worker last left them, or new ones; closes those of engines that have stopped."""
    place = memory_folder, low_key_group, high_key_group
    if place not in _open:
        for other in [other for other in list(_open) if not other[0].exists()]:
            del _open[other]
        shared.unmap_removed_arrays()
        _open[place] = WindowState(settings, checkpoint, *place)
    return _open[place]
