"""Sliding windows on Spark and the engine on the same live stream: how long each takes to report a fraud.

    crossing event        window's end        an event after it has been read        result written
          ●───── wait ──────┤──────────────── watermark and micro-batches ─────────────────┤
          ●── micro-batch ──┤ the engine's alert

Expected wait: S/2, since the event may be anywhere between two ends of windows. "Advanced Flink Application Patterns" part 3.
"""

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lab.contrast.parts import FilePerAppend
from lab.contrast.sliding import FIELDS, KEYS, LIMIT, over_limit, session_with_short_batches
from lab.contrast.windows import Event, compare_window_types, crossing
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.spark.pipeline import start
from lab.logs.files import FileLog
from lab.model.alerts import Alert
from lab.model.language import say
from lab.model.rules import rule_message
from lab.model.statuslines import parse_stats
from lab.model.times import now_ms
from lab.running.run import raise_if_ended
from lab.stream.player import Player
from lab.stream.simulate import PlantedBurst

PAIR = PlantedBurst("pair", 0, 1_000, 3, 21_000_000)  # the third payment crosses the limit
BURST_EVERY_S = (0.5, 0.9)  # at random, so that no slide is met always at the same point
RATE, PLAYER_EVERY_S, WINDOW_MS = 20, 0.1, 20_000
# The first micro-batches compile: waits for so many of the query, and as many cuts of the engine, for WARM_UP_S at most
WARM_UP_BATCHES, WARM_UP_S = 8, 60
DRAIN_MS = 4_000
NEWEST_KIB = 100  # of the stats log, for the engine's cuts
SLOW_BATCHES, SLOW_MS = 3, 40_000
LOOK_S = 0.2
PATIENCE_S = 120  # for the first result of each system
Key = tuple[int, int]


@dataclass(frozen=True)
class Delays:
    """How late frauds were detected, in ms after the event that crossed the limit; one value for each detected fraud.

    `slide_ms` 0: the engine, with a window per event. `wait_ms`: computed, until the end of the first window with the fraud.
    `total_ms`: measured, until the result. Spark takes the rest: micro-batches, and for sliding windows the watermark.
    """

    slide_ms: int
    wait_ms: list[int]
    total_ms: list[int]
    missed: int
    batch_ms: float = 0  # median of the query's micro-batches, or of the engine's cuts

    @property
    def rest_ms(self) -> list[int]:
        """What micro-batches and watermark took, ms."""
        return [total - wait for total, wait in zip(self.total_ms, self.wait_ms)]


@dataclass(frozen=True)
class LogAndFiles:
    """Where a player writes: the engine's log, and files for Spark."""

    log: FileLog
    parts: FilePerAppend

    def append(self, lines: Sequence[str | bytes]) -> None:
        """Appends the lines to both."""
        self.log.append(lines)
        self.parts.append(lines)


