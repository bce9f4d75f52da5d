"""Sources of changes, in commit order: a table that is polled, or PostgreSQL's logical replication.

with TableFeed(store, place) as feed:    holds a lock: one feed at a time for a place
    feed.changes(wait_s)                the changes committed after the confirmed position
    feed.confirm(position)              the log has them: the next feed continues after it
"""

import hashlib
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self

from lab.logs.access import file_lock
from lab.rulestore.changes import RuleChange
from lab.rulestore.store import RuleStore

LOOK_S = 0.02  # how often the table is polled


class CaptureBusy(RuntimeError):
    """Another capture already copies this store to this log."""


class ChangeFeed(Protocol):
    """The source of changes that a capture reads."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def changes(self, wait_s: float) -> list[RuleChange]: ...
    def confirm(self, position: int) -> None: ...


class TableFeed:
    """Polls the table of changes, for SQLite. Its writers take turns, so the numbers follow the order of commits."""

    def __init__(self, store: RuleStore, place: str):
        self._store, self._place, self._open = store, place, ExitStack()
        self._given = 0

    def __enter__(self) -> Self:
        name = hashlib.blake2b(self._place.encode(), digest_size=4).hexdigest()
        busy = CaptureBusy(f"another capture feeds {self._place} from {self._store}: stop it first")
        self._open.enter_context(file_lock(Path(f"{self._store.url.database}.{name}.capture"), busy))
        self._given = self._store.last_sent_change_id(self._place) or 0
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def changes(self, wait_s: float) -> list[RuleChange]:
        """The next changes; waits for one up to `wait_s`."""
        deadline = time.monotonic() + wait_s
        while not (found := self._store.changes_after(self._given)) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        if found:
            self._given = found[-1].change_id
        return found

    def confirm(self, position: int) -> None:
        """Confirms that the log has all changes so far."""
        self._given = max(self._given, position)  # after a snapshot
        self._store.set_last_sent_change_id(self._place, position)
