"""The enforcement service: follows a restriction log and answers whether an event may happen. It listens on the loopback only.

    restriction log ──► Enforcer ◄── POST /may {"questions": [{"action": "login", "userId": 7}]}
                                     {"answers": [{"allowed": false, "until": …, "ruleId": 1, …}]}

It has no state of its own: restrictions come from the log, and so do lifts (`lab restrict lift`). When it starts, it reads the whole
log before it answers. It answers only clients with a token (`lab.restrict.tokens`). An invalid question is refused on its own,
{"allowed": false, "refused": why}; the other questions of the request are answered.

    POST /would {"questions": [{"transactionId": 7, …}], "maxAgeMs": 1000} ──► {"answers": [{"clear": true, "alerts": []}], "asOf": …}

With a `Judge`, it also answers which alerts an event would raise.
"""

import asyncio
import hmac
import json
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from lab.logs.following import Sink, follow
from lab.logs.positions import Record
from lab.model.formatting import expected_message, plain_text
from lab.model.jsontext import BadRecord
from lab.model.times import now_ms
from lab.restrict.client import HOST, MAX_BODY
from lab.restrict.connections import ACCEPTED_AT_ONCE, Connections, counting_protocol
from lab.restrict.judging import Judge, Judging
from lab.restrict.questions import check_question, read_events, read_questions
from lab.restrict.restrictions import FORBIDS, Restriction
from lab.restrict.standing import BadQuestion, Restrictions, apply_messages, apply_new_messages, end_of
from lab.restrict.tokens import read_tokens

POLL_S, AGAIN_S = 0.02, 0.5
MAX_LISTED = 1000
BODY_S = 5.0  # how long the body of a request may take to arrive
RATE = 1000  # requests a second of each client; a burst may be as large
JSON = [(b"content-type", b"application/json")]
OWN_NAMES = {HOST.encode(), b"localhost"}
SETTINGS: dict[str, Any] = {
    "lifespan": "off",
    "ws": "none",
    "log_level": "warning",
    "access_log": False,
    "timeout_keep_alive": 60,
    "timeout_graceful_shutdown": 2,  # s; otherwise an open connection could prevent the service from stopping
    "backlog": ACCEPTED_AT_ONCE,
}

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Enforcer(Thread, Sink):
    """Follows a restriction log in its own thread. `log`: the restriction log."""

    def __init__(self, log):
        super().__init__(daemon=True, name="enforcer")
        self._log, self._stopping = log, Event()
        self._restrictions, self.ready = Restrictions(), Event()
        self.read_at, self.bad, self.error = 0, 0, ""

    def run(self) -> None:
        """Reads until `stop`. Tries again if the log is unavailable."""
        while not self._stopping.is_set():
            try:
                with closing(self._log.tail()) as tail:
                    if not self.ready.is_set():
                        apply_new_messages(self._restrictions, tail, self._bad, end_of(self._log))
                    follow(tail, self, self._stopping, poll_s=POLL_S)
            except Exception as error:  # noqa: BLE001  (continues with what it knows, and reports the error)
                self.error = str(error) or type(error).__name__
                self._stopping.wait(AGAIN_S)

    def write_batch(self, records: Sequence[Record]) -> bool:
        """Takes over the next messages of the log."""
        apply_messages(self._restrictions, records, self._bad)
        self.read_at, self.error = now_ms(), ""
        self.ready.set()
        return True

    def _bad(self, record: Record, reason: str) -> None:
        self.bad += 1

    def stop(self) -> None:
        """Stops the thread and waits for its end."""
        self._stopping.set()
        self.join()

    def answer(self, event: Any) -> dict[str, Any]:
        """Whether the event may happen; if not, until when and because of which rule, or why the question is invalid."""
        try:
            check_question(event)
            found = self._restrictions.against(event, now_ms())
        except BadQuestion as error:
            return {"allowed": False, "refused": str(error)}
        if not found:
            return {"allowed": True}
        return {"allowed": False} | restriction_answer(max(found, key=lambda each: each.until))

    def restrictions_in_force(self, at_most: int) -> tuple[int, list[Restriction]]:
        """How many restrictions are in force, and those that last longest, the longest first."""
        return self._restrictions.longest_in_force(now_ms(), at_most)


