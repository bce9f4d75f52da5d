"""Faults planted into what the engine remembers: shared memory and state files."""

import json
from itertools import chain, islice
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from lab.engine.loop import task
from lab.engine.records.columns import BEFORE_ALL
from lab.engine.windows import windowstate
from lab.engine.windows.kept import boot_id
from lab.engine.windows.statefiles import StateFiles, first_seq, parse_file_names
from lab.engine.windows.statemerge import Merge
from lab.engine.windows.store import RouteStore
from lab.engine.windows.waits import Waits
from lab.engine.windows.windowstate import WindowState
from tests.sim import protocol
from tests.sim.world import SimNote, World
from tools.simfaults.registry import mutant

# -- memory ------------------------------------------------------------------------------------------------------------


@mutant
def memory_is_rebuilt_before_the_note_is_emptied():
    open_, write = WindowState._open, SimNote.write

    def mutated(self, noted):
        note = SimNote(f"{self.windows.folder}/lock")
        World.current.notes[note.path] = noted
        open_(self, noted)
        write(note, "")

    with patch.object(WindowState, "_open", mutated):
        yield


@mutant
def windows_at_hand_are_trusted():
    with patch.object(windowstate, "uuid4", lambda: SimpleNamespace(hex="")):
        yield


@mutant
def a_window_file_that_is_gone_is_an_empty_window():
    open_ = WindowState._open

    def mutated(self, noted):
        with patch.object(windowstate, "all", lambda of: True, create=True):
            open_(self, noted)

    with patch.object(WindowState, "_open", mutated):
        yield


@mutant
def the_note_is_written_before_the_state_file():
    """A task killed between the two leaves memory that is right and a chain without the epoch's file."""
    save = WindowState._save

    def early(self):
        files = [file._replace(key_groups_to_read=()) for file in self.chain]
        keys = {store: of.keys for store, of in self.windows.stores.items() if of.keeps}
        note = {
            "epoch": self.number,
            "chain": files,
            "garbage": self.garbage,
            "keys": keys,
            "boot": boot_id(),
        }
        SimNote(f"{self.windows.folder}/lock").write(json.dumps(note))
        save(self)

    with patch.object(WindowState, "_save", early):
        yield


# -- state files -------------------------------------------------------------------------------------------------------


@mutant
def files_of_uncommitted_batches_are_read():
    find = StateFiles.find
    with patch.object(StateFiles, "find", lambda self, upto: find(self, upto + 1)):
        yield


@mutant
def a_file_serves_all_that_it_holds():
    read = StateFiles.read
    everything = tuple(range(64))
    with patch.object(
        StateFiles, "read", lambda self, file: read(self, file._replace(key_groups_to_read=everything))
    ):
        yield


def _removing_garbage_after(step: str):
    """Patches a step of `WindowState`."""
    original = getattr(WindowState, step)

    def mutated(self, *args):
        original(self, *args)
        for name in chain.from_iterable(self.garbage):
            self.files.folder.remove(name)

    return patch.object(WindowState, step, mutated)


@mutant
def garbage_goes_before_the_commit():
    with _removing_garbage_after("_save"):
        yield


@mutant
def garbage_goes_before_a_newer_file_is_there():
    """Nothing then tells a twin of the batch that made it so that it is late."""
    with _removing_garbage_after("_open"):
        yield


@mutant
def a_file_of_other_tasks_goes_when_mine_replaces_it():
    save = WindowState._save

    def mutated(self):
        before = list(self.chain)
        save(self)
        kept = {file.name for file in self.chain}
        self.garbage[0] += [file.name for file in before if file.name not in kept]

    with patch.object(WindowState, "_save", mutated):
        yield


@mutant
def a_file_expires_by_the_newest_time_of_all_key_groups():
    def mutated(self, file):
        mine = (file.low_key_group, file.high_key_group) == (self.low_key_group, self.high_key_group)
        return mine and all(
            newest
            < self.windows.stores[number].arrays["newest"][:, 0].max()
            - self.windows.stores[number].widest_ms
            - self.windows.late_ms
            for number, _, newest in self.files.newest_event_ms_by_store_and_key_group(file)
            if number in self.windows.stores
        )

    with patch.object(WindowState, "_expired", mutated):
        yield


@mutant
def a_file_is_named_by_its_last_batch_alone():
    """A merged file hides none of those that it replaces."""
    put = StateFiles.put

    def mutated(self, file, *more):
        return put(self, file._replace(first_epoch=file.last_epoch), *more)

    with patch.object(StateFiles, "put", mutated):
        yield


