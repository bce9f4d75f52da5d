"""A drill: the engine's own code, one step of a micro-batch at a time, with faults in between.

    cut ──► evaluate ──► deliver ──► commit          after a kill anywhere, it starts again from the files on disk
    offsets/3  state/…      alerts      commits/3

Cuts, rules, state files and shared memory are the engine's, on a real disk; logs come from `SimulatedTopic`, and alerts go to a file
log. There is no Spark: this module does its part, writing each cut ahead and then the commit, in Spark's format. A kill removes what
a dying process loses: the driver, the worker, and the shared memory.
"""

import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple
from uuid import uuid4

from lab.engine.checkpoint.record import BatchProgress, batch_fingerprint, mark_at_end_of
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Mark, Planner
from lab.engine.loop.job import Job
from lab.engine.loop.task import run_single_task
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.windows import shared
from lab.engine.windows.evaluate import TaskOutput
from lab.logs.files import FileLog
from lab.logs.index import BatchConflict
from lab.model.language import say
from lab.model.reference import evaluate_log
from lab.model.schema import PAYMENTS
from lab.studio.traffic import ScenarioLogs

STEPS = ("cut", "evaluate", "deliver", "commit")
NO_LINES = KeyedLines([], JoinedLines())
RUNS_AGAIN = (
    "It finds offsets/{number} without commits/{number}: batch {number} runs again, with the same marks."
)
CONTINUES = "Every batch on disk is committed; the engine continues with batch {number}."
CUT = "Batch {number}: the cut takes {events} events and {changes} rule changes. Its marks are on disk before any work is done."
CUT_IN_MEMORY = (
    "Batch {number}: the cut takes {events} events and {changes} rule changes. "
    "Its marks are only in memory until the batch is committed."
)
EVALUATED = "Batch {number} is evaluated: {alerts} alerts, {written}. Nobody has seen the alerts yet."
REFUSED = (
    "The alert log refuses batch {number}: it already has a batch of that number with other marks. "
    "The records that only the second cut took never reach it, and no engine can go on; a new room starts over."
)
DELIVERED = "Batch {number}: its {count} alerts are in the alert log."
DELIVERED_BEFORE = "Batch {number}: its {count} alerts were already in the alert log, which knows its batches and takes none twice."
NO_ALERTS = "Batch {number} has no alerts to deliver."
COMMITTED = "Batch {number} is committed: its records are never read again."
SAME = "Nothing lost, nothing twice: {records} records, and the same {alerts} alerts as the reference."
DIFFERENT = "{lost} alerts are missing, {twice} are unexpected; {records} of {all} records are counted."


class EvaluatedRecord(NamedTuple):
    """A record that a batch read, an event or a control message. Sorting such records gives their log order."""

    effective_log_time: int  # ms
    is_event: bool
    partition: int
    offset: int
    value: bytes