def restriction_answer(restriction: Restriction) -> dict[str, Any]:
    """A restriction in the form of the service's answers."""
    return {
        "action": restriction.action,
        "subject": {
            name: plain_text(value) if isinstance(value, Decimal) else value
            for name, value in restriction.subject
        },
        "until": restriction.until,
        "ruleId": restriction.rule_id,
        "ruleVersion": restriction.rule_version,
        "alertId": restriction.alert_id,
    }


class Refusal(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, detail: str, *header: bytes):
        super().__init__(detail)
        self.status, self.headers = status, [(header[0], header[1])] if header else []


class WebService:
    """The web service for a started enforcer, as ASGI has it. Answers in JSON, to clients that have one of the tokens.

    It refuses requests under another name of the host (400), without a token (401), above the client's rate (429), too slow (408) or too
    large (413). Only a client itself uses up its rate: a request without a token is refused before anything is counted or read.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        tokens: Sequence[str],
        rate: float = RATE,
        connections: Connections | None = None,
        judge: Judge | None = None,
    ):
        self._enforcer, self._rate, self._judging = enforcer, rate, Judging(judge) if judge else None
        self._connections = connections or Connections()
        self._clients = {f"Bearer {token}".encode(): RateLimiter(rate) for token in tokens}
        self._answers: dict[str, tuple[str, Callable[[Scope, bytes], Awaitable[Any]]]] = {
            "/may": ("POST", self._may),
            "/would": ("POST", self._would),
            "/restrictions": ("GET", self._list),
            "/health": ("GET", self._health),
        }
        # lists of very many restrictions: one at a time, and beside the questions
        self._listing = ThreadPoolExecutor(1, "list")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status, headers, answer = 200, JSON, await self._answer(scope, receive)
        except Refusal as refusal:
            status, headers, answer = refusal.status, JSON + refusal.headers, {"detail": str(refusal)}
        body = json.dumps(answer, separators=(",", ":")).encode()
        headers = [*headers, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Any:
        given = dict(scope["headers"])
        # pages of other sites cannot ask
        if given.get(b"host", b"").partition(b":")[0] not in OWN_NAMES:
            raise Refusal(400, f"another host, expected {HOST}")
        self._check_client(scope, given.get(b"authorization", b""))
        try:
            async with asyncio.timeout(BODY_S):
                body = await _body(receive)
        except TimeoutError:
            raise Refusal(408, f"more than {BODY_S:g} s for a request", b"connection", b"close") from None
        if scope["path"] not in self._answers:
            raise Refusal(404, f"expected one of {', '.join(self._answers)}")
        method, answer = self._answers[scope["path"]]
        if scope["method"] != method:
            raise Refusal(405, f"expected {method}", b"allow", method.encode())
        try:
            return await answer(scope, body)
        except BadRecord as error:
            raise Refusal(422, str(error)) from None

    def _check_client(self, scope: Scope, given: bytes) -> None:
        # compares all of them, each in constant time: the time reveals nothing about a token
        matches = [client for known, client in self._clients.items() if hmac.compare_digest(known, given)]
        if not matches:
            raise Refusal(401, "no token of this service, expected one", b"www-authenticate", b"Bearer")
        if scope.get("client"):
            self._connections.assign_owner(tuple(scope["client"]), given)
        if not matches[0].allow_request():
            raise Refusal(429, f"more than {self._rate:g} requests a second", b"retry-after", b"1")

    async def _may(self, scope: Scope, body: bytes) -> dict[str, Any]:
        return {"answers": [self._enforcer.answer(question) for question in read_questions(body)]}

    async def _would(self, scope: Scope, body: bytes) -> dict[str, Any]:
        if self._judging is None:
            raise Refusal(404, "this service judges no events: start it with --would")
        try:
            return await self._judging.would(*read_events(body))
        except TimeoutError as error:
            raise Refusal(503, str(error)) from None

    async def _list(self, scope: Scope, body: bytes) -> dict[str, Any]:
        limit = parse_qs(scope["query_string"].decode("latin-1")).get("limit", ["100"])[-1]
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= 4 and 1 <= int(limit) <= MAX_LISTED):
            raise BadRecord(expected_message("limit", limit, f"a whole number from 1 to {MAX_LISTED:,}"))
        loop = asyncio.get_running_loop()
        in_force = self._enforcer.restrictions_in_force
        count, found = await loop.run_in_executor(self._listing, in_force, int(limit))
        return {"inForce": count, "restrictions": list(map(restriction_answer, found))}

    async def _health(self, scope: Scope, body: bytes) -> dict[str, Any]:
        return {
            "readAt": self._enforcer.read_at,
            "badMessages": self._enforcer.bad,
            "error": self._enforcer.error,
            "forbids": FORBIDS,
        }


class RateLimiter:
    """A token bucket: limits the request rate of one client."""

    def __init__(self, rate: float):
        self._rate = self._left = rate
        self._at = time.monotonic()

    def allow_request(self) -> bool:
        """Whether one more request is allowed."""
        now = time.monotonic()
        self._left, self._at = min(self._rate, self._left + (now - self._at) * self._rate), now
        if self._left < 1:
            return False
        self._left -= 1
        return True


async def _body(receive: Receive) -> bytes:
    """The body of a request. Raises Refusal if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise Refusal(413, f"more than {MAX_BODY:,} bytes", b"connection", b"close")
        if not message.get("more_body"):
            return bytes(body)


