"""What it costs to keep windows durable: rewriting all of them after each micro-batch, or adding files and merging them.

    rewrite   ▪  ▪▪  ▪▪▪  ▪▪▪▪  ▪▪▪▪▪ …      each batch writes everything it keeps
    files     ▪  ▪   ▪    ▪     ▪     …      each batch writes its new events; files are merged from time to time

The files are the engine's own, `lab.engine.windows.statefiles`.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lab.contrast.oneprocess import VALUE, decode_at_once, parse_rule
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.windows.statefiles import StateFile, StateFiles, first_seq, stores_to_table
from lab.engine.windows.statemerge import plan_merge
from lab.engine.windows.store import RouteStore
from lab.model.schema import PAYMENTS


def bytes_written_and_files_kept(
    lines: Sequence[bytes], text: str, batches: int, rewrite_all: bool
) -> list[tuple[int, int]]:
    """(bytes written, files kept) after each micro-batch of the engine's state files; with `rewrite_all`, as if all events were written again each time."""
    rule = parse_rule(text)
    chain: list[StateFile] = []
    found = []
    with TemporaryDirectory(prefix="lab-steps-") as folder:
        files = StateFiles(CheckpointFolder(folder), 0, 0)
        path, late_ms = Path(folder, "store"), Settings.max_out_of_orderness_ms
        store = RouteStore(path, PAYMENTS, rule.route, [VALUE], (rule,), key_groups=1, late_ms=late_ms)
        for batch_id, (first, end) in enumerate(
            pairwise(np.linspace(0, len(lines), batches + 1).astype(int).tolist())
        ):
            columns = decode_at_once(b"\n".join(lines[first:end]))
            columns["keyGroup"] = np.zeros(end - first, np.int64)
            store.evaluate(columns, first_seq(batch_id), 0)
            since = chain[0].first_epoch if rewrite_all and chain else batch_id
            chain = [*([] if rewrite_all else chain), _written(files, store, batch_id, since, 0)]
            written = chain[-1].size_bytes
            while plan := plan_merge(chain, end - first):
                merged = chain[plan.first : plan.end]
                file = _written(files, store, merged[-1].last_epoch, merged[0].first_epoch, plan.level)
                chain[plan.first : plan.end] = [file]
                written += file.size_bytes
            found.append((written, len(chain)))
    return found


def _written(files: StateFiles, store: RouteStore, last: int, first: int, level: int) -> StateFile:
    """A file of what some epochs stored."""
    rows = store.export_events_and_resets(first_seq(first), first_seq(last + 1))
    return files.write(last, first, level, stores_to_table([(0, *rows)]))
