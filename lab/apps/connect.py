"""Opens the logs of a running engine from what a user typed; creates nothing, and explains what is wrong."""

from contextlib import closing
from pathlib import Path

from lab.apps.run import default_checkpoint
from lab.engine.ends import READ, FileLogs, KafkaLogs
from lab.engine.settings import saved_schema
from lab.logs.config import load_config
from lab.logs.places import KAFKA, kafka_place
from lab.model.schema import PAYMENTS, Schema
from lab.model.schemafile import schema as schema_named


def connect(where: str, schema: str = "") -> tuple[FileLogs | KafkaLogs, Schema]:
    """The logs at a folder or at `kafka://host:port`, and the schema of their events.

    `schema`: a name or a TOML file; "": that of the checkpoint beside the logs, or payments. A `lab.toml` in the working
    directory says how to reach its brokers. Raises ValueError or OSError where there is no log; neither shows a password.

    >>> connect("/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: /nowhere: no such folder; expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT
    """
    if not where:
        raise ValueError(
            "logs is empty, expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT"
        )
    logs = _topics(where) if where.startswith(KAFKA) else _folders(where)
    return logs, schema_named(schema) if schema else saved_schema(default_checkpoint(logs)) or PAYMENTS


def _folders(where: str) -> FileLogs:
    folder = Path(where).expanduser()
    expected = "expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT"
    if not folder.is_dir():
        raise FileNotFoundError(f"{where}: no such folder; {expected}")
    logs = FileLogs(folder.absolute())
    if missing := [name for name in READ if not logs.path(name).is_dir()]:
        holds = ", ".join(sorted(path.name for path in folder.iterdir())[:6]) or "nothing"
        raise ValueError(
            f"{where} has no logs: it lacks the folder {' and the folder '.join(missing)} (it contains {holds}); {expected}"
        )
    return logs


def _topics(where: str) -> KafkaLogs:
    address, topic = kafka_place(where)
    if topic:
        raise ValueError(
            f"{where} names a topic, expected only the broker: {where.removesuffix('/' + topic)}"
        )
    config = load_config(None)
    cluster = config.cluster(address)
    logs = KafkaLogs(cluster, dict(config.topics) if cluster == config.kafka else {})
    for name in READ:
        with closing(logs.log(name).tail(new=True)):  # asks the broker
            pass
    return logs
