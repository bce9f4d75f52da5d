"""`lab replay`, `lab rules backtest`: evaluates rules on a finished file of events."""

import argparse
import errno
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lab.apps.target import Usage, checkpoint_schema_beside
from lab.cli.options import (
    RULES_FORMAT,
    Subparsers,
    add_command,
    add_config_option,
    add_engine_options,
    at_least,
    parse_log_place,
    settings_from_options,
    write_output,
)
from lab.model.alerts import AlertTable, event_id_text, utc_text
from lab.model.deadletters import error_kind
from lab.model.rules import operator_symbol
from lab.model.schema import PAYMENTS, SCHEMAS
from lab.model.words import escape_control_characters, plain_text

if TYPE_CHECKING:
    from lab.apps.replay import Replayed

ALERTS_SHOWN = 20
AS_EVER = ("JSON lines", "CSV without a header", "a log")  # formats that need no word
LOOKED_AT = 1_000  # lines, whether they have what the schema says
EVENTS = "JSON, CSV or Parquet, also gzip; the folder of an events log; or a topic: kafka://HOST:PORT/TOPIC"


def add_command_to(commands: Subparsers) -> None:
    """Adds `lab replay` to the command line."""
    command = add_command(
        commands,
        "replay",
        run,
        "evaluate rules on a finished file of events",
        f"""\
examples:
  lab replay datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json --out alerts.jsonl
  lab replay logins.csv --schema logins --rules rules.txt --out alerts.jsonl --engine reference
  lab replay orders.jsonl --schema orders.toml --rules rules.txt            your own events: `lab infer orders.jsonl --out orders.toml`
  lab replay kafka://127.0.0.1:9092/events --rules rules.txt                a topic, up to its present end
  lab replay logs/events --rules rules.txt                                  an engine's log, with its schema

All rules are in force before the first event. The alerts are sorted by event time, event id and rule id. The last line
of the output is one JSON object that summarizes the run; its duplicates and dropped_late are sums over all routes.

{RULES_FORMAT}""",
    )
    command.add_argument("events", type=parse_log_place, help=EVENTS)
    add_config_option(command)
    command.add_argument(
        "--rules",
        type=Path,
        required=True,
        help="a JSON list, or one rule per line: JSON, a sentence or plain text",
    )
    command.add_argument(
        "--out", type=Path, metavar="ALERTS", help="file to write, one alert per line (a table on the screen)"
    )
    command.add_argument(
        "--dead-letters",
        type=Path,
        metavar="FILE",
        help="file to write: bad records and what is wrong with them",
    )
    command.add_argument(
        "--engine",
        choices=("spark", "reference"),
        default="spark",
        help="reference: slow and simple, without Spark (spark)",
    )
    command.add_argument(
        "--batches",
        type=at_least(1),
        metavar="N",
        help="number of micro-batches for the file (few and large, the fastest)",
    )
    add_engine_options(command)


def run(options: argparse.Namespace) -> None:
    """Replays the events, writes or shows the alerts, and prints a summary as one JSON object."""
    from lab.apps.replay import read_rules

    options.schema = options.schema or checkpoint_schema_beside(options.events)
    outputs = (options.out, options.dead_letters)
    for path in filter(None, outputs):
        _check_output(path, Path(options.events), options.rules)
    result = replay_with_progress(options, read_rules(options.rules))
    for path, lines in zip(outputs, (result.alert_lines, map(json.dumps, result.dead_letters))):
        if path:
            write_output(path, (f"{line}\n" for line in lines))
    if not options.out:
        show_alerts(result.alerts)
    print(json.dumps(result.summary()))
    check_not_all_dead_letters(result, options.events)


