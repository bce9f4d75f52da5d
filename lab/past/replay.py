"""Evaluates rules over a finished file of events; all rules are in force before the first event.

    payments.jsonl ──► a log of its own ──► the engine's loop in this process, or Spark ──┐
                  └──► one event at a time ──► lab.model.reference ───────────────────────┴──► Replayed

Both give the same alerts in the same order, whatever the settings of the engine.
"""

import json
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.logs.files import FileLog
from lab.model.alerts import WITHDRAWN_LINE, Alert, AlertTable, parse_alert_line
from lab.model.deadletters import dead_letter
from lab.model.deadletters import line_batches as batches_of
from lab.model.formatting import html_table
from lab.model.jsontext import LongLine
from lab.model.language import say, translated
from lab.model.listmessages import is_list_sentence
from lab.model.messages import SENTENCE
from lab.model.reference import Reference
from lab.model.routestats import COUNTS, RouteTallies
from lab.model.rules import BadRule, RuleBook
from lab.model.schema import Schema
from lab.sources.rows import source_of
from lab.sources.sources import EventSource

ENGINES = ("local", "spark", "reference")
LINES_AT_ONCE = 50_000
MAX_RULES_BYTES = 64 << 20  # of a file of rules
COMMENT = re.compile(r"(?:(?<=[\r\n])|\A)[ \t]*#[^\r\n]*")  # a line of a file of rules
POLL_S = 0.5
ASSUMED = (
    " (payments are assumed, because nothing says what the events are: "
    'settings=lab.Settings(schema=lab.infer(events, "events").schema), or lab.alerts, which proposes a schema)'
)

Rules = Sequence[str | bytes]
Progress = Callable[[int, int], None]  # events done, lines to do


class NothingRead(UserWarning):
    """All records of a replay are dead letters: probably they have another schema."""


@dataclass(frozen=True)
class Replayed:
    """The result of a replay. `seconds`: from the first micro-batch's start to the last one's end."""

    engine: str
    alert_lines: list[str]  # JSON, sorted by event time, event id, rule id
    acks: list[dict]
    dead_letters: list[dict]
    counts: dict[str, int]
    routes: RouteTallies
    batches: int
    seconds: float
    nan_as_null: int = 0  # values
    shadow_lines: list[str] = field(default_factory=list)  # like alert_lines, of rules in state SHADOW

    @cached_property
    def alerts(self) -> AlertTable:
        return AlertTable(line for line in map(parse_alert_line, self.alert_lines) if isinstance(line, Alert))

    @property
    def alert_count(self) -> int:
        """How many alerts there were, also those that were withdrawn."""
        return sum(not line.startswith(WITHDRAWN_LINE) for line in self.alert_lines)

    @property
    def events(self) -> int:
        """Records in, good and bad."""
        return self.counts["records"]

    @property
    def has_only_dead_letters(self) -> bool:
        """Whether there were records, and all of them were bad."""
        return 0 < self.events == self.counts["deadLetters"]

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0

    def summary(self) -> dict[str, str | int | float]:
        """The run in one line, as `lab replay` prints it; duplicates and dropped_late are sums over all routes."""
        return {
            "engine": self.engine,
            "events": self.events,
            "alerts": self.alert_count,
            **({"shadow_alerts": len(self.shadow_lines)} if self.shadow_lines else {}),
            "dead_letters": self.counts["deadLetters"],
            "duplicates": self.counts["duplicates"],
            "dropped_late": self.counts["droppedLate"],
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events_per_second, 1),
        }

    def _repr_html_(self) -> str:
        summary = self.summary()
        warnings = "".join(f"<p>{escape(translated(warning))}</p>" for warning in self.routes.warnings())
        return html_table(say("The run"), summary, [summary.values()]) + warnings + self.alerts._repr_html_()


