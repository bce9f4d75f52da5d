"""The enforcement service: answers from its log, also after a restart; refuses what is wrong, large, or too much."""

import http.client
import json
import math
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread, current_thread
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from lab.logs.files import FileLog, Tail
from lab.logs.positions import Record
from lab.machine import ports
from lab.model import times
from lab.restrict import connections, judging, service
from lab.restrict.client import Enforcement
from lab.restrict.restrictions import Restriction
from lab.restrict.service import HOST, MAX_BODY
from lab.restrict.tokens import read_tokens
from lab.stream.player import Player
from tests.waiting import PATIENCE_S, wait_until

ALICE = (("userId", 7),)
TOKEN, OTHER = "t" * 32, "o" * 32


@contextmanager
def serving(log, **settings):
    port = ports.free_port()
    with service.serving(log, port, (TOKEN, OTHER), **settings):
        yield port


@pytest.fixture
def log(tmp_path) -> FileLog:
    return FileLog(tmp_path / "restrictions")


def ask(port: int, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
    token = {"Authorization": f"Bearer {TOKEN}"}
    connection.request(method, path, body, {"Content-Type": "application/json"} | token | headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if text.startswith(("{", "[")) else text


def may(port: int, **event) -> tuple[int, Any]:
    return ask(port, "POST", "/may", json.dumps({"questions": [event]}))


def block(log, seconds: float = 60, action="block_login", subject=ALICE, lifted=None) -> None:
    now = time.time_ns() // 1_000_000
    made = Restriction(action, subject, now, now + int(seconds * 1000), rule_id=1)
    log.append(
        [(made if lifted is None else Restriction(action, subject, lifted=now + 1, by="ann")).to_json()]
    )


@pytest.fixture
def later(monkeypatch) -> list[float]:
    """How many seconds the service's clocks are ahead."""
    ahead = [0.0]
    wall = SimpleNamespace(time_ns=lambda: time.time_ns() + int(ahead[0] * 1e9))
    monkeypatch.setattr(times, "time", wall)
    monkeypatch.setattr(
        service, "time", SimpleNamespace(monotonic=lambda: 1_000.0 + ahead[0], sleep=time.sleep)
    )
    return ahead


def test_it_refuses_while_a_restriction_lasts_and_until_it_is_lifted(log, later):
    with serving(log) as port:
        assert may(port, action="login", userId=7) == (200, {"answers": [{"allowed": True}]})
        block(log, seconds=1_000)
        wait_until(lambda: not may(port, action="login", userId=7)[1]["answers"][0]["allowed"])
        _, told = may(port, action="login_failed", userId="7", ip="x")
        assert told["answers"][0]["ruleId"] == 1 and told["answers"][0]["subject"] == {"userId": 7}
        assert may(port, action="payment", userId=7)[1]["answers"][0]["allowed"]
        later[0] = 1_001
        assert may(port, action="login", userId=7)[1]["answers"][0]["allowed"]  # it expired
        block(log, seconds=10_000)
        wait_until(lambda: ask(port, "GET", "/restrictions")[1]["inForce"] == 1)
        block(log, lifted=True)
        wait_until(lambda: ask(port, "GET", "/restrictions")[1]["inForce"] == 0)


def test_a_connection_that_stays_open_gets_each_answer_at_once(log):
    """Not 40 ms later, when the system of the client has acknowledged the first part of an answer."""
    with serving(log) as port, closing(http.client.HTTPConnection(HOST, port)) as connection:
        taken = []
        for _ in range(30):
            began = time.perf_counter()
            connection.request("GET", "/health")
            connection.getresponse().read()
            taken.append(time.perf_counter() - began)
    assert min(taken[10:]) < 0.03


def test_the_head_and_the_body_of_an_answer_are_sent_at_once(log):
    request = f"GET /health HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {TOKEN}\r\n"
    with serving(log) as port, socket.create_connection((HOST, port), timeout=PATIENCE_S) as client:
        for end in ("\r\n", "\r\n", "Connection: close\r\n\r\n"):
            client.sendall((request + end).encode())
            assert json.loads(client.recv(1 << 16).partition(b"\r\n\r\n")[2])["error"] == ""
        assert client.recv(1) == b""


def test_started_again_it_knows_what_the_log_says(log):
    block(log)
    log.append(["nonsense"])
    with serving(log) as port:
        assert not may(port, action="login", userId=7)[1]["answers"][0]["allowed"]
        assert ask(port, "GET", "/health")[1]["badMessages"] == 1


def test_it_answers_also_if_restrictions_come_faster_than_a_slow_broker_answers(log, monkeypatch):
    """It reads what there is when it starts, not up to an end that moves on."""
    block(log)
    tail, other = log.tail, (("userId", "8"),)

    def busy(new: bool = False) -> Tail:
        opened = tail(new)
        records = opened.records

        def busy_records(*arguments: object) -> list[Record]:
            block(log, subject=other)
            return records(*arguments)

        opened.records = busy_records
        return opened

    monkeypatch.setattr(log, "tail", busy)
    with serving(log) as port:
        assert may(port, action="login", userId=7)[1]["answers"][0]["allowed"] is False
        wait_until(lambda: may(port, action="login", userId=8)[1]["answers"][0]["allowed"] is False)


def test_it_follows_the_log_that_takes_the_place_of_one_that_was_removed(log):
    block(log)
    with serving(log) as port:
        shutil.rmtree(log.folder)
        block(FileLog(log.folder), subject=(("userId", "8"),))
        wait_until(lambda: may(port, action="login", userId=8)[1]["answers"][0]["allowed"] is False)
        assert may(port, action="login", userId=7)[1]["answers"][0]["allowed"] is False, "it forgets nothing"


def test_a_port_that_is_taken_is_an_error_not_a_wait(log):
    with serving(log) as port:
        second = service.serving(log, port)
        with pytest.raises(OSError, match=f"already in use.*{port}"):
            second.__enter__()


def test_it_says_that_it_answers_only_if_it_does(log, capsys):
    """A program that starts it waits for this line."""
    with socket.create_server((HOST, 0)) as taken, pytest.raises(OSError, match="Address already in use"):
        service.serve(log, taken.getsockname()[1], [TOKEN])
    assert capsys.readouterr().out == ""


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
        '{"questions": {"action": "login"}}',
        '{"questions": [{"action": "login"}], "more": 1}',
        '{"questions": [{"action": "login"}], "more": "\\ud800"}',
        '{"questions": [{"action": "login", "userId": NaN}]}',
        '{"questions": ' + "[" * 300 + "]" * 300 + "}",
        json.dumps({"questions": [{"action": "login"}] * 101}),
    ],
)
def test_a_request_that_is_wrong_is_refused(log, body):
    with serving(log) as port:
        assert ask(port, "POST", "/may", body)[0] == 422


