"""Where cuts fall: in log order, whatever the limit, the clocks and the number of sources."""

import itertools
import shutil

import pytest

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import cut
from lab.engine.loop.cut import Mark, Planner, cut_records
from lab.engine.records.decode import decode
from lab.engine.records.feeds import FileFeed, LogLost
from lab.logs.files import FileLog
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule
from tests.sim.topics import SimLogs

RULE = count_rule(">", 0, "5m")[1]


class Planned:
    """Sources with records at given log times, and the cuts of them."""

    def __init__(self, folder, events: list[list[int]], control: list[list[int]] = [[]], clock: int = 10**6):  # noqa: B006
        self.logs = SimLogs(len(events), len(control), 100)
        self.logs.clock = clock
        for name, sources in (("events", events), ("control", control)):
            for source, log_times in enumerate(sources):
                for log_time in log_times:
                    self.append(name, source, log_time)
        feeds = self.logs.feed("events"), self.logs.feed("control")
        self.planner = Planner(*feeds, CheckpointFolder(folder), Settings(LOGINS))

    def append(self, name: str, source: int, log_time: int) -> None:
        self.logs.append(name, source, log_time, RULE if name == "control" else b"{}")

    def marks(self, limit: int, upto=None) -> list[Mark]:
        marks = [self.planner.initial_mark()]
        while (mark := self.planner.advance_mark(marks[-1], limit, upto)) != marks[-1]:
            marks.append(mark)
        return marks

    def taken(self, limit: int, upto=None) -> list[list[tuple[str, int, int]]]:
        """(log, source, log time) of what each batch has."""
        batches, marks = [], self.marks(limit, upto)
        for start, end in itertools.pairwise(marks):
            batches.append([])
            for log, sources in self.logs.sources.items():
                for source, records in enumerate(sources):
                    of = records[start[log].get(str(source), 0) : end[log].get(str(source), 0)]
                    batches[-1] += [(log, source, record.log_time) for record in of]
        return batches


