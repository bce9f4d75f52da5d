"""The cut: what a micro-batch takes of all sources, chosen by log time, so that the alerts do not depend on where it falls.

    events 0   ──●──●──┊─●──►        everything logged before T and not taken yet, of every source;
    events 1   ────●───┊●───►        control first among equal times
    control    ──■─────┊────►
                       T

If that is more than a batch may have, T moves back. Where more records than that share one log time, the cut goes between
them, in their order: source by source. A record that turns up after the cut it belonged to counts as logged at the cut.

The ends of a cut are a *mark*: plain JSON, which Spark writes into its write-ahead log before any task starts. Everything a
task needs is a function of two marks, so a batch that runs again is the same batch.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from lab.engine.checkpoint import lease, ledger
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.ledger import CutRecord
from lab.engine.checkpoint.record import planned_end, runs_loop
from lab.engine.checkpoint.settings import Settings
from lab.engine.records.feeds import Feed, LogLost, Positions
from lab.engine.windows.readingreport import CutBounds
from lab.model.statuslines import mark_positions
from lab.model.times import now_ms

# {"cut": T, "number": of the cut that ends here, "epoch": of the epoch, "at": when it was chosen, "events": {"0": position}, "control": {...}, "ledger": name}; the first batch's has also
# "begin", the mark before it, because Spark writes only the end of a batch ahead; one at the end of an epoch of the loop has also "stopped", when that ended
Mark = dict

# while a cut takes nothing from a source with records, the clock is checked at most this often
LOOK_S = 0.1
LOOKS_MS = 1000
WORTH_SHARING = 5_000  # records; less is read by one task


class Ends(NamedTuple):
    """The ends of the sources of both logs."""

    events: Positions
    control: Positions


@dataclass(frozen=True, kw_only=True)
class EvaluationWork:
    """A cut as the tasks that evaluate know it: between two ledgers; all records logged before `reached_log_ms` have been read."""

    ledger_before: str
    ledger_after: str
    reached_log_ms: int
    cut_number: int
    epoch: int


@dataclass(frozen=True, kw_only=True)
class ReadingWork(EvaluationWork):
    """What one reading task does: it reads ranges of the events' sources."""

    event_ranges: dict[int, tuple[int, int]]
    cut_bounds: CutBounds
    planned_at_ms: int


