"""Follows an engine without being it: windows that take over the cuts of its stats log, and judge records that have not been logged.

stats ──cuts──► events, control up to their ends ──► Windows ◄── would: evaluates in a private mapping, nothing is stored
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import finalize

from lab.engine.checkpoint.ledger import CutRecord, Ledger
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import cut_records
from lab.engine.loop.route import RoutedEvents, route_events
from lab.engine.records.decode import decode, decode_events
from lab.engine.records.feeds import Feed, Records
from lab.engine.windows import shared
from lab.engine.windows.evaluate import BatchResult, Windows
from lab.engine.windows.questions import Judged
from lab.model.enginelogs import READ
from lab.model.field import Field
from lab.model.rules import RuleBook
from lab.model.statuslines import Cut, Ends, ends_of, engine_of

AT_ONCE = 50_000  # records, about: cuts are taken over together up to so many
# of the control messages that some cuts took, those that count, with others; given the ledger, and up to where the log has been read, ms
Obeyed = Callable[[list[CutRecord], Ledger, int], list[CutRecord]]


class CutsRead(NamedTuple):
    """What some cuts took of the logs, ready to be evaluated. `cut`: the number of the last one."""

    cut: int
    settings: Settings
    routed: RoutedEvents
    changes: list[CutRecord]
    ends: Ends
    reached_log_ms: int


class Follower:
    """The windows of an engine as of the last cut that was taken over, in memory of its own, from the beginning of the logs.

    `cut`: its number, -1 before the first. `ends`: of each log, up to where that cut read. `settings`: those with which the engine took
    it. `obeyed`: which control messages count in place of those of the log.
    """

    def __init__(self, feeds: Mapping[str, Feed], settings: Settings, obeyed: Obeyed | None = None):
        self.feeds, self.settings, self._obeyed = feeds, settings, obeyed
        self.cut = -1
        self.ends: Ends = {name: {} for name in READ}
        start_id = f"follower-{uuid4().hex}"
        folder = shared.private_folder(start_id) / "windows"
        finalize(self, shared.remove_private_folder, start_id)
        folder.mkdir(mode=0o700)
        self._windows = Windows(settings, folder)
        self._asked: list[Field] | None = None  # None: rules may have changed

    @property
    def reached_log_ms(self) -> int:
        """All records logged before this time have been read."""
        return self._windows.reached

    @property
    def book(self) -> RuleBook:
        """The rules in force."""
        return self._windows.ledger.book

    def next_cuts(self, lines: Sequence[Cut]) -> tuple[list[Cut], int]:
        """The next cuts to read together, of one start of an engine, with about AT_ONCE records; how many lines tell them, some once more.

        `lines`: of the stats log, from the next cut on. Raises ValueError if the engine has begun again with an earlier state.
        """
        found, told, size, number, before = list[Cut](), 0, 0, self.cut, self.ends
        for stats in lines:
            if size >= AT_ONCE or engine_of(stats) != engine_of(lines[0]):
                break
            ends = ends_of(stats)
            if stats["batch"] == number and ends != before:
                raise ValueError("the engine has begun again with an earlier state: start this program again")
            if stats["batch"] > number:
                size += self._records_between(before["events"], ends["events"])
                number, before = stats["batch"], ends
                found.append(stats)
            told += 1
        return found, told

    def _records_between(self, begun: Mapping[int, int], ends: Mapping[int, int]) -> int:
        events = self.feeds["events"]
        return sum(
            events.estimated_records(source, begun.get(source, 0), end) for source, end in ends.items()
        )

    def read(self, cuts: Sequence[Cut]) -> CutsRead:
        """Reads what the next cuts took, all taken with the same settings. Changes nothing, and may be called beside `would`."""
        settings = self.settings.with_stats_fields(engine_of(cuts[0]))
        before, runs, changes = self.ends, list[Iterator[Records]](), list[CutRecord]()
        for cut in cuts:
            ends, floor = ends_of(cut), cut["cut"]["from"]
            begun = {
                name: of if of.keys() >= ends[name].keys() else self.feeds[name].starts() | of
                for name, of in before.items()
            }
            changes += cut_records(self.feeds["control"], begun["control"], ends["control"], floor)
            ranges = {
                source: (begun["events"].get(source, 0), end)
                for source, end in ends["events"].items()
                if end > begun["events"].get(source, 0)
            }
            runs.append(self.feeds["events"].read(ranges, floor))
            before = ends
        batch = decode(chain.from_iterable(runs), settings.schema, settings.max_future_ms)
        rules, reached = self._windows.ledger, cuts[-1]["cut"]["to"]
        if self._obeyed:
            changes = self._obeyed(changes, rules, reached)
        routed = route_events(batch, rules.copy() if changes else rules, changes, settings)
        return CutsRead(cuts[-1]["batch"], settings, routed, changes, before, reached)

    def take_over(self, cuts: CutsRead) -> BatchResult:
        """Evaluates what has been read."""
        self.cut, self.settings, self.ends = cuts.cut, cuts.settings, cuts.ends
        self._windows.use(cuts.settings)
        self._asked = None
        times = cuts.routed.newest_event_times
        return self._windows.evaluate(cuts.routed.envelopes, cuts.changes, times, cuts.reached_log_ms)

    def asked_fields(self) -> list[Field]:
        """The fields of a record that decide whether a rule in force alerts."""
        rules = self.book.rules.values()
        if self._asked is None:
            names = {name for rule in rules if rule.state == "ACTIVE" for name in rule.field_names}
            self._asked = self.settings.schema.fields_behind(names)
        return self._asked

    def would(self, questions: Sequence[Sequence[dict[str, Any]]], log_time: int) -> list[Judged]:
        """See `Windows.would`: of the events of some records, if each came next, logged at a time, ms."""
        if not questions:
            return []
        batch = decode_events(questions, self.settings.schema, log_time)
        routed = route_events(batch, self._windows.ledger, [], self.settings)
        return self._windows.would(routed.envelopes, len(questions))
