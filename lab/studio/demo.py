"""`lab demo`: a live payment stream with planted fraud, the engine, alerts as they come, and a table at the end.

    seconds    0 ─────────────── half ────── three quarters ───── end
    stream     pair, beneficiary, surge, lull, pair, beneficiary, surge, lull, …     each caught by its own rule
    rules      1 2 3 4           + 5         4 pauses

One thread makes the stream; all else, and all printing, is the main thread's.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from lab.engine.checkpoint.settings import Settings
from lab.logs.files import FileLog
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert
from lab.model.quantiles import percentile_texts
from lab.model.rules import Rule, RuleBook, rule_message
from lab.model.schema import PAYMENTS
from lab.model.statuslines import SCHEMA_STATUS, parse_ack
from lab.model.times import now_ms
from lab.running.report import RECORD_WORDS, StatsReport, report_sentences
from lab.running.run import raise_if_ended
from lab.running.say import compile_window_loop
from lab.stream.simulate import PlantedBurst, payments, to_json

if TYPE_CHECKING:
    from lab.engine.loop.filelogs import FileLogs

SEGMENT_S = 0.2  # the stream reaches its log this often
POLL_S = 0.1
DRAIN_S = 60  # how long the engine may take for what it has not read at the end
CYCLE = ("pair", "beneficiary", "surge", "lull")
SHOWN_AT_ONCE = 2  # alerts of one rule that are printed before the rest is only counted
BAD_EVERY_S = 5
SETTINGS = Settings(key_groups=8)  # few and small micro-batches' worth: latency before throughput
NEW_RULE, PAUSED_RULE = 5, 4
PERCENTILES = (50, 90, 99)
# the words of the output that a newcomer cannot guess, each said once, where it comes first
WHAT_A_DEAD_LETTER_IS = "a record that cannot be read; it is kept with this reason, and the engine goes on"
WHAT_A_ROUTE_IS = "A route: all rules with the same grouping keys and filter share one copy of the events."
WHAT_PERCENTILES_ARE = "p50: half of the alerts came at least as soon; p99: 99 of 100 did"


def first_rules(rate_per_s: int) -> list[dict]:
    """The Flink demo's four rules, with windows that fit a stream of less than a minute."""
    pair, kind = ["payeeId", "beneficiaryId"], ["paymentType"]
    return [
        rule_message(1, pair, "paymentAmount", "SUM", "GREATER", 20_000_000, "5s"),
        rule_message(2, kind, "COUNT_FLINK", "SUM", "LESS", 5, "1s"),
        rule_message(3, ["beneficiaryId"], "paymentAmount", "SUM", "GREATER_EQUAL", 10_000_000, "5s"),
        rule_message(
            4, kind, "COUNT_WITH_RESET_FLINK", "SUM", "GREATER_EQUAL", math.ceil(0.9 * rate_per_s), "1s"
        ),
    ]


def new_rule() -> dict:
    """A rule for beneficiaries who are paid often; an ordinary one is paid 2.5 times in 10 s, see `endless_payment_stream`."""
    return rule_message(NEW_RULE, ["beneficiaryId"], "COUNT_FLINK", "SUM", "GREATER_EQUAL", 9, "10s")


