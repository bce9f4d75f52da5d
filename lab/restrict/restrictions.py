"""Restrictions, and the messages of a restriction log.

    {"action": "block_login", "subject": {"userId": 7}, "from": 1000, "until": 61000, "ruleId": 1, "ruleVersion": 2, …}
    {"action": "block_login", "subject": {"userId": 7}, "lift": 5000, "by": "ann"}

A lift ends the restrictions of its action and subject that began before it or at the same time; of the others, the latest `until`
applies. If the attack continues, the next alert restricts again. So repeated or reordered messages change nothing, and a compacted
log, which keeps the last restriction of each duration and the last lift of an action and subject, has the same meaning.
Times are in ms since the epoch. A value of a subject is a number if the schema's field is one, otherwise a text.
"""

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from lab.model.formatting import plain_text, short_json
from lab.model.jsontext import is_valid_unicode, parse_json_object
from lab.model.rules import ACTIONS
from lab.model.schema import MAX_TIME

FORBIDS = {  # action of a restriction -> the actions of events that it forbids
    "block_login": ("login", "login_failed", "password_reset"),
    "hold_payment": ("payment",),
    "notify": (),
}
KNOWN = tuple(action for forbidden in FORBIDS.values() for action in forbidden)  # actions of events
MAX_BYTES = 1 << 20  # a record; the longest group takes 400 kB
MAX_DIGITS = 40  # of a number, before and after the point
END_OF_TIME = 2 * MAX_TIME  # ms since the epoch: later than the last event and the longest restriction

Atom = int | Decimal | str
Subject = tuple[tuple[str, Atom], ...]  # fields and their values, sorted by field


class BadRestriction(ValueError):
    """An invalid message of a restriction log; the text says why."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """A restriction of a subject, in force until `until`. A lifted one has neither `start` nor `until`.

    >>> one = Restriction("block_login", (("userId", 7),), start=1_000, until=61_000, rule_id=1, rule_version=2)
    >>> parse_restriction(one.to_json()) == one, one.is_in_force(60_999), one.is_in_force(61_000)
    (True, True, False)
    """

    action: str
    subject: Subject
    start: int = -1
    until: int = 0
    lifted: int = -1
    rule_id: int | None = None
    rule_version: int | None = None
    alert_id: str = ""
    by: str = ""

    @property
    def key(self) -> str:
        """The key of the message in a compacted log.

        A lift replaces no restriction, and a restriction only one that lasts as long: of these, the later one ends later.
        """
        which = "lift" if self.is_lifted else self.until - self.start
        return f"[{json.dumps(self.action)}, {subject_json(self.subject)}, {json.dumps(which)}]"

    @property
    def is_lifted(self) -> bool:
        """Whether it began before it was lifted, or at the same time."""
        return self.start <= self.lifted

    def is_in_force(self, now_ms: int) -> bool:
        """Whether it forbids its actions now."""
        return now_ms < self.until

    def to_json(self) -> str:
        """The message for the log: a lift if it is lifted, otherwise a restriction."""
        said: dict[str, Any] = {"lift": self.lifted, "by": self.by}
        if not self.is_lifted:
            said = {"from": self.start, "until": self.until, "ruleId": self.rule_id}
            said |= {"ruleVersion": self.rule_version, "alertId": self.alert_id}
        about = f'"action": {json.dumps(self.action)}, "subject": {subject_json(self.subject)}'
        return f"{{{about}, {json.dumps(said)[1:]}"


def subject_json(subject: Subject) -> str:
    """A subject as JSON; decimals are numbers with all their digits.

    >>> subject_json((("amount", Decimal("12.50")), ("ip", "x")))
    '{"amount": 12.50, "ip": "x"}'
    """
    members = (
        f"{json.dumps(name)}: {json.dumps(value) if isinstance(value, str) else plain_text(value)}"
        for name, value in subject
    )
    return f"{{{', '.join(members)}}}"


def parse_restriction(text: str) -> Restriction:
    """Parses a message of a restriction log. Raises BadRestriction."""
    if len(text) > MAX_BYTES:
        raise BadRestriction(f"{len(text):,} characters, expected at most {MAX_BYTES:,}")
    try:
        said = parse_json_object(text)
        action, subject = said["action"], tuple(sorted(said["subject"].items()))
        texts = [name for name, _ in subject] + [said.get(name, "") for name in ("by", "alertId")]
        if action not in ACTIONS or not all(map(_is_text, texts)):
            raise ValueError("its action or a text")
        if not all(_is_text(value) or is_short_number(value) for _, value in subject):
            raise ValueError(
                f"a value of its subject, expected texts and numbers of at most {MAX_DIGITS} digits"
            )
        if not subject and action != "notify":
            raise ValueError("its subject, expected a field: without one it would be for everybody")
        if "lift" in said:
            return Restriction(action, subject, lifted=_time(said["lift"]), by=said["by"])
        rule_id, version = said.get("ruleId"), said.get("ruleVersion")
        if not all(number is None or type(number) is int for number in (rule_id, version)):
            raise ValueError("the rule's numbers")
        start, until = _time(said["from"]), _time(said["until"])
        return Restriction(
            action,
            subject,
            start,
            until,
            rule_id=rule_id,
            rule_version=version,
            alert_id=said.get("alertId", ""),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadRestriction(f"not a restriction ({error!r}): {short_json(text)}") from None


def _time(value: object) -> int:
    if type(value) is not int or not -1 <= value < END_OF_TIME:
        raise ValueError(f"a time, which is {short_json(value)}")
    return value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_valid_unicode(value)


def is_short_number(value: object) -> bool:
    """Whether a JSON value is a number of at most 40 digits before and after the point."""
    if type(value) is int:
        return abs(value) < 10**MAX_DIGITS
    if not isinstance(value, Decimal) or not value.is_finite():
        return False
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -MAX_DIGITS and value.adjusted() < MAX_DIGITS
