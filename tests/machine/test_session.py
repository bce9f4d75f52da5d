"""Sessions of one process: one Java between them, and none when the last has ended."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from lab.machine.doctor import ROOT
from lab.machine.session import python_of_workers
from tests.waiting import PATIENCE_S

SCRIPT = """
import psutil
from lab.machine.session import session

def javas():
    return [p for p in psutil.Process().children(recursive=True) if p.is_running() and p.name() == "java"]

def doubled(spark):
    return spark.range(3).mapInPandas(lambda frames: (f * 2 for f in frames), "id long").toPandas().id.tolist()

assert not javas()
with session() as outer:
    with session() as inner:
        assert inner is outer and doubled(inner) == [0, 2, 4]
    assert len(javas()) == 1 and doubled(outer) == [0, 2, 4]
assert not javas()
try:
    with session("local[1]") as again:
        assert doubled(again) == [0, 2, 4] and again.sparkContext.master == "local[1]"
        again.sql("SELECT raise_error('no such payee')").collect()
        raise AssertionError("a cell that fails")
except Exception as error:
    assert "no such payee" in str(error)
assert not javas()
other = session()
with session("local[1]") as first:
    held = other.__enter__()
first.range(1).count()  # the first ended, another still has it
query = first.readStream.format("rate").load().writeStream.format("noop").start()
assert query.isActive and len(javas()) == 1
with session():
    pass
assert query.isActive
other.__exit__(None, None, None)
assert not javas()
print("none is left")
"""
STARTED_BY_ANOTHER = """
import sys
from pyspark.sql import SparkSession
from lab.machine.session import session
mine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with session() as spark:
    assert spark.sparkContext is mine.sparkContext
assert mine.range(3).count() == 3
print(f"PYTHON {mine.sparkContext.pythonExec == sys.executable}")
"""


KILLED = """
import os, signal
from pyspark import SparkContext
from lab.machine.session import session
try:
    with session("local[1]") as spark:
        os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
        SparkContext._gateway.proc.wait()
        spark.range(3).count()
except RuntimeError as error:
    print(f"{type(error).__name__}: {error}")
with session("local[1]") as spark:
    print(spark.range(3).count())
"""


@pytest.mark.slow
def test_when_java_is_killed_the_error_says_so_and_another_session_starts():
    """As the system does it when memory is short. PySpark's own errors are a traceback and a refused connection."""
    command = [sys.executable, "-c", KILLED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    first, *rest = done.stdout.splitlines()
    expected = (
        r"JavaEnded: Java, in which Spark runs, was killed by signal 9; if nobody did that, .* memory .*"
    )
    assert re.fullmatch(expected, first) and rest == ["3"], done
    assert (
        "Exception occurred during processing of request" not in done.stderr
    )  # PySpark's server of accumulators


@pytest.mark.slow
def test_java_ends_with_the_last_session_also_on_a_machine_whose_name_nobody_knows():
    """Only root can rename a machine for a test; elsewhere it keeps its name."""
    can_rename = os.getuid() == 0 and shutil.which("unshare")
    renamed = ["unshare", "--uts", "sh", "-c", 'hostname nobody-knows-me && exec "$@"', "sh"]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_IP"}
    done = subprocess.run(
        [*(renamed if can_rename else []), sys.executable, "-c", SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
    )
    assert done.stdout.endswith("none is left\n"), done.stderr


@pytest.mark.slow
def test_spark_that_somebody_else_started_goes_on():
    done = subprocess.run(
        [sys.executable, "-c", STARTED_BY_ANOTHER],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "PYTHON" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "told, conf, found",
    [
        (None, {}, sys.executable),
        ("./environment/bin/python", {}, "./environment/bin/python"),
        ("./environment/bin/python", {"spark.pyspark.python": "/opt/python"}, "/opt/python"),
    ],
)
def test_workers_run_the_python_that_they_are_told(told, conf, found, monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if told:
        monkeypatch.setenv("PYSPARK_PYTHON", told)
    assert python_of_workers(conf) == found


@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run(["unshare", "-rn", "true"], check=False).returncode != 0,
    reason="takes a network of its own",
)
@pytest.mark.parametrize(
    "words",
    [
        ["run", "--logs", "logs"],
        ["broker", "start", "--folder", "b"],
        ["db", "start", "--folder", "d"],
        pytest.param(["rules", "list", "--logs", "kafka://127.0.0.1:9092"], marks=pytest.mark.slow),
        ["doctor", "--quick"],
    ],
)
def test_without_a_loopback_network_a_message_says_that_it_is_missing(words, tmp_path):
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, "-m", "lab", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "500"},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert re.search(r"no loopback network \(127.0.0.1\), .*`ip link set lo up`", done.stdout + done.stderr)
