"""Replays for people at a terminal: with progress, tables and summaries. Used by `lab replay` and `lab rules backtest`."""

import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lab.engine.checkpoint.settings import Settings
from lab.logs.config import load_config
from lab.model.alerts import Alert, AlertTable, event_id_text, utc_text
from lab.model.deadletters import error_kind
from lab.model.formatting import escape_control_characters, plain_text
from lab.model.rules import operator_symbol
from lab.model.times import offset_ms
from lab.past.alertframe import alert_table
from lab.past.eventwarnings import event_warnings
from lab.past.overlap import overlap_of
from lab.past.replay import NothingRead, Replayed, check_rules, read_rules, replay
from lab.running.control import print_hints_of_book
from lab.running.outputfile import (
    check_different,
    check_ending,
    check_output,
    is_csv,
    write_csv,
    write_output,
)
from lab.running.report import report_sentences
from lab.running.say import compile_window_loop, print_warning
from lab.sources.order import sort_advice
from lab.sources.sortedsource import SortedSource
from lab.sources.sources import source_at

ALERTS_SHOWN = 20
FIRST_OF_RULE, RULES_SHOWN = 2, 20  # alerts of each of several rules, and how many rules
AS_EVER = ("JSON lines", "CSV without a header", "a log")  # formats that need no word


def replay_to_files(
    events_place: str,
    rules_file: Path,
    settings: Settings,
    *,
    engine: str | None = None,
    batches: int | None = None,
    config_file: Path | None = None,
    sort: bool = False,
    alerts_file: Path | None = None,
    shadow_file: Path | None = None,
    dead_letters_file: Path | None = None,
) -> None:
    """Replays events, writes or shows the alerts, and prints a summary as one JSON object. `sort`: by event time first. Other arguments as of `replay`.

    Raises Usage or PermissionError before the replay starts if a file cannot be written, or if both are one, and ValueError if all records were bad.
    """
    outputs = (alerts_file, shadow_file, dead_letters_file)
    for path in filter(None, outputs):
        check_output(path, Path(events_place), rules_file)
        check_ending(path, "JSON lines or, of alerts, CSV", ".parquet", ".xls", ".xlsx")
    if dead_letters_file:
        check_ending(dead_letters_file, "JSON lines", ".csv")
    check_different(*outputs)
    rules = read_rules(rules_file)
    book = check_rules(rules, settings.schema)
    print_hints_of_book(rules, book, sys.stderr)
    result = replay_with_progress(
        events_place, rules, settings, engine=engine, batches=batches, config_file=config_file, sort=sort
    )
    written = result.alert_lines, result.shadow_lines, map(json.dumps, result.dead_letters)
    for file, lines in zip(outputs, written):
        if file and is_csv(file):
            write_csv(file, alert_table(list(lines), book.sorted(), settings.schema))
        elif file:
            write_output(file, (f"{line}\n" for line in lines))
    if not alerts_file:
        print_alerts_table(result.alerts)
    print(json.dumps(result.summary()))
    check_not_all_dead_letters(result, events_place)


