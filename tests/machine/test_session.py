"""Sessions of one process: one Java between them, and none when the last has ended."""

import subprocess
import sys

import pytest

SCRIPT = """
import psutil
from lab.machine.session import session

def javas():
    return [p for p in psutil.Process().children(recursive=True) if p.name() == "java"]

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
        raise KeyError("a cell that fails")
except KeyError:
    pass
assert not javas()
try:
    with session("local[1]") as failing:
        failing.sql("SELECT raise_error('no such payee')").collect()
except Exception as error:
    assert "no such payee" in str(error)
assert not javas()
print("none is left")
"""


@pytest.mark.slow
def test_java_ends_with_the_last_session():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.endswith("none is left\n"), done.stderr
