"""Everything that can be set about an engine, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from lab.engine.checkpoint.record import VERSION, new_id_fields, read_record, write_record
from lab.model.reference import LATE_POLICIES
from lab.model.schema import MAX_FUTURE_MS, PAYMENTS, Schema
from lab.model.statuslines import MOST_KEY_GROUPS

# name in a line of the stats log -> field
STATS_FIELDS = {
    "keyGroups": "key_groups",
    "latePolicy": "late_policy",
    "maxOutOfOrdernessMs": "max_out_of_orderness_ms",
    "maxFutureMs": "max_future_ms",
}


@dataclass(frozen=True)
class Settings:
    """Settings of an engine; the first three stay as they are for the life of a checkpoint.

    >>> Settings(late_policy="ignore")
    Traceback (most recent call last):
    ValueError: late_policy: 'ignore', expected one of evaluate, store, drop
    """

    schema: Schema = PAYMENTS  # of the events
    key_groups: int = 16  # units of keyed state: the maximum parallelism
    parallelism: int = 1  # tasks that evaluate; with one there is no shuffle
    late_policy: str = "evaluate"  # what becomes of late events
    max_out_of_orderness_ms: int = 300_000  # an event this far behind its group's newest is late
    max_future_ms: int = MAX_FUTURE_MS  # an event this far after its record's log time is a dead letter
    # events that a micro-batch takes at most; of file logs, 128 bytes count as one
    max_batch_records: int = 500_000
    short_batches: bool = True  # is a short micro-batch worth more than a high rate?
    exactly_once: bool = False  # is each cut delivered in a transaction of Kafka?
    power_safe: bool = False  # does each save wait for the disk?

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            given = type(self.schema).__name__
            raise TypeError(f"schema: a {given}, expected a Schema: lab.schema(path), or lab.infer(…).schema")
        for name, most in (
            ("key_groups", MOST_KEY_GROUPS),
            ("parallelism", 1000),
            ("max_batch_records", 10**9),
        ):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name}: {getattr(self, name)}, expected 1 to {most}")
        if self.parallelism > self.key_groups:
            raise ValueError(
                f"parallelism: {self.parallelism}, expected at most key_groups ({self.key_groups})"
            )
        if self.exactly_once and self.parallelism > 1:
            raise ValueError(
                f"--exactly-once with parallelism {self.parallelism}: several tasks would need several transactions for one cut; "
                "use parallelism 1, or leave it out and drop repeated alerts by alertId"
            )
        if self.power_safe and self.parallelism > 1:
            raise ValueError(
                f"--power-safe with parallelism {self.parallelism}: Spark's own files wait for no disk, and several tasks need them; "
                "use parallelism 1"
            )
        if self.power_safe and self.exactly_once:
            raise ValueError(
                "--power-safe with --exactly-once: after a power failure the newest cuts are taken anew, so alerts come again; "
                "leave one of them out, and drop repeated alerts by alertId"
            )
        if self.late_policy not in LATE_POLICIES:
            raise ValueError(f"late_policy: {self.late_policy!r}, expected one of {', '.join(LATE_POLICIES)}")
        for name in ("max_out_of_orderness_ms", "max_future_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)}, expected 0 or more")

    def stats_fields(self) -> dict[str, int | str | bool]:
        """The settings that a line of the stats log contains: those that decide which events are stored, and how lines are delivered.

        >>> Settings(late_policy="drop").stats_fields()
        {'keyGroups': 16, 'latePolicy': 'drop', 'maxOutOfOrdernessMs': 300000, 'maxFutureMs': 86400000}
        """
        fields: dict[str, int | str | bool] = {
            name: getattr(self, field) for name, field in STATS_FIELDS.items()
        }
        if self.exactly_once:
            fields["exactlyOnce"] = True
        return fields

    def with_stats_fields(self, fields: Mapping[str, Any]) -> "Settings":
        """These with those that a line of the stats log contains."""
        return replace(
            self, **{STATS_FIELDS[name]: value for name, value in fields.items() if name in STATS_FIELDS}
        )

    def bind(self, checkpoint: Path | str) -> str:
        """Writes what must not change beside a new checkpoint, and returns the checkpoint's id.

        Raises ValueError if it differs from an old one's. The parallelism of a stopped engine can be changed: `lab.rescale`.
        """
        mine = {
            "schema": self.schema.to_dict(),
            "key_groups": self.key_groups,
            "parallelism": self.parallelism,
        }
        found = read_record(checkpoint)
        record = found or {"version": VERSION, **new_id_fields(), **mine}
        before = Schema.from_dict(record["schema"])
        if reason := self.schema.incompatibility_with(before):
            raise ValueError(
                f"schema {self.schema.name}: {reason}, in checkpoint {checkpoint} of {before.name}; "
                "use that schema, or start with a new checkpoint"
            )
        for name in ("key_groups", "parallelism"):
            if mine[name] != record[name]:
                shown = [mine[name], record[name]]
                way = "or start with a new checkpoint"
                if name == "parallelism":
                    way = f"or change it: lab rescale {quote(str(checkpoint))} --to {shown[0]}"
                raise ValueError(
                    f"{name}: {shown[0]}, but checkpoint {checkpoint} was made with {shown[1]}; use that, {way}"
                )
        record = record | mine | {"version": VERSION, "max_out_of_orderness_ms": self.max_out_of_orderness_ms}
        if record != found:
            write_record(checkpoint, record)
        return record["id"]

    @classmethod
    def from_record(cls, record: dict) -> "Settings":
        """The settings of the engine that last wrote a checkpoint's record, as far as it has them."""
        late_ms = record["max_out_of_orderness_ms"]
        schema = Schema.from_dict(record["schema"])
        return cls(schema, record["key_groups"], record["parallelism"], max_out_of_orderness_ms=late_ms)


def saved_schema(checkpoint: Path | str) -> Schema | None:
    """The schema of the engine that made a checkpoint; None where there is none. Raises ValueError for one of another version."""
    record = read_record(checkpoint)
    return Schema.from_dict(record["schema"]) if record else None
