"""Edits of rows, and the messages of the control log that tell the engine of them.

    change                   message                                                                key
    7  rule 1 is disabled ─► {"ruleId": 1, "ruleState": "DELETE", "changeId": "5eed.7"}             1
    8  KR                ┐
    9  CN                ┴─► {"list": "highrisk", "add": ["KR", "CN"], "changeId": "5eed.9"}        @highrisk and a hash of KR, CN
   10  KR is disabled     ─► {"list": "highrisk", "remove": ["KR"], "changeId": "5eed.10"}          @highrisk and a hash of KR

Changes of entries with consecutive numbers that say the same of each share a message. Its `changeId` is the number of the last one, so
the log says which change of each entry it has.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lab.model.attributes import stored_attributes
from lab.model.formatting import expected_message
from lab.model.kinds import MAX_SAID
from lab.model.listmessages import list_key, message_sized
from lab.model.lists import FOREVER, MUTED
from lab.model.rules import BadRule, Rule, parse_message
from lab.model.schema import Schema
from lab.rulestore.constraints import MAX_ENTRY_BYTES


@dataclass(frozen=True)
class RuleChange:
    """One edit of a rule or an entry: the number of the edit, what it is about, and the row afterwards.

    `subject`: the rule's id, such as `7`, or the list and the entry, such as `@highrisk KR`.
    """

    change_id: int
    subject: str
    row: Mapping[str, Any]
    changed_by: str = ""
    changed_at: datetime | None = None
    approved_by: str | None = None
    approved_at: datetime | None = None

    @property
    def is_entry(self) -> bool:
        return self.subject.startswith("@")


def rule_to_row(rule: Rule) -> dict[str, Any]:
    """A rule as the columns of its row."""
    attributes = rule.to_dict()
    row = {each.column: each.kind.to_column(attributes.get(each.name)) for each in stored_attributes()}
    if rule.route.field_values is None:
        row |= {"filter": None, "filter_condition": attributes["filter"]}
    return {"filter_condition": None, "disabled": False} | row


def entry_rows(message: str, schema: Schema, reason: str | None = None) -> list[dict[str, Any]]:
    """The rows of the entries that a message adds to a list, or removes from it. Raises BadRule.

    >>> from lab.model.schema import PAYMENTS
    >>> entry_rows('{"list": "highrisk", "add": ["KR"]}', PAYMENTS)
    [{'entry': 'KR', 'disabled': False, 'list_name': 'highrisk', 'until_ms': None, 'reason': None}]
    """
    change: Any = parse_message(message, schema).list_change
    for entry in (*change.add, *change.remove):
        if len(entry.encode()) > MAX_ENTRY_BYTES:
            raise BadRule(
                expected_message("entry", entry, f"at most {MAX_ENTRY_BYTES:,} bytes in a database")
            )
    if reason is not None and not 0 < len(reason) <= MAX_SAID:
        raise BadRule(expected_message("reason", reason, f"1 to {MAX_SAID} characters"))
    until = None if change.until == FOREVER else change.until
    of_all = {"list_name": change.name, "until_ms": until, "reason": reason}
    return [
        {"entry": entry, "disabled": is_disabled} | of_all
        for is_disabled, entries in ((True, change.remove), (False, change.add))
        for entry in entries
    ]


def change_to_message(change: RuleChange, identity: str) -> str:
    """The control message of a change of a rule. It contains the number of the change, so that a capture can recognize it.

    >>> change_to_message(RuleChange(7, "1", {"disabled": True}), "5eed")
    '{"ruleId": 1, "ruleState": "DELETE", "changeId": "5eed.7"}'
    """
    row: Any = change.row
    message: dict[str, Any] = {"ruleId": int(change.subject), "ruleState": "DELETE"}
    if not row["disabled"]:
        message = {each.name: each.kind.from_column(row[each.column]) for each in stored_attributes()}
        message |= {"ruleId": int(change.subject), "filter": row["filter"] or row["filter_condition"]}
    message["changeId"] = f"{identity}.{change.change_id}"
    return json.dumps({name: value for name, value in message.items() if value is not None}, default=str)


def in_runs(changes: Sequence[RuleChange]) -> Iterator[Sequence[RuleChange]]:
    """The changes in their order, in parts that each become one message.

    >>> [len(run) for run in in_runs([RuleChange(n, f"@vip {n}", {"entry": str(n)}) for n in (3, 4, 6)])]
    [2, 1]
    """
    run: list[RuleChange] = []
    subjects: set[str] = set()
    for change in changes:
        if run and (change.subject in subjects or not _continues(run[-1], change)):
            yield from _message_sized_runs(run)
            run, subjects = [], set()
        run.append(change)
        subjects.add(change.subject)
    if run:
        yield from _message_sized_runs(run)


def _continues(before: RuleChange, change: RuleChange) -> bool:
    """Whether a change of an entry can share a message with the one before. A mute cannot: one that names an unknown field is refused."""
    said = [
        (each.row.get("list_name"), each.row.get("until_ms"), each.row.get("disabled"))
        for each in (before, change)
    ]
    return (
        before.is_entry
        and change.is_entry
        and change.change_id == before.change_id + 1
        and said[0] == said[1]
        and said[0][0] != MUTED
    )


def _message_sized_runs(run: list[RuleChange]) -> Iterator[Sequence[RuleChange]]:
    if not run[0].is_entry:
        yield run
        return
    first = 0
    for values in message_sized([change.row["entry"] for change in run]):
        yield run[first : first + len(values)]
        first += len(values)


def run_to_message(run: Sequence[RuleChange], identity: str) -> tuple[str, str]:
    """The control message of changes that share one, and its key in a compacted log.

    >>> row = {"list_name": "vip", "entry": "7", "until_ms": None, "disabled": False}
    >>> run_to_message([RuleChange(7, "@vip 7", row)], "5eed")[0]
    '{"list": "vip", "add": ["7"], "changeId": "5eed.7"}'
    """
    last = run[-1]
    if not last.is_entry:
        return change_to_message(last, identity), last.subject
    name, entries = last.row["list_name"], [change.row["entry"] for change in run]
    message: dict[str, Any] = {"list": name, "remove" if last.row["disabled"] else "add": entries}
    if not last.row["disabled"] and last.row["until_ms"] is not None:
        message["until"] = last.row["until_ms"]
    return json.dumps(message | {"changeId": f"{identity}.{last.change_id}"}), list_key(name, entries)


def change_in_message(message: str) -> tuple[str, int] | None:
    """The (identity of the store, number of the change) in a control message, if there is one; of several changes that of the last.

    >>> change_in_message('{"ruleId": 1, "ruleState": "DELETE", "changeId": "5eed.7"}')
    ('5eed', 7)
    """
    try:
        identity, _, number = json.loads(message)["changeId"].partition(".")
        return identity, int(number)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def subjects_in_message(message: str, identity: str) -> list[tuple[str, int]]:
    """What a control message that a capture of this store sent is about, each with the number of its change.

    >>> subjects_in_message('{"list": "highrisk", "add": ["KR", "CN"], "changeId": "5eed.9"}', "5eed")
    [('@highrisk KR', 8), ('@highrisk CN', 9)]
    """
    of_store, last = change_in_message(message) or ("", 0)
    if of_store != identity:
        return []
    given = json.loads(message)
    if type(given.get("ruleId")) is int:
        return [(str(given["ruleId"]), last)]
    entries = given.get("add") or given.get("remove")
    if not isinstance(entries, list):
        return []
    return [
        (f"@{given.get('list')} {entry}", number)
        for number, entry in enumerate(entries, start=last - len(entries) + 1)
    ]
