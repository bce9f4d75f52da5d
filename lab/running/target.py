"""Where an engine is: its logs, its checkpoint, and the schema of its events."""

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lab.engine.checkpoint.settings import saved_schema
from lab.engine.loop.announcement import announced_schema, events_name, newest_announcement
from lab.engine.loop.ends import LOGS, READ, FileLogs, KafkaLogs
from lab.logs.config import load_config
from lab.logs.places import KAFKA, split_kafka_place
from lab.model.jsontext import BadRecord
from lab.model.rules import BadRule, parse_message
from lab.model.schema import PAYMENTS, SCHEMAS, Schema
from lab.model.schemafile import schema as schema_named

if TYPE_CHECKING:
    from lab.logs.files import FileLog
    from lab.logs.kafka import KafkaLog

# commands that make the topic of a log, if that is not `lab run`
MAKERS = {"events": "", "restrictions": "lab restrict run"}
LOOKED_AT = 20  # of the newest events: records of a topic, KiB of a folder
EXPECTED = "expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT"


class Usage(Exception):
    """The arguments contradict each other; the message says which ones would work."""


@dataclass(frozen=True)
class Target:
    """An engine by its places, whether it runs or not."""

    logs: FileLogs | KafkaLogs
    checkpoint: Path | str
    given_schema: Schema | None = None

    @cached_property
    def known_schema(self) -> Schema | None:
        """The given schema; without one, that which the logs' engine has announced, or of the checkpoint beside folders; None: nobody knows."""
        if schema := self.given_schema or announced_schema(self.logs):
            return schema
        # of topics, the checkpoint in the current folder may be that of another broker's engine
        return saved_schema(self.checkpoint) if isinstance(self.logs, FileLogs) else None

    @cached_property
    def effective_schema(self) -> Schema:
        """The known schema; where no engine has run yet, payments. Raises Usage if then some rule or event is not one of payments."""
        if self.known_schema:
            return self.known_schema
        if reason := self._refused_as_payments():
            raise self._unknown_schema(f", and not all there is of payments ({reason})")
        return PAYMENTS

    @property
    def required_schema(self) -> Schema:
        """The known schema, for services, which would go on with a wrong one. Raises Usage if nobody knows it."""
        if schema := self.known_schema:
            return schema
        raise self._unknown_schema("")

    @property
    def schema_to_run(self) -> Schema:
        """The schema of an engine that is started: the given one, or its checkpoint's, or that of the logs' last engine, or payments."""
        if schema := self.given_schema or saved_schema(self.checkpoint):
            return schema
        with suppress(ConnectionError):  # without a broker no engine starts, which says more
            return announced_schema(self.logs) or PAYMENTS
        return PAYMENTS

    @property
    def assumption(self) -> str:
        """What to say of a rule that is refused, where payments are only assumed; "" where the schema is known."""
        if self.known_schema:
            return ""
        return f" (payments are assumed, because no engine has run on {self.logs_name} yet: --schema names another schema)"

    @property
    def logs_name(self) -> str:
        """The logs, for people."""
        return str(self.logs.folder if isinstance(self.logs, FileLogs) else self.logs.address)

    def _refused_as_payments(self) -> str:
        """Why a rule, or all of the newest events, are no payments; "" if they are, or there are none."""
        refused = ""
        with suppress(ValueError, PermissionError):  # no such topic, or not for this user
            for message in self.logs.log("control").read():
                try:
                    parse_message(message, PAYMENTS)
                except BadRule as error:
                    # a message may also be bad whatever the events are
                    if f"unknown {PAYMENTS.name} field" in str(error):
                        return str(error)
            for line in filter(str.strip, self.logs.log("events").newest(LOOKED_AT)):
                try:
                    PAYMENTS.events(line.encode())
                except BadRecord as error:
                    refused = refused or str(error)
                else:
                    return ""
        return refused

    def _unknown_schema(self, why: str) -> Usage:
        acks = self.logs.log("acks")
        beside = (
            f" and there is no checkpoint in {self.checkpoint}" if isinstance(self.logs, FileLogs) else ""
        )
        return Usage(
            f"nothing says what the events of {self.logs_name} are: no engine has announced it in {acks}{beside}{why}. "
            f"--schema names it ({', '.join(SCHEMAS)}, or a file like those of `lab infer`), or --acks the engine's answers"
        )


def locate(
    where: str | None = None,
    places: Mapping[str, str] | None = None,
    checkpoint: Path | str | None = None,
    schema: Schema | None = None,
    config_file: Path | None = None,
) -> Target:
    """The engine whose logs are at `where`, except those that have a place of their own: `places`, log -> place.

    Without any place, the logs are on the cluster of `config_file` (`lab.toml` in the working directory), or in the folder `logs`.
    Creates nothing. Raises Usage if some logs are folders and some are topics, BadConfig.
    """
    config, places = load_config(config_file), places or {}
    named = [*places.values(), *([where] if where else [])]
    in_kafka = [place for place in named if place.startswith(KAFKA)]
    logs: FileLogs | KafkaLogs
    if config.kafka and not named:
        logs = KafkaLogs(config.kafka, config.topics)
    elif not in_kafka:
        beside = places.get("alerts", places.get("control"))
        folder = where or (Path(beside).absolute().parent if beside else "logs")
        logs = FileLogs(Path(folder), {log: Path(place) for log, place in places.items()})
    else:
        clusters = {config.cluster(split_kafka_place(place)[0]) for place in in_kafka}
        if len(in_kafka) < len(named) or len(clusters) > 1:
            raise Usage(
                f"the logs are in different places ({', '.join(named)}), expected only folders, or topics of one Kafka cluster"
            )
        cluster = clusters.pop()
        topics = dict(config.topics) if cluster == config.kafka else {}
        logs = KafkaLogs(
            cluster, topics | {log: split_kafka_place(place)[1] for log, place in places.items()}
        )
    return Target(logs, checkpoint or default_checkpoint(logs), schema)


