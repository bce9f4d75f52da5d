"""Where an engine is: its logs, its checkpoint, and the schema of its events."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.engine.checkpoint.settings import saved_schema
from lab.engine.loop.announcement import announced_schema, newest_announcement
from lab.engine.loop.ends import Logs, kind_of
from lab.logs.config import load_config
from lab.logs.places import KAFKA
from lab.model.jsontext import BadRecord
from lab.model.rules import BadRule, parse_message
from lab.model.schema import PAYMENTS, SCHEMAS, Schema
from lab.model.schemafile import schema as schema_named

LOOKED_AT = 20  # of the newest events: records of a topic, KiB of a folder


class Usage(Exception):
    """The arguments contradict each other; the message says which ones would work."""


@dataclass(frozen=True)
class Target:
    """An engine by its places, whether it runs or not."""

    logs: Logs
    checkpoint: Path | str
    given_schema: Schema | None = None

    @cached_property
    def known_schema(self) -> Schema | None:
        """The given schema; without one, that which the logs' engine has announced, or of the checkpoint beside folders; None: nobody knows."""
        if schema := self.given_schema or announced_schema(self.logs):
            return schema
        # of topics, the checkpoint in the current folder may be that of another broker's engine
        return saved_schema(self.checkpoint) if self.logs.on_this_machine else None

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
        return self.logs.name

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
        beside = f" and there is no checkpoint in {self.checkpoint}" if self.logs.on_this_machine else ""
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
    if config.kafka and not named:
        named = [where := KAFKA + "/"]
    kinds = [kind_of(place) for place in named] or [kind_of("")]
    if len({kind.server_of(place, config) for kind, place in zip(kinds, named)}) > 1:
        raise Usage(
            f"the logs are in different places ({', '.join(named)}), expected only folders, or topics of one Kafka cluster"
        )
    logs = kinds[0].at(where, places, config)
    return Target(logs, checkpoint or logs.default_checkpoint, schema)


def target_of_existing_logs(where: str, schema: str = "") -> Target:
    """A running engine from what a user typed: the folder of its logs or `kafka://host:port`, and a schema's name or file.

    Raises ValueError or OSError where there is no log; neither shows a password.

    >>> target_of_existing_logs("/nowhere")
    Traceback (most recent call last):
    FileNotFoundError: /nowhere: no such folder; expected the folder of `lab run --logs FOLDER`, or kafka://HOST:PORT
    """
    logs = kind_of(where).existing_at(where)
    return Target(logs, logs.default_checkpoint, schema_named(schema) if schema else None)


def schema_of_events(place: str, config_file: Path | None = None) -> Schema | None:
    """The schema of the engine that reads the events log at a place, as `Target.known_schema`; None for a file. Raises NoBroker."""
    config = load_config(config_file)
    if (logs := kind_of(place).beside(place, config)) is None:
        return None
    if found := newest_announcement(logs):  # perhaps of an engine that reads other events
        return found["schema"] if found["events"] == logs.log_name("events") else None
    return Target(logs, logs.default_checkpoint).known_schema