def test_the_records_of_a_cut_are_in_log_order_in_whatever_order_a_feed_hands_them_over(tmp_path):
    feed = Planned(tmp_path, [[1, 3, 3, 9], [3, 1, 4]]).logs.feed("events")
    read = feed.read
    feed.read = lambda ranges, floor: reversed([*read(ranges, floor)])
    records = cut_records(feed, {0: 1}, {0: 3, 1: 3}, 2)
    assert [(each.log_time, each.source) for each in records] == [(3, 0), (3, 0), (3, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("name", ["events", "control"])
def test_a_folder_that_is_removed_and_made_anew_while_the_engine_runs_is_another_log(tmp_path, name):
    logs = {each: FileLog(tmp_path / each) for each in ("events", "control")}
    for log, line in zip(logs.values(), (b"{}", RULE)):
        log.append([line, line], log_time_ms=1)
    feeds = (FileFeed(log.folder) for log in logs.values())
    planner = Planner(*feeds, CheckpointFolder(tmp_path / "checkpoint"), Settings(LOGINS))
    mark = planner.advance_mark(planner.initial_mark(), None)
    assert planner.advance_mark(mark, None) == mark
    shutil.rmtree(logs[name].folder)
    FileLog(logs[name].folder).append([b"{}"])
    with pytest.raises(LogLost, match=f"{name}/0: ends at 3, .*: another log has its name"):
        planner.advance_mark(mark, None)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("name", ["events", "control"])
def test_a_log_that_another_has_replaced_is_not_read_from_its_middle(tmp_path, name, running):
    """It has as much as was read before, or more: only its log times tell, as what was read was logged before the cut."""
    logs = {each: FileLog(tmp_path / each) for each in ("events", "control")}
    for log, line in zip(logs.values(), (b"{}", RULE)):
        log.append([line, line], log_time_ms=1)

    def planner() -> Planner:
        events, control = (FileFeed(log.folder) for log in logs.values())
        return Planner(events, control, CheckpointFolder(tmp_path / "checkpoint"), Settings(LOGINS))

    now = planner()
    mark = now.advance_mark(now.initial_mark(), None)
    logs["events"].append([b"{}"], log_time_ms=mark["cut"])
    mark = now.advance_mark(mark, None)
    if not running:
        now = planner()
    assert now.advance_mark(mark, None) == mark
    other = FileLog(tmp_path / "other")
    other.append([b"1"] * 1000, log_time_ms=mark["cut"] + 1)
    shutil.rmtree(logs[name].folder)
    other.folder.rename(logs[name].folder)
    with pytest.raises(LogLost, match=rf"{name}/0: .* read up to \d+, .*: another log has its name"):
        (now if running else planner()).advance_mark(mark, None)


@pytest.mark.parametrize("name", ["events", "control"])
def test_a_topic_that_is_deleted_and_made_anew_while_the_engine_runs_is_another_log(tmp_path, name):
    planned = Planned(tmp_path, [[1, 2, 3], [4]], [[1, 2, 3]])
    mark = planned.marks(limit=100)[-1]
    planned.logs.sources[name][0].clear()
    planned.append(name, 0, 9)
    with pytest.raises(
        LogLost, match=f"{name}/0: ends at 1, .* read up to 3 already: another log has its name"
    ):
        planned.planner.advance_mark(mark, None)


def test_a_backlog_is_cut_by_log_time_over_all_sources(tmp_path):
    """The rule comes with the events after it, not with the first."""
    batches = Planned(tmp_path, [[1, 2, 3, 4, 6, 7]], [[5]]).taken(limit=2)
    assert [sorted(time for *_, time in batch) for batch in batches] == [[1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_whatever_the_limit_the_batches_one_after_another_are_the_log_order(tmp_path, limit):
    batches = Planned(tmp_path, [[1, 5, 5, 9], [2, 5, 8], [3, 3, 3]], [[5], [4]]).taken(limit)
    order = [sorted(batch, key=lambda each: (each[2], each[0] == "events", each[1])) for batch in batches]
    flat = [each for batch in order for each in batch]
    assert flat == sorted(flat, key=lambda each: (each[2], each[0] == "events", each[1])) and len(flat) == 12


def test_more_records_of_one_log_time_than_the_limit_are_taken_source_by_source_after_their_control(tmp_path):
    first, second, third = Planned(tmp_path, [[7, 7], [7, 7]], [[7]]).taken(limit=2)[:2] + [None]
    assert sorted(first) == [("control", 0, 7), ("events", 0, 7), ("events", 0, 7)]
    assert (second, third) == ([("events", 1, 7), ("events", 1, 7)], None)


def test_a_record_that_turns_up_late_counts_as_logged_at_the_cut(tmp_path):
    planned = Planned(tmp_path, [[10], [20]], clock=50)
    mark = planned.marks(100)[-1]
    planned.append("events", 0, 30)
    planned.logs.clock = 60
    end = planned.planner.advance_mark(mark, 100)
    (work,) = planned.planner.plan_reading(mark, end)
    assert (mark["cut"], work.cut_bounds["from"]) == (50, 50)
    (records,) = planned.logs.feed("events").read(work.event_ranges, work.cut_bounds["from"])
    assert records.log_time.tolist() == [50]


def test_max_future_is_counted_from_the_effective_log_time(tmp_path):
    planned = Planned(tmp_path, [[10]], clock=50)
    mark = planned.marks(100)[-1]
    for event_id, time in ((1, 1050), (2, 1051)):
        line = b'{"eventId": %d, "eventTime": %d}' % (event_id, time)
        planned.logs.append("events", 0, 30, line)
    planned.logs.clock = 60
    (work,) = planned.planner.plan_reading(mark, planned.planner.advance_mark(mark, 100))
    batch = decode(planned.logs.feed("events").read(work.event_ranges, work.cut_bounds["from"]), LOGINS, 1000)
    assert [columns["eventId"].to_pylist() for columns in batch.events] == [[1]]
    assert (
        "1051, expected at most 1000 ms after the log time of its record, which is 50"
        in batch.dead_letters[0]
    )


def test_a_rule_that_turns_up_with_a_log_time_taken_in_part_comes_before_the_rest_of_it(tmp_path):
    planned = Planned(tmp_path, [[7, 7], [7, 7]], [[]])
    first = planned.planner.advance_mark(planned.planner.initial_mark(), 2)
    assert (first["events"], first["control"]) == ({"0": 2, "1": 0}, {"0": 0})
    planned.append("control", 0, 7)
    second = planned.planner.advance_mark(first, 2)
    assert (second["events"], second["control"]) == ({"0": 2, "1": 2}, {"0": 1})
    (work,) = planned.planner.plan_reading(first, second)
    (records,) = planned.logs.feed("events").read(work.event_ranges, work.cut_bounds["from"])
    (change,) = ledger.load_ledger(planned.planner.checkpoint, work.ledger_after, LOGINS).changes
    assert [change.log_time, *records.log_time.tolist()] == [7, 7, 7], "control is first of equal log times"


def test_what_a_clock_takes_for_future_records_waits_for_no_clock(tmp_path):
    planned = Planned(tmp_path, [[100]], clock=5)
    first = planned.planner.initial_mark()
    assert planned.planner.advance_mark(first, 100) == first  # it looks, and sets the clock by the log
    assert planned.planner.advance_mark(first, 100)["events"] == {"0": 1}


@pytest.mark.parametrize("limit", [1, 100])
def test_a_run_up_to_an_end_keeps_the_log_order_when_the_clock_is_behind(tmp_path, limit):
    planned = Planned(tmp_path, [[100, 200], [90]], clock=5)
    upto = planned.planner.current_ends()
    assert [
        time for batch in planned.taken(limit, upto) for *_, time in sorted(batch, key=lambda e: e[2])
    ] == [90, 100, 200]
    assert planned.marks(limit, upto)[-1]["cut"] > 199


def test_a_partition_that_is_new_is_taken_from_its_start(tmp_path):
    planned = Planned(tmp_path, [[1]], clock=50)
    mark = planned.marks(100)[-1]
    planned.logs.add(expired=0)
    for log_time in (40, 50, 60):
        planned.append("events", 1, log_time)
    planned.append("control", 0, 55)
    planned.logs.clock = 70
    known = planned.planner.advance_mark(mark, 100)
    assert (known["cut"], known["events"], known["control"]) == (mark["cut"], {"0": 1, "1": 0}, {"0": 0})
    assert [work.event_ranges for work in planned.planner.plan_reading(mark, known)] == [{}]
    end = planned.planner.advance_mark(known, 100)
    assert (end["events"], end["control"]) == ({"0": 1, "1": 3}, {"0": 1})
    (work,) = planned.planner.plan_reading(known, end)
    assert work.event_ranges == {1: (0, 3)} and planned.planner.advance_mark(end, 100) == end


def test_a_partition_that_is_new_and_whose_first_records_have_expired_is_not_read_without_them(tmp_path):
    """It was added while the engine was stopped, for longer than the topic keeps its records."""
    planned = Planned(tmp_path, [[1]], clock=50)
    mark = planned.marks(100)[-1]
    planned.logs.add(expired=2)
    planned.append("events", 1, 40)
    with pytest.raises(LogLost, match="events/1: records from 0 up to 2 have expired"):
        planned.planner.advance_mark(mark, 100)


@pytest.mark.parametrize("name", ["events", "control"])
def test_a_log_that_ends_before_what_was_read_is_another_log(tmp_path, name):
    """Without a word, what it has up to there would never be read."""
    mark = Planned(tmp_path, [[1, 2]], [[1, 2]]).marks(100)[-1]
    others = {"events": [[1, 2]], "control": [[1, 2]], name: [[1]]}
    with pytest.raises(LogLost, match=f"{name}/0: ends at 1, .* up to 2 already"):
        Planned(tmp_path, **others).planner.advance_mark(mark, 100)


def test_a_large_batch_is_shared_by_the_tasks_and_no_record_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(cut, "WORTH_SHARING", 2)
    planned = Planned(tmp_path, [[1, 2, 3, 4], [1, 2], [3]])
    planned.planner.settings = Settings(LOGINS, parallelism=3)
    start, end = planned.marks(100)[:2]
    works = planned.planner.plan_reading(start, end)
    shared = [(source, *ends) for work in works for source, ends in work.event_ranges.items()]
    assert len(works) > 1 and sorted(shared) == [(0, 0, 4), (1, 0, 2), (2, 0, 1)]
