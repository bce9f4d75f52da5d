"""A real Apache Kafka broker without Docker: one process that is broker and controller, on this machine's loopback only.

The jars come from the cache (`lab.machine.jars`), the logging libraries from PySpark. All other files are in one folder:

    server.properties, log4j2.properties    written at each start
    own.properties                          optional further settings; {host}, {port} and {controller} are filled in
    data/                                   formatted at the first start, kept by later ones
    broker.json                             pid and port of the process started last
    broker.log, java.out                    what Kafka logs, and what its Java prints

The broker keeps running when the process that started it ends. `running_broker` gives a temporary broker, which does not.
"""

import base64
import json
import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psutil

from lab.logs.access import file_lock, make_folder, private_file_opener, read_trusted
from lab.logs.loopback import check_loopback
from lab.machine import jars, ports
from lab.machine.java import find_java
from lab.machine.orphans import run_if_killed
from lab.model.formatting import file_named_in_errors

HOST, PORT = "127.0.0.1", 9092
START_S, STOP_S, POLL_S = 60, 30, 0.05
MARK = "-Dlab.broker="  # on the command line of each broker, with its folder: nothing else is ever signalled
# a small heap, no concurrent collector, no second compiler: the cores belong to the query
JAVA_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
LOG_BINDING = ("slf4j-api-2", "log4j-slf4j2-impl-")  # of PySpark's jars
PROPERTIES = Path(__file__).with_name("broker.properties").read_text()
LOGGING = Path(__file__).with_name("broker-log4j2.properties").read_text()
METADATA_REQUEST = struct.pack(">ihhih3si", 17, 3, 1, 7, 3, b"lab", 0)  # version 1, of no topic
# a broker answers this request before login
VERSIONS_REQUEST = struct.pack(">ihhih3s", 13, 18, 0, 7, 3, b"lab")
# users log in; so does the broker, to itself and to its controller, with a password at random
WITH_USERS = """\
listeners=SASL_PLAINTEXT://{{host}}:{{port}},CONTROLLER://{{host}}:{{controller}}
listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config={login} {users};
listener.name.controller.plain.sasl.jaas.config={login};
"""
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{0}" password="{1}" user_{0}="{1}"'
ITSELF = "lab-broker"
WORD = re.compile(r"[\w.-]+", re.ASCII)
_children: dict[int, subprocess.Popen] = {}  # those that this process started, so that it reaps them


class BrokerError(RuntimeError):
    """The broker did not start or is not running; the message gives the reason and a remedy."""


@dataclass(frozen=True)
class Broker:
    """A broker that was started: its folder, its port, its process.

    >>> Broker(Path("/tmp/kafka"), 9092, 4711).address
    '127.0.0.1:9092'
    """

    folder: Path
    port: int
    pid: int

    @property
    def address(self) -> str:
        """The bootstrap server for Kafka clients."""
        return f"{HOST}:{self.port}"

    @property
    def is_alive(self) -> bool:
        """Whether the process is there and is this broker, not another program that got its number."""
        return self._process() is not None

    def answers(self) -> bool:
        """Whether it serves clients now."""
        return self.is_alive and broker_answers(self.port)

    def stop(self) -> Literal["stopped", "killed"]:
        """Shuts the broker down; kills it if it has not ended after 30 s. Does nothing if it is not running."""
        if process := self._process():
            process.terminate()
            try:
                process.wait(STOP_S)
            except psutil.TimeoutExpired:
                self.kill()
                return "killed"
        self._forget()
        return "stopped"

    def kill(self) -> None:
        """Kills the broker with SIGKILL, like a crash: it flushes and closes nothing."""
        if process := self._process():
            process.kill()
            process.wait(STOP_S)
        self._forget()

    def restart(self) -> "Broker":
        """Stops the broker if it is running, and starts it on the same port with the same data."""
        self.stop()
        return start(self.folder, self.port)

    def _process(self) -> psutil.Process | None:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process = psutil.Process(self.pid)
            if f"{MARK}{self.folder}" in process.cmdline():
                return process
        return None

    def _forget(self) -> None:
        if (child := _children.pop(self.pid, None)) is not None:
            child.poll()


def default_folder() -> Path:
    """The broker's default folder, next to the cache of jars."""
    return jars.user_folder() / "broker"


