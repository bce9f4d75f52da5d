"""Configuration shared by all processes of a running engine: driver, planners, tasks."""

import os
from dataclasses import dataclass
from typing import NamedTuple
from uuid import uuid4

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs


class EngineId(NamedTuple):
    """Identifies an engine among all that write to the same logs."""

    checkpoint_id: str
    started_ms: int


def new_start_id() -> str:
    """Names a start of an engine; no other start has it."""
    return f"{os.getpid()}-{uuid4().hex[:8]}"


@dataclass(frozen=True)
class Job:
    """Everything that a task needs to know about its engine. `start_id`: identifies this start; shared memory is valid only within it.

    `lease`: the lease under which the engine plans and runs micro-batches (`lab.engine.checkpoint.lease`), if it has one.
    """

    settings: Settings
    logs: Logs
    checkpoint: str
    start_id: str
    lease: str = ""
    engine_id: EngineId | None = None
    once: bool = False

    @property
    def runs_loop(self) -> bool:
        """Whether a task runs the loop for seconds, rather than one cut that the driver has chosen."""
        return self.settings.parallelism == 1 and not self.once and self.folder.is_on_this_machine

    def stats_fields(self) -> dict[str, int | str | bool]:
        """The engine in a line of the stats log: its id, when it started, and the settings; empty without an id."""
        if not self.engine_id:
            return {}
        checkpoint_id, started_ms = self.engine_id
        return {"id": checkpoint_id, "since": started_ms, **self.settings.stats_fields()}

    @property
    def folder(self) -> CheckpointFolder:
        return CheckpointFolder(self.checkpoint, self.settings.power_safe)
