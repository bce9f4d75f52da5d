"""Epochs in a task: they end when they are told to, and with the process that started the worker."""

import os
import shutil
import time
from contextlib import ExitStack
from math import inf
from threading import Thread
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.streaming.query import StreamingQuery

from lab.engine.checkpoint.record import cut_mark, last_saved_mark
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Planner
from lab.engine.loop.epochs import running_epoch
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.job import EngineId, Job
from lab.engine.records.feeds import FileFeed
from lab.engine.spark import runner
from lab.engine.spark.pipeline import Engine
from lab.engine.spark.source import LoopReader, MicroBatchReader, ReadingShare
from lab.engine.windows import shared
from lab.logs.access import file_lock
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule, login
from tests.waiting import wait_until


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "BATCH_S", inf)
    monkeypatch.setattr(runner, "EPOCH_S", inf)
    logs = FileLogs(tmp_path / "logs")
    logs.create()
    logs.log("control").append([count_rule(">", 0, "5m")[1]])
    logs.log("events").append([login(1, 100)[1]])
    job = Job(
        Settings(LOGINS),
        logs,
        str(tmp_path / "checkpoint"),
        f"test-{tmp_path.name}",
        engine_id=EngineId("id", 0),
    )
    monkeypatch.setattr(runner, "_loop", None)
    shared.private_folder(job.start_id)
    yield job
    shutil.rmtree(shared.private_folder(job.start_id), ignore_errors=True)


def test_an_epoch_ends_at_the_next_cut_when_the_engine_is_told_to_stop(job):
    running = Thread(target=runner.run_loop, args=(job, 0), daemon=True)
    running.start()
    wait_until(lambda: job.logs.log("alerts").read())
    assert running.is_alive() and not runner.is_told_to_stop(job)
    runner.tell_to_stop(job)
    running.join(30)
    assert not running.is_alive() and runner.is_told_to_stop(job)
    assert cut_mark(job.checkpoint)["events"]["0"] == job.logs.log("events").end()