def start(folder: Path | str | None = None, port: int = PORT) -> Broker:
    """Starts the folder's broker unless it runs already; returns it once it answers, after about 3 s.

    `port` 0 takes a free one. Raises BrokerError (port taken, folder in use, died while starting), JavaMissing, JarsError, NoLoopback.
    """
    folder = _resolved(folder)
    make_folder(folder)
    with file_lock(folder / "start.lock"):
        if broker := status(folder):
            if port in (0, broker.port):
                _wait(broker, 0)
                return broker
            raise BrokerError(
                f"{folder} is in use by a broker on port {broker.port} (pid {broker.pid}), which is not {port}: "
                "stop it first, or take another folder"
            )
        check_loopback()
        program, class_path = find_java().path, _class_path()
        port = port or ports.free_port()
        if not ports.is_free(port):
            if (broker := broker_on_port(port)) and broker.folder == folder:  # somebody removed broker.json
                _note(broker)
                return broker
            raise BrokerError(
                f"port {port} is taken by {describe_listener(port)}: stop it, or take another port"
            )
        own = folder / "own.properties"
        properties = PROPERTIES + (own.read_text() if own.exists() else "")
        controller = next(other for other in iter(ports.free_port, None) if other != port)
        (folder / "server.properties").unlink(missing_ok=True)
        with open(folder / "server.properties", "w", opener=private_file_opener) as file:
            file.write(properties.format(host=HOST, port=port, controller=controller))
        (folder / "log4j2.properties").write_text(LOGGING)
        if not (folder / "data" / "meta.properties").exists():
            _format(folder, program, class_path)
        return _launch(folder, port, [program, *JAVA_OPTIONS, f"{MARK}{folder}", *class_path])


def read_users(file: Path) -> dict[str, str]:
    """Reads names and passwords, one user per line. Raises BrokerError, which shows no password, and NotTrusted."""
    users = {}
    for number, line in enumerate(read_trusted(file, is_secret=True).splitlines(), 1):
        words = line.split()
        if words and (len(words) != 2 or not all(map(WORD.fullmatch, words)) or words[0] == ITSELF):
            raise BrokerError(
                f"{file}, line {number}: expected a name and a password, of letters, digits, dots, _ and -"
            )
        if words:
            users[words[0]] = words[1]
    if not users:
        raise BrokerError(f"{file}: names nobody, expected a name and a password in each line")
    return users


def restrict_to_users(folder: Path | str | None, users: dict[str, str]) -> None:
    """From its next start on, the folder's broker serves these users only."""
    folder = _resolved(folder)
    make_folder(folder)
    own = folder / "own.properties"
    login = LOGIN.format(ITSELF, secrets.token_urlsafe(24))
    listed = " ".join(f'user_{name}="{word}"' for name, word in users.items())
    aside = folder / "own.properties.new"  # without own.properties, the next start would serve everybody
    aside.unlink(missing_ok=True)
    with file_named_in_errors(own), open(aside, "w", opener=private_file_opener) as file:
        file.write(WITH_USERS.format(login=login, users=listed))
    aside.replace(own)


