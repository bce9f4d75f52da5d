"""A branch of a running engine's logs that goes on beside it: two followers, of which one obeys other rules from a moment on.

stats ──cuts──► Follower ─────────────► alerts ──┬──► Comparison
          └───► Follower ◄─ OtherRules ► alerts ─┘
"""

from collections import Counter, deque
from collections.abc import Sequence

from lab.desk.branch import is_about_lists, messages_to, said_by
from lab.desk.compare import Comparison, Difference, counts_of, differing
from lab.desk.logorder import engine_settings
from lab.engine.checkpoint.ledger import CutRecord, Ledger
from lab.engine.loop.ends import Logs
from lab.engine.loop.follower import Follower
from lab.model.alerts import Alert, parse_alert_line
from lab.model.enginelogs import READ
from lab.model.schema import Schema
from lab.model.statuslines import Cut, cuts_in, engine_of

LINES = 1_000  # of the stats log, about, that are in memory at a time


class OtherRules:
    """The control messages that a lane obeys: those of the log before a moment, there those that give it other rules, then only those
    about lists and mutes. `at`: the moment, a log time, ms.
    """

    def __init__(self, rules: Sequence[str], at: int):
        self._rules, self._at, self._are_in_force = rules, at, False

    def __call__(self, changes: list[CutRecord], ledger: Ledger, reached_log_ms: int) -> list[CutRecord]:
        before = [each for each in changes if each.log_time < self._at]
        schema, others = ledger.book.schema, list[CutRecord]()
        if reached_log_ms > self._at and not self._are_in_force:
            then = ledger.copy()
            for each in before:
                then.apply(each.record)
            messages = list(messages_to(then.book, self._rules))
            others = [CutRecord(self._at, 0, "", message.encode()) for message in messages]
            self._are_in_force = True
        after = [
            each for each in changes if each.log_time >= self._at and is_about_lists(each.record, schema)
        ]
        return before + others + after


class LiveBranch:
    """Both lanes of a branch. `at`: a log time, ms, from which the alerts of both count, and the other lane has other rules.

    `counts`: for each rule, alerts of both, only of the old rules, only of the new ones, as they were raised, also if they were
    withdrawn later.
    """

    def __init__(self, logs: Logs, schema: Schema, rules: Sequence[str], at: int):
        self._at, self._stats = at, logs.log("stats").tail()
        self._feeds = [{name: logs.feed(name) for name in READ} for _ in range(2)]
        settings = engine_settings(logs, schema)
        own, other = self._feeds
        self._own, self._other = Follower(own, settings), Follower(other, settings, OtherRules(rules, at))
        self._waiting = deque[Cut]()
        newest = [*cuts_in(logs.log("stats").newest(1)[-1:])]
        self._engine_id = engine_of(newest[0]).get("id", "") if newest else None
        self.counts: Counter[tuple[int, int]] = Counter()

    def step(self) -> list[Difference] | None:
        """Takes over the cuts that are new, about 50,000 events at a time; returns the alerts that only one lane has raised at them.

        None if there are no new cuts. Raises ValueError if another engine has taken over the logs, or begun again.
        """
        if not self._waiting:
            self._read_cuts()
        cuts, told = self._own.next_cuts(self._waiting)
        for _ in range(told):
            self._waiting.popleft()
        if not cuts:
            return [] if told else None
        old, new = self._alerts(self._own, cuts), self._alerts(self._other, cuts)
        for rule_id, counts in counts_of(old, new).items():
            self.counts.update({(rule_id, place): count for place, count in enumerate(counts)})
        return [
            Difference(is_new, alert, "" if is_new else said_by(self._other.book, alert))
            for is_new, alert in differing(old, new)
        ]

    def _read_cuts(self) -> None:
        """Reads the next part of the stats log; lines of engines before are left out."""
        for stats in cuts_in(each.line for each in self._stats.records(LINES)):
            engine_id = engine_of(stats).get("id", "")
            if self._engine_id in (None, engine_id):
                self._engine_id = engine_id
                self._waiting.append(stats)
            elif self._waiting or self._own.cut >= 0:
                raise ValueError("another engine goes on with these logs: start this program again")

    def _alerts(self, lane: Follower, cuts: Sequence[Cut]) -> list[Alert]:
        """The alerts of a lane at some cuts, from the moment on."""
        lines = map(parse_alert_line, lane.take_over(lane.read(cuts)).alerts.lines)
        return [each for each in lines if isinstance(each, Alert) and (each.log_time or 0) >= self._at]

    def comparison(self) -> Comparison:
        """What the other rules have changed so far."""
        of = self.counts
        rules = sorted({rule_id for rule_id, _ in of})
        return Comparison({rule: (of[rule, 0], of[rule, 1], of[rule, 2]) for rule in rules}, ())

    def close(self) -> None:
        """Closes connections."""
        self._stats.close()
        for feeds in self._feeds:
            for feed in feeds.values():
                feed.close()
