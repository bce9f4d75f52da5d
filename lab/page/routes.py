"""What the page's engine has for each route: which rules judge its events, what these keep, and what a control message has it forget.

control message ──► Ledger ──► Routes ──JSON──► store.js, which lays out the memory of the routes that changed
"""

from typing import Any

from lab.engine.checkpoint.ledger import Ledger, RoutePlan
from lab.engine.compiled.layout import AGGREGATE_FIELDS, NEVER
from lab.engine.compiled.rulenumbers import distinct_whens, rules_to_arrays, value_columns
from lab.model.horizon import NOT_REACHED, time_reached
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.page.conditions import condition_for_page
from lab.page.reader import exact, pack_int64s


class Routes:
    """The routes of the rules in force, as the engine of the page has them. `late_ms`: how late events may be."""

    def __init__(self, ledger: Ledger, late_ms: int):
        self.ledger, self.late_ms = ledger, late_ms
        self._known: dict[int, RoutePlan] = {}

    def after(self, newest: list[int]) -> list[dict[str, Any]]:
        """The routes in their order: of each the number of its store, which it has as long as its events count, and its rules.

        Of one that is new or has changed since the last call also all that its engine needs. `newest`: the newest event times
        of the log, ms.
        """
        before, self._known = self._known, {plan.entry.store: plan for plan in self.ledger.plans}
        return [
            {"store": store, "changed": self._changed(plan, before.get(store, plan), newest)}
            if _what_matters(plan) != _what_matters(before.get(store))
            else {"store": store}
            for store, plan in self._known.items()
        ]

    def _changed(self, plan: RoutePlan, before: RoutePlan, newest: list[int]) -> dict[str, Any]:
        """`kept`: the ids of the rules whose resets count; `before`: the time from before which events are forgotten."""
        schema, fields = self.ledger.book.schema, list(plan.entry.fields)
        joined, widest_ms, reached = (
            plan.entry.joined_by_rule_id,
            before.entry.widest_ms,
            time_reached(newest),
        )
        is_wider = plan.entry.widest_ms > widest_ms and reached != NOT_REACHED
        truths = [of.event_conditions for rule in plan.rules for of in rule.aggregations]
        return {
            "rules": [exact(rule.rule_id) for rule in plan.rules],
            "keys": plan.route.keys,
            "filter": condition_for_page(plan.route.filter, schema),
            "fields": fields,
            "needed": plan.needs,
            "truths": {name: condition_for_page(of, schema) for each in truths for name, of in each.items()},
            "widestMs": plan.entry.widest_ms,
            "columns": value_columns(fields, schema),
            "awaiting": [_awaiting(rule, schema) for rule in plan.rules if rule.absence and rule.is_judged],
            "before": exact(reached - widest_ms - self.late_ms if is_wider else NEVER),
            "kept": [
                exact(id) for id, since in before.entry.joined_by_rule_id.items() if joined.get(id) == since
            ],
            **self._numbers(plan, fields),
        }

    def _numbers(self, plan: RoutePlan, fields: list[str]) -> dict[str, Any]:
        """The rules as numbers for the loop, named as in `lab.engine.compiled.layout.Rules`, and what its stores need."""
        schema, rules = self.ledger.book.schema, tuple(rule.as_active for rule in plan.rules)
        keys, arrays = rules_to_arrays(rules, fields, schema)
        rows = [getattr(row, name) for row in arrays.aggregates for name in AGGREGATE_FIELDS]
        flat = {name: array.ravel() for name, array in arrays._asdict().items()} | {"aggregates": rows}
        return {
            "aggregateCount": len(keys),
            "queues": sum(key.accumulator.queues for key in keys),
            "distinct": sum(bool(key.unique) for key in keys),
            "lanes": sum(key.accumulator.lanes for key in keys),
            "own": sum(key.rule_id is not None for key in keys),
            "whens": [condition_for_page(when, schema) for when in distinct_whens(rules)],
            "arrays": {name: pack_int64s(each) for name, each in flat.items()},
        }


def _awaiting(rule: Rule, schema: Schema) -> dict[str, Any]:
    """What a rule that says `absence` awaits; its waits go on under the same `name`: they do when it leaves the shadow."""
    of = rule.aggregation
    return {
        "id": exact(rule.rule_id),
        "name": f"{rule.rule_id}.{rule.version}",
        "where": condition_for_page(of.where, schema),
        "when": condition_for_page(rule.when, schema),
        "windowMs": of.window_ms,
    }


def _what_matters(plan: RoutePlan | None) -> Any:
    """What a store depends on: not on what is in a named list, which is asked as it is."""
    return plan and (plan.entry, [(rule.rule_id, rule.version, rule.state) for rule in plan.rules])
