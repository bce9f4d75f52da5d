"""Of a backlog, the next cut is read while the one before is evaluated."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from shutil import rmtree
from threading import Thread, current_thread

import pytest

from lab.engine.checkpoint.cuts import CutLog
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import epochs, readahead
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import Epoch, running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.job import Job
from lab.engine.loop.readahead import ReadAhead
from lab.engine.records.feeds import LogLost
from lab.engine.spark import runner
from lab.engine.windows import shared
from lab.model.enginelogs import READ
from lab.model.reference import evaluate_log
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule, login
from tests.waiting import wait_until

LOG = [
    count_rule(">", 0, "5m"),
    *(login(number, 100 + number) for number in range(8)),
    count_rule(">", 3, "5m"),
    *(login(number, 100 + number) for number in range(8, 20)),
]
STARTS = count()


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A backlog, of which every cut counts as large."""
    monkeypatch.setattr(readahead, "WORTH_READING_AHEAD", 1)
    job = Job(
        Settings(LOGINS, max_batch_records=1),
        FileLogs(tmp_path / "logs"),
        str(tmp_path / "checkpoint"),
        f"test-ahead-{os.getpid()}-{next(STARTS)}",
    )
    for kind, line in LOG:
        job.logs.log("events" if kind == "event" else kind).append([line])
        time.sleep(0.002)  # each at a time of its own
    yield job
    rmtree(shared.private_folder(job.start_id), ignore_errors=True)


def planner_and_cuts(job: Job) -> tuple[Planner, CutLog]:
    events, control = map(job.logs.feed, READ)
    planner = Planner(events, control, job.folder, job.settings)
    return planner, CutLog(job.folder, planner.mark_at_start_of_logs())


@contextmanager
def reading_ahead(job: Job) -> Iterator[tuple[ReadAhead, Epoch]]:
    """An epoch whose next cuts are read ahead."""
    planner, cuts = planner_and_cuts(job)
    with (
        ReadAhead(job, planner) as ahead,
        running_epoch(job, planner, cuts, job.logs.outlet("test").put, ahead) as running,
    ):
        yield ahead, running


def alert_ids(job: Job) -> list[str]:
    return [line.partition('","')[0].partition(':"')[2] for line in job.logs.log("alerts").read()]


def wanted_ids() -> list[str]:
    return [alert.alert_id for alert in evaluate_log(LOGINS, LOG).alerts]


def test_the_next_cut_is_read_while_one_is_evaluated_also_across_epochs(job, monkeypatch):
    readers, evaluate, read = [], epochs.evaluate_cut, readahead.read_and_route
    planner, cuts = planner_and_cuts(job)

    def evaluate_when_read(*of):
        if ahead.has_begun:
            wait_until(lambda: ahead._found or not ahead._thread.is_alive())
        return evaluate(*of)

    def noted(*of):
        readers.append(current_thread().name)
        return read(*of)

    def wait_for_records(*of):
        assert not ahead.has_begun, "its feeds are for one at a time"
        return wait(*of)

    wait = planner.wait_for_records
    monkeypatch.setattr(planner, "wait_for_records", wait_for_records)
    monkeypatch.setattr(epochs, "evaluate_cut", evaluate_when_read)
    monkeypatch.setattr(epochs, "read_and_route", noted)
    monkeypatch.setattr(readahead, "read_and_route", noted)
    with ReadAhead(job, planner) as ahead:
        for _ in range(4):
            with running_epoch(job, planner, cuts, job.logs.outlet("test").put, ahead) as running:
                for _ in range(4):
                    running.wait_until_cut_due(0)
                    running.step()
    assert len(readers) > 3 and readers[1:] == ["read ahead"] * (len(readers) - 1)
    assert alert_ids(job) == wanted_ids()
    assert cuts.mark["events"]["0"] == job.logs.log("events").end()
    times = [json.loads(line)["times"] for line in job.logs.log("stats").read()]
    # `lab latency` tells by them in which cut an alert was made
    assert all(before["end"] <= after["evaluate"] for before, after in pairwise(times))
    assert any(after["start"] < before["end"] for before, after in pairwise(times))


def test_a_cut_that_was_read_ahead_is_evaluated_after_the_one_before_also_in_the_stats_log(job, monkeypatch):
    """`lab latency` finds the cut of an alert by these times."""
    evaluate = epochs.evaluate_cut

    def evaluate_after_reading(*of):
        if ahead.has_begun:
            ahead._thread.join()
            time.sleep(0.005)
        return evaluate(*of)

    monkeypatch.setattr(epochs, "evaluate_cut", evaluate_after_reading)
    with reading_ahead(job) as (ahead, running):
        while running.step():
            pass
    times = [json.loads(line)["times"] for line in job.logs.log("stats").read()]
    assert len(times) > 3
    assert all(before["end"] <= cut["evaluate"] <= cut["end"] for before, cut in pairwise(times))


