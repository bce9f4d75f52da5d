"""What Spark's tasks do, without Spark: read, decode and route a share of a micro-batch; evaluate what a task owns.

With one task it is all one. With several, envelopes travel between them as rows (task, payload).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from lab.engine.checkpoint import lease, ledger
from lab.engine.loop.cut import ReadingWork
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
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.windows import shared
from lab.engine.windows.batchstats import BatchStats
from lab.engine.windows.evaluate import Envelope, TaskOutput, Windows
from lab.engine.windows.windowstate import WindowState, open_windows
from lab.model.keygroups import flink_range
from lab.model.times import now_ms


def read_and_route(job: Job, work: ReadingWork) -> tuple[list[Envelope], dict]:
    """Reads, decodes and routes a share. Returns envelopes and a report, for task 0 (counts, dead letters, times) and all tasks (newest event times)."""
    settings = job.settings
    times = {"start": work.planned_at_ms, "decode": now_ms()}
    batch = decode(
        job.logs.feed("events").read(work.event_ranges, work.cut_bounds["from"]),
        settings.schema,
        settings.max_future_ms,
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
    reading_report = {
        "counts": dict(counts),
        "deadLetters": batch.dead_letters,
        "deadLettersBy": dict(batch.dead_letters_by_kind),
    }
    return envelopes, reading_report | {"times": times, "cut": work.cut_bounds, "newest": newest}


def task_windows(job: Job, task: int) -> WindowState:
    """The windows of one task's key-groups."""
    owned = flink_range(task, job.settings.key_groups, job.settings.parallelism)
    return open_windows(job.settings, job.folder, shared.private_folder(job.start_id), owned[0], owned[-1])


def evaluate_cut(
    job: Job, windows: Windows, work: ReadingWork, envelopes: Iterable[Envelope], reading_report: dict
) -> tuple[TaskOutput, BatchStats]:
    """The results of a cut's events and control messages, and the counts."""
    changes = []
    if work.ledger_after != work.ledger_before:
        changes = ledger.load_ledger(job.folder, work.ledger_after, job.settings.schema).changes
    stats = BatchStats(
        reading_report | {"engine": job.engine_id, "settings": job.settings.stats_fields()},
        job.settings.key_groups,
    )
    newest = reading_report.get("newest", [BEFORE_ALL] * (len(changes) + 1))
    alerts, acks = windows.evaluate(envelopes, changes, newest, work.cut_bounds["to"], stats)
    letters = reading_report.get("deadLetters", [])
    output = {"alerts": alerts, "deadLetters": KeyedLines([""] * len(letters), JoinedLines(letters))}
    ids = [str(ack.get("ruleId", "")) for ack in acks]
    output["acks"] = KeyedLines(ids, JoinedLines(map(json.dumps, acks)))
    return output, stats


def deliverable_output(
    output: TaskOutput, stats: BatchStats, cut_number: int, state: WindowState
) -> TaskOutput:
    """A task's output with its line of the stats log; logs that get nothing are left out."""
    if state.low_key_group > 0:  # one task speaks for all
        del output["acks"]
    if stats.counts or state.low_key_group == 0:
        head = {"batch": cut_number, "keyGroups": [state.low_key_group, state.high_key_group]}
        windows = state.windows
        line = stats.to_json_line(head, windows.stores.values(), windows.all_waits, state.chain)
        output["stats"] = KeyedLines([str(state.low_key_group)], JoinedLines([line]))
    return {log: lines for log, lines in output.items() if lines.keys}


def evaluate_and_save_share(
    job: Job, task: int, work: ReadingWork, envelopes: Iterable[Envelope], reading_report: dict
) -> TaskOutput:
    """Evaluates what one task owns of an epoch of one cut. Raises Fenced if another engine has taken over since it was planned."""
    lease.check_lease(job.folder, job.lease)
    state = task_windows(job, task)
    rules = ledger.load_ledger(job.folder, work.ledger_before, job.settings.schema).ledger
    with state.open_epoch(
        work.epoch, rules if work.ledger_after == work.ledger_before else rules.copy()
    ) as windows:
        output, stats = evaluate_cut(job, windows, work, envelopes, reading_report)
    return deliverable_output(output, stats, work.cut_number, state)


def run_single_task(job: Job, work: ReadingWork) -> TaskOutput:
    """A whole epoch of one cut in one task."""
    return evaluate_and_save_share(job, 0, work, *read_and_route(job, work))


# -- between tasks -----------------------------------------------------------------------------------------------------


def route_to_payloads(job: Job, share_number: int, work: ReadingWork) -> Iterator[tuple[int, bytes]]:
    """What the reading task `share_number` sends, as (task, payload)."""
    envelopes, reading_report = read_and_route(job, work)
    for task in range(job.settings.parallelism):
        head = {"before": work.ledger_before, "after": work.ledger_after, "newest": reading_report["newest"]}
        head |= {
            "number": work.cut_number,
            "epoch": work.epoch,
            "share": share_number,
            "reached": work.cut_bounds["to"],
        }
        head |= reading_report if task == 0 else {}
        yield task, b"{" + json.dumps(head).encode()
    for envelope in envelopes:
        for task, part in split_by_task(envelope, job.settings):
            yield task, pack(part.columns, [share_number, part.control_messages_before, part.store_number])


def evaluate_payloads(job: Job, task: int, payloads: Iterable[bytes]) -> TaskOutput:
    """Evaluates what the reading tasks sent to a task, in whatever order it came."""
    reading_report: dict = {"counts": Counter(), "deadLetters": [], "deadLettersBy": Counter(), "times": {}}
    parts: list[tuple[int, Envelope]] = []
    newest: dict[int, list[int]] = {}  # of each share
    for payload in payloads:
        if payload[:1] != b"{":
            columns, (number, after, store) = unpack(payload)
            parts.append((number, Envelope(after, store, columns)))
            continue
        head = json.loads(payload[1:])
        newest[head["share"]] = head["newest"]
        reading_report["newest"] = list(
            map(max, head["newest"], reading_report.get("newest", head["newest"]))
        )
        for name in ("counts", "deadLettersBy"):
            reading_report[name].update(head.get(name, {}))
        reading_report["deadLetters"] += head.get("deadLetters", [])
        reading_report["cut"] = head.get("cut")
        for name, time in head.get("times", {}).items():
            reading_report["times"][name] = max(reading_report["times"].get(name, 0), time)
    for number, part in parts:
        if PLACE in part.columns:
            part.columns[PLACE] = part.columns[PLACE] + (number << 32)
        if HEARD in part.columns:
            earlier = [
                times[part.control_messages_before] for share, times in newest.items() if share < number
            ]
            of_others = np.maximum(part.columns[HEARD], max(earlier, default=BEFORE_ALL))
            part.columns[HEARD] = log_time_or_event_time(part.columns[LOG_TIME], of_others)
    work = ReadingWork(
        {}, {"to": head["reached"]}, head["before"], head["after"], 0, head["number"], head["epoch"]
    )
    envelopes = [envelope for _, envelope in sorted(parts, key=lambda part: part[0])]
    return evaluate_and_save_share(job, task, work, envelopes, reading_report)
