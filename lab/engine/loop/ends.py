"""The logs that an engine reads and writes, as folders of files, topics of Kafka, or a kind that somebody adds to `KINDS`."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from lab.engine.checkpoint.cuts import Cut, CutId
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import LEASE_S, lease_age_s
from lab.logs.index import Batch
from lab.logs.places import split_kafka_place
from lab.logs.positions import Positions
from lab.logs.protocol import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from lab.engine.records.feeds import Feed
    from lab.engine.records.keyedlines import JoinedLines
    from lab.engine.windows.evaluate import TaskOutput
    from lab.logs.config import Config

# commands that make a log, if that is not `lab run`
MAKERS = {"events": "", "restrictions": "lab restrict run"}
CLOCKS_MS = 60_000  # those of two hosts may differ by so much
# how a place begins, before :// -> the class of logs there, a `Logs`; "": a folder
KINDS = {"": "lab.engine.loop.filelogs.FileLogs", "kafka": "lab.engine.loop.kafkalogs.KafkaLogs"}


class Outlet(Protocol):
    """Where a task delivers its cuts."""

    def put(self, cut: Cut, output: "TaskOutput", redelivered: frozenset[CutId]) -> None:
        """Delivers the results of a cut, in its order; `redelivered`: all cuts that are put again. Raises BatchConflict for another
        cut with this number, where logs can tell."""

    def flush(self) -> None:
        """Waits until everything is stored."""


class Logs(Protocol):
    """The logs of an engine, each by its name in `enginelogs.LOGS`. A kind of logs is a subclass that `KINDS` names.

    `on_this_machine`: no other machine reaches them, and a checkpoint is beside them. `excludes_others`: `lock` keeps every other
    engine from writing them. `has_transactions`: whether `transactional_outlet` delivers each cut whole.
    """

    on_this_machine: bool = False
    excludes_others: bool = False
    has_transactions: bool = False

    @classmethod
    def check_place(cls, place: str) -> None:
        """Raises ValueError unless this is how a place of this kind is written."""
        return  # any text names a folder

    @classmethod
    def server_of(cls, place: str, config: "Config") -> Hashable:
        """What the logs of one engine have in common: the cluster of a topic."""
        return cls

    @classmethod
    def at(cls, where: str | None, places: Mapping[str, str], config: "Config") -> Self:
        """The logs at `where`, except those that have a place of their own: `places`, log -> place. Creates nothing."""

    @classmethod
    def existing_at(cls, where: str) -> Self:
        """The logs at a place that a user typed. Raises ValueError or OSError if there are none."""

    @classmethod
    def beside(cls, events: str, config: "Config") -> Self | None:
        """The logs of the engine whose events log is at a place; None if there is no such log."""

    @classmethod
    def open_log(cls, place: str, config: "Config") -> Log:
        """The single log at a place. Raises ValueError."""

    @property
    def name(self) -> str:
        """Their place, for people."""

    @property
    def default_checkpoint(self) -> Path:
        """The checkpoint of an engine that names none: in the current folder, or beside the logs."""
        return Path("checkpoint")

    def log(self, name: str) -> Log:
        """The log of a name in `enginelogs.LOGS`."""

    def log_name(self, name: str) -> str:
        """The name that the log has where it is stored."""

    def create(self, *, named_events: bool = True) -> bool:
        """Creates the logs that are missing; returns whether the events log was, if somebody should know.

        Without `named_events`, an events log that somebody named is not created: raises NoLog if it is missing.
        """

    def create_log(self, name: str) -> None:
        """Creates a log unless it exists."""

    def create_for_commands(self) -> None:
        """Creates the missing logs if their names cannot be mistyped, as folders; topics could be."""

    def check_readable(self, *names: str) -> None:
        """Raises as `existing` does if a command cannot read one of the logs. Creates missing folders, but no topic."""
        self.create_for_commands()
        for name in names:
            self.existing(name).close()

    def existing(self, name: str) -> Log:
        """A log that a command does not create. Raises NoLog or FileNotFoundError, which name others, if it does not exist."""

    def control_to_write(self) -> Log:
        """The control log, to write to. Raises as `existing` does."""
        self.create_for_commands()
        return self.existing("control")

    def feed(self, name: str) -> "Feed":
        """A log as the engine reads it."""

    def outlet(self, writer: str) -> Outlet:
        """Where a task delivers its cuts; `writer`: the checkpoint's id."""

    def transactional_outlet(
        self, writer: str, key_groups: int, earlier_cuts: Sequence[Cut], check: Callable[[], None]
    ) -> Outlet:
        """Where an attempt that owns all key-groups of a checkpoint delivers its cuts, and those `earlier_cuts` that are not committed.

        `check` raises an error if another attempt has taken over.
        """
        return self.outlet(writer)

    def topic(self, name: str) -> str:
        """What the rows of Spark's sink call a log."""
        return name

    def to_sink_rows(self, keys: list[str], lines: "JoinedLines") -> tuple[list[str], list]:
        """Keys and values of the rows that carry lines to the sink."""

    def sink(self, output: "DataFrame", checkpoint: CheckpointFolder, writer: str) -> "DataStreamWriter":
        """A query that appends the output of each micro-batch."""

    def last_batches(self, writer: str, since_ms: int) -> Iterator[tuple[Log, Batch]]:
        """Each log that has cuts of a checkpoint, and the last of these, if it is known; `since_ms`: where looking back ends."""
        return iter(())

    def bound_to(self, checkpoint: Path | str) -> Self:
        """These logs, as the checkpoint has read them. Raises TopicMadeAnew if others have taken their place."""
        return self

    def lock(self) -> AbstractContextManager:
        """Keeps other engines from writing these logs while it is open. Raises CheckpointInUse."""
        return nullcontext()

    def are_written(self) -> bool | None:
        """Whether an engine runs on these logs; None where that cannot be seen from here.

        An engine renews a lease on its checkpoint every few seconds, whether it has something to do or not.
        """
        age = lease_age_s(CheckpointFolder(self.default_checkpoint))
        return None if age is None else age < LEASE_S

    def report_progress(self, events: Positions) -> None:
        """Shows tools of the logs' server how far the engine has read."""
        return  # there is no server

    def progress_notice(self) -> str:
        """Why `report_progress` does not work; "" if it does. May take as long as a server takes to answer."""
        return ""


