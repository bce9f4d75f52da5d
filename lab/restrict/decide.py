"""Turns alerts into restrictions: those of rules that name an action.

    control + acks ──► which rule a version is ─┐
    alerts ─────────────────────────────────────┴─► Decider ──► restrictions

It starts from the beginning of its logs; what the restriction log has already, it does not say again.
"""

import json
import re
from collections import deque
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Self

from lab.model.alerts import MAX_KEY, Alert
from lab.model.rules import BadRule, Message, Rule, parse_message
from lab.model.schema import Schema
from lab.restrict.restrictions import Restriction, folded

POLL_S = 0.02  # how often its logs are looked at
WAITING = 100_000  # alerts of versions that no acknowledgement has named yet


class Decider:
    """Reads the logs of an engine and writes their restriction log.

    `skipped`: alerts whose group cannot be told from its text, so nobody is restricted.
    """

    def __init__(self, logs, schema: Schema):
        self._schema, self._log, self._logs = schema, logs.log("restrictions"), logs
        self._messages: dict[str, Message] = {}  # place in the control log -> message
        self._newest: dict[int, Rule] = {}  # rule id -> as it was defined last
        self._rules: dict[tuple[int, int], Rule] = {}  # rule id, version
        self._waiting: deque[Alert] = deque(maxlen=WAITING)
        self.skipped = 0

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(closing(self._log))
            tails = (
                opened.enter_context(closing(self._logs.log(name).tail()))
                for name in ("control", "acks", "alerts")
            )
            self._control, self._acks, self._alerts = tails
            self._said = folded(self._log)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def step(self) -> int:
        """Takes in what came since the last call, and returns how many restrictions it wrote."""
        # before the answers that name their versions
        alerts = [Alert.from_json(line) for line in self._alerts.read()]
        acks = self._acks.records()
        for record in self._control.records():
            self._take_message(record.place, record.line)
        for record in acks:
            self._take_ack(json.loads(record.line))
        decided: dict[str, Restriction] = {}
        waiting, self._waiting = [*self._waiting, *alerts], deque(maxlen=WAITING)
        for alert in waiting:
            if rule := self._rules.get((alert.rule_id, alert.rule_version)):
                if made := self._restriction(rule, alert):
                    decided[made.key] = made
            else:
                self._waiting.append(alert)
        if decided:
            self._log.publish([each.to_json() for each in decided.values()], list(decided))
        return len(decided)

    def _take_message(self, place: str, line: str) -> None:
        try:
            self._messages[place] = parse_message(line, self._schema)
        except BadRule:  # it will be rejected
            return

    def _take_ack(self, ack: dict) -> None:
        message = self._messages.pop(ack["place"], None)
        if message is None or "version" not in ack:
            return
        if message.rule:
            self._newest[message.rule_id] = message.rule
        if rule := self._newest.get(message.rule_id):
            self._rules[message.rule_id, ack["version"]] = rule

    def _restriction(self, rule: Rule, alert: Alert) -> Restriction | None:
        """What the alert adds to what was said; None if nothing."""
        if not rule.action:
            return None
        if (group := group_of(alert.key, rule.keys)) is None:
            self.skipped += 1
            return None
        start = alert.event_time if alert.log_time is None else alert.log_time
        subject = tuple(sorted(group.items()))
        implied = Restriction(
            rule.action,
            subject,
            start,
            start + rule.ttl_ms,
            rule_id=rule.rule_id,
            rule_version=alert.rule_version,
            alert_id=alert.alert_id,
        )
        before = self._said.get(rule.action, subject)
        after = before.merged(implied)
        if (after.start, after.until) == (before.start, before.until):
            return None
        self._said.apply(implied)
        return replace(after, lifted=-1)


def group_of(key: str, names: tuple[str, ...]) -> dict[str, str] | None:
    """The fields of an alert's group and their values; None if the text may be read in two ways, or was cut.

    >>> group_of("{userId=7;ip=203.0.113.5}", ("userId", "ip"))
    {'userId': '7', 'ip': '203.0.113.5'}
    >>> group_of("{device=x;ip=1;ip=2}", ("device", "ip"))
    """
    if len(key) > MAX_KEY:
        return None
    parts = ";".join(f"{re.escape(name)}=(.*)" for name in names)
    longest_first = re.fullmatch(r"\{" + parts + r"\}", key, re.DOTALL)
    shortest_first = re.fullmatch(r"\{" + parts.replace("(.*)", "(.*?)") + r"\}", key, re.DOTALL)
    if not longest_first or longest_first.groups() != shortest_first.groups():
        return None
    return dict(zip(names, longest_first.groups()))
