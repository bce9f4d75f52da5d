"""Rules and entries of lists as rows: an API that validates like the engine does, and then writes the row.

message ──parse_message──► row of `rules` ──trigger──► row of `rule_changes` ──run_to_message──► control message
"""

import getpass
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import exists, func, literal, select, text, update
from sqlalchemy.exc import DBAPIError

from lab.model.formatting import escape_control_characters, expected_message
from lab.model.jsontext import MAX_DEPTH, parse_json_object
from lab.model.listmessages import list_messages
from lab.model.rules import BadRule, parse_message
from lab.model.schema import Schema
from lab.rulestore.changes import RuleChange, entry_rows, rule_to_row
from lab.rulestore.create import create_tables
from lab.rulestore.databases import INSERTS, create_database_engine, database_url, redacted_url
from lab.rulestore.tables import (
    LIST_ENTRIES,
    LIST_STATUS,
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


class Answer(NamedTuple):
    """What became of a change: the version that it produced (none: the rule is not in force), or the reason why it was rejected."""

    subject: str
    change_id: int
    version: int | None = None
    reason: str | None = None


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

    def put_entries(
        self,
        name: str,
        entries: Sequence[str],
        until: int | str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Adds entries to a list, all or none, for events before a time; those that are there get the new end. Raises BadRule."""
        self._put_entries(list_messages(name, "add", entries, until), by, reason)

    def remove_entries(
        self,
        name: str,
        entries: Sequence[str] | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Disables entries of a list, by default all; their rows and their history remain. Raises BadRule."""
        if entries is None:
            entries = [row["entry"] for row in self.entries(name) if not row["disabled"]]
        if entries:
            self._put_entries(list_messages(name, "remove", entries), by, reason)

    def _put_entries(self, messages: Iterable[str], by: str | None, reason: str | None) -> None:
        rows = [row for message in messages for row in entry_rows(message, self.schema, reason)]
        who = by or getpass.getuser()
        insert = INSERTS[self.url.get_backend_name()](LIST_ENTRIES)
        keys = [column.name for column in LIST_ENTRIES.primary_key]
        given = {name: insert.excluded[name] for name in (*rows[0], "changed_by") if name not in keys}
        with self.engine.begin() as connection:
            connection.execute(
                insert.on_conflict_do_update(index_elements=keys, set_=given),
                [row | {"changed_by": who} for row in rows],
            )

    # -- the approval of edits by another user

    def require_two_persons(self, required: bool) -> None:
        """Whether each edit, from now on, waits until another user approves it. Only the owner may say so. Raises ValueError for SQLite."""
        if self.url.get_backend_name() == "sqlite":
            raise ValueError(
                "a SQLite file has no users, so it cannot tell two persons apart: keep the rules in PostgreSQL (`lab db start`)"
            )
        with self.engine.begin() as connection:
            connection.execute(update(RULE_STORE).values(two_persons=required))

    def proposals(self, subject: int | str) -> list[RuleChange]:
        """The edits of a rule or an entry that wait for approval, oldest first; their numbers are those of proposals."""
        of = RULE_PROPOSALS.c
        wanted = of.proposal_id, of.subject, of.row_after, of.proposed_by, of.proposed_at
        return self._edits(wanted, of.subject == str(subject))

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

    def entries(self, name: str) -> list[dict[str, Any]]:
        """The view `list_status` of a list: each entry's row, the list's version, and the result of the last change."""
        of = LIST_STATUS.c
        with self.engine.connect() as connection:
            found = connection.execute(
                select(LIST_STATUS).where(of.list_name == name).order_by(of.list_name, of.entry)
            )
            return [dict(row) for row in found.mappings()]

    def list_sizes(self) -> dict[str, int]:
        """How many entries that are not disabled each list has."""
        of = LIST_ENTRIES.c
        query = select(of.list_name, func.count()).where(of.disabled.is_(False)).group_by(of.list_name)
        with self.engine.connect() as connection:
            return {name: size for name, size in connection.execute(query.order_by(of.list_name))}

    def entry_answers(self, name: str, position: int) -> list[tuple[str, int, int | None]]:
        """What became of a list's entries that were edited after a change: (status, number of entries, version of the list)."""
        of = LIST_STATUS.c
        subject = literal("@") + of.list_name + literal(" ") + of.entry
        edited = exists().where(RULE_CHANGES.c.subject == subject, RULE_CHANGES.c.change_id > position)
        query = select(of.status, func.count(), func.max(of.version_in_force))
        with self.engine.connect() as connection:
            return list(connection.execute(query.where(of.list_name == name, edited).group_by(of.status)))

    def count_entries_to_approve(self, name: str) -> int:
        """How many edits of a list's entries wait for another user's approval."""
        of_list = RULE_PROPOSALS.c.subject.startswith(f"@{name} ", autoescape=True)
        return self._scalar(select(func.count()).select_from(RULE_PROPOSALS).where(of_list))

    def history(self, subject: int | str) -> list[RuleChange]:
        """The edits of a rule, by its id, or of an entry, such as `@highrisk KR`; oldest first."""
        return self._changes(RULE_CHANGES.c.subject == str(subject))

    def changes_after(self, position: int, at_most: int = 1000) -> list[RuleChange]:
        """The next edits after a change, in order."""
        return self._changes(RULE_CHANGES.c.change_id > position, at_most)

    def last_changes(self) -> list[RuleChange]:
        """The newest edit of each rule and each entry, in order."""
        newest = select(func.max(RULE_CHANGES.c.change_id)).group_by(RULE_CHANGES.c.subject)
        return self._changes(RULE_CHANGES.c.change_id.in_(newest))

    def last_change_id(self) -> int:
        """The number of the newest edit; 0 if there is none."""
        return self._scalar(select(func.max(RULE_CHANGES.c.change_id))) or 0

    def _changes(self, condition, at_most: int | None = None) -> list[RuleChange]:
        of = RULE_CHANGES.c
        wanted = (
            of.change_id,
            of.subject,
            of.row_after,
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

    def record(self, answers: Iterable[Answer]) -> None:
        """Records answers, each unless a newer one of its kind has been recorded. A rejected change leaves the version before in force."""
        accepted: dict[str, dict[str, Any]] = {}
        refused: dict[str, dict[str, Any]] = {}
        for subject, change_id, version, reason in answers:
            if reason is None:
                accepted[subject] = {"subject": subject, "accepted_change": change_id, "version": version}
            else:
                # anybody may have written the reason, and no database takes every text
                reason = escape_control_characters(reason)
                refused[subject] = {"subject": subject, "refused_change": change_id, "reason": reason}
        if not accepted and not refused:
            return
        with self.engine.begin() as connection:
            for column, rows in (
                (RULE_ANSWERS.c.accepted_change, list(accepted.values())),
                (RULE_ANSWERS.c.refused_change, list(refused.values())),
            ):
                if rows:
                    insert = INSERTS[self.url.get_backend_name()](RULE_ANSWERS)
                    new = {name: insert.excluded[name] for name in rows[0] if name != "subject"}
                    older = column.is_(None) | (column <= insert.excluded[column.name])
                    connection.execute(
                        insert.on_conflict_do_update(index_elements=["subject"], set_=new, where=older), rows
                    )


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
