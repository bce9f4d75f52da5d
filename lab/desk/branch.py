"""A log with two futures: its events from a moment on, with the rules that it had, and with others that begin there.

log ──► FastReference up to the moment ──┬──► its rules ────► alerts ──┬──► Comparison
                                         └──► other rules ──► alerts ──┘
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lab.desk.compare import Comparison, comparison_of
from lab.engine.checkpoint.settings import Settings
from lab.model.alerts import Alert, Withdrawal, utc_text
from lab.model.colours import BLUE, GREY, ORANGE
from lab.model.jsontext import BadRecord
from lab.model.language import say
from lab.model.rules import BadRule, Rule, RuleBook, parse_message
from lab.model.schema import Schema
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
    own, is_live, before = FastReference.of_settings(settings), bool(reached), list[Alert]()
    other: FastReference | None = None

    def part() -> FastReference:
        if is_live:
            own.advance_to(at)
        before.extend(_standing(own))
        own.alerts_and_withdrawals.clear()
        forked = own.fork()
        for message in messages_to(own.book, rules):
            forked.control(message, at if is_live else 0)
        return forked

    for entry in entries:
        if other is None and _is_from(entry, at, own):
            other = part()
        _pass(own, entry)
        if other and (not entry[1] or is_about_lists(entry[2], own.schema)):
            _pass(other, entry)
    other = other or part()
    for lane in (own, other):
        lane.advance_to(reached)
    old, new = _standing(own), _standing(other)

    def told(is_new: bool, alert: Alert) -> str:
        return said(alert) if is_new else said_by(other.book, alert)

    return Branch(at, before, old, new, comparison_of(old, new, told, top))


def said_by(book: RuleBook, alert: Alert) -> str:
    """What the rules of the other lane say of an alert that they do not have."""
    rule = book.rules.get(alert.rule_id)
    return rule.describe() if rule else say("The new rules have no rule {id}.", id=alert.rule_id)


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


def is_about_lists(message: bytes | str, schema: Schema) -> bool:
    """Whether a control message changes a list or a mute, which both lanes see."""
    try:
        return parse_message(message, schema).list_change is not None
    except BadRule:
        return False


def messages_to(book: RuleBook, rules: Sequence[str]) -> Iterator[str]:
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