def _config(
    enforcer: Enforcer, tokens: Sequence[str], rate: float = RATE, judge: Judge | None = None
) -> uvicorn.Config:
    connections = Connections()
    app = WebService(enforcer, tokens, rate, connections, judge)
    return uvicorn.Config(app, http=counting_protocol(connections), **SETTINGS)


def _listen(port: int) -> socket.socket:
    """A socket whose connections send each part of an answer at once, rather than when the part before it has been acknowledged (40 ms)."""
    listening = socket.create_server((HOST, port))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


@contextmanager
def serving(
    log, port: int, tokens: Sequence[str] = (), rate: float = RATE, judge: Judge | None = None
) -> Iterator[Enforcer]:
    """Runs the service in a thread for the duration of the `with` block. It answers as soon as the block begins.

    `tokens`: the tokens of its clients; by default the one in the environment or in the user's file. Raises OSError if the port is taken.

    >>> with serving(FileLog("restrictions"), 8707) as enforcer:  # doctest: +SKIP
    ...     Enforcement("http://127.0.0.1:8707").allowed([{"action": "login", "userId": 7}])
    [True]
    """
    listening = _listen(port)
    enforcer = Enforcer(log)
    enforcer.start()
    server = uvicorn.Server(_config(enforcer, tokens or read_tokens(), rate, judge))
    thread = Thread(target=server.run, args=([listening],), daemon=True, name="enforcement")
    try:
        enforcer.ready.wait()
        thread.start()
        while not server.started:
            time.sleep(POLL_S)
        yield enforcer
    finally:
        server.should_exit = True
        if thread.is_alive():
            thread.join()
        enforcer.stop()
        listening.close()


def serve(log, port: int, tokens: Sequence[str], judge: Judge | None = None) -> None:
    """Reads the whole log, then serves until Ctrl-C or SIGTERM. Raises OSError if the port is taken."""
    enforcer = Enforcer(log)
    enforcer.start()
    while not enforcer.ready.wait(AGAIN_S):
        if enforcer.error:
            print(f"waiting for the restriction log: {enforcer.error}", flush=True)
    try:
        with _listen(port) as listening, suppress(KeyboardInterrupt):
            more = ", POST /would" if judge else ""
            print(
                f"http://{HOST}:{port} answers; POST /may{more}, GET /restrictions, GET /health", flush=True
            )
            uvicorn.Server(_config(enforcer, tokens, judge=judge)).run([listening])
    finally:
        enforcer.stop()