def replay(
    events: Any,
    rules: Rules,
    *,
    engine: str | None = None,
    settings: Settings | None = None,
    batches: int | None = None,
    spark=None,
    progress: Progress | None = None,
) -> Replayed:
    """Evaluates a file of events (JSON, CSV or Parquet, also gzip), the folder of an events log, or a topic: kafka://HOST:PORT/TOPIC;
    or rows in memory, as `lab.alerts` takes them: a DataFrame, or a list of dicts.

    `engine`: "local", in this process, with one task and without Java; "spark", with any number of tasks; "reference", one event at a
    time. Unless said, it is Spark if a session is given or `settings` ask for several tasks, otherwise local.
    `settings`: without them, those of the source's schema, of which rows and files have none: then they are payments. `batches`: how many micro-batches to cut it into; few and large is
    fastest. `spark`: a session to use, else one is made. Warns with NothingRead if all records are dead letters. Raises BadRule
    before anything starts if a rule would be rejected, ValueError if the source is for another schema, OSError if the file cannot
    be read.
    """
    if engine not in (None, *ENGINES):
        raise ValueError(f"engine: {engine!r}, expected one of {', '.join(ENGINES)}")
    if batches is not None and batches < 1:
        raise ValueError(f"batches: {batches}, expected 1 or more")
    of_source = events.schema if isinstance(events, EventSource) else None
    assumed = "" if settings or of_source else ASSUMED
    settings = settings or (Settings(of_source) if of_source else Settings())
    if of_source and of_source != settings.schema:
        raise ValueError(
            f"the source was made for {of_source.name} events, but the settings are for {settings.schema.name}: leave the settings out, "
            "or make both with one schema"
        )
    try:
        check_rules(rules, settings.schema)
    except BadRule as error:
        raise BadRule(f"{error}{assumed}") from None
    source = source_of(events, settings.schema)
    if source.texts:
        raise ValueError(
            f"the source is {source.format} without a schema, so its cells have no types: lab.source_at(path, schema=…)"
        )
    if source.record_format:  # what a file is its beginning has decided
        settings = replace(settings, schema=replace(settings.schema, records=source.record_format))
    engine = engine or ("spark" if spark or settings.parallelism > 1 else "local")
    if engine == "local" and settings.parallelism > 1:
        raise ValueError(f"engine: 'local' has one task, expected 'spark' for {settings.parallelism} tasks")
    if engine == "reference":
        result = _one_at_a_time(source, rules, settings, progress or _silent)
    elif engine == "local":
        result = _in_process(source, rules, settings, batches, progress or _silent)
    else:
        result = _on_spark(source, rules, settings, batches, spark, progress or _silent)
    if result.has_only_dead_letters:
        first = result.dead_letters[0]
        warnings.warn(
            f"all {result.events:,} records were read as {settings.schema.name}, and are dead letters; the first, at {first['place']}: "
            f"{first['reason']}",
            NothingRead,
            stacklevel=2,
        )
    return result


