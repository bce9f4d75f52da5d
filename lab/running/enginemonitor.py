"""The notices of `lab run`: one sentence for each kind of problem, not one for each record."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from lab.engine.checkpoint.record import cut_mark, last_saved_mark, read_record
from lab.engine.loop.ends import Logs
from lab.logs.positions import Record
from lab.logs.protocol import NoLog
from lab.logs.reading import parse_records
from lab.model.deadletters import error_kind, reason_without_value
from lab.model.enginelogs import WRITTEN
from lab.model.formatting import shorten
from lab.model.routestats import WARNINGS
from lab.model.schema import PAYMENTS, SCHEMAS, Schema
from lab.model.statuslines import parse_ack, parse_dead_letter, parse_stats
from lab.model.times import now_ms, rounded_duration_words
from lab.running.report import StatsReport
from lab.sources.infer import unmatched_field_warnings

JUST_NOW_MS = 3_000  # an engine that gets events writes to the stats log more often than this
AGAIN_S = 20.0  # a notice of one kind is shown at most this often
STALE_S = 60.0  # there is a cut at least this often while events wait
FIRST_CUT_S = 5.0  # what an engine has not delivered then is late
NEW_S = 60.0  # an engine that has run for longer does not stop because a log shows another engine
OUTPUTS_S = 15.0  # how often it looks whether the logs that the engine writes are still there
SHOWN = 200  # characters of a reason, before an ellipsis
FAR_AHEAD_MS = 60_000
ENOUGH, SAMPLE = 100, 1_000  # records that make a path worth missing, and that are looked at
APPEND = {  # log -> what appends a file to it
    "events": "lab simulate --events {file} --to {log}",
    "control": "lab rules add {file} --rules {log}",
}
MEANINGS = {  # count -> what it means
    "duplicates": "times an event had the id and time of an earlier one of its group on a route: it was not counted again",
    "droppedLate": "times an event was too late for a route, and dropped there",
    "datedLikeSeconds": "events dated before March 1973: are their times in seconds? If so, the schema must say it (lab infer)",
    "nanAsNull": "values of NaN, Infinity or -Infinity read as null",
    "diskWaitMs": "milliseconds in which saves waited for the checkpoint's disk: alerts came so much later",
}
REJECTED = "control messages rejected"  # a kind of notice
AGAIN = "`lab run` creates it at its next start, and continues"
UNREMARKABLE = {"diskWaitMs": 500}  # count -> what nobody has to know, of one look


class BrokersAwayTooLong(ConnectionError):
    """The brokers have not answered for as long as `--give-up-after` allows."""


class OutputGone(RuntimeError):
    """A topic that the engine writes to was deleted. The message names it."""


class TwoEngines(RuntimeError):
    """An engine with another checkpoint writes the same logs."""

    def __init__(self, log: object, stats: dict):
        end = stats["times"].get("end")
        ago = "" if end is None else f" {max(now_ms() - end, 0) / 1000:.1f} s ago"
        super().__init__(
            f"an engine with another checkpoint wrote to {log}{ago}, so each alert would come twice: stop one "
            "of the two engines, or let this one write to other logs (--alerts, --acks, --dead-letters, --stats)"
        )


class EngineMonitor:
    """Watches an engine's logs and checkpoint while it runs, and survives brokers that are away.

    `give_up_after_s`: how long brokers may be away. `on_stats` is called with the stats of each micro-batch, `on_ack` with each answer
    to a control message. `clock`: seconds, for tests.
    `schema`: that of the events; a user's own schema is compared with real records. `show_bad_values`: shows the values of bad records.
    """

    def __init__(
        self,
        logs: Logs,
        checkpoint: Path | str,
        give_up_after_s: float = float("inf"),
        on_stats: Callable[[dict], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        schema: Schema = PAYMENTS,
        show_bad_values: bool = False,
        on_ack: Callable[[dict], None] | None = None,
    ):
        self._show_bad_values, self._on_ack = show_bad_values, on_ack
        self.report, self._started = StatsReport(logs.log("stats"), on_stats), now_ms()
        self._logs, self._checkpoint, self._clock, self._give_up_after_s = (
            logs,
            checkpoint,
            clock,
            give_up_after_s,
        )
        self._began = clock()
        self._letters = logs.log("deadLetters").tail(new=True)
        self._acks = logs.log("acks").tail(new=True)
        self._rejected: list[dict] = []  # the first rejection that is still to say
        self._output_ids, self._outputs_seen = _topic_ids(logs), clock()
        self._away: tuple[float, str] | None = None  # since when, and what the client says
        self._counts: Counter[str] = Counter()  # what is still to say
        self._bad: dict[str, dict] = {}  # kind -> the first such dead letter
        self._said: dict[str, float] = {}
        self._lost: dict[str, int] = {}  # by routes that were said to lose events
        self._back, self._second = "", False
        self._id: str | None = None  # of the checkpoint, once it is made
        self._found_foreign: dict[str, int] = {}  # sentences, and how often they were found in a row
        self._group_taken = False  # by another program, as was said
        self._newest: tuple[dict | None, float] = None, clock()  # the newest cut, and since when it is
        self._waited: int | None = None  # how many events waited when the engine started
        self._events_wait = False  # as the last look at an engine without cuts showed
        # paths are checked once; the kit's own schemas have optional fields that nobody misses
        self._schema = None if schema in SCHEMAS.values() else schema

    def read(self) -> Counter[str]:
        """What the engine did since the last call; nothing while the brokers are away.

        Raises BrokersAwayTooLong, OutputGone, TwoEngines.
        """
        now = self._clock()
        try:
            new = self.report.read()
            for _, letter in parse_records(self._letters.records(), parse_dead_letter, self.report.left_out):
                kind = error_kind(letter["reason"])
                self._bad.setdefault(kind, letter)
                self._counts[kind] += 1
            for _, ack in parse_records(self._acks.records(), parse_ack, self.report.left_out):
                self._add_ack(ack)
            self._check_outputs(now)
        except ConnectionError as error:
            since = self._away[0] if self._away else now
            self._away = since, str(error)
            if self._clock() - since >= self._give_up_after_s:
                raise BrokersAwayTooLong(
                    f"gave up after {rounded_duration_words(1000 * (self._clock() - since))}: {error}; started again, it continues"
                ) from None
            return Counter()
        if self._away:
            away_ms = 1000 * (self._clock() - self._away[0])  # the answer itself may have been long in coming
            self._back = f"Kafka answers again after {rounded_duration_words(away_ms)}"
            self._away = None
        self._counts.update({name: new[name] for name in MEANINGS if new[name] > UNREMARKABLE.get(name, 0)})
        for stats in self._others(self.report.engines.values()):
            if stats["engine"]["since"] < self._started and now < self._began + NEW_S:
                raise TwoEngines(self._logs.log("stats"), stats)
            self._second = True
        return new

    def _add_ack(self, ack: dict) -> None:
        if ack["status"] == "rejected":
            self._rejected = self._rejected or [ack]
            self._counts[REJECTED] += 1
        if self._on_ack:
            self._on_ack(ack)

    def _check_outputs(self, now: float) -> None:
        """Raises OutputGone if a topic that the engine writes to was deleted: Spark's sink would wait for it for ever."""
        if now < self._outputs_seen + OUTPUTS_S:
            return
        self._outputs_seen = now
        for name, topic_id in self._output_ids.items():
            try:
                self._logs.log(name).check_topic_id(topic_id, AGAIN)
            except NoLog:
                raise OutputGone(
                    f"{self._logs.log(name)} was deleted while the engine ran; {AGAIN}"
                ) from None

    def _others(self, lines: Iterable[dict]) -> list[dict]:
        """The stats of engines with other checkpoints."""
        self._id = mine = self._id or (read_record(self._checkpoint) or {}).get("id")
        return [stats for stats in lines if stats.get("engine", {}).get("id", mine) != mine]

    def check_no_other_engine(self) -> None:
        """Raises TwoEngines if the newest line of the stats topic comes from another engine that runs now. Folders have a lock."""
        if self._logs.excludes_others:
            return
        log = self._logs.log("stats")
        newest = [Record(0, "", line, f"{log}, its newest line") for line in log.newest(1)]
        said = [stats for _, stats in parse_records(newest, parse_stats, self.report.left_out)]
        for stats in self._others(said):
            if stats["times"].get("end", 0) > self._started - JUST_NOW_MS:
                raise TwoEngines(log, stats)

    def due_notices(self) -> Iterator[str]:
        """The notices that are due now."""
        if self._away:
            since, error = self._away
            if self._due("away"):
                yield f"waiting for Kafka for {rounded_duration_words(1000 * (self._clock() - since))}, nothing is lost: {error}"
            return
        if self._back:
            yield self._back
            self._back = ""
            self._said.pop("away")
        for kind in sorted(self._counts):
            if self._due(kind):
                yield self._sentence(kind, self._counts.pop(kind))
        yield from self._losses()
        if self._second and self._due("second"):
            yield (
                f"another engine, with another checkpoint, writes to {self._logs.log('stats')}: if it started just now, it stops by "
                "itself; otherwise stop one of the two, because alerts come twice; if there is no such engine, somebody else writes "
                "there (docs/threat-model.md)"
            )
            self._second = False
            self.report.engines.clear()
        done = cut_mark(self._checkpoint)
        yield from self._first_cut()
        yield from self._ahead(done)
        yield from self._stale(done)
        yield from self._refused_commits()
        yield from self._foreign()
        if self._schema and self.report.total["records"] >= ENOUGH:
            with suppress(ConnectionError):
                lines = self._logs.log("events").newest(SAMPLE)
                yield from unmatched_field_warnings(self._schema, [line.encode() for line in lines])
                self._schema = None

    def _losses(self) -> Iterator[str]:
        """Notices about routes that lose many of their events, and have lost more since the last such notice."""
        for name, tally in self.report.routes.routes_with_notable_loss()[:WARNINGS]:
            if tally.lost_count > self._lost.get(name, 0) and self._due(f"route {name}"):
                self._lost[name] = tally.lost_count
                yield tally.warning(name)

    def _due(self, kind: str) -> bool:
        now = self._clock()
        if now < self._said.get(kind, -AGAIN_S) + AGAIN_S:
            return False
        self._said[kind] = now
        return True

    def _sentence(self, kind: str, count: int) -> str:
        if kind in MEANINGS:
            what, _, meaning = MEANINGS[kind].partition(" ")
            return f"{count:,} {what if count > 1 else what[:-1]} {meaning}"
        if kind == REJECTED:
            ack = self._rejected.pop()
            some = f"{count:,} control messages were" if count > 1 else "1 control message was"
            first = "the first at" if count > 1 else "at"
            return f"{some} rejected ({first} {ack['place']}): {shorten(ack['reason'], SHOWN + 1)}"
        letter = self._bad.pop(kind)
        reason = letter["reason"] if self._show_bad_values else reason_without_value(letter["reason"])
        first = "the first at" if count > 1 else "at"
        return f"{count:,} dead letter{'s' * (count > 1)}: {shorten(reason, SHOWN + 1)} ({first} {letter['place']})"

    def _first_cut(self) -> Iterator[str]:
        """A notice while events wait and the engine has not delivered anything since it started: the first cut of a backlog is large."""
        if self.report.total or self._clock() < self._began + FIRST_CUT_S or not self._due("first cut"):
            return
        if self._waited is None:
            self._waited, events = 0, self._logs.log("events")
            saved = (last_saved_mark(self._checkpoint) or {}).get("events", {})
            starts = {int(number): position for number, position in saved.items()}
            with (
                suppress(ConnectionError),
                closing(events.tail()) as oldest,
                closing(events.tail(new=True)) as newest,
            ):
                starts = oldest.positions | starts
                self._waited = events.records_between(starts, newest.positions)
        if self._waited:
            seconds = self._clock() - self._began
            some = f"about {self._waited:,} events wait" if self._waited > 1 else "1 event waits"
            yield f"{some}; the engine evaluates its first cut since the start, {seconds:.0f} s ago"

    def _ahead(self, done: dict | None) -> Iterator[str]:
        """A notice if the log time of the last cut is far ahead of this computer's clock."""
        ahead_ms = done["cut"] - done["at"] if done else 0
        if ahead_ms >= FAR_AHEAD_MS and self._due("ahead"):
            ahead = rounded_duration_words(ahead_ms)
            yield f"log times are {ahead} ahead of this computer's clock; a producer's or broker's clock may be wrong: see docs/kafka.md"

    def _stale(self, done: dict | None) -> Iterator[str]:
        """A notice if events wait although no cut comes, at two looks: at one alone they may have come just now."""
        now = self._clock()
        if done != self._newest[0]:
            self._newest, self._events_wait = (done, now), False
        waited_s = now - self._newest[1]
        if done and waited_s >= STALE_S and self._due("stale"):
            with suppress(ConnectionError):
                ends = self._logs.feed("events").ends()
                waited = self._events_wait
                self._events_wait = any(
                    end > done["events"].get(str(number), 0) for number, end in ends.items()
                )
                if waited and self._events_wait:
                    yield (
                        f"no cut for {rounded_duration_words(1000 * waited_s)} although events wait; if none comes, stop this engine and "
                        "start it again: it continues, and nothing is lost (what Spark says is in spark.log)"
                    )

    def _foreign(self) -> Iterator[str]:
        """Notices, each once, about what another program has put into the folders that the engine reads."""
        found = [
            each for name, append in APPEND.items() for each in self._logs.log(name).unread_bytes(append)
        ]
        # an append that is running has written other bytes the next time
        yield from (sentence for sentence in found if self._found_foreign.get(sentence) == 1)
        self._found_foreign = {sentence: self._found_foreign.get(sentence, 0) + 1 for sentence in found}

    def _refused_commits(self) -> Iterator[str]:
        """A notice, once, if the consumer group cannot follow the engine because other programs have joined it."""
        if not self._group_taken and self._due("group") and (notice := self._logs.progress_notice()):
            self._group_taken = True
            yield notice

    def lag(self) -> int | None:
        """How many records of the events topic no finished micro-batch has taken; None if that is unknown, as with files."""
        # the newest mark of the checkpoint may be of a cut that is not evaluated yet
        done = self.report.events_end
        feed = self._logs.feed("events")
        if not feed.positions_are_records or self._away or done is None:
            return None
        try:
            ends = feed.ends()
        except ConnectionError:
            return None
        return sum(max(end - done.get(str(number), 0), 0) for number, end in ends.items())

    def close(self) -> None:
        """Closes the logs."""
        self._letters.close()
        self._acks.close()


def _topic_ids(logs: Logs) -> dict[str, str]:
    """The ids of the topics that an engine writes to; none of logs without ids."""
    ids = dict[str, str]()
    for name in WRITTEN:
        with closing(logs.log(name).tail(new=True)) as tail:
            ids[name] = tail.topic_id
    return {name: topic_id for name, topic_id in ids.items() if topic_id}
