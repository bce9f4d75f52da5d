"""A Spark session tuned for short micro-batches on one machine, or on any cluster."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lab.machine import faststart, jars
from lab.machine.java import java

STOP_S = 10
STREAMING = "spark.sql.streaming"
# on few cores the JVM's second compiler and concurrent collectors take turns away from the query
JAVA_OPTIONS = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"


class SparkFailed(RuntimeError):
    """What Spark said, for those who are told when Spark has ended."""


@contextmanager
def session(
    master: str = "local[2]",
    *,
    app: str = "lab",
    driver_memory: str = "2g",
    conf: dict[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Spark, tuned; stopped at the end of the `with`, and Java with it. A session within a session is the same one.

    `master`: `local[N]`, `local-cluster[2,1,1024]` (separate executor processes), or any cluster's address.

    >>> with session("local[1]") as spark:  # doctest: +SKIP
    ...     spark.range(3).count()
    3
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch:
        settings = _everywhere() | {"spark.driver.memory": driver_memory}
        if master.startswith("local"):
            settings |= _on_this_machine(scratch)
        settings |= {"spark.master": master, "spark.app.name": app} | (conf or {})
        if owner := SparkContext._gateway is None:
            _start_quietly(settings, Path(scratch, "spark.log"))
        spark = SparkSession.builder.config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        except CapturedException as error:  # its text is Java's, which ends here
            raise (SparkFailed(str(error)) if owner else error) from None
        finally:
            if owner:
                _stop(spark)


def _start_quietly(settings: dict[str, str], log: Path) -> None:
    """Starts the JVM. What it and its Python workers print goes to a file: errors that matter come as exceptions."""
    os.environ.setdefault("SPARK_HOME", str(faststart.spark_home()))
    conf = SparkConf().setAll(settings.items())
    with log.open("wb") as output:
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
        except PySparkRuntimeError as error:
            java()  # says what to do if that is the reason
            said = log.read_text(errors="replace").strip() or error
            raise RuntimeError(f"Spark did not start: {said}") from None
    SparkContext(conf=conf, gateway=gateway)


def _stop(spark: SparkSession) -> None:
    """Stops queries, Spark and the JVM, which PySpark would keep until this process ends: a gigabyte for each notebook."""
    for query in spark.streams.active:
        query.stop()
    spark.stop()
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # what the JVM waits for
    try:
        gateway.proc.wait(STOP_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()


def _everywhere() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "lab.engine.daemon",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {faststart.java_option()}",
        # state: RocksDB, and only what changed goes into a commit
        f"{STREAMING}.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
        "RocksDBStateStoreProvider",
        f"{STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


def _on_this_machine(scratch: str) -> dict[str, str]:
    class_path = ":".join(map(str, jars.fetch("filesystem") + jars.present("kafka")))
    return {
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": scratch,
        # Hadoop's local file system forks a chmod for each file; this one does not
        "spark.driver.extraClassPath": class_path,
        "spark.executor.extraClassPath": class_path,
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        f"{STREAMING}.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager",
        # Python workers talk to the JVM over unix sockets: a third of the time of TCP
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": scratch,
    }
