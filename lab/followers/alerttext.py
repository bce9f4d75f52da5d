"""Alerts as lines of text for people, in a terminal and in chats."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any
from unicodedata import normalize

from lab.model.aggregation import MeasuredCondition
from lab.model.alerts import Alert, Withdrawal, event_id_text, utc_text
from lab.model.formatting import escape_control_characters, plain_text, shorten
from lab.model.rules import RuleBook
from lab.model.times import duration_words
from lab.running.target import Target, Usage

TITLE = 20  # characters that a title keeps in a short line, however long the facts are
AGAIN_S = 30.0  # how soon after it could not be read
RULE_UNKNOWN = "0 EQUAL 0, as when nothing came in time"  # the rule is not in the control log
DOTS = ".\u3002\uff61"  # that separate the parts of a host's name
# full-width and small forms of these, and a leader of one dot; other signs of these kinds are people's own words
OTHER_FORMS = re.compile("[\uff20\ufe6b\uff0e\ufe52\u2024\uff1a\ufe55\ufe13\uff0f\uff1c\uff1e\ufe64\ufe65]")
LOOK_S = 1.0  # how often the control log is read for the rules of alerts


def describe_alert(
    alert: Alert | Withdrawal,
    nothing_came: str = "",
    clean: Callable[[str], str] = str,
    at_most: int | None = None,
) -> str:
    """An alert in a line of text, or that alerts are withdrawn.

    `nothing_came`: what to say in place of the value of an alert of `absence`. `clean` makes each part safe. `at_most`:
    characters of the line; the title is cut first, then the longest parts.

    >>> from decimal import Decimal
    >>> from lab.model.attributes import carried
    >>> alert = Alert(1, 2, "{host=a}", Decimal(51), "GREATER", Decimal(50), 7, 0, carried=carried(title="Too many requests of one host"))
    >>> describe_alert(alert)
    '1970-01-01 00:00:00.000  rule 1 v2  Too many requests of one host  {host=a}  51 GREATER 50  event 7'
    >>> describe_alert(alert, at_most=90)
    '1970-01-01 00:00:00.000  rule 1 v2  Too many requests o…  {host=a}  51 GREATER 50  event 7'
    """
    if isinstance(alert, Withdrawal):
        event = f"at event {event_id_text(alert.event_id)}, which was taken back"
        parts = [f"{utc_text(alert.event_time)}  withdrawn: the alerts of", clean(alert.key), clean(event)]
        return " ".join(parts if at_most is None else _fitted(parts, at_most - 2))
    took = "" if alert.log_to_alert_ms is None else f"{alert.log_to_alert_ms:5} ms"
    measured = ", ".join(map(_describe_condition, measured_conditions(alert)))
    event = f"event {event_id_text(alert.event_id)}"
    facts = [
        utc_text(alert.event_time),
        f"rule {alert.rule_id} v{alert.rule_version}",
        alert.carries("severity") or "",
    ]
    facts = [*facts, alert.key, nothing_came or measured, event, took]
    facts, title = [clean(fact) for fact in facts], clean(alert.carries("title") or "")
    if at_most is not None:
        room = at_most - 2 * (sum(map(bool, facts)) - 1)
        if title:
            room -= 2
        facts = _fitted(facts, room - min(len(title), TITLE))
        title = shorten(title, room - sum(map(len, facts)))
    return "  ".join(filter(None, (*facts[:3], title, *facts[3:])))


def measured_conditions(alert: Alert) -> Sequence[MeasuredCondition]:
    """All conditions of an alert's rule, also of one that has only one.

    >>> from decimal import Decimal
    >>> measured_conditions(Alert(1, 2, "{}", Decimal(51), "GREATER", Decimal(50), 7, 0))
    (MeasuredCondition(aggregate=Decimal('51'), operator='GREATER', limit=Decimal('50')),)
    """
    return alert.conditions or (alert.own_condition,)


def _describe_condition(condition: MeasuredCondition) -> str:
    aggregate, limit = (
        "no value" if value is None else plain_text(value) for value in (condition.aggregate, condition.limit)
    )
    return f"{aggregate} {condition.operator} {limit}"


def _fitted(parts: Sequence[str], at_most: int) -> list[str]:
    """Some texts with at most so many characters in all: the longest are cut, all to the same length."""
    left, most = at_most, at_most
    for n, length in enumerate(sorted(map(len, parts))):
        most = left // (len(parts) - n)
        if length > most:
            return [shorten(part, most) for part in parts]
        left -= length
    return list(parts)


def sanitize_text(text: str) -> str:
    """Makes untrusted text safe for a chat: no mentions, no links, no control characters.

    Signs that programs take for others are treated like them, such as a full-width @ or the dots that names of hosts may have.

    >>> sanitize_text("@channel <!here> http://x www.example.com 1.5").replace("\u200b", "|")
    '@|channel ‹!here› http:|//x www.|example.|com 1.5'
    """
    text = OTHER_FORMS.sub(lambda found: normalize("NFKC", found[0]), escape_control_characters(text))
    for sign, instead in (("@", "@\u200b"), ("://", ":\u200b//"), ("<", "‹"), (">", "›")):
        text = text.replace(sign, instead)
    # a chat makes a link of a bare name of a host, too
    return re.sub(rf"([{DOTS}])(?=[^\W\d_])", "\\1\u200b", text)


class AbsenceRules:
    """The rules with `absence` in the control log of an engine, to say what did not come: their alerts do not have the window.

    It reads the control log only if an alert may be one of them. Where it does not find the alert's rule, it says what the alert may mean.
    """

    def __init__(self, target: Target):
        self._target = target
        self._tail: Any = None
        self._book: RuleBook | None = None
        self._said: dict[tuple[int, int], str] = {}  # of each version of a rule with `absence`
        self._next_look = 0.0

    def describe(self, alert: Alert | Withdrawal) -> str:
        """What did not come, such as `nothing came within 15 min`; "" if the alert is of no rule with `absence`."""
        if isinstance(alert, Withdrawal) or alert.own_condition != (0, "EQUAL", 0):
            return ""
        version = alert.rule_id, alert.rule_version
        if version not in self._said and time.monotonic() >= self._next_look:
            self._look()
        if version in self._said:
            return self._said[version]
        if not self._book or alert.rule_id not in self._book.versions:
            return RULE_UNKNOWN
        # a topic that has let older messages go has fewer versions than the engine counted: the newest is the best guess
        newest = self._book.versions.get(alert.rule_id, 0)
        return self._said.get((alert.rule_id, newest), "") if newest < alert.rule_version else ""

    def close(self) -> None:
        if self._tail:
            self._tail.close()

    def _look(self) -> None:
        try:
            if not (self._tail and self._book):
                self._book = RuleBook(self._target.effective_schema)
                self._tail = self._target.logs.existing("control").tail()
            records = self._tail.records()
        except (OSError, ValueError, Usage):  # there is none, or it does not answer
            self._next_look = time.monotonic() + AGAIN_S
            return
        self._next_look = time.monotonic() + LOOK_S
        for record in records:
            ack = self._book.apply(record.line)
            rule = self._book.rules.get(ack.get("ruleId", 0))
            if rule and rule.absence:
                what = "nothing that counts" if rule.aggregation.where or rule.filter else "nothing"
                self._said[rule.rule_id, rule.version] = (
                    f"{what} came within {duration_words(rule.aggregation.window_ms)}"
                )
