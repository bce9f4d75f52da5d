"""How fast a backlog on a topic is read, nothing else at work: by a running engine's loop from one partition and from two; by an engine that ends
when it has read all, with one task from one partition and with two from two.

Engine and broker are processes of this machine; the events are in the topic before the engine starts. The first run of each
is not counted: it compiles.
"""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice, product
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyarrow as pa
import pyarrow.json
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.spark import pipeline
from lab.logs.cluster import to_cluster
from lab.logs.partitions import AT_ONCE, READING
from lab.machine import broker
from lab.machine.session import session
from lab.model.enginelogs import WRITTEN
from lab.running.run import OPTIMISING
from tests.topics import counted
from tests.waiting import wait_until
from tools.bench.data import Payments, three_rules
from tools.bench.drive import OURS, Run, cpu_seconds, run
from tools.bench.feed import feed

TARGETS = {1: 400_000, 2: 500_000}  # partitions -> events/s
MANY = 32  # cores, on paper
LINES_AT_ONCE = 10_000
LOOK_S = 0.5  # to look whether a running engine has read all takes CPU time from it


def catchup(events: int, repeats: int, console: Console) -> None:
    """Prints events/s for each number of partitions, where the time goes, and what more cores would make of it."""
    runs: dict[int, list[Run]] = {}
    running: dict[int, list[Rate]] = {}
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder, broker.running_broker() as kafka:
        made = Payments.make(Path(folder, "made"), events, keys=100_000)
        for partitions in TARGETS:
            backlog(kafka.address, made, partitions)
        # each in a session of its own, as with `lab run`: Spark's workers take turns, if there are several
        with _session() as spark:
            for number, partitions in product(range(1 + repeats), TARGETS):
                with console.status(
                    f"Round {number} of {repeats}: a running engine, {partitions} partitions"
                ):
                    rate = caught_up_running(spark, kafka.address, partitions, number, events)
                running.setdefault(partitions, []).append(rate)
        with _session() as spark:
            for number, partitions in product(range(1 + repeats), TARGETS):
                with console.status(f"Round {number} of {repeats}: {partitions} partitions"):
                    one = caught_up(spark, kafka.address, partitions, number)
                assert one.events == events, f"{one.events} of {events} events evaluated"
                runs.setdefault(partitions, []).append(one)
        with console.status("What libraries take"):
            alone = libraries(kafka.address, made)
    measured = {partitions: of[1:] for partitions, of in runs.items()}
    print_rates(measured, {partitions: of[1:] for partitions, of in running.items()}, console)
    print_account(measured, console)
    console.print(alone)
    print_amdahl(measured, console)


def _session() -> AbstractContextManager[SparkSession]:
    return session(f"local[{max(TARGETS)}]", conf=OPTIMISING)


def backlog(address: str, made: Payments, partitions: int) -> None:
    """Fills a topic; the rules are in force before."""
    logs = KafkaLogs(address, topics(partitions, 0))
    logs.create(partitions)
    logs.log("control").publish(three_rules(), ["1", "2", "3"])
    feed(address, logs.topic("events"), made.file, 0, made.events)


def topics(partitions: int, number: int) -> dict[str, str]:
    """Each run writes to topics of its own."""
    return {name: f"{name}-{partitions}" for name in ("events", "control")} | {
        name: f"{name}-{partitions}-{number}" for name in WRITTEN
    }


def caught_up(spark: SparkSession, address: str, partitions: int, number: int) -> Run:
    """One run over the backlog, from a checkpoint of its own."""
    logs = KafkaLogs(address, topics(partitions, number))
    logs.create(partitions)
    with tempfile.TemporaryDirectory(prefix="lab-bench-") as folder:
        return run(spark, logs, Path(folder), Settings(parallelism=partitions, short_batches=False))


class Rate(NamedTuple):
    """Events a second, and how many it would be if two cores never waited."""

    by_clock: float
    by_cpu: float


def caught_up_running(spark: SparkSession, address: str, partitions: int, number: int, events: int) -> Rate:
    """The rate of a running engine with one task, from when it chose its first cut to the end of its last, so with all saves between them."""
    written = {name: f"{name}-running-{partitions}-{number}" for name in WRITTEN}
    logs = KafkaLogs(address, topics(partitions, number) | written)
    logs.create(partitions)
    with (
        tempfile.TemporaryDirectory(prefix="lab-bench-") as folder,
        cpu_seconds() as cpu,
        pipeline.start(spark, logs, Path(folder), Settings(short_batches=False)),
    ):
        wait_until(lambda: counted(logs)["records"] == events, pause_s=LOOK_S)
    cuts = [line for line in map(json.loads, logs.log("stats").read()) if line.get("records")]
    assert len(cuts) > 1, f"{events} events are one cut: a rate needs several"
    seconds = (cuts[-1]["times"]["end"] - cuts[0]["times"]["start"]) / 1000
    return Rate(events / seconds, events / (sum(cpu[name] for name in OURS) / 2))


