"""What it costs to keep windows durable: all of them written anew after each micro-batch, or a log of chunks.

    rewrite   ▪  ▪▪  ▪▪▪  ▪▪▪▪  ▪▪▪▪▪ …      each batch writes all that is held
    chunks    ▪  ▪   ▪    ▪     ▪     …      each batch writes what came, and now and then chunks are merged

The engine's own `lab.engine.chunklog`, on a state that counts bytes instead of Spark's.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lab.contrast.alone import VALUE, at_once, rule_of
from lab.engine.chunklog import ChunkLog
from lab.engine.settings import Settings
from lab.engine.store import RouteStore
from lab.model.schema import PAYMENTS


class CountingState(dict):
    """Stands in for Spark's map state; counts the bytes that are written."""

    written = 0

    def getValue(self, key: tuple) -> tuple | None:
        return self.get(key)

    def updateValue(self, key: tuple, value: tuple) -> None:
        self[key] = value
        self.written += sum(map(len, value[0]))

    def removeKey(self, key: tuple) -> None:
        del self[key]


def written(lines: Sequence[bytes], text: str, batches: int, rewrite: bool) -> list[tuple[int, int]]:
    """(bytes written, chunks kept) after each micro-batch of the engine's chunk log, or if it wrote all anew each time."""
    rule, late_ms, found = rule_of(text), Settings.max_out_of_orderness_ms, []
    with TemporaryDirectory(prefix="lab-steps-") as folder:
        state = CountingState()
        log = ChunkLog(state)
        saved = log.head["stores"]["0"] = {"seq": 0}
        store = RouteStore(Path(folder, "store"), PAYMENTS, rule.route, [VALUE], (rule,), key_groups=1)
        for first, end in pairwise(np.linspace(0, len(lines), batches + 1).astype(int).tolist()):
            before = state.written
            columns = at_once(b"\n".join(lines[first:end]))
            columns["keyGroup"] = np.zeros(end - first, np.int64)
            store.evaluate(columns, first, late_ms, 0)
            saved["seq"] = end
            log.append({"0": store}, late_ms, rewrite)
            found.append((state.written - before, len(log.head["chunks"])))
    return found
