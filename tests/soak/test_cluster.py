"""`lab run` on a standalone cluster of two workers, a topic of 8 partitions, its checkpoint in an object store: killed once.

Run by `make soak`. The object store is moto's (`pip install 'moto[server]'` in an environment of its own: it wants other
versions than JupyterLab does), found as MOTO_SERVER or in PATH; the first run fetches 670 MB of Java archives.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import psutil
import pytest
from pyarrow import fs

from lab.engine.checkpoint.lease import LEASE_S
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.machine import broker, clustersecret, faststart, jars, ports
from lab.stream.simulate import payments, to_json
from tests.soak.test_kafka_kill import grow
from tests.soak.test_kill import RULES
from tests.topics import assert_equal, counted, expected, publish, turned_up_late

PARTITIONS, PARALLELISM, APPENDS, PAUSE_S = 8, 4, 240, 0.3
BUCKET = "lab-checkpoints"
SETTINGS = ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "executor.memory=1g")
ON_LOOPBACK = [word for setting in SETTINGS for word in ("--conf", f"spark.{setting}")]


def until(enough: Callable[[], bool], seconds: float, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + seconds
    while not enough():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)


@contextmanager
def running(
    log: Path, *command: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[subprocess.Popen]:
    with log.open("a") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=cwd, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def object_store(folder: Path) -> Iterator[dict[str, str]]:
    """An S3 of this machine; what it gives is the environment of those who use it."""
    program = os.environ.get("MOTO_SERVER") or shutil.which("moto_server")
    if not program:
        pytest.skip("NO CHECKPOINT IN AN OBJECT STORE WAS TRIED: there is no moto_server")
    port = ports.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with running(folder / "moto.log", program, "-H", "127.0.0.1", "-p", str(port)) as moto:

        def answers() -> bool:
            try:
                return urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=1).status == 200
            except OSError:
                return False

        until(answers, 60, moto, folder / "moto.log")
        keys = {"access_key": "lab", "secret_key": "lab", "region": "us-east-1"}
        store = fs.S3FileSystem(endpoint_override=endpoint, allow_bucket_creation=True, **keys)
        store.create_dir(BUCKET)
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "lab",
            "AWS_SECRET_ACCESS_KEY": "lab",
            "AWS_REGION": "us-east-1",
        }


def with_secret(folder: Path, env: dict[str, str]) -> dict[str, str]:
    """The environment of all processes of a cluster: their `spark-defaults.conf` has the secret that they share."""
    settings = clustersecret.ensure_secret_file(folder / "conf")
    return env | {"SPARK_CONF_DIR": str(settings.parent), "SPARK_LOCAL_IP": ports.HOST}


@contextmanager
def standalone(folder: Path, env: dict[str, str]) -> Iterator[str]:
    """A master and two workers; what it gives is the master's URL."""
    port, page, first, second = (ports.free_port() for _ in range(4))
    master = f"spark://127.0.0.1:{port}"
    run = [str(faststart.ensure_spark_home() / "bin" / "spark-class")]
    env = env | {"SPARK_HOME": str(faststart.ensure_spark_home()), "SPARK_WORKER_DIR": str(folder / "work")}
    host = ["--host", "127.0.0.1"]

    def worker(number: int, page: int) -> list[str]:
        words = ["--cores", "2", "--memory", "1500m", "--webui-port", str(page), *host, master]
        return [str(folder / f"worker{number}.log"), *run, "org.apache.spark.deploy.worker.Worker", *words]

    def alive() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=2) as answer:
                return json.load(answer)["aliveworkers"] == 2
        except OSError:
            return False

    words = ["org.apache.spark.deploy.master.Master", *host, "--port", str(port), "--webui-port", str(page)]
    log = folder / "master.log"
    with running(log, *run, *words, env=env) as process:
        (log1, *one), (log2, *two) = worker(1, first), worker(2, second)
        with running(Path(log1), *one, env=env), running(Path(log2), *two, env=env):
            until(alive, 90, process, log)
            yield master


