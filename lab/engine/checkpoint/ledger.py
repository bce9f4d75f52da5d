"""The ledger: the rule book and, for each of its routes, which store holds its events. Folded from the control log alone.

    control log ──► driver folds a cut's messages ──► rules/000007-5c1b….json ──► every task: the same rules, the same stores
                                                      {"messages": [...], "ledger": what holds after them}

A store's number is never used again: a route that goes and comes back, or whose windows are cleared, gets another, so what
the old one held counts no more, wherever it still lies.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.model.rule import Route, Rule, alerted_marker
from lab.model.rules import RuleBook
from lab.model.schema import Schema

FOLDER = "rules"
KEPT = 100  # files; a batch reads those of its own two ends


@dataclass(frozen=True)
class LedgerEntry:
    """What the ledger says of one route's store."""

    store: int
    fields: tuple[str, ...]  # ever needed by its rules, in the order in which they first were
    joined: dict[int, int]  # rule id -> when it joined; what was reset before does not concern it
    windows: dict[int, int]  # widest window of a rule, ms -> how many rules have it

    @property
    def widest_ms(self) -> int:
        """The route's widest window."""
        return max(self.windows)


@dataclass(frozen=True)
class RoutePlan:
    """A route as evaluation needs it."""

    route: Route
    rules: tuple[Rule, ...]
    needs: tuple[str, ...]  # by its rules as they are now
    kept: LedgerEntry


@dataclass
class Ledger:
    """The rules in force and the stores of their routes.

    >>> from lab.model.schema import PAYMENTS
    >>> ledger = Ledger(RuleBook(PAYMENTS))
    >>> ledger.apply(b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")["version"]
    1
    >>> [(plan.route.id, plan.kept.store) for plan in ledger.plans]
    [('payeeId', 1)]
    >>> _ = ledger.apply(b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}')
    >>> [(plan.route.id, plan.kept.store) for plan in ledger.plans]
    [('payeeId', 2)]
    """

    book: RuleBook
    kept: dict[Route, LedgerEntry] = field(default_factory=dict)
    next: int = 0  # the number of the next store, or the next joining

    def __post_init__(self) -> None:
        self._members = dict(self.book.rules)  # as `kept` knows them
        self._plans: list[RoutePlan] | None = None

    @classmethod
    def of(cls, rules: Iterable[Rule], schema: Schema) -> "Ledger":
        """The ledger of some rules that nothing has happened to."""
        ledger = cls(RuleBook(schema))
        for rule in rules:
            ledger.book.rules[rule.rule_id] = rule
            ledger._move(rule.rule_id)
        return ledger

    def apply(self, message: bytes) -> dict[str, Any]:
        """Carries out a control message and returns its acknowledgement; a rejected one changes nothing."""
        ack = self.book.apply(message)
        if ack["status"] == "rejected":
            return ack
        self._plans = None
        if "ruleId" in ack:
            self._move(ack["ruleId"])
        elif ack["controlType"] == "DELETE_RULES_ALL":
            for rule_id in ack["ruleIds"]:
                self._move(rule_id)
        elif ack["controlType"] == "CLEAR_STATE_ALL":
            for plan in self.plans:
                joined = plan.kept.joined
                spoken = (name for rule in plan.rules for name in _alerted_fields(rule, joined[rule.rule_id]))
                emptied = replace(plan.kept, store=self._number(), fields=(*plan.needs, *spoken))
                self.kept[plan.route] = emptied
            self._plans = None
        return ack

    def _move(self, rule_id: int) -> None:
        """Follows a rule that was added, changed or deleted from the route it had to the one it has."""
        before, after = self._members.pop(rule_id, None), self.book.rules.get(rule_id)
        if after:
            self._members[rule_id] = after
        stays = before and after and before.route == after.route
        joined = self.kept[before.route].joined[rule_id] if before and stays else self._number()
        if before:
            self._leave(before)
        if after:
            self._join(after, joined)
        if before and not self.kept[before.route].joined:
            del self.kept[before.route]

    def _leave(self, rule: Rule) -> None:
        kept = self.kept[rule.route]
        joined = {other: since for other, since in kept.joined.items() if other != rule.rule_id}
        windows = Counter(kept.windows)
        windows[rule.widest_ms] -= 1
        self.kept[rule.route] = replace(kept, joined=joined, windows=dict(+windows))

    def _join(self, rule: Rule, joined: int) -> None:
        kept = self.kept.get(rule.route) or LedgerEntry(self._number(), (), {}, {})
        windows = Counter(kept.windows)
        windows[rule.widest_ms] += 1
        fields = tuple(
            dict.fromkeys((*kept.fields, *rule.stored_field_names, *_alerted_fields(rule, joined)))
        )
        members = kept.joined | {rule.rule_id: joined}
        self.kept[rule.route] = LedgerEntry(kept.store, fields, members, dict(windows))

    def _number(self) -> int:
        self.next += 1
        return self.next - 1

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
                for kept in [self.kept[route]]
            ]
        return self._plans

    def copy(self) -> "Ledger":
        """One that can go on by itself."""
        book = RuleBook(self.book.schema, dict(self.book.rules), dict(self.book.versions))
        return Ledger(book, dict(self.kept), self.next)

    def to_dict(self) -> dict[str, Any]:
        """Ready for `json.dumps`; `from_dict` gives an equal ledger."""
        lowest = {plan.route: plan.rules[0].rule_id for plan in self.plans}  # names a route
        kept = {
            lowest[route]: [kept.store, kept.fields, list(kept.joined.items()), list(kept.windows.items())]
            for route, kept in self.kept.items()
        }
        return {"book": json.loads(self.book.to_json()), "kept": kept, "next": self.next}

    @classmethod
    def from_dict(cls, saved: dict, schema: Schema) -> "Ledger":
        book = RuleBook.from_json(json.dumps(saved["book"]), schema)
        kept = {
            book.rules[int(rule_id)].route: LedgerEntry(store, tuple(fields), dict(joined), dict(windows))
            for rule_id, (store, fields, joined, windows) in saved["kept"].items()
        }
        return cls(book, kept, saved["next"])