@mutant
def the_horizon_is_that_of_all_key_groups():
    held = RouteStore._unexpired

    def mutated(self, event):
        newest = self.arrays["newest"]
        before = newest.copy()
        newest[:] = before[before[:, 0].argmax()]
        try:
            return held(self, event)
        finally:
            newest[:] = before

    with patch.object(RouteStore, "_unexpired", mutated):
        yield


@mutant
def a_state_file_does_not_tell_which_epochs_it_needs():
    """What an attempt that was late writes again comes back when nothing hides it any more."""
    write = StateFiles.write
    with patch.object(StateFiles, "write", lambda self, *given: write(self, *given[:-1])):
        yield


@mutant
def a_state_file_tells_one_first_epoch_for_all_its_key_groups():
    """After a rescale that of another task counts, which may be earlier."""
    write = StateFiles.write

    def mutated(self, *given):
        *others, needed = given
        return write(self, *others, (min(needed),) * len(needed))

    with patch.object(StateFiles, "write", mutated):
        yield


@mutant
def a_file_that_expires_goes_from_the_chain_after_the_next_is_written():
    """Which says that it needs it, though it is removed before there is another."""
    expired, write = WindowState._expired, StateFiles.write

    def told(self, file):
        gone = expired(self, file)
        self.files.let_go = [file.first_epoch] if gone else []
        return gone

    def mutated(self, *given):
        *others, needed = given
        oldest, self.let_go = getattr(self, "let_go", []), []
        return write(self, *others, tuple(min([epoch, *oldest]) for epoch in needed))

    with patch.object(WindowState, "_expired", told), patch.object(StateFiles, "write", mutated):
        yield


@mutant
def waits_of_several_tasks_lie_in_the_order_of_their_numbers():
    """After a rescale: one that lasts longer stands before one that has ended."""
    keep = Waits._keep_only

    def mutated(self, rows, *room):
        keep(self, np.sort(rows), *room)

    with patch.object(Waits, "_keep_only", mutated):
        yield


# -- merges ------------------------------------------------------------------------------------------------------------


@mutant
def a_merged_file_is_written_in_the_epoch_that_exports_its_rows():
    """What that epoch lets go is missing for those who run it again."""
    with patch.object(Merge, "exported_in", property(lambda self: -1, lambda self, epoch: None), create=True):
        yield


@mutant
def a_merged_file_is_written_before_the_file_of_its_epoch():
    """Nothing then tells a twin of the epoch before that it is late."""
    save = WindowState._save

    def mutated(self):
        if self._merge and self._merge.content:
            self._advance_merge()
        save(self)

    with patch.object(WindowState, "_save", mutated):
        yield


@mutant
def merged_files_go_before_what_replaces_them_is_there():
    put = StateFiles.put

    def mutated(self, file, *more):
        for of in parse_file_names(self.folder.names()):
            if file.first_epoch <= of.first_epoch and of.last_epoch <= file.last_epoch != of.first_epoch:
                self.folder.remove(of.name)
        return put(self, file, *more)

    with patch.object(StateFiles, "put", mutated):
        yield


@mutant
def the_waits_of_the_last_epoch_of_a_merge_are_lost():
    exported = Merge._exported

    def mutated(self):
        last = first_seq(self.file.last_epoch)
        export = Waits.export
        lost = lambda waits, first, end: export(waits, first, first if first == last else end)
        with patch.object(Waits, "export", lost):
            rows = list(exported(self))
        yield from rows

    with patch.object(Merge, "_exported", mutated):
        yield


@mutant
def a_slice_of_a_merge_is_lost():
    exported = Merge._exported
    with patch.object(Merge, "_exported", lambda self: islice(exported(self), 0, None, 2)):
        yield


# -- windows that grow -------------------------------------------------------------------------------------------------


@mutant
def what_a_window_that_grows_forgets_depends_on_its_key_group():
    compact = RouteStore.compact
    with patch.object(RouteStore, "compact", lambda self, room=0, before_ms=0: compact(self, room)):
        yield


@mutant
def a_state_file_does_not_tell_the_newest_event_of_the_log():
    write = StateFiles.write
    with patch.object(
        StateFiles, "write", lambda self, *given: write(self, *given[:4], BEFORE_ALL, *given[5:])
    ):
        yield


@mutant
def a_task_knows_the_newest_event_of_the_first_share_only():
    sent = task.route_to_payloads

    def mutated(job, number, work):
        for to, payload in sent(job, number, work):
            if number and payload[:1] == b"{":
                head = json.loads(payload[1:])
                payload = b"{" + json.dumps(head | {"newest": [[]] * len(head["newest"])}).encode()
            yield to, payload

    with patch.object(protocol, "route_to_payloads", mutated):
        yield


@mutant
def an_alert_of_absence_is_not_recorded_at_its_event():
    with patch.object(RouteStore, "record_later_alerts", lambda *of: None):
        yield
