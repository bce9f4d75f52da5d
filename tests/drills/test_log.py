"""A kind of log is one file: a table of SQLite, added by this file alone, carries events, rules and alerts of an engine."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Self

import numpy as np
import pytest

from lab.cli.main import OK, main
from lab.engine.checkpoint.cuts import Cut, CutId
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import ends
from lab.engine.loop.ends import Logs, Outlet
from lab.engine.loop.inprocess import InProcessEngine, split_at_messages
from lab.engine.records.feeds import Feed, PartitionRecords
from lab.logs.config import Config
from lab.logs.positions import Positions, Record, advance_expired_positions
from lab.logs.protocol import Log, NoLog, Tail
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS, PAYMENTS
from lab.model.times import now_ms
from lab.running.localengine import LocalEngine
from lab.running.target import locate, schema_of_events
from tests.engine import randomlogs
from tests.engine.test_inprocess import assert_same
from tests.waiting import wait_until

TABLES = (
    "CREATE TABLE IF NOT EXISTS record (log TEXT, position INTEGER, log_time INTEGER, key TEXT, value BLOB, PRIMARY KEY (log, position))",
    "CREATE TABLE IF NOT EXISTS cut (writer TEXT, number INTEGER, PRIMARY KEY (writer, number))",
)
clock = now_ms


@dataclass(frozen=True)
class SqliteLog(Log):
    """The rows of one log in the table `record` of a database."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"sqlite://{self.file}/{self.name}"

    @property
    def absolute_name(self) -> str:
        return f"sqlite://{self.file.absolute()}/{self.name}"

    def open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, timeout=60, isolation_level=None)

    def create(self) -> None:
        with closing(self.open()) as database:
            for table in TABLES:
                database.execute(table)

    def add(
        self, database: sqlite3.Connection, lines: Iterable[str | bytes], keys: Iterable[str]
    ) -> list[str]:
        [(end, newest)] = database.execute(
            "SELECT count(*), coalesce(max(log_time), 0) FROM record WHERE log = ?", (self.name,)
        )
        at = max(newest, clock())
        values = [line.encode() if isinstance(line, str) else line for line in lines]
        rows = [(self.name, end + n, at, key, value) for n, (key, value) in enumerate(zip(keys, values))]
        database.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?)", rows)
        return [self.place_of(0, position) for _, position, *_ in rows]

    def append(self, lines: Iterable[str | bytes]) -> None:
        lines = list(lines)
        self.publish(lines, [""] * len(lines))

    def publish(self, lines: Sequence[str | bytes], keys: Sequence[str]) -> list[str]:
        with closing(self.open()) as database:
            database.execute("BEGIN IMMEDIATE")
            places = self.add(database, lines, keys)
            database.execute("COMMIT")
            return places

    def bounds(self) -> tuple[Positions, Positions]:
        with closing(self.open()) as database:
            [(end,)] = database.execute("SELECT count(*) FROM record WHERE log = ?", (self.name,))
            return {0: 0}, {0: end}

    def rows(self, start: int, end: int) -> list[tuple[int, int, str, bytes]]:
        with closing(self.open()) as database:
            return database.execute(
                "SELECT position, log_time, key, value FROM record WHERE log = ? AND position >= ? AND position < ? ORDER BY position",
                (self.name, start, end),
            ).fetchall()

    def tail(self, new: bool = False, at: Positions | None = None) -> "SqliteTail":
        starts, end = self.bounds()
        positions = advance_expired_positions(self, at, starts, end) if at else end if new else starts
        return SqliteTail(self, positions)


class SqliteTail(Tail):
    expired = ""

    def __init__(self, log: SqliteLog, positions: Positions):
        self._log, self._positions = log, positions

    @property
    def positions(self) -> Positions:
        return self._positions

    def records(self, at_most: int | None = None, upto: Positions | None = None) -> list[Record]:
        end = (upto or self._log.bounds()[1])[0]
        start = self._positions[0]
        rows = self._log.rows(start, min(end, start + at_most) if at_most else end)
        self._positions = {0: start + len(rows)}
        return [
            Record(log_time, key, value.decode(), self._log.place_of(0, position))
            for position, log_time, key, value in rows
        ]


class SqliteFeed(Feed):
    def __init__(self, log: SqliteLog):
        self._log = log

    def clock(self) -> int:
        return clock()

    def starts(self) -> Positions:
        return {0: 0}

    def sync_clock(self) -> None:
        return

    def ends(self) -> Positions:
        with closing(self._log.open()) as database:
            database.execute("BEGIN IMMEDIATE")  # waits for whoever has a log time and has not yet written
            database.execute("ROLLBACK")
        return self._log.bounds()[1]

    def ends_before(self, log_time: int, starts: Positions, ends: Positions) -> Positions:
        with closing(self._log.open()) as database:
            found = database.execute(
                "SELECT count(*) FROM record WHERE log = ? AND log_time < ?", (self._log.name, log_time)
            ).fetchone()
        return {0: min(found[0], ends[0])}

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[PartitionRecords]:
        for start, end in ranges.values():
            if rows := self._log.rows(start, end):
                positions, times, _, values = zip(*rows)
                yield PartitionRecords(str(self._log), 0, positions, values, np.maximum(times, floor))


@dataclass(frozen=True)
class SqliteOutlet(Outlet):
    """All logs of a cut in one transaction, once."""

    logs: "SqliteLogs"
    writer: str

    def put(self, cut: Cut, output, redelivered: frozenset[CutId]) -> None:
        with closing(self.logs.log("alerts").open()) as database:
            database.execute("BEGIN IMMEDIATE")
            if database.execute(
                "INSERT OR IGNORE INTO cut VALUES (?, ?)", (self.writer, cut.number)
            ).rowcount:
                for name, (keys, lines) in output.items():
                    self.logs.log(name).add(database, lines, keys)
            database.execute("COMMIT")

    def flush(self) -> None:
        return


