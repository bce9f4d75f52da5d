"""What each of several rules adds: which of them alert at the same events, and at how many each alerts alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from lab.model.alerts import Alert
from lab.model.formatting import TableOfResults
from lab.model.language import say


@dataclass(frozen=True)
class RuleOverlap:
    """A rule's alerts, the groups and events of these, and at how many events no other rule alerts: what is lost without it."""

    rule_id: int
    alerts: int
    groups: int
    events: int
    alone: int

    @property
    def shared(self) -> int:
        """At how many events another rule alerts, too."""
        return self.events - self.alone


@dataclass(frozen=True)
class Overlap(TableOfResults):
    """What each rule adds. `pairs`: for two rules, at how many events both alert."""

    rules: tuple[RuleOverlap, ...]
    pairs: Mapping[tuple[int, int], int]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows."""
        header = [say("rule"), say("alerts"), say("groups"), say("events"), say("alone"), say("shared")]
        numbers = (
            (each.rule_id, each.alerts, each.groups, each.events, each.alone, each.shared)
            for each in self.rules
        )
        return header, [[str(of[0]), *(f"{number:,}" for number in of[1:])] for of in numbers]

    def title(self) -> str:
        """For screen readers."""
        return say("Overlap of rules")


def overlap_of(alerts: Iterable[Alert], rule_ids: Sequence[int]) -> Overlap:
    """The overlap of rules, by their alerts."""
    by_event, counts, groups = defaultdict[tuple, set[int]](set), Counter[int](), defaultdict[int, set](set)
    for alert in alerts:
        by_event[alert.event_id, alert.event_time].add(alert.rule_id)
        counts[alert.rule_id] += 1
        groups[alert.rule_id].add(alert.group)
    events = Counter(rule_id for rules in by_event.values() for rule_id in rules)
    alone = Counter(next(iter(rules)) for rules in by_event.values() if len(rules) == 1)
    pairs = Counter(pair for rules in by_event.values() for pair in combinations(sorted(rules), 2))
    rows = (RuleOverlap(n, counts[n], len(groups[n]), events[n], alone[n]) for n in rule_ids)
    return Overlap(tuple(rows), dict(pairs))
