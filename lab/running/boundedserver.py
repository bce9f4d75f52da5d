"""A small web server that no client can block: a thread for each connection, a deadline for each request, a limit on connections."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import Thread
from typing import Any, NamedTuple, Self

DEADLINE_S = 5.0  # of a request and its answer
CONNECTIONS = 32  # at a time


class _Connection(NamedTuple):
    since: float
    host: str


class BoundedServer(ThreadingHTTPServer):
    """Connections past their deadline end; of too many, the oldest one of the host that has the most. Answers during its `with`.

    `purpose`: what the server is for, in the OSError that it raises if the port is taken.
    """

    daemon_threads = True
    request_queue_size = 128  # a class answers a question all at once

    def __init__(
        self,
        host: str,
        port: int,
        handler: type[BaseHTTPRequestHandler],
        purpose: str,
        connections: int | None = None,
    ):
        try:
            super().__init__((host, port), handler)
        except OSError as error:
            raise OSError(
                f"port {port} of {host} for {purpose}: {error.strerror}, expected a free one"
            ) from None
        self._purpose, self._most = purpose, connections
        self._open: dict[socket, _Connection] = {}  # oldest first

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, daemon=True, name=self._purpose).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open[request] = _Connection(time.monotonic(), client_address[0])
        while len(opened := list(self._open.items())) > (self._most or CONNECTIONS):
            [(host, _)] = Counter(each.host for _, each in opened).most_common(1)
            self._end(next(request for request, each in opened if each.host == host))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        late = time.monotonic() - DEADLINE_S
        for request in [each for each, opened in list(self._open.items()) if opened.since < late]:
            self._end(request)

    def _end(self, request: socket) -> None:
        self._open.pop(request, None)
        with suppress(OSError):  # its client, or its own thread, has ended it already
            request.shutdown(SHUT_RDWR)  # whoever reads or writes there wakes up

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores broken connections."""


def send_answer(
    page: BaseHTTPRequestHandler,
    status: int,
    kind: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answers a request; `kind`: of the body, such as "text/plain"."""
    page.send_response(status)
    about = {"Content-Type": kind, "Content-Length": str(len(body))} | dict(headers or {})
    for name, value in about.items():
        page.send_header(name, value)
    page.end_headers()
    page.wfile.write(body)