@pytest.mark.parametrize(
    "question, why",
    [
        ('"login"', 'question: "login", expected an object'),
        ("null", "question: nothing, expected an object"),
        ('{"userId": 7}', "action: nothing, expected one of login, login_failed, password_reset, payment"),
        ('{"action": 7}', "action: 7, expected one of login, "),
        ('{"action": "TRANSFER", "userId": 8}', 'action: "TRANSFER", expected one of login, login_failed'),
        (
            '{"action": "block_login", "userId": 8}',
            'action: "block_login", expected one of login, login_failed',
        ),
        ('{"action": "Login", "userId": 8}', 'action: "Login", expected one of login, '),
        ('{"action": "login ", "userId": 8}', 'action: "login ", expected one of login, '),
        ('{"action": ["login"], "userId": 8}', "action: a list, expected one of login, "),
        ('{"Action": "login", "userId": 8}', "action: nothing, expected one of login, "),
        ('{"action": "login"}', "userId: missing, expected its value, or null"),
        ('{"action": "login", "UserId": 7}', "userId: missing, expected its value, or null"),
        ('{"action": "login", "user": 7}', "userId: missing, expected its value, or null"),
        ('{"action": "login", "userId": "seven"}', 'userId: "seven", expected a number'),
        ('{"action": "login", "userId": true}', "userId: true, expected a number"),
        ('{"action": "login", "userId": 8, "userId": 9}', '"userId" comes twice'),
        ('{"action": "login", "action": "payment", "userId": 7}', '"action" comes twice'),
        ('{"action": "login", "userId": [8]}', '"userId": a list, expected'),
        ('{"action": "login", "userId": {"a": 1}}', '"userId": an object, expected'),
        ('{"action": "login", "userId": 1e99}', '"userId": 1E+99, expected'),
        ('{"action": "login", "userId": 1e99999999999999999999}', '"userId": '),
        ('{"action": "login", "userId": ' + "9" * 50 + "}", '"userId": 999'),
        ('{"action": "login", "userId": 7, "device": "\\ud800"}', '"device": "'),
        ('{"action": "login", "userId": 7, "\\ud800": []}', "expected a text"),
    ],
)
def test_what_is_no_question_is_refused_and_the_others_are_answered(log, question, why):
    block(log)
    with serving(log) as port:
        body = f'{{"questions": [{{"action": "login", "userId": 8}}, {question}, {{"action": "login", "userId": 7}}]}}'
        status, told = ask(port, "POST", "/may", body)
        first, refused, last = told["answers"]
        assert status == 200 and first == {"allowed": True} and not last["allowed"]
        assert refused["allowed"] is False and why in refused["refused"]


