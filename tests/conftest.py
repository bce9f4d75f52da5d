"""What tests share."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession

from lab.engine.loop.filelogs import FileLogs
from lab.machine import broker, jars
from lab.machine.session import session
from tests.secured import broker_of_users

LONGEST = ("runs_and_every_check_says_right", "test_kills.py", "::test_run_answers")
JIT = "NUMBA_DISABLE_JIT"
jit = os.environ.get(JIT)
data = tempfile.TemporaryDirectory(prefix="lab-tests-data-")  # nobody's own progress; gone at the end
os.environ["LAB_DATA"] = data.name
hypothesis.settings.register_profile("unhurried", deadline=None)  # a worker may stand still beside others
hypothesis.settings.load_profile("unhurried")
# what is imported while tests are collected stays: looking for garbage in it takes a third of the collection's time
gc.disable()
# nbformat's JSON validator would compile 38 grammars for a check of international addresses that nothing here uses
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


@pytest.hookimpl(trylast=True)  # after -m and -k have deselected tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    assert os.environ.get(JIT) == jit, (
        f"a module that was collected has set {JIT}: the engine would not be compiled"
    )


def dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Tests that share a Spark or a Kafka are the first worker's, so that there is one of each; the longest come first at the others.

    xdist gives each worker the same number of tests, in order; one that has none left takes from the end of another's.
    """
    shared, longest, others = (
        [item for item in items if kind_of(item) == kind] for kind in ("shared", "longest", "other")
    )
    heads = (
        [shared, *(longest[n :: workers - 1] for n in range(workers - 1))]
        if workers > 1
        else [longest + shared]
    )
    order: list[pytest.Item] = []
    for head in heads:
        room = max(len(items) // workers - len(head), 0)
        order += [*head, *others[:room]]
        del others[:room]
    return order + others


def kind_of(item: pytest.Item) -> str:
    """Whether a test shares a Spark or a Kafka, is one of the longest, or neither."""
    if {"spark", "kafka", "guarded", "with_users"} & {*getattr(item, "fixturenames", ())}:
        return "shared"
    return "longest" if any(long in item.nodeid for long in LONGEST) else "other"


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def logs(tmp_path: Path) -> FileLogs:
    """Empty logs in a folder."""
    logs = FileLogs(tmp_path / "logs")
    logs.create()
    return logs


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests; a test that needs another takes a process of its own."""
    with session() as spark:
        yield spark


@pytest.fixture(scope="session")
def kafka() -> Iterator[broker.Broker]:
    """One Kafka for all tests, on the same port throughout; a test may restart it, but leaves it running."""
    try:
        jars.fetch_jars("broker")
    except jars.JarsError as error:
        pytest.skip(f"NO TEST THAT NEEDS KAFKA RAN: {error}")
    with broker.running_broker() as one:
        yield one
        broker.status(one.folder).kill()  # a stop takes seconds, and the folder is removed anyway


@pytest.fixture(scope="session")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[broker.Broker]:
    """One Kafka that serves users alone, each with the rights that a test gives it."""
    try:
        jars.fetch_jars("broker")
    except jars.JarsError as error:
        pytest.skip(f"NO BROKER WITH USERS WAS TRIED: {error}")
    with broker_of_users(tmp_path_factory.mktemp("users") / "kafka") as one:
        yield one
        broker.status(one.folder).kill()
