"""What a rule made of an event, for people and for programs: the first thing that was false, or the alert, with its window.

Verdict.outcome   one of OUTCOMES, in the order in which they are looked at
Verdict.text()    a screen of text; `to_dict()` everything, for JSON; in a notebook, a table and a picture
"""

from dataclasses import dataclass
from decimal import Decimal
from html import escape
from typing import Any, NamedTuple

from lab.model.aggregation import Condition, MeasuredCondition, operator_symbol
from lab.model.alerts import Alert, utc_text
from lab.model.colours import BLUE, GREY, ORANGE
from lab.model.field import Id
from lab.model.formatting import escape_control_characters, html_table, plain_text, shorten, text_table
from lab.model.language import say
from lab.model.rule import Rule, readable_rule_summary

OUTCOMES = (
    *(
        "deadLetter",
        "takesBack",
        "notInForce",
        "paused",
        "filter",
        "nullKey",
        "tooLate",
        "duplicate",
        "late",
        "notCounted",
    ),
    *("when", "conditions", "atMost", "muted", "fulfilled", "waiting", "ended", "alerted"),
)
SHOWN_EVENTS, SHOWN_CELL, SHOWN_FIELDS = 12, 30, 4
CHANGES = "The smallest change of each kind that gives the other verdict:"


@dataclass(frozen=True)
class MeasuredAt:
    """A condition of the rule at the event: `value` and `limit` as an alert shows them, None without a value."""

    condition: Condition
    measured: MeasuredCondition
    holds: bool

    @property
    def off_by(self) -> Decimal | None:
        """How far the value is from the limit."""
        value, limit = self.measured.aggregate, self.measured.limit
        return None if value is None or limit is None else abs(value - limit)

    def shown(self) -> dict[str, str]:
        """For a sentence."""
        numbers = {"value": self.measured.aggregate, "limit": self.measured.limit, "off": self.off_by}
        return {name: _number(number) for name, number in numbers.items()}

    def to_dict(self) -> dict[str, Any]:
        """As JSON, with decimals as text."""
        numbers = {"value": self.measured.aggregate, "limit": self.measured.limit, "offBy": self.off_by}
        of = {name: None if number is None else plain_text(number) for name, number in numbers.items()}
        return {"condition": self.condition.describe(), "holds": self.holds, **of}


class WindowEvent(NamedTuple):
    """A record of the group in the window. `counts`: for each condition, whether it counts; empty if it is not stored.

    `so_far`: for each condition, its value over the events that count up to this one; None where this one does not count, and where it
    was not computed. `is_in_first`: whether the window of the first condition has it. `note`: what lateness, duplicates, resets and
    take-backs did to it.
    """

    id: str
    time: int
    fields: dict[str, Any]
    counts: tuple[bool, ...] = ()
    so_far: tuple[Decimal | None, ...] = ()
    is_in_first: bool = False
    note: str = ""


@dataclass(frozen=True)
class Change:
    """The smallest change of one thing that flips the verdict: `what` is limit, window or the name of a field.

    `below`: it is anything below `then`.
    """

    what: str
    condition: int  # its place in the rule
    now: str
    then: str
    below: bool = False

    def text(self) -> str:
        """One line."""
        of = {"now": self.now, "then": self.then, "number": self.condition + 1}
        if self.what == "limit":
            return say("condition {number}: a limit of {then} instead of {now}", **of)
        if self.below:
            return say("condition {number}: a window below {then} instead of {now}", **of)
        if self.what == "window":
            return say("condition {number}: a window of {then} instead of {now}", **of)
        return say("{field} of this event: {then} instead of {now}", field=self.what, **of)