def test_a_payment_that_is_held_is_allowed_under_no_other_name(log):
    block(log, action="hold_payment", subject=(("payeeId", 7),))
    with serving(log) as port:
        for action in ("payment", "TRANSFER", "transfer", "hold_payment", "Payment", "", None, 1):
            (answer,) = may(port, action=action, payeeId=7, paymentAmount=12.5)[1]["answers"]
            assert answer["allowed"] is False, action


def test_amounts_are_judged_exactly(log):
    block(log, action="hold_payment", subject=(("paymentAmount", Decimal("12.50")),))
    with serving(log) as port:

        def allowed(amount: str) -> bool:
            body = f'{{"questions": [{{"action": "payment", "paymentAmount": {amount}}}]}}'
            return ask(port, "POST", "/may", body)[1]["answers"][0]["allowed"]

        assert not any(map(allowed, ("12.5", "12.50", "1.25e1", '"12.5"')))
        assert all(map(allowed, ("12.500000000000001", "12.49", "12", '"12.51"', "null")))
        told = may(port, action="payment", paymentAmount=12.5)[1]["answers"][0]
        assert told["subject"] == {"paymentAmount": "12.50"}


class Judge:
    """Knows a world that is 100 ms old, and gives back what it is asked."""

    def would(self, lines: Sequence[bytes], max_age_ms: int, waits: bool = True) -> dict[str, Any]:
        if max_age_ms < 100:
            raise TimeoutError("the state is 100 ms old")
        answers = [{"clear": True, "alerts": [], "line": line.decode()} for line in lines]
        return {"answers": answers, "asOf": {"cut": 7}}


def would(port: int, questions: str, more: str = "") -> tuple[int, Any]:
    return ask(port, "POST", "/would", f'{{"questions": [{questions}]{more}}}')