def test_only_after_the_last_of_the_cuts_that_are_repeated_the_next_one_is_read_ahead(job, monkeypatch):
    """Before that, what comes next has been chosen already."""
    planner, cuts = planner_and_cuts(job)
    with pytest.raises(OSError, match="died"), running_epoch(job, planner, cuts, lambda *_: None) as running:
        for _ in range(3):
            running.step()
        raise OSError("died")
    began, begin = [], ReadAhead.begin
    monkeypatch.setattr(ReadAhead, "begin", lambda self, *of: began.append(of[0]) or begin(self, *of))
    with reading_ahead(job) as (_, running):
        assert len(running.cuts.taken) == 3 and began == [running.cuts.mark]
        while running.step():
            pass
    assert alert_ids(job) == wanted_ids()


def test_what_is_being_read_ahead_is_waited_for_and_taken_once(job, monkeypatch):
    read, here = readahead.read_and_route, []

    def slow(*of):
        time.sleep(0.5)  # longer than it takes to evaluate the cut before
        return read(*of)

    monkeypatch.setattr(readahead, "read_and_route", slow)
    with reading_ahead(job) as (ahead, running):
        while not ahead.has_begun:
            running.step()
        monkeypatch.setattr(readahead, "WORTH_READING_AHEAD", 1000)
        monkeypatch.setattr(epochs, "read_and_route", lambda *of: here.append(of[1]) or read(*of))
        running.step()
        assert not here and not ahead.has_begun
        assert not all(running.step() for _ in range(50)), "it comes to an end"
    assert here and alert_ids(job) == wanted_ids()


def test_small_cuts_are_not_read_ahead_nor_what_is_not_there(job, monkeypatch):
    monkeypatch.setattr(readahead, "WORTH_READING_AHEAD", 1000)
    with reading_ahead(job) as (ahead, running):
        while running.step():
            assert not ahead.has_begun
        monkeypatch.setattr(readahead, "WORTH_READING_AHEAD", 1)
        for number in (30, 31):  # nothing is there when it looks ahead, but later
            job.logs.log("events").append([login(number, 200)[1]])
            wait_until(running.step, pause_s=0.001)
            assert ahead.has_begun
            ahead._thread.join()
            assert ahead._found is None
    assert len(alert_ids(job)) == len(wanted_ids()) + 2


def test_an_error_while_reading_ahead_ends_the_next_step_and_the_next_attempt_goes_on(job, monkeypatch):
    def lost(*_):
        raise LogLost("events/0: gone")

    with (
        monkeypatch.context() as patch,
        pytest.raises(LogLost, match="gone"),
        reading_ahead(job) as (ahead, running),
    ):
        patch.setattr(readahead, "read_and_route", lost)
        while not ahead.has_begun:
            running.step()
        delivered = len(alert_ids(job))
        assert delivered
        running.step()
    assert not ahead.has_begun and len(alert_ids(job)) == delivered
    planner, cuts = planner_and_cuts(job)
    with running_epoch(job, planner, cuts, job.logs.outlet("test").put) as running:
        while running.step():
            pass
    assert alert_ids(job) == wanted_ids()


def test_whoever_ends_waits_for_what_is_being_read(job, monkeypatch):
    """Its readers are those of the process: the next engine uses them."""
    read, began = readahead.read_and_route, []

    def slow(*of):
        began.append(True)
        time.sleep(0.3)
        return read(*of)

    monkeypatch.setattr(readahead, "read_and_route", slow)
    planner, cuts = planner_and_cuts(job)
    with ReadAhead(job, planner) as ahead:
        with running_epoch(job, planner, cuts, job.logs.outlet("test").put, ahead) as running:
            while not ahead.has_begun:
                running.step()
        wait_until(lambda: began)
        assert ahead._thread.is_alive()
    assert not ahead._thread.is_alive()


def test_the_loop_in_a_task_reads_ahead(job, monkeypatch):
    readers, read = [], readahead.read_and_route

    def noted(*of):
        readers.append(current_thread().name)
        return read(*of)

    monkeypatch.setattr(readahead, "read_and_route", noted)
    monkeypatch.setattr(runner, "_loop", None)
    monkeypatch.setattr(runner, "EPOCH_ROWS", 4)
    shared.private_folder(job.start_id)
    running = Thread(target=runner.run_loop, args=(job, 0), daemon=True)
    running.start()
    wait_until(lambda: len(alert_ids(job)) == len(wanted_ids()))
    runner.tell_to_stop(job)
    running.join(30)
    assert readers and alert_ids(job) == wanted_ids()
