"""What rules are worth: which of them catch the same, and how well they find the events that somebody has labelled.

alerts of a world ──► overlap: caught alone or together      labels ──► scores: precision, recall, delay, amount
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from lab.model.alerts import Alert, event_id_text
from lab.model.formatting import html_table, plain_text, text_table
from lab.model.language import say
from lab.model.times import duration_words

MAX_FILE_BYTES = 1 << 28
NO = ("", "0", "false", "no", "null", "none")  # values of a column of labels


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


# -- labels ------------------------------------------------------------------------------------------------------------


def labels_of(
    given: Any, events: Iterable[tuple[str, Mapping[str, Any]]], fields: Iterable[str]
) -> dict[str, Any]:
    """The labelled events, by the text of their id, each with its case. `events`: (text of the id, fields), read only for a column.

    `given`: the name of a field, whose value is the case unless it says no; a `Path` to ids, one on each line; ids; or {id: case}.
    """
    if isinstance(given, str):
        if given not in set(fields):
            raise ValueError(
                f"labels: there is no field {given}, expected one of {', '.join(fields)}, a Path, or ids"
            )
        return {at: (given, at) for at, event in events if str(event[given]).strip().lower() not in NO}
    if isinstance(given, Path):
        if given.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"{given}: more than {MAX_FILE_BYTES >> 20} MiB, expected ids, one on each line")
        given = filter(None, map(str.strip, given.read_text(encoding="utf-8-sig").splitlines()))
    pairs = given.items() if isinstance(given, Mapping) else ((each, None) for each in given)
    texts = ((event_id_text(each), case) for each, case in pairs)
    return {at: at if case is None else case for at, case in texts}


@dataclass(frozen=True)
class Score:
    """How well alerts find the labelled events. `delay_ms`: median, from the first event of a case to its first alert."""

    right: int
    wrong: int
    labelled: int
    cases_found: int
    cases: int
    delay_ms: int
    amount_found: Decimal = Decimal(0)
    amount: Decimal = Decimal(0)

    @property
    def precision(self) -> float | None:
        """Of the events that alert, the share that is labelled; None without alerts."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """Of the labelled events, the share that alerts; None without labels."""
        return self.right / self.labelled if self.labelled else None


@dataclass(frozen=True)
class Scores:
    """The score of each rule and of all together ("all"): of the earlier half of the events, and of the later, held-out half."""

    earlier: Mapping[int | str, Score]
    held_out: Mapping[int | str, Score]
    missed: tuple[str, ...] = field(default=())
    wrong: tuple[str, ...] = field(default=())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, two for each rule."""
        halves = ((say("earlier half"), self.earlier), (say("held-out half"), self.held_out))
        header = [say("rule"), say("events of"), say("precision"), say("recall"), say("cases")]
        header += [say("delay"), say("amount found")]
        rows = [
            [
                say("all") if rule == "all" else str(rule),
                half,
                _share(of.precision),
                _share(of.recall),
                f"{of.cases_found:,} / {of.cases:,}",
                duration_words(of.delay_ms) if of.cases_found else "–",
                f"{plain_text(of.amount_found)} / {plain_text(of.amount)}",
            ]
            for rule in self.earlier
            for half, scores in halves
            for of in [scores[rule]]
        ]
        return header, rows

    def text(self) -> str:
        """For a terminal."""
        return text_table(*self.table())

    def _repr_html_(self) -> str:
        return html_table(say("Scores"), *self.table())


def _share(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"


def score_of(
    alerted: Mapping[str, int],
    labels: Mapping[str, Any],
    times: Mapping[str, int],
    amounts: Mapping[str, Decimal],
) -> Score:
    """The score of alerts at events, {text of the id: time of the alert}, among the events of `times`, {text of the id: its time}."""
    mine = {at: case for at, case in labels.items() if at in times}
    right = [at for at in alerted if at in mine]
    begins, first = dict[Any, int](), dict[Any, int]()
    for at, case in mine.items():
        begins[case] = min(times[at], begins.get(case, times[at]))
    for at in right:
        first[mine[at]] = min(alerted[at], first.get(mine[at], alerted[at]))
    delays = [first[case] - begins[case] for case in first]
    found = sum((amounts.get(at, Decimal(0)) for at in right), Decimal(0))
    whole = sum((amounts.get(at, Decimal(0)) for at in mine), Decimal(0))
    wrong = len(alerted) - len(right)
    delay = int(median(delays)) if delays else 0
    return Score(len(right), wrong, len(mine), len(first), len(begins), delay, found, whole)
