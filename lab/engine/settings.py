"""Everything that can be set about an engine, in one place."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.reference import LATE_POLICIES
from lab.schema import PAYMENTS, Schema

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
    max_segments_per_batch: int = 1000  # files that a micro-batch takes at most

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
        if self.max_out_of_orderness_ms < 0:
            raise ValueError(f"max_out_of_orderness_ms: {self.max_out_of_orderness_ms}, expected 0 or more")

    def bind(self, checkpoint: Path) -> None:
        """Writes what must not change beside a new checkpoint; raises ValueError if it differs from an old one's."""
        path = checkpoint / "lab.json"
        mine = {name: value for name, value in asdict(self).items() if name in FIXED}
        if not path.exists():
            checkpoint.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(mine))
            return
        for name, value in json.loads(path.read_text()).items():
            if json.loads(json.dumps(mine[name])) != value:
                shown = [of["name"] if name == "schema" else of for of in (mine[name], value)]
                raise ValueError(
                    f"{name}: {shown[0]}, but checkpoint {checkpoint} was made with {shown[1]}; "
                    "use that, or start with a new checkpoint"
                )
