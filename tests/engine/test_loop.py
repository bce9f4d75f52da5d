"""The loop on file logs: epochs of many cuts, runs that break off and begin again."""

import json
import os
import time
from itertools import count
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace

import pytest

from lab.engine.checkpoint.cuts import CutLog, TakenOver
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.ledger import FOLDER as RULES
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import epochs
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import Entry
from lab.engine.loop.job import Job
from lab.engine.records.feeds import LogLost
from lab.engine.windows import shared, statemerge
from lab.model.enginelogs import READ
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule, login

LOG = [count_rule(">", 0, "5m"), *(login(number, 100 + number) for number in range(9))]


STARTS = count()


class Engine:
    """An engine that one runs by hand."""

    def __init__(self, folder: Path):
        self.logs, self.checkpoint = FileLogs(folder / "logs"), folder / "checkpoint"
        self.start()

    def start(self) -> None:
        """As a process that finds nothing but the disk."""
        name = f"test-loop-{os.getpid()}-{next(STARTS)}"
        self.job = Job(Settings(LOGINS), self.logs, str(self.checkpoint), name)

    def epoch(self):
        """The newest epoch that is not saved, or the next one."""
        events, control = map(self.logs.feed, READ)
        planner = Planner(events, control, self.job.folder, self.job.settings)
        cuts = CutLog(self.job.folder, planner.mark_at_start_of_logs())
        return running_epoch(self.job, planner, cuts, self.logs.outlet("test").put)

    def log(self, entry: Entry) -> None:
        self.logs.log("events" if entry[0] == "event" else entry[0]).append([entry[1]])

    def out(self, name: str) -> list[dict]:
        return [json.loads(line) for line in self.logs.log(name).read()]

    def close(self) -> None:
        rmtree(shared.private_folder(self.job.start_id), ignore_errors=True)


@pytest.fixture
def engine(tmp_path):
    engine = Engine(tmp_path)
    yield engine
    engine.close()


def cut(running, engine: Engine, entry: Entry) -> None:
    """Logs an entry and has it taken as soon as the clock is past it."""
    engine.log(entry)
    while not running.step():
        pass


def assert_same(engine: Engine) -> None:
    alerts = [(alert.alert_id, alert.aggregate) for alert in evaluate_log(LOGINS, LOG).alerts]
    assert [(alert["alertId"], int(alert["aggregate"])) for alert in engine.out("alerts")] == alerts
    assert [line["batch"] for line in engine.out("stats")] == list(range(len(LOG)))


def test_an_epoch_has_many_cuts_and_one_state_file(engine):
    for number in range(2):
        with engine.epoch() as running:
            for entry in LOG[5 * number : 5 * number + 5]:
                cut(running, engine, entry)
            assert len((engine.job.folder / "state").names()) == number
    assert (engine.job.folder / "state").names() == [
        f"{number:09d}-{number:09d}-00000-00015.arrow" for number in range(2)
    ]
    assert_same(engine)


def test_files_are_merged_in_the_pauses_of_an_epoch_and_the_new_one_is_written_when_the_next_is_saved(
    engine, monkeypatch
):
    """
    epoch    0 ▪    1 ▪    2, with pauses ▪    3 ▪, 0 … 1 ▬    4 ▪, 2 … 3 ▬     the second one without pauses: another is due
    """
    slept = []
    monkeypatch.setattr(statemerge, "MERGED_AT_ONCE", 2)
    # threads of other tests may sleep, too
    monkeypatch.setattr(epochs, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))

    def chain() -> list[tuple[int, int]]:
        return [(file.first_epoch, file.last_epoch) for file in running._state.chain]

    seen = []
    for number in range(5):
        with engine.epoch() as running:
            for entry in LOG[2 * number : 2 * number + 2]:
                cut(running, engine, entry)
            for _ in range(20 if number == 2 else 0):
                running.pause(0.0)
            assert not slept
        seen.append(chain())
    assert seen[1:] == [
        [(0, 0), (1, 1)],
        [(0, 0), (1, 1), (2, 2)],
        [(0, 1), (2, 2), (3, 3)],
        [(0, 1), (2, 3), (4, 4)],
    ]
    with engine.epoch() as running:
        begun = time.monotonic()
        running.pause(0.5)
        assert 0.5 - (time.monotonic() - begun) <= sum(slept) <= 0.5
    engine.close()
    engine.start()
    with engine.epoch() as running:
        pass
    assert_same(engine)


def test_a_merge_that_no_longer_finds_a_route_is_written_when_the_next_epoch_is_saved(engine, monkeypatch):
    """Who runs again the epoch that has removed the route still needs its events.

    epoch    0 ▪    1 ▪    2, route 1 exported ▪    3, without route 2 ▪    4 ▪, 0 … 1 ▬
    """
    monkeypatch.setattr(statemerge, "MERGED_AT_ONCE", 2)
    rule = count_rule(">", 0, "5m")
    other = rule[1].replace(b'"ruleId": 1', b'"ruleId": 2').replace(b"userId", b"country")
    entries = [
        [rule, ("control", other), login(1, 100)],
        [login(2, 110)],
        [login(3, 120)],
        [login(4, 130), ("control", b'{"ruleId": 2, "ruleState": "DELETE"}')],
        [login(5, 140)],
    ]
    pauses, seen = {2: 2, 3: 20}, []
    for number, of in enumerate(entries):
        with engine.epoch() as running:
            for entry in of:
                cut(running, engine, entry)
            assert len(running._windows.stores) == (1 if number >= 3 else 2)
            for _ in range(pauses.get(number, 0)):
                running.pause(0.0)
        seen.append([(file.first_epoch, file.last_epoch) for file in running._state.chain])
    assert seen[3:] == [[(0, 0), (1, 1), (2, 2), (3, 3)], [(0, 1), (2, 2), (3, 3), (4, 4)]]


