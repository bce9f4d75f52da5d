"""The world of a running engine, kept in memory: it takes over the engine's cuts, and judges events that have not happened.

stats ──a cut──► events, control up to its ends ──► FastReference ◄── would: judges on copies of the event's groups
"""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from operator import itemgetter
from threading import Lock
from typing import Any

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import cut_records, mark_positions
from lab.engine.loop.ends import Logs
from lab.model.enginelogs import READ
from lab.model.jsontext import BadRecord
from lab.model.routestats import RouteTallies
from lab.model.schema import Schema
from lab.model.statuslines import parse_stats
from lab.model.times import now_ms
from lab.model.whenreader import takes_back
from lab.past.fastreference import FastReference
from lab.stream.background import BackgroundTask

POLL_S = 0.02
WAIT_S = 0.5  # for a cut that is being taken over
MOST_STORED = 20_000  # events of the windows that one request looks at
SWEEP_EVERY = 100_000  # records
LOST = {  # what becomes of an event that no rule judges
    "duplicates": "the engine has an event with this id and time",
    "droppedLate": "the event would come too late, and be dropped",
    "storedLate": "the event would come late, and raise no alert",
}


class LiveWorld(BackgroundTask):
    """Follows an engine's logs a cut at a time, with the reference, so its windows are those of the engine at that cut.

    `error`: why it has ended. It begins with the oldest cut of the stats log, so it needs the logs from their beginning. When an
    engine with a new checkpoint takes over the logs, it begins again, with that engine's first cut.
    """

    def __init__(self, logs: Logs, schema: Schema):
        super().__init__("world")
        self._stats, self._settings = logs.log("stats"), Settings(schema)
        self._feeds = {name: logs.feed(name) for name in READ}
        self._written = self._stats.bounds()[1]  # by whatever engines there were
        newest = [*_cuts_in(self._stats.newest(1)[-1:])]
        self._engine_id: str | None = newest[0]["engine"]["id"] if newest else None
        self._cuts = deque[dict[str, Any]]()  # that are not taken over yet
        self._lock, self._told = Lock(), ""  # of another engine
        self._begin()
        self._use(newest[0] if newest else {})

    def _begin(self) -> None:
        """As before an engine's first cut."""
        self._reference, self._swept = FastReference(self._settings.schema), 0
        self._positions: dict[str, dict[int, int]] = {name: {} for name in READ}
        self.cut, self.current_at = -1, 0  # its number; the log time up to which the state has everything

    def steps(self) -> Iterator[float]:
        with ExitStack() as opened:
            for feed in self._feeds.values():
                opened.callback(feed.close)
            stats, begun = opened.enter_context(closing(self._stats.tail())), False
            while True:
                try:
                    if not begun:
                        before = _cuts_in([each.line for each in stats.records(upto=self._written)])
                        self._cuts.extend(each for each in before if each["engine"]["id"] == self._engine_id)
                        begun = True
                    self._cuts.extend(_cuts_in([each.line for each in stats.records()]))
                    yield 0 if self.step() else POLL_S
                except ConnectionError:  # the state becomes older until the broker is back
                    yield 1

    def _follow(self, stats: dict[str, Any]) -> None:
        """Follows the engine that took a cut. Raises ValueError if what it took before is not known."""
        if self._engine_id is not None:
            if stats["batch"]:
                raise ValueError(
                    f"another engine goes on with these logs, at cut {stats['batch']:,}: start this program again"
                )
            self._told = "; another engine has taken over the logs with a new checkpoint, and is followed from their beginning"
            with self._lock:
                self._begin()
        self._engine_id = stats["engine"]["id"]

    def _use(self, stats: dict[str, Any]) -> None:
        """The settings with which the engine took a cut."""
        self._settings = of = self._settings.with_stats_fields(stats.get("engine", {}))
        reference = self._reference
        reference.late_policy, reference.max_out_of_orderness_ms = of.late_policy, of.max_out_of_orderness_ms
        reference.max_future_ms, reference.key_groups = of.max_future_ms, of.key_groups

    def step(self) -> bool:
        """Takes over the next cut. Without one, the state is as new as the logs, if these have nothing more."""
        if not self._cuts:
            now, ends = now_ms(), {name: feed.ends() for name, feed in self._feeds.items()}
            if self.cut >= 0 and not any(
                end > self._positions[name].get(source, 0)
                for name in READ
                for source, end in ends[name].items()
            ):
                self.current_at = now
            return False
        stats = self._cuts[0]
        if stats["engine"]["id"] != self._engine_id:
            self._follow(stats)
        cut, positions = stats["cut"], {name: mark_positions(stats["cut"][name]) for name in READ}
        if stats["batch"] > self.cut:
            records = self._records(positions, cut["from"])
            with self._lock:
                self._use(stats)
                self._take_over(records)
                self._reference.advance_to(cut["to"])
                self._positions, self.cut, self.current_at = positions, stats["batch"], cut["to"]
        elif stats["batch"] == self.cut and positions != self._positions:
            raise ValueError("the engine has begun again with an earlier state: start this program again")
        self._cuts.popleft()
        if self._reference.counts["records"] > self._swept + SWEEP_EVERY:
            self._sweep()
        return True

    def _records(self, upto: dict[str, dict[int, int]], floor: int) -> list[tuple[int, str, bytes]]:
        """(log time, log, record) of a cut in its order: as `cut_records`, and control before events of one log time."""
        found: list[tuple[int, str, bytes]] = []
        for name in ("control", "events"):
            feed, before = self._feeds[name], self._positions[name]
            begun = before if before.keys() >= upto[name].keys() else feed.starts() | before
            records = cut_records(feed, begun, upto[name], floor)
            found += ((each.log_time, name, each.record) for each in records)
        return sorted(found, key=itemgetter(0))

    def _take_over(self, records: Sequence[tuple[int, str, bytes]]) -> None:
        reference = self._reference
        for log_time, name, value in records:
            if name == "control":
                reference.control(value, log_time)
            else:
                reference.event(value, "", log_time)
            for each in (reference.acks, reference.dead_letters, reference.alerts_and_withdrawals):
                each.clear()
        reference.shadow_alerts.clear()
        reference.tallies = RouteTallies()

    def _sweep(self) -> None:
        """Forgets what no window of a group reaches any more, also of groups that have no new events."""
        reference, self._swept = self._reference, self._reference.counts["records"]
        for route, group in list(reference.stored_events):
            reference._expire(route, group)
            if not reference.stored_events[route, group]:
                del reference.stored_events[route, group]

    # -- questions -----------------------------------------------------------------------------------------------------

    def would(self, lines: Sequence[bytes], max_age_ms: int) -> dict[str, Any]:
        """What the engine would make of each record, if it came next, as of its last cut; nothing is stored.

        An answer has the alerts that it would raise, and is `clear` if there are none. A record that no rule would judge is
        refused, and never clear. Raises TimeoutError if the state is older than `max_age_ms`.
        """
        self._check_age(max_age_ms)
        if not self._lock.acquire(timeout=WAIT_S):
            raise TimeoutError("the world is taking over a large cut")
        try:
            now, left, answers = self._check_age(max_age_ms), MOST_STORED, list[dict[str, Any]]()
            for line in lines:
                try:
                    alerts, looked_at = self._judge(line, now, left)
                    left -= looked_at
                    answers.append({"clear": not alerts, "alerts": alerts})
                except BadRecord as error:
                    answers.append({"clear": False, "refused": str(error)})
            return {"answers": answers, "asOf": self.as_of()}
        finally:
            self._lock.release()

    def as_of(self) -> dict[str, int]:
        """The cut, and the log time up to which everything is known, ms."""
        return {"cut": self.cut, "upTo": self.current_at}

    def _check_age(self, max_age_ms: int) -> int:
        """Now, as a log time. Raises TimeoutError."""
        now = max(now_ms(), self._reference.log_time_reached)
        if self.error:
            raise TimeoutError(f"the world has ended: {self.error}")
        if self.cut < 0:
            raise TimeoutError(f"no cut of an engine has been read yet{self._told}")
        if (age := now - self.current_at) > max_age_ms:
            raise TimeoutError(f"the state is {age:,} ms old, expected at most {max_age_ms:,}{self._told}")
        return now

    def _judge(self, line: bytes, now: int, most_stored: int) -> tuple[list[dict[str, Any]], int]:
        """The alerts that a record would raise now, and how many stored events were looked at. Raises BadRecord."""
        schema = self._settings.schema
        events = schema.events(line)
        for event in events:
            schema.check_future(event, now, self._settings.max_future_ms)
            if takes_back(event, schema):
                raise BadRecord("the record takes an event back, expected an event")
        asked, looked_at = self._asked(events, most_stored)
        for event in events:
            asked.evaluate_event(event, now)
        for fate, reason in LOST.items():
            if asked.counts[fate] and not asked.counts["evaluated"]:  # on no route
                raise BadRecord(reason)
        return [json.loads(each.to_json()) for each in asked.alerts], looked_at

    def _asked(self, events: Sequence[dict[str, Any]], most_stored: int) -> tuple[FastReference, int]:
        """The reference with copies of what the events would change, and the number of stored events in it. Raises BadRecord."""
        reference = self._reference
        groups = {
            (route, tuple(event[name] for name in route.keys))
            for event in events
            for route in reference.routes
        }
        groups = {(route, group) for route, group in groups if None not in group}
        if (looked_at := sum(len(reference.stored_events.get(at, ())) for at in groups)) > most_stored:
            raise BadRecord(
                f"its windows have {looked_at:,} events, expected at most {MOST_STORED:,} for a request"
            )
        return reference.fork(groups), looked_at


def _cuts_in(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The lines of the stats log that tell a cut."""
    for line in lines:
        with suppress(ValueError):  # anybody may have written it
            stats = parse_stats(line)
            if {"cut", "engine"} <= stats.keys():
                yield stats
