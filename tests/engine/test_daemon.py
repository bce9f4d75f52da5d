"""What Spark's Python workers pass over when they collect garbage."""

import gc

import pytest
from pyspark import TaskContext

from lab.engine.spark import daemon


@pytest.fixture
def told():
    gc.disable()
    gc.collect()
    gc.freeze()
    gc.callbacks.append(daemon.freeze_what_stays)
    yield
    gc.callbacks.remove(daemon.freeze_what_stays)
    gc.enable()
    TaskContext._setTaskContext(None)


def test_what_survives_a_long_collection_between_tasks_is_walked_once(told):
    before = gc.get_freeze_count()
    kept = [[] for _ in range(300_000)]
    gc.collect()
    assert gc.get_freeze_count() - before > 0.9 * len(kept)
    few = [[] for _ in range(10)]
    frozen = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() <= frozen and len(few) == 10


def test_what_a_running_task_holds_is_not_kept_for_good(told):
    before = gc.get_freeze_count()
    TaskContext._setTaskContext(TaskContext())
    kept = [[] for _ in range(300_000)]
    gc.collect()
    assert gc.get_freeze_count() <= before and kept
