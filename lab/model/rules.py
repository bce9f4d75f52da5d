"""The book of the rules in force, and what else there is to rules: `lab.model.rule`, `lab.model.messages`.

{"ruleId": 1, "ruleState": "ACTIVE", ...} ──► RuleBook.apply ──► {"status": "accepted", "version": 1, ...}
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from lab.model.aggregation import FUNCTIONS, OPERATORS, operator_symbol
from lab.model.attributes import (
    ACTIONS,
    ATTRIBUTES,
    CONTROLS,
    COUNT_WORDS,
    MAX_KEYS,
    OPERATOR_ALIASES,
    STATES,
)
from lab.model.deadletters import SHOWN, beginning_of, length_and_sha256
from lab.model.formatting import expected_message
from lab.model.hints import condition_hints
from lab.model.kinds import MAX_WINDOW_SECONDS, BadRule
from lab.model.listmessages import ListChange, split_muted_entry
from lab.model.lists import EMPTY, MUTED, NamedList
from lab.model.messages import (
    MAX_MESSAGE_BYTES,
    Message,
    as_bytes,
    build_message,
    message_or_refusal,
    parse_message,
)
from lab.model.rule import Route, Rule, readable_rule_sentence, readable_rule_summary, rules_html_table
from lab.model.schema import Schema

__all__ = [
    "ACTIONS",
    "ATTRIBUTES",
    "CONTROLS",
    "COUNT_WORDS",
    "FUNCTIONS",
    "MAX_KEYS",
    "MAX_MESSAGE_BYTES",
    "MAX_RULES",
    "MAX_WINDOW_SECONDS",
    "OPERATORS",
    "OPERATOR_ALIASES",
    "STATES",
    "BadRule",
    "Message",
    "Route",
    "Rule",
    "RuleBook",
    "operator_symbol",
    "parse_message",
    "readable_rule_sentence",
    "readable_rule_summary",
]
MAX_RULES = 20_000
MAX_LISTS, MAX_ENTRIES = 1_000, 100_000  # lists, and entries of one
MAX_ALL_ENTRIES, MAX_CHARACTERS = 200_000, 20_000_000  # of all lists
MAX_HINTS = 5  # in the answer to a change of a list
MAX_EXPORT = 800_000  # characters of the rules in one acknowledgement


def rule_message(
    rule_id: int,
    keys: Sequence[str],
    field: str | None,
    function: str,
    operator: str,
    limit: float | str,
    window: str,
    **more: Any,
) -> dict[str, Any]:
    """An active rule as a message gives it, ready for `json.dumps`; `more`: further attributes.

    >>> rule = rule_message(1, ["payeeId"], "paymentAmount", "SUM", "GREATER", 50, "20m")
    >>> rule["groupingKeyNames"], rule["window"]
    (['payeeId'], '20m')
    """
    return {
        "ruleId": rule_id,
        "ruleState": "ACTIVE",
        "groupingKeyNames": list(keys),
        "aggregateFieldName": field,
        "aggregatorFunctionType": function,
        "limitOperatorType": operator,
        "limit": limit,
        "window": window,
        **more,
    }


@dataclass
class RuleBook:
    """The rules in force, how many versions each id has had, and the named lists: the state that every operator replicates.

    Conditions of the rules in a book see the lists as they are in the book.

    >>> from lab.model.schema import PAYMENTS
    >>> book = RuleBook(PAYMENTS)
    >>> book.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")
    {'status': 'accepted', 'ruleId': 1, 'version': 1, 'ruleState': 'ACTIVE'}
    >>> book.apply("2,(pause)")["reason"]
    'ruleId: 2, expected a rule in force (there are: 1)'
    """

    schema: Schema
    rules: dict[int, Rule] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    lists: dict[str, NamedList] = field(default_factory=dict)

    def apply(self, text: str | bytes) -> dict[str, Any]:
        """Carry out a control message and return its acknowledgement; a rejected one changes nothing.

        That of a rule that hardly means what it says has a `hint`. Of a long one that is rejected the acknowledgement holds the beginning, the number of `bytes` and their `sha256`.
        """
        raw = as_bytes(text)
        try:
            asked = message_or_refusal(raw, self.schema)
            if isinstance(asked, BadRule):
                raise asked
            return {"status": "accepted", **self._carry_out(asked)}
        except BadRule as error:
            as_it_came = beginning_of(raw).decode(errors="backslashreplace")
            answer = {"status": "rejected", "reason": str(error), "message": as_it_came[:SHOWN]}
            return answer | (length_and_sha256(raw) if len(as_it_came) > SHOWN else {})

    def _carry_out(self, message: Message) -> dict[str, Any]:
        if message.kind == "control":
            return {"controlType": message.control, **self._control(message.control)}
        if message.list_change:
            return self._change_list(message.list_change)
        rule_id = message.rule_id
        if message.kind != "rule" and rule_id not in self.rules:
            known = self._known_ids()
            raise BadRule(expected_message("ruleId", rule_id, f"a rule in force (there are: {known})"))
        if rule_id not in self.rules and len(self.rules) >= MAX_RULES:
            raise BadRule(
                f"ruleId: {rule_id} is new, but at most {MAX_RULES} rules are allowed; delete one first"
            )
        before, version = self.rules.get(rule_id), self.versions.get(rule_id, 0) + 1
        if message.kind == "delete":
            del self.rules[rule_id]
        else:
            given = (message.rule or self.rules[rule_id]).with_lists(self.lists)
            now = replace(given, state=message.state, version=version)
            if (
                before
                and before.state == "SHADOW"
                and before.as_active == replace(now, version=before.version)
            ):
                now = (
                    before.as_active
                )  # what it alerted in the shadow it goes on to alert, under the same ids
            self.rules[rule_id], version = now, now.version
        self.versions[rule_id] = version
        hint = "; ".join(self.hints(message.rule)) if message.rule else ""
        answer = {"ruleId": rule_id, "version": version, "ruleState": message.state}
        return answer | ({"hint": hint} if hint else {})

    def hints(self, rule: Rule) -> list[str]:
        """What is doubtful in a rule, with the lists as they are: `condition_hints`, and its lists that are empty."""
        empty = sorted(name for name in rule.list_names if not self.lists.get(name))
        hints = condition_hints(rule, self.schema)
        return [*hints, *(f"the list @{name} is empty, so no value is in it" for name in empty)]

    # -- lists ---------------------------------------------------------------------------------------------------------

    def _change_list(self, change: ListChange) -> dict[str, Any]:
        name = change.name
        if name not in self.lists and len(self.lists) >= MAX_LISTS:
            raise BadRule(f"list: {name} is new, but at most {MAX_LISTS:,} lists are allowed")
        changed = self.lists.get(name, EMPTY).changed(
            dict.fromkeys(change.add, change.until), change.remove, change.clear
        )
        of_all = [changed, *(each for other, each in self.lists.items() if other != name)]
        if len(changed) > MAX_ENTRIES or sum(map(len, of_all)) > MAX_ALL_ENTRIES:
            raise BadRule(
                f"list: @{name} would have {len(changed):,} entries, expected at most {MAX_ENTRIES:,}, and of all lists {MAX_ALL_ENTRIES:,}"
            )
        if sum(each.characters for each in of_all) > MAX_CHARACTERS:
            raise BadRule(f"list: entries of all lists have at most {MAX_CHARACTERS:,} characters together")
        self.lists[name] = changed
        for rule_id, rule in self.rules.items():
            if name in rule.list_names:
                self.rules[rule_id] = rule.with_lists(self.lists)
        answer = {"list": name, "version": changed.version, "entries": len(changed)}
        hints = [hint for entry in change.add if name == MUTED for hint in self._mute_hints(entry)]
        return answer | ({"hint": "; ".join(hints[:MAX_HINTS])} if hints else {})

    def _mute_hints(self, entry: str) -> list[str]:
        """What is doubtful in a mute. It is accepted all the same: a compacted control log may have it before its rule."""
        rule_id, names = split_muted_entry(entry)
        if rule_id not in self.rules:
            return [f"rule {rule_id} is not in force, so the mute holds nothing back"]
        keys = self.rules[rule_id].route.keys
        if names is None or names == keys:
            return []
        given, grouping = ", ".join(names) or "none", ", ".join(keys) or "none"
        return [
            f"the mute names the fields {given}, but the grouping fields of rule {rule_id} are {grouping}, so it holds nothing back"
        ]

    def is_muted(self, entry: str, time_ms: int) -> bool:
        """Whether alerts at events with this time are held back for a rule and group, as `muted_entry` writes them."""
        muted = self.lists.get(MUTED, EMPTY)
        return muted.has(entry, time_ms) or muted.has(entry.partition(" ")[0], time_ms)

    @property
    def rules_with_mutes(self) -> frozenset[int]:
        """The ids of the rules of which @muted names a group, or all of them."""
        muted = self.lists.get(MUTED, EMPTY)
        if "rules" not in muted.memo:
            muted.memo["rules"] = frozenset(split_muted_entry(entry)[0] for entry in muted.until_by_value)
        return muted.memo["rules"]

    def _known_ids(self) -> str:
        ids = [str(rule.rule_id) for rule in self.sorted()]
        return ", ".join(ids[:20] + ["..."] * (len(ids) > 20)) or "none"

    def _control(self, control: str) -> dict[str, Any]:
        """What the book itself does for a control; the windows are the evaluator's to clear."""
        if control == "EXPORT_RULES_CURRENT":
            return self._export()
        if control == "DELETE_RULES_ALL":
            deleted = sorted(self.rules)
            self.rules.clear()
            return {"ruleIds": deleted}
        return {}

    def _export(self) -> dict[str, Any]:
        """The rules by id, as far as they fit a record of a topic; how many do not."""
        rules = [rule.to_dict() for rule in self.sorted()]
        sizes = accumulate(len(json.dumps(rule)) for rule in rules)
        fit = sum(1 for size in sizes if size <= MAX_EXPORT)
        return {"rules": rules[:fit]} | ({"leftOut": len(rules) - fit} if fit < len(rules) else {})

    def sorted(self) -> list[Rule]:
        """The rules by id."""
        return [self.rules[rule_id] for rule_id in sorted(self.rules)]

    def routes(self) -> dict[Route, tuple[Rule, ...]]:
        """The rules of each route, in whatever state, by id; routes in the order of their lowest rule id."""
        routes: dict[Route, list[Rule]] = {}
        for rule in self.sorted():
            routes.setdefault(rule.route, []).append(rule)
        return {route: tuple(rules) for route, rules in routes.items()}

    def to_json(self) -> str:
        """The whole book as JSON text; `from_json` gives an equal book."""
        rules = [rule.to_dict() for rule in self.sorted()]
        lists = {
            name: [each.version, dict(sorted(each.until_by_value.items()))]
            for name, each in self.lists.items()
        }
        return json.dumps({"rules": rules, "versions": sorted(self.versions.items()), "lists": lists})

    @classmethod
    def from_json(cls, text: str, schema: Schema, lists: dict[str, NamedList] | None = None) -> "RuleBook":
        """The book that `to_json` wrote; `lists`: its lists, if they are not in the text. Raises BadRule when the schema no longer has what a rule needs."""
        book = json.loads(text)
        read = ((build_message(given, schema).rule, given["version"]) for given in book["rules"])
        lists = lists or {name: NamedList.of(*saved) for name, saved in book["lists"].items()}
        rules = [replace(rule.with_lists(lists), version=version) for rule, version in read if rule]
        return cls(schema, {rule.rule_id: rule for rule in rules}, dict(book["versions"]), lists)

    def _repr_html_(self) -> str:
        return rules_html_table(self.sorted())