def print_backtest(
    events_place: str,
    rules: Sequence[str],
    settings: Settings,
    *,
    engine: str | None = None,
    config_file: Path | None = None,
    sort: bool = False,
    top: int = 5,
) -> None:
    """Prints the alerts that rules would have raised: how many, the `top` most frequent groups, and the first ones, of several rules two of each."""
    book = check_rules(rules, settings.schema)
    in_force = book.sorted()
    for rule in in_force:
        print(f"rule {rule.rule_id}: {rule.describe()}")
    print_hints_of_book(rules, book)
    result = replay_with_progress(
        events_place, rules, settings, engine=engine, config_file=config_file, sort=sort
    )
    check_not_all_dead_letters(result, events_place)
    alerts = result.alerts
    groups = Counter((alert.group, alert.key) for alert in alerts)
    print(f"alerts: {len(alerts):,}, groups: {len(groups):,}")
    overlap = overlap_of(alerts, [rule.rule_id for rule in in_force] if len(in_force) > 1 else [])
    for each in overlap.rules:
        said = f"alerts: {each.alerts:,}, groups: {each.groups:,}, events: {each.events:,}"
        print(f"  rule {each.rule_id}: {said}, where no other rule alerts: {each.alone:,}")
    for (one, other), events in sorted(overlap.pairs.items(), key=lambda pair: -pair[1])[:top]:
        print(f"  rules {one} and {other}: events at which both alert: {events:,}")
    for (_, key), count in groups.most_common(top):
        print(f"{count:8,}  {escape_control_characters(key)}")
    zone = settings.schema.field(settings.schema.time_field).zone
    if alerts:
        print(f"first (times in {zone or 'UTC'}):")
    for alert in _first_alerts(alerts, top if len(in_force) == 1 else FIRST_OF_RULE):
        aggregate = plain_text(alert.aggregate)
        who = escape_control_characters(f"{alert.key}  {aggregate}  event {event_id_text(alert.event_id)}")
        shown = alert.event_time + (offset_ms(zone, alert.event_time) if zone else 0)
        print(f"  {utc_text(shown)}  rule {alert.rule_id}  {who}")


def _first_alerts(alerts: AlertTable, of_each: int) -> Iterator[Alert]:
    """The first alerts of each rule, of at most `RULES_SHOWN` rules."""
    seen: Counter[int] = Counter()
    for alert in alerts:
        if seen[alert.rule_id] < of_each and (seen[alert.rule_id] or len(+seen) < RULES_SHOWN):
            seen[alert.rule_id] += 1
            yield alert


def replay_with_progress(
    events_place: str,
    rules: Sequence[str],
    settings: Settings,
    *,
    engine: str | None = None,
    batches: int | None = None,
    config_file: Path | None = None,
    sort: bool = False,
) -> Replayed:
    """Replays events with a progress bar, and prints a summary for people, both to stderr. `sort`: by event time first. Other arguments as of `replay`."""
    source = source_at(events_place, load_config(config_file), settings.schema)
    in_force, advice = check_rules(rules, settings.schema).sorted(), None if sort else sort_advice
    for warning in event_warnings(
        source, in_force, settings.schema, advice, late_ms=settings.max_out_of_orderness_ms
    ):
        print_warning(warning)
    console = Console(stderr=True, highlight=False)
    if source.format not in AS_EVER:
        console.print(f"{events_place}: {source.format}", soft_wrap=True)
    if engine != "reference":
        compile_window_loop(console.print)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Starting", total=None)

        def progress(done: int, lines: int) -> None:
            bar.update(task, description="Events" if done else "Starting", completed=done, total=lines)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingRead)  # `check_not_all_dead_letters` raises an error
            result = replay(
                SortedSource(source, settings.schema) if sort else source,
                rules,
                engine=engine,
                settings=settings,
                batches=batches,
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


def check_not_all_dead_letters(result: Replayed, events_place: str) -> None:
    """Raises ValueError if all records were bad: the schema is probably the wrong one."""
    if result.has_only_dead_letters:
        raise ValueError(
            f"all {result.events:,} records of {events_place} are dead letters: do they have another schema? "
            f"`lab infer {quote(events_place)} --out schema.toml` proposes one for --schema"
        )


def print_alerts_table(alerts: AlertTable) -> None:
    """The first alerts as a table."""
    title = f"{len(alerts):,} alerts" + (f", the first {ALERTS_SHOWN}" if len(alerts) > ALERTS_SHOWN else "")
    table = Table("event time (UTC)", "rule", "group", "value", "event", title=title)
    for alert in alerts[:ALERTS_SHOWN]:
        value = f"{plain_text(alert.aggregate)} {operator_symbol(alert.operator)} {plain_text(alert.limit)}"
        cells = (utc_text(alert.event_time), alert.rule_id, alert.key, value, event_id_text(alert.event_id))
        table.add_row(*(Text(escape_control_characters(str(value))) for value in cells))
    Console(highlight=False).print(table)
