"""Rules by example: the shortest sentences that tell labelled events from the others.

fields ──► sentences, short ones first ──► each tuned on the half to choose by ──► those that beat all shorter ones ──► held-out half
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import comb
from time import monotonic
from typing import Any

from lab.desk.labels import Labelled, LabelWarning
from lab.desk.scores import score_cells, score_header
from lab.desk.tuning import Tuned, Tuning, tune
from lab.model.alerts import event_id_text
from lab.model.attributes import COUNT_WORDS
from lab.model.formatting import TableOfResults
from lab.model.language import say
from lab.model.rule import Rule
from lab.model.rules import BadRule, parse_message
from lab.model.when import filter_of_values, when_text
from lab.past.backtest import Past

WINDOWS = {"10 min": 600_000, "1 h": 3_600_000, "1 d": 86_400_000, "7 d": 604_800_000}
FEW, FEW_VALUES = 8, 4  # values of a field that conditions name; how many of them are tried
EXTENDED = 4  # sentences that get a condition
MOST, SECONDS = 200, 300.0  # sentences that are tried; after so long, no further one is
BY_CHANCE = 0.01  # how often labels drawn at random may be taken for ones that a sentence finds
UNSURE = 10  # events nearest to the limit
Progress = Callable[[int, int], None]  # how many sentences are tried, of how many at most


@dataclass(frozen=True)
class Suggested(TableOfResults):
    """Sentences that find the labelled events, short ones first, each with its score in both halves.

    A longer one is here only if it finds them better, by F1 in the half to choose by. `unsure`: the events whose values are nearest to
    the last one's limit; of labels that say yes and no of some events, only those that they do not name. `tried`: how many sentences.
    """

    rules: tuple[Tuned, ...]
    unsure: tuple[str, ...]
    tried: int
    names: tuple[str, str]
    said: tuple[str, ...]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, two for each sentence."""
        rows = [
            [each.rule.describe(), *score_cells(name, score)]
            for each in self.rules
            for name, score in zip(self.names, (each.earlier, each.held_out))
        ]
        return [say("rule"), *score_header()], rows

    def title(self) -> str:
        """For screen readers."""
        return say("Rules by example")

    def sentences(self) -> list[str]:
        """Which half is held out, how many sentences were tried, which events to label next."""
        said = [*self.said, say("Sentences that were tried: {count}.", count=f"{self.tried:,}")]
        if not self.rules:
            return [
                *said,
                say("None of them finds the labelled events of the held-out half better than chance."),
            ]
        unsure = say("Nearest to the limit of the last one: {events}", events=", ".join(self.unsure))
        return [*said, unsure] if self.unsure else said


def chance(tuned: Tuned, held_out: Labelled) -> float:
    """How probable it is that so many alerts at events of the held-out half find as many labelled ones by chance.

    >>> from lab.desk.labels import Score
    >>> times = dict.fromkeys("abcdefgh", 0)
    >>> of = Score(4, 0, 4, 4, 4, 0)
    >>> round(chance(Tuned(None, of, of), Labelled(dict.fromkeys("abcd"), None, times)), 3)
    0.014
    """
    of = tuned.held_out
    judged = of.labelled + sum(map(held_out.is_wrong, held_out.times))
    alerts, most = of.right + of.wrong, min(of.labelled, of.right + of.wrong)
    ways = comb(of.labelled, of.right) * comb(judged - of.labelled, alerts - of.right)
    total = 0
    for right in range(of.right, most + 1):  # each number of ways from the one before
        total += ways
        ways = ways * (of.labelled - right) * (alerts - right)
        ways //= (right + 1) * (judged - of.labelled - alerts + right + 1)
    return total / comb(judged, alerts)


