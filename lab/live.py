"""`lab run` and `lab rules`: the engine on logs that grow, and the control log from the command line."""

import json
import signal
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from lab.alerts import utc
from lab.engine.settings import Settings
from lab.logs.files import FileLog, Segment
from lab.reference import COUNTS
from lab.rules import BadRule, RuleBook, parse_message
from lab.schema import SCHEMAS, plain

OPTIONS = {"events": "events", "rules": "control", "alerts": "alerts"}  # option -> log
OPTIONS |= {"acks": "acks", "dead_letters": "deadLetters", "stats": "stats"}
COUNT_WORDS = {  # what became of the records; together they are all
    "evaluated": "evaluated",
    "storedLate": "stored late",
    "duplicates": "duplicates",
    "droppedLate": "dropped late",
    "deadLetters": "dead letters",
}
REPORT_S, POLL_S = 1.0, 0.1


def logs_of(options: Namespace):
    """The logs that the arguments name; those not named are beside the alerts, or beside the rules."""
    from lab.engine.ends import FileLogs

    named = {log: path for option, log in OPTIONS.items() if (path := getattr(options, option, None))}
    beside = named.get("alerts", named.get("control"))
    return FileLogs(options.logs or (beside.absolute().parent if beside else Path("logs")), named)


@contextmanager
def stop_signals() -> Iterator[Event]:
    """Ctrl-C and SIGTERM set the event; the second one interrupts. Enter it after Spark, which has its own handler."""
    stopped = Event()

    def stop(number: int, frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_if_failed(engine) -> None:
    """Raises what ended the engine's query, if something did."""
    if not engine.query.isActive:
        raise engine.query.exception() or RuntimeError("the query ended by itself")


# -- lab run -----------------------------------------------------------------------------------------------------------


class Report:
    """What an engine did since the report began, read from its stats log."""

    def __init__(self, stats: FileLog):
        self._tail, self.total = stats.tail(new=True), Counter()
        self._held: dict[int, int] = {}  # by key-group

    @property
    def held(self) -> int:
        """Events held in windows, as far as this run has seen their key-groups."""
        return sum(self._held.values())

    def read(self) -> Counter[str]:
        """What came since the last call."""
        new: Counter[str] = Counter()
        for line in self._tail.read():
            stats = json.loads(line)
            self._held[stats["keyGroup"]] = stats["heldEvents"]
            new.update({name: stats.get(name, 0) for name in (*COUNTS, "alerts")})
        self.total.update(new)
        return new


def run(logs, checkpoint: Path | None, settings: Settings) -> None:
    """Runs the engine until Ctrl-C or SIGTERM, a line a second while something happens."""
    from rich.console import Console

    from lab.engine.pipeline import start
    from lab.session import session

    console = Console(stderr=True, highlight=False)
    checkpoint = checkpoint or logs.folder / "checkpoint"
    console.print("continues from" if (checkpoint / "lab.json").exists() else "new checkpoint", checkpoint)
    console.print("starting Spark")
    with session(f"local[{settings.parallelism}]") as spark, stop_signals() as stopped:
        report = Report(logs.log("stats"))
        engine = start(spark, logs, checkpoint, settings)
        try:
            console.print(
                f"reading {logs.log('events').folder} and {logs.log('control').folder}; Ctrl-C ends it"
            )
            started = last = time.monotonic()
            while not stopped.wait(REPORT_S):
                raise_if_failed(engine)
                new, now = report.read(), time.monotonic()
                if new:
                    rate = new["records"] / (now - last)
                    console.print(
                        f"{time.strftime('%H:%M:%S')}  {rate:8,.0f} events/s  {new['alerts']:6,} alerts  "
                        f"{report.held:10,} events held  {new['deadLetters']:,} dead letters",
                        soft_wrap=True,
                    )
                last = now
        finally:
            engine.stop()
            report.read()
        total = report.total
        console.print(
            f"stopped after {time.monotonic() - started:.0f} s: {total['records']:,} events, {total['alerts']:,} alerts, "
            f"{total['deadLetters']:,} dead letters; start it again and it continues",
            soft_wrap=True,
        )


# -- lab rules ---------------------------------------------------------------------------------------------------------


def add(options: Namespace) -> None:
    """Sends rules, or control commands, to the engine."""
    from lab.replay import read_rules

    send(options, rules_of(options.rule, read_rules))


def change(options: Namespace, state: str) -> None:
    """Pauses, activates or deletes a rule."""
    send(options, [json.dumps({"ruleId": options.rule_id, "ruleState": state})])


def rules_of(text: str, read) -> list[str]:
    """The argument itself, or what is in the file of that name."""
    path = Path(text)
    is_rule = text.lstrip()[:1] in ("{", "(") or "," in text
    return [text] if is_rule and not path.is_file() else read(path)


def send(options: Namespace, messages: Sequence[str]) -> None:
    """Appends messages to the control log and shows the answers. Raises BadRule for one that is rejected."""
    for message in messages:
        parse_message(message, SCHEMAS[options.schema])
    logs = logs_of(options)
    control, acks = logs.log("control"), logs.log("acks").tail()
    acks.read()
    segment = control.append(messages)
    waiting = {f"{segment.parent.name}/{segment.name}:{number}" for number in range(1, len(messages) + 1)}
    rejected, deadline = [], time.monotonic() + options.timeout
    while waiting and time.monotonic() < deadline:
        for ack in map(json.loads, acks.read()):
            if ack["place"] in waiting:
                waiting.remove(ack["place"])
                rejected += [ack["reason"]] if ack["status"] == "rejected" else []
                print(_answer(ack))
        time.sleep(POLL_S)
    if waiting:
        print(f"queued in {segment}: no answer within {options.timeout:g} s, the next `lab run` will read it")
    if rejected:
        raise BadRule(rejected[0])


def _answer(ack: dict) -> str:
    if ack["status"] == "rejected":
        return f"rejected: {ack['reason']}"
    if "ruleId" in ack:
        return f"accepted: rule {ack['ruleId']} version {ack['version']} {ack['ruleState']}"
    said = {name: value for name, value in ack.items() if name not in ("status", "place", "logTime")}
    return "accepted: " + json.dumps(said)


def show(options: Namespace) -> None:
    """Prints the rules that the control log gives."""
    folder = (options.rules or (options.logs or Path("logs")) / "control").absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no control log; `lab rules add` or `lab run` makes one")
    book = RuleBook(SCHEMAS[options.schema])
    for segment in FileLog(folder).segments():
        for _, message in Segment.read(str(segment)).lines():
            book.apply(message)
    for rule in book.sorted():
        print(f"{rule.rule_id:6}  v{rule.version:<3} {rule.state:7} {rule.describe()}")
    if not book.rules:
        print("no rule is in force")


def backtest(options: Namespace) -> None:
    """What the rule would have alerted, who most, and what first."""
    from lab.cli import replayed
    from lab.replay import check_rules, read_rules

    rules = rules_of(options.rule, read_rules)
    for rule in check_rules(rules, SCHEMAS[options.schema]).sorted():
        print(f"rule {rule.rule_id}: {rule.describe()}")
    alerts = replayed(options, rules).alerts
    keys = Counter(alert.key for alert in alerts)
    print(f"{len(alerts):,} alerts, {len(keys):,} groups")
    for key, count in keys.most_common(options.top):
        print(f"{count:8,}  {key}")
    if alerts:
        print("first:")
    for alert in alerts[: options.top]:
        aggregate = plain(alert.aggregate)
        print(
            f"  {utc(alert.event_time)}  rule {alert.rule_id}  {alert.key}  {aggregate}  event {alert.event_id}"
        )
