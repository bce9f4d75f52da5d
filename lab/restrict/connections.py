"""Limits the open connections of the enforcement service, for each client separately.

Each client with a token has a limit of its own; all connections without a token share one. Above a limit, the oldest connection of
that owner is closed. So everybody can always connect, and idle connections keep nobody out.
"""

from asyncio import Transport, get_running_loop
from collections import defaultdict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

STRANGERS, OF_A_CLIENT = 400, 100
ACCEPTED_AT_ONCE = (
    100  # far below the limit of strangers, so that a new connection is read before it can be the oldest
)
Address = tuple[str, int]


class Connections:
    """Open connections by owner, the oldest first. A new connection has no owner until it shows a token.

    >>> class Line:
    ...     def abort(self): print("ended")
    >>> connections = Connections(strangers=1)
    >>> connections.add(("127.0.0.1", 1), Line()); connections.assign_owner(("127.0.0.1", 1), b"token")
    >>> connections.add(("127.0.0.1", 2), Line()); connections.add(("127.0.0.1", 3), Line())
    ended
    """

    def __init__(self, strangers: int = STRANGERS):
        self._strangers = strangers
        self._open: defaultdict[bytes, dict[Address, Transport]] = defaultdict(dict)
        self._owners: dict[Address, bytes] = {}

    def add(self, address: Address, transport: Transport, owner: bytes = b"") -> None:
        """Adds a connection, and closes the owner's oldest one above the limit."""
        self._owners[address] = owner
        own = self._open[owner]
        own[address] = transport
        if len(own) > (OF_A_CLIENT if owner else self._strangers):
            oldest = next(iter(own))
            self._owners.pop(oldest)
            own.pop(oldest).abort()

    def assign_owner(self, address: Address, owner: bytes) -> None:
        """Assigns a connection to the client whose token it has shown."""
        if self._owners.get(address, owner) != owner:
            self.add(address, self._open[self._owners[address]].pop(address), owner)

    def remove(self, address: Address) -> None:
        """Removes a connection."""
        if address in self._owners:
            self._open[self._owners.pop(address)].pop(address)


class JoinedWrites:
    """A connection that sends what is written in one step of the event loop at once: each send takes as long as reading a request."""

    def __init__(self, transport: Transport):
        self._transport, self._written = transport, list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._written:
            get_running_loop().call_soon(self._send)
        self._written.append(data)

    def _send(self) -> None:
        data = b"".join(self._written)
        self._written.clear()
        if data:
            self._transport.write(data)

    def close(self) -> None:
        self._send()
        self._transport.close()


def counting_protocol(connections: Connections) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, with counted connections on which the head and the body of an answer are sent at once."""

    class Counted(H11Protocol):
        def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
            super().connection_made(JoinedWrites(transport))  # type: ignore[arg-type]
            if self.client:
                connections.add(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self.client:
                connections.remove(self.client)
            super().connection_lost(exc)

    return Counted
