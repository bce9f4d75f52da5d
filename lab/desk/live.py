"""The world of a running engine, kept in memory: it takes over the engine's cuts, and judges events that have not happened."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from threading import Lock
from time import thread_time
from typing import Any

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.engine.loop.follower import Follower, Judged
from lab.model.enginelogs import READ
from lab.model.jsontext import MAX_LINE_BYTES, BadRecord, decode_text
from lab.model.schema import Schema
from lab.model.statuslines import Cut, cuts_in, engine_of
from lab.model.times import now_ms
from lab.model.whenreader import takes_back
from lab.stream.background import BackgroundTask

POLL_S = 0.02
WAIT_S = 0.5  # for cuts that are being taken over
TOGETHER = 16  # questions that are judged at once
JUDGE_S = 0.5  # of CPU, after which the other questions of a request are refused
LINES = 1_000  # of the stats log, about, that are in memory at a time
LOST = {  # what becomes of an event that no rule judges
    "duplicates": "the engine has an event with this id and time",
    "droppedLate": "the event would come too late, and be dropped",
    "storedLate": "the event would come late, and raise no alert",
}


class LiveWorld(BackgroundTask):
    """Follows an engine's logs with windows of its own, which are those of the engine at its last cut.

    `error`: why it has ended. It begins with the oldest cut of the stats log, so it needs the logs from their beginning. When an
    engine with a new checkpoint takes over the logs, it begins again, with that engine's first cut.
    """

    def __init__(self, logs: Logs, schema: Schema):
        super().__init__("world")
        self._stats, self._schema = logs.log("stats"), schema
        self._feeds = {name: logs.feed(name) for name in READ}
        # by whatever engines there were; None: it is read
        self._written: dict[int, int] | None = self._stats.bounds()[1]
        newest = [*cuts_in(self._stats.newest(1)[-1:])]
        self._engine_id = _id_of(newest[0]) if newest else None
        self._cuts = deque[Cut]()  # that are not taken over yet
        self._lock, self._told = Lock(), ""  # of another engine
        self._begin(engine_of(newest[0]) if newest else {})

    def _begin(self, engine: dict[str, Any]) -> None:
        """As before an engine's first cut. `engine`: what its cuts say about it."""
        self._follower = Follower(self._feeds, Settings(self._schema).with_stats_fields(engine))
        self.current_at = 0  # the log time up to which the state has everything

    @property
    def cut(self) -> int:
        """The number of the last cut that was taken over, -1 before the first."""
        return self._follower.cut

    def steps(self) -> Iterator[float]:
        with ExitStack() as opened:
            for feed in self._feeds.values():
                opened.callback(feed.close)
            stats = opened.enter_context(closing(self._stats.tail()))
            while True:
                try:
                    has_read = False
                    if not self._cuts:
                        lines = [each.line for each in stats.records(LINES, upto=self._written)]
                        has_read = self._read_cuts(lines)
                    yield 0 if self.step() or has_read else POLL_S
                except ConnectionError:  # the state becomes older until the broker is back
                    yield 1

    def _read_cuts(self, lines: Sequence[str]) -> bool:
        """Reads the next part of the stats log; whether there may be more. What was there at the start counts if it is of the newest engine."""
        written = self._written
        self._cuts.extend(each for each in cuts_in(lines) if not written or _id_of(each) == self._engine_id)
        if not lines:
            self._written = None
        return bool(lines or written)

    def _follow(self, stats: Cut) -> None:
        """Follows the engine that took a cut. Raises ValueError if what it took before is not known."""
        if self._engine_id is not None:
            if stats["batch"]:
                raise ValueError(
                    f"another engine goes on with these logs, at cut {stats['batch']:,}: start this program again"
                )
            self._told = "; another engine has taken over the logs with a new checkpoint, and is followed from their beginning"
            with self._lock:
                self._begin(engine_of(stats))
        self._engine_id = _id_of(stats)

    def step(self) -> bool:
        """Takes over the next cuts. Without one, the state is as new as the logs, if these have nothing more."""
        if not self._cuts:
            now, ends = now_ms(), {name: feed.ends() for name, feed in self._feeds.items()}
            if self.cut >= 0 and not any(
                end > self._follower.ends[name].get(source, 0)
                for name in READ
                for source, end in ends[name].items()
            ):
                self.current_at = now
            return False
        if _id_of(self._cuts[0]) != self._engine_id:
            self._follow(self._cuts[0])
        new, told = self._follower.next_cuts(self._cuts)
        if new:
            read = self._follower.read(new)
            with self._lock:
                self._follower.take_over(read)
                self.current_at = read.reached_log_ms
        for _ in range(told):
            self._cuts.popleft()
        return True

    # -- questions -----------------------------------------------------------------------------------------------------

    def would(self, lines: Sequence[bytes], max_age_ms: int, waits: bool = True) -> dict[str, Any]:
        """What the engine would make of each record, if it came next, as of its last cut; nothing is stored.

        An answer has the alerts that it would raise, and is `clear` if there are none. A record that no rule would judge is
        refused, and never clear; nor is one that takes too long. Raises TimeoutError if the state is older than `max_age_ms`, or if a cut
        is being taken over for long; at all, unless it `waits`.
        """
        self._check_age(max_age_ms)
        if not self._lock.acquire(timeout=WAIT_S if waits else 0):
            raise TimeoutError("the world is taking over a large cut")
        try:
            now, answers, began = self._check_age(max_age_ms), list[dict[str, Any]](), thread_time()
            for number in range(0, len(lines), TOGETHER):
                if number and thread_time() - began > JUDGE_S:
                    reason = f"not judged: the {number} questions before it took more than {JUDGE_S:g} s; ask fewer at a time"
                    answers += [refused(reason)] * (len(lines) - number)
                    break
                answers += self._judge(lines[number : number + TOGETHER], now)
            return {"answers": answers, "asOf": self.as_of()}
        finally:
            self._lock.release()

    def as_of(self) -> dict[str, int]:
        """The cut, and the log time up to which everything is known, ms."""
        return {"cut": self.cut, "upTo": self.current_at}

    def _check_age(self, max_age_ms: int) -> int:
        """Now, as a log time. Raises TimeoutError."""
        now = max(now_ms(), self._follower.reached_log_ms)
        if self.error:
            raise TimeoutError(f"the world has ended: {self.error}")
        if self.cut < 0:
            raise TimeoutError(f"no cut of an engine has been read yet{self._told}")
        if (age := now - self.current_at) > max_age_ms:
            raise TimeoutError(f"the state is {age:,} ms old, expected at most {max_age_ms:,}{self._told}")
        return now

    def _judge(self, lines: Sequence[bytes], now: int) -> list[dict[str, Any]]:
        """The answers to records that could come now."""
        read = list[list[dict[str, Any]] | BadRecord]()
        for line in lines:
            try:
                read.append(self._events(line, now))
            except BadRecord as error:
                read.append(error)
        questions = [each for each in read if not isinstance(each, BadRecord)]
        judged = iter(self._follower.would(questions, now))
        return [refused(str(each)) if isinstance(each, BadRecord) else answer(next(judged)) for each in read]

    def _events(self, line: bytes, now: int) -> list[dict[str, Any]]:
        """The events of a record that can be asked about. Raises BadRecord."""
        settings = self._follower.settings
        events = settings.schema.events(line)
        for event in events:
            settings.schema.check_future(event, now, settings.max_future_ms)
            if takes_back(event, settings.schema):
                raise BadRecord("the record takes an event back, expected an event")
        self._check_says_all(line, events[0])  # its legs have the same fields of the record
        return events

    def _check_says_all(self, line: bytes, event: dict[str, Any]) -> None:
        """Raises BadRecord if the record leaves out a field that decides whether a rule in force alerts."""
        schema = self._follower.settings.schema
        empty = [field for field in self._follower.asked_fields() if event[field.name] is None]
        for row in schema.rows_in(decode_text(line, "line", MAX_LINE_BYTES)) if empty else ():
            for field in empty:
                if not field.is_in(row):
                    raise BadRecord(
                        f"{field.label}: missing, expected its value, or null if the event has none: a rule in force asks for it"
                    )


def refused(reason: str) -> dict[str, Any]:
    """The answer to a question that is not judged."""
    return {"clear": False, "refused": reason}


def answer(judged: Judged) -> dict[str, Any]:
    """The answer to a question about a record."""
    if judged.too_long:
        return refused(
            f"not judged: it takes a look at {judged.too_long}; ask about an event as new as the newest of its group, or ask `lab would`"
        )
    for fate, reason in LOST.items():
        if judged.fates[fate] and not judged.alerts:  # those of other routes are told
            return refused(reason)
    # as it has not been logged, it has no log time
    alerts = [
        {name: value for name, value in json.loads(each).items() if name not in ("logTime", "alertTime")}
        for each in judged.alerts
    ]
    return {"clear": not alerts, "alerts": alerts}


def _id_of(cut: Cut) -> str:
    return engine_of(cut).get("id", "")
