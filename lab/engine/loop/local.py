"""The engine's loop in this process: without Spark, hence without Java."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Planner
from lab.engine.loop.ends import Logs, Outlet
from lab.engine.loop.epochs import Epoch, running_epoch
from lab.engine.loop.job import Job, new_start_id
from lab.engine.loop.readahead import ReadAhead
from lab.engine.windows import shared
from lab.model.enginelogs import READ


@dataclass(frozen=True)
class LocalLoop:
    """A loop that takes its cuts when it is told to."""

    job: Job
    planner: Planner
    cuts: CutLog
    outlet: Outlet
    ahead: ReadAhead

    def epoch(self) -> AbstractContextManager[Epoch]:
        """The next epoch, whose end saves the state."""
        return running_epoch(self.job, self.planner, self.cuts, self.outlet.put, self.ahead)


@contextmanager
def local_loop(logs: Logs, settings: Settings, checkpoint: str) -> Iterator[LocalLoop]:
    """The loop of a new engine with one task; its windows in memory go with the end of the `with`."""
    start_id = new_start_id()
    job = Job(settings, logs, checkpoint, start_id)
    events, control = map(logs.feed, READ)
    planner = Planner(events, control, job.folder, settings)
    cuts = CutLog(job.folder, planner.mark_at_start_of_logs())
    try:
        with ReadAhead(job, planner) as ahead:
            yield LocalLoop(job, planner, cuts, logs.outlet(start_id), ahead)
    finally:
        shared.remove_private_folder(start_id)
