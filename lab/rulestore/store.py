"""Rules as rows: an API that validates a rule like the engine does, and then writes the row.

message ──parse_message──► row of `rules` ──trigger──► row of `rule_changes` ──message_of──► control message
"""

import getpass
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from lab.model.attributes import stored_attributes
from lab.model.formatting import escape_control_characters, expected_message
from lab.model.jsontext import MAX_DEPTH, parse_json_object
from lab.model.rules import BadRule, Rule, parse_message
from lab.model.schema import Schema
from lab.rulestore.create import create_tables
from lab.rulestore.databases import INSERTS, create_database_engine, database_url, redacted_url
from lab.rulestore.tables import (
    RULE_ANSWERS,
    RULE_CAPTURES,
    RULE_CHANGES,
    RULE_PROPOSALS,
    RULE_STATUS,
    RULE_STORE,
    RULES,
)

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)  # and texts, whose brackets are none
EXAMPLES = "sqlite:///rules.db or postgresql://analyst@127.0.0.1:5433/lab?passfile=…"


@dataclass(frozen=True)
class RuleChange:
    """One edit of a rule: the number of the edit, and the row afterwards."""

    change_id: int
    rule_id: int
    row: Mapping[str, object]
    changed_by: str = ""
    changed_at: datetime | None = None
    approved_by: str | None = None
    approved_at: datetime | None = None