def read_rules(path: Path | str) -> list[str]:
    """The rules of a file: a JSON list of objects and sentences, a JSON object, or a rule in any form per line. Lines that begin with # are comments. Raises BadRule."""
    with open(path, "rb") as file:
        data = file.read(MAX_RULES_BYTES + 1)
    if len(data) > MAX_RULES_BYTES:
        raise BadRule(f"{path}: more than {MAX_RULES_BYTES >> 20} MiB, expected a file of rules")
    text = COMMENT.sub("", data.decode(errors="surrogateescape").removeprefix("\ufeff")).strip()
    if not text.startswith("["):
        return (
            [text] if _is_json_object(text) else [line for line in re.split(r"[\r\n]+", text) if line.strip()]
        )
    try:
        # as text, every digit of a limit stays
        rules = json.loads(
            text, parse_float=str, parse_int=lambda text: int(text) if len(text) < 40 else text
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadRule(f"{path} is not a JSON list of rules: {error}") from None
    return [rule if isinstance(rule, str) else json.dumps(rule) for rule in rules]


def read_rules_argument(text: str) -> list[str]:
    """The argument itself, or what is in the file of that name. Raises BadRule, OSError."""
    if not text.strip():
        raise BadRule(
            "the rule is empty, expected a sentence, such as COUNT(events) over 1 h > 5, or the name of a file of rules"
        )
    path = Path(text)
    try:
        is_file = path.is_file()
    except OSError:  # longer than any name of a file
        is_file = False
    # a sentence without its id has a bracket and then a word; the parser says that the id is missing
    is_rule = text.lstrip()[:1] in ("{", "(") or "," in text or ") " in text or SENTENCE.match(text)
    is_about_list = is_list_sentence(text) and len(text.split()) > 1  # "add.txt" is a file's name
    return [text] if (is_rule or is_about_list) and not is_file else read_rules(path)


def _is_json_object(text: str) -> bool:
    """Whether a text as a whole is one, maybe over several lines."""
    try:
        return text.startswith("{") and bool(json.loads(text, parse_int=str))
    except (json.JSONDecodeError, RecursionError):
        return False


def check_rules(rules: Rules, schema: Schema) -> RuleBook:
    """The rules in force once all are applied; raises BadRule if one would be rejected."""
    if isinstance(rules, str | bytes):
        raise TypeError("one text, expected a list of rules: [text], or lab.read_rules(path)")
    book = RuleBook(schema)
    for number, rule in enumerate(rules, 1):
        ack = book.apply(rule)
        if ack["status"] == "rejected":
            raise BadRule(f"rule {number} of {len(rules)}: {ack['reason']}")
    return book


def _silent(done: int, lines: int) -> None:
    pass


def _sorted(lines: list[str]) -> list[str]:
    """By event. Of the lines about one event the last one counts: alerts, that they are withdrawn, those that came again."""
    times_withdrawn: Counter[str] = Counter()
    placed = []
    for line in lines:
        fields, withdrawn = json.loads(line), line.startswith(WITHDRAWN_LINE)
        event = fields["eventTime"], fields["eventId"]
        about = f"{event} {fields['group']}"
        placed.append((*event, times_withdrawn[about], withdrawn, fields.get("ruleId"), line))
        times_withdrawn[about] += withdrawn
    return [line for *_, line in sorted(placed)]


def _one_at_a_time(source: EventSource, rules: Rules, settings: Settings, progress: Progress) -> Replayed:
    reference = Reference(
        settings.schema,
        late_policy=settings.late_policy,
        max_out_of_orderness_ms=settings.max_out_of_orderness_ms,
        key_groups=settings.key_groups,
    )
    for rule in rules:
        reference.control(rule)
    letters: list[dict] = []
    started = time.monotonic()
    for index, line in enumerate(source):
        if line.strip():
            reference.event(line, source.place(index))
        if len(reference.dead_letters) > len(letters):
            letters.append(json.loads(dead_letter(**reference.dead_letters[-1], raw=line)))
        if index % 1000 == 0:
            progress(index, len(source))
    seconds = time.monotonic() - started
    progress(len(source), len(source))
    alerts = _sorted([line.to_json() for line in reference.alerts_and_withdrawals])
    return Replayed(
        "reference",
        alerts,
        reference.acks,
        letters,
        reference.counts
        | {
            "shadowAlerts": len(reference.shadow_alerts),
            "suppressed": reference.suppressed.total(),
            "muted": reference.muted.total(),
        },
        reference.tallies,
        1,
        seconds,
        reference.nan_as_null.total(),
        _sorted([line.to_json() for line in reference.shadow_alerts]),
    )


def _in_process(
    source: EventSource, rules: Rules, settings: Settings, batches: int | None, progress: Progress
) -> Replayed:
    from lab.engine.loop.local import local_loop

    with TemporaryDirectory(prefix="lab-replay-") as name:
        logs = _new_logs(Path(name, "logs"), rules)
        places, long_lines = _logged(source, logs.log("events"), Event())
        settings = _with_batches(settings, logs, batches)
        _compile_once()  # before the clock starts: most of it is loading what the events need anyway
        stats, done, cuts, started = logs.log("stats").tail(), 0, 0, time.monotonic()
        with local_loop(logs, settings, str(Path(name, "checkpoint"))) as loop, loop.epoch() as running:
            while running.step():
                cuts += 1
                done += sum(json.loads(line).get("records", 0) for line in stats.read())
                progress(done, len(source))
            seconds = time.monotonic() - started
        return _read_results("local", logs, source, places, long_lines, cuts, seconds)


@cache
def _compile_once() -> None:
    from lab.engine.loop.inprocess import compile_kernels

    compile_kernels()


def _on_spark(
    source: EventSource, rules: Rules, settings: Settings, batches: int | None, spark, progress: Progress
) -> Replayed:
    from lab.engine.spark.pipeline import start
    from lab.machine.session import session

    with TemporaryDirectory(prefix="lab-replay-") as name, ExitStack() as until_done:
        logs = _new_logs(Path(name, "logs"), rules)
        beside, ended = until_done.enter_context(ThreadPoolExecutor()), Event()
        until_done.callback(ended.set)
        logged = beside.submit(_logged, source, logs.log("events"), ended)  # while Java starts
        spark = spark or until_done.enter_context(session(f"local[{settings.parallelism}]"))
        places, long_lines = logged.result()
        settings = _with_batches(settings, logs, batches)
        engine = start(spark, logs, Path(name, "checkpoint"), settings, once=True)
        done, seconds = _run(engine, logs, source, progress)
        return _read_results("spark", logs, source, places, long_lines, done, seconds)


def _new_logs(folder: Path, rules: Rules) -> FileLogs:
    logs = FileLogs(folder)
    logs.log("control").append(rules, log_time_ms=0)  # control is first among equal log times
    return logs


def _read_results(
    engine: str,
    logs: FileLogs,
    source: EventSource,
    places: dict[str, int],
    long_lines: dict[int, LongLine],
    batches: int,
    seconds: float,
) -> Replayed:
    letters = [json.loads(line) for line in logs.log("deadLetters").read()]
    letters = [_original(letter, source, places, long_lines) for letter in letters]
    names = (*COUNTS, "shadowAlerts", "suppressed", "muted", "nanAsNull")
    counts, routes = Counter(dict.fromkeys(names, 0)), RouteTallies()
    for stats in map(json.loads, logs.log("stats").read()):
        counts.update({name: n for name, n in stats.items() if name in counts})
        routes.add_stats(stats)
    nans = counts.pop("nanAsNull")
    acks = [json.loads(line) for line in logs.log("acks").read()]
    acks = [{name: ack[name] for name in ack if name not in ("place", "logTime")} for ack in acks]
    alerts, shadow = (_sorted(logs.log(name).read()) for name in ("alerts", "shadow"))
    return Replayed(engine, alerts, acks, letters, dict(counts), routes, batches, seconds, nans, shadow)


def _logged(source: EventSource, log: FileLog, ended: Event) -> tuple[dict[str, int], dict[int, LongLine]]:
    """Writes the lines as a log, unless that has `ended`; returns the line that each of its files starts with, and the long lines."""
    starts: dict[str, int] = {}
    long_lines: dict[int, LongLine] = {}
    first = 0
    for some in batches_of(source, LINES_AT_ONCE):
        if ended.is_set():
            break
        file, _, number = log.place(log.append(some, log_time_ms=0)).rpartition(":")
        starts.setdefault(file, first - int(number) + 1)
        long_lines |= {n: line for n, line in enumerate(some, first) if isinstance(line, LongLine)}
        first += len(some)
    return starts, long_lines


def _with_batches(settings: Settings, logs: FileLogs, batches: int | None) -> Settings:
    """Settings with which the events are read in about so many batches; None: as they are."""
    if not batches:
        return settings
    feed = logs.feed("events")
    records = feed.estimated_records(0, 0, feed.ends()[0])
    return replace(settings, max_batch_records=max(1, -(-records // batches)))


def _original(
    letter: dict, source: EventSource, starts: dict[str, int], long_lines: dict[int, LongLine]
) -> dict:
    """A dead letter with the place that its record came from, for `events/00000000000000000000.jsonl:7` of the log."""
    file, _, number = letter["place"].rpartition(":")
    index = starts[file] + int(number) - 1
    place = source.place(index)
    if line := long_lines.get(index):
        return json.loads(dead_letter(line.reason, place, line))
    return letter | {"place": place}


def _run(engine, logs, source: EventSource, progress: Progress) -> tuple[int, float]:
    """Waits until all events are read; returns the number of micro-batches and the seconds they took."""
    stats, done = logs.log("stats").tail(), 0
    first: Any = None
    with engine:
        ended = False
        while not ended:
            ended = engine.query.awaitTermination(POLL_S)
            first = first or next(iter(engine.query.recentProgress), None)  # Spark keeps the newest hundred
            done += sum(json.loads(line).get("records", 0) for line in stats.read())
            progress(done, len(source))
    last = engine.query.lastProgress
    seconds = last.durationMs["triggerExecution"] / 1000
    first_start, last_start = (datetime.fromisoformat(batch.timestamp) for batch in (first, last))
    return last.batchId + 1, seconds + (last_start - first_start).total_seconds()
