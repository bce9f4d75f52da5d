"""What comes out: alerts, each naming the rule version that fired, its group, and the event it fired at."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from hashlib import blake2b

from lab.model.field import Value
from lab.model.rule import symbol
from lab.model.words import html_table, plain, shown

MAX_ROWS_SHOWN = 50
MAX_KEY = (
    2_000  # characters of a group's text; longer ones are cut: a topic takes 1 MiB, a field may be as long
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Alert:
    """One rule that held at one event; the Flink demo's `com.ververica.field.dynamicrules.Alert`.

    Times are in ms since the epoch. On live logs only, `log_time` says when the event reached the log and
    `alert_time` when the alert left the engine.

    >>> alert = Alert(1, 2, "{payeeId=25}", Decimal("50.10"), "GREATER", Decimal(50), 7, 1356998400000)
    >>> alert.alert_id
    '1.2.7.1356998400000.7958a627'
    >>> Alert.from_json(alert.to_json()) == alert
    True
    """

    rule_id: int
    rule_version: int
    key: str
    aggregate: Decimal
    operator: str
    limit: Decimal
    event_id: int | str
    event_time: int
    log_time: int | None = None
    alert_time: int | None = None

    @property
    def alert_id(self) -> str:
        """The same for the same rule version, group, event id and time, whichever run computes it."""
        group = blake2b(self.key.encode(), digest_size=4).hexdigest()
        return f"{self.rule_id}.{self.rule_version}.{self.event_id}.{self.event_time}.{group}"

    def to_json(self) -> str:
        """One line of ASCII JSON; decimals as strings in plain notation, the log's times only when set."""
        log_time = "" if self.log_time is None else f',"logTime":{self.log_time}'
        alert_time = "" if self.alert_time is None else f',"alertTime":{self.alert_time}'
        return (
            f'{{"alertId":{json.dumps(self.alert_id)},"ruleId":{self.rule_id},"ruleVersion":{self.rule_version},'
            f'"key":{json.dumps(self.key)},"aggregate":"{plain(self.aggregate)}","operator":"{self.operator}",'
            f'"limit":"{plain(self.limit)}","eventId":{json.dumps(self.event_id)},"eventTime":{self.event_time}'
            f"{log_time}{alert_time}}}"
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> "Alert":
        """The alert that `to_json` wrote. Raises ValueError when a name is missing or a value unreadable."""
        try:
            given = json.loads(text)
            return cls(
                given["ruleId"],
                given["ruleVersion"],
                given["key"],
                Decimal(given["aggregate"]),
                given["operator"],
                Decimal(given["limit"]),
                given["eventId"],
                given["eventTime"],
                given.get("logTime"),
                given.get("alertTime"),
            )
        except (ValueError, KeyError, TypeError, InvalidOperation) as error:
            raise ValueError(f"not an alert ({error!r}): {shown(text)}") from None

    def _repr_html_(self) -> str:
        return AlertTable([self])._repr_html_()


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
                f"{alert.aggregate:,f} {symbol(alert.operator)} {alert.limit:,f}",
                alert.event_id,
                utc(alert.event_time),
            )
            for alert in self[-MAX_ROWS_SHOWN:]
        ]
        more = len(self) - len(rows)
        note = f"<p>{more} earlier alerts are not shown.</p>" if more else ""
        header = ("rule", "version", "group", "held", "event", "event time (UTC)")
        return note + html_table(header, rows)


def group_key(names: tuple[str, ...], values: Iterable[Value]) -> str:
    """The text of a group, in the rule's field order; the demo's `KeysExtractor`. The global group is `{}`.

    >>> group_key(("payeeId", "beneficiaryId"), (25, 12))
    '{payeeId=25;beneficiaryId=12}'
    """
    return cut_key(
        "{" + ";".join(f"{name}={plain(value)}" for name, value in zip(names, values, strict=True)) + "}"
    )


def cut_key(text: str) -> str:
    """A group's text as alerts carry it: of more than 2,000 characters the first, and a hash that tells it from others.

    >>> cut_key("{ip=" + "1" * 3_000 + "}")[1_997:]
    '111…f009b0548fba57f0c1d18163090e7cf8}'
    """
    if len(text) <= MAX_KEY:
        return text
    return f"{text[:MAX_KEY]}…{blake2b(text.encode(), digest_size=16).hexdigest()}}}"


def utc(time: int) -> str:
    """Milliseconds since the epoch as 2013-01-01 00:00:00.000."""
    return f"{_EPOCH + timedelta(milliseconds=time):%Y-%m-%d %H:%M:%S.%f}"[:-3]
