"""Follows an engine without being it: windows that take over the cuts of its stats log, and judge records that have not been logged.

stats ──cuts──► events, control up to their ends ──► Windows ◄── would: evaluates in a private mapping, nothing is stored
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import finalize

from lab.engine.checkpoint.ledger import CutRecord
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import cut_records
from lab.engine.loop.route import RoutedEvents, route_events
from lab.engine.records.decode import decode, decode_events
from lab.engine.records.feeds import Feed, Records
from lab.engine.windows import shared
from lab.engine.windows.evaluate import Windows
from lab.engine.windows.questions import Judged
from lab.model.enginelogs import READ
from lab.model.field import Field
from lab.model.statuslines import Cut, Ends, ends_of, engine_of


class CutsRead(NamedTuple):
    """What some cuts took of the logs, ready to be evaluated."""

    settings: Settings
    routed: RoutedEvents
    changes: list[CutRecord]
    ends: Ends
    reached_log_ms: int


class Follower:
    """The windows of an engine as of the last cut that was taken over, in memory of its own, from the beginning of the logs.

    `ends`: of each log, up to where that cut read. `settings`: those with which the engine took it.
    """

    def __init__(self, feeds: Mapping[str, Feed], settings: Settings):
        self.feeds, self.settings = feeds, settings
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

    def records_in(self, cut: Cut, before: Ends) -> int:
        """About how many events a cut took; `before`: the ends of the one before it."""
        events = self.feeds["events"]
        return sum(
            events.estimated_records(source, before["events"].get(source, 0), end)
            for source, end in ends_of(cut)["events"].items()
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
        rules = self._windows.ledger
        routed = route_events(batch, rules.copy() if changes else rules, changes, settings)
        return CutsRead(settings, routed, changes, before, cuts[-1]["cut"]["to"])

    def take_over(self, cuts: CutsRead) -> None:
        """Evaluates what has been read."""
        self.settings, self.ends = cuts.settings, cuts.ends
        self._windows.use(cuts.settings)
        self._asked = None
        routed = cuts.routed
        self._windows.evaluate(routed.envelopes, cuts.changes, routed.newest_event_times, cuts.reached_log_ms)

    def asked_fields(self) -> list[Field]:
        """The fields of a record that decide whether a rule in force alerts."""
        rules = self._windows.ledger.book.rules.values()
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
