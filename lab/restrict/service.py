"""The enforcement service: keeps who is restricted, and answers whether an event may happen. On the loopback only.

    restriction log ──► Enforcer ◄── POST /may {"questions": [{"action": "login", "userId": 7}]}
                                     {"answers": [{"allowed": false, "until": …, "ruleId": 1, …}]}

It changes nothing: restrictions come from the log, and `lab restrict lift` writes there too. Started anew it reads the log
from its beginning before it answers.
"""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lab.restrict.client import HOST
from lab.restrict.restrictions import FORBIDS, BadRestriction, Restriction, Restrictions, read_message

POLL_S, AGAIN_S = 0.02, 0.5
MAX_BODY, MAX_QUESTIONS, MAX_LISTED = 64 << 10, 100, 1000
RATE = 1000  # requests a second; a burst may be as large
SETTINGS: dict[str, Any] = {
    "log_level": "warning",
    "access_log": False,
    "timeout_keep_alive": 60,
    "limit_concurrency": 200,
}

Name = Annotated[str, Field(max_length=100)]
Value = Annotated[StrictStr, Field(max_length=500)] | StrictInt | None


class Question(BaseModel):
    """An event that somebody is about to let happen: its action, and the fields that say whose it is."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[Name, Value]
    action: Annotated[StrictStr, Field(max_length=100)]


class Questions(BaseModel):
    """Up to 100 questions in one request."""

    model_config = ConfigDict(extra="forbid")
    questions: Annotated[list[Question], Field(min_length=1, max_length=MAX_QUESTIONS)]


class Enforcer(Thread):
    """Follows a restriction log in a thread of its own. `log`: it; `clock`: ms since the epoch, for tests."""

    def __init__(self, log, clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000):
        super().__init__(daemon=True, name="enforcer")
        self._log, self._clock, self._stopping = log, clock, Event()
        self._restrictions, self.ready = Restrictions(), Event()
        self.read_at, self.bad, self.error = 0, 0, ""

    def run(self) -> None:
        """Reads until `stop`; a log that has gone is tried again."""
        while not self._stopping.is_set():
            try:
                with closing(self._log.tail()) as tail:
                    while not self._stopping.wait(POLL_S if self.ready.is_set() else 0):
                        self._take(tail.read())
                        self.read_at, self.error = self._clock(), ""
                        self.ready.set()
            except Exception as error:  # noqa: BLE001  (it goes on with what it knows, and says so)
                self.error = str(error)
                self._stopping.wait(AGAIN_S)

    def _take(self, lines: list[str]) -> None:
        for line in lines:
            try:
                self._restrictions.apply(read_message(line))
            except BadRestriction:
                self.bad += 1

    def stop(self) -> None:
        """Ends it and waits until it has."""
        self._stopping.set()
        self.join()

    def answer(self, event: dict) -> dict[str, Any]:
        """Whether the event may happen; if not, until when, and because of which rule."""
        if found := max(
            self._restrictions.against(event, self._clock()), key=lambda each: each.until, default=None
        ):
            return {"allowed": False} | shown(found)
        return {"allowed": True}

    def in_force(self) -> list[Restriction]:
        """What is in force now, the longest first."""
        now = self._clock()
        return [each for each in self._restrictions.all() if each.in_force(now)]


def shown(restriction: Restriction) -> dict[str, Any]:
    """A restriction as the service tells it."""
    return {
        "action": restriction.action,
        "subject": dict(restriction.subject),
        "until": restriction.until,
        "ruleId": restriction.rule_id,
        "ruleVersion": restriction.rule_version,
        "alertId": restriction.alert_id,
    }


def service(enforcer: Enforcer, rate: float = RATE) -> FastAPI:
    """The web service over an enforcer that was started."""
    app = FastAPI(title="lab restrict", docs_url=None, redoc_url=None)
    app.add_middleware(Limits, rate=rate)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])  # no other site's page asks

    @app.post("/may")
    async def may(asked: Questions) -> dict[str, list]:
        return {"answers": [enforcer.answer(question.model_dump()) for question in asked.questions]}

    @app.get("/restrictions")
    async def restrictions(limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100) -> dict[str, Any]:
        found = enforcer.in_force()
        return {"inForce": len(found), "restrictions": [shown(each) for each in found[:limit]]}

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {
            "readAt": enforcer.read_at,
            "badMessages": enforcer.bad,
            "error": enforcer.error,
            "forbids": FORBIDS,
        }

    return app


class Limits:
    """Refuses requests that are too large (413) or too many (429), before anything reads them."""

    def __init__(self, app: ASGIApp, rate: float):
        self._app, self._rate = app, rate
        self._tokens, self._at = rate, time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        now = time.monotonic()
        self._tokens, self._at = min(self._rate, self._tokens + (now - self._at) * self._rate), now
        if self._tokens < 1:
            return await _refuse(
                send, 429, f"more than {self._rate:g} requests a second", (b"retry-after", b"1")
            )
        self._tokens -= 1
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                return await _refuse(send, 413, f"more than {MAX_BODY:,} bytes", (b"connection", b"close"))
            if not message.get("more_body"):
                break
        waiting = [{"type": "http.request", "body": body}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, again, send)


async def _refuse(send: Send, status: int, detail: str, header: tuple[bytes, bytes]) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), header]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(log, port: int, rate: float = RATE) -> Iterator[Enforcer]:
    """The service in a thread of this process, for the length of the `with`; it answers from the first moment.

    Raises OSError if the port is taken.

    >>> with serving(FileLog("restrictions"), 8707) as enforcer:  # doctest: +SKIP
    ...     Enforcement("http://127.0.0.1:8707").allowed([{"action": "login", "userId": 7}])
    [True]
    """
    listening = socket.create_server((HOST, port))
    enforcer = Enforcer(log)
    enforcer.start()
    server = uvicorn.Server(uvicorn.Config(service(enforcer, rate), **SETTINGS))
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


def serve(log, port: int) -> None:
    """Serves until Ctrl-C or SIGTERM, once all that the log holds has been read."""
    enforcer = Enforcer(log)
    enforcer.start()
    while not enforcer.ready.wait(AGAIN_S):
        if enforcer.error:
            print(f"waiting for the restriction log: {enforcer.error}", flush=True)
    print(f"http://{HOST}:{port} answers; POST /may, GET /restrictions, GET /health", flush=True)
    try:
        uvicorn.run(service(enforcer), host=HOST, port=port, **SETTINGS)
    finally:
        enforcer.stop()