def test_an_epoch_ends_with_the_process_that_started_its_worker(job, monkeypatch):
    parents = iter([7, 7, 7, 7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    with pytest.raises(runner.ParentGone, match="process 7 is gone"):
        runner.run_loop(job, 0)


def test_cuts_that_an_epoch_left_are_carried_out_again_and_nothing_new(job, monkeypatch):
    parents = iter([7, 7, 7, 7, 7, 1])
    with monkeypatch.context() as patch:
        patch.setattr(os, "getppid", lambda: next(parents))
        with pytest.raises(runner.ParentGone):
            runner.run_loop(job, 0)
    [alert] = job.logs.log("alerts").read()
    cuts = cut_mark(job.checkpoint)
    job.logs.log("events").append([login(2, 200)[1]])
    runner.finish_epoch_and_close_loop(job, 0)
    assert job.logs.log("alerts").read() == [alert]
    assert cut_mark(job.checkpoint)["events"] == cuts["events"]


def test_what_an_attempt_repeated_is_saved_at_once(job, monkeypatch):
    """Else an engine that is killed again and again would repeat more each time."""
    parents = iter([7, 7, 7, 7, 7, 1])
    with monkeypatch.context() as patch:
        patch.setattr(os, "getppid", lambda: next(parents))
        with pytest.raises(runner.ParentGone):
            runner.run_loop(job, 0)
    assert last_saved_mark(job.checkpoint) is None
    running = Thread(target=runner.run_loop, args=(job, 0), daemon=True)
    running.start()
    wait_until(lambda: last_saved_mark(job.checkpoint))
    runner.tell_to_stop(job)
    running.join(30)
    assert len(job.logs.log("alerts").read()) == 1


def test_an_epoch_that_stores_many_rows_is_saved_at_once(job, monkeypatch):
    """Else events that come fast would wait for one long save, not for several short ones."""
    monkeypatch.setattr(runner, "EPOCH_ROWS", 2)
    running = Thread(target=runner.run_loop, args=(job, 0), daemon=True)
    running.start()
    wait_until(lambda: job.logs.log("alerts").read())
    assert last_saved_mark(job.checkpoint) is None
    job.logs.log("events").append([login(2, 200)[1]])
    wait_until(lambda: last_saved_mark(job.checkpoint))
    runner.tell_to_stop(job)
    running.join(30)


def test_cuts_do_not_follow_each_other_at_once(job, monkeypatch):
    """A cut of one event costs nearly as much as one of ten."""
    monkeypatch.setattr(runner, "CUT_EVERY_S", 0.5)
    running = Thread(target=runner.run_loop, args=(job, 0), daemon=True)
    running.start()
    wait_until(lambda: job.logs.log("alerts").read())
    begun = time.monotonic()
    for number in range(2, 42):
        job.logs.log("events").append([login(number, 100 + number)[1]])
        time.sleep(0.05)
    wait_until(lambda: len(job.logs.log("alerts").read()) == 41)
    cuts = len(job.logs.log("stats").read())
    runner.tell_to_stop(job)
    running.join(30)
    assert cuts < 3 + (time.monotonic() - begun) / 0.5


@pytest.fixture
def short_tasks(job, monkeypatch):
    """A job whose tasks end at once; the loop goes on for a while."""
    monkeypatch.setattr(runner, "BATCH_S", 0.2)
    monkeypatch.setattr(runner, "BETWEEN_TASKS_S", 30.0)
    monkeypatch.setenv(runner.REUSE, "1")
    yield job
    runner.tell_to_stop(job)
    runner.wait_for_end_of_loop(job, 30)


def test_events_that_come_between_two_tasks_do_not_wait_for_the_next(short_tasks):
    runner.run_loop(short_tasks, 0)
    loop = runner._loop
    short_tasks.logs.log("events").append([login(2, 200)[1]])
    wait_until(lambda: len(short_tasks.logs.log("alerts").read()) == 2)
    runner.run_loop(short_tasks, 1)
    assert runner._loop is loop and loop.is_alive()


def test_a_loop_without_a_next_task_saves_its_epoch_and_ends(short_tasks, monkeypatch):
    monkeypatch.setattr(runner, "BETWEEN_TASKS_S", 0.2)
    runner.run_loop(short_tasks, 0)
    runner._loop.join(30)
    saved = last_saved_mark(short_tasks.checkpoint)
    assert saved["events"]["0"] == short_tasks.logs.log("events").end()
    assert not runner._loop.error and not runner.is_told_to_stop(short_tasks)
    short_tasks.logs.log("events").append([login(2, 200)[1]])
    monkeypatch.setattr(runner, "BATCH_S", 2.0)
    runner.run_loop(short_tasks, 0)
    assert len(short_tasks.logs.log("alerts").read()) == 2


@pytest.mark.parametrize("is_active", [True, False])
def test_an_engine_that_stops_between_two_tasks_waits_for_the_loop(short_tasks, is_active):
    runner.run_loop(short_tasks, 0)
    saved = []
    query = SimpleNamespace(
        isActive=is_active, stop=lambda: saved.append(last_saved_mark(short_tasks.checkpoint))
    )
    Engine(cast(StreamingQuery, query), ExitStack(), short_tasks).stop()
    assert saved[0] and saved[0]["events"]["0"] == short_tasks.logs.log("events").end()


def test_a_task_in_another_worker_goes_on_when_the_loop_has_ended(short_tasks, monkeypatch):
    runner.run_loop(short_tasks, 0)
    before = runner._loop
    monkeypatch.setattr(runner, "_loop", None)
    monkeypatch.setattr(runner, "BATCH_S", 3.0)
    runner.run_loop(short_tasks, 0)
    assert not before.is_alive() and not before.error
    assert len(short_tasks.logs.log("alerts").read()) == 1
    short_tasks.logs.log("events").append([login(2, 200)[1]])
    wait_until(lambda: len(short_tasks.logs.log("alerts").read()) == 2)


def test_a_task_does_not_begin_while_a_loop_runs_in_another_worker(short_tasks, monkeypatch):
    monkeypatch.setattr(runner, "BATCH_S", inf)
    with file_lock(shared.private_folder(short_tasks.start_id) / runner.LOOP):
        task = Thread(target=runner.run_loop, args=(short_tasks, 0), daemon=True)
        task.start()
        time.sleep(1)
        assert not cut_mark(short_tasks.checkpoint)
    wait_until(lambda: short_tasks.logs.log("alerts").read())


def test_the_loop_ends_with_its_task_if_the_worker_does(short_tasks, monkeypatch):
    monkeypatch.delenv(runner.REUSE)
    monkeypatch.setattr(runner, "BATCH_S", 2.0)
    runner.run_loop(short_tasks, 0)
    assert runner._loop is None  # it has ended
    assert last_saved_mark(short_tasks.checkpoint)["events"]["0"] == short_tasks.logs.log("events").end()


def test_the_feeds_are_closed_when_the_loop_ends(short_tasks, monkeypatch):
    """Else an idle worker would fetch, and keep, what another worker or nobody reads."""
    closed = []
    monkeypatch.setattr(FileFeed, "close", lambda feed: closed.append(feed.log.folder.name))
    runner.run_loop(short_tasks, 0)
    assert not closed  # it goes on for a while
    runner.tell_to_stop(short_tasks)
    runner._loop.join(30)
    assert closed == ["events", "control"]


def test_a_task_lasts_until_its_loop_takes_cuts(short_tasks, monkeypatch):
    """Else the next task, in another worker, would wait for it, and restore the same windows."""
    opened = []

    def slow_epoch(*of):
        time.sleep(1)
        opened.append(True)
        return running_epoch(*of)

    monkeypatch.setattr(runner, "running_epoch", slow_epoch)
    runner.run_loop(short_tasks, 0)
    assert opened


def test_a_task_of_another_engine_ends_the_loop_first(short_tasks, tmp_path):
    """Both may read one topic with the reader of their process, which has one position."""
    runner.run_loop(short_tasks, 0)
    loop, logs = runner._loop, short_tasks.logs
    once = Job(Settings(LOGINS), logs, str(tmp_path / "another"), "another", once=True)
    planner = Planner(logs.feed("events"), logs.feed("control"), once.folder, once.settings)
    begin = planner.initial_mark()
    [work] = planner.plan_reading(begin, planner.advance_mark(begin, None))
    assert list(MicroBatchReader(once).read(ReadingShare(0, work)))
    shutil.rmtree(shared.private_folder(once.start_id))
    assert not loop.is_alive() and not loop.error


def test_an_error_between_two_tasks_is_raised_in_the_next(short_tasks, monkeypatch):
    runner.run_loop(short_tasks, 0)

    def fail(*of):
        raise OSError("no space")

    monkeypatch.setattr(FileLogs, "report_progress", fail)
    runner._loop.join(30)
    with pytest.raises(OSError, match="no space"):
        runner.run_loop(short_tasks, 1)
    assert runner._loop is None


def test_an_engine_that_has_stopped_and_removed_its_folder_does_not_begin(job):
    shutil.rmtree(shared.private_folder(job.start_id))
    runner.run_loop(job, 0)
    assert runner._loop is None and not job.logs.log("alerts").read()


def test_a_loop_ends_when_the_folder_is_gone(short_tasks):
    runner.run_loop(short_tasks, 0)
    shutil.rmtree(shared.private_folder(short_tasks.start_id))
    runner._loop.join(30)
    assert not runner._loop.is_alive()


def test_an_engine_goes_on_if_somebody_else_removes_its_shared_memory(short_tasks):
    """As systemd does with what a user has in /dev/shm when the user logs out (RemoveIPC)."""
    events, reader = short_tasks.logs.log("events"), LoopReader(short_tasks)
    runner.run_loop(short_tasks, 0)
    shutil.rmtree(shared.private_folder(short_tasks.start_id))
    runner._loop.join(30)
    events.append([login(2, 200)[1]])
    assert reader.latestOffset({"batch": -1}, ReadAllAvailable()) == {"batch": 0}
    runner.run_loop(short_tasks, 0)
    wait_until(lambda: len(short_tasks.logs.log("alerts").read()) == 2)


def test_an_engine_that_stops_does_not_make_its_folder_again(job):
    """Spark may still ask for the next micro-batch when the engine has removed the folder."""
    reader = LoopReader(job)
    runner.tell_to_stop(job)
    assert reader.latestOffset({"batch": 0}, ReadAllAvailable()) == {"batch": 0}
    shutil.rmtree(shared.private_folder(job.start_id))
    assert reader.latestOffset({"batch": 0}, ReadAllAvailable()) == {"batch": 0}
    assert shared.existing_private_folder(job.start_id) is None


def test_how_far_it_has_come_is_told_also_while_nothing_new_comes(job, monkeypatch):
    """The consumer group follows once a second, so what was told with the last cut alone would be lost."""
    told, parents = [], iter([7] * 9 + [1])
    monkeypatch.setattr(FileLogs, "report_progress", lambda self, events: told.append(events))
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    with pytest.raises(runner.ParentGone):
        runner.run_loop(job, 0)
    assert told.count({0: job.logs.log("events").end()}) > 2
