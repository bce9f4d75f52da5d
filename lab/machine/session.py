"""A Spark session tuned for short micro-batches on one machine, or on any cluster."""

import atexit
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lab.logs.loopback import HOST, check_loopback
from lab.machine import faststart, jars
from lab.machine.java import JavaEnded, find_java
from lab.machine.javalog import JavaLog
from lab.machine.leftovers import check_spark_home, check_worker_python

STOP_S = 10
ENDING_S = 0.2  # its sockets are closed a little before Java has ended
LOCAL = "local[3,4]"  # an engine's loop stays in one task; two are left for other queries. A lost worker's task runs again
STREAMING = "spark.sql.streaming"
# on few cores the JVM's second compiler and concurrent collectors take turns away from the query; what Spark keeps of a
# micro-batch for some seconds dies among the young, so that no collection of everything (0.15 s) stops the query
JAVA_OPTIONS = (
    "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:MetaspaceSize=256m "
    "-Xmn256m -XX:SurvivorRatio=6 -XX:-UseAdaptiveSizePolicy"
)

# settings whose values are never on a command line, which all users of a machine can read
SECRET = re.compile(r"(?i)(secret|password|token)([._-]?key)?$|access[._-]?key$")
NO_SECRET = (
    "has no secret: `python -m lab.machine.clustersecret FOLDER` makes one, for SPARK_CONF_DIR of master, workers and this "
    "(docs/operations.md, Clusters), or say spark.authenticate=false: then everybody who reaches its ports may run programs there"
)

_lock = Lock()
_sessions = 0
_started: ExitStack | None = None  # ends the Spark that a session of this process started


class SparkError(RuntimeError):
    """An error from Spark that stays readable after Spark has ended."""


@contextmanager
def session(
    master: str | None = None,
    *,
    conf: dict[str, str] | None = None,
    log: Path | None = None,
    object_store: bool = False,
) -> Iterator[SparkSession]:
    """A tuned Spark session. All sessions of a process share one Spark, with the settings of the first; the last one ends it, and Java.

    `master`: `local[N]` (by default `local[3,4]`, or the master of `spark-submit`), `local-cluster[2,1,1024]` (separate executor
    processes), or a cluster's address. A session that is never left ends with its program. `log`: the file for the output of Java and the workers. `object_store`: whether it reaches
    s3a://, with AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on from the environment. If another program has
    started Spark in this process, the session uses it and does not end it. Raises RuntimeError if Spark does not start.

    Spark's ports answer only those who know a secret: on this machine it is random, new for each session, and in no file,
    argument or environment; a cluster of several hosts has one of its own, in its `spark-defaults.conf`.

    >>> with session("local[1]") as spark:  # doctest: +SKIP
    ...     spark.range(3).count()
    3
    """
    global _sessions, _started
    conf = (_on_object_store() if object_store else {}) | (conf or {})
    groups = ("s3",) if object_store else ()
    with _lock:
        if SparkContext._gateway is None:
            _started = _start(master, conf, log, groups)
        _sessions += 1
    atexit.unregister(_end_started)
    atexit.register(
        _end_started, os.getpid()
    )  # last registered, first run: before what PySpark needs to end is gone
    try:
        yield SparkSession.builder.config(map=_everywhere() | conf).getOrCreate()
    except (CapturedException, Py4JJavaError) as error:  # its text is Java's, which may end here
        raise (SparkError(str(error)) if _started else error) from None
    except (OSError, EOFError, Py4JError):
        _raise_if_java_ended()
        raise
    finally:
        with _lock:
            _sessions -= 1
            if not _sessions and _started:
                _started.close()
                _started = None


def _end_started(process_id: int) -> None:
    """Ends the Spark of sessions that nobody has left, while Python still runs, in the process that started it."""
    global _started
    with _lock:
        if _started and os.getpid() == process_id:
            _started.close()
            _started = None


