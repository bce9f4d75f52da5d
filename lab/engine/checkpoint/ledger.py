"""The ledger: the rule book and, for each of its routes, which store holds its events. Folded from the control log alone.

    control log ──► driver folds a cut's messages ──► rules/000007-5c1b….json ──► every task: the same rules, the same stores
                                                      {"messages": [...], "ledger": what holds after them}

A store's number is never used again: a route that is removed and comes back, or whose windows are cleared, gets another
number, so the events of the old store no longer count, wherever they are.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from lab.model.jsontext import LongLine
from lab.model.lists import NamedList
from lab.model.rule import Route, Rule, alerted_marker
from lab.model.rules import RuleBook
from lab.model.schema import Schema

if TYPE_CHECKING:  # so that the page's Python can do without folders
    from lab.engine.checkpoint.durable import CheckpointFolder

FOLDER, LISTS = "rules", "lists"
KEPT = 100  # files; a batch reads those of its own two ends


@dataclass(frozen=True)
class LedgerRoute:
    """What the ledger says of one route's store."""

    store: int
    fields: tuple[str, ...]  # all that its rules ever needed, in the order in which they first did
    # rule id -> a number that says when the rule joined; earlier resets do not apply to it
    joined_by_rule_id: dict[int, int]
    rule_count_by_window_ms: dict[int, int]  # by the widest window of a rule

    @property
    def widest_ms(self) -> int:
        """The route's widest window."""
        return max(self.rule_count_by_window_ms)


@dataclass(frozen=True)
class RoutePlan:
    """A route as evaluation needs it."""

    route: Route
    rules: tuple[Rule, ...]
    needs: tuple[str, ...]  # by its rules as they are now
    entry: LedgerRoute