def endless_payment_stream(rate_per_s: int, burst_round_s: int, start_ms: int) -> Iterator[dict]:
    """Endless payments from `start_ms` on, with at least one round of bursts in the first `burst_round_s`.

    A burst goes well over its rule's limit: some of its payments come late and miss the others.
    """
    step_ms = min(2500, 1000 * burst_round_s // (len(CYCLE) + 1))
    starts = range(step_ms, 3_600_000, step_ms)
    planted = {
        "pair": lambda at: PlantedBurst("pair", at, 500, 5, 35_000_000),
        "beneficiary": lambda at: PlantedBurst("beneficiary", at, 500, 14, 12_000_000),
        "surge": lambda at: PlantedBurst("surge", at, 1000, math.ceil(0.8 * rate_per_s)),
    }
    plan = list(zip(starts, cycle(CYCLE)))
    return payments(
        seed=1,
        events=None,
        start_ms=start_ms,
        rate_per_s=rate_per_s,
        payees=4 * rate_per_s,
        beneficiaries=4 * rate_per_s,
        bursts=[planted[kind](at) for at, kind in plan if kind in planted],
        lulls=[(at, min(1100, step_ms)) for at, kind in plan if kind == "lull"],
    )


class Producer(Thread):
    """Appends the stream to its log as time goes by, now and then with a record that is cut short."""

    def __init__(self, log: FileLog, rate: int, seconds: int):
        super().__init__(daemon=True)
        self._log, self._rate, self._seconds, self._stopping = log, rate, seconds, Event()
        self.sent = 0
        self.error: OSError | None = None

    def run(self) -> None:
        try:
            self._produce()
        except OSError as error:  # a full disk, say: whoever waits for us must know
            self.error = error

    def stop(self) -> None:
        """Ends the stream, if it has not ended, and waits until it has."""
        self._stopping.set()
        self.join()

    def _produce(self) -> None:
        start_ms = now_ms()
        end_ms, next_bad_ms = start_ms + 1000 * self._seconds, start_ms + 1000 * BAD_EVERY_S
        events = endless_payment_stream(self._rate, self._seconds, start_ms)
        event = next(events)
        while (now := now_ms()) < end_ms and not self._stopping.wait(SEGMENT_S):
            lines = []
            while event["eventTime"] <= now_ms():
                lines.append(to_json(event))
                event = next(events)
            if now >= next_bad_ms:
                lines.append(to_json(event)[:40])
                next_bad_ms += 1000 * BAD_EVERY_S
            self._log.append(lines)
            self.sent += len(lines)


class DemoConsole:
    """Publishes rules, and prints to a terminal: alerts and answers as they come, the table at the end. Used by one thread only."""

    def __init__(self, console: Console, logs: "FileLogs"):
        self._console, self._logs = console, logs
        self._alerts, self._acks, self._letters = (
            logs.log(name).tail() for name in ("alerts", "acks", "deadLetters")
        )
        self.book = RuleBook(PAYMENTS)
        self.rules: dict[int, Rule] = {}  # as last in force
        self.published: dict[int, int] = {}  # rule id -> log time of the message that the audience waits for
        self.latencies: dict[int, list[int]] = defaultdict(list)
        self.answers = self.dead_letters = 0
        self.first_alert: float | None = None

    def publish(self, messages: Iterable[dict]) -> None:
        """Sends control messages to the engine."""
        for message in messages:
            log = self._logs.log("control")
            position = log.append([json.dumps(message)])
            _, log_times = log.append_ends_and_times_arrays(position, log.end())
            self.published.setdefault(message["ruleId"], int(log_times[0]))
            self.book.apply(json.dumps(message))
            self.rules |= {rule.rule_id: rule for rule in self.book.sorted()}

    def print_new_results(self) -> None:
        """Prints what came since the last time."""
        for ack in map(parse_ack, self._acks.read()):
            if ack["status"] == SCHEMA_STATUS:
                continue
            self.answers += 1
            rule = self.rules[ack["ruleId"]]
            self._console.print(
                f"[bold]rule {rule.rule_id} {ack['ruleState']}[/]: {rule.describe()}", soft_wrap=True
            )
        for letter in map(json.loads, self._letters.read()):
            self._console.print(f"[yellow]dead letter[/] {letter['place']}: ", end="", soft_wrap=True)
            self._console.print(letter["reason"], markup=False, soft_wrap=True)
            if not self.dead_letters:
                self._console.print(f"{'':10}[dim]({WHAT_A_DEAD_LETTER_IS})[/]", soft_wrap=True)
            self.dead_letters += 1
        by_rule: dict[int, list[Alert]] = defaultdict(list)
        for alert in map(Alert.from_json, self._alerts.read()):
            by_rule[alert.rule_id].append(alert)
        for rule_id, alerts in sorted(by_rule.items()):
            if rule_id == NEW_RULE and not self.latencies[rule_id]:
                waited = (alerts[0].alert_time or 0) - self.published[rule_id]
                self._console.print(
                    f"[bold]the new rule's first alert came {waited} ms after it was published[/]"
                )
            self.first_alert = self.first_alert or time.monotonic()
            self.latencies[rule_id] += [alert.log_to_alert_ms or 0 for alert in alerts]
            for alert in alerts[:SHOWN_AT_ONCE]:
                self._print(alert)
            if len(alerts) > SHOWN_AT_ONCE:
                self._console.print(
                    f"{'':10}[dim]and {len(alerts) - SHOWN_AT_ONCE} more alerts of rule {rule_id}[/]"
                )

    def _print(self, alert: Alert) -> None:
        rule = self.rules[alert.rule_id]
        clock = time.strftime("%H:%M:%S", time.localtime((alert.alert_time or 0) / 1000))
        condition = f"{alert.aggregate:,} {rule.first.symbol} {alert.limit:,}"
        self._console.print(
            f"{clock}  [red]rule {alert.rule_id}[/]  {alert.key:36} {condition:28} [dim]{alert.log_to_alert_ms:5} ms[/]",
            soft_wrap=True,
        )

    def latency_table(self) -> Table:
        """What each rule gave, and how fast."""
        title = "Latency from logging the event to the alert, ms"
        table = Table("rule", "alerts when", "state", title=title, caption=WHAT_PERCENTILES_ARE)
        for name in ("alerts", *(f"p{share}" for share in PERCENTILES)):
            table.add_column(name, justify="right")
        total = [latency for latencies in self.latencies.values() for latency in latencies]
        for rule_id, rule in sorted(self.rules.items()):
            latencies = self.latencies[rule_id]
            table.add_row(
                str(rule_id),
                rule.describe(),
                rule.state,
                f"{len(latencies):,}",
                *percentile_texts(latencies, PERCENTILES),
            )
        table.add_section()
        table.add_row("all", "", "", f"{len(total):,}", *percentile_texts(total, PERCENTILES))
        return table


def run(seconds: int, rate_per_s: int) -> None:
    """Plays the demo; Ctrl-C stops it early, with the table."""
    began = time.monotonic()
    console = Console(highlight=False)

    def say(text: str) -> None:
        console.print(f"[bold]{time.monotonic() - began:5.1f} s[/]  {text}", soft_wrap=True)

    console.print(
        f"{seconds} s of {rate_per_s} payments per second, with planted fraud. Ctrl-C stops it early."
    )
    compile_window_loop(say)
    say("starting Spark")
    with TemporaryDirectory(prefix="lab-demo-") as name:
        from lab.engine.loop.filelogs import FileLogs
        from lab.engine.spark.pipeline import start
        from lab.machine.session import session

        logs = FileLogs(Path(name))
        show, report = DemoConsole(console, logs), StatsReport(logs.log("stats"))
        show.publish(first_rules(rate_per_s))
        with session() as spark, stop_signals() as stopped:
            say("starting the engine: Spark plans and compiles its query, then the engine reads the rules")
            producer = Producer(logs.log("events"), rate_per_s, seconds)
            with start(spark, logs, Path(name, "checkpoint"), SETTINGS) as engine:
                while show.answers < len(show.rules) and not stopped.wait(POLL_S):
                    raise_if_ended(engine.query)
                    show.print_new_results()
                if stopped.is_set():
                    raise KeyboardInterrupt
                say("the stream starts")
                started = time.monotonic()
                producer.start()
                _play(engine, producer, show, stopped, seconds)
                producer.stop()
                _drain(engine, producer, show, report)
                took = time.monotonic() - started
    console.print(show.latency_table())
    _sum_up(console, producer.sent, report, took)
    if show.first_alert:
        console.print(
            f"The first alert was on the screen {show.first_alert - began:.1f} s after the command started."
        )


def _play(engine, producer: Producer, show: DemoConsole, stopped: Event, seconds: int) -> None:
    """Shows what comes while the stream lasts; adds a rule half way and pauses one later."""
    started = time.monotonic()
    plan = [(seconds / 2, new_rule()), (seconds * 3 / 4, {"ruleId": PAUSED_RULE, "ruleState": "PAUSE"})]
    while producer.is_alive() and not stopped.wait(POLL_S):
        raise_if_ended(engine.query)
        show.print_new_results()
        if plan and time.monotonic() - started >= plan[0][0]:
            show.publish([plan.pop(0)[1]])
    if producer.error:
        raise producer.error


def _drain(engine, producer: Producer, show: DemoConsole, report: StatsReport) -> None:
    """Waits until the engine has read all that was sent."""
    give_up = time.monotonic() + DRAIN_S
    while report.total["records"] < producer.sent and time.monotonic() < give_up:
        raise_if_ended(engine.query)
        time.sleep(POLL_S)
        report.read()
    show.print_new_results()


def _sum_up(console: Console, sent: int, report: StatsReport, seconds: float) -> None:
    equals = "=" if sent == sum(report.total[name] for name in RECORD_WORDS) else "≠"
    for sentence in report_sentences(f"{sent:,} records sent {equals}", report.total, report.routes):
        console.print(sentence, markup=False, soft_wrap=True)
    console.print(WHAT_A_ROUTE_IS, soft_wrap=True)
    console.print(f"{sent / seconds:,.0f} events/s over {seconds:.0f} s.", soft_wrap=True)
