"""Everything that can be set about an engine, in one place."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from lab.engine.checkpoint import VERSION, read_record, write_record
from lab.model.reference import LATE_POLICIES
from lab.model.schema import PAYMENTS, Field, Schema

MOST_KEY_GROUPS = 1 << 15
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
    parallelism: int = 1  # tasks that evaluate; with one there is no shuffle
    late_policy: str = "evaluate"  # what becomes of late events
    max_out_of_orderness_ms: int = 300_000  # an event this far behind its group's newest is late
    max_batch_records: int = (
        500_000  # events that a micro-batch takes at most; of file logs, 128 bytes count as one
    )
    short_batches: bool = True  # is a short micro-batch worth more than a high rate?

    def __post_init__(self) -> None:
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
        if self.late_policy not in LATE_POLICIES:
            raise ValueError(f"late_policy: {self.late_policy!r}, expected one of {', '.join(LATE_POLICIES)}")
        if self.max_out_of_orderness_ms < 0:
            raise ValueError(f"max_out_of_orderness_ms: {self.max_out_of_orderness_ms}, expected 0 or more")

    def bind(self, checkpoint: Path | str) -> str:
        """Writes what must not change beside a new checkpoint, and returns the checkpoint's id.

        Raises ValueError if it differs from an old one's. The parallelism of a stopped engine can be changed: `lab.rescale`.
        """
        mine = json.loads(json.dumps({name: value for name, value in asdict(self).items() if name in FIXED}))
        record = read_record(checkpoint)
        if record is None:
            record = {"version": VERSION, "id": uuid4().hex, **mine}
        for name in FIXED:
            if mine[name] != record[name]:
                shown = [of["name"] if name == "schema" else of for of in (mine[name], record[name])]
                way = "or start with a new checkpoint"
                if name == "parallelism":
                    way = f"or change it: lab rescale {checkpoint} --to {shown[0]}"
                raise ValueError(
                    f"{name}: {shown[0]}, but checkpoint {checkpoint} was made with {shown[1]}; use that, {way}"
                )
        late_ms = self.max_out_of_orderness_ms
        if record.get("max_out_of_orderness_ms") != late_ms:  # whoever reads the state must know what is held
            record["max_out_of_orderness_ms"] = late_ms
            write_record(checkpoint, record)
        return record["id"]

    @classmethod
    def of_record(cls, record: dict) -> "Settings":
        """The settings of the engine that last wrote a checkpoint's record, as far as it has them."""
        saved = record["schema"]
        schema = Schema(**saved | {"fields": tuple(Field(**field) for field in saved["fields"])})
        return cls(
            schema,
            record["key_groups"],
            record["parallelism"],
            max_out_of_orderness_ms=record["max_out_of_orderness_ms"],
        )