@dataclass
class Ledger:
    """The rules in force and the stores of their routes.

    >>> from lab.model.schema import PAYMENTS
    >>> ledger = Ledger(RuleBook(PAYMENTS))
    >>> ledger.apply(b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")["version"]
    1
    >>> [(plan.route.id, plan.entry.store) for plan in ledger.plans]
    [('payeeId', 1)]
    >>> _ = ledger.apply(b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}')
    >>> [(plan.route.id, plan.entry.store) for plan in ledger.plans]
    [('payeeId', 2)]
    """

    book: RuleBook
    entries: dict[Route, LedgerRoute] = field(default_factory=dict)
    next_number: int = 0  # the number of the next store, or the next joining
    saved_lists: dict[str, "SavedList"] = field(default_factory=dict)  # as they were when it was saved

    def __post_init__(self) -> None:
        self._members = dict(self.book.rules)  # as `entries` knows them
        self._plans: list[RoutePlan] | None = None
        self._digest: str | None = None

    @classmethod
    def from_rules(cls, rules: Iterable[Rule], schema: Schema) -> "Ledger":
        """The ledger of some rules that nothing has happened to."""
        ledger = cls(RuleBook(schema))
        for rule in rules:
            ledger.book.rules[rule.rule_id] = rule
            ledger._move(rule.rule_id)
        return ledger

    def apply(self, message: str | bytes) -> dict[str, Any]:
        """Carries out a control message and returns its acknowledgement; a rejected one changes nothing."""
        ack = self.book.apply(message)
        if ack["status"] == "rejected":
            return ack
        self._plans = self._digest = None
        if "list" in ack:  # events go where they went, whatever is in it
            return ack
        if "ruleId" in ack:
            self._move(ack["ruleId"])
        elif ack["controlType"] == "DELETE_RULES_ALL":
            for rule_id in ack["ruleIds"]:
                self._move(rule_id)
        elif ack["controlType"] == "CLEAR_STATE_ALL":
            for plan in self.plans:
                joined = plan.entry.joined_by_rule_id
                spoken = (name for rule in plan.rules for name in _alerted_fields(rule, joined[rule.rule_id]))
                emptied = replace(plan.entry, store=self._number(), fields=(*plan.needs, *spoken))
                self.entries[plan.route] = emptied
            self._plans = None
        return ack

    def _move(self, rule_id: int) -> None:
        """Follows a rule that was added, changed or deleted from the route it had to the one it has."""
        before, after = self._members.pop(rule_id, None), self.book.rules.get(rule_id)
        if after:
            self._members[rule_id] = after
        stays = before and after and before.route == after.route
        joined = self.entries[before.route].joined_by_rule_id[rule_id] if before and stays else self._number()
        if before:
            self._leave(before)
        if after:
            self._join(after, joined)
        if before and not self.entries[before.route].joined_by_rule_id:
            del self.entries[before.route]

    def _leave(self, rule: Rule) -> None:
        kept = self.entries[rule.route]
        joined = {other: since for other, since in kept.joined_by_rule_id.items() if other != rule.rule_id}
        windows = Counter(kept.rule_count_by_window_ms)
        windows[rule.widest_ms] -= 1
        self.entries[rule.route] = replace(
            kept, joined_by_rule_id=joined, rule_count_by_window_ms=dict(+windows)
        )

    def _join(self, rule: Rule, joined: int) -> None:
        kept = self.entries.get(rule.route) or LedgerRoute(self._number(), (), {}, {})
        windows = Counter(kept.rule_count_by_window_ms)
        windows[rule.widest_ms] += 1
        fields = tuple(
            dict.fromkeys((*kept.fields, *rule.stored_field_names, *_alerted_fields(rule, joined)))
        )
        members = kept.joined_by_rule_id | {rule.rule_id: joined}
        self.entries[rule.route] = LedgerRoute(kept.store, fields, members, dict(windows))

    def _number(self) -> int:
        self.next_number += 1
        return self.next_number - 1

    @property
    def plans(self) -> list[RoutePlan]:
        """The routes of the rules in force, by lowest rule id."""
        if self._plans is None:
            self._plans = [
                RoutePlan(
                    route,
                    rules,
                    tuple(sorted({name for rule in rules for name in rule.stored_field_names})),
                    kept,
                )
                for route, rules in self.book.routes().items()
                for kept in [self.entries[route]]
            ]
        return self._plans

    def copy(self) -> "Ledger":
        """One that can go on by itself."""
        of = self.book
        book = RuleBook(of.schema, dict(of.rules), dict(of.versions), dict(of.lists))
        return Ledger(book, dict(self.entries), self.next_number, dict(self.saved_lists))

    @property
    def digest(self) -> str:
        """Of `to_dict`: the same for equal ledgers, whatever is in their lists. Computed once between two changes."""
        if self._digest is None:
            said = json.dumps(self.to_dict(), sort_keys=True).encode()
            self._digest = blake2b(said, digest_size=16).hexdigest()
        return self._digest

    def to_dict(self) -> dict[str, Any]:
        """Ready for `json.dumps`, without the lists; with them `from_dict` gives an equal ledger."""
        lowest = {plan.route: plan.rules[0].rule_id for plan in self.plans}  # names a route
        kept = {
            lowest[route]: [
                kept.store,
                kept.fields,
                list(kept.joined_by_rule_id.items()),
                list(kept.rule_count_by_window_ms.items()),
            ]
            for route, kept in self.entries.items()
        }
        book = json.loads(replace(self.book, lists={}).to_json())
        return {"book": book, "kept": kept, "next": self.next_number}

    @classmethod
    def from_dict(cls, saved: dict, schema: Schema, lists: dict[str, "SavedList"]) -> "Ledger":
        in_force = {name: each.entries for name, each in lists.items()}
        book = RuleBook.from_json(json.dumps(saved["book"]), schema, in_force)
        kept = {
            book.rules[int(rule_id)].route: LedgerRoute(store, tuple(fields), dict(joined), dict(windows))
            for rule_id, (store, fields, joined, windows) in saved["kept"].items()
        }
        return cls(book, kept, saved["next"], lists)


def _alerted_fields(rule: Rule, joined: int) -> list[str]:
    """What an event keeps of the alerts that a rule raised at it: nothing unless it says `atMost`."""
    return [alerted_marker(rule.rule_id, joined)] if rule.at_most else []


@dataclass(frozen=True)
class CutRecord:
    """A record as a cut has it: its effective log time in ms, its source and place, and its bytes."""

    log_time: int
    source: int
    place: str
    record: bytes


