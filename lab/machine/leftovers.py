"""Variables that another Spark's installation has left in the environment, and that would make this one fail without a reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

IMPORTED = "import lab.engine.spark.daemon, pyspark; print(pyspark.__version__)"
ANSWER_S = 60


def check_worker_python(python: str) -> None:
    """Raises RuntimeError if the Python that PYSPARK_PYTHON names cannot be the one of Spark's workers on this machine."""
    path = shutil.which(python)
    if path is None:
        raise RuntimeError(f"PYSPARK_PYTHON is {python}, which is no program here: unset PYSPARK_PYTHON")
    if os.path.abspath(path) == os.path.abspath(sys.executable):
        return
    try:
        done = subprocess.run(
            [path, "-c", IMPORTED], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
        said, problem = done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        said, problem = "", str(error)
    if said != pyspark.__version__:
        why = (
            f"has PySpark {said}, not {pyspark.__version__}"
            if said
            else f"cannot run Spark's workers ({problem})"
        )
        raise RuntimeError(
            f"PYSPARK_PYTHON is {python}, which {why}: unset PYSPARK_PYTHON, so that workers run {sys.executable}"
        )


def check_spark_home(home: str) -> None:
    """Raises RuntimeError if the folder that SPARK_HOME names is not that of the Spark that the installed PySpark belongs to."""
    cores = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not any(core.stem.endswith(f"-{pyspark.__version__}") for core in cores):
        has = f"has {cores[0].name}" if cores else "has no Spark in it"
        raise RuntimeError(
            f"SPARK_HOME is {home}, which {has}, but the installed PySpark is {pyspark.__version__}: unset SPARK_HOME"
        )