@dataclass(frozen=True)
class Verdict:
    """What a rule made of an event. `said`: one sentence; `alert`: what it raised; `withdrawn`: its event was taken back later."""

    outcome: str
    said: str
    rule_id: int
    rule: Rule | None
    event: dict[str, Any]
    event_id: Id | None
    event_time: int | None
    alert: Alert | None = None
    withdrawn: bool = False
    conditions: tuple[MeasuredAt, ...] = ()
    window: tuple[WindowEvent, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def alerted(self) -> bool:
        """Whether the rule raised an alert at the event."""
        return self.outcome == "alerted"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "outcome": self.outcome,
            "said": self.said,
            "ruleId": self.rule_id,
            "ruleVersion": self.rule and self.rule.version,
            "rule": self.rule and self.rule.describe(),
            "eventId": list(self.event_id) if isinstance(self.event_id, tuple) else self.event_id,
            "eventTime": self.event_time,
            "alertId": self.alert and self.alert.alert_id,
            "withdrawn": self.withdrawn,
            "conditions": [each.to_dict() for each in self.conditions],
            "window": [
                {
                    "event": {"id": each.id, "time": each.time, "fields": _json(each.fields)},
                    "counts": list(each.counts),
                    "soFar": [None if n is None else plain_text(n) for n in each.so_far] or None,
                    "note": each.note,
                }
                for each in self.window
            ],
            "changes": [
                {"what": each.what, "condition": each.condition + 1, "now": each.now, "then": each.then}
                | ({"below": True} if each.below else {})
                for each in self.changes
            ],
        }

    # -- for people ----------------------------------------------------------------------------------------------------

    def text(self, events: int | None = SHOWN_EVENTS) -> str:
        """For a terminal; `events`: how many of the window's newest; None: all."""
        lines = [self.said, *self._about()]
        if self.conditions:
            lines += ["", text_table(*self._conditions_table())]
        if self.window:
            header, rows = self._window_table(len(self.window) if events is None else events)
            left_out = len(self.window) - len(rows)
            more = [say("… and {count} earlier events", count=f"{left_out:,}")] if left_out else []
            lines += ["", text_table(header, rows), *more]
        if self.changes:
            lines += ["", say(CHANGES)]
            lines += [f"  {each.text()}" for each in self.changes]
        text = escape_control_characters("\n".join(lines), keep="\n")
        return "\n".join(line.rstrip() for line in text.split("\n"))

    def _about(self) -> list[str]:
        about = []
        if self.rule:
            about.append(f"{self.rule.rule_id} v{self.rule.version}: {readable_rule_summary(self.rule)}")
        if self.withdrawn:
            about.append(say("The event was taken back later, so the alert is withdrawn."))
        return about

    def _conditions_table(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                f"({number})",
                each.condition.describe(),
                _number(each.measured.aggregate),
                f"{operator_symbol(each.measured.operator)} {_number(each.measured.limit)}",
                say("holds") if each.holds else say("does not hold"),
            ]
            for number, each in enumerate(self.conditions, 1)
        ]
        return ["", say("condition"), say("value"), say("limit"), ""], rows

    def _window_table(self, at_most: int) -> tuple[list[str], list[list[str]]]:
        rule = self.rule
        assert rule, "a window is of a rule"
        known = {*rule.keys}
        names = [name for name in rule.field_names if name not in known][:SHOWN_FIELDS]
        numbers = [f"({number})" for number, _ in enumerate(self.conditions, 1)]
        rows = [
            [
                _cell(each.id),
                utc_text(each.time),
                *(_cell(each.fields.get(name)) for name in names),
                *(map(_number, each.so_far) if each.so_far else [""] * len(numbers)),
                each.note,
            ]
            for each in self.window[-at_most:]
        ]
        return [say("event"), say("time (UTC)"), *names, *numbers, ""], rows

    def _repr_html_(self) -> str:
        return f"<p>{escape(escape_control_characters(self.said))}</p>{self.html()}"

    def html(self, picture: bool = True) -> str:
        """All but `said` for a page, escaped; `picture`: with one of how the first condition's value builds up."""
        parts = [f"<p>{escape(escape_control_characters(line))}</p>" for line in self._about()]
        if self.conditions:
            parts.append(html_table(say("Conditions"), *self._conditions_table()))
        if self.window:
            parts += [self._picture()] * picture
            parts.append(html_table(say("Events in the window"), *self._window_table(SHOWN_EVENTS)))
        if self.changes:
            parts.append(f"<p>{say(CHANGES)}</p>")
            parts.append(f"<ul>{''.join(f'<li>{escape(each.text())}</li>' for each in self.changes)}</ul>")
        return "".join(parts)

    def _picture(self, width: int = 560, height: int = 120) -> str:
        """The first condition's value as it builds up, each event as a bar, and the limit."""
        known = [each for each in self.window if each.so_far and each.so_far[0] is not None]
        if not known or not self.conditions:
            return ""
        limit = self.conditions[0].measured.limit
        values = [float(each.so_far[0] or 0) for each in known]
        top = max([*values, float(limit or 0)], key=abs) or 1.0
        first, last = known[0].time, known[-1].time

        def x(time: int) -> float:
            return 10 + (width - 20) * (time - first) / max(last - first, 1)

        def y(value: float) -> float:
            return height - 10 - (height - 20) * max(min(value / top, 1.0), 0.0)

        steps = " ".join(
            f"{'H' if n else 'M'}{x(each.time):.1f}{' ' if not n else 'V'}{y(value):.1f}"
            for n, (each, value) in enumerate(zip(known, values))
        )
        bars = "".join(
            f'<path d="M{x(each.time):.1f} {height - 10}v-8" stroke="{GREY}" stroke-width="3"/>'
            for each in known
        )
        line = (
            ""
            if limit is None
            else f'<path d="M10 {y(float(limit)):.1f}H{width - 10}" stroke="{ORANGE}" stroke-dasharray="6 4"/>'
        )
        name = escape(escape_control_characters(self.conditions[0].condition.describe()))
        return (
            f'<svg role="img" aria-label="{name}" width="{width}" height="{height}" fill="none">'
            f'{bars}{line}<path d="{steps}" stroke="{BLUE}" stroke-width="2"/></svg>'
        )


def _number(value: Decimal | None) -> str:
    return "–" if value is None else f"{value:,f}"


def _cell(value: object) -> str:
    text = "–" if value is None else plain_text(value) if isinstance(value, Decimal) else str(value)
    return shorten(escape_control_characters(text), SHOWN_CELL)


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    return plain_text(value) if isinstance(value, Decimal) else value
