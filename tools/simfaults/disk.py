"""Faults in how windows on a disk are found again, and an epoch in them undone: histories of that kind have to find them."""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from lab.engine.windows import kept, shared, undo, windowstate
from lab.engine.windows.undo import UndoLog
from lab.engine.windows.windowstate import WindowState
from tools.simfaults.registry import Mutant, mutant_of

DISK_FAULTS: dict[str, Mutant] = {}
disk_fault = mutant_of(DISK_FAULTS)


# -- which windows these are -------------------------------------------------------------------------------------------


@disk_fault
def windows_are_found_again_without_proof():
    with patch.object(windowstate, "proof_of", lambda *of: "proved"):
        yield


@disk_fault
def windows_from_before_a_power_failure_are_found_again():
    with (
        patch.object(kept, "boot_id", lambda: "a boot"),
        patch.object(windowstate, "boot_id", lambda: "a boot"),
    ):
        yield


@disk_fault
def windows_of_another_version_are_found_again():
    with patch.object(kept, "code_of_arrays", lambda: "a version"):
        yield


@disk_fault
def windows_of_other_state_files_with_the_same_names_are_found_again():
    with patch.object(kept, "_file_proof", lambda path: [path.name]):
        yield


@disk_fault
def windows_of_which_the_disk_could_not_write_a_part_are_found_again():
    with patch.object(shared, "wait_until_written", lambda path: None):
        yield


# -- what undoes an epoch ----------------------------------------------------------------------------------------------


@disk_fault
def what_a_step_changes_is_not_noted():
    with patch.object(UndoLog, "note", lambda *of: None):
        yield


@disk_fault
def a_step_is_noted_after_it():
    """Of what it has changed by then."""
    note = UndoLog.note

    def mutated(self, store, batch, first):
        self.late, late = (store, batch, first), getattr(self, "late", None)
        if late:
            note(self, *late)

    with patch.object(UndoLog, "note", mutated):
        yield


@disk_fault
def an_event_between_two_others_is_not_undone():
    with patch.object(undo, "_neighbours", lambda *of: iter(())):
        yield


@disk_fault
def running_aggregates_stay_as_a_killed_epoch_left_them():
    with patch.object(undo, "running_before", lambda *of: np.empty((0, 2), np.int64)):
        yield


@disk_fault
def groups_that_an_epoch_added_stay():
    with patch.object(undo, "_remove_groups", lambda *of: None):
        yield


@disk_fault
def the_note_vouches_for_windows_that_an_epoch_changes():
    begin = WindowState._begin_undo

    def mutated(self, note):
        begin(self, SimpleNamespace(write=lambda text: note.write(text) if text else None))

    with patch.object(WindowState, "_begin_undo", mutated):
        yield
