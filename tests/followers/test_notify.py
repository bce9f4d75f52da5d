"""`lab notify`: each alert reaches its target, in order, whatever fails; and nothing in an alert is obeyed there."""

import json
import signal
import socket
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab.cli.main import USAGE, main
from lab.engine.loop.filelogs import FileLogs
from lab.followers.alertmessages import (
    MAX_BODY,
    MAX_LINE,
    NotAccepted,
    TextBatch,
    WebhookBatch,
    webhook_signature,
)
from lab.followers.alerttext import AbsenceRules, sanitize_text
from lab.followers.notify import Messages, ReceiverFilter
from lab.logs.config import AlertReceiver, BadConfig, read_config
from lab.logs.following import follow
from lab.logs.positions import Positions, Record
from lab.logs.protocol import Tail
from lab.model.aggregation import MeasuredCondition
from lab.model.alerts import Alert, Withdrawal
from lab.model.attributes import carried
from lab.running.target import locate
from tests.waiting import PATIENCE_S, program, wait_until

SECRET = "hush-hush"


def alert(event_id: int, key: str = "{payeeId=25}", rule_id: int = 1) -> Alert:
    return Alert(rule_id, 2, key, Decimal("51.10"), "GREATER", Decimal(50), event_id, 1_356_998_400_000)


class Webhook:
    """A server that keeps what it is sent, and answers with the statuses given, then with 204."""

    def __init__(self):
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.most = float("inf")  # bytes of a body; of a longer one it says 413
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status = outer.statuses.pop(0) if outer.statuses else 204 if len(body) <= outer.most else 413
                if status == 204:
                    outer.requests.append(
                        ({name.lower(): value for name, value in self.headers.items()}, body)
                    )
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def event_ids(self) -> list[int]:
        return [each["eventId"] for _, body in self.requests for each in json.loads(body)["alerts"]]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Webhook]:
    receiver = Webhook()
    yield receiver
    receiver.close()