class RuleStore:
    """The rules in a database. `schema`: the schema of their events. Raises ValueError for an unsupported URL.

    >>> import tempfile
    >>> from lab.model.schema import PAYMENTS
    >>> store = RuleStore(f"sqlite:///{tempfile.mkdtemp()}/rules.db", PAYMENTS)
    >>> store.put("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", by="ann")
    >>> store.set_state(1, "PAUSE", by="bob")
    >>> [(change.change_id, change.changed_by, change.row["rule_state"]) for change in store.history(1)]
    [(1, 'ann', 'ACTIVE'), (2, 'bob', 'PAUSE')]
    >>> store.put("2,(active),(payee),,(paymentAmount),(SUM),(>),(50),(20)")
    Traceback (most recent call last):
    lab.model.kinds.BadRule: groupingKeyNames: unknown payments field "payee", did you mean payeeId?...
    """

    def __init__(self, url: str, schema: Schema):
        try:
            self.url, self.schema = database_url(url), schema
        except ValueError:
            raise ValueError(
                f"--store: not the URL of a rule store, expected one such as {EXAMPLES}"
            ) from None
        self.engine = create_database_engine(self.url, json_deserializer=parse_row_json)
        create_tables(self.engine)

    def __repr__(self) -> str:
        return redacted_url(self.url)

    # -- edits

    def put(self, message: str | bytes, by: str | None = None) -> None:
        """Applies a message to the rows: adds, changes or disables a rule, or changes its state. Raises BadRule.

        `by`: the author, by default the user of this process. PostgreSQL always records the connected user instead.
        """
        asked: Any = parse_message(message, self.schema)
        if asked.kind == "control":
            raise BadRule(
                expected_message(
                    "ruleState", "CONTROL", "a rule: commands go to the control log, not to the table"
                )
            )
        if asked.kind == "delete":
            return self.delete(asked.rule_id, by)
        if asked.kind == "state":
            return self.set_state(asked.rule_id, asked.state, by)
        row = rule_to_row(asked.rule) | {"changed_by": by or getpass.getuser()}
        insert = INSERTS[self.url.get_backend_name()](RULES).values(row)
        with self.engine.begin() as connection:
            connection.execute(insert.on_conflict_do_update(index_elements=["rule_id"], set_=row))

    def set_state(self, rule_id: int, state: str, by: str | None = None) -> None:
        """Pauses a rule (PAUSE), resumes or promotes it (ACTIVE), or puts it into the shadow (SHADOW). Raises BadRule."""
        self._edit(rule_id, by, rule_state=state)

    def delete(self, rule_id: int, by: str | None = None) -> None:
        """Disables a rule: the engine removes it; its row and its history remain. Raises BadRule."""
        self._edit(rule_id, by, disabled=True)

    def _edit(self, rule_id: int, by: str | None, **values: object) -> None:
        edit = update(RULES).where(RULES.c.rule_id == rule_id, RULES.c.disabled.is_(False))
        with self.engine.begin() as connection:
            if not connection.execute(edit.values(values | {"changed_by": by or getpass.getuser()})).rowcount:
                raise BadRule(expected_message("ruleId", rule_id, f"a rule of {self} that is not disabled"))

    # -- the approval of edits by another user

    def require_two_persons(self, required: bool) -> None:
        """Whether each edit, from now on, waits until another user approves it. Only the owner may say so. Raises ValueError for SQLite."""
        if self.url.get_backend_name() == "sqlite":
            raise ValueError(
                "a SQLite file has no users, so it cannot tell two persons apart: keep the rules in PostgreSQL (`lab db start`)"
            )
        with self.engine.begin() as connection:
            connection.execute(update(RULE_STORE).values(two_persons=required))

    def proposals(self, rule_id: int) -> list[RuleChange]:
        """The edits of a rule that wait for approval, oldest first; their numbers are those of proposals."""
        of = RULE_PROPOSALS.c
        wanted = of.proposal_id, of.rule_id, of.rule, of.proposed_by, of.proposed_at
        return self._edits(wanted, of.rule_id == rule_id)

    def approve(self, proposal_id: int) -> None:
        """Makes a proposal a change, as the connected user. Raises BadRule if this user may not, or if it does not wait."""
        if self.url.get_backend_name() == "sqlite":
            raise BadRule(f"no proposal {proposal_id} waits for approval: edits in SQLite need none")
        try:
            with self.engine.begin() as connection:
                connection.execute(text("SELECT lab_approve(:number)"), {"number": proposal_id})
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", "") != "P0001":  # what the function itself raises
                raise
            raise BadRule(str(error.orig).splitlines()[0]) from None

    # -- what is there

    def rows(self) -> list[dict[str, Any]]:
        """The view `rule_status`: each rule's row, the version in force, and the result of its last change."""
        with self.engine.connect() as connection:
            found = connection.execute(select(RULE_STATUS).order_by(RULE_STATUS.c.rule_id))
            return [dict(row) for row in found.mappings()]

    def history(self, rule_id: int) -> list[RuleChange]:
        """The edits of a rule, oldest first."""
        return self._changes(RULE_CHANGES.c.rule_id == rule_id)

    def changes_after(self, position: int, at_most: int = 1000) -> list[RuleChange]:
        """The next edits after a change, in order."""
        return self._changes(RULE_CHANGES.c.change_id > position, at_most)

    def last_changes(self) -> list[RuleChange]:
        """The newest edit of each rule, in order."""
        newest = select(func.max(RULE_CHANGES.c.change_id)).group_by(RULE_CHANGES.c.rule_id)
        return self._changes(RULE_CHANGES.c.change_id.in_(newest))

    def last_change_id(self) -> int:
        """The number of the newest edit; 0 if there is none."""
        return self._scalar(select(func.max(RULE_CHANGES.c.change_id))) or 0

    def _changes(self, condition, at_most: int | None = None) -> list[RuleChange]:
        of = RULE_CHANGES.c
        wanted = (
            of.change_id,
            of.rule_id,
            of.rule,
            of.changed_by,
            of.changed_at,
            of.approved_by,
            of.approved_at,
        )
        return self._edits(wanted, condition, at_most)

    def _edits(self, columns, condition, at_most: int | None = None) -> list[RuleChange]:
        """Rows as changes, in the order of their numbers, which are the first column."""
        query = select(*columns).where(condition).order_by(columns[0]).limit(at_most)
        with self.engine.connect() as connection:
            return [RuleChange(*row) for row in connection.execute(query)]

    def _scalar(self, query) -> Any:
        with self.engine.connect() as connection:
            return connection.execute(query).scalar()

    # -- what captures remember

    def identity(self) -> str:
        """The store's identity in a control log: separates its changes from those of other stores."""
        return self._scalar(select(RULE_STORE.c.identity))

    def start_over_with_identity(self, identity: str) -> None:
        """Gives the store a new identity, because its numbers started again, for example from a backup."""
        with self.engine.begin() as connection:
            connection.execute(update(RULE_STORE).values(identity=identity))
            connection.execute(RULE_CAPTURES.delete())
            connection.execute(RULE_ANSWERS.delete())

    def last_sent_change_id(self, control_log: str) -> int | None:
        """The newest change sent to a control log; None before its snapshot."""
        return self._scalar(select(RULE_CAPTURES.c.position).where(RULE_CAPTURES.c.place == control_log))

    def last_sent_change_id_by_log(self) -> dict[str, int]:
        """The position of each control log."""
        with self.engine.connect() as connection:
            return {place: position for place, position in connection.execute(select(RULE_CAPTURES))}

    def set_last_sent_change_id(self, control_log: str, change_id: int | None) -> None:
        """Saves the last change sent to a control log; with None, the next capture starts with a snapshot."""
        with self.engine.begin() as connection:
            connection.execute(RULE_CAPTURES.delete().where(RULE_CAPTURES.c.place == control_log))
            if change_id is not None:
                connection.execute(RULE_CAPTURES.insert().values(place=control_log, position=change_id))

    # -- what became of changes

    def record_accepted(self, rule_id: int, change_id: int, version: int | None) -> None:
        """Records the version that a change produced; None: the rule is no longer in force."""
        self._answer(rule_id, RULE_ANSWERS.c.accepted_change, change_id, version=version)

    def record_refused(self, rule_id: int, change_id: int, reason: str) -> None:
        """Records why a change was rejected. The previous version stays in force."""
        # anybody may have written the reason, and no database takes every text
        reason = escape_control_characters(reason)
        self._answer(rule_id, RULE_ANSWERS.c.refused_change, change_id, reason=reason)

    def _answer(self, rule_id: int, column, change_id: int, **values: object) -> None:
        """Records an answer unless a newer one has been recorded."""
        values[column.name] = change_id
        insert = INSERTS[self.url.get_backend_name()](RULE_ANSWERS).values(rule_id=rule_id, **values)
        older = column.is_(None) | (column <= change_id)
        with self.engine.begin() as connection:
            connection.execute(
                insert.on_conflict_do_update(index_elements=["rule_id"], set_=values, where=older)
            )