class Drill(ScenarioLogs):
    """A stream of payments and an engine, both under control: send payments, run single steps, kill the engine.

    `story`: what happened, in sentences, the newest last. `kills`: how many records each partition had at each kill, those
    of the control log first. `writes_ahead`: whether a cut's marks are on disk before anything is done with what it takes.

    >>> drill = Drill()
    >>> drill.send_payments(8)
    >>> drill.run_batch()
    >>> drill.alerts != [], drill.compare_with_reference()[0]
    (True, True)
    >>> drill.close()
    """

    def __init__(self, seed: int = 1):
        super().__init__(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="lab-drill-"))
        self.settings, self.starts = Settings(PAYMENTS, key_groups=4), 0
        self._steps = dict(zip(STEPS, (self._cut, self._evaluate, self._deliver, self._commit)))
        self.writes_ahead, self.kills = True, list[list[int]]()
        self.outs = {name: FileLog(self.folder / name) for name in ("alerts", "stats")}
        self._start()

    def close(self) -> None:
        """Removes everything that it wrote."""
        shared.remove_private_folder(self.job.start_id)
        rmtree(self.folder, ignore_errors=True)

    # -- the engine ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Starts the engine with nothing but what is on disk."""
        self.starts += 1
        logs: Any = self  # which has `feed`
        self.job = Job(
            self.settings, logs, str(self.folder / "checkpoint"), f"drill-{uuid4().hex}-{self.starts}"
        )
        self.planner = Planner(self.events, self.control, self.job.folder, self.settings)
        batches = BatchProgress.read(self.job.checkpoint)
        self.done = -1 if batches.done is None else batches.done
        self.mark: Mark = (
            mark_at_end_of(self.job.checkpoint, self.done) if self.done >= 0 else self.planner.initial_mark()
        )
        self.end: Any = None  # the Mark of the batch that runs
        if batches.planned is not None and batches.planned > self.done:
            self.end = mark_at_end_of(self.job.checkpoint, batches.planned)
        self.lines: TaskOutput = {}
        self.next = "evaluate" if self.end else "cut"
        self.in_memory: int | None = None  # the batch whose windows shared memory holds

    @property
    def batch_number(self) -> int:
        """The number of the micro-batch that runs, or comes next."""
        return self.done + 1

    def run_next_step(self) -> bool:
        """Runs the next step of the micro-batch; returns False if there is nothing to take."""
        return self._steps[self.next]()

    def run_batch(self) -> None:
        """Runs steps until a micro-batch is committed, or there is nothing to take."""
        while self.run_next_step() and self.next != "cut":
            pass

    def kill_and_restart(self) -> None:
        """Kills the process, and starts another one."""
        was = self.next
        self.kills.append([len(of.records) for of in (*self.control.partitions, *self.events.partitions)])
        shared.remove_private_folder(self.job.start_id)
        self._start()
        killed = say("Killed before “{step}”. Its memory is lost, and a new engine starts.", step=say(was))
        self.story.append(f"{killed} {say(RUNS_AGAIN if self.end else CONTINUES, number=self.batch_number)}")

    def _cut(self) -> bool:
        end = self.planner.advance_mark(self.mark, self.settings.max_batch_records)
        if end == self.mark:
            self.story.append(say("There are no new records to take."))
            return False
        self.end, self.next = end, "evaluate"
        if self.writes_ahead:
            self._write_marks()
        records, changes = (self._records_between(self.mark, end, name) for name in ("events", "control"))
        taken = {"number": self.batch_number, "events": len(records), "changes": len(changes)}
        self.story.append(say(CUT if self.writes_ahead else CUT_IN_MEMORY, **taken))
        return True

    def toggle_write_ahead_log(self) -> None:
        """Breaks or repairs the write-ahead log: from the next cut on, marks are written with the commit, or first again."""
        self.writes_ahead = not self.writes_ahead
        self.story.append(
            say(
                "The write-ahead log works again from the next cut on."
                if self.writes_ahead
                else "The write-ahead log is broken: from the next cut on, marks reach the disk only with the commit."
            )
        )

    def _write_marks(self) -> None:
        self._durably("offsets", f"v1\n{{}}\n{json.dumps(self.end)}")

    def _evaluate(self) -> bool:
        before = self._state()
        [work] = self.planner.plan_reading(self.mark, self.end)
        self.lines = run_single_task(self.job, work)
        self.next, self.in_memory = "deliver", self.batch_number
        alerts = len(self.lines.get("alerts", NO_LINES).keys)
        new = [name for name in self._state() if name not in before]
        written = say("{count} new state file", count=len(new)) if new else _again(before, self._state())
        self.story.append(say(EVALUATED, number=self.batch_number, alerts=alerts, written=written))
        return True

    def _deliver(self) -> bool:
        count, taken = 0, False
        for name, log in self.outs.items():
            before = log.end()
            keys, lines = self.lines.get(name, NO_LINES)
            try:
                log.put_batch_once(
                    self.job.checkpoint, self.batch_number, lines.data, batch_fingerprint(self.end)
                )
            except BatchConflict:
                self.story.append(say(REFUSED, number=self.batch_number))
                return False
            if name == "alerts":
                count, taken = len(keys), log.end() > before
        self.next = "commit"
        values = {"number": self.batch_number, "count": count}
        self.story.append(say((DELIVERED if taken else DELIVERED_BEFORE) if count else NO_ALERTS, **values))
        return True

    def _commit(self) -> bool:
        if str(self.batch_number) not in self._names("offsets"):
            self._write_marks()
        self._durably("commits", "v1\n{}")
        self.story.append(say(COMMITTED, number=self.batch_number))
        self.done, self.mark, self.end, self.next = self.batch_number, self.end, None, "cut"
        return True

    def _durably(self, log: str, text: str) -> None:
        (self.job.folder / log).write(str(self.batch_number), text.encode())

    def _state(self) -> dict[str, bytes]:
        return {name: (self.job.folder / "state").read(name) or b"" for name in self._names("state")}

    def _names(self, folder: str) -> set[str]:
        return set((self.job.folder / folder).names())

    # -- what is seen --------------------------------------------------------------------------------------------------

    def checkpoint_files(self) -> list[str]:
        """The names of the files in the checkpoint."""
        return [
            f"{log}/{name}"
            for log in ("offsets", "commits", "rules", "state")
            for name in sorted(self._names(log), key=_natural_order)
        ]

    @property
    def alerts(self) -> list[dict]:
        """The alerts that were delivered."""
        return [json.loads(line) for line in self.outs["alerts"].read()]

    @property
    def record_outcomes(self) -> Counter[str]:
        """How many records the engine has counted, by what became of them."""
        counts: Counter = Counter()
        for line in self.outs["stats"].read():
            stats = json.loads(line)
            counts.update(
                {name: stats.get(name, 0) for name in ("records", "evaluated", "duplicates", "storedLate")}
            )
        return counts

    def batch_of_record(self, partition: int, offset: int, log: str = "events") -> int | None:
        """The micro-batch whose cut took a record, None if none has yet."""
        marks = self.batch_ends()
        return next((n for n, end in enumerate(marks) if offset < int(end[log].get(str(partition), 0))), None)

    def batch_ends(self) -> list[Mark]:
        """The end of each batch that was planned."""
        names = sorted(self._names("offsets"), key=int)
        planned = [mark_at_end_of(self.job.checkpoint, int(name)) for name in names]
        in_memory = self.end is not None and str(self.batch_number) not in names
        return [*planned, self.end] if self.end is not None and in_memory else planned

    def _records_between(self, start: Mark, end: Mark, name: str) -> list[tuple[int, int]]:
        """(partition, offset) of the records that lie between two marks."""
        return [
            (int(number), offset)
            for number, last in end[name].items()
            for offset in range(int(start[name].get(number, 0)), int(last))
        ]

    def compare_with_reference(self) -> tuple[bool, str]:
        """Whether the delivered alerts are those of the reference for the same records, and a sentence about it."""
        delivered = len({json.loads(line)["batch"] for line in self.outs["stats"].read()})
        order = self.records_in_log_order(delivered)
        log = (("event" if record.is_event else "control", record.value) for record in order)
        reference = evaluate_log(PAYMENTS, log, key_groups=self.settings.key_groups)
        wanted = Counter(alert.alert_id for alert in reference.alerts)
        got = Counter(alert["alertId"] for alert in self.alerts)
        records = self.record_outcomes["records"]
        if got == wanted and records == reference.counts["records"]:
            return True, say(SAME, records=records, alerts=got.total())
        lost, twice = (wanted - got).total(), (got - wanted).total()
        counted = {"records": records, "all": reference.counts["records"]}
        return False, say(DIFFERENT, lost=lost, twice=twice, **counted)

    def records_in_log_order(self, batch_count: int) -> list[EvaluatedRecord]:
        """The records that the first `batch_count` batches read."""
        order: list[EvaluatedRecord] = []
        start: Mark = self.planner.initial_mark()
        newest: dict[tuple[str, int], int] = {}
        for end in self.batch_ends()[:batch_count]:
            taken = []
            for name in ("control", "events"):
                for number, offset in self._records_between(start, end, name):
                    record = self.feed(name).partitions[number].records[offset]
                    time = max(record.log_time, start["cut"], newest.get((name, number), 0))
                    newest[name, number] = time
                    taken.append(EvaluatedRecord(time, name == "events", number, offset, record.value))
            order += sorted(taken)
            start = end
        return order


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key for names of files: 9 comes before 10.

    >>> sorted(["10", "9", "2-0.arrow", "10-0.arrow"], key=_natural_order)
    ['2-0.arrow', '9', '10', '10-0.arrow']
    """
    parts = re.split(r"(\d+)", name)
    return [(int(number), text) for number, text in zip(parts[1::2], parts[2::2])]


def _again(before: dict[str, bytes], after: dict[str, bytes]) -> str:
    """A phrase about the state files if there is no new one."""
    changed = [name for name, data in after.items() if before[name] != data]
    if changed:
        return say("{files} has different bytes than before", files=", ".join(changed))
    return say("its state file already exists, and has the same bytes again" if after else "nothing to store")
