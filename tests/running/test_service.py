"""`lab run` as a service: metrics, health, lines for machines."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families as parsed

from lab.cli.main import USAGE, main
from lab.engine.loop.filelogs import FileLogs
from lab.model.routestats import FATES
from lab.model.rules import RuleBook, parse_message
from lab.model.schema import PAYMENTS
from lab.running.enginemonitor import STALE_S
from lab.running.metrics import REASONS_AT_MOST, TASKS_AT_MOST, WAITS_S, Metrics, MetricsServer
from tests.waiting import PATIENCE_S, wait_until

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(5),(20)"
EVENTS = [f"{n},2013-01-01 00:00:{n:02},25,12,CSH,1" for n in range(1, 31)]


def got(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(page: str) -> dict[tuple, float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parsed(page)
        for sample in family.samples
    }


def sample_value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.slow
def test_a_service_tells_people_machines_and_prometheus(tmp_path):
    logs = FileLogs(tmp_path / "logs")
    logs.log("control").append([RULE])
    logs.log("events").append(["{", *EVENTS])
    words = ["run", "--logs", str(logs.folder), "--metrics", "0", "--log-format", "json"]
    screen = tmp_path / "screen"
    with (
        screen.open("w") as out,
        subprocess.Popen(
            [sys.executable, "-m", "lab", *words], stdout=out, stderr=subprocess.PIPE, text=True
        ) as engine,
        ExitStack() as ended,  # a test that fails does not wait for it
    ):
        ended.callback(engine.kill)

        def alive() -> bool:
            return engine.poll() is None

        wait_until(lambda: screen.read_text().endswith("\n"), alive=alive)
        port = json.loads(screen.read_text().splitlines()[0])["port"]
        assert got(port, "/healthz") == (503, "starting\n")
        idle = {("lab_records_total",): 31, ("lab_lag_records", ("partition", "0")): 0}
        wait_until(lambda: idle.items() <= samples(got(port, "/metrics")[1]).items(), alive=alive)
        assert got(port, "/healthz") == (200, "ok\n")
        assert got(port, "/")[0] == 404
        page = samples(got(port, "/metrics")[1])
        engine.send_signal(signal.SIGTERM)
        _, err = engine.communicate(timeout=PATIENCE_S)
    assert engine.returncode == 0 and err == ""
    assert page["lab_records_total",] == 31 and page["lab_fates_total", ("fate", "routed")] == 30
    routes = [name for name in page if name[0] == "lab_route_events_total"]
    assert sum(page[name] for name in routes) == sum(
        page["lab_fates_total", ("fate", fate)] for fate in FATES
    )
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
    assert metrics.unhealthy_reason() == "starting"
    ends = {0: 5, 1: 7}
    feed = SimpleNamespace(ends=lambda: ends, estimated_records=lambda source, start, end: end - start)
    query = SimpleNamespace(isActive=True)
    metrics.watch_query(feed, query, {"0": 5, "1": 7})
    clock.now += STALE_S + 1
    assert metrics.unhealthy_reason() == ""  # nothing to do
    ends[1] = 9
    assert metrics.unhealthy_reason() == "", "it may have come just now"
    clock.now += WAITS_S
    assert metrics.unhealthy_reason() == f"no cut for {61 + WAITS_S:.0f} s although there is input"
    assert sample_value(metrics, "lab_lag_records", partition="1") == 2
    stats = {"keyGroups": [0, 15], "times": {"end": int(clock.now * 1000)}, "diskWaitMs": 1500}
    metrics.add_stats(stats)
    assert metrics.unhealthy_reason() == ""
    assert sample_value(metrics, "lab_disk_wait_seconds_total") == 1.5
    query.isActive = False
    assert metrics.unhealthy_reason() == "the query has ended"

    def away() -> dict[int, int]:
        raise TimeoutError

    query.isActive, feed.ends = True, away
    assert metrics.unhealthy_reason() == ""
    clock.now += STALE_S + 1
    assert metrics.unhealthy_reason() == ""
    clock.now += WAITS_S
    assert metrics.unhealthy_reason()


@pytest.mark.parametrize("end_s", [1e15, 5000])
def test_the_age_of_the_last_batch_grows_whatever_a_clock_or_a_line_says(end_s):
    """A clock that steps back by an hour, or a line that anybody wrote, must not make it 0 for as long."""
    clock = SimpleNamespace(now=5000.0)
    metrics = Metrics(lambda: clock.now)
    metrics.add_stats({"keyGroups": [0, 15], "times": {"end": int(end_s * 1000)}})
    clock.now = 1400.0
    assert metrics.last_batch_age_s() == 0
    clock.now += 70
    assert metrics.last_batch_age_s() == 70
    metrics.add_stats({"keyGroups": [0, 15], "times": {"end": 1_460_000}})
    assert metrics.last_batch_age_s() == 10


def test_the_time_in_which_no_engine_ran_is_no_stage():
    """A cut that an engine chose before it was killed is carried out by the next one, with the time at which it was chosen."""
    metrics = Metrics(lambda: 5000.0)
    times = {"decode": 5_001_000, "route": 5_001_000, "evaluate": 5_001_000, "end": 5_002_000}
    metrics.add_stats({"keyGroups": [0, 15], "times": {"start": 1_000_000} | times})
    assert sample_value(metrics, "lab_stage_seconds_sum", stage="plan") in (None, 0)
    assert sample_value(metrics, "lab_stage_seconds_sum", stage="evaluate") == 1
    metrics.add_stats({"keyGroups": [0, 15], "times": {"start": 5_000_500} | times})
    assert sample_value(metrics, "lab_stage_seconds_sum", stage="plan") == 0.5


def test_a_micro_batch_touches_the_counters_of_what_it_tells_however_many_there_are(monkeypatch):
    def touched(rules: int) -> int:
        metrics = Metrics()
        metrics.add_stats({"keyGroups": [0, 15], "alertsByRule": {f"{rule}.1": 1 for rule in range(rules)}})
        with monkeypatch.context() as patch:
            labels = Mock(wraps=MetricWrapperBase.labels)
            patch.setattr(MetricWrapperBase, "labels", lambda *given: labels(*given))
            metrics.add_stats({"keyGroups": [0, 15], "alertsByRule": {"1.1": 2}})
        return labels.call_count

    assert 0 < touched(1) == touched(900) < 20


def test_what_each_route_dropped_has_counters_of_the_first_routes():
    metrics = Metrics()
    for number in range(250):
        routes = {f"field{number}": {"rule": 1, "rules": 1, "routed": 3, "evaluated": 2, "duplicates": 1}}
        metrics.add_stats({"keyGroups": [0, 15], "routes": routes, "otherRoutes": {"droppedLate": 1}})
    assert sample_value(metrics, "lab_route_events_total", route="field199", fate="duplicates") == 1
    assert sample_value(metrics, "lab_route_events_total", route="field200", fate="duplicates") is None
    assert sample_value(metrics, "lab_route_events_total", route="other", fate="duplicates") == 50
    assert sample_value(metrics, "lab_route_events_total", route="other", fate="droppedLate") == 250


def test_the_rules_that_a_line_sums_up_have_a_counter_together():
    metrics = Metrics()
    metrics.add_stats({"keyGroups": [0, 15], "alertsByRule": {"1.2": 3, "other": 4}})
    assert sample_value(metrics, "lab_alerts_total", rule="other", version="") == 4


def test_lines_of_a_stranger_make_few_counters():
    metrics = Metrics()
    for number in range(2_000):
        by = {f"reason {number}": 1}
        metrics.add_stats({"batch": number, "keyGroups": [number, number + 1], "deadLettersBy": by})
    made = [sample for family in metrics.registry.collect() for sample in family.samples]
    assert len([one for one in made if one.name == "lab_dead_letters_total"]) == REASONS_AT_MOST + 1
    assert sample_value(metrics, "lab_dead_letters_total", reason="other") == 2_000 - REASONS_AT_MOST
    assert len([one for one in made if one.name == "lab_held_events"]) == TASKS_AT_MOST + 1


def test_many_rules_have_few_counters():
    metrics = Metrics()
    for rule in range(1500):
        metrics.add_stats({"keyGroups": [0, 15], "alertsByRule": {f"{rule}.1": 1}})
    assert sample_value(metrics, "lab_alerts_total", rule="999", version="1") == 1
    assert sample_value(metrics, "lab_alerts_total", rule="other", version="") == 500


@pytest.mark.parametrize(
    "words, says",
    [
        (["--metrics", "99999"], "expected a whole number, 0 to 65535"),
        (["--conf", "spark.ui.enabled"], "expected a name and its value"),
    ],
)
def test_wrong_options_of_a_service_are_refused(words, says, capsys):
    with pytest.raises(SystemExit) as exit:
        main(["run", *words])
    assert exit.value.code == USAGE and says in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(tmp_path, capsys):
    with MetricsServer(Metrics(), 0) as other:
        assert main(["run", "--logs", str(tmp_path), "--metrics", str(other.server_port)]) == 1
    assert f"port {other.server_port}" in capsys.readouterr().err


def test_the_dashboard_asks_for_metrics_that_there_are():
    board = json.loads((Path(__file__).parents[2] / "docker" / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(asked) >= 10 and not unknown_metrics(asked)


def test_the_alert_rules_ask_for_metrics_and_labels_that_there_are():
    groups = yaml.safe_load((Path(__file__).parents[2] / "docker" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical") and rule["annotations"]["summary"]
    asked = [rule["expr"] for rule in rules]
    assert not unknown_metrics(asked)
    there = samples(generate_latest(Metrics().registry).decode())
    for name, label, value in re.findall(r'(lab_\w+)\{(\w+)="(\w+)"\}', "\n".join(asked)):
        assert (name, (label, value)) in there


def unknown_metrics(expressions: list[str]) -> set[str]:
    """The names in queries that no metric of an engine has."""
    known = {family.name for family in Metrics().registry.collect()}
    asked = set(re.findall(r"lab_\w+", "\n".join(expressions)))
    return {name for name in asked if name.removesuffix("_total").removesuffix("_bucket") not in known}


def test_answers_to_control_messages_and_rules_by_state_are_counted():
    metrics = Metrics()
    rules = [parse_message(f"{n}: COUNT(events) over 1 h > 1", PAYMENTS).rule for n in (1, 2, 3)]
    metrics.set_rules(filter(None, rules))
    book = RuleBook(PAYMENTS)
    for message in (
        "1: COUNT(events) over 1 h > 2",
        "1,(pause)",
        "4 SHADOW: COUNT(events) over 1 h > 2",
        "nonsense",
        '{"ruleId": 4, "ruleState": "DELETE"}',
        '{"list": "risky", "add": ["KR"]}',
    ):
        metrics.add_ack(book.apply(message))
    metrics.add_ack({"status": "schema"})

    def counted() -> tuple:
        return tuple(
            sample_value(metrics, "lab_rules", state=state) for state in ("ACTIVE", "PAUSE", "SHADOW")
        )

    assert counted() == (2, 1, 0)
    assert sample_value(metrics, "lab_control_total", status="accepted") == 5
    assert sample_value(metrics, "lab_control_total", status="rejected") == 1
    metrics.add_ack(book.apply('{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}'))
    assert counted() == (0, 0, 0)


@pytest.fixture
def served():
    with MetricsServer(Metrics(), 0) as server:
        yield server


def test_who_sends_nothing_or_reads_nothing_keeps_nobody_waiting(served):
    with ExitStack() as slow:
        for start in (b"", b"GET /healthz HTTP/1.1\r\n", b"GET /metrics HTTP/1.1\r\n\r\n") * 3:
            sender = slow.enter_context(socket.create_connection(("127.0.0.1", served.server_port)))
            sender.sendall(start)
        assert got(served.server_port, "/healthz")[0] == 503
        assert got(served.server_port, "/metrics")[0] == 200


def test_while_a_broker_is_away_requests_are_answered_and_leave_no_threads(served, monkeypatch):
    """A broker takes longer to be away than a request may take."""
    monkeypatch.setattr("lab.running.boundedserver.DEADLINE_S", 1.0)
    monkeypatch.setattr("lab.running.metrics.LAG_S", 0.2, raising=False)
    clock = SimpleNamespace(now=1000.0)
    metrics, answers = Metrics(lambda: clock.now), Event()
    feed = SimpleNamespace(ends=answers.wait, estimated_records=Mock())
    metrics.watch_query(feed, SimpleNamespace(isActive=True), {})
    clock.now += STALE_S + 1
    with MetricsServer(metrics, 0) as server:
        try:
            assert got(server.server_port, "/healthz") == (200, "ok\n")
            clock.now += WAITS_S
            assert got(server.server_port, "/healthz") == (
                503,
                "no cut for 66 s, and the log of the events does not answer\n",
            )
            assert got(server.server_port, "/livez") == (200, "ok\n"), (
                "a restart would not bring the broker back"
            )
            assert sample_value(metrics, "lab_events_log_up") == 0
            assert all(got(server.server_port, "/metrics")[0] == 200 for _ in range(20))
            wait_until(lambda: threads_of_pages() == 0)
        finally:
            answers.set()


def test_on_the_loopback_a_page_with_a_host_name_of_its_own_reads_no_metrics():
    """DNS rebinding: the name of somebody's page, pointed at 127.0.0.1, is still the name in the request."""

    def status(server: MetricsServer, host: str) -> int:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{server.server_port}/metrics", headers={"Host": host}
        )
        try:
            return urllib.request.urlopen(asked, timeout=PATIENCE_S).status
        except urllib.error.HTTPError as error:
            assert "expected the host 127.0.0.1" in error.read().decode()
            return error.code

    with MetricsServer(Metrics(), 0) as server:
        for own in ("127.0.0.1", f"127.0.0.1:{server.server_port}", f"LocalHost:{server.server_port}"):
            assert status(server, own) == 200
        for strange in (
            "evil.example",
            f"evil.example:{server.server_port}",
            "127.0.0.1.evil.example",
            "[::1",
            "@",
        ):
            assert status(server, strange) == 403
    with MetricsServer(Metrics(), 0, "0.0.0.0") as server:  # whose names are not known
        assert status(server, "engine:9464") == 200


def test_of_too_many_connections_the_oldest_ends(served, monkeypatch):
    monkeypatch.setattr("lab.running.boundedserver.CONNECTIONS", 3)
    with ExitStack() as slow:
        senders = [
            slow.enter_context(
                socket.create_connection(("127.0.0.1", served.server_port), timeout=PATIENCE_S)
            )
            for _ in range(4)
        ]
        assert senders[0].recv(1) == b""
        assert got(served.server_port, "/healthz")[0] == 503
        wait_until(lambda: threads_of_pages() <= 3)


def test_a_request_that_trickles_in_ends_at_its_deadline(served, monkeypatch):
    monkeypatch.setattr("lab.running.boundedserver.DEADLINE_S", 0.5)
    with socket.create_connection(("127.0.0.1", served.server_port), timeout=PATIENCE_S) as sender:
        ended = Event()
        Thread(target=trickle, args=(sender, ended), daemon=True).start()
        assert sender.recv(1) == b""
        ended.set()
    wait_until(lambda: threads_of_pages() == 0)


def trickle(sender: socket.socket, ended: Event) -> None:
    with suppress(OSError):
        while not ended.wait(0.05):
            sender.sendall(b"G")


def threads_of_pages() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())
