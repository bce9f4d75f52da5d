"""What Spark's tasks do, without Spark: read, decode and route a share of a micro-batch; evaluate what a task owns.

With one task it is all one. With several, envelopes travel between them as rows (task, payload).
"""

import json
from collections.abc import Iterable, Iterator

import numpy as np

from lab.engine.checkpoint import lease, ledger
from lab.engine.loop.cut import EvaluationWork, ReadingWork
from lab.engine.loop.job import Job
from lab.engine.loop.route import route_events, split_by_task
from lab.engine.records.columns import (
    BEFORE_ALL,
    HEARD,
    LOG_TIME,
    PLACE,
    log_time_or_event_time,
    pack,
    unpack,
)
from lab.engine.records.decode import decode
from lab.engine.records.feeds import Feed
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.windows import shared
from lab.engine.windows.evaluate import BatchResult, Envelope, TaskOutput, Windows
from lab.engine.windows.readingreport import ReadingReport, combine_reports
from lab.engine.windows.windowstate import WindowState, open_windows
from lab.model.keygroups import flink_range
from lab.model.times import now_ms


def read_and_route(job: Job, work: ReadingWork, events: Feed) -> tuple[list[Envelope], ReadingReport]:
    """Reads, decodes and routes a share of the events' log."""
    settings = job.settings
    times = {"start": work.planned_at_ms, "decode": now_ms()}
    batch = decode(
        events.read(work.event_ranges, work.cut_bounds["from"]), settings.schema, settings.max_future_ms
    )
    times["route"] = now_ms()
    rules, changes = ledger.load_ledger(job.folder, work.ledger_before, settings.schema).ledger, []
    if work.ledger_after != work.ledger_before:
        rules, changes = (
            rules.copy(),
            ledger.load_ledger(job.folder, work.ledger_after, settings.schema).changes,
        )
    envelopes, counts, newest = route_events(batch, rules, changes, settings)
    if batch.dated_like_seconds:
        counts["datedLikeSeconds"] = batch.dated_like_seconds
    if batch.nan_as_null:
        counts["nanAsNull"] = batch.nan_as_null.total()
    times["evaluate"] = now_ms()
    return envelopes, ReadingReport(
        newest, counts, batch.dead_letters, batch.dead_letters_by_kind, times, work.cut_bounds
    )


def task_windows(job: Job, task: int) -> WindowState:
    """The windows of one task's key-groups."""
    owned = flink_range(task, job.settings.key_groups, job.settings.parallelism)
    return open_windows(job.settings, job.folder, shared.private_folder(job.start_id), owned[0], owned[-1])


def evaluate_cut(
    job: Job, windows: Windows, work: EvaluationWork, envelopes: Iterable[Envelope], report: ReadingReport
) -> BatchResult:
    """Evaluates a cut's events and carries out its control messages."""
    changes = []
    if work.ledger_after != work.ledger_before:
        changes = ledger.load_ledger(job.folder, work.ledger_after, job.settings.schema).changes
    return windows.evaluate(envelopes, changes, report.newest_times_ms, work.reached_log_ms)


def deliverable_output(
    job: Job, state: WindowState, cut_number: int, report: ReadingReport, result: BatchResult
) -> TaskOutput:
    """The lines of a task for all logs, with its line of the stats log; logs that get nothing are left out."""
    letters, acks = report.dead_letters, result.acknowledgements
    output = {"alerts": result.alerts, "shadow": result.shadow_alerts}
    output["deadLetters"] = KeyedLines([""] * len(letters), JoinedLines(letters))
    if state.low_key_group == 0:  # one task speaks for all
        ids = [str(ack.get("ruleId", ack.get("list", ""))) for ack in acks]
        output["acks"] = KeyedLines(ids, JoinedLines(map(json.dumps, acks)))
    if result.stats.counts or state.low_key_group == 0:
        head = {"batch": cut_number, "keyGroups": [state.low_key_group, state.high_key_group]}
        windows = state.windows
        line = result.stats.to_json_line(
            head, report, job.stats_fields(), windows.stores.values(), windows.all_waits, state.chain
        )
        output["stats"] = KeyedLines([str(state.low_key_group)], JoinedLines([line]))
    return {log: lines for log, lines in output.items() if lines.keys}


def evaluate_and_save_share(
    job: Job, task: int, work: EvaluationWork, envelopes: Iterable[Envelope], report: ReadingReport
) -> TaskOutput:
    """Evaluates what one task owns of an epoch of one cut. Raises Fenced if another engine has taken over since it was planned."""
    lease.check_lease(job.folder, job.lease)
    state = task_windows(job, task)
    rules = ledger.load_ledger(job.folder, work.ledger_before, job.settings.schema).ledger
    with state.open_epoch(
        work.epoch, rules if work.ledger_after == work.ledger_before else rules.copy()
    ) as windows:
        result = evaluate_cut(job, windows, work, envelopes, report)
    return deliverable_output(job, state, work.cut_number, report, result)


def run_single_task(job: Job, work: ReadingWork) -> TaskOutput:
    """A whole epoch of one cut in one task."""
    envelopes, report = read_and_route(job, work, job.logs.feed("events"))
    return evaluate_and_save_share(job, 0, work, envelopes, report)


# -- between tasks -----------------------------------------------------------------------------------------------------


def route_to_payloads(job: Job, share_number: int, work: ReadingWork) -> Iterator[tuple[int, bytes]]:
    """What the reading task `share_number` sends, as (task, payload)."""
    envelopes, report = read_and_route(job, work, job.logs.feed("events"))
    head = {
        "before": work.ledger_before,
        "after": work.ledger_after,
        "number": work.cut_number,
        "epoch": work.epoch,
        "share": share_number,
        "reached": work.reached_log_ms,
    }
    for task in range(job.settings.parallelism):
        for_task = report.to_json() if task == 0 else {"newest": report.newest_times_ms}
        yield task, b"{" + json.dumps(head | for_task).encode()
    for envelope in envelopes:
        for task, part in split_by_task(envelope, job.settings):
            yield task, pack(part.columns, [share_number, part.control_messages_before, part.store_number])


def evaluate_payloads(job: Job, task: int, payloads: Iterable[bytes]) -> TaskOutput:
    """Evaluates what the reading tasks sent to a task, in whatever order it came."""
    parts: list[tuple[int, Envelope]] = []
    reports: dict[int, ReadingReport] = {}  # of each share
    for payload in payloads:
        if payload[:1] != b"{":
            columns, (number, after, store) = unpack(payload)
            parts.append((number, Envelope(after, store, columns)))
            continue
        head = json.loads(payload[1:])
        reports[head["share"]] = ReadingReport.from_json(head)
    for number, part in parts:
        if PLACE in part.columns:
            part.columns[PLACE] = part.columns[PLACE] + (number << 32)
        if HEARD in part.columns:
            earlier = [
                time
                for share, report in reports.items()
                if share < number
                for time in report.newest_times_ms[part.control_messages_before]
            ]
            of_others = np.maximum(part.columns[HEARD], max(earlier, default=BEFORE_ALL))
            part.columns[HEARD] = log_time_or_event_time(part.columns[LOG_TIME], of_others)
    work = EvaluationWork(
        ledger_before=head["before"],
        ledger_after=head["after"],
        reached_log_ms=head["reached"],
        cut_number=head["number"],
        epoch=head["epoch"],
    )
    envelopes = [envelope for _, envelope in sorted(parts, key=lambda part: part[0])]
    return evaluate_and_save_share(job, task, work, envelopes, combine_reports(reports.values()))
