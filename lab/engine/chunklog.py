"""Durable windows: an append-only log of chunks in Spark's state, one log for each key-group.

    batch 1   batch 2   …   batch 8        each batch appends one chunk: the events it stored
      ▪         ▪       …      ▪      ──►  ▬  eight chunks of a level merge into one of the next

So few chunks remain, each event is rewritten O(log n) times, and chunks wholly older than the widest window are removed.
A chunk is written from the arrays in memory; it is read only to rebuild them. The log's *head* says what is there:

    {"id": …, "book": …, "nextChunk": 9, "nextStore": 2, "chunks": [{"id": 8, "level": 1, "ends": {"0": 512}, "newest": {"0": …}}],
     "stores": {"0": {"route": "payeeId", "seq": 512, "newest": …, "fields": ["paymentAmount"], "joined": {"1": 0}}}}
"""

import json
from typing import Any
from uuid import uuid4

import numpy as np

from lab.engine.columns import pack, unpack
from lab.engine.store import RouteStore

MERGED_AT_ONCE = 8
EVENTS_AT_MOST = 1 << 20  # in a chunk, so that it stays a value that a state store likes


class ChunkLog:
    """The head and the chunks of one key-group, in a Spark map state of text -> list of binary."""

    def __init__(self, state: Any):
        self._state = state
        saved = state.getValue(("head",))
        self.head: dict[str, Any] = (
            json.loads(saved[0][0])
            if saved
            else {"id": "new", "book": "", "nextChunk": 0, "nextStore": 0, "chunks": [], "stores": {}}
        )

    def book(self) -> str | None:
        """The rule book as text, None before the first rule."""
        saved = self._state.getValue(("book",))
        return bytes(saved[0][0]).decode() if saved else None

    def save_book(self, text: str) -> None:
        self._state.updateValue(("book",), ([text.encode()],))
        self.head["book"] = uuid4().hex

    def append(self, stores: dict[str, RouteStore], max_out_of_orderness_ms: int, rewrite: bool) -> None:
        """Writes what the stores took in since the last chunk, merges and expires, and saves the head under a new id.

        `rewrite`: one chunk of all that is held replaces the log.
        """
        chunks = self.head["chunks"]
        held_ms = {name: store.widest_ms + max_out_of_orderness_ms for name, store in stores.items()}
        horizons = {name: int(store.newest[0]) - held_ms[name] for name, store in stores.items()}
        gone = [chunk for chunk in chunks if rewrite or _expired(chunk, horizons)]
        chunks = [chunk for chunk in chunks if chunk not in gone]
        ends = {name: self.head["stores"][name]["seq"] for name in stores}
        starts = chunks[-1]["ends"] if chunks else {}
        if any(end > starts.get(name, 0) for name, end in ends.items()):
            level = 0
            while _full(chunks[1 - MERGED_AT_ONCE :], level):
                gone += chunks[1 - MERGED_AT_ONCE :]
                chunks = chunks[: 1 - MERGED_AT_ONCE]
                level += 1
            starts = chunks[-1]["ends"] if chunks else {}
            events = sum(end - starts.get(name, 0) for name, end in ends.items())
            parts = events // EVENTS_AT_MOST + 1
            for part in range(1, parts + 1):
                upto = {
                    name: (end * part + starts.get(name, 0) * (parts - part)) // parts
                    for name, end in ends.items()
                }
                chunks = [*chunks, self._write(stores, starts, upto, max_out_of_orderness_ms, level)]
                starts = upto
        for chunk in gone:
            self._state.removeKey((f"chunk {chunk['id']}",))
        self.head["chunks"] = chunks
        for name, store in stores.items():
            self.head["stores"][name]["newest"] = int(store.newest[0])
        self.head["id"] = uuid4().hex
        self._state.updateValue(("head",), ([json.dumps(self.head).encode()],))

    def _write(
        self, stores: dict[str, RouteStore], starts: dict, ends: dict, late_ms: int, level: int
    ) -> dict[str, Any]:
        """Writes the events from `starts` up to `ends` as a chunk and returns its entry in the head."""
        tables = []
        for name, store in stores.items():
            if ends[name] > starts.get(name, 0):
                exported = store.export(starts.get(name, 0), ends[name], late_ms)
                tables += [pack(columns, name) for columns in exported]
        newest = {name: int(store.newest[0]) for name, store in stores.items()}
        size, number = sum(map(len, tables)), self.head["nextChunk"]
        self.head["nextChunk"] += 1
        self._state.updateValue((f"chunk {number}",), (tables,))
        return {"id": number, "level": level, "bytes": size, "ends": ends, "newest": newest}

    def replay(self, stores: dict[str, RouteStore], max_out_of_orderness_ms: int) -> None:
        """Fills empty stores with what the chunks hold."""
        for name, store in stores.items():
            saved = self.head["stores"][name]
            store.restore_newest(np.array([saved["newest"]]))
        for chunk in self.head["chunks"]:
            (tables,) = self._state.getValue((f"chunk {chunk['id']}",))
            for events, resets in zip(tables[::2], tables[1::2], strict=True):
                columns, name = unpack(bytes(events))
                if name in stores:
                    joined = {int(rule): seq for rule, seq in self.head["stores"][name]["joined"].items()}
                    stores[name].load(columns, unpack(bytes(resets))[0], joined, max_out_of_orderness_ms)


def _full(chunks: list[dict[str, Any]], level: int) -> bool:
    """Whether the last chunks and one more make a chunk of the next level, not too large."""
    events = sum(sum(chunk["ends"].values()) for chunk in chunks[-1:]) - sum(
        sum(chunk["ends"].values()) for chunk in chunks[:1]
    )
    return [chunk["level"] for chunk in chunks] == [level] * (MERGED_AT_ONCE - 1) and events < EVENTS_AT_MOST


def _expired(chunk: dict[str, Any], horizons: dict[str, int]) -> bool:
    """Whether no living store holds anything of it; `newest` bounds the times of its events and of all before them."""
    return all(newest < horizons[name] for name, newest in chunk["newest"].items() if name in horizons)