def test_events_are_judged_as_they_were_sent_and_what_is_no_event_is_not_clear(log):
    with serving(log, judge=Judge()) as port:
        event = '{"id": 7, "at": [1e2, 0.10, 1E999999999999999999999], "of": {"b": null, "c": true}}'
        wrong = ["7", "null", '{"id": 7, "id": 8}', '{"id": {"a": 1, "a": 2}}']
        status, told = would(port, ", ".join([event, *wrong, '{"id": 12345678901234567890123}']))
        first, *refused, last = told["answers"]
        assert status == 200 and told["asOf"] == {"cut": 7} and first["line"] == event.replace("1e2", "1E+2")
        assert last["line"] == '{"id": 12345678901234567890123}'
        for answer in refused:
            assert answer["clear"] is False and answer["refused"] and "alerts" not in answer


@pytest.mark.parametrize(
    "questions, more, status",
    [
        ('{"id": 7}', ', "maxAgeMs": 99', 503),
        ('{"id": 7}', ', "maxAgeMs": 100', 200),
        ('{"id": 7}', ', "maxAgeMs": -1', 422),
        ('{"id": 7}', ', "maxAgeMs": true', 422),
        ('{"id": 7}', ', "maxAgeMs": 1e3', 422),
        ('{"id": 7}', ', "maxAgeMs": 86400001', 422),
        ('{"id": 7}', ', "maxage": 7', 422),
        ('{"id": 7}', ', "maxAgeMs": 99, "maxAgeMs": 100', 422),
        ("", "", 422),
        ('{"id": NaN}', "", 422),
        (", ".join(['{"id": 7}'] * 101), "", 422),
    ],
)
def test_only_status_200_answers_whether_an_event_is_clear(log, questions, more, status):
    with serving(log, judge=Judge()) as port:
        found, told = would(port, questions, more)
        assert found == status and ("answers" in told) == (status == 200)


def test_without_a_world_no_event_is_judged_and_strangers_are_told_nothing(log):
    with serving(log) as port:
        assert would(port, '{"id": 7}')[0] == 404
    with serving(log, judge=Judge(), rate=5) as port:
        body = '{"questions": [{"id": 7}]}'
        assert ask(port, "POST", "/would", body, Authorization="Bearer stranger")[0] == 401
        assert {ask(port, "POST", "/would", body)[0] for _ in range(20)} == {200, 429}
        assert ask(port, "POST", "/would", "x" * (MAX_BODY + 1), Authorization=f"Bearer {OTHER}")[0] == 413
        assert (
            ask(port, "POST", "/would", body, Host="evil.example", Authorization=f"Bearer {OTHER}")[0] == 400
        )


def test_a_judge_that_takes_long_keeps_no_question_waiting(log):
    asked, free = Event(), Event()

    class Slow(Judge):
        def would(self, lines: Sequence[bytes], max_age_ms: int, waits: bool = True) -> dict[str, Any]:
            if not waits:
                raise TimeoutError("it takes over a cut")
            asked.set()
            assert free.wait(PATIENCE_S)
            return super().would(lines, max_age_ms)

    with serving(log, judge=Slow()) as port:
        waiting = Thread(target=would, args=(port, '{"id": 7}'))
        waiting.start()
        assert asked.wait(PATIENCE_S) and may(port, action="login")[0] == 200
        free.set()
        waiting.join()


@pytest.mark.parametrize("takes_s, questions, threads", [(0, 1, 1), (0.05, 1, 2), (0, 17, 2)])
def test_what_takes_long_is_judged_beside_the_questions(log, monkeypatch, takes_s, questions, threads):
    monkeypatch.setattr(judging, "SHARE", 0)
    monkeypatch.setattr(judging, "AT_A_TIME_S", 0.02 if takes_s else 60)
    seen = list[str]()

    class Noting(Judge):
        def would(self, *asked) -> dict[str, Any]:
            seen.append(current_thread().name)
            time.sleep(takes_s)
            return super().would(*asked)

    with serving(log, judge=Noting()) as port:
        for count in (1, questions):
            assert len(would(port, ", ".join(['{"id": 7}'] * count))[1]["answers"]) == count
    assert len({*seen}) == threads and (seen[1] != "enforcement") == (threads == 2)


