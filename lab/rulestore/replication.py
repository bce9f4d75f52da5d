"""PostgreSQL's logical replication as a feed: the server sends each commit and keeps what has not been confirmed.

    rule_changes ──publication──► slot ──pgoutput──► ReplicationFeed.changes
                                   ▲──── feedback: the log has all up to here ────┘

The slot also serves as the lock: a server streams from it to one reader only.
"""

import hashlib
import select
import time
from contextlib import ExitStack
from typing import Any, Self

import psycopg2
from psycopg2.errors import ObjectInUse
from psycopg2.extras import LogicalReplicationConnection
from sqlalchemy import text

from lab.rulestore.changes import RuleChange
from lab.rulestore.feeds import CaptureBusy
from lab.rulestore.pgoutput import PgoutputDecoder, commit_end
from lab.rulestore.store import RuleStore, parse_row_json
from lab.rulestore.tables import PUBLICATION

FREE_S, AGAIN_S = 10, 0.2  # the server may take a while to notice that the previous reader is gone
FEEDBACK_S = 5  # the server disconnects a reader that is silent for a minute
AT_MOST = 1000
SLOT = text(
    "SELECT wal_status, active, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS kept_bytes "
    "FROM pg_replication_slots WHERE slot_name = :slot"
)


def slot_name(store: RuleStore, place: str) -> str:
    """The name of the slot for a control log; unique among all databases of the server."""
    return f"lab_{hashlib.blake2b(f'{store.url.database} {place}'.encode(), digest_size=8).hexdigest()}"


def drop_slot(store: RuleStore, place: str) -> None:
    """Drops the slot, so that the server keeps no log for it. Raises DBAPIError while a capture runs."""
    drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = :slot"
    with store.engine.begin() as connection:
        connection.execute(text(drop), {"slot": slot_name(store, place)})


def slot_status(store: RuleStore, place: str) -> dict[str, Any] | None:
    """The slot's `wal_status` (`lost`: unusable), whether it is `active`, and `kept_bytes`, the size of the log kept for it."""
    with store.engine.connect() as connection:
        found = connection.execute(SLOT, {"slot": slot_name(store, place)}).mappings().one_or_none()
        return dict(found) if found else None


class ReplicationFeed:
    """Reads the changes of a store from its slot for one control log. Raises CaptureBusy if another reader uses the slot."""

    def __init__(self, store: RuleStore, place: str):
        self._store, self._place, self._slot = store, place, slot_name(store, place)
        self._open, self._decoder = ExitStack(), PgoutputDecoder()
        self._end = 0  # position in the server's log of the last commit that was returned
        self._told_at = 0.0

    def __enter__(self) -> Self:
        _, options = self._store.engine.dialect.create_connect_args(self._store.url)
        with ExitStack() as opened:
            self._connection = psycopg2.connect(**options, connection_factory=LogicalReplicationConnection)
            opened.callback(self._connection.close)
            self._cursor = opened.enter_context(self._connection.cursor())
            self._make_slot()
            self._start()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _make_slot(self) -> None:
        """Creates the slot if it is missing or its log is lost. The saved position is then useless, so a snapshot follows."""
        status = slot_status(self._store, self._place)
        if status and status["wal_status"] != "lost":
            return
        self._store.set_last_sent_change_id(self._place, None)
        if status:
            drop_slot(self._store, self._place)
        self._cursor.create_replication_slot(self._slot, output_plugin="pgoutput")

    def _start(self) -> None:
        deadline = time.monotonic() + FREE_S
        options = {"proto_version": "1", "publication_names": PUBLICATION}
        while True:
            try:
                self._cursor.start_replication(self._slot, decode=False, options=options)
                return
            except ObjectInUse:
                if time.monotonic() > deadline:
                    raise CaptureBusy(
                        f"another capture feeds {self._place} from {self._store}: stop it first"
                    ) from None
                time.sleep(AGAIN_S)

    def changes(self, wait_s: float) -> list[RuleChange]:
        """The changes of the next complete commits; waits up to `wait_s` for one."""
        found: list[RuleChange] = []
        inside, deadline = False, time.monotonic() + wait_s
        while inside or len(found) < AT_MOST:
            message = self._cursor.read_message()
            if message is None:
                left = deadline - time.monotonic()
                if not inside and (found or left <= 0):
                    break
                select.select([self._connection], [], [], max(left, AGAIN_S if inside else 0))
                continue
            if row := self._decoder.inserted_row(message.payload):
                found.append(
                    RuleChange(int(row["change_id"]), row["subject"], parse_row_json(row["row_after"]))
                )
            end = commit_end(message.payload)
            inside, self._end = end is None, end or self._end
        if not found and time.monotonic() > self._told_at + FEEDBACK_S:
            # no transaction is open: the messages were not about this publication
            self._tell(max(self._end, self._cursor.wal_end))
        return found

    def confirm(self, position: int) -> None:
        """The log has all that was given."""
        self._store.set_last_sent_change_id(self._place, position)
        self._tell(self._end)

    def _tell(self, end: int) -> None:
        self._cursor.send_feedback(write_lsn=end, flush_lsn=end, apply_lsn=end, force=True)
        self._told_at = time.monotonic()
