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
from lab.engine.loop.route import by_task, route
from lab.engine.records.columns import BEFORE_ALL, HEARD, LOG_TIME, PLACE, arrival_column, pack, unpack
from lab.engine.records.decode import decode
from lab.engine.records.keyedlines import JoinedLines, KeyedLines
from lab.engine.windows import shared
from lab.engine.windows.batchstats import BatchStats
from lab.engine.windows.evaluate import Envelope, TaskOutput, Windows
from lab.engine.windows.windowstate import WindowState, open_windows
from lab.model.keygroups import flink_range
from lab.model.times import now_ms


def read_and_route(job: Job, work: ReadingWork) -> tuple[list[Envelope], dict]:
    """Reads, decodes and routes a share; also what task 0 is told of it (counts, dead letters, times), and all (newest event times)."""
    settings = job.settings
    times = {"start": work.at, "decode": now_ms()}
    batch = decode(
        job.logs.feed("events").read(work.ranges, work.cut["from"]), settings.schema, settings.max_future_ms
    )
    times["route"] = now_ms()
    rules, changes = ledger.load_ledger(job.folder, work.before, settings.schema).ledger, []
    if work.after != work.before:
        rules, changes = rules.copy(), ledger.load_ledger(job.folder, work.after, settings.schema).changes
    envelopes, counts, newest = route(batch, rules, changes, settings)
    if batch.like_seconds:
        counts["datedLikeSeconds"] = batch.like_seconds
    if batch.nan_as_null:
        counts["nanAsNull"] = batch.nan_as_null.total()
    times["evaluate"] = now_ms()
    told = {"counts": dict(counts), "deadLetters": batch.dead_letters, "deadLettersBy": dict(batch.bad)}
    return envelopes, told | {"times": times, "cut": work.cut, "newest": newest}


def task_windows(job: Job, task: int) -> WindowState:
    """The windows of one task's key-groups."""
    owned = flink_range(task, job.settings.key_groups, job.settings.parallelism)
    return open_windows(job.settings, job.folder, shared.private_folder(job.start), owned[0], owned[-1])


def evaluate_cut(
    job: Job, windows: Windows, work: ReadingWork, envelopes: Iterable[Envelope], told: dict
) -> tuple[TaskOutput, BatchStats]:
    """What comes of a cut's events and control messages, and the counts."""
    changes = []
    if work.after != work.before:
        changes = ledger.load_ledger(job.folder, work.after, job.settings.schema).changes
    stats = BatchStats(
        told | {"engine": job.engine, "settings": job.settings.told()}, job.settings.key_groups
    )
    newest = told.get("newest", [BEFORE_ALL] * (len(changes) + 1))
    alerts, acks = windows.evaluate(envelopes, changes, newest, work.cut["to"], stats)
    letters = told.get("deadLetters", [])
    output = {"alerts": alerts, "deadLetters": KeyedLines([""] * len(letters), JoinedLines(letters))}
    ids = [str(ack.get("ruleId", "")) for ack in acks]
    output["acks"] = KeyedLines(ids, JoinedLines(map(json.dumps, acks)))
    return output, stats


def with_stats(output: TaskOutput, stats: BatchStats, number: int, state: WindowState) -> TaskOutput:
    """A task's output with its line of the stats log; logs that get nothing are left out."""
    if state.low_key_group > 0:  # one task speaks for all
        del output["acks"]
    if stats.counts or state.low_key_group == 0:
        head = {"batch": number, "keyGroups": [state.low_key_group, state.high_key_group]}
        windows = state.windows
        line = stats.to_json_line(head, windows.stores.values(), windows.all_waits, state.chain)
        output["stats"] = KeyedLines([str(state.low_key_group)], JoinedLines([line]))
    return {log: lines for log, lines in output.items() if lines.keys}


def evaluate_task_share(
    job: Job, task: int, work: ReadingWork, envelopes: Iterable[Envelope], told: dict
) -> TaskOutput:
    """Evaluates what one task owns of an epoch of one cut. Raises Fenced if another engine has taken over since it was planned."""
    lease.check_lease(job.folder, job.lease)
    state = task_windows(job, task)
    rules = ledger.load_ledger(job.folder, work.before, job.settings.schema).ledger
    with state.open_epoch(work.epoch, rules if work.after == work.before else rules.copy()) as windows:
        output, stats = evaluate_cut(job, windows, work, envelopes, told)
    return with_stats(output, stats, work.number, state)


def run_single_task(job: Job, work: ReadingWork) -> TaskOutput:
    """A whole epoch of one cut in one task."""
    return evaluate_task_share(job, 0, work, *read_and_route(job, work))


# -- between tasks -----------------------------------------------------------------------------------------------------


def to_envelopes(job: Job, number: int, work: ReadingWork) -> Iterator[tuple[int, bytes]]:
    """What the reading task `number` sends: (task, payload)."""
    envelopes, told = read_and_route(job, work)
    for task in range(job.settings.parallelism):
        head = {"before": work.before, "after": work.after, "newest": told["newest"]}
        head |= {"number": work.number, "epoch": work.epoch, "share": number, "reached": work.cut["to"]}
        head |= told if task == 0 else {}
        yield task, b"{" + json.dumps(head).encode()
    for envelope in envelopes:
        for task, part in by_task(envelope, job.settings):
            yield task, pack(part.columns, [number, part.control_messages_before, part.store_number])


def evaluate_envelopes(job: Job, task: int, payloads: Iterable[bytes]) -> TaskOutput:
    """Evaluates what the reading tasks sent to a task, in whatever order it came."""
    told: dict = {"counts": Counter(), "deadLetters": [], "deadLettersBy": Counter(), "times": {}}
    parts: list[tuple[int, Envelope]] = []
    newest: dict[int, list[int]] = {}  # of each share
    for payload in payloads:
        if payload[:1] != b"{":
            columns, (number, after, store) = unpack(payload)
            parts.append((number, Envelope(after, store, columns)))
            continue
        head = json.loads(payload[1:])
        newest[head["share"]] = head["newest"]
        told["newest"] = list(map(max, head["newest"], told.get("newest", head["newest"])))
        for name in ("counts", "deadLettersBy"):
            told[name].update(head.get(name, {}))
        told["deadLetters"] += head.get("deadLetters", [])
        told["cut"] = head.get("cut")
        for name, time in head.get("times", {}).items():
            told["times"][name] = max(told["times"].get(name, 0), time)
    for number, part in parts:
        if PLACE in part.columns:
            part.columns[PLACE] = part.columns[PLACE] + (number << 32)
        if HEARD in part.columns:
            earlier = [
                times[part.control_messages_before] for share, times in newest.items() if share < number
            ]
            of_others = np.maximum(part.columns[HEARD], max(earlier, default=BEFORE_ALL))
            part.columns[HEARD] = arrival_column(part.columns[LOG_TIME], of_others)
    work = ReadingWork(
        {}, {"to": head["reached"]}, head["before"], head["after"], 0, head["number"], head["epoch"]
    )
    envelopes = [envelope for _, envelope in sorted(parts, key=lambda part: part[0])]
    return evaluate_task_share(job, task, work, envelopes, told)