def test_a_pause_is_no_longer_if_slices_take_all_of_it(engine, monkeypatch):
    with engine.epoch() as running:
        clock, slept = iter(range(100)), []
        fake = SimpleNamespace(sleep=slept.append, monotonic=lambda: 0.001 * next(clock))
        monkeypatch.setattr(epochs, "time", fake)
        slices = iter([True] * 9)
        monkeypatch.setattr(running._state, "merge_slice", lambda: next(slices))
        running.pause(0.003)
        assert len(list(slices)) == 6 and not slept


def test_a_rest_ends_when_an_alert_is_due_though_nothing_comes(engine):
    rule = {
        "ruleId": 7,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["userId"],
        "window": "1s",
        "absence": True,
    }
    with engine.epoch() as running:
        cut(running, engine, ("control", json.dumps(rule).encode()))
        for number in (1, 2):  # the first takes longer, because code is compiled
            cut(running, engine, login(number, 100))
            begun = time.monotonic()
            while len(engine.out("alerts")) < number:
                running.wait_until_cut_due(20)
                running.step()
        assert time.monotonic() - begun < 15


def test_what_was_killed_in_an_epoch_takes_the_same_cuts_and_goes_on(engine):
    for part in (LOG[:3], LOG[3:6], LOG[6:]):
        with pytest.raises(KeyboardInterrupt), engine.epoch() as running:
            for entry in part:
                cut(running, engine, entry)
            raise KeyboardInterrupt
        engine.close()
        engine.start()
    assert (engine.job.folder / "state").names() == []
    with engine.epoch():
        pass
    assert_same(engine)


@pytest.mark.parametrize("name", ["events", "control"])
def test_cuts_of_an_attempt_that_was_killed_are_not_carried_out_on_another_log(engine, monkeypatch, name):
    """Somebody has removed the log's folder meanwhile, and begun another log in its place."""
    with engine.epoch() as running:
        for entry in LOG[:3]:
            cut(running, engine, entry)

    def killed(*_) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), engine.epoch() as running:
        patch.setattr(epochs, "read_and_route", killed)
        cut(running, engine, LOG[3])
    rmtree(engine.logs.log_folder(name))
    for number in range(100, 120):
        engine.log(login(number, number) if name == "events" else count_rule(">", number, "5m"))
    with pytest.raises(LogLost, match=f"{name}/0: .*another log has its name"), engine.epoch():
        pass
    assert len(engine.out("alerts")) == 2


def test_an_attempt_that_lingers_is_stopped_when_another_has_taken_over(engine):
    with engine.epoch() as running:
        for entry in LOG[:5]:
            cut(running, engine, entry)
    late = Engine(engine.checkpoint.parent)
    with pytest.raises(TakenOver), late.epoch() as lingering:
        cut(lingering, engine, LOG[5])
        with engine.epoch() as running:
            for entry in LOG[6:]:
                cut(running, engine, entry)
        lingering.step()
        lingering.cuts.check_not_taken_over()
    late.close()
    assert_same(engine)


def test_an_attempt_that_another_overtakes_while_it_evaluates_delivers_nothing(engine, monkeypatch):
    late, evaluate, delivered = Engine(engine.checkpoint.parent), epochs.evaluate_cut, []

    def evaluate_overtaken(*of):
        monkeypatch.setattr(epochs, "evaluate_cut", evaluate)
        with engine.epoch():
            pass
        return evaluate(*of)

    with pytest.raises(TakenOver), late.epoch() as lingering:
        monkeypatch.setattr(epochs, "evaluate_cut", evaluate_overtaken)
        lingering._deliver = lambda *of: delivered.append(of)
        cut(lingering, engine, LOG[0])
    late.close()
    assert not delivered and len(engine.out("acks")) == 1


def test_the_ledgers_that_a_long_epoch_needs_are_kept_until_the_next(engine, monkeypatch):
    monkeypatch.setattr("lab.engine.checkpoint.ledger.KEPT", 2)
    with pytest.raises(KeyboardInterrupt), engine.epoch() as running:
        for minutes in range(1, 6):
            cut(running, engine, count_rule(">", 0, f"{minutes}m"))
        raise KeyboardInterrupt
    assert len((CheckpointFolder(engine.checkpoint) / RULES).names()) == 5
    with engine.epoch():
        pass
    with engine.epoch() as running:
        for minutes in range(6, 9):
            cut(running, engine, count_rule(">", 0, f"{minutes}m"))
    assert [ack["version"] for ack in engine.out("acks")] == list(range(1, 9))
    assert len((CheckpointFolder(engine.checkpoint) / RULES).names()) < 8