@pytest.mark.soak
@pytest.mark.parametrize("checkpoint", ["file", "s3a"])
def test_a_cluster_gives_the_alerts_of_the_reference(tmp_path, checkpoint):
    try:
        jars.fetch_jars("broker")
    except jars.JarsError as error:
        pytest.skip(str(error))
    env, screen = with_secret(tmp_path, dict(os.environ)), tmp_path / "screen"
    where = f"file://{tmp_path}/checkpoint" if checkpoint == "file" else f"s3a://{BUCKET}/checkpoint"
    with object_store(tmp_path) as keys, broker.running_broker() as kafka:
        env |= keys
        logs = KafkaLogs(kafka.address)
        logs.create(PARTITIONS)
        with standalone(tmp_path, env) as master:
            words = ["run", "--logs", f"kafka://{kafka.address}", "--master", master, "--checkpoint", where]
            words += ["--parallelism", str(PARALLELISM), "--key-groups", "8", *ON_LOOPBACK]
            command = [sys.executable, "-m", "lab", *words]
            writer = Thread(target=grow, args=(logs, APPENDS, PAUSE_S, 60))
            with running(screen, *command, env=env, cwd=tmp_path) as engine:
                until(lambda: "reading " in screen.read_text(), 180, engine, screen)
                writer.start()
                until(lambda: counted(logs)["records"] > 1000, 180, engine, screen)
            time.sleep(35)  # its lease runs out
            with running(screen, *command, env=env, cwd=tmp_path) as engine:
                writer.join()
                sent = len(logs.log("events").read())
                until(lambda: counted(logs)["records"] >= sent, 240, engine, screen)
                engine.send_signal(signal.SIGTERM)
                assert engine.wait(60) == 0, screen.read_text()
        alerts, late = assert_equal(logs, expected(logs, key_groups=8)), turned_up_late(logs)
    assert alerts > 100, "too few alerts to mean anything"
    print(
        f"{master}, {PARTITIONS} partitions, {where}: {sent} events, {late} after their cut, {alerts} alerts, as the reference"
    )


def alerts_of(logs: KafkaLogs) -> set[str]:
    return {json.loads(line)["alertId"] for line in logs.log("alerts").read()}


@pytest.mark.soak
def test_workers_run_the_python_that_an_archive_brings(tmp_path):
    """The archive's Python leaves a mark and goes on as this one; the driver asks the same, unpacked in its folder."""
    python, marks, screen = (
        tmp_path / "environment" / "bin" / "python",
        tmp_path / "marks",
        tmp_path / "screen",
    )
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\npwd >> {marks}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    shutil.make_archive(str(tmp_path / "environment"), "gztar", tmp_path / "environment")
    cluster = with_secret(tmp_path, dict(os.environ))
    env = cluster | {"PYSPARK_PYTHON": "./environment/bin/python"}
    with broker.running_broker() as kafka, standalone(tmp_path, cluster) as master:
        logs = KafkaLogs(kafka.address)
        logs.create(2)
        publish(logs, *RULES)
        words = ["run", "--logs", f"kafka://{kafka.address}", "--master", master, *ON_LOOPBACK]
        words += ["--checkpoint", f"file://{tmp_path}/checkpoint", "--parallelism", "2"]
        words += ["--conf", "spark.archives=environment.tar.gz#environment"]
        with running(screen, sys.executable, "-m", "lab", *words, env=env, cwd=tmp_path) as engine:
            stream = payments(seed=7, events=600, start_ms=0, rate_per_s=5, payees=25, beneficiaries=40)
            log = logs.log("events")
            log.append(map(to_json, stream))
            log.close()
            wanted = {alert.alert_id for alert in expected(logs).alerts}
            until(lambda: alerts_of(logs) >= wanted, 240, engine, screen)
            engine.send_signal(signal.SIGTERM)
            assert engine.wait(90) == 0, screen.read_text()
        assert alerts_of(logs) == wanted and len(wanted) > 10
    folders = set(marks.read_text().splitlines())
    assert any(folder.startswith(f"{tmp_path}/work/") for folder in folders), folders


@pytest.mark.soak
def test_an_engine_that_was_paused_while_another_took_over_ends(tmp_path):
    where = f"file://{tmp_path}/checkpoint"
    with broker.running_broker() as kafka:
        logs = KafkaLogs(kafka.address)
        logs.create()
        command = [sys.executable, "-m", "lab", "run", "--logs", f"kafka://{kafka.address}"]
        command += ["--checkpoint", where, "--key-groups", "8"]
        first_log, second_log = tmp_path / "first", tmp_path / "second"
        writer = Thread(target=grow, args=(logs, APPENDS, PAUSE_S, 60))
        with running(first_log, *command) as first:
            until(lambda: "reading " in first_log.read_text(), 180, first, first_log)
            writer.start()
            until(lambda: counted(logs)["records"] > 500, 180, first, first_log)
            with running(second_log, *command) as second:
                assert second.wait(60) == 1 and "is in use by an engine" in second_log.read_text()
            processes = [psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)]
            for process in processes:
                process.suspend()
            time.sleep(LEASE_S + 5)
            with running(second_log, *command) as second:
                until(lambda: "reading " in second_log.read_text(), 180, second, second_log)
                before = counted(logs)["records"]
                until(lambda: counted(logs)["records"] > before, 180, second, second_log)
                for process in processes:
                    process.resume()
                assert first.wait(120) == 1, first_log.read_text()
                last = first_log.read_text().splitlines()[-1]
                assert "Fenced" in last and "was taken over by an engine" in last, last
                writer.join()
                sent = len(logs.log("events").read())
                until(lambda: counted(logs)["records"] >= sent, 240, second, second_log)
                second.send_signal(signal.SIGTERM)
                assert second.wait(60) == 0, second_log.read_text()
        alerts = assert_equal(logs, expected(logs, key_groups=8))
    print(f"taken over and fenced: {sent} events, {alerts} alerts, as the reference")
