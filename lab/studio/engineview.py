"""An engine seen through its logs: its rules, the newest of what comes out of it, and what became of its records."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.followers.latency import Latencies
from lab.logs.positions import Record
from lab.logs.reading import SkippedLines, new_records, parse_records
from lab.model.alerts import Alert, Withdrawal, Withdrawals, parse_alert_line
from lab.model.language import say, translated
from lab.model.statuslines import SCHEMA_STATUS, mark_positions, parse_ack, parse_dead_letter, parse_stats
from lab.past.backtest import Past
from lab.past.routehistory import RouteHistory
from lab.running.report import StatsReport

KEPT_ALERTS, KEPT_ACKS, KEPT_LETTERS = 5_000, 200, 200
PAST = 20_000  # records of a topic, KiB of a folder, that a room has to try rules on when it connects
SEVERAL, FEWEST = 0.01, 10  # dead letters: this share of all records, and so many, are worth a warning
ALL_DEAD = "all {records} records are dead letters: {reasons}"
DEAD = "{letters} of {records} records are dead letters: {reasons}"
SCHEMA = "{state}. Does the schema match the events? `lab infer` proposes one"
REASONS = 2  # of dead letters that are shown


class NewestItems(deque):
    """The newest items of an endless list, for several readers that each know how far they have read.

    >>> newest = NewestItems(maxlen=2)
    >>> newest.extend("abc")
    >>> newest.total, newest.since(0), newest.since(2)
    (3, ['b', 'c'], ['c'])
    """

    total = 0

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)
            self.total += 1

    def since(self, position: int) -> list:
        """The items after the first `position`, as far as they are kept."""
        new = min(self.total - position, len(self))
        return [self[i] for i in range(len(self) - new, len(self))]


class EngineView:
    """Follows the logs of an engine. `running`: it runs already, so reading begins at the end of what it wrote.

    `settings`: those of the engine; of one that runs already its lines of statistics tell them.
    """

    def __init__(self, logs: Logs, settings: Settings, running: bool):
        self.logs, self.schema = logs, settings.schema
        self.history = RouteHistory(settings)
        self.book, self.past = self.history.book, Past(self.schema, history=self.history)
        self.alerts, self.acks, self.letters = (
            NewestItems((), KEPT_ALERTS),
            NewestItems((), KEPT_ACKS),
            NewestItems((), KEPT_LETTERS),
        )
        self.fired: Counter[int] = Counter()  # alerts of each rule id
        self.withdrawn = 0  # events at which there were alerts, and that were taken back
        self.withdrawals = Withdrawals()
        self.before: Counter[str] = Counter()  # records of a log that were there and are not among the newest
        self._known: set[tuple[str, int | None]] = set()  # alertId and log time
        self.records = 0
        self._heard = self._nothing_waited = time.monotonic()
        # records that waited for the engine when reading began, corrected whenever it has read all that was read here
        self._waited = 0
        self._tails = {
            name: self.logs.log(name).tail(new=running and name != "control")
            for name in ("events", "control", "alerts", "acks", "deadLetters")
        }
        self.left_out = SkippedLines(lambda said: None)  # counted in `state`
        self.report = StatsReport(self.logs.log("stats"), left_out=self.left_out)
        self.latencies = Latencies(self.logs, KEPT_ALERTS, SkippedLines(lambda said: None))

    def load_newest_records(self) -> None:
        """Of an engine that runs already: events to try rules on, the last alerts and dead letters, and how many there are."""
        stats = [Record(0, "", line) for line in self.logs.log("stats").newest(1)]
        for _, line_stats in parse_records(stats, parse_stats, lambda record, reason: None):
            self._learn_settings(line_stats)
            self._count_waiting(line_stats)
        self._add_events(self.logs.log("events").newest_records(PAST))
        for name, of_log in (("alerts", self.alerts), ("deadLetters", self.letters)):
            log = self.logs.log(name)
            self.before[name] = log.records_between(*log.bounds())
            newest = [Record(0, "", line, str(log)) for line in log.newest(KEPT_ALERTS)]
            parse: Callable[[str], Any] = parse_alert_line if name == "alerts" else parse_dead_letter
            came = [value for _, value in parse_records(newest, parse, self.left_out)]
            came = self._without_withdrawn(came) if name == "alerts" else came
            of_log.extend(came)
            if name == "alerts":
                # some may come again in the tail
                self._known = {(alert.alert_id, alert.log_time) for alert in came}
                self.fired.update(alert.rule_id for alert in came)
            self.before[name] = max(self.before[name], len(newest)) - len(newest)

    def _count_waiting(self, newest_stats: dict[str, Any]) -> None:
        """Counts the records between where the engine has read up to and where reading begins here."""
        self.report.read()  # the newest line may be of them
        end = self.report.events_end or newest_stats.get("cut", {}).get("events")
        if end is not None:
            log, here = self.logs.log("events"), self._tails["events"].positions
            waiting = log.records_between(mark_positions(end), here)
            self._waited = waiting + self.report.total["records"]

    def _without_withdrawn(self, lines: list[Alert | Withdrawal]) -> list[Alert]:
        """The alerts among what was told, but for those that came late and had been withdrawn; `withdrawn` counts the other lines."""
        self.withdrawn += sum(isinstance(each, Withdrawal) for each in lines)
        stand = [each for each in lines if self.withdrawals.add_and_check_stands(each)]
        return [each for each in stand if isinstance(each, Alert)]

    def read(self) -> None:
        """Reads the new records of the logs since the last call."""
        for records in new_records(self._tails["events"]):
            self.records += len(records)
            self._add_events(records)
        for records in new_records(self._tails["control"]):
            for message in records:
                self.history.apply(message.line, message.log_time_ms)
        for acks in self._new("acks", parse_ack):
            self.acks.extend(ack for ack in acks if ack["status"] != SCHEMA_STATUS)
            self._heard = time.monotonic()  # whoever answers lives
        for letters in self._new("deadLetters", parse_dead_letter):
            self.letters.extend(letters)
        for lines in self._new("alerts", parse_alert_line):
            stand = self._without_withdrawn(lines)
            alerts = [alert for alert in stand if (alert.alert_id, alert.log_time) not in self._known]
            self.alerts.extend(alerts)
            self.fired.update(alert.rule_id for alert in alerts)
        self.latencies.read()
        if self.report.read():
            self._heard = time.monotonic()
            for stats in self.report.engines.values():
                self._learn_settings(stats)
            self._correct_lag()
        if not self.lag:
            self._nothing_waited = time.monotonic()

    def _correct_lag(self) -> None:
        """Nothing waits if the engine has read all that was read here, whatever was counted: blank lines, or records that it read again."""
        if (end := self.report.events_end) is not None:
            here = self._tails["events"].positions
            if all(end.get(str(number), 0) >= position for number, position in here.items()):
                self._waited = self.report.total["records"] - self.records

    def _add_events(self, records: list[Record]) -> None:
        self.past.add([each.line for each in records], [each.log_time_ms for each in records])

    def _learn_settings(self, stats: dict[str, Any]) -> None:
        self.history.settings = self.history.settings.with_stats_fields(stats.get("engine", {}))

    def _new(self, log: str, parse: Callable[[str], Any]) -> Iterator[list[Any]]:
        """The new lines of a log that can be read, a part at a time."""
        for records in new_records(self._tails[log]):
            if values := [value for _, value in parse_records(records, parse, self.left_out)]:
                yield values

    @property
    def lag(self) -> int:
        """Records in the events log that the engine has not told about yet."""
        return max(self._waited + self.records - self.report.total["records"], 0)

    def warnings(self) -> list[tuple[str, str]]:
        """What became of records that were not evaluated, as (kind, sentence); the first one decides how it goes."""
        letters, records = self.report.total["deadLetters"], self.report.total["records"]
        if not letters or not self.letters:
            return []
        reasons = Counter(letter["reason"] for letter in self.letters)
        are_those = len(self.letters) == letters  # not the newest alone, nor some from before
        often = "; ".join(
            translated(reason[:120]) + f" ({count:,}×)" * are_those
            for reason, count in reasons.most_common(REASONS)
        )
        several = letters >= max(SEVERAL * records, FEWEST)
        kind = "bad" if letters == records else "warning" if several else "good"
        counts = {"letters": f"{letters:,}", "records": f"{records:,}", "reasons": often}
        state = say(ALL_DEAD if letters == records else DEAD, **counts)
        return [(kind, state if kind == "good" else say(SCHEMA, state=state))]

    def close_logs(self) -> None:
        """Closes the logs."""
        for tail in self._tails.values():
            tail.close()
