"""`lab export`: alerts as rows of a database, each once, for SQL and dashboards.

    alerts ──► some lines ──► rows of lab_alerts, by alert_id ───┐
                         └──► how far, a row of lab_exports ─────┴──► one transaction

After a crash it continues after the last transaction; a row that is written again replaces itself.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    MetaData,
    Table,
    Text,
    func,
    select,
    update,
)

from lab.logs import following
from lab.logs.following import Sink
from lab.logs.positions import Positions, Record, parse_positions, position_text
from lab.logs.protocol import Log, Tail
from lab.logs.reading import SkippedLines, parse_records
from lab.machine.signals import stop_signals
from lab.model.alerts import (
    Alert,
    Withdrawal,
    conditions_member,
    event_id_text,
    event_member,
    parse_alert_line,
)
from lab.model.attributes import carried_attributes
from lab.model.formatting import plain_text
from lab.model.group import Group, group_hash, group_json, sorted_group
from lab.model.jsontext import compact_json
from lab.model.kinds import Carried
from lab.rulestore.databases import INSERTS, check_columns, create_database_engine, database_url, redacted_url
from lab.rulestore.tables import BIG, EXACT
from lab.running.target import Target

MAX_KEY_BYTES = 2_000  # an index of PostgreSQL takes 2,704; a character has up to 4
METADATA = MetaData()


def _carried_column(name: str, kind: Carried) -> str:
    """The column of an attribute that alerts carry."""
    return f"{name}_json" if kind.sql_type == "document" else name


ALERTS = Table(
    "lab_alerts",
    METADATA,
    Column("alert_id", Text, primary_key=True),
    Column("rule_id", BIG, nullable=False, index=True),
    Column("rule_version", BIG, nullable=False),
    Column("group_key", Text, nullable=False),
    Column("aggregate", EXACT, nullable=False),
    Column("operator", Text, nullable=False),
    Column("limit_value", EXACT, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("event_time", DateTime(timezone=True), nullable=False, index=True),
    Column("log_time", DateTime(timezone=True)),  # when the event was logged, and when the alert was made:
    Column("alert_time", DateTime(timezone=True)),  # of live logs only
    Column("group_json", Text),
    *(Column(_carried_column(name, kind), Text) for name, kind in carried_attributes()),
    Column("conditions_json", Text),
    Column("event_json", Text),
    Column("withdrawn", Text),  # "yes" if its event was taken back and has not come again, else null
)
TAKEN_BACK = Table(  # see lab.model.alerts
    "lab_taken_back",
    METADATA,
    Column(
        "event", Text, primary_key=True
    ),  # the ids of its alerts without the rule and its version, the group's fields sorted
    Column("log_time", BIG, nullable=False),  # ms; of the newest record that takes it back
)
EXPORTS = Table(
    "lab_exports",
    METADATA,
    Column("place", Text, primary_key=True),  # of an alerts log
    Column("positions", Text, nullable=False),  # as `lab alerts --from` takes them
    Column("topic_id", Text),  # null of a folder, and of versions that did not store it
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def export(target: Target, to_url: str, follow: bool = False, start: Positions | None = None) -> None:
    """Exports new alerts to the database with this URL; with `follow`, continues until Ctrl-C.

    `start`: a position in the alerts; without it, where the last export ended.
    """
    url = database_url(to_url)
    log, database = target.logs.existing("alerts"), create_database_engine(url)
    METADATA.create_all(database)
    for table in METADATA.tables.values():
        check_columns(database, table, "export")
    with database.connect() as connection:
        at = start or _exported(connection, log)
    with stop_signals() as stopped, closing(log.tail(at=at)) as tail:
        rows = AlertRows(database, log, tail)
        following.follow(tail, rows, stopped, forever=follow)
    print(
        f"{rows.count:,} alerts from {log} to lab_alerts of {redacted_url(url)}, read up to {position_text(tail.positions)}{rows.left_out}",
        file=sys.stderr,
    )


class AlertRows(Sink):
    """Writes alerts as rows, and in the same transaction how far the log was read."""

    def __init__(self, database: Engine, log: Log, tail: Tail):
        self._database, self._log, self._tail = database, log, tail
        self.count, self.left_out = 0, SkippedLines()

    def write_batch(self, records: Sequence[Record]) -> bool:
        """Writes the rows of some lines."""
        if records:
            lines = [line for _, line in parse_records(records, parse_alert_line, self.left_out)]
            with self._database.begin() as connection:
                self.count += write_alerts_and_withdrawals(connection, lines)
                read = {
                    "positions": position_text(self._tail.positions),
                    "topic_id": self._tail.topic_id or None,
                }
                _upsert(connection, EXPORTS, [{"place": self._log.absolute_name, **read}])
        return True


def mark_withdrawn(connection: Connection, withdrawal: Withdrawal) -> None:
    """Notes of the exported alerts at an event that it was taken back, but not of those since when it was logged again.

    Rules may have named the fields of the group in another order when they alerted. If an alert of another order has the log time
    of the withdrawal, the event came again in the same millisecond: there is a line for each order, and Kafka may have them in
    different partitions.
    """
    own = group_json(withdrawal.group)
    at_event = (ALERTS.c.event_id == _text(event_id_text(withdrawal.event_id))) & (
        ALERTS.c.event_time == _time(withdrawal.event_time)
    )
    in_order, reordered = (
        ALERTS.c.group_json == own,
        ALERTS.c.group_json.in_(_other_orders(connection, at_event, withdrawal.group)),
    )
    if withdrawal.log_time is not None:
        time, event = _time(withdrawal.log_time), _event(withdrawal)
        in_order &= ALERTS.c.log_time.is_(None) | (ALERTS.c.log_time <= time)
        reordered &= ALERTS.c.log_time.is_(None) | (ALERTS.c.log_time < time)
        before = connection.execute(select(TAKEN_BACK.c.log_time).where(TAKEN_BACK.c.event == event))
        newest = max(withdrawal.log_time, before.scalar() or 0)
        _upsert(connection, TAKEN_BACK, [{"event": event, "log_time": newest}])
    connection.execute(update(ALERTS).where(at_event & (in_order | reordered)).values(withdrawn="yes"))


def _other_orders(connection: Connection, at_event: ColumnElement[bool], group: Group) -> list[str]:
    """The same group with its fields in other orders, as JSON, as far as the exported alerts at an event have it."""
    if len(group) < 2:
        return []
    own, wanted = group_json(group), sorted_group(group)
    as_long = func.length(ALERTS.c.group_json) == len(own)
    found = connection.execute(
        select(ALERTS.c.group_json).distinct().where(at_event & as_long & (ALERTS.c.group_json != own))
    )
    return [text for text in found.scalars() if sorted_group(tuple(json.loads(text).items())) == wanted]


def _event(line: Alert | Withdrawal) -> str:
    group = sorted_group(line.group)
    return _unique_text(f"{event_id_text(line.event_id)}.{line.event_time}.{group_hash(group_json(group))}")


def _split_withdrawn(connection: Connection, alerts: list[Alert]) -> tuple[list[Alert], list[Alert]]:
    """Those of some alerts that stand, and those that a line before has withdrawn."""
    names = [_event(alert) for alert in alerts]
    found = connection.execute(select(TAKEN_BACK).where(TAKEN_BACK.c.event.in_({*names})))
    taken_back = {event: log_time for event, log_time in found}
    parts: tuple[list[Alert], list[Alert]] = [], []
    for alert, name in zip(alerts, names):
        newest = taken_back.get(name, 0)
        parts[alert.log_time is not None and alert.log_time < newest].append(alert)
    return parts


def _exported(connection: Connection, log: Log) -> Positions | None:
    """How far a log was exported; None if it was not. Raises TopicMadeAnew."""
    at_log = EXPORTS.c.place == log.absolute_name
    row = connection.execute(select(EXPORTS.c.positions, EXPORTS.c.topic_id).where(at_log)).first()
    if row is None:
        return None
    log.check_topic_id(row.topic_id or "", "say --from 0 once to export all alerts of this one")
    return parse_positions(row.positions)


def unique_alert_rows(alerts: Iterable[Alert]) -> list[dict[str, Any]]:
    """The alerts as rows, the last of each id."""
    return list({row["alert_id"]: row for row in map(_row, alerts)}.values())


def _row(alert: Alert) -> dict[str, Any]:
    return {
        "alert_id": _unique_text(alert.alert_id),
        "rule_id": alert.rule_id,
        "rule_version": alert.rule_version,
        "group_key": _text(alert.key),
        "aggregate": plain_text(alert.aggregate),
        "operator": _text(alert.operator),
        "limit_value": plain_text(alert.limit),
        "event_id": _text(event_id_text(alert.event_id)),
        "event_time": _time(alert.event_time),
        "log_time": _time(alert.log_time),
        "alert_time": _time(alert.alert_time),
        "group_json": group_json(alert.group),
        **{_carried_column(name, kind): _carried(alert, name, kind) for name, kind in carried_attributes()},
        "event_json": event_member(alert.event).removeprefix(',"event":') or None,
        "conditions_json": conditions_member(alert.conditions).removeprefix(',"conditions":') or None,
        "withdrawn": None,  # so far: what was withdrawn before has come again
    }


def _carried(alert: Alert, name: str, kind: Carried) -> str | None:
    if not (value := alert.carries(name)):
        return None
    return compact_json(kind.to_json(value)) if kind.sql_type == "document" else _text(value)


def _text(text: str) -> str:
    return text.replace("\0", "\ufffd")  # which PostgreSQL's texts cannot hold


def _unique_text(text: str) -> str:
    """A text as a key, each text another: one that PostgreSQL cannot hold, or not in an index, ends with a hash of all of it."""
    if "\0" not in text and len(text.encode()) <= MAX_KEY_BYTES:
        return text
    return f"{_text(text[: MAX_KEY_BYTES // 4])}.{group_hash(text)}"


def _time(ms: int | None) -> datetime | None:
    return None if ms is None else _EPOCH + timedelta(milliseconds=ms)


def write_alerts_and_withdrawals(connection: Connection, in_log_order: Iterable[Alert | Withdrawal]) -> int:
    """Adds or replaces rows in the order of the log, and returns how many alerts there were."""
    count = 0
    for kind, lines in groupby(in_log_order, key=type):
        if kind is Withdrawal:
            for each in lines:
                mark_withdrawn(connection, cast(Withdrawal, each))
            continue
        alerts = cast(list[Alert], list(lines))
        stand, withdrawn = _split_withdrawn(connection, alerts)
        if stand:
            _upsert(connection, ALERTS, unique_alert_rows(stand))
        if withdrawn:  # the row that there is knows better
            rows = [row | {"withdrawn": "yes"} for row in unique_alert_rows(withdrawn)]
            insert = INSERTS[connection.dialect.name](ALERTS)
            connection.execute(insert.on_conflict_do_nothing(), rows)
        count += len(alerts)
    return count


def _upsert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    insert = INSERTS[connection.dialect.name](table)
    key, *others = (column.name for column in table.columns)
    replaced = {name: insert.excluded[name] for name in others if name in rows[0]}
    connection.execute(insert.on_conflict_do_update(index_elements=[key], set_=replaced), rows)
