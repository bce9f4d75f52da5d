"""What comes out: alerts, each naming the rule version that fired, its group, and the event it fired at."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from lab.model.aggregation import MeasuredCondition, operator_symbol
from lab.model.attributes import Carries, carried_attributes, carried_members
from lab.model.field import Id, Value
from lab.model.formatting import html_table, plain_text, short_json
from lab.model.group import Group, group_hash, group_json, sorted_group
from lab.model.jsontext import compact_json, is_valid_unicode
from lab.model.language import say
from lab.model.schema import MAX_TIME

MAX_ROWS_SHOWN = 50

LATEST = 2 * MAX_TIME  # ms since the epoch: a log time may be later than any event's
LEAST, MOST = -(1 << 63), (1 << 63) - 1
DECIMAL = re.compile(r"-?[0-9]{1,100}(\.[0-9]{1,100})?")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Alert(Carries):
    """An alert: one rule held at one event; the Flink demo's `com.ververica.field.dynamicrules.Alert`.

    Times are in ms since the epoch. On live logs only, `log_time` says when the event reached the log and
    `alert_time` when the alert left the engine. `event_id` is a tuple where several fields are the id. `key` is the
    demo's text, for people; `group` is what programs read, () the global group.
    `carried` is that of the rule. Of a rule with several conditions `aggregate`, `operator` and `limit`
    are those of the first that holds, and `conditions` has all. `event`: the fields of its event that the rule wants in its alerts.

    >>> group = (("payeeId", 25),)
    >>> alert = Alert(1, 2, "{payeeId=25}", Decimal("50.10"), "GREATER", Decimal(50), 7, 1356998400000, group=group)
    >>> alert.alert_id
    '1.2.7.1356998400000.7fbfe0f06a58ed01f5ef2f14e7995139'
    >>> Alert.from_json(alert.to_json()) == alert
    True
    """

    rule_id: int
    rule_version: int
    key: str
    aggregate: Decimal
    operator: str
    limit: Decimal
    event_id: Id
    event_time: int
    log_time: int | None = None
    alert_time: int | None = None
    group: Group = ()
    carried: tuple[tuple[str, Any], ...] = ()
    conditions: tuple[MeasuredCondition, ...] = ()
    event: tuple[tuple[str, int | str | None], ...] = ()

    @property
    def alert_id(self) -> str:
        """The same for the same rule version, group, event id and time, whichever run computes it; another for any other."""
        group = group_hash(group_json(self.group))
        return f"{self.rule_id}.{self.rule_version}.{event_id_text(self.event_id)}.{self.event_time}.{group}"

    def to_json(self) -> str:
        """One line of ASCII JSON; decimals as strings in plain notation, the log's times only when set."""
        log_time = "" if self.log_time is None else f',"logTime":{self.log_time}'
        alert_time = "" if self.alert_time is None else f',"alertTime":{self.alert_time}'
        return (
            f'{{"alertId":{json.dumps(self.alert_id)},"ruleId":{self.rule_id},"ruleVersion":{self.rule_version},'
            f'"key":{json.dumps(self.key)},"group":{group_json(self.group)},"aggregate":"{plain_text(self.aggregate)}","operator":{json.dumps(self.operator)},'
            f'"limit":"{plain_text(self.limit)}"{conditions_member(self.conditions)}{carried_members(self)}{event_member(self.event)},"eventId":{compact_json(self.event_id)},"eventTime":{self.event_time}'
            f"{log_time}{alert_time}}}"
        )

    @property
    def own_condition(self) -> MeasuredCondition:
        """What it says of the condition that raised it: of several, the first that held."""
        return MeasuredCondition(self.aggregate, self.operator, self.limit)

    @property
    def log_to_alert_ms(self) -> int | None:
        """How long after its event was logged the alert was made; None unless both times are known."""
        return None if self.log_time is None or self.alert_time is None else self.alert_time - self.log_time

    @classmethod
    def from_json(cls, text: str | bytes) -> "Alert":
        """The alert that `to_json` wrote. Raises ValueError when a name is missing or a value is not of its type.

        Anybody may have written the line, so nothing in it is taken for granted.
        """
        try:
            given = json.loads(text)
            if not isinstance(group := given.get("group"), dict):
                raise TypeError("expected a group, an object of fields and their values")
            alert = cls(
                given["ruleId"],
                given["ruleVersion"],
                given["key"],
                _decimal(given["aggregate"]),
                given["operator"],
                _decimal(given["limit"]),
                tuple(given["eventId"]) if isinstance(given["eventId"], list) else given["eventId"],
                given["eventTime"],
                given.get("logTime"),
                given.get("alertTime"),
                tuple(group.items()),
                tuple(
                    (name, kind.from_alert(given[name]))
                    for name, kind in carried_attributes()
                    if given.get(name) not in (None, {}, "")
                ),
                tuple(
                    MeasuredCondition(
                        _optional(each["aggregate"]), each["operator"], _optional(each["limit"])
                    )
                    for each in given.get("conditions", ())
                ),
                tuple(given.get("event", {}).items()),
            )
            alert._check()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"not an alert ({type(error).__name__}: {short_json(str(error))}): {short_json(text)}"
            ) from None
        return alert

    def _check(self) -> None:
        """Raises ValueError for a value of another type than `to_json` writes."""
        if not all(
            type(number) is int and 0 < number <= MOST for number in (self.rule_id, self.rule_version)
        ):
            raise ValueError("expected positive integers of 64 bit for ruleId and ruleVersion")
        times = (self.event_time, *(time for time in (self.log_time, self.alert_time) if time is not None))
        if not all(type(time) is int and 0 <= time < LATEST for time in times):
            raise ValueError(f"expected times from 0 to {LATEST - 1} ms since the epoch")
        ids = self.event_id if isinstance(self.event_id, tuple) else (self.event_id,)
        if not ids or not all(map(_is_value, (*ids, *(part for pair in self.group for part in pair)))):
            raise ValueError("expected integers and texts in eventId and group")
        if not all(map(_is_text, (self.key, self.operator, *(each.operator for each in self.conditions)))):
            raise ValueError("expected texts for key and operator")
        if not all(_is_text(name) and (value is None or _is_value(value)) for name, value in self.event):
            raise ValueError("expected integers, texts and nulls in event")

    def _repr_html_(self) -> str:
        return AlertTable([self])._repr_html_()