def suggest(
    past: Past,
    halves: tuple[Labelled, Labelled, tuple[str, ...]],
    without: Sequence[str] = (),
    most: int = MOST,
    seconds: float = SECONDS,
    progress: Progress = lambda tried, most: None,
) -> Suggested:
    """The shortest sentences that find labelled events, tuned on the first of the halves and checked on the other.

    `without`: fields that no sentence names, such as the label. At most `most` sentences are tried, and none after so many seconds.
    """
    first, held_out, said = halves
    ends, tried, found = monotonic() + seconds, 0, list[tuple[str, Tuning]]()
    events = [event for event in past.all_events() if event_id_text(past.schema.id_of(event)) in first.times]
    fields = [name for name in past.schema.names if name not in {*without, *_named_by_schema(past)}]
    for name in fields:
        if _tells_labels(name, events, first, past):
            warnings.warn(
                f"the field {name} tells the labelled events from the others exactly. If it was filled in after the verdict, leave it out: "
                "--without, or without=[…]",
                LabelWarning,
                stacklevel=3,
            )
    distinct = {name: len({event[name] for event in events} - {None}) for name in fields}
    stages = (
        (most - most // 4, lambda: _plain(past, distinct, events)),
        (most, lambda: _extended(found, distinct, events, first, past)),
    )
    for until, sentences in stages:
        for text in sentences():
            if tried >= until or monotonic() > ends:
                break
            with suppress(BadRule):  # of a value that is too long for a rule
                tuning = tune(past, _rule(text, past), (), first, held_out, said)
                tried += 1
                progress(tried, most)
                if tuning.best:
                    found.append((text, tuning))
    better = list[Tuning]()
    for _, tuning in sorted(found, key=lambda each: _length(each[0])):
        if not better or _f1(tuning) > _f1(better[-1]):
            better.append(tuning)
    shown = better[-5:]
    sure = [each for each in shown if each.best and chance(each.best, held_out) < BY_CHANCE / len(shown)]
    rules = tuple(each.best for each in sure if each.best)
    unsure = _unsure(sure[-1]) if sure else ()
    return Suggested(rules, unsure, tried, (first.name, held_out.name), said)


def _tells_labels(name: str, events: list[dict[str, Any]], first: Labelled, past: Past) -> bool:
    """Whether a field's values, or that it has one, are others at the labelled events than at those that should not alert."""
    yes, no = set[Any](), set[Any]()
    for event in events:
        at = event_id_text(past.schema.id_of(event))
        if at in first.cases:
            yes.add(event[name])
        elif first.is_wrong(at):
            no.add(event[name])
    few = len(yes | no) <= min(FEW, len(events) // 2)
    return bool(yes and no) and not yes & no and (few or {None} in (yes, no))


def _named_by_schema(past: Past) -> set[str]:
    """The fields that say which event it is, when it was, and what becomes of it: no sentence is about them."""
    operation = past.schema.operation_field
    return {*past.schema.id_fields, past.schema.time_field, *([operation.name] if operation else [])}


def _rule(text: str, past: Past) -> Rule:
    rule = parse_message(f"1: {text}", past.schema).rule
    assert rule, "a sentence is a rule"
    return rule


def _f1(tuning: Tuning) -> float:
    return tuning.best.earlier.f1 if tuning.best else 0.0


def _length(text: str) -> int:
    return len(text.split())


def _values(name: str, events: list[dict[str, Any]]) -> list[Any]:
    """The values of a field, frequent ones first."""
    counts = Counter(event[name] for event in events if event[name] is not None)
    return sorted(counts, key=lambda value: (-counts[value], str(value)))


def _plain(past: Past, distinct: dict[str, int], events: list[dict[str, Any]]) -> Iterator[str]:
    """Sentences without conditions, short ones first: an amount alone, then aggregates over windows of each group.

    `distinct`: how many values each field has. A number that is named as a count cannot be measured: SUM(COUNT) counts events.
    """
    schema = past.schema
    amounts = [name for name in distinct if schema.field(name).is_decimal and name not in COUNT_WORDS]
    numbers = [name for name in distinct if schema.field(name).type == "long" and name not in COUNT_WORDS]
    keys = [name for name, count in distinct.items() if 1 < count <= len(events) // 2]
    keys = [name for name in keys if schema.field(name).type in ("long", "string")]
    for name in (*amounts, *numbers):
        yield f"VALUE({name}) > 0"
    times = [event[schema.time_field] for event in events] or [0]
    windows = [name for name, ms in WINDOWS.items() if ms < max(times) - min(times)] or ["10 min"]
    sums = [f"{of}({name})" for names in (amounts, numbers) for name in names for of in ("SUM", "MAX", "AVG")]
    unique = [f"UNIQUE_COUNT({name})" for name in keys]
    for what in ("COUNT(events)", *sums[: 3 * len(amounts)], *unique, *sums[3 * len(amounts) :]):
        for key in sorted(keys, key=lambda name: -distinct[name]):
            if f"({key})" not in what:
                yield from (f"{what} per {key} over {window} > 0" for window in windows)


def _extended(
    found: list[tuple[str, Tuning]],
    distinct: dict[str, int],
    events: list[dict[str, Any]],
    first: Labelled,
    past: Past,
) -> Iterator[str]:
    """The best sentences, each with a condition on the event that may alert, or on those that count, for values of labelled events."""
    labelled = [event for event in events if event_id_text(past.schema.id_of(event)) in first.cases]
    few = [name for name, count in distinct.items() if 1 < count <= FEW]
    values = [(name, value) for name in few for value in _values(name, labelled)[:FEW_VALUES]]
    best = sorted(found, key=lambda each: (-_f1(each[1]), _length(each[0])))[:EXTENDED]
    for text, _ in best:
        for name, value in values:
            filter = filter_of_values([(name, (value,))])
            assert filter, "there is a value"
            condition = when_text(filter)
            yield f"{text}, when {condition}"
            if text.startswith("COUNT(events)"):
                yield text.replace("(events)", f"(events where {condition})", 1)


def _unsure(tuning: Tuning) -> tuple[str, ...]:
    """Events on both sides of the best limit, in both halves, those first that the labels do not name."""
    best = tuning.best
    assert best
    near = list[str]()
    for half in tuning.halves[0]:
        alerting = half.events_at(half.alerting(best.rule.first.limit))
        others = half.events[len(alerting) :]
        labelled = half.labelled
        for side in (alerting[::-1], others):
            unknown = (at for at in side if at not in labelled.cases and not labelled.is_wrong(at))
            near += list(unknown if labelled.others is not None else side)[: UNSURE // 2]
    return tuple(dict.fromkeys(near))[: 2 * UNSURE]
