"""Ports of this machine's loopback: which are free, and which program uses a port that is not."""

import random
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from lab.logs.loopback import HOST

if TYPE_CHECKING:
    from psutil import Process


def is_free(port: int) -> bool:
    """Whether a program could listen on the port.

    >>> with socket.create_server((HOST, 0)) as taken:
    ...     is_free(taken.getsockname()[1])
    False
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A free port below those that the system lends to clients: one of these could get it while a server restarts."""
    return next(port for port in iter(lambda: random.randrange(20_000, 32_000), None) if is_free(port))


def listening_process(port: int) -> "Process | None":
    """The process that listens on the port; None if there is none, or the system does not tell."""
    import psutil

    with suppress(psutil.Error):  # macOS lets only root see other users' sockets
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return psutil.Process(connection.pid)
    return None


def command_line(process: "Process | None") -> list[str]:
    """The process's command line; empty if there is none, or the system does not tell."""
    import psutil

    with suppress(psutil.Error):
        return process.cmdline() if process else []
    return []
