"""What an engine did, from its stats log."""

import json
from collections import Counter
from collections.abc import Callable

from lab.model.reference import COUNTS

COUNT_WORDS = {  # what became of the records; together they are all
    "evaluated": "evaluated",
    "storedLate": "stored late",
    "duplicates": "duplicates",
    "droppedLate": "dropped late",
    "deadLetters": "dead letters",
}


class Report:
    """What an engine did since the report began, read from its stats log; `heard` is told each line once."""

    def __init__(self, stats, heard: Callable[[dict], None] | None = None):
        self._tail, self.total, self._heard = stats.tail(new=True), Counter(), heard
        self._last: dict[int, dict] = {}  # by the task's first key-group
        self._stored: dict[int, Counter[int]] = {}
        self.engines: dict[str, dict] = {}  # by their ids, what they last said

    @property
    def held(self) -> int:
        """Events held in windows, as far as this run has heard of their tasks."""
        return sum(stats["heldEvents"] for stats in self._last.values())

    @property
    def state_bytes(self) -> int:
        """Bytes of durable state, of the same tasks."""
        return sum(stats["stateBytes"] for stats in self._last.values())

    @property
    def state_sizes(self) -> dict[int, int]:
        """About how many bytes each key-group has: a task's bytes, shared as the events are that this run saw it store."""
        sizes = {}
        for low, stats in self._last.items():
            stored = self._stored[low]
            sizes |= {kg: stats["stateBytes"] * n // stored.total() for kg, n in stored.items()}
        return sizes

    def read(self) -> Counter[str]:
        """What came since the last call."""
        new: Counter[str] = Counter()
        for line in self._tail.read():
            stats = json.loads(line)
            if engine := stats.get("engine"):
                self.engines[engine["id"]] = stats
            low = stats["keyGroups"][0]
            before = self._last.get(low)
            # a batch run again after a crash tells it again
            if not before or before["batch"] < stats["batch"]:
                self._last[low] = stats
                self._stored.setdefault(low, Counter()).update(
                    {int(kg): n for kg, n in stats["stored"].items()}
                )
                counts = (*COUNTS, "alerts", "datedLikeSeconds")
                new.update({name: stats.get(name, 0) for name in counts})
                if self._heard:
                    self._heard(stats)
        self.total.update(new)
        return new
