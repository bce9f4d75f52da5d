"""For those who extend the engine, and for a kernel without Java: the engine's protocol in this process, without Spark.

marks ──► work ──► tasks ──► lines          what Spark does with the source, a micro-batch in milliseconds
"""

import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Self

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Mark, Planner
from lab.engine.loop.ends import Logs
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.job import Job
from lab.engine.loop.task import evaluate_payloads, route_to_payloads, run_single_task, task_windows
from lab.engine.records.feeds import FileFeed
from lab.engine.windows import shared, undo
from lab.engine.windows.arrays import ROOM_AT_FIRST
from lab.engine.windows.evaluate import TaskOutput
from lab.model.aggregates import aggregates_of
from lab.model.enginelogs import READ
from lab.model.schema import LOGINS, MAX_TIME
from lab.model.times import MINUTE_MS

Entry = tuple[str, bytes]  # ("event", line) or ("control", message)

_starts = count()


class InProcessEngine:
    """An engine that runs a micro-batch when it is told to, on logs of its own or on others.

    >>> from lab.model.schema import PAYMENTS
    >>> with InProcessEngine(Settings(PAYMENTS)) as engine:
    ...     engine.run_batch([("control", b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")])
    ...     engine.run_batch([("event", b"1,2013-01-01 00:00:00,25,12,CSH,50.01")])
    ...     [line.split(",")[3] for line in engine.out["alerts"]]
    ['"key":"{payeeId=25}"']
    """

    def __init__(self, settings: Settings, logs: Logs | None = None):
        self.folder = Path(tempfile.mkdtemp(prefix="lab-inprocess-"))
        self.own_logs = FileLogs(self.folder / "logs")
        self.settings, self.logs = settings, logs or self.own_logs
        self.out: dict[str, list[str]] = defaultdict(list)
        self._log_time = MAX_TIME  # of logs of its own, after any event; others have the real time
        start_id = f"{id(self)}-{next(_starts)}"
        self.job = Job(settings, self.logs, str(self.folder / "checkpoint"), start_id)
        feeds = (
            map(logs.feed, READ)
            if logs
            else (FileFeed(self.own_logs.log_folder(name), self._clock) for name in READ)
        )
        events, control = feeds
        self.planner = Planner(events, control, self.job.folder, settings)
        self.mark: Mark = self.planner.initial_mark()

    def _clock(self) -> int:
        """Of logs of its own."""
        return self._log_time + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Removes what it wrote, but for the logs that it was given."""
        shared.remove_private_folder(self.job.start_id)
        rmtree(self.folder)

    def run_batch(self, entries: Sequence[Entry]) -> None:
        """Logs the entries, in this order, in logs of its own, and runs one micro-batch."""
        for log, lines in split_at_messages(entries):
            self._log_time += 1
            self.own_logs.log("events" if log == "event" else log).append(lines, self._log_time)
        self.step()

    def step(self) -> bool:
        """Runs a micro-batch of what is new in the logs; False if nothing is."""
        due_ms = self.planner.next_absence_check_ms(self.mark)
        end = self.planner.advance_mark(self.mark, self.settings.max_batch_records, due_ms=due_ms)
        if end == self.mark:
            return False
        for lines in self.run_tasks(self.mark, end):
            for log, (_, values) in lines.items():
                self.out[log] += values
        self.mark = end
        return True

    def run_tasks(self, start: Mark, end: Mark) -> list[TaskOutput]:
        """What the tasks of the current micro-batch give, between two marks; the batch is not yet done with that."""
        works = self.planner.plan_reading(start, end)
        if self.settings.parallelism == 1:
            return [run_single_task(self.job, works[0])]
        payloads: dict[int, list[bytes]] = defaultdict(list)
        for number, work in enumerate(works):
            for task, payload in route_to_payloads(self.job, number, work):
                payloads[task].append(payload)
        return [evaluate_payloads(self.job, task, of) for task, of in payloads.items()]

    def lose_memory(self) -> None:
        """As if all workers had died: the next micro-batch finds only what is in files."""
        for note in shared.private_folder(self.job.start_id).glob("*/lock"):
            note.write_text("")


def split_at_messages(entries: Sequence[Entry]) -> list[tuple[str, list[bytes]]]:
    """Entries as appends: events between two control messages, and each control message."""
    appends: list[tuple[str, list[bytes]]] = []
    for log, line in entries:
        if appends and appends[-1][0] == log == "event":
            appends[-1][1].append(line)
        else:
            appends.append((log, [line]))
    return appends


def compile_kernels() -> None:
    """Has Numba compile all kernels of the engine into its cache, so that no micro-batch waits for them."""
    rule = b"%d,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
    with InProcessEngine(Settings()) as engine:
        for number in (1, 2):
            engine.run_batch(
                [
                    ("control", rule % number),
                    *[("event", b"%d,2013-01-01 00:00:00,25,12,CSH,51" % number)] * 2,
                ]
            )
            for store in task_windows(engine.job, 0).windows.stores.values():
                undo.compile_kernels(store)
            engine.lose_memory()
    _compile_for_absence_and_growth()


def _compile_for_absence_and_growth() -> None:
    """Runs rules of each kind that has kernels of its own, with more groups than there is room for at first and an event taken back."""
    per_user: dict[str, object] = {"ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "window": "1m"}
    counts: dict[str, object] = {"limitOperatorType": ">=", "limit": 1}
    rules: list[dict[str, object]] = [{"ruleId": 1, "absence": True}]
    rules += [
        counts | {"ruleId": number, "aggregatorFunctionType": name, "unique": ["ip"]}
        for number, name in enumerate((*aggregates_of("events"), *aggregates_of("unique")), 2)
    ]
    event = '{"eventId": %d, "eventTime": %d, "userId": %d, "action": "%s", "ip": "%d"}'
    logins = [event % (n, n, n, "login", n) for n in range(ROOM_AT_FIRST + 1)]
    with InProcessEngine(Settings(replace(LOGINS, taken_back="action = returned"))) as engine:
        engine.run_batch([("control", json.dumps(per_user | rule).encode()) for rule in rules])
        engine.run_batch([("event", line.encode()) for line in logins])
        of = {"aggregatorFunctionType": aggregates_of("field")[0], "aggregateFieldName": "amount"}
        # a field that the stored events do not have
        engine.run_batch([("control", json.dumps(per_user | counts | of | {"ruleId": 99}).encode())])
        engine.run_batch([("event", (event % (0, 0, 0, "returned", 0)).encode())])
        engine.lose_memory()
        engine._log_time += 2 * MINUTE_MS
        engine.step()
