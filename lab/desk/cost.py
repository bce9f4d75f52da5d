"""What rules cost: the time and the memory that leaving one out would save, in a replay.

rules of a route ──► routed, evaluated and stored together ──► again without each rule ──► the difference is its own

Routes do not know each other, so a rule that is left out changes its own route only. What several rules of a route need anyway, such
as the copy of the events that they share, belongs to none of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.model.formatting import TableOfResults
from lab.model.language import say
from lab.model.rule import Route, Rule

if TYPE_CHECKING:
    from lab.past.backtest import Past

RUNS = 5  # of which the fastest counts, as other programs only slow one down
MIB = 1 << 20


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU and bytes of memory."""

    seconds: float = 0.0
    memory_bytes: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.seconds + other.seconds, self.memory_bytes + other.memory_bytes)

    def without(self, other: "Cost") -> "Cost":
        """What is saved if the other one is left; never less than nothing."""
        saved = self.seconds - other.seconds, self.memory_bytes - other.memory_bytes
        return Cost(max(saved[0], 0.0), max(saved[1], 0))


@dataclass(frozen=True)
class Costs(TableOfResults):
    """What each rule costs by itself, and all together: of routing, windows and alerts, without reading and decoding the events."""

    rules: Mapping[int, Cost]
    whole: Cost

    @property
    def shared(self) -> Cost:
        """What belongs to no single rule."""
        return self.whole.without(sum(self.rules.values(), Cost()))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows."""
        rows = [(str(rule_id), of) for rule_id, of in self.rules.items()]
        rows += [(say("shared"), self.shared), (say("all"), self.whole)]
        header = [say("rule"), say("time, ms"), say("share"), say("memory, MiB"), say("share")]
        return header, [
            [
                name,
                f"{1000 * of.seconds:,.1f}",
                f"{of.seconds / (self.whole.seconds or 1):.0%}",
                f"{of.memory_bytes / MIB:,.1f}",
                f"{of.memory_bytes / (self.whole.memory_bytes or 1):.0%}",
            ]
            for name, of in rows
        ]

    def title(self) -> str:
        """For screen readers."""
        return say("Cost of rules")


def costs_of(past: "Past", rules: Sequence[Rule]) -> Costs:
    """The costs of active rules over past events."""
    by_route: dict[Route, list[Rule]] = {}
    for rule in rules:
        by_route.setdefault(rule.route, []).append(rule)
    found, whole = dict[int, Cost](), Cost()
    for together in by_route.values():
        cost = _measured(past, together)
        whole += cost
        for rule in together:
            rest = [each for each in together if each is not rule]
            found[rule.rule_id] = cost.without(_measured(past, rest) if rest else Cost())
    return Costs(dict(sorted(found.items())), whole)


def _measured(past: "Past", rules: Sequence[Rule]) -> Cost:
    runs = [Cost(*past.seconds_and_bytes(rules)) for _ in range(RUNS)]
    return Cost(min(each.seconds for each in runs), runs[0].memory_bytes)