def test_a_judge_that_fails_keeps_nobody_waiting_and_is_asked_again(log):
    class Failing(Judge):
        def would(self, lines: Sequence[bytes], *more) -> dict[str, Any]:
            assert b"8" not in lines[0]
            return super().would(lines, *more)

    with serving(log, judge=Failing()) as port:
        assert [would(port, f'{{"id": {n}}}')[0] for n in (7, 8, 7)] == [200, 500, 200]


def test_requests_that_wait_are_judged_together_and_each_gets_its_own_answers(log):
    asked, free, called = Event(), Event(), list[list[bytes]]()

    class Slow(Judge):
        def would(self, lines: Sequence[bytes], max_age_ms: int, waits: bool = True) -> dict[str, Any]:
            if not waits:
                raise TimeoutError("it takes over a cut")
            called.append([*lines])
            asked.set()
            assert free.wait(PATIENCE_S)
            return super().would(lines, max_age_ms)

    with serving(log, judge=Slow()) as port, ThreadPoolExecutor(9) as clients:
        first = clients.submit(would, port, '{"id": 0}')
        assert asked.wait(PATIENCE_S)
        others = [clients.submit(would, port, f'{{"id": {n}}}, {n}, {{"id": -{n}}}') for n in range(1, 8)]
        old = clients.submit(would, port, '{"id": 9}', ', "maxAgeMs": 99')
        with closing(http.client.HTTPConnection(HOST, port)) as gone:  # its answer is wanted by nobody
            gone.request("POST", "/would", '{"questions": [{"id": 8}]}', {"Authorization": f"Bearer {OTHER}"})
            time.sleep(0.2)
        free.set()
        assert first.result()[1]["answers"][0]["line"] == '{"id": 0}' and old.result()[0] == 503
        for n, each in enumerate(others, 1):
            told, refused, last = each.result()[1]["answers"]
            assert (told["line"], last["line"]) == (f'{{"id": {n}}}', f'{{"id": -{n}}}')
            assert refused["clear"] is False and each.result()[1]["asOf"] == {"cut": 7}
    assert len(called) < 6 and max(map(len, called)) > 2


def test_members_that_come_twice_in_a_request_are_refused(log):
    with serving(log) as port:
        twice = '{"questions": [{"action": "login"}], "questions": [{"action": "payment"}]}'
        assert ask(port, "POST", "/may", twice)[0] == 422


def test_long_texts_are_compared_like_short_ones(log):
    block(log)
    block(log, subject=(("device", "x" * 10_000),))
    with serving(log) as port:
        for event in ({"userId": 7, "device": "y" * 501}, {"userId": 8, "device": "x" * 10_000}):
            assert not may(port, action="login", **event)[1]["answers"][0]["allowed"]
        assert may(port, action="login", userId=8, device="x" * 9_999)[1]["answers"][0]["allowed"]


def test_who_has_no_token_is_told_nothing(log):
    block(log)
    with serving(log) as port:
        for header in (
            "",
            "Bearer ",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
            "é",
        ):
            for method, path in (
                ("POST", "/may"),
                ("GET", "/restrictions"),
                ("GET", "/health"),
                ("GET", "/"),
            ):
                assert ask(port, method, path, "{}", Authorization=header)[0] == 401
        assert ask(port, "GET", "/restrictions", Authorization=f"Bearer {OTHER}")[0] == 200


def test_a_client_uses_up_nothing_of_another(log):
    with serving(log, rate=20) as port:
        assert {ask(port, "GET", "/health", Authorization="Bearer stranger")[0] for _ in range(100)} == {401}
        assert {ask(port, "GET", "/health", Authorization=f"Bearer {OTHER}")[0] for _ in range(60)} == {
            200,
            429,
        }
        assert may(port, action="login")[0] == 200


