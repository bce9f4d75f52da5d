"""What a tutorial has left in the environment is named, before Spark fails of it."""

import os
import subprocess
import sys

import pyspark
import pytest

from lab.machine import faststart
from lab.machine.leftovers import check_spark_home, check_worker_python
from tests.waiting import PATIENCE_S


def test_a_worker_python_of_another_installation_is_named(tmp_path):
    check_worker_python(sys.executable)
    with pytest.raises(
        RuntimeError, match="PYSPARK_PYTHON is /nowhere/python, which is no program here: unset"
    ):
        check_worker_python("/nowhere/python")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 3.5.1\n")
    python.chmod(0o755)
    with pytest.raises(
        RuntimeError, match=f"has PySpark 3.5.1, not {pyspark.__version__}: unset PYSPARK_PYTHON"
    ):
        check_worker_python(str(python))
    python.write_text("#!/bin/sh\necho \"No module named 'lab'\" >&2; exit 1\n")
    with pytest.raises(RuntimeError, match="cannot run Spark's workers \\(No module named 'lab'\\)"):
        check_worker_python(str(python))
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    check_worker_python(str(python))


def test_a_spark_home_of_another_version_is_named(tmp_path):
    check_spark_home(str(faststart.ensure_spark_home()))
    check_spark_home(os.path.dirname(pyspark.__file__))
    with pytest.raises(
        RuntimeError, match="SPARK_HOME is .*, which has no Spark in it, but .*: unset SPARK_HOME"
    ):
        check_spark_home(str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    with pytest.raises(RuntimeError, match="has spark-core_2.12-3.5.1.jar"):
        check_spark_home(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"), [("PYSPARK_PYTHON", "/nowhere/python"), ("SPARK_HOME", "/opt/spark-3.5")]
)
def test_a_session_names_the_variable_before_it_starts_java(name, value):
    done = subprocess.run(
        [sys.executable, "-c", "import lab\nwith lab.session(): pass"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, name: value},
    )
    assert f"RuntimeError: {name} is {value}" in done.stderr and f"unset {name}" in done.stderr


def test_a_session_that_is_never_left_ends_with_its_program():
    script = (
        "import lab\nkept = lab.session('local[1]')\nspark = kept.__enter__()\n"
        "query = spark.readStream.format('rate').load().writeStream.format('noop').start()\nprint(spark.range(3).count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={
            name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "SPARK_HOME")
        },
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
