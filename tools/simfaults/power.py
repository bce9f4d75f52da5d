"""Faults of an engine that is to survive a power failure: the forgetful disk of `tests.sim.power` has to find them."""

from unittest.mock import patch

from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.durable import CheckpointFolder
from tools.simfaults.registry import Mutant, mutant_of

POWER_FAULTS: dict[str, Mutant] = {}
power_fault = mutant_of(POWER_FAULTS)


@power_fault
def a_file_has_its_name_before_its_content():
    write = CheckpointFolder._write_local

    def mutated(self, path, data):
        write(CheckpointFolder(self.where), path, data)

    with patch.object(CheckpointFolder, "_write_local", mutated):
        yield


@power_fault
def a_folder_is_never_synced():
    with patch.object(CheckpointFolder, "keep_names", lambda self: None):
        yield


@power_fault
def the_folder_of_a_new_folder_is_never_synced():
    make = CheckpointFolder._make

    with patch.object(CheckpointFolder, "_make", lambda self: make(CheckpointFolder(self.where))):
        yield


@power_fault
def the_end_of_an_epoch_does_not_wait():
    add = CutLog._add

    with patch.object(CutLog, "_add", lambda self, record, kept=False: add(self, record)):
        yield


@power_fault
def a_save_is_acknowledged_before_its_state_file():
    end = CutLog.end_epoch

    def mutated(self):
        end(self)
        self._add({"saved": True}, kept=True)

    with (
        patch.object(CutLog, "end_epoch", mutated),
        patch.object(CutLog, "mark_epoch_saved", lambda self: setattr(self, "is_saved", True)),
    ):
        yield
