"""Two sets of rules over the same events: what an edit changes.

alerts of both worlds ──► in both, only old, only new, for each rule ──► the events nearest to the limit
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from lab.model.alerts import Alert, event_id_text, utc_text
from lab.model.formatting import escape_control_characters, html_table, plain_text, text_table
from lab.model.language import say

MOST_TELLING = 10  # events


@dataclass(frozen=True)
class Difference:
    """An event at which only the new rules alert, or only the old ones. `said`: what the others say of it."""

    is_new: bool
    alert: Alert
    said: str = ""

    @property
    def from_limit(self) -> Decimal:
        """How far the value is from the limit, as a share of the limit."""
        return abs(self.alert.aggregate - self.alert.limit) / (abs(self.alert.limit) or 1)

    def row(self) -> list[str]:
        """For a table."""
        of = self.alert
        at = (
            event_id_text(of.event_id),
            utc_text(of.event_time),
            plain_text(of.aggregate),
            plain_text(of.limit),
        )
        return [say("only new") if self.is_new else say("only old"), str(of.rule_id), *at]

    def text(self) -> str:
        """One line."""
        return "  ".join([*self.row(), self.said]).rstrip()


@dataclass(frozen=True)
class Comparison:
    """What other rules change. `counts`: for each rule, alerts of both, only of the old rules, only of the new ones."""

    counts: Mapping[int, tuple[int, int, int]]
    telling: tuple[Difference, ...]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows."""
        header = [say("rule"), say("both"), say("only old"), say("only new")]
        return header, [[str(rule), *(f"{n:,}" for n in of)] for rule, of in self.counts.items()]

    def telling_table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the most telling events."""
        rows = [each.row() for each in self.telling]
        header = [say("alerts"), say("rule"), say("event"), say("time (UTC)"), say("value"), say("limit")]
        return header, rows

    def text(self) -> str:
        """For a terminal."""
        lines = [text_table(*self.table())]
        if self.telling:
            header, *rows = text_table(*self.telling_table()).split("\n")
            lines += ["", say("The most telling events, nearest to the limit:"), header]
            lines += [f"{row}  {each.said}" for row, each in zip(rows, self.telling)]
        return escape_control_characters("\n".join(lines), keep="\n")

    def _repr_html_(self) -> str:
        header, rows = self.telling_table()
        told = [[*row, each.said] for row, each in zip(rows, self.telling)]
        name = say("The most telling events, nearest to the limit:")
        return html_table(say("Comparison"), *self.table()) + html_table(name, [*header, ""], told)


def comparison_of(
    old: Iterable[Alert], new: Iterable[Alert], said: Callable[[bool, Alert], str], top: int
) -> Comparison:
    """Compares alerts. `said`: of an alert that only the new rules (True) or the old ones have, what the others say of its event."""
    old, new = list(old), list(new)
    only = [Difference(is_new, alert) for is_new, alert in differing(old, new)]
    only.sort(key=lambda each: each.from_limit)
    told = (replace(each, said=said(each.is_new, each.alert)) for each in only[:top])
    return Comparison(counts_of(old, new), tuple(told))


def differing(old: Iterable[Alert], new: Iterable[Alert]) -> Iterator[tuple[bool, Alert]]:
    """(whether it is new, alert) of those that only one side has, whatever the versions of their rules."""
    before, after = _by_place(old), _by_place(new)
    yield from ((False, alert) for at, alert in before.items() if at not in after)
    yield from ((True, alert) for at, alert in after.items() if at not in before)


def counts_of(old: Iterable[Alert], new: Iterable[Alert]) -> dict[int, tuple[int, int, int]]:
    """For each rule, how many alerts are of both, only of the old rules, only of the new ones."""
    before, after = _by_place(old), _by_place(new)
    every = before | after
    counts = Counter((at[0], (at not in after) + 2 * (at not in before)) for at in every)
    return {
        rule: (counts[rule, 0], counts[rule, 1], counts[rule, 2]) for rule in sorted({at[0] for at in every})
    }


def _by_place(alerts: Iterable[Alert]) -> dict[tuple, Alert]:
    return {(each.rule_id, each.event_id, each.event_time, each.group): each for each in alerts}