def is_spark_submitted() -> bool:
    """Whether `spark-submit` runs this program: Java is there already, with settings of its own."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def python_of_workers(conf: dict[str, str]) -> str:
    """The Python that Spark's workers run: the one that Spark's settings name, or else the one of this process."""
    return conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def _start(master: str | None, conf: dict[str, str], log: Path | None, groups: Sequence[str]) -> ExitStack:
    """Starts Java and, in it, Spark; returns the exit stack that ends both."""
    check_loopback()
    if not is_spark_submitted() and (master or LOCAL).startswith("local"):
        if "spark.pyspark.python" not in conf and "PYSPARK_PYTHON" in os.environ:
            check_worker_python(os.environ["PYSPARK_PYTHON"])
        if home := os.environ.get("SPARK_HOME"):
            check_spark_home(home)
    os.environ["PYSPARK_PYTHON"] = python_of_workers(conf)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(faststart.ensure_spark_home()))
    if not is_spark_submitted():
        master = master or LOCAL
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="lab-"))
        settings = _everywhere() | {"spark.app.name": "lab", "spark.driver.memory": "2g"}
        settings |= {"spark.master": master} if master else {}
        if master:
            local = master.startswith("local")
            if local and "SPARK_LOCAL_IP" not in os.environ:
                # else Spark asks for the address of the machine's name, and not every network knows that name
                os.environ["SPARK_LOCAL_IP"] = HOST
                stack.callback(os.environ.pop, "SPARK_LOCAL_IP", None)
            settings |= _on_this_machine(scratch, groups) if local else _on_hosts(conf, groups)
        java_log = stack.enter_context(JavaLog(log or Path(scratch, "spark.log")))
        shown = [(name, value) for name, value in (settings | conf).items() if not SECRET.search(name)]
        gateway = _java(SparkConf(loadDefaults=False).setAll(shown), java_log)
        stack.callback(_end, gateway)
        SparkContext._ensure_initialized(gateway=gateway)
        whole = SparkConf()
        for name, value in (settings | conf).items():
            if name in conf or not is_spark_submitted():
                whole.set(name, value)
            else:
                whole.setIfMissing(name, value)
        _give_secret(whole)
        stack.callback(_stop)
        _start_context(whole)
        return stack.pop_all()


def _java(conf: SparkConf, log: JavaLog):
    try:
        return launch_gateway(conf, {"stdout": log.file, "stderr": log.file})
    except PySparkRuntimeError as error:
        find_java()  # says what to do if that is the reason
        raise RuntimeError(f"Spark did not start: {log.text() or error}") from None


def _give_secret(conf: SparkConf) -> None:
    """Sets the secret of a `local-cluster`. Raises RuntimeError if a spark:// cluster needs one and has none; Spark makes all others."""
    master = conf.get("spark.master", "")
    if master.startswith("local-cluster"):
        conf.setIfMissing("spark.authenticate.secret", secrets.token_hex(32))
        return
    asks = master.startswith("spark://") and conf.get("spark.authenticate") == "true"
    if asks and not conf.contains("spark.authenticate.secret"):
        raise RuntimeError(f"Spark did not start: {master} {NO_SECRET}")


def _start_context(conf: SparkConf) -> None:
    """Starts Spark and restores the handler of Ctrl-C, which Spark replaces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        context = SparkContext(conf=conf)
        context.setLogLevel("ERROR")
        context._accumulatorServer.handle_error = lambda *_: None  # Java may hang up
    except Py4JJavaError as error:
        reason = error.java_exception.toString().splitlines()[0]
        raise RuntimeError(f"Spark did not start on {conf.get('spark.master')}: {reason}") from None
    if before not in (signal.default_int_handler, signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, before)


def _stop() -> None:
    """Stops all queries, and Spark."""
    context = SparkContext._active_spark_context
    if context is None:
        return
    if _java_exit_code() is not None:  # Java, which would stop them, has ended
        SparkContext._active_spark_context = SparkSession._instantiatedSession = None
        return
    spark = SparkSession.builder.getOrCreate()
    for query in spark.streams.active:
        query.stop()
    _shut_down_in_background(context._accumulatorServer)
    spark.stop()


def _shut_down_in_background(server: Any) -> None:
    """Makes the shutdown of a server of PySpark's return at once: the server checks only once a second whether it should end."""
    shutdown = server.shutdown
    server.shutdown = lambda: Thread(target=shutdown, daemon=True).start()


def _java_exit_code(wait_s: float = 0) -> int | None:
    """The exit code of the Java that this process started, if that has ended."""
    java = SparkContext._gateway and SparkContext._gateway.proc
    with suppress(subprocess.TimeoutExpired):
        return java.wait(wait_s) if java else None
    return None


def _raise_if_java_ended() -> None:
    code = _java_exit_code(ENDING_S)
    if code is not None:
        end = f"was killed by signal {-code}" if code < 0 else f"has ended with status {code}"
        raise JavaEnded(
            f"Java, in which Spark runs, {end}; if nobody did that, the system may have been short of memory (see spark.log, dmesg). "
            "An engine that is started again continues"
        ) from None


def _end(gateway) -> None:
    """Ends Java. PySpark would keep it, a gigabyte per notebook, until this process ends."""
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    if not gateway.proc:  # it is the parent of this process
        return
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
        # without it, every user of the machine could send objects that the driver's Java deserializes
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.saslFallback": "false",
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.daemon.module": "lab.engine.spark.daemon",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {faststart.java_option()}",
        # for queries that use Spark's state store, as the textbook does: RocksDB, and only what changed goes into a commit
        f"{STREAMING}.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
        "RocksDBStateStoreProvider",
        f"{STREAMING}.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


def _on_this_machine(scratch: str, groups: Sequence[str]) -> dict[str, str]:
    groups = ("filesystem", *(() if jars.missing_jars("kafka") else ("kafka",)), *groups)
    class_path = ":".join(str(jar) for group in groups for jar in jars.fetch_jars(group))
    return {
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": HOST,
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


def _on_hosts(conf: dict[str, str], groups: Sequence[str]) -> dict[str, str]:
    """Settings for other hosts: Spark sends them the jars that it needs, unless the user's `spark.jars` names all."""
    encrypted = {"spark.io.encryption.enabled": "true"}
    if "spark.jars" in conf:
        return encrypted
    return encrypted | {
        "spark.jars": ",".join(str(jar) for group in ("kafka", *groups) for jar in jars.fetch_jars(group))
    }


def _on_object_store() -> dict[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return {}
    return {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