@dataclass(frozen=True)
class Withdrawal:
    """The event at which alerts were given was taken back: those with its `eventId`, `eventTime` and `group`.

    A line of the log of alerts, after them; an alert after this line stands. `log_time` and `alert_time` of the record that
    took it back, as of an alert.

    >>> Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1356998400000).to_json()
    '{"withdrawn":true,"key":"{payeeId=25}","group":{"payeeId":25},"eventId":7,"eventTime":1356998400000}'
    """

    key: str
    group: Group
    event_id: Id
    event_time: int
    log_time: int | None = None
    alert_time: int | None = None

    def to_json(self) -> str:
        """One line of ASCII JSON, with the names of an alert."""
        fields = {"withdrawn": True, "key": self.key, "group": dict(self.group)}
        fields |= {"eventId": self.event_id, "eventTime": self.event_time}
        times = {"logTime": self.log_time, "alertTime": self.alert_time}
        return compact_json(fields | {name: time for name, time in times.items() if time is not None})


WITHDRAWN_LINE = '{"withdrawn":true,'


def parse_alert_line(text: str) -> Alert | Withdrawal:
    """A line of the log of alerts, as the engine wrote it. Raises ValueError, also for the line of somebody else.

    >>> parse_alert_line(Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1356998400000).to_json()).event_id
    7
    """
    if not text.startswith(WITHDRAWN_LINE):
        return Alert.from_json(text)
    try:
        given = json.loads(text)
        # what an alert at this event would be says whether all is of the right type
        alert = Alert.from_json(
            compact_json(
                given | {"ruleId": 1, "ruleVersion": 1, "aggregate": "0", "operator": "", "limit": "0"}
            )
        )
        withdrawal = Withdrawal(
            alert.key, alert.group, alert.event_id, alert.event_time, alert.log_time, alert.alert_time
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"not a withdrawn alert ({short_json(str(error))}): {short_json(text)}") from None
    return withdrawal


class AlertTable(list[Alert]):
    """A list of alerts, the newest last, that a notebook shows as a table.

    >>> AlertTable([Alert(1, 1, "{}", Decimal(4), "GREATER", Decimal(3), 7, 0)]).by_rule()
    Counter({1: 1})
    """

    def by_rule(self) -> Counter[int]:
        """How many alerts each rule id gave."""
        return Counter(alert.rule_id for alert in self)

    def _repr_html_(self) -> str:
        """The newest alerts, and how many more there are."""
        rows = [
            (
                alert.rule_id,
                alert.rule_version,
                alert.key,
                f"{alert.aggregate:,f} {operator_symbol(alert.operator)} {alert.limit:,f}",
                event_id_text(alert.event_id),
                utc_text(alert.event_time),
            )
            for alert in self[-MAX_ROWS_SHOWN:]
        ]
        more = len(self) - len(rows)
        note = f"<p>{say('{count} earlier alerts are not shown.', count=more)}</p>" if more else ""
        header = (
            say("rule"),
            say("version"),
            say("group"),
            say("value"),
            say("event"),
            say("event time (UTC)"),
        )
        return note + html_table(say("Alerts"), header, rows)