def test_a_request_that_trickles_in_is_ended(log, monkeypatch):
    monkeypatch.setattr(service, "BODY_S", 0.2)
    with serving(log) as port, socket.create_connection((HOST, port), timeout=PATIENCE_S) as slow:
        slow.sendall(
            f"POST /may HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 50\r\n\r\n{{".encode()
        )
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_who_never_ends_a_request_does_not_keep_the_service_from_stopping(log, monkeypatch):
    monkeypatch.setattr(service, "BODY_S", 10 * PATIENCE_S)
    with ExitStack() as still_open, serving(log) as port:
        slow = still_open.enter_context(socket.create_connection((HOST, port), timeout=PATIENCE_S))
        slow.sendall(
            f"POST /may HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 50\r\n\r\n{{".encode()
        )
        assert may(port, action="login")[0] == 200


@pytest.mark.parametrize(
    "told, body",
    [
        (f"Content-Length: {MAX_BODY + 1}", "x" * (MAX_BODY + 1)),
        ("Transfer-Encoding: chunked", f"{MAX_BODY + 1:x}\r\n{'x' * (MAX_BODY + 1)}\r\n"),
    ],
)
def test_a_request_that_is_large_is_refused_also_without_a_length(log, told, body):
    with serving(log) as port:
        with socket.create_connection((HOST, port), timeout=PATIENCE_S) as client:
            head = f"POST /may HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {TOKEN}\r\n{told}\r\n\r\n"
            client.sendall((head + body).encode())
            assert client.recv(100).startswith(b"HTTP/1.1 413")
        assert may(port, action="login")[0] == 200


