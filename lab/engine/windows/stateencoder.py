"""The bytes of a state file, from rows that may come a table at a time: what they are, then the file with its checksum."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa

from lab.engine.windows import checksum


class RowSummary:
    """What a state file says of its rows. `events`: how many each key-group has; `newest_ms`: the newest event time of each store and key-group."""

    def __init__(self) -> None:
        self.events: Counter[int] = Counter()
        self.newest_ms: dict[tuple[int, int], int] = {}

    def add(self, rows: pa.Table) -> None:
        found = rows.group_by(["store", "keyGroup"], use_threads=False).aggregate(
            [("time", "max"), ("time", "count")]
        )
        columns = (found[name].to_pylist() for name in ("store", "keyGroup", "time_max", "time_count"))
        for store, key_group, newest, count in sorted(row for row in zip(*columns, strict=True) if row[-1]):
            self.events[key_group] += count
            place = store, key_group
            self.newest_ms[place] = max(newest, self.newest_ms.get(place, newest))

    @property
    def newest(self) -> list[tuple[int, int, int]]:
        """(store, key-group, newest event time in ms)."""
        return [(*place, time) for place, time in sorted(self.newest_ms.items())]


class StateFileEncoder:
    """Encodes a file with some metadata; its rows have the columns of `schema`, or some of them."""

    def __init__(self, schema: pa.Schema, metadata: dict[str, Any], use_threads: bool):
        text = json.dumps({checksum.KEY: checksum.ZEROS, **metadata})
        self._nothing, self._sink = schema.empty_table(), checksum.Sink()
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=use_threads)
        self._writer = pa.ipc.new_file(self._sink, schema.with_metadata({"lab": text}), options=options)

    def add(self, *tables: pa.Table) -> None:
        """Adds the rows of several tables as one record batch, those of one table as they are."""
        rows = pa.concat_tables([self._nothing, *tables], promote_options="default")
        self._writer.write_table(rows if len(tables) == 1 else rows.combine_chunks())

    def finish(self) -> bytearray:
        self._writer.close()
        return self._sink.content()