def race_sliding(spark: SparkSession, slides_ms: Sequence[int], seconds: float = 30) -> list[Delays]:
    """Plays payments with planted pairs for some seconds to the engine and to one Spark query with all slides.

    The stream goes on until the longest slide has passed, so that each window can end, and on a busy machine until each slide and the
    engine has a result. The engine's delays are first,
    then one for each slide. Raises what ended a query.

    >>> race_sliding(spark, [1_000, 5_000])[1].slide_ms  # doctest: +SKIP
    1000
    """
    # 0: the engine; pair -> the time of its first result
    outs: dict[int, dict[Key, int]] = {slide: {} for slide in (0, *slides_ms)}
    with (
        tempfile.TemporaryDirectory(prefix="lab-sliding-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        logs = FileLogs(Path(name, "logs"))
        logs.create()
        rule = rule_message(1, KEYS, "paymentAmount", "SUM", "GREATER", LIMIT, f"{WINDOW_MS // 1_000}s")
        logs.log("control").append([json.dumps(rule)])
        sink = LogAndFiles(logs.log("events"), FilePerAppend(Path(name, "parts")))
        query = _query(spark, name, slides_ms, outs)
        stack.callback(query.stop)
        engine = stack.enter_context(start(spark, logs, Path(name, "engine"), Settings(key_groups=4)))
        player = stack.enter_context(Player("payments", sink, RATE, burst_every_s=0, every_s=PLAYER_EVERY_S))
        _warm_up(query, engine.query, logs)
        plant_bursts(player, PAIR, BURST_EVERY_S, seconds)
        # on a busy machine results come batches later
        slow_ms = min(SLOW_BATCHES * _batch_ms(query), SLOW_MS)
        time.sleep((max(slides_ms) + DRAIN_MS + slow_ms) / 1_000)
        alerts = logs.log("alerts")
        wait_until(
            lambda: query.exception() or (all(outs[slide] for slide in slides_ms) and alerts.read()),
            PATIENCE_S,
        )
        player.stop()
        raise_if_ended(query)
        raise_if_ended(engine.query)
        frauds = _frauds(logs.log("events").read())
        for alert in map(Alert.from_json, alerts.read()):
            group: Any = dict(alert.group)
            outs[0].setdefault((group["payeeId"], group["beneficiaryId"]), alert.alert_time or 0)
        batch_ms = {slide: _batch_ms(query) if slide else _cut_ms(logs) for slide in outs}
    return [measured_delays(frauds, WINDOW_MS, slide, out, batch_ms[slide]) for slide, out in outs.items()]


def _batch_ms(query: StreamingQuery) -> float:
    """The median of the newest hundred micro-batches that read something. Raises TimeoutError if none was done."""
    return _median(
        [batch.durationMs["triggerExecution"] for batch in query.recentProgress if batch.numInputRows]
    )


def _cut_ms(logs: FileLogs) -> float:
    """The median of the engine's newest cuts, at least 1. Raises TimeoutError if none was done."""
    times = [parse_stats(line)["times"] for line in logs.log("stats").newest(NEWEST_KIB)]
    return _median([max(of["end"] - of["start"], 1) for of in times if "start" in of])


def _median(took: Sequence[float]) -> float:
    if not took:
        raise TimeoutError(
            "nothing was finished while the stream ran: this machine is too busy; shut down other kernels "
            "and run the cell again"
        )
    return median(took)


def _query(spark: SparkSession, folder: str, slides_ms: Sequence[int], outs: dict[int, dict[Key, int]]):
    """Starts the query with sliding windows; `outs` gets the time of the first result for each pair."""

    def note(rows: DataFrame, _batch_id: int) -> None:
        found, now = rows.collect(), now_ms()
        for row in found:
            outs[row.slide_ms].setdefault((row.payeeId, row.beneficiaryId), now)

    events = session_with_short_batches(spark).readStream.schema(FIELDS).json(f"{folder}/parts")
    writer = over_limit(events, WINDOW_MS, slides_ms).writeStream.foreachBatch(note).outputMode("append")
    return writer.option("checkpointLocation", f"{folder}/sliding").start()


def _warm_up(query: StreamingQuery, engine: StreamingQuery, logs: FileLogs) -> None:
    """Waits until the query's micro-batches and the engine's cuts are short."""

    def is_warm() -> bool:
        raise_if_ended(query)
        raise_if_ended(engine)
        cuts = len(logs.log("stats").newest(NEWEST_KIB))
        return min(len(query.recentProgress), cuts) >= WARM_UP_BATCHES

    wait_until(is_warm, WARM_UP_S)


def wait_until(ready: Callable[[], object], seconds: float) -> None:
    """Waits until `ready` returns something true, for `seconds` at most.

    >>> looks = iter([0, 1, 0])
    >>> wait_until(lambda: next(looks), 60)
    >>> next(looks)
    0
    """
    give_up = time.monotonic() + seconds
    while not ready() and time.monotonic() < give_up:
        time.sleep(LOOK_S)


def plant_bursts(
    player: Player,
    burst: PlantedBurst,
    every_s: tuple[float, float],
    seconds: float,
    until: Callable[[], object] = bool,
) -> None:
    """Asks a player for bursts, for `seconds` or until `until` returns something true.

    `every_s`: the shortest and the longest pause between two bursts; each pause is a random time between them.

    >>> planted = []
    >>> class AskedPlayer:
    ...     burst = planted.append
    >>> plant_bursts(AskedPlayer(), PAIR, (0, 0), 60, until=lambda: len(planted) == 3)
    >>> planted == [PAIR] * 3
    True
    """
    rng = Random(1)
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        player.burst(burst)
        time.sleep(rng.uniform(*every_s))


def _frauds(lines: Sequence[str]) -> dict[Key, list[Event]]:
    """The planted pairs' events, in order of arrival."""
    found: dict[Key, list[Event]] = defaultdict(list)
    for line in lines:
        event = json.loads(line)
        if event["paymentAmount"] > 1_000:
            key = tuple(event[name] for name in KEYS)
            found[key].append(Event(event["eventTime"], event["paymentAmount"], event["transactionId"]))
    return {key: events for key, events in found.items() if len(events) == PAIR.payments}


def measured_delays(
    frauds: dict[Key, list[Event]],
    window_ms: int,
    slide_ms: int,
    result_ms_by_key: dict[Key, int],
    batch_ms: float = 0,
) -> Delays:
    """The measured delays, next to the expected ones. `result_ms_by_key`: the time of each pair's result, in ms since the epoch.

    >>> fraud = {(1, 2): [Event(1_000, 11_000_000, 1), Event(1_300, 11_000_000, 2)]}
    >>> measured_delays(fraud, 20_000, 1_000, {(1, 2): 2_450})
    Delays(slide_ms=1000, wait_ms=[700], total_ms=[1150], missed=0, batch_ms=0)
    """
    wait, total, missed = [], [], 0
    for key, events in frauds.items():
        seen = compare_window_types(events, window_ms, slide_ms or window_ms, window_ms, LIMIT)
        expected_ms = seen["sliding" if slide_ms else "per event"].delay_ms
        if key not in result_ms_by_key or expected_ms is None:
            missed += 1
            continue
        wait.append(expected_ms)
        total.append(result_ms_by_key[key] - crossing(events, window_ms, LIMIT)[-1].time_ms)
    return Delays(slide_ms, wait, total, missed, batch_ms)


def describe_race(engine: Delays, sliding: Sequence[Delays]) -> str:
    """Describes the result of a race in sentences that are true on a fast machine and on a busy one.

    >>> quiet = Delays(1_000, [400, 600], [3_000, 3_200], 0, 1_000)
    >>> print(describe_race(Delays(0, [0], [9], 0, 6), [quiet]))
    A micro-batch of the sliding windows took 1.0 s, a cut of the engine 0.006 s.
    The wait for a window's end was 0.50 slides on average; 0.5 is expected.
    Watermark and micro-batches took 2.6 s more, 2.6 batches: that is the gap in the picture.
    >>> busy = Delays(1_000, [400], [40_000], 0, 18_000)
    >>> print(describe_race(Delays(0, [0], [90], 0, 60), [busy]).splitlines()[-1])
    Watermark and micro-batches took 39.6 s more, 2.2 batches. A batch is longer than the longest slide, 1 s: this machine was busy, so the picture shows the load and not the effect of the slides. Close other kernels and run the race again.
    """
    seen = [run for run in sliding if run.total_ms]
    if not seen or not engine.total_ms:
        return say(
            "Not a single fraud was found: this machine was too busy. Close other kernels and run the race again."
        )
    batch_ms, longest_ms = median(run.batch_ms for run in seen), max(run.slide_ms for run in sliding)
    share = sum(sum(run.wait_ms) / run.slide_ms for run in seen) / sum(len(run.wait_ms) for run in seen)
    rest_ms = median(ms for run in seen for ms in run.rest_ms)
    rest = {"rest": f"{rest_ms / 1_000:.1f}", "batches": f"{rest_ms / batch_ms:.1f}"}
    return "\n".join(
        (
            say(
                "A micro-batch of the sliding windows took {batch} s, a cut of the engine {cut} s.",
                batch=f"{batch_ms / 1_000:.1f}",
                cut=f"{engine.batch_ms / 1_000:.2g}",
            ),
            say(
                "The wait for a window's end was {share} slides on average; 0.5 is expected.",
                share=f"{share:.2f}",
            ),
            say(
                "Watermark and micro-batches took {rest} s more, {batches} batches. A batch is longer than the longest slide, {slide} s: "
                "this machine was busy, so the picture shows the load and not the effect of the slides. Close other kernels and run the race "
                "again.",
                **rest,
                slide=f"{longest_ms / 1_000:g}",
            )
            if batch_ms > longest_ms
            else say(
                "Watermark and micro-batches took {rest} s more, {batches} batches: that is the gap in the picture.",
                **rest,
            ),
        )
    )
