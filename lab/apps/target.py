"""Where an engine is: its logs, its checkpoint, and the schema of its events."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.engine.checkpoint.settings import saved_schema
from lab.engine.loop.ends import LOGS, READ, FileLogs, KafkaLogs
from lab.logs.config import load_config
from lab.logs.places import KAFKA, split_kafka_place
from lab.model.schema import PAYMENTS, Schema
from lab.model.schemafile import schema as schema_named

if TYPE_CHECKING:
    from lab.logs.files import FileLog
    from lab.logs.kafka import KafkaLog

# commands that make the topic of a log, if that is not `lab run`
MAKERS = {"events": "", "restrictions": "lab restrict run"}
EXPECTED = "expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT"


class Usage(Exception):
    """The arguments contradict each other; the message says which ones would work."""


@dataclass(frozen=True)
class Target:
    """An engine by its places, whether it runs or not."""

    logs: FileLogs | KafkaLogs
    checkpoint: Path | str
    given_schema: Schema | None = None

    @property
    def effective_schema(self) -> Schema:
        """The given schema; without one, that of the engine that made the checkpoint, or payments."""
        return self.given_schema or saved_schema(self.checkpoint) or PAYMENTS


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


def checkpoint_schema_beside(events_place: str) -> Schema | None:
    """The schema in the checkpoint beside an events log; None of a file, or where there is no checkpoint."""
    if events_place.startswith(KAFKA):
        return saved_schema("checkpoint")
    folder = Path(events_place).absolute()
    return saved_schema(folder.parent / "checkpoint") if folder.is_dir() else None
