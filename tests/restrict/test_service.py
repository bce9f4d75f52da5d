"""The enforcement service: answers from its log, also after a restart; refuses what is wrong, large, or too much."""

import http.client
import json
import time
from contextlib import contextmanager

import psutil
import pytest

from lab.logs.files import FileLog
from lab.machine import ports
from lab.restrict import service
from lab.restrict.client import Enforcement
from lab.restrict.restrictions import Restriction
from lab.restrict.service import HOST, MAX_BODY
from lab.stream.player import Player

ALICE = (("userId", "7"),)


@contextmanager
def serving(log, **settings):
    port = ports.free_port()
    with service.serving(log, port, **settings):
        yield port


@pytest.fixture
def log(tmp_path) -> FileLog:
    return FileLog(tmp_path / "restrictions")


def ask(port: int, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, object]:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    connection.request(method, path, body, {"Content-Type": "application/json"} | headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if text.startswith(("{", "[")) else text


def may(port: int, **event) -> tuple[int, object]:
    return ask(port, "POST", "/may", json.dumps({"questions": [event]}))


def block(log, seconds: float = 60, action="block_login", subject=ALICE, lifted=None) -> None:
    now = time.time_ns() // 1_000_000
    made = Restriction(action, subject, now, now + int(seconds * 1000), rule_id=1)
    log.append(
        [(made if lifted is None else Restriction(action, subject, lifted=now + 1, by="ann")).to_json()]
    )


def wait_until(true, seconds: float = 5) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def test_it_refuses_while_a_restriction_lasts_and_until_it_is_lifted(log):
    with serving(log) as port:
        assert may(port, action="login", userId=7) == (200, {"answers": [{"allowed": True}]})
        block(log, seconds=0.7)
        wait_until(lambda: not may(port, action="login", userId=7)[1]["answers"][0]["allowed"])
        _, told = may(port, action="login_failed", userId="7", ip="x")
        assert told["answers"][0]["ruleId"] == 1 and told["answers"][0]["subject"] == {"userId": "7"}
        assert may(port, action="payment", userId=7)[1]["answers"][0]["allowed"]
        wait_until(lambda: may(port, action="login", userId=7)[1]["answers"][0]["allowed"])  # it expired
        block(log)
        wait_until(lambda: ask(port, "GET", "/restrictions")[1]["inForce"] == 1)
        block(log, lifted=True)
        wait_until(lambda: ask(port, "GET", "/restrictions")[1]["inForce"] == 0)


def test_started_again_it_knows_what_the_log_says(log):
    block(log)
    log.append(["nonsense"])
    with serving(log) as port:
        assert not may(port, action="login", userId=7)[1]["answers"][0]["allowed"]
        assert ask(port, "GET", "/health")[1]["badMessages"] == 1


def test_a_port_that_is_taken_is_an_error_not_a_wait(log):
    with serving(log) as port:
        second = service.serving(log, port)
        with pytest.raises(OSError, match=f"already in use.*{port}"):
            second.__enter__()


def test_it_listens_on_the_loopback_only(log):
    with serving(log) as port:
        sockets = psutil.Process().net_connections()
        assert {each.laddr.ip for each in sockets if each.laddr.port == port and not each.raddr} == {
            "127.0.0.1"
        }


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"questions": []}',
        '{"questions": [{"userId": 7}]}',
        '{"questions": [{"action": 7}]}',
        '{"questions": [{"action": "login", "userId": 7.5}]}',
        '{"questions": [{"action": "login", "userId": {"a": 1}}]}',
        '{"questions": [{"action": "login"}], "more": 1}',
        json.dumps({"questions": [{"action": "login"}] * 101}),
        json.dumps({"questions": [{"action": "login", "ip": "x" * 501}]}),
        json.dumps({"questions": [{"action": "login", "x" * 101: "y"}]}),
    ],
)
def test_a_request_that_is_wrong_is_refused(log, body):
    with serving(log) as port:
        assert ask(port, "POST", "/may", body)[0] == 422


def test_a_request_that_is_large_is_refused_also_without_a_length(log):
    with serving(log) as port:
        assert ask(port, "POST", "/may", "x" * (MAX_BODY + 1))[0] == 413
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        pieces = iter([b"x" * 10_000] * 10)
        connection.request(
            "POST", "/may", pieces, encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
        )
        assert connection.getresponse().status == 413
        assert may(port, action="login")[0] == 200


def test_too_many_requests_are_refused_for_a_while(log):
    with serving(log, rate=20) as port:
        statuses = [may(port, action="login")[0] for _ in range(40)]
        assert statuses[:20] == [200] * 20 and 429 in statuses
        time.sleep(0.2)
        assert may(port, action="login")[0] == 200


def test_other_names_for_this_machine_are_refused(log):
    """A page of another site, whose name was bent to this machine, asks under that name."""
    with serving(log) as port:
        assert ask(port, "GET", "/restrictions", Host="evil.example")[0] == 400


def test_only_reading_is_offered(log):
    with serving(log) as port:
        assert [ask(port, "GET", f"/restrictions?limit={limit}")[0] for limit in ("0", "1001", "x")] == [
            422
        ] * 3
        assert {ask(port, method, "/restrictions")[0] for method in ("POST", "PUT", "DELETE")} == {405}
        assert ask(port, "GET", "/docs")[0] == 404


# -- the shop ----------------------------------------------------------------------------------------------------------


def test_a_shop_that_gets_no_answer_goes_on():
    shop = Enforcement(f"http://{HOST}:{ports.free_port()}")
    assert shop.allowed([{"action": "login", "userId": 7}] * 3) == [True] * 3 and shop.unanswered == 3
    with pytest.raises(ValueError, match="expected the address of `lab restrict serve`"):
        Enforcement("file:///etc/passwd")


def test_a_shop_asks_again_when_the_service_is_back(log, monkeypatch):
    monkeypatch.setattr("lab.restrict.client.AGAIN_S", 0)
    block(log)
    with serving(log) as port:
        shop = Enforcement(f"http://{HOST}:{port}")
        assert (
            shop.allowed([{"action": "login", "userId": user} for user in (7, 8) * 100])
            == [False, True] * 100
        )
    assert shop.allowed([{"action": "login", "userId": 7}]) == [True]
    shop.close()


def test_what_the_shop_refuses_does_not_happen():
    played: list[str] = []

    class Sink:
        append = played.extend

    clock = iter([0.0, *[second / 10 for second in range(40_000)]]).__next__
    player = Player(
        "logins",
        Sink(),
        rate=20,
        burst_every_s=0,
        users=50,
        clock=clock,
        wall=lambda: 1_000_000,
        ask=lambda events: [event["action"] != "login_failed" for event in events],
    )
    player.burst("stuffing")
    while player.refused["stuffing"] < 15:
        player.step()
    assert player.refused[""] > 0
    assert not any('"login_failed"' in line for line in played)
    numbers = [json.loads(line)["eventId"] for line in played]
    assert numbers == list(range(1, len(played) + 1)), "events that did not happen have no number"
