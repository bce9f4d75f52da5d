"""`lab replay`, `lab rules backtest`: evaluates rules on a finished file of events."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cli.desk import EVENTS, labels_of_options, print_scores
from lab.cli.options import (
    RULES_FORMAT,
    Subparsers,
    add_command,
    add_config_option,
    add_engine_options,
    add_sort_option,
    at_least,
    parse_log_place,
    settings_from_options,
)
from lab.logs.config import load_config
from lab.model.enginelogs import LOGS
from lab.model.rules import BadRule
from lab.running.target import schema_of_events
from lab.sources.sources import source_at

ENGINE = "local: in this process, one task, no Java; spark: any number of tasks; reference: simple and slow (local, or spark for several tasks)"


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
        "--out",
        type=Path,
        metavar="ALERTS",
        help="file to write: CSV if its name ends with .csv, otherwise one alert per line as JSON (a table on the screen)",
    )
    command.add_argument("--shadow", type=Path, metavar="FILE", help=f"file to write: {LOGS['shadow'].holds}")
    command.add_argument(
        "--dead-letters", type=Path, metavar="FILE", help=f"file to write: {LOGS['deadLetters'].holds}"
    )
    command.add_argument("--engine", choices=("local", "spark", "reference"), help=ENGINE)
    command.add_argument(
        "--batches",
        type=at_least(1),
        metavar="N",
        help="number of micro-batches for the file (few and large, the fastest)",
    )
    add_sort_option(command)
    add_engine_options(command, live=False)


def run(options: argparse.Namespace) -> None:
    """Replays the events that the options name."""
    from lab.running.replayreport import replay_to_files

    with _schema_of_options(options):
        replay_to_files(
            options.events,
            options.rules,
            settings_from_options(options),
            engine=options.engine,
            batches=options.batches,
            config_file=options.config,
            sort=options.sort,
            alerts_file=options.out,
            shadow_file=options.shadow,
            dead_letters_file=options.dead_letters,
        )


@contextmanager
def _schema_of_options(options: argparse.Namespace) -> Iterator[None]:
    """The options with the schema of the engine whose log they name; where there is none, payments, and an error says so."""
    options.schema = options.schema or schema_of_events(options.events, options.config)
    try:
        yield
    except BadRule as error:
        if options.schema:
            raise
        source_at(options.events, load_config(options.config))  # a place that is not there is told first
        raise BadRule(
            f"{error} (payments are assumed, because nothing says what {options.events} is: --schema names another schema)"
        ) from None


def backtest(options: argparse.Namespace) -> None:
    """Backtests the rules that the options name."""
    from lab.past.replay import read_rules_argument
    from lab.running.replayreport import print_backtest

    rules = read_rules_argument(options.rule)
    with _schema_of_options(options):
        labels = labels_of_options(options, settings_from_options(options).schema) if options.labels else None
        print_backtest(
            options.events,
            rules,
            settings_from_options(options),
            engine=options.engine,
            config_file=options.config,
            sort=options.sort,
            top=options.top,
        )
        if labels:
            print_scores(options, rules, labels)
