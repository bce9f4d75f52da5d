"""`lab run`: the engine on logs that grow, as files or Kafka topics."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import cut_mark, read_record
from lab.engine.checkpoint.settings import Settings
from lab.machine.signals import stop_signals
from lab.model.rules import BadRule, parse_message
from lab.model.schema import SCHEMAS, Schema
from lab.running.say import MessagePrinter, compile_window_loop
from lab.running.target import Target, Usage

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from lab.logs.protocol import Log
    from lab.running.metrics import Metrics

REPORT_S = 1.0
ATTEMPTS = 4  # at a task: else the loss of a worker ends the engine; on a cluster it is Spark's default
OPTIMISING = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"}  # with Java's second compiler


def raise_if_ended(query: "StreamingQuery") -> None:
    """Raises the error that ended a query of Spark's, if it has ended."""
    if not query.isActive:
        raise query.exception() or RuntimeError("the query ended by itself")


# -- lab run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServiceOptions:
    """How `lab run` runs beside its logs: on which Spark, and how it tells what it does."""

    spark_master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    metrics_address: tuple[str, int] | None = None  # host and port
    messages_as_json: bool = False
    give_up_after_s: float = float("inf")  # how long Kafka may be away
    show_bad_values: bool = False  # of records that become dead letters


def run(target: Target, settings: Settings, service: ServiceOptions = ServiceOptions()) -> None:
    """Runs the engine until Ctrl-C, SIGTERM or SIGHUP; prints a line per second while something happens."""
    from lab.engine.loop.ends import (
        check_power_safe_possible,
        check_tasks_can_reach,
        check_transactions_possible,
    )
    from lab.machine.session import is_spark_submitted, session

    logs, checkpoint = target.logs, target.checkpoint
    place = CheckpointFolder(checkpoint)
    check_tasks_can_reach(logs, place, service.spark_master or "local")
    if settings.exactly_once:
        check_transactions_possible(logs, place)
    if settings.power_safe:
        check_power_safe_possible(logs, place)
    say = MessagePrinter(service.messages_as_json)
    with ExitStack() as opened:
        stopped = opened.enter_context(stop_signals())
        watched = opened.enter_context(_watched(service, say))
        if logs.create(named_events=False):  # a topic that somebody named may be mistyped
            events = logs.log("events")
            say(
                "note",
                f"{events} was not there: created, and empty until something writes to it (--events names another topic)",
            )
        check_rules_fit_schema(logs.log("control"), settings.schema)
        known = read_record(checkpoint) is not None
        say("checkpoint", f"{'continues from' if known else 'new checkpoint'} {checkpoint}")
        compile_window_loop(partial(say, "compiling"))
        master = service.spark_master or (
            None if is_spark_submitted() else f"local[{settings.parallelism},{ATTEMPTS}]"
        )
        conf = {} if settings.short_batches else OPTIMISING
        log = (Path() if place.is_object_store else place.path.parent) / "spark.log"
        say(
            "starting",
            "starting Spark" if is_spark_submitted() else f"starting Spark; what it says is in {log}",
        )
        spark = opened.enter_context(
            session(master, conf={**conf, **service.spark_conf}, log=log, object_store=place.is_object_store)
        )
        if not stopped.is_set():
            _serve(spark, target, settings, stopped, watched, say, service)


@contextmanager
def _watched(service: ServiceOptions, say: MessagePrinter) -> Iterator["Metrics | None"]:
    """Metrics while somebody may ask for them, from before Spark starts; None if nobody may."""
    if not service.metrics_address:
        yield None
        return
    from lab.running.metrics import Metrics, MetricsServer

    host, port = service.metrics_address
    metrics = Metrics()
    with MetricsServer(metrics, port, host) as server:
        say("metrics", f"http://{host}:{server.server_port}/metrics and /healthz", port=server.server_port)
        yield metrics


def _serve(
    spark,
    target: Target,
    settings: Settings,
    stopped: Event,
    watched,
    say: MessagePrinter,
    service: ServiceOptions,
) -> None:
    from lab.engine.spark.pipeline import start
    from lab.running.control import read_rules_in_force
    from lab.running.enginemonitor import BrokersAwayTooLong, EngineMonitor, OutputGone, TwoEngines

    logs, checkpoint = target.logs, target.checkpoint
    on_stats = watched.add_stats if watched else None
    with closing(
        EngineMonitor(
            logs,
            checkpoint,
            service.give_up_after_s,
            on_stats,
            schema=settings.schema,
            show_bad_values=service.show_bad_values,
            on_ack=watched.add_ack if watched else None,
        )
    ) as monitor:
        monitor.check_no_other_engine()
        clock = logs.log("events").time_notice()  # now, because later a broker may be away
        try:
            engine = start(spark, logs, checkpoint, settings)
        except Exception:
            if stopped.is_set():  # whoever was asked to stop as well may have been first
                return
            raise
        if watched:
            read = (cut_mark(engine.job.checkpoint) or {}).get("events", {})
            watched.watch_query(logs.feed("events"), engine.query, read)
            watched.set_rules(read_rules_in_force(logs, settings.schema).rules.values())
        try:
            say("running", f"reading {logs.log('events')} and {logs.log('control')}; Ctrl-C stops it")
            if clock:
                say("note", clock)
            started = last = time.monotonic()
            while not stopped.wait(REPORT_S):
                raise_if_ended(engine.query)
                new, now = monitor.read(), time.monotonic()
                if new:
                    # a micro-batch of a backlog takes longer than a look, which finds nothing until it ends
                    rate = new["records"] / max(now - last, monitor.report.span_s)
                    _print_progress(new, rate, monitor.report.window_event_count, monitor.lag(), say)
                for sentence in monitor.due_notices():
                    say("note", f"{time.strftime('%H:%M:%S')}  {sentence}")
                if watched:
                    watched.check_input()
                last = now
        finally:
            engine.stop()
            with suppress(BrokersAwayTooLong, OutputGone, TwoEngines):
                monitor.read()
    total, seconds = monitor.report.total, time.monotonic() - started
    for warning in monitor.report.routes.warnings():
        say("note", warning)
    monitor.report.left_out.print_total(partial(say, "note"))
    say(
        "stopped",
        f"stopped after {seconds:.0f} s: {total['records']:,} events, {total['alerts']:,} alerts, "
        f"{total['deadLetters']:,} dead letters; started again, it continues",
        seconds=round(seconds, 1),
        **total,
    )


def _print_progress(
    new: Counter[str], rate: float, stored_events: int, lag: int | None, say: MessagePrinter
) -> None:
    text = (
        f"{time.strftime('%H:%M:%S')}  {rate:8,.0f} events/s  {new['alerts']:6,} alerts  "
        f"{stored_events:10,} events held  {new['deadLetters']:,} dead letters"
    )
    behind = {} if lag is None else {"eventsBehind": lag}
    text += f"  {lag:,} events behind" if behind else ""
    say("progress", text, eventsPerSecond=round(rate, 1), heldEvents=stored_events, **behind, **new)


def check_rules_fit_schema(control: "Log", schema: Schema) -> None:
    """Raises Usage if the control log's rules are all for events of another schema."""

    def fit(message: str, other: Schema) -> bool:
        try:
            return parse_message(message, other).kind == "rule"
        except BadRule:
            return False

    messages = control.read()
    if not any(fit(message, schema) for message in messages):
        for other in SCHEMAS.values():
            if any(fit(message, other) for message in messages):
                raise Usage(
                    f"the rules in {control} are for {other.name}, but this engine's events are {schema.name}: "
                    f"use --schema {other.name}, or another control log"
                )
