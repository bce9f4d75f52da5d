"""What is told to all processes of a running engine: driver, planners, tasks."""

from dataclasses import dataclass

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import FileLogs, KafkaLogs


@dataclass(frozen=True)
class Job:
    """All that a task has to know of its engine. `start`: names this start of it, in which shared memory is valid.

    `lease`: the one under which the engine plans and runs micro-batches (`lab.engine.checkpoint.lease`), if it has one. `engine`: its
    checkpoint's id, and since when it runs (ms): tells it from another one that writes the same logs.
    """

    settings: Settings
    logs: FileLogs | KafkaLogs
    checkpoint: str
    start: str
    lease: str = ""
    engine: tuple[str, int] | None = None
    once: bool = False

    @property
    def loops(self) -> bool:
        """Whether a task runs the loop for seconds, rather than one cut that the driver has chosen."""
        return self.settings.parallelism == 1 and not self.once and self.folder.local

    @property
    def folder(self) -> CheckpointFolder:
        return CheckpointFolder(self.checkpoint)