def default_checkpoint(logs: FileLogs | KafkaLogs) -> Path:
    """The default checkpoint of an engine: beside folders of logs; for topics, in the current folder."""
    return (logs.folder if isinstance(logs, FileLogs) else Path()) / "checkpoint"


def open_control_log(logs: FileLogs | KafkaLogs) -> "FileLog | KafkaLog":
    """The control log, to write to. Creates missing folders, but no topic: that may be mistyped. Raises as `open_existing_log` does."""
    if not isinstance(logs, KafkaLogs):
        logs.create()
        return logs.log("control")
    from lab.logs.kafka import COMPACTED

    log = logs.log("control")
    log.existing_partitions("lab run", COMPACTED)
    return log


def check_topics_to_read(logs: FileLogs | KafkaLogs, *names: str) -> None:
    """Raises as `open_existing_log` does if one of the logs is a topic that is missing. Creates missing folders, but no topic."""
    if not isinstance(logs, KafkaLogs):
        logs.create()
        return
    for name in names:
        open_existing_log(logs, name).close()


def open_existing_log(logs: FileLogs | KafkaLogs, name: str) -> "FileLog | KafkaLog":
    """A log that a command does not create. If it does not exist, raises FileNotFoundError, which names the logs that do.

    If it is a topic, raises NoTopic, which names topics of similar names, also NoBroker and UnusableTopic.
    """
    if isinstance(logs, KafkaLogs):
        log = logs.log(name)
        log.existing_partitions(MAKERS.get(name, "lab run"))
        return log
    if (path := logs.log_folder(name)).is_dir():
        return logs.log(name)
    here, known = path.absolute().parent, (*LOGS, "restrictions")
    if there := [each for each in known if (here / each).is_dir()]:
        raise FileNotFoundError(f"{path}: no such log; {path.parent} has {', '.join(there)}")
    beside = here.parent if here.parent.is_dir() else Path.cwd()
    # os.path: folders of other users may be beside it
    places = [each for each in sorted(beside.iterdir()) if any(os.path.isdir(each / log) for log in known)]
    found = f"logs are in {', '.join(map(str, places[:5]))}" if places else "`lab run` creates logs"
    raise FileNotFoundError(f"{path}: no such log; {found}")


def open_restrictions_log(logs: FileLogs | KafkaLogs) -> "FileLog | KafkaLog":
    """The restrictions, to read. Folders of an engine that has none yet have an empty log. Otherwise raises as `open_existing_log` does."""
    if isinstance(logs, FileLogs) and logs.log_folder("control").is_dir():
        return logs.log("restrictions")
    return open_existing_log(logs, "restrictions")


def target_of_existing_logs(where: str, schema: str = "") -> Target:
    """A running engine from what a user typed: the folder of its logs or `kafka://host:port`, and a schema's name or file.

    Raises ValueError or OSError where there is no log; neither shows a password.

    >>> target_of_existing_logs("/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: /nowhere: no such folder; expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT
    """
    if not where:
        raise ValueError(f"logs is empty, {EXPECTED}")
    logs = _topics(where) if where.startswith(KAFKA) else _folders(where)
    return Target(logs, default_checkpoint(logs), schema_named(schema) if schema else None)


def _folders(where: str) -> FileLogs:
    folder = Path(where).expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"{where}: no such folder; {EXPECTED}")
    logs = FileLogs(folder.absolute())
    if missing := [name for name in READ if not logs.log_folder(name).is_dir()]:
        holds = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise ValueError(
            f"{where} has no logs: it lacks the folder {' and the folder '.join(missing)} (it contains {holds}); {EXPECTED}"
        )
    return logs


def _topics(where: str) -> FileLogs | KafkaLogs:
    topic = split_kafka_place(where)[1]
    if topic:
        raise ValueError(
            f"{where} names a topic, expected only the broker: {where.removesuffix('/' + topic)}"
        )
    logs = locate(where).logs
    for name in READ:
        with closing(logs.log(name).tail(new=True)):  # asks the broker
            pass
    return logs


def schema_of_events(place: str, config_file: Path | None = None) -> Schema | None:
    """The schema of the engine that reads the events log at a place, as `Target.known_schema`; None for a file. Raises NoBroker."""
    is_topic = place.startswith(KAFKA)
    if not is_topic and not Path(place).is_dir():
        return None
    where = None if is_topic else str(Path(place).absolute().parent)
    target = locate(where, {"events": place}, config_file=config_file)
    if found := newest_announcement(target.logs):  # perhaps of an engine that reads other events
        return found["schema"] if found["events"] == events_name(target.logs) else None
    return target.known_schema
