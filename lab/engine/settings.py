"""Everything that can be set about an engine, in one place."""

from dataclasses import asdict, dataclass
from pathlib import Path

from lab.engine.checkpoint import VERSION, read_record, write_record
from lab.model.reference import LATE_POLICIES
from lab.model.schema import MAX_FUTURE_MS, PAYMENTS, Schema

FIXED = ("schema", "key_groups", "parallelism")


@dataclass(frozen=True)
class Settings:
    """Settings of an engine; the first three stay as they are for the life of a checkpoint.

    >>> Settings(late_policy="ignore")
    Traceback (most recent call last):
    ValueError: late_policy: 'ignore', expected one of evaluate, store, drop
    """

    schema: Schema = PAYMENTS  # of the events
    key_groups: int = 16  # units of keyed state: the maximum parallelism
    parallelism: int = 2  # partitions of the stateful stage
    late_policy: str = "evaluate"  # what becomes of late events
    max_out_of_orderness_ms: int = 300_000  # an event this far behind its group's newest is late
    max_future_ms: int = MAX_FUTURE_MS  # an event this far after its record's log time is a dead letter
    max_segments_per_batch: int = 1000  # files that a micro-batch takes at most
    short_batches: bool = True  # is a short micro-batch worth more than a high rate?

    def __post_init__(self) -> None:
        for name in ("key_groups", "parallelism", "max_segments_per_batch"):
            if not 1 <= getattr(self, name) <= 1000:
                raise ValueError(f"{name}: {getattr(self, name)}, expected 1 to 1000")
        if self.parallelism > self.key_groups:
            raise ValueError(
                f"parallelism: {self.parallelism}, expected at most key_groups ({self.key_groups})"
            )
        if self.late_policy not in LATE_POLICIES:
            raise ValueError(f"late_policy: {self.late_policy!r}, expected one of {', '.join(LATE_POLICIES)}")
        for name in ("max_out_of_orderness_ms", "max_future_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)}, expected 0 or more")

    def bind(self, checkpoint: Path) -> None:
        """Writes what must not change beside a new checkpoint; raises ValueError if it differs from an old one's.

        The parallelism of a stopped engine can be changed: `lab.state.rescale`. Half way through that, no engine may start.
        """
        mine = {name: value for name, value in asdict(self).items() if name in FIXED}
        record = read_record(checkpoint)
        if record is None:
            write_record(checkpoint, {"version": VERSION, **mine})
            return
        if change := record.get("rescaling"):
            raise ValueError(
                f"checkpoint {checkpoint} is half way from {change['from']} to {change['to']} partitions; "
                f"finish that: lab rescale {checkpoint} --to {change['to']}"
            )
        before = Schema.from_dict(record["schema"])
        if reason := self.schema.incompatible(before):
            raise ValueError(
                f"schema {self.schema.name}: {reason}, in checkpoint {checkpoint} of {before.name}; "
                "use that schema, or start with a new checkpoint"
            )
        if before != self.schema:
            write_record(checkpoint, record | {"schema": self.schema.to_dict()})
        for name in FIXED[1:]:
            value = record[name]
            if mine[name] != value:
                shown = [mine[name], value]
                change = f"lab rescale {checkpoint} --to {shown[0]}"
                raise ValueError(
                    f"{name}: {shown[0]}, but checkpoint {checkpoint} was made with {shown[1]}; use that, "
                    + (
                        f"or change it: {change}"
                        if name == "parallelism"
                        else "or start with a new checkpoint"
                    )
                )


def saved_schema(checkpoint: Path) -> Schema | None:
    """The schema of the engine that made a checkpoint; None where there is none. Raises ValueError for one of another version."""
    record = read_record(checkpoint)
    return Schema.from_dict(record["schema"]) if record else None