def _alerted_fields(rule: Rule, joined: int) -> list[str]:
    """What an event keeps of the alerts that a rule raised at it: nothing unless it says `atMost`."""
    return [alerted_marker(rule.rule_id, joined)] if rule.at_most else []


@dataclass(frozen=True)
class Change:
    """A control message as a cut has it: its effective log time in ms, its source and place, and its bytes."""

    log_time: int
    source: int
    place: str
    message: bytes


def save_ledger(
    folder: CheckpointFolder, before: str, changes: list[Change], ledger: Ledger, needed: str | None = None
) -> str:
    """Writes what holds after some changes, under a name that is the same only for the same content; returns the name.

    Now and then the oldest files go, but for KEPT and those from `needed` on.
    """
    messages = [[change.log_time, change.source, change.place, change.message.hex()] for change in changes]
    data = json.dumps({"before": before, "messages": messages, "ledger": ledger.to_dict()}).encode()
    number = _number(before) + 1
    name = f"{number:09d}-{blake2b(data, digest_size=4).hexdigest()}.json"
    (folder / FOLDER).write(name, data)
    if number % KEPT == 0:
        oldest = number - KEPT + 1
        if needed is not None:
            oldest = min(oldest, _number(needed))
        for old in (folder / FOLDER).names():
            if _number(old) < oldest:
                (folder / FOLDER).remove(old)
    return name


def _number(name: str) -> int:
    """Of a ledger's file; -1 before the first."""
    return int(name.split("-")[0]) if name else -1


class SavedLedger(NamedTuple):
    """A ledger, and the changes that led to it from the one before."""

    ledger: Ledger
    changes: list[Change]


def load_ledger(folder: CheckpointFolder, name: str, schema: Schema) -> SavedLedger:
    """What is saved under a name ("": before the first change). Do not change it: `copy`."""
    return _load(folder.where, name, schema) if name else SavedLedger(Ledger(RuleBook(schema)), [])


@lru_cache(maxsize=8)
def _load(where: str, name: str, schema: Schema) -> SavedLedger:
    data = (CheckpointFolder(where) / FOLDER).read(name)
    if data is None:
        raise ValueError(
            f"{where}/{FOLDER}/{name} is gone: the checkpoint is not whole, start with a new one"
        )
    saved = json.loads(data)
    changes = [Change(time, source, place, bytes.fromhex(m)) for time, source, place, m in saved["messages"]]
    return SavedLedger(Ledger.from_dict(saved["ledger"], schema), changes)
