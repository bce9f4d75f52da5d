"""The loopback network, over which the programs of one machine talk to each other. A sandbox or a container may have none."""

import socket

HOST = "127.0.0.1"
NO_LOOPBACK = "no loopback network (127.0.0.1), over which Spark, Kafka and PostgreSQL talk on this machine"
BRING_UP = "`ip link set lo up` brings it up; a container needs a network"


class NoLoopback(RuntimeError):
    """This machine, or this container, has no loopback network."""


def check_loopback() -> None:
    """Raises NoLoopback unless this machine has a loopback network.

    >>> check_loopback()
    """
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((HOST, 9))  # sends nothing
        except OSError:
            raise NoLoopback(f"{NO_LOOPBACK}: {BRING_UP}") from None