def print_rates(
    runs: Mapping[int, Sequence[Run]], running: Mapping[int, Sequence[Rate]], console: Console
) -> None:
    table = Table(
        "partitions, tasks", "events/s", "range", "by CPU alone", "target", title="A backlog, 3 rules"
    )
    rows = [(f"{n}, 1, running", of, TARGETS[n]) for n, of in running.items()]
    rows += [
        (f"{n}, {n}", [Rate(one.rate, one.cpu_rate) for one in of], TARGETS[n]) for n, of in runs.items()
    ]
    for name, rates, target in rows:
        by_clock = [rate.by_clock for rate in rates]
        met = "met" if median(by_clock) >= target else "NOT MET"
        table.add_row(
            name,
            f"{median(by_clock):,.0f}",
            f"{min(by_clock):,.0f} – {max(by_clock):,.0f}",
            f"{median(rate.by_cpu for rate in rates):,.0f}",
            f"{met} {target:,}",
        )
    console.print(table)


def print_account(runs: Mapping[int, Sequence[Run]], console: Console) -> None:
    """Where the time of an event goes, and the CPU of each process, in µs."""
    heads = (f"{n} partition{'s' * (n > 1)}, {n} task{'s' * (n > 1)}" for n in runs)
    table = Table("µs an event", *heads, title="Account")
    columns = [[account(one) for one in of] for of in runs.values()]
    for name in columns[0][0]:
        table.add_row(name, *(f"{median(one[name] for one in of):.2f}" for of in columns))
    console.print(table)


def account(one: Run) -> dict[str, float]:
    """µs an event: stages of tasks, added up where several run at once, all of the time, and CPU by process."""
    micro = 1e6 / one.events
    named = {"planMs": "plan", "decodeMs": "read, decode", "routeMs": "route", "evaluateMs": "evaluate"}
    spent = {name: sum(stats.get(of, 0) for stats in one.stats) / 1000 for of, name in named.items()}
    spent["all, by the clock"] = one.seconds
    spent |= {f"CPU of {name}": seconds for name, seconds in one.cpu.items()}
    return {name: micro * seconds for name, seconds in spent.items()}


def libraries(address: str, made: Payments) -> str:
    """The µs of CPU that libraries alone need for an event: a bare consumer to read it, Arrow to parse it."""
    cluster, logs = to_cluster(address), KafkaLogs(address, topics(1, 0))
    consumer = Consumer(cluster.librdkafka_properties | READING | {"group.id": "libraries"})
    consumer.assign([TopicPartition(logs.topic("events"), 0, 0)])
    before, read = time.process_time(), 0
    while read < made.events:
        read += len(consumer.consume(AT_ONCE, timeout=1.0))
    consuming = time.process_time() - before
    consumer.close()
    parsing = 0.0
    with made.file.open("rb") as file:
        while lines := list(islice(file, LINES_AT_ONCE)):
            text = pa.BufferReader(b"".join(lines))
            before = time.process_time()
            pyarrow.json.read_json(text, pyarrow.json.ReadOptions(use_threads=False))
            parsing += time.process_time() - before
    consumed, parsed = (1e6 * seconds / made.events for seconds in (consuming, parsing))
    return f"of these, µs of CPU by libraries alone: {consumed:.2f} for a bare consumer of librdkafka, {parsed:.2f} for Arrow's JSON reader"


def print_amdahl(runs: Mapping[int, Sequence[Run]], console: Console) -> None:
    """What is shared among tasks and what is not, and Amdahl's law."""
    table = Table(
        "partitions, tasks",
        "in tasks",
        "beside them",
        f"on paper, {MANY} cores",
        title="Seconds for 1,000,000 events; events/s",
    )
    for partitions, of in runs.items():
        in_tasks, beside = (
            median(part / one.events * 1e6 for one, part in zip(of, parts))
            for parts in zip(*(task_seconds(one) for one in of))
        )
        paper = 1e6 / (beside + in_tasks / MANY)
        table.add_row(str(partitions), f"{in_tasks:.2f}", f"{beside:.2f}", f"{paper:,.0f}")
    console.print(table)
    console.print(
        "In tasks: reading, decoding, routing, evaluating, state files, alerts; as many tasks share it as there are partitions "
        "and key-groups. Beside them, one after another: the cut, Spark's plans and logs, the start and end of stages. "
        "On paper the former is spread evenly over the cores, each with a partition, at batches of this size, and nothing "
        "else gets in the way."
    )


def task_seconds(one: Run) -> tuple[float, float]:
    """Seconds that tasks ran, added up, and those of the micro-batches in which no stage did."""
    in_tasks = sum(stage["runMs"] for stage in one.stages) / 1000
    in_stages = sum(stage["end"] - stage["start"] for stage in one.stages) / 1000
    batches = sum(batch["durationMs"]["triggerExecution"] for batch in one.batches) / 1000
    return in_tasks, max(batches - in_stages, 0)