@dataclass(frozen=True)
class SqliteLogs(Logs):
    """`sqlite://FILE`, and `sqlite://FILE/LOG` for one log."""

    file: Path

    @classmethod
    def at(cls, where: str | None, places: Mapping[str, str], config: Config) -> Self:
        return cls(Path((where or next(iter(places.values())).rpartition("/")[0]).removeprefix("sqlite://")))

    @classmethod
    def existing_at(cls, where: str) -> Self:
        logs = cls.at(where, {}, Config())
        logs.existing("events")
        return logs

    @classmethod
    def beside(cls, events: str, config: Config) -> Self:
        return cls.at(None, {"events": events}, config)

    @classmethod
    def open_log(cls, place: str, config: Config) -> SqliteLog:
        return cls.beside(place, config).log(place.rpartition("/")[2])

    @property
    def name(self) -> str:
        return f"sqlite://{self.file}"

    @property
    def default_checkpoint(self) -> Path:
        return self.file.parent / "checkpoint"

    def log(self, name: str) -> SqliteLog:
        return SqliteLog(self.file, name)

    def log_name(self, name: str) -> str:
        return name

    def create(self, *, named_events: bool = True) -> bool:
        self.log("events").create()
        return False

    def create_log(self, name: str) -> None:
        self.log(name).create()

    def create_for_commands(self) -> None:
        return

    def existing(self, name: str) -> SqliteLog:
        if not self.file.exists():
            raise NoLog(f"{self.file}: no such database")
        return self.log(name)

    def feed(self, name: str) -> SqliteFeed:
        return SqliteFeed(self.log(name))

    def outlet(self, writer: str) -> SqliteOutlet:
        return SqliteOutlet(self, writer)

    def sink(self, output, checkpoint, writer: str):
        raise NotImplementedError

    def to_sink_rows(self, keys: list[str], lines) -> tuple[list[str], list]:
        return keys, list(lines)


@pytest.fixture
def logs(tmp_path, monkeypatch) -> SqliteLogs:
    """The logs, of a kind that the registry names."""
    monkeypatch.setitem(ends.KINDS, "sqlite", f"{__name__}.SqliteLogs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    logs = SqliteLogs(tmp_path / "lab.db")
    logs.create()
    assert locate(logs.name).logs == logs
    return logs


def test_rules_and_alerts_of_a_running_engine_go_through_it_once(logs, capsys):
    place = ["--logs", logs.name]
    engine = LocalEngine(logs, Settings(PAYMENTS), 0.01)
    engine.start()
    try:
        assert main(["rules", "add", "1: SUM(paymentAmount) per payeeId over 20 min > 50", *place]) == OK
        assert "accepted: rule 1 version 1 ACTIVE" in capsys.readouterr().out
        assert main(["rules", "list", *place]) == OK and "SUM(paymentAmount)" in capsys.readouterr().out
        lines = [f"{number},2013-01-01 00:00:0{number},25,12,CSH,30" for number in range(5)]
        logs.log("events").append([*lines, "no event"])
        alerts = logs.log("alerts")
        wait_until(lambda: len(alerts.read()) >= 4, alive=engine.is_alive, said=lambda: engine.error)
    finally:
        engine.stop()
    assert [json.loads(line)["eventId"] for line in alerts.read()] == [1, 2, 3, 4]
    letters = [json.loads(line) for line in logs.log("deadLetters").read()]
    assert [letter["place"] for letter in letters] == [f"{logs.log('events')}/0:5"]
    for _ in range(2):  # the bookmark knows where the first ended
        assert main(["alerts", "--from", "saved", *place]) == OK
    assert capsys.readouterr().out.count("rule 1 v1") == 4
    assert main(["export", *place, "--to", f"sqlite:///{logs.file}.export"]) == OK
    assert "4 alerts from" in capsys.readouterr().err


def test_its_events_are_a_source_and_the_stream_flows_into_it(logs, capsys):
    events = str(logs.log("events"))
    assert main(["simulate", "payments", "--rate", "200", "--seconds", "1", "--to", events]) == OK
    count = len(logs.log("events").read())
    assert count > 50
    capsys.readouterr()
    assert main(["infer", events, "--id", "transactionId", "--time", "eventTime"]) == OK
    assert "paymentAmount" in capsys.readouterr().out
    assert schema_of_events(events) is None


def test_an_engine_on_it_finds_in_random_logs_what_the_reference_finds(tmp_path, monkeypatch):
    alerts = 0
    for seed in range(20):
        log, times = randomlogs.random_log(Random(seed), short=True), count(1 << 40)
        monkeypatch.setattr(f"{__name__}.clock", lambda times=times: next(times))
        logs = SqliteLogs(tmp_path / f"{seed}.db")
        logs.create()
        with InProcessEngine(Settings(LOGINS), logs) as engine:
            for at in range(0, len(log), 15):
                for kind, lines in split_at_messages(log[at : at + 15]):
                    logs.log("events" if kind == "event" else kind).append(lines)
                engine.step()
            reference = evaluate_log(LOGINS, log)
            assert_same(engine.out, reference)
        alerts += len(reference.alerts)
    assert alerts > 20


def test_no_other_code_of_the_kit_names_a_kind_of_log():
    """But for the registry, and what is built on one kind."""
    asking = [
        f"{path.name}: {line.strip()}"
        for path in Path(ends.__file__).parents[2].rglob("*.py")
        for line in path.read_text().splitlines()
        if "isinstance(" in line and any(name in line for name in ("FileLog", "KafkaLog"))
    ]
    assert not asking