# -- rows and messages -------------------------------------------------------------------------------------------------


def rule_to_row(rule: Rule) -> dict[str, Any]:
    """A rule as the columns of its row."""
    attributes = rule.to_dict()
    row = {each.column: each.kind.to_column(attributes.get(each.name)) for each in stored_attributes()}
    if rule.route.field_values is None:
        row |= {"filter": None, "filter_condition": attributes["filter"]}
    return {"filter_condition": None, "disabled": False} | row


def change_to_message(change: RuleChange, identity: str) -> str:
    """The control message of a change. It contains the number of the change, so that a capture can recognize it.

    >>> change_to_message(RuleChange(7, 1, {"disabled": True}), "5eed")
    '{"ruleId": 1, "ruleState": "DELETE", "changeId": "5eed.7"}'
    """
    row: Any = change.row
    message: dict[str, Any] = {"ruleId": change.rule_id, "ruleState": "DELETE"}
    if not row["disabled"]:
        message = {each.name: each.kind.from_column(row[each.column]) for each in stored_attributes()}
        message |= {"ruleId": change.rule_id, "filter": row["filter"] or row["filter_condition"]}
    message["changeId"] = f"{identity}.{change.change_id}"
    return json.dumps({name: value for name, value in message.items() if value is not None}, default=str)


def change_in_message(message: str) -> tuple[str, int] | None:
    """The (identity of the store, number of the change) in a control message, if there is one.

    >>> change_in_message('{"ruleId": 1, "ruleState": "DELETE", "changeId": "5eed.7"}')
    ('5eed', 7)
    """
    try:
        identity, _, number = json.loads(message)["changeId"].partition(".")
        return identity, int(number)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def parse_row_json(document: str) -> dict[str, Any]:
    """A row as JSON; numbers stay exact. It reads whatever a database takes: what is nested deeper than any rule becomes null.

    >>> parse_row_json('{"limit_value": 0.10, "filter": ' + "[" * 5000 + "]" * 5000 + "}")["limit_value"]
    Decimal('0.10')
    """
    depth, end, kept = 0, 0, []
    for found in _BRACKETS.finditer(document):
        if found[0] in "[{":
            depth += 1
            if depth == MAX_DEPTH + 1:
                kept.append(document[end : found.start()] + "null")
        elif found[0] in "]}":
            if depth == MAX_DEPTH + 1:
                end = found.end()
            depth -= 1
    return parse_json_object("".join(kept) + document[end:])