@contextmanager
def idle(port: int, count: int, request: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that do no more than this request."""
    with ExitStack() as open_ones:
        some = [
            open_ones.enter_context(socket.create_connection((HOST, port), timeout=PATIENCE_S))
            for _ in range(count)
        ]
        for each in some if request else ():
            each.sendall(request)
            assert each.recv(100).startswith(b"HTTP/1.1 200")
        yield some


def test_connections_that_ask_nothing_shut_nobody_out(log, monkeypatch):
    monkeypatch.setattr("lab.restrict.client.TIMEOUT_S", PATIENCE_S)  # the machine may be busy
    with (
        serving(log) as port,
        idle(port, connections.STRANGERS + 50) as some,
        closing(Enforcement(f"http://{HOST}:{port}", TOKEN)) as shop,
    ):
        assert shop.allowed([{"action": "login"}]) == [True] and not shop.unanswered
        assert some[0].recv(1) == b""  # the oldest has gone
        with idle(port, connections.STRANGERS + 50):  # but not those who have shown a token
            assert shop.allowed([{"action": "login"}]) == [True] and not shop.unanswered


def test_connections_of_one_client_shut_out_no_other(log):
    head = f"GET /health HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {OTHER}\r\n\r\n".encode()
    with serving(log) as port, closing(Enforcement(f"http://{HOST}:{port}", TOKEN)) as shop:
        assert shop.allowed([{"action": "login"}]) == [True]
        with idle(port, connections.OF_A_CLIENT + 20, head) as some:
            assert shop.allowed([{"action": "login"}]) == [True] and not shop.unanswered
            ended = [each for each in some[:20] if each.recv(1000) and each.recv(1) == b""]
            assert len(ended) == 20


def test_a_long_list_of_restrictions_keeps_no_question_waiting(log, monkeypatch):
    listing, answered = Event(), Event()
    listed = service.Enforcer.restrictions_in_force

    def slow(*about):
        listing.set()
        answered.wait(3)
        return listed(*about)

    monkeypatch.setattr(service.Enforcer, "restrictions_in_force", slow)
    with serving(log) as port:
        lister = Thread(target=ask, args=(port, "GET", "/restrictions"))
        lister.start()
        assert listing.wait(PATIENCE_S)
        assert may(port, action="login", userId=7)[0] == 200 and lister.is_alive()
        answered.set()
        lister.join()


def test_of_many_restrictions_those_that_last_longest_are_listed(log):
    for user in range(150):
        block(log, 60 + user % 75, subject=(("userId", str(user)),))
    with serving(log) as port:
        status, found = ask(port, "GET", "/restrictions?limit=3")
    assert status == 200 and found["inForce"] == 150
    assert [each["subject"]["userId"] for each in found["restrictions"]] == ["149", "74", "148"]


def test_too_many_requests_are_refused_for_a_while(log, later):
    with serving(log, rate=20) as port:
        assert [may(port, action="login")[0] for _ in range(22)] == [200] * 20 + [429] * 2
        later[0] += 0.06
        assert [may(port, action="login")[0] for _ in range(2)] == [200, 429]


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
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "c2l4dGVlbiBieXRlcy4uLg=="}
        assert ask(port, "GET", "/restrictions", **upgrade, **key)[0] == 200


# -- the shop ----------------------------------------------------------------------------------------------------------


LOGIN, PAYMENT, VISIT = ({"action": action, "userId": 7} for action in ("login", "payment", "visit"))


def test_an_event_without_an_action_has_the_one_that_the_shop_names(log):
    block(log, action="hold_payment")
    with serving(log) as port:
        url = f"http://{HOST}:{port}"
        with closing(Enforcement(url, TOKEN, action="payment")) as shop:
            assert shop.allowed([{"userId": 7}, {"userId": 8}, {"Action": "login", "userId": 7}]) == [
                False,
                True,
                False,
            ]
            assert (shop.refused, shop.unanswered) == (0, 0)
        with closing(Enforcement(url, TOKEN)) as shop:
            assert shop.allowed([{"userId": 8}]) == [False] and "action: nothing" in shop.error
    with pytest.raises(ValueError, match='action: "visit", expected one of login'):
        Enforcement(url, TOKEN, action="visit")


@pytest.mark.parametrize(
    "value",
    [1.5, Decimal("1.50"), True, 10**5_000, float("nan"), [1], {"a": 1}, object(), date(2024, 1, 1)],
    ids=lambda value: type(value).__name__,
)
def test_a_value_of_any_type_is_judged_or_not_allowed_and_keeps_nobody_else_out(log, value):
    block(log, subject=(("userId", 7), ("amount", 9)))
    with serving(log) as port, closing(Enforcement(f"http://{HOST}:{port}", TOKEN, ALLOWING)) as shop:
        judged = isinstance(value, bool | float | Decimal) and math.isfinite(value)
        events = [LOGIN | {"amount": 8, "other": other} for other in (1, value, 2)]
        assert shop.allowed(events) == [True, judged, True]
        assert (shop.refused, shop.unanswered) == (not judged, 0)


def test_while_there_is_no_answer_what_could_be_forbidden_does_not_happen():
    url = f"http://{HOST}:{ports.free_port()}"
    shop = Enforcement(url, TOKEN)
    assert shop.allowed([LOGIN, PAYMENT, VISIT, {"userId": 7}]) == [False] * 4
    assert shop.unanswered == 4 and "refused" in shop.error
    assert shop.allowed([LOGIN]) == [False]
    assert shop.unanswered == 5 and "refused" in shop.error, "the reason stays while it waits to ask again"
    assert Enforcement(url, TOKEN, {"hold_payment": "allow"}).allowed([LOGIN, PAYMENT]) == [False, True]
    assert Enforcement(url, TOKEN, {"block_login": "allow"}).allowed([LOGIN, PAYMENT]) == [True, False]
    assert Enforcement(url, TOKEN, ALLOWING).allowed([VISIT, {"userId": 7}]) == [False, False]
    with pytest.raises(ValueError, match="expected the address of `lab restrict serve`"):
        Enforcement("file:///etc/passwd")
    for wrong in ({"block_login": "maybe"}, {"login": "allow"}):
        with pytest.raises(ValueError, match="expected one of block_login"):
            Enforcement(url, TOKEN, wrong)


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "null",
        "1",
        '{"answers": null}',
        '{"answers": [1]}',
        '{"answers": {"allowed": true}}',
        "[" * 9_999,
    ],
)
def test_what_is_no_answer_of_the_service_is_an_outage(body):
    """As of another program that listens on its port."""

    class Other(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer((HOST, 0), Other) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        shop = Enforcement(f"http://{HOST}:{server.server_port}", TOKEN)
        assert shop.allowed([LOGIN]) == [False] and shop.allowed([VISIT]) == [False]
        assert (shop.unanswered, shop.refused) == (2, 0) and shop.error
        shop.close()
        server.shutdown()


ALLOWING = {"block_login": "allow", "hold_payment": "allow"}


@pytest.mark.parametrize("action", [None, 7, True])
def test_an_action_that_is_no_text_is_allowed_neither_with_nor_without_an_answer(log, action):
    event = {"action": action, "userId": 7}
    with serving(log) as port:
        shop = Enforcement(f"http://{HOST}:{port}", TOKEN, ALLOWING)
        assert shop.allowed([event]) == [False]
    assert shop.allowed([event]) == [False]
    assert (shop.refused, shop.unanswered) == (1, 1)
    shop.close()


@pytest.mark.parametrize("device", ["x" * 501, "x" * 70_000, "\ud800", "\0", 1 << 5000])
def test_no_value_lets_a_restricted_user_in_or_keeps_the_others_out(log, device):
    block(log)
    with serving(log) as port:
        shop = Enforcement(f"http://{HOST}:{port}", TOKEN, ALLOWING)
        events = [LOGIN | {"userId": user} for user in (7, 8)] * 60
        events[10] = LOGIN | {"device": device}
        assert shop.allowed(events) == [False, True] * 60
        assert shop.unanswered == 0
        shop.close()


def test_a_request_that_is_refused_is_no_outage(log):
    with serving(log, rate=1) as port:
        stranger = Enforcement(f"http://{HOST}:{port}", "s" * 32, ALLOWING)
        assert stranger.allowed([LOGIN, PAYMENT]) == [False, False]
        assert stranger.refused == 2 and stranger.error.startswith("401")
        shop = Enforcement(f"http://{HOST}:{port}", TOKEN)
        assert shop.allowed([LOGIN]) == [True]
        stranger.close(), shop.close()


def test_tokens_come_from_a_file_the_environment_or_a_file_of_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data"))
    own = read_tokens()
    assert own == read_tokens() and len(own[0]) >= 32
    assert (tmp_path / "data" / "restrict-token").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("LAB_RESTRICT_TOKEN", "e" * 32)
    assert read_tokens() == ["e" * 32]
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n{OTHER}\n")
    for mode, why in (
        (0o602, "everybody may change it: chmod o-w"),
        (0o644, "everybody may read it: chmod o-r"),
    ):
        file.chmod(mode)
        with pytest.raises(PermissionError, match=why):
            read_tokens(file)
    file.chmod(0o640)
    assert read_tokens(file) == [TOKEN, OTHER]
    for text in ("", "short\n", f"{TOKEN}\nshort"):
        file.write_text(text)
        with pytest.raises(ValueError, match="each of at least 32 characters"):
            read_tokens(file)


def test_a_shop_asks_again_when_the_service_is_back(log, monkeypatch):
    monkeypatch.setattr("lab.restrict.client.AGAIN_S", 0)
    block(log)
    with serving(log) as port:
        shop = Enforcement(f"http://{HOST}:{port}", TOKEN)
        assert (
            shop.allowed([{"action": "login", "userId": user} for user in (7, 8) * 100])
            == [False, True] * 100
        )
    assert shop.allowed([{"action": "login", "userId": 8}]) == [False]
    with service.serving(log, port, [TOKEN]):
        assert shop.allowed([{"action": "login", "userId": user} for user in (7, 8)]) == [False, True]
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
