"""Of a backlog, the next cut is chosen and read while the one before is evaluated, so that no core waits.

    a cut      evaluate ─► deliver ─► save
    the next   choose ─► read, decode, route ─► (evaluate ─► …)

What is read ahead is not taken yet: when its turn comes, the cut is written ahead like any other. An attempt that ends before leaves no
trace of it, and the next one chooses anew.
"""

from threading import Thread
from typing import NamedTuple, Self

from lab.engine.loop.cut import Mark, Planner
from lab.engine.loop.job import Job
from lab.engine.loop.task import read_and_route
from lab.engine.windows.evaluate import Envelope
from lab.engine.windows.readingreport import ReadingReport

WORTH_READING_AHEAD = 50_000  # records of the cut before: a smaller one is evaluated soon


class CutInput(NamedTuple):
    """What was read of a cut; `end`: the mark that was chosen for it."""

    end: Mark
    envelopes: list[Envelope]
    report: ReadingReport


class ReadAhead:
    """Reads the next cut in a thread. Until `take` returns it, nobody else may use the planner's feeds; the end of a `with` waits for the thread."""

    def __init__(self, job: Job, planner: Planner):
        self._job, self._planner = job, planner
        self._thread: Thread | None = None
        self._found: CutInput | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        if self._thread:
            self._thread.join()

    @property
    def has_begun(self) -> bool:
        """Whether there is something to `take`."""
        return self._thread is not None

    def begin(self, mark: Mark, records: int) -> None:
        """Begins to read the cut after a mark if the cut before that, which is about to be evaluated, has so many records that it is worth it."""
        if records >= WORTH_READING_AHEAD:
            self._thread = Thread(target=self._read, args=(mark,), name="read ahead", daemon=True)
            self._thread.start()

    def take(self) -> CutInput | None:
        """Waits for what has begun; None if nothing has, or the logs had nothing new then. Raises the error that ended it."""
        if self._thread:
            self._thread.join()
        self._thread, found, self._found, error, self._error = None, self._found, None, self._error, None
        if error:
            raise error
        return found

    def _read(self, begin: Mark) -> None:
        try:
            self._found = self._next_cut(begin)
        except BaseException as error:  # noqa: BLE001  (`take` raises it)
            self._error = error

    def _next_cut(self, begin: Mark) -> CutInput | None:
        end = self._planner.advance_mark(begin, self._job.settings.max_batch_records)
        if end == begin:
            return None
        [work] = self._planner.plan_reading(begin, end)
        return CutInput(end, *read_and_route(self._job, work, self._planner.events))