def status(folder: Path | str | None = None) -> Broker | None:
    """The folder's broker if its process runs; None also if another program now has its process id."""
    folder = _resolved(folder)
    try:
        said = json.loads((folder / "broker.json").read_text())
        broker = Broker(folder, int(said["port"]), int(said["pid"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return broker if broker.is_alive else None


@contextmanager
def running_broker(folder: Path | str | None = None, port: int = 0) -> Iterator[Broker]:
    """A broker that runs during the `with`, by default on a free port and in a folder that is removed at the end.

    >>> with running_broker() as broker:  # doctest: +SKIP
    ...     KafkaAdminClient(bootstrap_servers=broker.address)
    """
    place = Path(tempfile.mkdtemp(prefix="lab-broker-")) if folder is None else _resolved(folder)
    clean_up = '"$0" -m lab broker stop --folder "$1"' + '; rm -rf "$1"' * (folder is None)
    with run_if_killed("sh", "-c", clean_up, sys.executable, str(place)):
        try:
            yield start(place, port)
        finally:
            if broker := status(place):  # also one that was restarted
                broker.stop()
            if folder is None:
                shutil.rmtree(place, ignore_errors=True)


# -- who is there ------------------------------------------------------------------------------------------------------


def broker_answers(port: int) -> bool:
    """Whether a Kafka broker on the loopback's port says that it serves clients."""
    with suppress(OSError, struct.error), socket.create_connection((HOST, port), timeout=2) as client:
        client.sendall(METADATA_REQUEST)
        _, correlation, brokers = struct.unpack(">iii", client.recv(12))
        return correlation == 7 and brokers == 1
    with suppress(OSError, struct.error), socket.create_connection((HOST, port), timeout=2) as client:
        # the first request got no answer: the broker closes the connection of a client that has not logged in
        client.sendall(VERSIONS_REQUEST)
        _, correlation, error = struct.unpack(">iih", client.recv(10))
        return correlation == 7 and error == 0
    return False


def broker_on_port(port: int) -> Broker | None:
    """The broker started by this module that listens on the port, whatever its folder."""
    process = ports.listening_process(port)
    marks = [word for word in ports.command_line(process) if word.startswith(MARK)]
    return Broker(Path(marks[0].removeprefix(MARK)), port, process.pid) if process and marks else None


def describe_listener(port: int) -> str:
    """Describes the program that listens on the port."""
    if broker := broker_on_port(port):
        return f"the broker of {broker.folder} (pid {broker.pid})"
    process = ports.listening_process(port)
    program = Path((ports.command_line(process) or ["another program"])[0]).name
    return f"{program} (pid {process.pid})" if process else program


# -- the process -------------------------------------------------------------------------------------------------------


def _resolved(folder: Path | str | None) -> Path:
    return Path(folder or default_folder()).expanduser().resolve()


def _class_path() -> list[str]:
    """Kafka's jars, and those of PySpark's that make it log."""
    spark = find_spec("pyspark")
    folder = Path(spark.origin).parent / "jars" if spark and spark.origin else Path()
    binding = [jar for name in LOG_BINDING for jar in sorted(folder.glob(f"{name}*.jar"))]
    return ["-cp", os.pathsep.join(map(str, [*binding, *jars.fetch_jars("broker")]))]


def _format(folder: Path, program: str, class_path: list[str]) -> None:
    cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", "server.properties"]
    command = [program, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *class_path, *tool]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        said = [line for line in lines if not line.startswith(("\t", "Picked up "))][-3:]
        raise BrokerError("\n".join([f"{folder / 'data'} could not be formatted:", *said]))


def _launch(folder: Path, port: int, java_command: list[str]) -> Broker:
    log = folder / "broker.log"
    log_start = log.stat().st_size if log.exists() else 0
    logging = "-Dlog4j2.configurationFile=log4j2.properties"
    command = [*java_command, logging, "kafka.Kafka", "server.properties"]
    with (folder / "java.out").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=0o077,
        )
    _children[process.pid] = process
    broker = Broker(folder, port, process.pid)
    try:
        _note(broker)
        _wait(broker, log_start)
    except BaseException:  # also Ctrl-C
        broker.kill()
        raise
    return broker


def _note(broker: Broker) -> None:
    (broker.folder / "broker.json").write_text(json.dumps({"pid": broker.pid, "port": broker.port}))


def _wait(broker: Broker, log_start: int) -> None:
    deadline = time.monotonic() + START_S
    while not broker_answers(broker.port):
        child = _children.get(broker.pid)
        if not broker.is_alive if child is None else child.poll() is not None:
            raise BrokerError(f"the broker died while starting. {_telling(broker.folder, log_start)}")
        if time.monotonic() > deadline:
            raise BrokerError(f"no answer within {START_S} s. {_telling(broker.folder, log_start)}")
        time.sleep(POLL_S)


def _telling(folder: Path, log_start: int) -> str:
    """What the log says since `log_start` of why a broker did not start."""
    said = []
    for name, start in (("java.out", 0), ("broker.log", log_start)):
        with suppress(FileNotFoundError):
            said += (folder / name).read_bytes()[start:].decode(errors="replace").splitlines()
    telling = [
        line for line in said if re.search(r"\b(ERROR|FATAL)\b|^\S+(Exception|Error)\b|^Caused by", line)
    ]
    lines = list(dict.fromkeys(telling or said))[:5]
    return "\n".join([f"Its log {folder / 'broker.log'} says:", *(f"  {line}" for line in lines)])
