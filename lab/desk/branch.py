"""A log with two futures: its events from a moment on, with the rules that it had, and with others that begin there.

log ──► FastReference up to the moment ──┬──► its rules ────► alerts ──┬──► Comparison
                                         └──► other rules ──► alerts ──┘
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter

from lab.desk.compare import Comparison, Difference, comparison_of, counts_of, differing
from lab.desk.logorder import engine_settings, records_of_cuts
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.model.alerts import Alert, Withdrawal, utc_text
from lab.model.colours import BLUE, GREY, ORANGE
from lab.model.enginelogs import READ
from lab.model.jsontext import BadRecord
from lab.model.language import say
from lab.model.rules import BadRule, Rule, RuleBook, parse_message
from lab.model.schema import Schema
from lab.model.statuslines import Cut, Ends, cuts_in, ends_of
from lab.past.alertframe import withdrawn_flags
from lab.past.fastreference import FastReference

Entry = tuple[int, bool, bytes | str]  # log time, whether it is a control message, and the record
WIDTH, TOP, GAP = 640, 30, 50  # of the picture
MOST_DRAWN = 2_000  # alerts


@dataclass(frozen=True)
class Branch:
    """What other rules would have raised from a moment on, beside what the log's own rules raised.

    `at`: ms. `before`: the alerts until then; `old`, `new`: those from then on, with the rules of the log and with the others.
    """

    at: int
    before: Sequence[Alert]
    old: Sequence[Alert]
    new: Sequence[Alert]
    comparison: Comparison

    def text(self) -> str:
        """For a terminal."""
        return f"{self._said()}\n\n{self.comparison.text()}"

    def _said(self) -> str:
        return say(
            "From {time} UTC on: {old} alerts with the old rules, {new} with the new ones.",
            time=utc_text(self.at),
            old=f"{len(self.old):,}",
            new=f"{len(self.new):,}",
        )

    def _repr_html_(self) -> str:
        return f"<p>{self._said()}</p>{self._picture()}{self.comparison._repr_html_()}"

    def _picture(self) -> str:
        """Two lanes that part: each alert as a line; those that only one lane has are coloured."""
        at = [{_place(each) for each in lane} for lane in (self.old, self.new)]
        times = [each.event_time for each in (*self.before, *self.old, *self.new)] or [self.at]
        first, last = min(*times, self.at), max(*times, self.at)

        def x(time: int) -> float:
            return 10 + (WIDTH - 20) * (time - first) / max(last - first, 1)

        def lane(alerts: Sequence[Alert], y: float, colour: str, others: set) -> str:
            marks: dict[str, set[float]] = {}
            for each in alerts[:MOST_DRAWN]:
                of = GREY if _place(each) in others else colour
                marks.setdefault(of, set()).add(round(x(each.event_time), 1))
            return "".join(
                f'<path stroke="{of}" stroke-width="2" d="{"".join(f"M{each} {y - 9}v18" for each in sorted(places))}"/>'
                for of, places in marks.items()
            )

        fork, middle, low = round(x(self.at), 1), TOP + GAP / 2, TOP + GAP
        lines = f"M10 {middle}H{fork}M{fork} {middle}L{fork + 8} {TOP}H{WIDTH - 10}M{fork} {middle}L{fork + 8} {low}H{WIDTH - 10}"
        names = "".join(
            f'<text x="{WIDTH - 10}" y="{y - 13}" text-anchor="end" font-size="11" fill="{colour}">{text}</text>'
            for y, colour, text in ((TOP, ORANGE, say("old rules")), (low, BLUE, say("new rules")))
        )
        drawn = (
            lane(self.before, middle, GREY, set())
            + lane(self.old, TOP, ORANGE, at[1])
            + lane(self.new, low, BLUE, at[0])
        )
        return (
            f'<svg role="img" aria-label="{say("Two lanes that part")}" width="{WIDTH}" height="{low + 15}" fill="none">'
            f'<path stroke="{GREY}" d="{lines}"/>{drawn}{names}</svg>'
        )


def _place(alert: Alert) -> tuple:
    return alert.rule_id, alert.event_id, alert.event_time, alert.group


def branch_of(
    settings: Settings,
    entries: Iterable[Entry],
    at: int,
    rules: Sequence[str],
    said: Callable[[Alert], str],
    top: int,
    reached: int,
) -> Branch:
    """Replays a log up to a moment, and from there twice. `rules`: those of the second lane, as messages.

    `at`: a log time; in a log that is not live, the time of the first event of the two lanes. `said`: what the log's own rules say
    of the event of an alert that only the second lane has. `reached`: the log time of the log's end. Raises BadRule.
    """
    lanes = Lanes(settings, at, rules, is_live=bool(reached))
    lanes.take(entries)
    other = lanes.other or lanes.part()
    for lane in (lanes.own, other):
        lane.advance_to(reached)
    old, new = _standing(lanes.own), _standing(other)

    def told(is_new: bool, alert: Alert) -> str:
        if is_new:
            return said(alert)
        return lanes.said_by_other(alert)

    return Branch(at, lanes.before, old, new, comparison_of(old, new, told, top))


class Lanes:
    """A log that parts: `own` has its rules, `other` from a moment on the other ones. `before`: the alerts until then that stand."""

    def __init__(self, settings: Settings, at: int, rules: Sequence[str], is_live: bool):
        self._at, self._rules, self._is_live = at, rules, is_live
        self.own = FastReference.of_settings(settings)
        self.other: FastReference | None = None
        self.before: list[Alert] = []

    def take(self, entries: Iterable[Entry]) -> None:
        """Lets both lanes go on with the next entries of the log, in its order."""
        for entry in entries:
            if self.other is None and _is_from(entry, self._at, self.own):
                self.part()
            _pass(self.own, entry)
            if self.other and (not entry[1] or _is_about_lists(entry[2], self.own)):
                _pass(self.other, entry)

    def part(self) -> FastReference:
        """Begins the other lane."""
        self.before = _standing(self.own)
        self.own.alerts_and_withdrawals.clear()
        self.other = self.own.fork()
        for message in _messages_to(self.own.book, self._rules):
            self.other.control(message, self._at if self._is_live else 0)
        return self.other

    def said_by_other(self, alert: Alert) -> str:
        """What the other rules say of an alert that they do not have."""
        assert self.other, "they have parted"
        rule = self.other.book.rules.get(alert.rule_id)
        return rule.describe() if rule else say("The new rules have no rule {id}.", id=alert.rule_id)


class LiveBranch:
    """A branch of a running engine's logs that goes on: both lanes take what each cut of the engine took.

    `counts`: for each rule, alerts of both, only of the old rules, only of the new ones, as they were raised, also if they were
    withdrawn later.
    """

    def __init__(self, logs: Logs, schema: Schema, rules: Sequence[str], at: int):
        self._logs, self._at = logs, at
        self._stats = logs.log("stats").tail()
        self._lanes = Lanes(engine_settings(logs, schema), at, rules, is_live=True)
        self._ends: Ends = {name: logs.log(name).bounds()[0] for name in READ}
        self._number = -1
        self.counts: Counter[tuple[int, int]] = Counter()

    def step(self) -> list[Difference]:
        """Takes over the cuts that are new; returns the alerts that only one lane has raised at them."""
        cuts = self._new_cuts()
        if not cuts:
            return []
        control, events = (
            [
                (log_time, name == "control", value)
                for log_time, value in records_of_cuts(self._logs, name, cuts, self._ends[name])
            ]
            for name in ("control", "events")
        )
        self._lanes.take(merge(control, events, key=itemgetter(0)))
        self._ends = ends_of(cuts[-1])
        lanes, reached = self._lanes, cuts[-1]["cut"]["to"]
        if lanes.other is None and reached > self._at:
            lanes.part()
        lanes.own.advance_to(reached)
        if lanes.other is None:
            return []
        lanes.other.advance_to(reached)
        old, new = (
            [line for line in of.alerts_and_withdrawals if isinstance(line, Alert)]
            for of in (lanes.own, lanes.other)
        )
        for rule_id, counts in counts_of(old, new).items():
            self.counts.update({(rule_id, place): count for place, count in enumerate(counts)})
        found = [
            Difference(is_new, alert, "" if is_new else lanes.said_by_other(alert))
            for is_new, alert in differing(old, new)
        ]
        for of in (lanes.own, lanes.other):
            of.alerts_and_withdrawals.clear()
        return found

    def _new_cuts(self) -> list[Cut]:
        found = []
        for stats in cuts_in(self._stats.read()):
            if stats["batch"] > self._number:
                self._number = stats["batch"]
                found.append(stats)
        return found

    def comparison(self) -> Comparison:
        """What the other rules have changed so far."""
        of = self.counts
        rules = sorted({rule_id for rule_id, _ in of})
        return Comparison({rule: (of[rule, 0], of[rule, 1], of[rule, 2]) for rule in rules}, ())

    def close(self) -> None:
        """Closes connections."""
        self._stats.close()


def _standing(lane: FastReference) -> list[Alert]:
    return standing_alerts(lane.alerts_and_withdrawals)


def standing_alerts(lines: Sequence[Alert | Withdrawal]) -> list[Alert]:
    """The alerts of a log of alerts that were not withdrawn."""
    alerts = (line for line in lines if isinstance(line, Alert))
    return [alert for alert, withdrawn in zip(alerts, withdrawn_flags(lines)) if not withdrawn]


def _is_from(entry: Entry, at: int, reference: FastReference) -> bool:
    log_time, is_control, record = entry
    if log_time or is_control:
        return log_time >= at
    try:
        raw = record if isinstance(record, bytes) else record.encode()
        return any(event[reference.schema.time_field] >= at for event in reference.schema.events(raw))
    except BadRecord:
        return False


def _pass(reference: FastReference, entry: Entry) -> None:
    log_time, is_control, record = entry
    if is_control:
        reference.control(record, log_time)
    else:
        reference.event(record if isinstance(record, bytes) else record.encode(), "", log_time)
    for each in (reference.acks, reference.dead_letters, reference.shadow_alerts):
        each.clear()


def _is_about_lists(message: bytes | str, reference: FastReference) -> bool:
    """Whether a control message changes a list or a mute, which both lanes see."""
    try:
        return parse_message(message, reference.schema).list_change is not None
    except BadRule:
        return False


def _messages_to(book: RuleBook, rules: Sequence[str]) -> Iterator[str]:
    """The control messages that make the rules of a book those of other messages; rules that stay as they are keep their version."""
    after = RuleBook(book.schema)
    for message in rules:
        after.apply(message)
    same = {
        rule_id
        for rule_id, rule in book.rules.items()
        if rule_id in after.rules and _definition(rule) == _definition(after.rules[rule_id])
    }
    for rule_id in book.rules.keys() - after.rules.keys():
        yield f'{{"ruleId": {rule_id}, "ruleState": "DELETE"}}'
    for message in rules:
        parsed = parse_message(message, book.schema)
        if (parsed.rule.rule_id if parsed.rule else parsed.rule_id) not in same:
            yield message


def _definition(rule: Rule) -> dict:
    return rule.to_dict() | {"version": None}
