"""What tests share."""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest
from pyspark.sql import SparkSession

from lab.machine import broker, jars
from lab.machine.session import session

collect_ignore = ["peers/flinkjob.py"]  # for a Python of its own, with PyFlink
LONGEST = (
    "test_run_kafka.py",
    "runs_and_every_check_says_right",
    "test_kills.py",
    "::test_run_answers",
    "engine/test_kafka.py",
)
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: else one of three workers is left alone with them at the end."""
    items.sort(key=lambda item: not any(long in item.nodeid for long in LONGEST))
    assert os.environ.get(JIT) == jit, (
        f"a module that was collected has set {JIT}: the engine would not be compiled"
    )


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests; a test that needs another takes a process of its own."""
    with session() as spark:
        yield spark


@pytest.fixture(scope="session")
def kafka() -> Iterator[broker.Broker]:
    """One Kafka for all tests, on the same port throughout; a test may restart it, but leaves it running."""
    try:
        jars.fetch("broker")
    except jars.JarsError as error:
        pytest.skip(f"NO TEST THAT NEEDS KAFKA RAN: {error}")
    with broker.running() as one:
        yield one
