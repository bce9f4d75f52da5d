"""`lab broker`: starts, stops and checks a local Kafka broker."""

import sys
from argparse import Namespace
from pathlib import Path
from shlex import quote

from lab.cli.options import Subparsers, add_group, add_server_commands
from lab.machine import broker, jars
from lab.machine.java import find_java


def add_commands(commands: Subparsers) -> None:
    """Adds `lab broker start`, `stop` and `status` to the command line."""
    group = add_group(commands, "broker", "run a Kafka broker on this machine, without Docker")
    answers = "show where the broker runs and whether it answers; exit code 1 if it does not"
    command = add_server_commands(
        group,
        f"folder for its data and logs ({broker.default_folder()})",
        broker.PORT,
        start=(start, "start the broker; it keeps running after the command ends"),
        stop=(stop, "stop the broker and keep its data"),
        status=(status, answers),
    )
    users = (
        "file with a name and a password per line: only these users may connect (everybody on this machine)"
    )
    command.add_argument("--users", type=Path, metavar="FILE", help=users)


def start(options: Namespace) -> None:
    """Starts the broker, or finds that it runs already, and prints its address and how to stop it."""
    before = broker.status(options.folder)
    if options.users:
        if before:
            raise broker.BrokerError(
                f"the broker in {before.folder} is already running: stop it, then start it with its users"
            )
        broker.restrict_to_users(options.folder, broker.read_users(options.users))
    if not before:
        find_java()
        if jars.missing_jars("broker"):
            print("downloading Kafka's jars, about 44 MB (only the first time)", file=sys.stderr)
        print("starting Kafka", file=sys.stderr)
    started = broker.start(options.folder, options.port)
    print(f"Kafka {'already runs' if started == before else 'runs'} at {started.address} (pid {started.pid})")
    print(f"data and log in {started.folder}; `lab broker stop{_where(started)}` stops it and keeps the data")


def stop(options: Namespace) -> None:
    """Stops the broker in order; after 30 s by force, and says so."""
    running = broker.status(options.folder)
    if not running:
        print(_none(options))
    elif running.stop() == "stopped":
        print(f"stopped; data in {running.folder}")
    else:
        print(f"did not stop within {broker.STOP_S} s and was killed; its next start takes longer")


def status(options: Namespace) -> None:
    """Prints the broker's address. Raises BrokerError if it does not run or does not answer."""
    running = broker.status(options.folder)
    if not running:
        raise broker.BrokerError(_none(options))
    if not running.answers():
        raise broker.BrokerError(
            f"the broker in {running.folder} (pid {running.pid}) does not answer at {running.address}; "
            f"see broker.log there, or stop it: lab broker stop{_where(running)}"
        )
    print(f"Kafka runs at {running.address} (pid {running.pid}), data and log in {running.folder}")


def _none(options: Namespace) -> str:
    folder = (options.folder or broker.default_folder()).expanduser().resolve()
    return f"no broker runs in {folder}; `lab broker start` starts one"


def _where(running: broker.Broker) -> str:
    return (
        ""
        if running.folder == broker.default_folder().resolve()
        else f" --folder {quote(str(running.folder))}"
    )
