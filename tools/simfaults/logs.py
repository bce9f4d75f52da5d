"""Faults planted into logs, and into what reads them."""

from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.cut import Planner
from lab.logs.files import FileLog
from lab.logs.index import Batch
from lab.logs.segments import Segments
from lab.logs.writer import Writer
from tests.sim import protocol
from tests.sim.topics import SimFeed
from tools.simfaults.registry import mutant


@mutant
def what_expired_unread_is_passed_over():
    read, data = SimFeed.read, FileLog.read_bytes

    def topic(self, ranges, floor):
        starts = self.starts()
        kept = {number: (max(start, starts[number]), end) for number, (start, end) in ranges.items()}
        return read(
            self, {number: (start, end) for number, (start, end) in kept.items() if start < end}, floor
        )

    with (
        patch.object(SimFeed, "read", topic),
        patch.object(
            FileLog, "read_bytes", lambda self, start, end: data(self, max(start, self.start()), end)
        ),
        patch.object(Planner, "_check", lambda self, *_: None),
    ):
        yield


@mutant
def a_partition_that_appears_is_not_read():
    ends = SimFeed.ends

    def mutated(self):
        self.known = getattr(self, "known", None) or set(ends(self))
        return {number: end for number, end in ends(self).items() if number in self.known}

    with patch.object(SimFeed, "ends", mutated):
        yield


@mutant
def a_new_segment_appears_behind_a_tail():
    """Who knows a segment does not look for the one that follows."""
    look = Segments.snapshot

    def mutated(self):
        if not self._seen.size:
            return look(self)
        with self.open_index(self._seen.bases[-1]) as index:
            self._seen = self._seen._replace(size=index.size, first=index[0], last=index[-1])
        return self._seen

    with patch.object(Segments, "snapshot", mutated):
        yield


@mutant
def two_writers_of_a_file_log_do_not_take_turns():
    @contextmanager
    def unlocked(self):
        yield

    with patch.object(Writer, "_locked", unlocked):
        yield


@mutant
def a_writer_goes_on_where_it_left_the_log():
    with patch.object(
        Writer,
        "_mended",
        lambda self: self._segments._seen if self._segments._seen.size else self._segments.snapshot(),
    ):
        yield


@mutant
def lines_count_before_their_row_is_written():
    end = FileLog.end

    def mutated(self, before_ms=None):
        base = self._segments.snapshot().bases[-1]
        path = Path(self._segments.segment_path(base, "jsonl"))
        held = base + path.stat().st_size if path.exists() else base
        return end(self, before_ms) if before_ms is not None else max(held, end(self))

    with patch.object(FileLog, "end", mutated):
        yield


@mutant
def the_state_is_read_with_the_default_lateness():
    from_record = Settings.from_record
    with patch.object(
        Settings, "from_record", lambda record: replace(from_record(record), max_out_of_orderness_ms=300_000)
    ):
        yield


@mutant
def a_checkpoint_that_was_put_back_goes_on():
    """As if nothing had been written since; logs pass over the numbers that they know."""

    def is_in(self, last):
        return last is not None and last.number >= self.number

    with patch.object(protocol, "check_not_restored", lambda *_: None), patch.object(Batch, "is_in", is_in):
        yield


@mutant
def a_batch_that_runs_again_is_taken_for_another():
    """Its lines have other times, so nothing that is made of them tells which batch it is."""
    of_mark = protocol.batch_fingerprint
    runs = count()

    def mutated(end):
        return of_mark({**end, "cut": next(runs)})

    with patch.object(protocol, "batch_fingerprint", mutated):
        yield