@pytest.fixture
def place(tmp_path, monkeypatch, receiver) -> FileLogs:
    """A working directory with a lab.toml and logs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("secret").write_text(SECRET + "\n")
    Path("secret").chmod(0o600)
    Path("lab.toml").write_text(
        f'[notify.audit]\nurl = "http://127.0.0.1:{receiver.port}/hook/{SECRET}"\nsecret = {{ file = "secret" }}\n'
        f'[notify.oncall]\nurl = "json://oncall:{SECRET}@127.0.0.1:{receiver.port}"\nevery = "1h"\n'
        f'[notify.first]\nurl = "json://127.0.0.1:{receiver.port}"\nevery = "1s"\nrules = [1]\n'
    )
    Path("lab.toml").chmod(0o600)
    logs = FileLogs(tmp_path / "logs")
    logs.create()
    return logs


def notifying(target: str, *arguments: str):
    command = [sys.executable, "-m", "lab", "notify", "--to", target, "--logs", "logs", *arguments]
    return program(command, stderr=Path("said").open("w"))


def said() -> str:
    return Path("said").read_text()


def started(process) -> None:
    wait_until(lambda: "until Ctrl-C" in said(), alive=lambda: process.poll() is None, said=said)


def arrived(receiver: Webhook, count: int, process) -> None:
    wait_until(lambda: len(receiver.event_ids()) >= count, alive=lambda: process.poll() is None, said=said)


def test_a_webhook_gets_each_alert_signed_and_a_second_run_continues(place, receiver):
    place.log("alerts").append([alert(0).to_json()])
    with notifying("audit") as process:
        started(process)
        place.log("alerts").append([alert(1).to_json(), "not an alert", alert(2).to_json()])
        arrived(receiver, 2, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert "2 alerts sent to audit, 1 unreadable line left out" in said() and SECRET not in said()
    place.log("alerts").append([alert(3).to_json()])
    with notifying("audit") as process:
        arrived(receiver, 3, process)
    assert receiver.event_ids() == [1, 2, 3]
    for headers, body in receiver.requests:
        id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
        assert headers["webhook-signature"] == webhook_signature(SECRET, id, timestamp, body)
    assert json.loads(receiver.requests[0][1])["alerts"][0] == json.loads(alert(1).to_json())


def test_a_target_that_refuses_gets_the_alerts_again_and_a_redirect_is_not_followed(place, receiver):
    receiver.statuses = [500, 302]
    with notifying("audit", "--from", "0") as process:
        place.log("alerts").append([alert(1).to_json()])
        arrived(receiver, 1, process)
    assert "audit: 127.0.0.1 answered 500, expected 2xx; the alerts are kept, trying again in 1 s" in said()
    assert "answered 302" in said() and SECRET not in said()
    assert receiver.event_ids() == [1]


@pytest.mark.parametrize("target", ["audit", "first"])
def test_nothing_of_the_surroundings_is_sent_along_or_gets_the_alerts(place, receiver, monkeypatch, target):
    """Neither the user's passwords for that host nor a proxy that a variable names."""
    Path("netrc").write_text(f"machine 127.0.0.1 login ann password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(Path("netrc").absolute()))
    proxy = Webhook()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    place.log("alerts").append([alert(1).to_json()])
    with notifying(target, "--from", "0") as process:
        wait_until(lambda: receiver.requests, alive=lambda: process.poll() is None, said=said)
    assert not proxy.requests
    assert all("authorization" not in headers for headers, _ in receiver.requests)
    proxy.close()


def test_the_proxy_that_lab_toml_names_gets_the_requests(place, receiver):
    for more in ({"webhook_secret": SECRET}, {}):
        url = "http://audit.invalid/hook" if more else "json://audit.invalid/hook"
        batch = (WebhookBatch if more else TextBatch)(
            AlertReceiver("audit", url, proxy=f"http://127.0.0.1:{receiver.port}", **more)
        )
        batch.add(alert(1))
        batch.send()
    assert len(receiver.requests) == 2
    assert {headers["host"] for headers, _ in receiver.requests} == {"audit.invalid"}


@contextmanager
def trickling() -> Iterator[int]:
    """A server that answers with a byte a second, without end; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=trickle, args=(server.accept()[0],), daemon=True).start()

        def trickle(client: socket.socket) -> None:
            with suppress(OSError):
                client.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while True:
                    client.sendall(b"x")
                    time.sleep(0.1)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize("batch_class", [WebhookBatch, TextBatch])
def test_a_target_that_answers_slowly_without_end_is_left_at_the_limit(monkeypatch, batch_class):
    monkeypatch.setattr("lab.followers.alertmessages.ANSWER_S", 0.5)
    with trickling() as port:
        is_webhook = batch_class is WebhookBatch
        url = f"{'http' if is_webhook else 'json'}://127.0.0.1:{port}"
        batch = batch_class(AlertReceiver("slow", url, webhook_secret=SECRET * is_webhook))
        batch.add(alert(1))
        began = time.monotonic()
        with pytest.raises(NotAccepted, match="does not answer within 0.5 s"):
            batch.send()
        assert time.monotonic() - began < 0.5 + PATIENCE_S / 4
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_target_that_answers_slowly_keeps_nobody_from_stopping(place):
    with trickling() as port:
        with Path("lab.toml").open("a") as file:
            file.write(f'[notify.slow]\nurl = "http://127.0.0.1:{port}"\nsecret = {{ file = "secret" }}\n')
        place.log("alerts").append([alert(1).to_json()])
        with notifying("slow", "--from", "0") as process:
            started(process)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            assert process.wait(6) == 0  # of the 10 s that an answer may take
    assert "0 alerts sent to slow" in said()


def test_an_alert_that_is_too_large_for_its_target_is_left_out_by_name_and_those_behind_it_arrive(
    place, receiver
):
    alerts = [
        alert(number, "{payeeId=" + "9" * (5_000 if number == 20 else 10) + "}") for number in range(50)
    ]
    receiver.most = 2_000
    place.log("alerts").append([each.to_json() for each in alerts])
    with notifying("audit", "--from", "0") as process:
        arrived(receiver, 49, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert receiver.event_ids() == [number for number in range(50) if number != 20]
    assert f"left out: alert {alerts[20].alert_id}: 127.0.0.1 answered 413 to a request of" in said()
    assert "49 alerts sent to audit, 1 too large for it" in said()


def test_killed_at_any_time_no_alert_is_missing_and_the_order_stays(place, receiver):
    count, kills = 6_000, 4
    for kill in range(kills):  # each has new ones to send, however fast the one before was
        here = range(count * kill // kills, count * (kill + 1) // kills)
        place.log("alerts").append([alert(number).to_json() for number in here])
        with notifying("audit", *(["--from", "0"] if kill == 0 else [])) as process:
            wait_until(
                lambda new=here[0]: receiver.event_ids()[-1:] >= [new],
                alive=lambda: process.poll() is None,
                said=said,
            )
    with notifying("audit") as process:
        wait_until(lambda: count - 1 in receiver.event_ids(), alive=lambda: process.poll() is None, said=said)
    first = list(dict.fromkeys(receiver.event_ids()))
    assert first == list(range(count))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\uff20here \ufe6ball", "@|here @|all"),
        ("evil\u3002com evil\uff0ecom evil\uff61com evil\u2024com", "evil。|com evil.|com evil｡|com evil.|com"),
        ("https\uff1a\uff0f\uff0fx http:\u2215\u2215x", "https:|//x http:\u2215\u2215x"),
        ("\uff1c!here\uff1e \ufe64!all\ufe65", "‹!here› ‹!all›"),
        ("a\u00adb\u200bc\u2060d\ufeffe\U000e0041f\u3164g\u202eh", r"a\u00adb\u200bc\u2060d\ufeffe\udb40\udc41f\u3164g\u202eh"),
        ("서울 ㅋㅋ。끝 你好。世界 １２．５ ①", "서울 ㅋㅋ。|끝 你好。|世界 １２.５ ①"),
        ("@\u200bhere", r"@|\u200bhere"),
    ],
)  # fmt: skip
def test_signs_that_look_or_count_like_others_mention_nobody_and_link_nowhere(text, shown):
    assert sanitize_text(text).replace("\u200b", "|") == shown


TWO = (
    MeasuredCondition(Decimal("51.10"), "GREATER", Decimal(50)),
    MeasuredCondition(None, "GREATER_EQUAL", Decimal(3)),
)
LONG = "Card testing: many small amounts ".ljust(200, "x")


@pytest.mark.parametrize(
    "more",
    [
        {"title": LONG[:137]},
        {"title": LONG, "severity": "critical", "conditions": TWO},
        {"title": "\u202e@all <b>.evil " * 12, "severity": "high"},
        {"key": "{host=" + "h" * 2_000 + "}", "title": LONG},
        {"event_id": ("e" * 200, 7), "title": LONG},
    ],
)
def test_of_a_long_alert_people_read_group_value_and_event_and_the_beginning_of_the_title(more):
    said = {name: more[name] for name in ("title", "severity") if name in more}
    others = {name: value for name, value in more.items() if name not in said}
    told = replace(alert(7), **{"log_time": 5, "alert_time": 9, "carried": carried(**said)} | others)
    batch = TextBatch(AlertReceiver("oncall", "json://x"))
    batch.add(told)
    line = batch.title_and_body()[1].removeprefix("1 alert: ")
    assert len(line) <= MAX_LINE
    assert line.startswith("2013-01-01 00:00:00.000  rule 1 v2  ")
    assert sanitize_text(more["title"])[:15] in line and "…" in line
    assert told.key[:12] in line and "51.10 GREATER 50" in line and "  event " in line
    assert ("no value GREATER_EQUAL 3" in line) is ("conditions" in more)
    if "event_id" not in more:
        assert "  event 7  " in line and line.endswith("4 ms")


def test_of_a_long_withdrawn_line_people_read_group_and_event():
    batch = TextBatch(AlertReceiver("oncall", "json://x"))
    batch.add(Withdrawal("{host=" + "h" * 2_000 + "}", (), 7, 0))
    line = batch.title_and_body()[1].removeprefix("1 event: ")
    assert len(line) <= MAX_LINE and "withdrawn" in line and "{host=h" in line and "event 7" in line


def test_people_are_told_what_did_not_come(place, receiver):
    rule = '3: NO(events) per payeeId within 15 min after, title "Silent"'
    place.log("control").append([rule])
    silent = replace(
        alert(7, rule_id=3), rule_version=1, aggregate=Decimal(0), operator="EQUAL", limit=Decimal(0)
    )
    place.log("alerts").append([silent.to_json()])
    with notifying("oncall", "--from", "0") as process:
        wait_until(lambda: receiver.requests, alive=lambda: process.poll() is None, said=said)
    message = json.loads(receiver.requests[0][1])["message"]
    assert "rule 3 v1  {payeeId=25}  nothing came within 15 min  event 7" in message


def test_people_get_one_text_for_all_alerts_of_a_time_and_nothing_in_it_is_obeyed(place, receiver):
    keys = ["{host=<!channel> @all\n\x1b[31m https://evil.example}", *(f"{{host={n}}}" for n in range(30))]
    place.log("alerts").append([alert(number, keys[number % 31]).to_json() for number in range(62)])
    with notifying("oncall", "--from", "0") as process:
        wait_until(lambda: receiver.requests, alive=lambda: process.poll() is None, said=said)
        place.log("alerts").append([alert(99, keys[0]).to_json()])
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert len(receiver.requests) == 1  # the next one an hour later
    text = json.loads(receiver.requests[0][1])
    lines = text["message"].splitlines()
    assert text["title"] == "62 alerts of 31 groups" and len(lines) == 11
    assert lines[0].startswith("2 alerts: 2013-01-01 00:00:00.000  rule 1 v2  {host=29}  51.10 GREATER 50")
    assert lines[-1] == "and 42 of 21 other groups"
    receiver.requests.clear()
    with notifying("oncall") as process:  # what it had not sent when it was stopped
        wait_until(lambda: receiver.requests, alive=lambda: process.poll() is None, said=said)
    message = json.loads(receiver.requests[0][1])["message"]
    for obeyed in ("@all", "<!", "\x1b", "https://"):
        assert obeyed not in message
    assert "host=‹!channel›" in message


def test_a_webhook_and_people_are_told_that_alerts_are_withdrawn(place, receiver):
    told = Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1_356_998_400_000)
    place.log("alerts").append([alert(7).to_json(), told.to_json()])
    with notifying("audit", "--from", "0") as process:
        arrived(receiver, 2, process)
    sent = [each for _, body in receiver.requests for each in json.loads(body)["alerts"]]
    assert sent == [json.loads(alert(7).to_json()), json.loads(told.to_json())]
    message = TextBatch(AlertReceiver("oncall", "json://x"))
    for each in (alert(7), told):
        message.add(each)
    assert "withdrawn: the alerts of {payeeId=25} at event 7" in message.title_and_body()[1]


def test_what_is_withdrawn_is_not_counted_as_alerts():
    batch, told = TextBatch(AlertReceiver("oncall", "json://x")), alert(7)
    batch.add(Withdrawal(told.key, (), 7, told.event_time))
    title, body = batch.title_and_body()
    assert title == "alerts of 1 event withdrawn" and body.startswith("1 event: ")
    batch.add(told)
    batch.add(Withdrawal(told.key, (), 8, told.event_time))
    assert batch.title_and_body()[0] == "1 alert of 1 group, alerts of 2 events withdrawn"


def test_an_alert_that_comes_again_after_it_was_withdrawn_is_another_request(receiver):
    first, again = (replace(alert(7), log_time=time, alert_time=time + 5) for time in (1_000, 2_000))
    copy = replace(first, alert_time=1_500)
    message = WebhookBatch(AlertReceiver("audit", f"http://127.0.0.1:{receiver.port}", webhook_secret=SECRET))
    for each in (first, again, copy):
        message.add(each)
        message.send()
    ids = [headers["webhook-id"] for headers, _ in receiver.requests]
    assert ids[0] == ids[2] != ids[1] and receiver.event_ids() == [7, 7, 7]


def test_people_read_the_last_of_an_alert_that_was_withdrawn_and_came_again_first():
    told = Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1_356_998_400_000)
    message = TextBatch(AlertReceiver("oncall", "json://x"))
    for each in (alert(7), told, replace(alert(7), aggregate=Decimal(60))):
        message.add(each)
    first, second = message.title_and_body()[1].splitlines()
    assert "60 GREATER" in first and "withdrawn" in second


def test_an_alert_that_comes_after_it_was_withdrawn_is_not_sent(place, receiver):
    """Without transactions an attempt that was taken for dead delivers alerts after its successor has withdrawn them."""
    first, again = (replace(alert(7), log_time=time) for time in (1_000, 3_000))
    told = Withdrawal(first.key, (("payeeId", 7),), 7, first.event_time, 2_000)
    first, again = (replace(each, group=told.group) for each in (first, again))
    place.log("alerts").append([each.to_json() for each in (first, told, first, again, first)])
    with notifying("audit", "--from", "0") as process:
        wait_until(lambda: receiver.requests, alive=lambda: process.poll() is None, said=said)
    lines = [
        json.dumps(each, separators=(",", ":")) for each in json.loads(receiver.requests[0][1])["alerts"]
    ]
    assert lines == [
        json.dumps(json.loads(each.to_json()), separators=(",", ":")) for each in (first, told, again)
    ]


def withdrawn(event_id: int, log_time: int) -> Withdrawal:
    told = alert(event_id)
    return Withdrawal(told.key, (("payeeId", event_id),), event_id, told.event_time, log_time)


def dated(event_id: int, log_time: int, rule_id: int = 1) -> Alert:
    return replace(alert(event_id, rule_id=rule_id), log_time=log_time, group=(("payeeId", event_id),))


def test_after_a_restart_what_was_withdrawn_before_is_not_sent(place, receiver):
    log = place.log("alerts")
    with notifying("audit") as process:
        started(process)
        log.append([dated(7, 1_000).to_json(), withdrawn(7, 2_000).to_json()])
        arrived(receiver, 2, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    log.append([each.to_json() for each in (dated(7, 1_000), dated(7, 3_000), dated(8, 3_000))])
    with notifying("audit") as process:
        arrived(receiver, 4, process)
    sent = [each for _, body in receiver.requests for each in json.loads(body)["alerts"]]
    assert [each.get("logTime") for each in sent] == [1_000, 2_000, 3_000, 3_000]


def test_a_line_that_withdraws_is_sent_to_those_who_may_have_got_the_alert():
    lines = ReceiverFilter((1,))
    assert lines.gets(withdrawn(1, 5)), "its alert is older than what was read"
    got = [dated(2, 5), dated(2, 5, rule_id=2), withdrawn(2, 6), dated(3, 5, rule_id=2), withdrawn(3, 6)]
    assert [lines.gets(each) for each in got] == [True, False, True, False, False]
    lines.note_before(dated(4, 5), sent=True)
    lines.note_before(dated(5, 5), sent=False)
    assert [lines.gets(withdrawn(event, 6)) for event in (4, 5)] == [True, False]
    assert [lines.gets(dated(event, 5)) for event in (4, 5)] == [False, False]


def test_the_fields_of_a_group_may_stand_in_another_order_in_the_line_that_withdraws_its_alert():
    """The rule that alerted named them in another order, and has been changed or deleted since."""
    groups = (("user", 1), ("card", "c")), (("card", "c"), ("user", 1))
    told, other = (replace(dated(7, 1_000, rule_id=rule), group=groups[0]) for rule in (1, 2))
    gone = Withdrawal("{}", groups[1], 7, told.event_time, 2_000)
    wants_first, wants_second = ReceiverFilter((1,)), ReceiverFilter((2,))
    assert [wants_first.gets(line) for line in (told, gone, told)] == [True, True, False]
    assert [wants_second.gets(line) for line in (told, gone)] == [False, False]
    assert wants_second.gets(replace(gone, group=(("card", "c"), ("user", 2)))), (
        "an alert that it may have sent"
    )
    assert not wants_second.gets(other)


def test_it_remembers_a_bounded_number_of_events():
    lines = ReceiverFilter((1,), at_most=2)
    for event in range(5):
        lines.gets(dated(event, 5, rule_id=2))
    assert [lines.gets(withdrawn(event, 6)) for event in range(5)] == [True, True, True, False, False]


def test_of_an_event_whose_group_is_long_little_is_remembered():
    lines = ReceiverFilter(())
    tracemalloc.start()
    try:
        for event in range(300):
            group = tuple((f"text{key}", f"{event}-{key}".ljust(2_000, "x")) for key in range(16))
            given = replace(dated(event, 5), group=group)
            assert lines.gets(given) and lines.gets(replace(withdrawn(event, 6), group=group))
            assert not lines.gets(given) and lines.gets(
                replace(given, group=(*group[1:], ("text0", "other")))
            )
        del group, given
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()


def test_a_target_may_want_some_rules_only(place, receiver):
    place.log("alerts").append([alert(1, rule_id=2).to_json(), alert(2).to_json()])
    with notifying("first", "--from", "0") as process:
        wait_until(lambda: receiver.requests, alive=lambda: process.poll() is None, said=said)
    assert json.loads(receiver.requests[0][1])["title"] == "1 alert of 1 group"


def test_what_was_collected_is_sent_also_while_alerts_of_other_rules_come_without_a_pause(receiver):
    """As on a broker that takes longer to answer than the next alert takes to come."""
    came = iter([Record(0, "", alert(1).to_json(), "alerts/0:0")])
    others = Record(0, "", alert(2, rule_id=2).to_json(), "alerts/0:1")

    class Busy(Tail):
        expired, positions = "", {0: 0}

        def records(self, at_most: int | None = None, upto: Positions | None = None) -> list[Record]:
            time.sleep(0.01)
            self.positions = {0: self.positions[0] + 1}
            return [next(came, others)]

    to = AlertReceiver("audit", f"http://127.0.0.1:{receiver.port}", SECRET, rule_ids=(1,))
    stopped = threading.Event()
    patience = threading.Timer(PATIENCE_S, stopped.set)
    patience.start()

    def arrived(tail: Tail) -> None:
        stopped.set()

    messages = Messages(to, AbsenceRules(locate("logs")), stopped, collect_s=0.1)
    follow(Busy(), messages, stopped, arrived)
    patience.cancel()
    assert messages.sent == 1 and receiver.event_ids() == [1]


def test_two_that_send_to_one_target_would_send_twice(place, receiver, capsys):
    with notifying("audit") as process:
        started(process)
        assert main(["notify", "--to", "audit", "--logs", "logs"]) == USAGE
    assert "another `lab notify --to audit` already sends the alerts of" in capsys.readouterr().err


def test_a_target_that_is_none_is_named(place, capsys):
    assert main(["notify", "--to", "nobody", "--logs", "logs"]) == USAGE
    said = capsys.readouterr().err
    assert "--to: nobody, expected a target of lab.toml" in said and "audit, first, oncall" in said


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("a = 1", "notify.x.a is not known"),
        ("rules = [1]", "notify.x.url is missing"),
        ('url = "http://example.com"\nsecret = "hush-hush"', "notify.x.url: expected https://"),
        ('url = "https://e.com"\nsecret = "${NO_SUCH_SECRET}"', "the environment has no NO_SUCH_SECRET"),
        ('url = "https:///hush-hush"\nsecret = "hush-hush"', "notify.x.url: expected https://HOST"),
        ('url = "https://e.com:hush-hush/"\nsecret = "hush-hush"', "notify.x.url: expected https://HOST"),
        ('url = "https://[hush-hush"\nsecret = "hush-hush"', "notify.x.url: expected https://HOST"),
        ('url = "https://e.com"\nsecret = ""', "notify.x.secret is empty"),
        ('url = "https://e.com"\nsecret = "whsec_hush-hush"', "notify.x.secret: begins with whsec_"),
        ('url = "https://e.com"\nsecret = "whsec_----"', "notify.x.secret: begins with whsec_"),
        ('url = "https://e.com"\nsecret = "whsec_"', "notify.x.secret: begins with whsec_"),
        ('url = "https://e.com"\nsecret = "hush-hush"\nevery = "1m"', "notify.x.every is for people"),
        ('url = "slack://a"\nevery = "often"', "notify.x.every"),
        ('url = "slack://a"\nproxy = "hush-hush"', "notify.x.proxy: expected http://HOST:PORT"),
        ('url = "slack://a"\nproxy = "file:///hush-hush"', "notify.x.proxy: expected http://HOST:PORT"),
        ('url = "slack://a"\nrules = ["1"]', "notify.x.rules: expected a list"),
    ],
)
def test_what_does_not_fit_in_lab_toml_is_named_without_a_secret(tmp_path, table, reason):
    (tmp_path / "lab.toml").write_text(f"[notify.x]\n{table}\n")
    (tmp_path / "lab.toml").chmod(0o600)
    with pytest.raises(BadConfig, match=reason) as error:
        read_config(tmp_path / "lab.toml")
    assert SECRET not in str(error.value)


def test_a_url_that_apprise_does_not_know_is_refused(place, capsys):
    with Path("lab.toml").open("a") as file:
        file.write('[notify.odd]\nurl = "nonsense://hush-hush"\n')
    assert main(["notify", "--to", "odd", "--logs", "logs"]) == USAGE
    said = capsys.readouterr().err
    assert "notify.odd.url: not a URL that apprise knows" in said and SECRET not in said


def test_many_long_alerts_travel_in_several_requests(receiver):
    message = WebhookBatch(AlertReceiver("x", f"http://127.0.0.1:{receiver.port}", webhook_secret=SECRET))
    for number in range(40):
        message.add(alert(number, f"{{k={'x' * 50_000}}}"))
    message.send()
    assert receiver.event_ids() == list(range(40)) and len(receiver.requests) > 5
    assert max(len(body) for _, body in receiver.requests) <= MAX_BODY + 20


def test_a_text_stands_for_any_number_of_groups_and_stays_short():
    message = TextBatch(AlertReceiver("x", "slack://"))
    for number in range(50_000):
        message.add(alert(number, f"{{k={number}{'x' * 100}}}"))
    title, body = message.title_and_body()
    assert title == "50,000 alerts of 50,000 groups" and len(body) < 1_900
    assert body.endswith("and 49,990 of 49,990 other groups")