def kind_of(place: str) -> type[Logs]:
    """The kind of the logs at a place. Raises ValueError for one that begins like no kind."""
    scheme = place.partition("://")[0] if "://" in place else ""
    if scheme not in KINDS:
        split_kafka_place(place)  # raises
    module, _, name = KINDS[scheme].rpartition(".")
    return getattr(import_module(module), name)


def check_tasks_can_reach(logs: Logs, checkpoint: CheckpointFolder, master: str) -> None:
    """Raises ValueError if Spark's tasks run where they cannot reach the logs or the checkpoint."""
    others = not master.startswith("local")
    if others and logs.on_this_machine:
        raise ValueError(
            f"logs in folders are on this machine, Spark's tasks on {master} are on others: use topics, "
            "kafka://HOST:PORT, or Spark on this machine"
        )
    if others and checkpoint.is_on_this_machine:
        raise ValueError(
            f"checkpoint {checkpoint} is on this machine, Spark's tasks on {master} are on others: use "
            f"file://{checkpoint.path} if all hosts share that folder, or s3a://BUCKET/…"
        )


def check_power_safe_possible(logs: Logs, checkpoint: CheckpointFolder, stops_at_end: bool = False) -> None:
    """Raises ValueError if a power failure could take more than the saved state of an engine is made to stand."""
    if not logs.has_transactions:
        raise ValueError(
            "--power-safe is for topics: these logs are folders, of which a power failure may take the last lines, whatever the "
            "engine keeps; leave it out"
        )
    if stops_at_end or not checkpoint.is_on_this_machine:
        other = "an engine that stops when it has read all" if stops_at_end else f"checkpoint {checkpoint}"
        raise ValueError(
            f"--power-safe with {other}: use a running engine and the checkpoint's folder on this machine"
        )


def check_transactions_possible(logs: Logs, checkpoint: CheckpointFolder, stops_at_end: bool = False) -> None:
    """Raises ValueError if an engine with one task cannot deliver its cuts in transactions; `stops_at_end`: when it has read all."""
    if not logs.has_transactions:
        raise ValueError(
            "--exactly-once is for topics, these logs are folders: they get each alert once without it, so leave it out"
        )
    if stops_at_end or not checkpoint.is_on_this_machine:
        other = "an engine that stops when it has read all" if stops_at_end else f"checkpoint {checkpoint}"
        raise ValueError(
            f"--exactly-once with {other}: there Spark's sink delivers, at least once; use a running engine with Spark and "
            "the checkpoint's folder on this machine, or leave it out and drop repeated alerts by alertId"
        )