def save_ledger(
    folder: "CheckpointFolder",
    previous_name: str,
    changes: list[CutRecord],
    ledger: Ledger,
    oldest_needed: str | None = None,
) -> str:
    """Writes the ledger after some changes, under a name that depends on the content; returns the name.

    From time to time it removes old files, except the newest KEPT and those from `oldest_needed` on.
    """
    messages = [
        [change.log_time, change.source, change.place, *_to_saved(change.record)] for change in changes
    ]
    number = _number(previous_name) + 1
    lists = {name: _save_list(folder / LISTS, number, name, ledger) for name in ledger.book.lists}
    saved = {"before": previous_name, "messages": messages, "ledger": ledger.to_dict(), "lists": lists}
    data = json.dumps(saved).encode()
    name = _name(number, data)
    (folder / FOLDER).write(name, data)
    (folder / FOLDER).keep_names()  # before a cut has its name
    if number % KEPT == 0:
        oldest = number - KEPT + 1
        if oldest_needed is not None:
            oldest = min(oldest, _number(oldest_needed))
        for old in (folder / FOLDER).names():
            if _number(old) < oldest:
                (folder / FOLDER).remove(old)
        _remove_unused_lists(folder, oldest)
    return name


class SavedList(NamedTuple):
    """A list as it is, and the file that has it."""

    entries: NamedList
    file: str


def _save_list(folder: "CheckpointFolder", number: int, name: str, ledger: Ledger) -> str:
    """The file of a list, written if the list has changed since the ledger was loaded; `number`: of the ledger that is saved."""
    entries, saved = ledger.book.lists[name], ledger.saved_lists.get(name)
    if saved and saved.entries is entries:
        return saved.file
    data = json.dumps([entries.version, dict(sorted(entries.until_by_value.items()))]).encode()
    file = _name(number, data)
    folder.write(file, data)
    folder.keep_names()
    return file


def _remove_unused_lists(folder: "CheckpointFolder", oldest: int) -> None:
    """Removes the files of lists that no ledger names; those of ledgers from `oldest` on may be about to be named."""
    if old := [file for file in (folder / LISTS).names() if _number(file) < oldest]:
        kept = [(folder / FOLDER).read(name) for name in (folder / FOLDER).names()]
        named = {file for data in kept if data for file in json.loads(data)["lists"].values()}
        for file in {*old} - named:
            (folder / LISTS).remove(file)


def _to_saved(message: bytes) -> list:
    """A message, or the beginning, the size and the hash of one that is too long."""
    if isinstance(message, LongLine):
        return [message.beginning.hex(), message.size, message.sha256]
    return [message.hex()]


def _from_saved(data: str, size: int = 0, digest: str = "") -> bytes:
    return LongLine.of(size, digest, bytes.fromhex(data)) if size else bytes.fromhex(data)


def _name(number: int, data: bytes) -> str:
    return f"{number:09d}-{blake2b(data, digest_size=4).hexdigest()}.json"


def _number(name: str) -> int:
    """Of a ledger's file; -1 before the first."""
    return int(name.split("-")[0]) if name else -1


class SavedLedger(NamedTuple):
    """A ledger, and the changes that led to it from the one before."""

    ledger: Ledger
    changes: list[CutRecord]


def load_ledger(folder: "CheckpointFolder", name: str, schema: Schema) -> SavedLedger:
    """What is saved under a name ("": before the first change). Do not change it: `copy`."""
    return _load(folder.where, name, schema) if name else SavedLedger(Ledger(RuleBook(schema)), [])


@lru_cache(maxsize=8)
def _load(where: str, name: str, schema: Schema) -> SavedLedger:
    saved = json.loads(_read_named(where, FOLDER, name))
    changes = [
        CutRecord(time, source, place, _from_saved(*message))
        for time, source, place, *message in saved["messages"]
    ]
    lists = {of: SavedList(_load_list(where, file), file) for of, file in saved["lists"].items()}
    return SavedLedger(Ledger.from_dict(saved["ledger"], schema, lists), changes)


_lists_in_use: WeakValueDictionary[tuple[str, str], NamedList] = WeakValueDictionary()


def _load_list(where: str, file: str) -> NamedList:
    """A list that is saved; ledgers in memory share it."""
    entries = _lists_in_use.get((where, file))
    if entries is None:
        entries = _lists_in_use[where, file] = NamedList.of(*json.loads(_read_named(where, LISTS, file)))
    return entries


def _read_named(where: str, folder: str, name: str) -> bytes:
    """A file whose name depends on its content. Raises ValueError if it is not as it was written."""
    from lab.engine.checkpoint.durable import WAY_ON, CheckpointFolder

    data = (CheckpointFolder(where) / folder).read(name)
    if data is None:
        raise ValueError(
            f"{where}/{folder}/{name} is gone: the checkpoint is not whole, start with a new one"
        )
    if _name(_number(name), data) != name:
        raise ValueError(f"{where}/{folder}/{name} is damaged: {WAY_ON}")
    return data
