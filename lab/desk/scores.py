"""How well rules find the events that somebody has labelled: precision, recall, delay, amount, and what only one rule finds."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from lab.desk.labels import Labelled, Score
from lab.model.alerts import Alert, event_id_text
from lab.model.formatting import TableOfResults, plain_text
from lab.model.language import say
from lab.model.times import duration_words, rounded_duration_words

EXAMPLES = 10  # of events that were missed, and of those that alerted wrongly


@dataclass(frozen=True)
class Scores(TableOfResults):
    """The score of each rule and of all together ("all"), in the earlier half of the events and in the held-out one; `said`: what is labelled, and which half is which.

    `alone`: in each half, how many labelled events only this rule finds: what is lost without it.
    `missed`, `wrong`: examples of events that should have alerted, and of those that should not.
    """

    earlier: Mapping[int | str, Score]
    held_out: Mapping[int | str, Score]
    alone: tuple[Mapping[int | str, int], Mapping[int | str, int]] = ({}, {})
    missed: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    names: tuple[str, str] = ("", "")

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each rule and half, with its numbers: `pandas.DataFrame(scores.rows())` is a table."""
        return [
            {"rule": rule, "half": half, **asdict(scores[rule]), **scores[rule].shares}
            for rule in self.earlier
            for half, scores in zip(self.names, (self.earlier, self.held_out))
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, two for each rule."""
        rows = [
            [say("all") if rule == "all" else str(rule), *score_cells(half, scores[rule]), cell]
            for rule in self.earlier
            for half, scores, alone in zip(self.names, (self.earlier, self.held_out), self.alone)
            for cell in ["" if rule == "all" else f"{alone.get(rule, 0):,}"]
        ]
        return [say("rule"), *score_header(), say("found alone")], rows

    def title(self) -> str:
        """For screen readers."""
        return say("Scores")

    def sentences(self) -> list[str]:
        """Which half is held out; examples."""
        return [*self.said, *examples_text(self.missed, self.wrong)]


def scores_of(
    alerts: Iterable[Alert], rule_ids: Sequence[int], halves: tuple[Labelled, Labelled], said: tuple[str, ...]
) -> Scores:
    """The scores of rules, by their alerts."""
    alerted: dict[int | str, dict[str, int]] = {rule_id: {} for rule_id in rule_ids}
    alerted["all"] = {}
    for alert in alerts:
        for of in (alert.rule_id, "all"):
            alerted.setdefault(of, {}).setdefault(event_id_text(alert.event_id), alert.event_time)
    earlier, held_out = ({rule: half.score(of) for rule, of in alerted.items()} for half in halves)
    found = alerted["all"]
    by_event = defaultdict[str, list[int | str]](list)
    for rule in alerted.keys() - {"all"}:
        for at in alerted[rule]:
            by_event[at].append(rule)
    alone = [Counter(by_event[at][0] for at in half.cases if len(by_event[at]) == 1) for half in halves]
    missed = (at for half in halves for at in half.cases if at not in found)
    wrong = (at for at in found if any(half.is_wrong(at) for half in halves))
    examples = tuple(islice(missed, EXAMPLES)), tuple(islice(wrong, EXAMPLES))
    return Scores(earlier, held_out, (alone[0], alone[1]), *examples, said, (halves[0].name, halves[1].name))


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
        _delay(of.delay_ms) if of.cases_found else "–",
        f"{plain_text(of.amount_found)} / {plain_text(of.amount)}" if of.amount else "–",
    ]


def examples_text(missed: Sequence[str], wrong: Sequence[str]) -> list[str]:
    """Examples of events, a line for each kind."""
    missing = [say("Missed, for example: {events}", events=", ".join(missed))] if missed else []
    return missing + (
        [say("Wrong alerts, for example at: {events}", events=", ".join(wrong))] if wrong else []
    )


def _delay(ms: int) -> str:
    """A delay, exact below a second.

    >>> _delay(0), _delay(8_550_000), _delay(1_310_500)
    ('0 ms', '2.38 h', '21.8 min')
    """
    return duration_words(ms) if ms < 1_000 else rounded_duration_words(ms)


def _share(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"