class Planner:
    """Chooses cuts, and plans the work of their reading tasks."""

    def __init__(
        self,
        events: Feed,
        control: Feed,
        checkpoint: CheckpointFolder,
        settings: Settings,
        lease_name: str = "",
    ):
        self.events, self.control, self.checkpoint, self.settings = events, control, checkpoint, settings
        self.lease_name = lease_name  # "" if there is none
        self._checked, self._looked = False, 0.0
        self.oldest_needed_ledger: str | None = None  # the oldest that the running epoch needs

    def initial_mark(self) -> Mark:
        """The mark before the first record; if the first batch is planned already, its beginning, even if those records have expired."""
        if (self.checkpoint / "offsets").read("0") is not None:
            planned = planned_end(self.checkpoint.where, 0)
            if not runs_loop(planned):  # Spark runs a first batch also of nothing
                return planned.get("begin", planned) | {"number": -1, "epoch": -1}
        return self.mark_at_start_of_logs()

    def mark_at_start_of_logs(self) -> Mark:
        """Before the first record that is there now."""
        beginning = _mark(0, 0, self.events.starts(), self.control.starts(), "")
        return beginning | {"number": -1, "epoch": -1}

    def next_absence_check_ms(self, start: Mark) -> int | None:
        """The log time after which there is a cut even without records, for a caller that does not know the open waits.

        A second after `start` if a rule in force says `absence`, otherwise None.
        """
        saved = ledger.load_ledger(self.checkpoint, start["ledger"], self.settings.schema)
        rules = saved.ledger.book.rules.values()
        awaits = any(rule.absence and rule.is_judged for rule in rules)
        return start["cut"] + LOOKS_MS if awaits else None

    def current_ends(self) -> Ends:
        """The current ends of all sources."""
        return Ends(*self.events.ends_of_both(self.control))

    def clock(self) -> int:
        """A log time, ms: a later call of `current_ends` includes every record that was logged before it."""
        return max(self.events.clock(), self.control.clock())

    def wait_for_records(self, start: Mark, timeout_s: float) -> bool:
        """Waits until there may be records after a mark, for `timeout_s` at most; returns whether there may be."""
        events, control = mark_positions(start["events"]), mark_positions(start["control"])
        return self.events.wait_for_records_of_either(events, self.control, control, timeout_s)

    def advance_mark(
        self, start: Mark, max_records: int | None, upto: Ends | None = None, due_ms: int | None = None
    ) -> Mark:
        """The end of the next cut, of about `max_records` events; `start` itself if there is nothing to read. Raises Fenced.

        `due_ms`: a log time after which there is a cut even without records, because an alert of `absence` is due. Also returns `start`
        if the logs do not answer (ConnectionError). Raises that error if they have never answered, or with `upto`.
        """
        lease.check_lease(self.checkpoint, self.lease_name)
        try:
            end = self._advance_mark(start, max_records, upto, due_ms)
        except ConnectionError:
            if upto or not self._checked:
                raise
            return start
        if end == start:
            return start
        end = end | {"number": start["number"] + 1, "epoch": start["epoch"] + 1}
        return end if start["at"] else end | {"begin": start}

    def _advance_mark(
        self, start: Mark, max_records: int | None, upto: Ends | None, due_ms: int | None
    ) -> Mark:
        begun = Ends(mark_positions(start["events"]), mark_positions(start["control"]))
        now = self.clock()
        there = upto or self.current_ends()
        if not self._checked or self._is_made_anew(begun, there):
            self._check(begun, there, start["cut"])
        if any(of.keys() - at.keys() for at, of in zip(begun, there)):
            begun = _with_new_sources(begun, there)
            self._check(begun, there, start["cut"])  # their first records may have expired already
            return _mark(start["cut"], now_ms(), *begun, start["ledger"])
        is_due = due_ms is not None and now > due_ms
        if _all_taken(begun, there) and not is_due:
            return start
        cut = max(start["cut"] + 1, now)
        if upto:
            cut = self._log_time_after(cut, there, begun)
        ends = self._before(cut, there, begun)
        if _any_source_skipped(begun, ends, there) and time.monotonic() > self._looked + LOOK_S:
            self.events.sync_clock()  # the records may be stamped later than the clock's time
            self.control.sync_clock()
            self._looked = time.monotonic()
        if _all_taken(begun, ends) and not is_due:
            return start
        if max_records is not None and self._size(begun, ends) > max_records:
            cut, ends = self._within_limit(start["cut"], cut, begun, ends, max_records)
        return self._mark(start, cut, begun, ends)

    def _before(self, log_time: int, there: Ends, begun: Ends) -> Ends:
        """The ends of the sources before a log time, but not before what has been read already."""
        events, control = (
            {
                number: max(end, at.get(number, 0))
                for number, end in feed.ends_before(log_time, at, of).items()
            }
            for feed, of, at in zip((self.events, self.control), there, begun)
        )
        return Ends(events, control)

    def _log_time_after(self, log_time: int, there: Ends, begun: Ends) -> int:
        """A log time after every existing record, and no earlier than the given one, because the clock may be behind."""
        step = 1
        while not _all_taken(self._before(log_time, there, begun), there):
            log_time, step = log_time + step, 2 * step
        return log_time

    def _size(self, begun: Ends, ends: Ends) -> int:
        return sum(
            self.events.estimated_records(number, begun.events.get(number, 0), end)
            for number, end in ends.events.items()
        )

    def _within_limit(self, low: int, high: int, begun: Ends, there: Ends, limit: int) -> tuple[int, Ends]:
        """A log time with at most `limit` new records before it, and not less than half of that if possible, and the ends there."""
        before_low, before_high = begun, there
        while high - low > 1 and 2 * self._size(begun, before_low) < limit:  # each step asks the brokers
            middle = (low + high) // 2
            before = self._before(middle, there, begun)
            if self._size(begun, before) > limit:
                high, before_high = middle, before
            else:
                low, before_low = middle, before
        if before_low != begun:
            return low, before_low
        # more than a batch of one log time
        return low, Ends(self._part(begun.events, before_high.events, limit), before_high.control)

    def _part(self, begun: Positions, ends: Positions, limit: int) -> Positions:
        """The ends of the first `limit` records, source by source."""
        part, left = {}, limit
        for number, end in sorted(ends.items()):
            start = begun.get(number, 0)
            part[number] = (
                self.events.position_after(number, start, end, left) if left > 0 and end > start else start
            )
            left -= self.events.estimated_records(number, start, part[number])
        return part

    def _mark(self, start: Mark, cut: int, begun: Ends, ends: Ends) -> Mark:
        name, changes = start["ledger"], cut_records(self.control, begun.control, ends.control, start["cut"])
        if changes:
            after = ledger.load_ledger(self.checkpoint, name, self.settings.schema).ledger.copy()
            for change in changes:
                after.apply(change.record)
            name = ledger.save_ledger(self.checkpoint, name, changes, after, self.oldest_needed_ledger)
        return _mark(cut, now_ms(), *ends, name)

    def _check(self, begun: Ends, there: Ends, cut: int) -> None:
        """Raises LogLost if the next records of a source are gone. Readers notice records that expire later."""
        feeds = ("events", self.events), ("control", self.control)
        for (log, feed), at, ends in zip(feeds, begun, there):
            name = feed.topic or log
            for number, start in feed.starts().items():
                if start > at.get(number, start):
                    raise LogLost(
                        f"{name}/{number}: records from {at[number]} up to {start} have expired before the engine read "
                        "them; start with a new checkpoint, and keep the log longer"
                    )
                if ends.get(number, start) < at.get(number, 0):
                    raise LogLost(
                        f"{name}/{number}: ends at {ends[number]}, but the engine has read up to {at[number]} already: another "
                        "log has its name; start with a new checkpoint"
                    )
            if not feed.has_read(at, cut):
                raise LogLost(
                    f"{name}/0: the engine has read up to {at[0]}, but what is there was logged later, or no line begins there: another "
                    "log has its name; start with a new checkpoint"
                )
        self._checked = True

    def _is_made_anew(self, begun: Ends, there: Ends) -> bool:
        """Whether a log was replaced or removed, or is shorter than before: a new log in its place would be read from its middle."""
        replaced = [feed.may_be_replaced() for feed in (self.events, self.control)]
        return any(replaced) or any(
            ends.get(number, position) < position
            for at, ends in zip(begun, there)
            for number, position in at.items()
        )

    def plan_reading(self, start: Mark, end: Mark) -> list[ReadingWork]:
        """The work of the reading tasks between two marks; many records are shared among several tasks. Raises LogLost."""
        begun, ends = mark_positions(start["events"]), mark_positions(end["events"])
        if not self._checked:  # an earlier attempt chose the marks; other logs may have come meanwhile
            with suppress(ConnectionError):
                self._check(Ends(ends, mark_positions(end["control"])), self.current_ends(), end["cut"])
        ranges = [
            (number, begun[number], last)
            for number, last in ends.items()
            if last > begun.get(number, last)  # a new source has no records in its first cut
        ]
        size = sum(self.events.estimated_records(*each) for each in ranges)
        tasks = self.settings.parallelism if size > WORTH_SHARING else 1
        shares: list[dict[int, tuple[int, int]]] = [{}]
        room = share = -(-size // tasks)
        for number, first, last in ranges:
            while first < last:
                divided = self.events.divisible and len(shares) < tasks
                upto = self.events.position_after(number, first, last, room) if divided else last
                shares[-1][number] = shares[-1].get(number, (first,))[0], upto
                room -= self.events.estimated_records(number, first, upto)
                first = upto
                if room <= 0 and len(shares) < tasks:
                    shares.append({})
                    room = share
        bounds: CutBounds = {
            "from": start["cut"],
            "to": end["cut"],
            "events": end["events"],
            "control": end["control"],
        }
        return [
            ReadingWork(
                ledger_before=start["ledger"],
                ledger_after=end["ledger"],
                reached_log_ms=end["cut"],
                cut_number=end["number"],
                epoch=end["epoch"],
                event_ranges=ranges_of_share,
                cut_bounds=bounds,
                planned_at_ms=end["at"],
            )
            for ranges_of_share in shares
        ]


def cut_records(feed: Feed, begun: Positions, ends: Positions, floor: int) -> list[CutRecord]:
    """The records of a log that a cut takes, by effective log time, then by source and place. `floor`: the cut before."""
    ranges = {
        source: (begun.get(source, 0), end) for source, end in ends.items() if end > begun.get(source, 0)
    }
    found = [
        CutRecord(log_time, records.source, place, record)
        for records in (feed.read(ranges, floor) if ranges else ())
        for log_time, (place, record) in zip(records.log_time.tolist(), records.lines(), strict=True)
    ]
    return sorted(found, key=lambda each: (each.log_time, each.source))


def _with_new_sources(begun: Ends, there: Ends) -> Ends:
    """`begun` with the new sources at 0, where each begins; the next cut takes records from them."""
    events, control = (dict.fromkeys(of, 0) | at for at, of in zip(begun, there))
    return Ends(events, control)


def _all_taken(begun: Ends, ends: Ends) -> bool:
    return all(end <= at.get(number, 0) for at, of in zip(begun, ends) for number, end in of.items())


def _any_source_skipped(begun: Ends, ends: Ends, there: Ends) -> bool:
    """Whether a source has new records, and none of them is taken."""
    return any(
        ends[log][number] <= at.get(number, 0) < there[log][number]
        for log, at in enumerate(begun)
        for number in ends[log]
    )


def _mark(cut: int, at: int, events: Positions, control: Positions, name: str) -> Mark:
    named = {"events": events, "control": control}
    ends = {log: {str(number): position for number, position in of.items()} for log, of in named.items()}
    return {"cut": cut, "at": at, **ends, "ledger": name}
