"""`lab why`, `lab why-not`: asks a world what a rule made of an event."""

import argparse
import json
from pathlib import Path

from lab.cli.options import (
    Subparsers,
    add_command,
    add_engine_options,
    add_logs_options,
    at_least,
    parse_log_place,
    settings_from_options,
    target_from_options,
)
from lab.desk.verdict import Verdict
from lab.desk.world import World
from lab.logs.config import load_config
from lab.running.target import Usage, schema_of_events
from lab.sources.sources import source_at

EXAMPLES = """\
examples:
  lab {of_file} datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json
  lab {of_logs} --logs logs                 of an engine, also while it runs: from its logs

The answer comes from a replay of the event's group, so it needs the whole log. Exit code 0 only if there is an answer.
"""


def add_commands(commands: Subparsers) -> None:
    """Adds `lab why` and `lab why-not` to the command line."""

    def why(options: argparse.Namespace) -> None:
        _print(world_of_options(options).why(options.alert), options)

    def why_not(options: argparse.Namespace) -> None:
        _print(world_of_options(options).why_not(options.event, options.rule_id), options)

    alert = "1.1.7.1356998400000.7fbf…"
    epilog = EXAMPLES.format(of_file=f"why {alert}", of_logs=f"why {alert}")
    command = add_command(commands, "why", why, "show why a rule alerted, event by event", epilog)
    command.add_argument("alert", metavar="ALERT", help="an alert's alertId, or its line in the alerts log")
    _add_options(command)
    epilog = EXAMPLES.format(of_file="why-not 7 1", of_logs="why-not 7 1")
    command = add_command(
        commands, "why-not", why_not, "show what was false when a rule did not alert at an event", epilog
    )
    command.add_argument("event", metavar="EVENT", help="the event's id, or its record as JSON")
    command.add_argument("rule_id", metavar="RULE", type=at_least(1), help="the rule's number")
    _add_options(command)


def _add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file",
        nargs="?",
        type=parse_log_place,
        metavar="EVENTS",
        help="events that are finished, as of `lab replay`; without it, the engine of --logs is asked",
    )
    command.add_argument("--json", action="store_true", help="one JSON object, with all events of the window")
    command.add_argument("--all", action="store_true", help="all events of the window, not only the newest")
    rules = "with EVENTS a file of rules, else the control log"
    add_logs_options(command, {"--rules": rules, "--events": "the events log", "--stats": "the stats log"})
    add_engine_options(command, live=False)


def world_of_options(options: argparse.Namespace) -> World:
    """The world of a finished file and its rules, or of an engine's logs."""
    if not options.file:
        target = target_from_options(options)
        return World.of_logs(target.logs, target.required_schema)
    if not options.rules or options.logs or options.events:
        raise Usage("with EVENTS, expected --rules FILE and no --logs or --events: the world of that file")
    options.schema = options.schema or schema_of_events(options.file, options.config)
    settings = settings_from_options(options)
    source = source_at(options.file, load_config(options.config), settings.schema)
    return World(source, Path(options.rules), settings=settings)


def _print(verdict: Verdict, options: argparse.Namespace) -> None:
    print(json.dumps(verdict.to_dict()) if options.json else verdict.text(*[None] * options.all))
