"""What rules are worth: which of them catch the same, and how well they find the events that somebody has labelled.

alerts of a world ──► overlap: caught alone or together      labels ──► scores: precision, recall, delay, amount
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations, islice

from lab.desk.labels import Labelled, Score
from lab.model.alerts import Alert, event_id_text
from lab.model.formatting import html_table, plain_text, text_table
from lab.model.language import say
from lab.model.times import duration_words

EXAMPLES = 10  # of events that were missed, and of those that alerted wrongly


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
class Overlap:
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

    def text(self) -> str:
        """For a terminal."""
        return text_table(*self.table())

    def _repr_html_(self) -> str:
        return html_table(say("Overlap of rules"), *self.table())


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


# -- scores ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """The score of each rule and of all together ("all"), in the earlier half of the events and in the held-out one, see `said`.

    `missed`, `wrong`: examples of events that should have alerted, and of those that should not.
    """

    earlier: Mapping[int | str, Score]
    held_out: Mapping[int | str, Score]
    missed: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    said: str = ""
    names: tuple[str, str] = ("", "")

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, two for each rule."""
        rows = [
            [say("all") if rule == "all" else str(rule), *score_cells(half, scores[rule])]
            for rule in self.earlier
            for half, scores in zip(self.names, (self.earlier, self.held_out))
        ]
        return [say("rule"), *score_header()], rows

    def text(self) -> str:
        """For a terminal."""
        return "\n".join([text_table(*self.table()), self.said, *examples_text(self.missed, self.wrong)])

    def _repr_html_(self) -> str:
        said = (self.said, *examples_text(self.missed, self.wrong))
        return html_table(say("Scores"), *self.table()) + "".join(f"<p>{escape(each)}</p>" for each in said)


def scores_of(
    alerts: Iterable[Alert], rule_ids: Sequence[int], halves: tuple[Labelled, Labelled], said: str
) -> Scores:
    """The scores of rules, by their alerts."""
    alerted: dict[int | str, dict[str, int]] = {rule_id: {} for rule_id in rule_ids}
    alerted["all"] = {}
    for alert in alerts:
        for of in (alert.rule_id, "all"):
            alerted.setdefault(of, {}).setdefault(event_id_text(alert.event_id), alert.event_time)
    earlier, held_out = ({rule: half.score(of) for rule, of in alerted.items()} for half in halves)
    found = alerted["all"]
    missed = (at for half in halves for at in half.cases if at not in found)
    wrong = (at for at in found if any(half.is_wrong(at) for half in halves))
    examples = tuple(islice(missed, EXAMPLES)), tuple(islice(wrong, EXAMPLES))
    return Scores(earlier, held_out, *examples, said, (halves[0].name, halves[1].name))


def score_header() -> list[str]:
    """The names of `score_cells`."""
    header = [say("events of"), say("precision"), say("recall"), say("cases"), say("delay")]
    return [*header, say("amount found")]


def score_cells(half: str, of: Score) -> list[str]:
    """A score in one half of the events, for a table."""
    return [
        half,
        _share(of.precision),
        _share(of.recall),
        f"{of.cases_found:,} / {of.cases:,}",
        duration_words(of.delay_ms) if of.cases_found else "–",
        f"{plain_text(of.amount_found)} / {plain_text(of.amount)}" if of.amount else "–",
    ]


def examples_text(missed: Sequence[str], wrong: Sequence[str]) -> list[str]:
    """Examples of events, a line for each kind."""
    missing = [say("Missed, for example: {events}", events=", ".join(missed))] if missed else []
    return missing + (
        [say("Wrong alerts, for example at: {events}", events=", ".join(wrong))] if wrong else []
    )


def _share(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"