def _check_output(path: Path, *inputs: Path) -> None:
    """Raises Usage or PermissionError before the work starts if an output file cannot be written or is an input."""
    if not path.parent.is_dir():
        raise Usage(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise Usage(f"{path}: is a folder, expected a file to write")
    if any(path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise Usage(f"{path}: is what the command reads, expected another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def show_alerts(alerts: AlertTable) -> None:
    """The first alerts as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    title = f"{len(alerts):,} alerts" + (f", the first {ALERTS_SHOWN}" if len(alerts) > ALERTS_SHOWN else "")
    table = Table("event time (UTC)", "rule", "group", "value", "event", title=title)
    for alert in alerts[:ALERTS_SHOWN]:
        value = f"{plain_text(alert.aggregate)} {operator_symbol(alert.operator)} {plain_text(alert.limit)}"
        cells = (utc_text(alert.event_time), alert.rule_id, alert.key, value, event_id_text(alert.event_id))
        table.add_row(*(Text(escape_control_characters(str(value))) for value in cells))
    Console(highlight=False).print(table)


def check_not_all_dead_letters(result: "Replayed", events_place: str) -> None:
    """Raises ValueError if all records were bad: the schema is probably the wrong one."""
    if result.events and result.counts["deadLetters"] == result.events:
        raise ValueError(
            f"all {result.events:,} records of {events_place} are dead letters: do they have another schema? "
            f"`lab infer {quote(events_place)} --out schema.toml` proposes one for --schema"
        )


def replay_with_progress(options: argparse.Namespace, rules: Sequence[str]) -> "Replayed":
    """Replays `options.events` with a progress bar, and sums up for people."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from lab.apps.infer import unmatched_field_warnings
    from lab.apps.replay import replay
    from lab.apps.report import report_sentences
    from lab.apps.say import compile_window_loop
    from lab.apps.sources import Source, source_at
    from lab.logs.config import load_config

    settings = settings_from_options(options)
    source = source_at(options.events, load_config(options.config), settings.schema)
    if settings.schema not in SCHEMAS.values():
        # of a file lines all over it: fields may appear late
        every = max(len(source) // LOOKED_AT, 1) if isinstance(source, Source) else 1
        for warning in unmatched_field_warnings(settings.schema, islice(source, 0, None, every)):
            print(f"lab: warning: {escape_control_characters(warning)}", file=sys.stderr)
    console = Console(stderr=True, highlight=False)
    if source.format not in AS_EVER:
        console.print(f"{options.events}: {source.format}", soft_wrap=True)
    if options.engine == "spark":
        compile_window_loop(console.print)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Starting", total=None)

        def progress(done: int, lines: int) -> None:
            bar.update(task, description="Events" if done else "Starting", completed=done, total=lines)

        result = replay(
            source,
            rules,
            engine=options.engine,
            settings=settings,
            batches=getattr(options, "batches", None),
            progress=progress,
        )
    for sentence in report_sentences(f"{result.events:,} records:", result.counts, result.routes):
        console.print(sentence, markup=False, soft_wrap=True)
    if result.nan_as_null:
        console.print(f"{result.nan_as_null:,} NaN or Infinity values were read as null.", soft_wrap=True)
    rate = f"{result.events_per_second:,.0f} events/s"
    console.print(f"{result.alert_count:,} alerts in {result.seconds:.1f} s, {rate}.", soft_wrap=True)
    kinds = Counter(error_kind(letter["reason"]) for letter in result.dead_letters)
    if len(result.dead_letters) > 3:
        by_kind = ", ".join(f"{kind} {count:,}" for kind, count in kinds.most_common())
        console.print(f"Dead letters by what is bad: {by_kind}.", markup=False, soft_wrap=True)
    for letter in result.dead_letters[:3]:
        console.print(
            escape_control_characters(f"Dead letter {letter['place']}: {letter['reason']}"),
            markup=False,
            soft_wrap=True,
        )
    if len(result.dead_letters) > 3:
        console.print(
            f"… and {len(result.dead_letters) - 3:,} more dead letters; --dead-letters FILE saves them all",
            markup=False,
        )
    return result


def backtest(options: argparse.Namespace) -> None:
    """Shows the alerts that the rule would have raised: how many, the most frequent groups, and the first ones."""
    from lab.apps.control import print_hints, read_rules_argument
    from lab.apps.replay import check_rules

    rules = read_rules_argument(options.rule)
    options.schema = options.schema or checkpoint_schema_beside(options.events)
    for rule in check_rules(rules, options.schema or PAYMENTS).sorted():
        print(f"rule {rule.rule_id}: {rule.describe()}")
    print_hints(rules, options.schema or PAYMENTS)
    result = replay_with_progress(options, rules)
    check_not_all_dead_letters(result, options.events)
    alerts = result.alerts
    groups = Counter((alert.group, alert.key) for alert in alerts)
    print(f"{len(alerts):,} alerts, {len(groups):,} groups")
    for (_, key), count in groups.most_common(options.top):
        print(f"{count:8,}  {escape_control_characters(key)}")
    if alerts:
        print("first:")
    for alert in alerts[: options.top]:
        aggregate = plain_text(alert.aggregate)
        who = escape_control_characters(f"{alert.key}  {aggregate}  event {event_id_text(alert.event_id)}")
        print(f"  {utc_text(alert.event_time)}  rule {alert.rule_id}  {who}")