def event_for_alert(
    names: Iterable[str], event: Mapping[str, Value]
) -> tuple[tuple[str, int | str | None], ...]:
    """Fields of an event as alerts carry them: values as in events, decimals as text.

    >>> event_for_alert(("amount", "ip"), {"amount": Decimal("2.50"), "ip": None})
    (('amount', '2.50'), ('ip', None))
    """
    values = ((name, event[name]) for name in names)
    return tuple((name, plain_text(value) if isinstance(value, Decimal) else value) for name, value in values)


def event_member(event: Iterable[tuple[str, int | str | None]]) -> str:
    """The member `event` of an alert's JSON, with a comma before it; "" if there are no fields.

    >>> event_member((("amount", "2.50"), ("ip", None)))
    ',"event":{"amount":"2.50","ip":null}'
    """
    fields = dict(event)
    return f',"event":{compact_json(fields)}' if fields else ""


def conditions_member(conditions: Iterable[MeasuredCondition]) -> str:
    """The member `conditions` of an alert's JSON, with a comma before it; "" if there are none.

    >>> conditions_member([MeasuredCondition(Decimal("6.50"), "GREATER", Decimal(5)), MeasuredCondition(None, "LESS", Decimal(2))])
    ',"conditions":[{"aggregate":"6.50","operator":"GREATER","limit":"5"},{"aggregate":null,"operator":"LESS","limit":"2"}]'
    """
    members = [
        {
            "aggregate": None if each.aggregate is None else plain_text(each.aggregate),
            "operator": each.operator,
            "limit": None if each.limit is None else plain_text(each.limit),
        }
        for each in conditions
    ]
    return f',"conditions":{compact_json(members)}' if members else ""


def event_id_text(event_id: Id) -> str:
    """An event's id for people: itself, or of several fields a JSON array.

    >>> event_id_text("A-1"), event_id_text(("meter-7", 12))
    ('A-1', '["meter-7",12]')
    """
    return compact_json(event_id) if isinstance(event_id, tuple) else str(event_id)


def _optional(text: str | None) -> Decimal | None:
    return None if text is None else _decimal(text)


def _decimal(text: str) -> Decimal:
    if not isinstance(text, str) or not DECIMAL.fullmatch(text):
        raise ValueError(f"expected a decimal as text, not {short_json(text)}")
    return Decimal(text)


def _is_value(value: object) -> bool:
    return _is_text(value) or type(value) is int and LEAST <= value <= MOST


def _is_text(value: object) -> bool:
    return isinstance(value, str) and is_valid_unicode(value)


def utc_text(time_ms: int) -> str:
    """Milliseconds since the epoch as 2013-01-01 00:00:00.000."""
    return f"{_EPOCH + timedelta(milliseconds=time_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3]


# -- which alerts stand ------------------------------------------------------------------------------------------------
# Those whose event was not taken back after it was logged.

AT_MOST = 100_000  # events that were taken back


def event_and_group_hash(line: Alert | Withdrawal) -> bytes:
    """Tells the event of a line and its group from all others, in 16 bytes however long they are.

    The order of the group's fields does not matter: a rule may have named them in another order when it alerted.
    """
    at = compact_json((line.event_id, line.event_time, sorted_group(line.group)))
    return blake2b(at.encode(), digest_size=16).digest()


class Withdrawals:
    """The events that were taken back, as far as the lines of an alerts log that were read tell: the newest `at_most`.

    >>> from decimal import Decimal
    >>> withdrawn = Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1356998400000, log_time=20)
    >>> first, again = (Alert(1, 1, withdrawn.key, Decimal(51), "GREATER", Decimal(50), 7, withdrawn.event_time, at, group=withdrawn.group) for at in (10, 30))
    >>> withdrawals = Withdrawals()
    >>> [withdrawals.add_and_check_stands(line) for line in (first, withdrawn, first, again)]
    [True, True, False, True]
    """

    def __init__(self, at_most: int = AT_MOST):
        # the hash of an event and its group -> the log time of the newest such record
        self._taken_back: dict[bytes, int] = {}
        self._at_most = at_most

    def add_and_check_stands(self, line: Alert | Withdrawal) -> bool:
        """Takes in a line. False for an alert that an earlier line withdrew: its event was logged before it was taken back.

        So if an attempt that was presumed dead delivers an alert after its successor has delivered the withdrawal, the alert stays
        withdrawn. If an event and the record that takes it back were logged in the same millisecond, or if the log is not live,
        the order of the lines decides.
        """
        at = event_and_group_hash(line)
        if isinstance(line, Alert):
            return line.log_time is None or line.log_time >= self._taken_back.get(at, 0)
        if line.log_time is not None:
            self._taken_back[at] = max(line.log_time, self._taken_back.pop(at, 0))
            if len(self._taken_back) > self._at_most:
                del self._taken_back[next(iter(self._taken_back))]
        return True
