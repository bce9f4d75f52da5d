"""Turns the alerts of rules with an action into restrictions.

    control + acks ──► which rule a version is ─┐
    alerts ─────────────────────────────────────┴─► Decider ──► restrictions, restrictionDeadLetters

It reads its logs from the beginning, and does not repeat what the restriction log already contains. It follows that log, too: of a
restriction that somebody has lifted, nothing goes into the next one.
"""

from collections import defaultdict
from contextlib import ExitStack, closing
from typing import Self

from lab.logs.positions import Record
from lab.logs.reading import AT_ONCE, parse_records, print_expired
from lab.model.alerts import Alert, Withdrawal, parse_alert_line
from lab.model.deadletters import dead_letter
from lab.model.rules import BadRule, Message, Rule, parse_message
from lab.model.schema import Schema
from lab.model.statuslines import parse_ack, parse_dead_letter
from lab.restrict.restrictions import Restriction, Subject
from lab.restrict.standing import BadQuestion, Restrictions, apply_new_messages, comparable

DEAD_LETTERS = "restrictionDeadLetters"  # the log of dead letters
POLL_S = 0.02  # how often it looks for new records
WAITING = 100_000  # alerts of rule versions without an acknowledgement so far


class Decider:
    """Reads the logs of an engine and writes their restriction log.

    Invalid lines, alerts that do not have the group of their rule, and alerts of rules that this schema does not have, become dead letters in the
    log `restrictionDeadLetters`, with place and reason. `dead_letters`: the number of dead letters in that log.
    """

    def __init__(self, logs, schema: Schema):
        self._schema, self._log, self._logs = schema, logs.log("restrictions"), logs
        self._letters_log = logs.log(DEAD_LETTERS)
        # place in the control log -> message, or why it cannot be read; an acknowledgement may come again
        self._messages: dict[str, Message | str] = {}
        self._newest: dict[int, Rule] = {}  # rule id -> its latest definition
        self._rules: dict[tuple[int, int], Rule] = {}  # rule id, version
        self._unknown: dict[tuple[int, int], str] = {}  # versions of which there is no rule, and why
        self._waiting: dict[tuple[int, int], list[tuple[Record, Alert]]] = defaultdict(list)
        self._letters: dict[str, str] = {}  # place -> dead letter that has not been written yet
        self._lettered: set[str] = set()  # places of the dead letters that have been written

    @property
    def dead_letters(self) -> int:
        return len(self._lettered)

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(closing(self._log))
            opened.enter_context(closing(self._letters_log))
            tails = (
                opened.enter_context(closing(self._logs.log(name).tail()))
                for name in ("control", "acks", "alerts", "restrictions")
            )
            self._control, self._acks, self._alerts, self._restrictions = tails
            self._letters_log.create()
            with closing(self._letters_log.tail()) as letters:
                written = parse_records(letters.records(), parse_dead_letter, lambda record, reason: None)
                self._lettered = {letter["place"] for _, letter in written}
            self._said = Restrictions()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def write_new_restrictions(self) -> int:
        """Processes the new records of its logs, AT_ONCE alerts at most, and returns the number of restrictions that it wrote."""
        # before the acknowledgements that name their versions
        alerts = self._alerts.records(AT_ONCE)
        print_expired(self._alerts)
        acks = self._acks.records()
        for record in self._control.records():
            self._take_message(record)
        apply_new_messages(self._said, self._restrictions, self._bad)
        decided: dict[str, Restriction] = {}
        for _, ack in parse_records(acks, parse_ack, self._bad):
            if named := self._take_ack(ack):
                for record, alert in self._waiting.pop(named, ()):
                    self._decide(record, alert, decided)
        for record, line in parse_records(alerts, parse_alert_line, self._bad):
            if isinstance(line, Withdrawal):  # the restriction stays until somebody lifts it
                continue
            named = line.rule_id, line.rule_version
            if named in self._rules:
                self._decide(record, line, decided)
                continue
            if named in self._unknown:
                self._bad(record, self._unknown[named])
            self._waiting[named].append((record, line))
        self._wait_no_longer()
        if decided:
            self._log.publish([each.to_json() for each in decided.values()], list(decided))
        if self._letters:
            self._letters_log.publish(list(self._letters.values()), list(self._letters))
            self._lettered |= self._letters.keys()
            self._letters = {}
        return len(decided)

    def _take_message(self, record: Record) -> None:
        try:
            self._messages[record.place] = parse_message(record.line, self._schema)
        except BadRule as error:  # unless the schema is another one, the engine rejects it
            self._messages[record.place] = str(error)

    def _take_ack(self, ack: dict) -> tuple[int, int] | None:
        """The rule id and version that an acknowledgement names, if the control log has the rule."""
        if "ruleId" not in ack or "version" not in ack:  # versions of lists are no rules
            return None
        named = rule_id, version = ack["ruleId"], ack["version"]
        message = self._messages.get(ack["place"])
        if isinstance(message, Message) and message.rule_id == rule_id:
            if message.rule:
                self._newest[rule_id] = message.rule
            if rule := self._newest.get(rule_id):
                self._rules[named] = rule
                return named
        if named not in self._rules:
            why = message if isinstance(message, str) else f"{ack['place']} does not have its definition"
            self._unknown[named] = f"version {version} of rule {rule_id} is not known here: {why}"
            for record, _ in self._waiting.get(named, ()):
                self._bad(record, self._unknown[named])
        return None

    def _bad(self, record: Record, reason: str) -> None:
        if record.place not in self._lettered:
            key = record.key.encode() if record.key else None
            letter = dead_letter(reason, record.place, record.line.encode(), record.log_time_ms, key)
            self._letters[record.place] = letter

    def _wait_no_longer(self) -> None:
        """Makes dead letters of the alerts that have waited longest, if too many wait."""
        waiting = sum(map(len, self._waiting.values()))
        while waiting > WAITING:
            (rule_id, version), alerts = next(iter(self._waiting.items()))
            for record, _ in alerts:
                self._bad(record, f"no acknowledgement names version {version} of rule {rule_id}")
            waiting -= len(self._waiting.pop((rule_id, version)))

    def _decide(self, record: Record, alert: Alert, decided: dict[str, Restriction]) -> None:
        """Adds the alert's restriction to `decided`, if it changes anything."""
        rule = self._rules[alert.rule_id, alert.rule_version]
        if not rule.action:
            return
        if (subject := subject_of(alert, rule.keys, self._schema)) is None:
            self._bad(
                record, f"its `group` is not one of its rule, expected values of {', '.join(rule.keys)}"
            )
            return
        start = alert.event_time if alert.log_time is None else alert.log_time
        made = Restriction(
            rule.action,
            subject,
            start,
            start + rule.ttl_ms,
            rule_id=rule.rule_id,
            rule_version=alert.rule_version,
            alert_id=alert.alert_id,
        )
        if self._said.apply(made):
            decided[made.key] = made


def subject_of(alert: Alert, names: tuple[str, ...], schema: Schema) -> Subject | None:
    """The fields of an alert's group with their values, of the schema's types.

    None if the alert's `group` has other fields, or values of other types; its `key` is a text for people.

    >>> from decimal import Decimal
    >>> from lab.model.schema import PAYMENTS
    >>> alert = Alert(1, 1, "{payeeId=7}", Decimal(3), ">", Decimal(2), 1, 0, group=(("paymentAmount", "2.50"), ("payeeId", 7)))
    >>> subject_of(alert, ("payeeId", "paymentAmount"), PAYMENTS)
    (('payeeId', 7), ('paymentAmount', Decimal('2.50')))
    """
    group = dict(alert.group)
    if group.keys() != set(names):
        return None
    try:
        return tuple(
            (name, comparable(name, group[name], schema.field(name).is_number_or_time))
            for name in sorted(names)
        )
    except BadQuestion:
        return None
