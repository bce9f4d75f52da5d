"""What a rule finds of the labelled events with every limit and several windows.

rule, windows ──► its value at each event, once a window ──► sorted: every limit at once ──► precision, recall ──► Pareto edge
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from html import escape
from itertools import groupby, islice
from math import floor, isqrt

from lab.desk.labels import Labelled, RunningScore, Score
from lab.desk.scores import EXAMPLES, examples_text, score_cells, score_header
from lab.model.aggregates import AGGREGATES, Exact
from lab.model.colours import GREY, PALETTE
from lab.model.formatting import TableOfResults, plain_text
from lab.model.language import say
from lab.model.operators import RELATIONS
from lab.model.rule import Rule
from lab.model.times import duration_words, parse_duration_ms
from lab.past.backtest import Past

FINEST, COARSEST = -12, 23  # powers of ten: of the digits that a limit may have
SHOWN_POINTS = 12  # of the Pareto edge, in a table
WIDTH, HEIGHT, MARGIN = 560, 280, 34  # px of the picture
Window = int | str | timedelta  # ms, or "1h"
Value = tuple[Exact, str, int]  # at an event: its id, its time


class Sweep:
    """A rule's values in one half of the events, those first that alert at the strictest limits, and what every limit finds."""

    def __init__(self, rule: Rule, values: Iterable[Value], scale: int, labelled: Labelled):
        """`values`: in that order."""
        self._rule, self._unit, self.labelled = rule, 10**scale, labelled
        self.values, self._scores = list[Exact](), list[tuple[Score, int]]()
        self.events, self._seen = list[str](), list[int]()
        count, known = RunningScore(labelled), set[str]()
        score = count.score
        for value, events in groupby(values, key=lambda each: each[0]):
            of_half = [each for each in events if each[1] in labelled.times and each[1] not in known]
            known.update(at for _, at, _ in of_half)
            self.events += [at for _, at, _ in of_half]
            if sum(count.add(at, time) for _, at, time in of_half):
                score = count.score
            if of_half:
                self.values.append(value)
                self._scores.append((score, count.wrong))
                self._seen.append(len(self.events))

    def score(self, count: int) -> Score:
        """What is found where so many of the values alert."""
        if not count:
            return RunningScore(self.labelled).score
        score, wrong = self._scores[count - 1]
        return replace(score, wrong=wrong)

    def alerting(self, limit: Decimal) -> int:
        """How many of the values alert at a limit."""
        return bisect_left(self.values, True, key=lambda value: not self.alerts(value, limit))

    def alerts(self, value: Exact, limit: Decimal) -> bool:
        """Whether a value alerts at a limit, exactly."""
        aggregate = AGGREGATES[self._rule.aggregation.function]
        compared = aggregate.to_compared_limit(Fraction(limit)) * self._unit
        return RELATIONS[self._rule.first.symbol](value, compared)

    def events_at(self, count: int) -> list[str]:
        """The events at which so many of the values alert."""
        return self.events[: self._seen[count - 1] if count else 0]

    def alert_counts_where_more_is_found(self) -> list[int]:
        """How many values alert at each limit that finds another labelled event, by how many it finds."""
        rights = [0, *(score.right for score, _ in self._scores)]
        return [count for count in range(1, len(rights)) if rights[count] > rights[count - 1]]

    def limit(self, count: int) -> Decimal | None:
        """The roundest limit at which so many of the values alert; None if no limit has so few digits."""
        last = self.values[count - 1]
        after = self.values[count] if count < len(self.values) else None
        near = [self._as_limit(value) for value in (last, after) if value is not None]
        # beyond the last value every limit will do: one that is as long as the value
        coarsest = COARSEST if after is not None else len(str(abs(floor(near[0])))) - 1
        for power in range(coarsest, FINEST - 1, -1):
            step = Decimal(1).scaleb(power)
            numbers = {floor(value / Fraction(step)) + n for value in near for n in (-1, 0, 1, 2)}
            for number in sorted(numbers, key=lambda n: (abs(n), n)):
                limit = number * step
                if self.alerts(last, limit) and (after is None or not self.alerts(after, limit)):
                    return Decimal(plain_text(limit))
        return None

    def _as_limit(self, value: Exact) -> Fraction:
        """The limit that is equal to a value, nearly."""
        exact = Fraction(value) / self._unit
        if not self._rule.aggregation.is_root:
            return exact
        return Fraction(isqrt(int(exact * 10**24)), 10**12)


@dataclass(frozen=True)
class Tuned:
    """A rule with one of the limits and windows, and what it finds in the half to choose by and in the held-out half."""

    rule: Rule
    earlier: Score
    held_out: Score

    @property
    def window(self) -> str:
        """That of its first condition, in words; "–" without one."""
        of = self.rule.aggregation
        return duration_words(of.window_ms) if of.has_window else "–"


