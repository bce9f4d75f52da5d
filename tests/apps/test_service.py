"""`lab run` as a service: metrics, health, lines for machines."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from lab.apps.metrics import STALE_S, Metrics, Server
from lab.cli.main import USAGE, main
from lab.engine.ends import FileLogs

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(5),(20)"
EVENTS = [f"{n},2013-01-01 00:00:{n:02},25,12,CSH,1" for n in range(1, 31)]


def got(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(page: str) -> dict[tuple, float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parsed(page)
        for sample in family.samples
    }


@pytest.mark.slow
def test_a_service_tells_people_machines_and_prometheus(tmp_path):
    logs = FileLogs(tmp_path / "logs")
    logs.log("control").append([RULE])
    logs.log("events").append(["{", *EVENTS])
    words = ["run", "--logs", str(logs.folder), "--metrics", "0", "--log-format", "json"]
    screen, deadline = tmp_path / "screen", time.monotonic() + 400
    with (
        screen.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-m", "lab", *words], stdout=out, stderr=subprocess.PIPE, text=True
        ) as engine,
        ExitStack() as ended,  # a test that fails does not wait for it
    ):
        ended.callback(engine.kill)
        while not screen.read_text().endswith("\n"):
            assert time.monotonic() < deadline and engine.poll() is None
            time.sleep(0.1)
        port = json.loads(screen.read_text().splitlines()[0])["port"]
        assert got(port, "/healthz") == (503, "starting\n")
        while ("lab_records_total",) not in (now := samples(got(port, "/metrics")[1])) or not now[
            "lab_records_total",
        ]:
            assert time.monotonic() < deadline and engine.poll() is None
            time.sleep(0.5)
        assert got(port, "/healthz") == (200, "ok\n")
        assert got(port, "/")[0] == 404
        time.sleep(2)
        page = samples(got(port, "/metrics")[1])
        engine.send_signal(signal.SIGTERM)
        _, err = engine.communicate(timeout=60)
    assert engine.returncode == 0 and err == ""
    assert page["lab_records_total",] == 31 and page["lab_fates_total", ("fate", "evaluated")] == 30
    assert page["lab_alerts_total", ("rule", "1"), ("version", "1")] == 25
    assert page["lab_dead_letters_total", ("reason", "not JSON")] == 1
    assert page["lab_lag_records", ("partition", "0")] == 0
    assert page["lab_stage_seconds_count", ("stage", "evaluate")] >= 1
    said = [json.loads(line) for line in screen.read_text().splitlines()]
    assert [line["event"] for line in said][:4] == ["metrics", "checkpoint", "starting", "running"]
    assert said[-1]["event"] == "stopped" and said[-1]["records"] == 31
    assert (logs.folder / "spark.log").is_file()


def test_health_is_red_when_batches_stop_while_there_is_input():
    clock = SimpleNamespace(now=1000.0)
    metrics = Metrics(lambda: clock.now)
    assert metrics.ill() == "starting"
    ends = {0: 5, 1: 7}
    feed = SimpleNamespace(ends=lambda: ends, size=lambda source, start, end: end - start)
    progress = SimpleNamespace(sources=[SimpleNamespace(endOffset='{"events": {"0": 5, "1": 7}}')])
    query = SimpleNamespace(isActive=True, lastProgress=progress)
    metrics.watch(feed, query)
    clock.now += STALE_S + 1
    assert metrics.ill() == ""  # nothing to do
    ends[1] = 9
    assert metrics.ill() == "no micro-batch for 61 s although there is input"
    assert metrics.value("lab_lag_records", partition="1") == 2
    metrics.take({"keyGroups": [0, 15], "times": {"end": int(clock.now * 1000)}})
    assert metrics.ill() == ""
    query.isActive = False
    assert metrics.ill() == "the query has ended"

    def away() -> dict[int, int]:
        raise TimeoutError

    query.isActive, feed.ends = True, away
    assert metrics.ill() == ""
    clock.now += STALE_S + 1
    assert metrics.ill()


def test_metrics_take_less_than_a_hundredth_of_a_core():
    """Ten micro-batches a second of 200 rules, asked for every 5 s: as CPU time, which other programs do not lengthen."""
    by_rule = {f"{rule}.1": 2 for rule in range(200)}
    stats = {"keyGroups": [0, 15], "records": 100, "evaluated": 100, "alerts": 400, "alertsByRule": by_rule}
    stats |= {"deadLettersBy": {}, "heldEvents": 5, "stateBytes": 5, "memoryBytes": 5}
    seconds, metrics = 120, Metrics()
    with Server(metrics, 0) as server:
        began = time.process_time()
        for tenth in range(10 * seconds):
            at = tenth * 100
            times = {"start": at, "decode": at + 1, "route": at + 2, "evaluate": at + 3, "end": at + 4}
            metrics.take({**stats, "batch": tenth, "times": times})
            if tenth % 50 == 0:
                assert got(server.port, "/metrics")[0] == 200
        used = time.process_time() - began
    assert used < 0.01 * seconds, f"{used / seconds:.2%} of a core"


def test_many_rules_have_few_counters():
    metrics = Metrics()
    for rule in range(1500):
        metrics.take({"keyGroups": [0, 15], "alertsByRule": {f"{rule}.1": 1}})
    assert metrics.value("lab_alerts_total", rule="999", version="1") == 1
    assert metrics.value("lab_alerts_total", rule="other", version="") == 500


@pytest.mark.parametrize(
    "words, says",
    [
        (["--metrics", "99999"], "expected a port, 0 to 65535"),
        (["--conf", "spark.ui.enabled"], "expected a name and its value"),
    ],
)
def test_wrong_options_of_a_service_are_refused(words, says, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["run", *words])
    assert exit.value.code == USAGE and says in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(tmp_path, capsys):
    with Server(Metrics(), 0) as other:
        assert main(["run", "--logs", str(tmp_path), "--metrics", str(other.port)]) == 1
    assert f"port {other.port}" in capsys.readouterr().err


def test_the_dashboard_asks_for_metrics_that_there_are():
    board = json.loads((Path(__file__).parents[2] / "docker" / "grafana-dashboard.json").read_text())
    known = {family.name for family in Metrics().registry.collect()}
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for expression in asked:
        names = {
            name.removesuffix("_total").removesuffix("_bucket") for name in re.findall(r"lab_\w+", expression)
        }
        assert names <= known, expression
    assert len(asked) >= 10