@dataclass(frozen=True)
class Tuning(TableOfResults):
    """What a rule finds with every limit, in several windows. `said`: what is labelled, and which half is held out."""

    rules: tuple[Rule, ...]  # one for each window
    halves: tuple[tuple[Sweep, Sweep], ...]  # of each rule
    said: tuple[str, ...]

    def at(self, limit: Decimal | int | str, window: Window | None = None) -> Tuned:
        """What the rule finds at a limit, in one of the windows that were tried: "1h", a timedelta, or ms; None: the first one. Raises ValueError."""
        if window is None:
            return self._at_place(Decimal(limit), 0)
        ms = _window_ms(window)
        tried = [rule.aggregation.window_ms if rule.aggregation.has_window else 0 for rule in self.rules]
        if ms not in tried:
            raise ValueError(
                f"window: {window!r} was not tried, expected one of {', '.join(map(duration_words, tried))}"
            )
        return self._at_place(Decimal(limit), tried.index(ms))

    def _at_place(self, limit: Decimal, place: int) -> Tuned:
        scores = (half.score(half.alerting(limit)) for half in self.halves[place])
        return Tuned(self.rules[place].with_first(limit=limit), *scores)

    @cached_property
    def points(self) -> list[tuple[int, int, Score]]:
        """(window, how many values alert, score) at each limit that finds another labelled event, in the half to choose by."""
        every = ((n, first) for n, (first, _) in enumerate(self.halves))
        return [
            (n, count, first.score(count))
            for n, first in every
            for count in first.alert_counts_where_more_is_found()
        ]

    @cached_property
    def edge(self) -> list[tuple[int, int, Score]]:
        """Those of `points` that no other one beats in both precision and recall, from the most precise on."""
        scores = [(of.precision or 0, of.recall or 0) for _, _, of in self.points]
        return [self.points[place] for place in pareto(scores)]

    @cached_property
    def best(self) -> Tuned | None:
        """Of the edge, the one with the highest F1 in the half to choose by; None if no limit finds anything."""
        every = sorted(self.edge, key=lambda point: -point[2].f1)
        return next((tuned for tuned in map(self._tuned, every) if tuned), None)

    def _alerts_at_all(self, point: tuple[int, int, Score]) -> bool:
        half = self.halves[point[0]][0]
        return len(half.events_at(point[1])) == len(half.labelled.times)

    def _tuned(self, point: tuple[int, int, Score]) -> Tuned | None:
        window, count, _ = point
        limit = self.halves[window][0].limit(count)
        return None if limit is None else self._at_place(limit, window)

    @cached_property
    def shown(self) -> list[Tuned]:
        """At most a dozen of the edge, evenly, with the best one, each with the roundest limit that gives it; none that alerts at all events."""
        edge = [point for point in self.edge if not self._alerts_at_all(point)] or self.edge
        places = {n * (len(edge) - 1) // max(SHOWN_POINTS - 2, 1) for n in range(SHOWN_POINTS - 1)}
        best = max(range(len(edge)), key=lambda place: edge[place][2].f1, default=0)
        some = sorted({*places, best}) if edge else []
        return [tuned for place in some if (tuned := self._tuned(edge[place]))]

    def examples(self) -> tuple[list[str], list[str]]:
        """Events that the best rule misses, and those at which it alerts wrongly, in the half to choose by."""
        if self.best is None:
            return [], []
        window = next(
            n for n, rule in enumerate(self.rules) if rule.aggregation == self.best.rule.aggregation
        )
        first = self.halves[window][0]
        found = dict.fromkeys(first.events_at(first.alerting(self.best.rule.first.limit)))
        missed = (at for at in first.labelled.cases if at not in found)
        wrong = (at for at in found if first.labelled.is_wrong(at))
        return list(islice(missed, EXAMPLES)), list(islice(wrong, EXAMPLES))

    # -- for people ----------------------------------------------------------------------------------------------------

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows: two for each of `shown`."""
        names = [half.labelled.name for half in self.halves[0]]
        rows = [
            [each.window, f"{each.rule.first.symbol} {plain_text(each.rule.first.limit)}", *cells]
            for each in self.shown
            for cells in map(score_cells, names, (each.earlier, each.held_out))
        ]
        return [say("window"), say("limit"), *score_header()], rows

    def title(self) -> str:
        """For screen readers."""
        return say("Pareto edge")

    def sentences(self) -> list[str]:
        """Which half is held out, the best rule, examples."""
        if self.best is None:
            return [*self.said, say("No limit finds a labelled event.")]
        said = say("The best of these by F1: {rule}", rule=self.best.rule.describe())
        return [*self.said, said, *examples_text(*self.examples())]

    def picture(self) -> str:
        """Recall to the right and precision upwards, a point for each limit, a colour for each window; the edge is a line."""

        def place(of: Score) -> str:
            right, up = of.recall or 0, of.precision or 0
            return f"{MARGIN + (WIDTH - 2 * MARGIN) * right:.1f} {HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * up:.1f}"

        paths = ["M" + " L".join(place(of) for _, _, of in self.edge)] if self.edge else []
        lines = [f'<path d="{path}" stroke="{GREY}" stroke-width="2"/>' for path in paths]
        for window, (rule, colour) in enumerate(zip(self.rules, PALETTE[:6] * len(self.rules))):
            dots = dict.fromkeys(f"M{place(of)}h0" for n, _, of in self.points if n == window)
            style = f'stroke="{colour}" stroke-width="6" stroke-linecap="round"'
            lines.append(f'<path d="{"".join(dots)}" {style}/>')
            name = duration_words(rule.aggregation.window_ms) if rule.aggregation.has_window else ""
            lines.append(
                f'<text x="{WIDTH - 90}" y="{20 + 16 * window}" fill="{colour}">{escape(name)}</text>'
            )
        corner = f"M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}"
        lines.append(f'<path d="{corner}" stroke="currentColor"/>')
        axes = ((WIDTH // 2, HEIGHT - 10, say("recall")), (4, 20, say("precision")))
        lines += [f'<text x="{x}" y="{y}" fill="currentColor">{escape(name)}</text>' for x, y, name in axes]
        label = escape(say("precision and recall at each limit"))
        size = f'width="{WIDTH}" height="{HEIGHT}"'
        return (
            f'<svg role="img" aria-label="{label}" {size} fill="none" font-size="13">{"".join(lines)}</svg>'
        )


def pareto(scores: Sequence[tuple[float, float]]) -> list[int]:
    """The places of the pairs that no other one beats in both numbers, or equals in one and beats in the other, the first number falling.

    >>> pareto([(1, 0.2), (0.9, 0.5), (0.8, 0.5), (0.5, 0.9), (0.4, 0.3)])
    [0, 1, 3]
    """
    found, most = list[int](), 0.0
    for place in sorted(range(len(scores)), key=lambda n: (-scores[n][0], -scores[n][1])):
        if scores[place][1] > most:
            found.append(place)
            most = scores[place][1]
    return found


def tune(
    past: Past,
    rule: Rule,
    windows: Window | Sequence[Window],
    first: Labelled,
    held_out: Labelled,
    said: tuple[str, ...],
) -> Tuning:
    """What a rule finds in two halves of past events with every limit, in several windows; its own if there are none. Raises ValueError."""
    windows_ms = [_window_ms(each) for each in ([windows] if isinstance(windows, Window) else windows)]
    if reason := _why_not(past, rule, windows_ms):
        raise ValueError(reason)
    rules = [rule.with_first(window_ms=ms) for ms in dict.fromkeys(windows_ms)] or [rule]
    halves = []
    for each in rules:
        count, *_ = past.evaluated_count_and_time_range_ms(each)
        if count < len(past):
            raise ValueError(
                f"{len(past):,} events are too many to try this rule on without Numba, expected {count:,}"
            )
        found = past.aggregates(each)
        nearly, sign = found.values.tolist(), -1 if each.first.symbol.startswith(">") else 1
        values = list(zip(found.exact_values(), map(str, found.ids.tolist()), map(int, found.times.tolist())))
        # nearly in order, so that few fractions are compared
        values = [values[n] for n in sorted(range(len(values)), key=lambda n: sign * nearly[n])]
        values.sort(key=lambda value: sign * value[0])
        first_half, other = (Sweep(each, values, found.scale, half) for half in (first, held_out))
        halves.append((first_half, other))
    return Tuning(tuple(rules), tuple(halves), said)


def _window_ms(window: Window) -> int:
    if isinstance(window, timedelta):
        return window // timedelta(milliseconds=1)
    return window if isinstance(window, int) else parse_duration_ms(str(window))


def _why_not(past: Past, rule: Rule, windows_ms: Sequence[int]) -> str:
    """Why a rule cannot be tuned; "" if it can."""
    if past.schema.taken_back:
        return say("Events that can be taken back: their alerts do not follow from the values of a rule.")
    if rule.first.symbol not in (">", ">=", "<", "<="):
        return say(
            "tune: the first condition has {symbol}, expected >, >=, < or <=", symbol=rule.first.symbol
        )
    if not rule.can_count_alerts_at_other_limits:
        return say(
            "tune: the alerts at other limits do not follow from the values of a rule with `at most`, `or`, a multiple of an "
            "aggregate as its limit, a count that is reset, or `absence`"
        )
    if windows_ms and not rule.aggregation.has_window:
        return say("tune: {function} has no window", function=rule.aggregation.function)
    return ""
