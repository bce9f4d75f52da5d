"""`lab why`, `lab why-not`, `lab would`, `lab rules compare`, `tune` and `suggest`: asks a world what rules made of events, and what they are worth."""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from lab.cli.options import (
    Subparsers,
    add_command,
    add_config_option,
    add_engine_options,
    add_logs_options,
    add_sort_option,
    at_least,
    parse_durations,
    parse_log_place,
    parse_time,
    settings_from_options,
    target_from_options,
)
from lab.desk.compare import MOST_TELLING, Difference
from lab.desk.labels import check_fields, labels_condition, labels_of_file, own_names
from lab.desk.proof import findings, sealed
from lab.desk.suggest import MOST, SECONDS
from lab.desk.verdict import Verdict
from lab.desk.world import World
from lab.engine.checkpoint.settings import Settings
from lab.logs.config import load_config
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert
from lab.model.formatting import escape_control_characters
from lab.model.language import say
from lab.model.schema import Schema
from lab.past.replay import check_rules, read_rules_argument
from lab.past.rulemessages import rule_messages
from lab.running.outputfile import check_ending, check_output, write_output, write_table
from lab.running.say import compile_window_loop, print_warning
from lab.running.target import Usage, schema_of_events
from lab.sources.order import order_problem, sort_advice
from lab.sources.sortedsource import SortedSource
from lab.sources.sources import source_at

FOLLOW_S = 0.5  # between two looks at an engine's cuts
EVENTS = "JSON, CSV or Parquet, also gzip; the folder of an events log; or a topic: kafka://HOST:PORT/TOPIC"
PAGE = (
    '<!doctype html><meta charset="utf-8"><title>lab</title><body style="font-family:sans-serif">{}</body>\n'
)
EXAMPLES = """\
examples:
  lab {of_file} datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json
  lab {of_logs} --logs logs                 of an engine, also while it runs: from its logs

The answer comes from a replay of the event's group, so it needs the whole log. Exit code 0 only if there is an answer.
"""


def add_commands(commands: Subparsers) -> None:
    """Adds `lab why`, `lab why-not`, `lab would`, `lab branch` and `lab prove` to the command line."""

    def why(options: argparse.Namespace) -> None:
        rule_id = options.rule_id
        if isinstance(rule_id, str):  # an alert has its rule in its id, so what follows it are the events
            if options.file:
                raise Usage(f"{rule_id}: expected the number of a rule, or EVENTS at the end")
            options.file, rule_id = rule_id, None
        _print(world_of_options(options).why(options.alert, rule_id), options)

    def why_not(options: argparse.Namespace) -> None:
        _print(world_of_options(options).why_not(options.event, options.rule_id), options)

    alert = "1.1.7.1356998400000.7fbf…"
    epilog = EXAMPLES.format(of_file=f"why {alert}", of_logs="why 7 1")
    command = add_command(commands, "why", why, "show why a rule alerted, event by event", epilog)
    help = (
        "an alert's alertId, or its line in the alerts log; with RULE, an event's id, or its record as JSON"
    )
    command.add_argument("alert", metavar="ALERT|EVENT", help=help)
    help = "after EVENT, the rule's number"
    command.add_argument("rule_id", nargs="?", type=_rule_or_place, metavar="RULE", help=help)
    _add_options(command)
    _add_features(commands)
    epilog = EXAMPLES.format(of_file="why-not 7 1", of_logs="why-not 7 1")
    command = add_command(
        commands, "why-not", why_not, "show what was false when a rule did not alert at an event", epilog
    )
    command.add_argument("event", metavar="EVENT", help="the event's id, or its record as JSON")
    command.add_argument("rule_id", metavar="RULE", type=at_least(1), help="the rule's number")
    _add_options(command)
    _add_would(commands)
    _add_branch(commands)
    _add_prove(commands)


def _rule_or_place(text: str) -> int | str:
    """The type of an argument that is a rule's number, or names events as no number does."""
    return at_least(1)(text) if text.isdecimal() else parse_log_place(text)


def _add_would(commands: Subparsers) -> None:
    event = """'{"transactionId": 0, "eventTime": 1738022500000, "payeeId": 1, "paymentAmount": 5}'"""
    command = add_command(
        commands,
        "would",
        _would,
        "show what each rule would make of an event that has not happened, as the next one of the log",
        f"""\
examples:
  lab would {event} datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json
  lab would {event} --logs logs
  lab would {event} --logs logs --at 2025-01-28T00:02:00Z        as of then

Nothing is stored. Programs ask `lab restrict serve --would`, which keeps the windows in memory.
""",
    )
    command.add_argument("event", metavar="EVENT", help="its record as JSON")
    command.add_argument(
        "--at",
        type=parse_time,
        metavar="TIME",
        help="as of then: only what was logged before (now), such as 2026-12-01T10:00:00Z, or ms since the epoch",
    )
    _add_options(command)


def _add_branch(commands: Subparsers) -> None:
    """Adds `lab branch`."""

    def branch(options: argparse.Namespace) -> None:
        at, options.at = options.at, None
        if options.follow:
            _follow_branch(options, at)
            return
        found = world_of_options(options).branch(read_rules_argument(options.edited), at, options.top)
        print(found.text())
        if options.html:
            write_output(options.html, [PAGE.format(found._repr_html_())])

    command = add_command(
        commands,
        "branch",
        branch,
        "show what other rules would have raised from a moment on, in place of those that were in force",
        """\
examples:
  lab branch edited.json --at 2025-01-20T00:00:00Z --logs logs
  lab branch edited.json --at 2025-01-20T00:00:00Z --logs logs --follow      and goes on, beside the engine
  lab branch edited.json --at 2025-01-20T00:00:00Z datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json

The log is replayed up to the moment once, and from there with both sets of rules, one to two thousand events a second; with --follow
by compiled windows, some thousands to 100,000 and more events a second.
""",
    )
    command.add_argument(
        "edited", metavar="EDITED", help="a rule, or a file of rules: all that are in force from then on"
    )
    command.add_argument(
        "--at",
        type=parse_time,
        required=True,
        metavar="TIME",
        help="a log time; with EVENTS, the time of the first event that they see: 2026-12-01T10:00:00Z, or ms since the epoch",
    )
    command.add_argument("--html", type=Path, metavar="FILE", help="file to write: the same with a picture")
    help = "go on beside the engine: print each alert that only one has, and counts at Ctrl-C"
    command.add_argument("--follow", action="store_true", help=help)
    _add_top(command)
    _add_world_options(command)


def _follow_branch(options: argparse.Namespace, at: int) -> None:
    if options.file or options.html:
        raise Usage("with --follow, expected --logs and neither EVENTS nor --html")
    target = target_from_options(options)
    rules = rule_messages(read_rules_argument(options.edited), target.required_schema)
    check_rules(rules, target.required_schema)
    from lab.desk.livebranch import LiveBranch

    compile_window_loop(lambda text: print(text, file=sys.stderr))
    with (
        stop_signals() as stopped,
        closing(LiveBranch(target.logs, target.required_schema, rules, at)) as lanes,
    ):
        found: list[Difference] | None = None
        while not stopped.wait(FOLLOW_S if found is None else 0):
            found = lanes.step()
            for each in found or ():
                print(escape_control_characters(each.text()), flush=True)
        print(f"\n{lanes.comparison().text()}")


def _add_prove(commands: Subparsers) -> None:
    """Adds `lab prove`."""

    def prove(options: argparse.Namespace) -> None:
        world = world_of_options(options)
        lines = [options.alert]
        if not options.alert.startswith("{") and Path(options.alert).is_file():
            lines = Path(options.alert).read_text().splitlines()
        if not options.check:
            print("\n".join([sealed(line, world) for line in lines]))
            return
        wrong = 0
        for line in lines:
            found = findings(line, world)
            wrong += bool(found)
            for said in found or ["Proved: this log gives the alert, with this rule and these records."]:
                print(escape_control_characters(f"{Alert.from_json(line).alert_id}: {said}"))
        if wrong:
            raise ValueError(f"{wrong:,} of {len(lines):,} alerts are not proved")

    command = add_command(
        commands,
        "prove",
        prove,
        "seal an alert with its rule and the records of its window, or check a sealed one",
        """\
examples:
  lab prove 1.1.7.1356998400000.7fbf… --logs logs > sealed.jsonl
  lab prove --check sealed.jsonl --logs logs
  lab prove --check sealed.jsonl datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json

A check says what was changed since: the alert, its rule, or which record of the window; exit code 0 only if nothing was. Keep what
is sealed where those who can write the log cannot: who may change both can seal anew.
""",
    )
    help = (
        "an alert's alertId, its line in the alerts log, or a file of such lines; with --check, sealed ones"
    )
    command.add_argument("alert", metavar="ALERT", help=help)
    command.add_argument("--check", action="store_true", help="check sealed alerts")
    _add_world_options(command)


def _would(options: argparse.Namespace) -> None:
    verdicts = world_of_options(options).would(options.event)
    if options.json:
        print(json.dumps([each.to_dict() for each in verdicts]))
    else:
        print(
            "\n\n".join(each.text(*[None] * options.all) for each in verdicts) or say("No rule is in force.")
        )


def _add_options(command: argparse.ArgumentParser) -> None:
    _add_world_options(command)
    command.add_argument("--json", action="store_true", help="one JSON object, with all events of the window")
    command.add_argument("--all", action="store_true", help="all events of the window, not only the newest")


def _add_world_options(command: argparse.ArgumentParser) -> None:
    """What `world_of_options` reads."""
    command.add_argument(
        "file",
        nargs="?",
        type=parse_log_place,
        metavar="EVENTS",
        help="events that are finished, as of `lab replay`; without it, the engine of --logs is asked",
    )
    rules = "with EVENTS a file of rules, else the control log"
    add_logs_options(command, {"--rules": rules, "--events": "the events log", "--stats": "the stats log"})
    add_sort_option(command)
    add_engine_options(command, live=False)


def _add_events(command: argparse.ArgumentParser) -> None:
    """Finished events, and how to reach them."""
    command.add_argument("file", type=parse_log_place, metavar="EVENTS", help=EVENTS)
    add_config_option(command)
    add_sort_option(command)


def _add_top(command: argparse.ArgumentParser) -> None:
    help = f"how many events ({MOST_TELLING})"
    command.add_argument("--top", type=at_least(0), default=MOST_TELLING, metavar="N", help=help)


def world_of_options(options: argparse.Namespace) -> World:
    """The world of a finished file and its rules, or of an engine's logs."""
    if not options.file:
        if options.sort:
            raise Usage("--sort is for EVENTS: an engine takes its logs in their own order")
        target = target_from_options(options)
        return World.of_logs(target.logs, target.required_schema, getattr(options, "at", None))
    if not options.rules or options.logs or options.events:
        raise Usage("with EVENTS, expected --rules FILE and no --logs or --events: the world of that file")
    if getattr(options, "at", None):
        raise Usage("--at is a log time, and EVENTS has none: expected --logs")
    return _world_of_file(options, Path(options.rules))


def _settings_of_file(options: argparse.Namespace) -> Settings:
    """The settings for the finished events that the options name, with their schema."""
    options.schema = options.schema or schema_of_events(options.file, options.config)
    return settings_from_options(options)


def _world_of_file(options: argparse.Namespace, rules: object, is_order_told: bool = False) -> World:
    """The world of the finished events that the options name; a warning tells if they are in another order than that of time."""
    settings = _settings_of_file(options)
    source = source_at(options.file, load_config(options.config), settings.schema)
    if options.sort:
        source = SortedSource(source, settings.schema)
    elif not is_order_told and (
        problem := order_problem(source, settings.schema, settings.max_out_of_orderness_ms)
    ):
        print_warning(sort_advice(problem, settings.schema))
    with _warnings_as_lines():
        return World(source, rules, settings=settings, bad_rows="warn")


def _print(verdict: Verdict, options: argparse.Namespace) -> None:
    print(json.dumps(verdict.to_dict()) if options.json else verdict.text(*[None] * options.all))


# -- what rules are worth ----------------------------------------------------------------------------------------------


def add_tune(group: Subparsers) -> None:
    """Adds `lab rules tune`."""
    command = add_command(
        group,
        "tune",
        _tune,
        "show what a rule finds of labelled events, with every limit and several windows",
        """\
examples:
  lab rules tune 'SUM(amount) per card over 1 h > 100' payments.csv --labels fraud.csv --windows 10m,1h,1d --amount amount
  lab rules tune 'COUNT(events) per card over 1 h > 3' payments.csv --labels isFraud --held-out-by card

The value of each event is computed once in each window, exactly; then all limits are compared. The table shows the Pareto edge:
limits that no other one beats in both precision and recall, chosen in one half of the events and checked in the other.
""",
    )
    help = "a rule, or a file of one and of messages about lists; its limit and the window of its first condition are replaced"
    command.add_argument("rule", help=help)
    _add_events(command)
    add_labels_options(command, required=True)
    help = "a file of rules and messages about lists: the named lists that the rule sees"
    command.add_argument("--rules", type=Path, metavar="FILE", help=help)
    command.add_argument(
        "--windows",
        type=parse_durations,
        default=(),
        metavar="TIMES",
        help="windows to try, such as 10m,1h or '10 min, 1 h' (the rule's own)",
    )
    command.add_argument("--html", type=Path, metavar="FILE", help="file to write: the same with a picture")
    add_engine_options(command, live=False)


def add_suggest(group: Subparsers) -> None:
    """Adds `lab rules suggest`."""
    command = add_command(
        group,
        "suggest",
        _suggest,
        "look for the shortest rules that tell labelled events from the others",
        """\
examples:
  lab rules suggest payments.csv --labels marked.csv                       ids, and a column that says yes or no
  lab rules suggest payments.csv --labels isFraud --held-out-by card

Each sentence gets the limit that is best in one half of the events. A longer one is shown only if it is better there than all shorter
ones, and each only if it also finds labelled events of the held-out half more often than chance does.
""",
    )
    _add_events(command)
    add_labels_options(command, required=True)
    help = "a field that no sentence names, such as one that was filled in after the verdict; may be repeated"
    command.add_argument("--without", action="append", default=[], metavar="FIELD", help=help)
    command.add_argument(
        "--most",
        type=at_least(1),
        default=MOST,
        metavar="N",
        help=f"how many sentences to try ({MOST})",
    )
    help = f"try no further sentence after so long ({SECONDS:.0f})"
    command.add_argument("--seconds", type=at_least(1), default=int(SECONDS), metavar="N", help=help)
    add_engine_options(command, live=False)


def _suggest(options: argparse.Namespace) -> None:
    compile_window_loop(lambda text: print(text, file=sys.stderr))
    labels = labels_of_options(options, _settings_of_file(options).schema)
    world = _world_of_file(options, ())

    def progress(tried: int, most: int) -> None:
        if tried % 20 == 0:
            print(f"{tried} sentences tried, at most {most}", file=sys.stderr)

    bounds = {
        "without": options.without,
        "most": options.most,
        "seconds": options.seconds,
        "progress": progress,
    }
    with _warnings_as_lines():
        found = world.suggest(**labels, **bounds)
    print(found.text())


def _add_features(commands: Subparsers) -> None:
    command = add_command(
        commands,
        "features",
        _features,
        "write the values of rules' windows at each event as a table, for example to train a model",
        """\
example:
  lab features datasets/payments/payments.jsonl.gz --rules datasets/payments/rules.json --out features.parquet

A row for each event at which an aggregate of the rules has a value, a column for each aggregate, as exact decimals: what the
conditions see, whatever their limits.
""",
    )
    _add_events(command)
    command.add_argument("--rules", type=Path, required=True, help="a file of rules")
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="file to write: CSV if its name ends with .csv, otherwise Parquet",
    )
    add_engine_options(command, live=False)


def _features(options: argparse.Namespace) -> None:
    from lab.desk.features import feature_columns

    check_output(options.out, Path(options.file), options.rules)
    check_ending(options.out, "CSV or Parquet", ".json", ".jsonl", ".xls", ".xlsx")
    found = feature_columns(_world_of_file(options, options.rules))
    write_table(options.out, found)
    print(f"{options.out}: {found.num_rows:,} events, {found.num_columns} columns")


def add_diff(group: Subparsers) -> None:
    """Adds `lab rules diff`."""
    command = add_command(
        group,
        "diff",
        _diff,
        "show what other rules would change: alerts of both, only old, only new, and the most telling events",
        """\
example:
  lab rules diff rules.json edited.json datasets/payments/payments.jsonl.gz
""",
    )
    command.add_argument("old", help="a rule, or a file of rules")
    command.add_argument("new", help="the rules after the edit, with the same numbers")
    _add_events(command)
    _add_top(command)
    add_engine_options(command, live=False)


def add_compare(group: Subparsers) -> None:
    """Adds `lab rules compare`."""

    def compare(options: argparse.Namespace) -> None:
        print(world_of_options(options).compare_rules(options.old, options.new, options.top).text())

    command = add_command(
        group,
        "compare",
        compare,
        "show where two rules both alerted and where only one did, such as a rule and its successor in the shadow",
        """\
examples:
  lab rules compare 1 7 --logs logs                                        of an engine, since both were in force
  lab rules compare 1 7 payments.csv --rules rules.txt                     of finished events
""",
    )
    command.add_argument("old", metavar="OLD", type=at_least(1), help="a rule's number")
    command.add_argument("new", metavar="NEW", type=at_least(1), help="that of the other one")
    _add_top(command)
    _add_world_options(command)


def add_cost(group: Subparsers) -> None:
    """Adds `lab rules cost`."""
    command = add_command(
        group,
        "cost",
        _cost,
        "show how much time and memory leaving out each rule would save on past events",
        """\
example:
  lab rules cost datasets/payments/rules.json datasets/payments/payments.jsonl.gz
""",
    )
    command.add_argument("rules", help="a rule, or a file of rules")
    _add_events(command)
    add_engine_options(command, live=False)


def _cost(options: argparse.Namespace) -> None:
    compile_window_loop(lambda text: print(text, file=sys.stderr))
    print(_world_of_file(options, read_rules_argument(options.rules)).cost().text())


def _diff(options: argparse.Namespace) -> None:
    old, new = map(read_rules_argument, (options.old, options.new))
    print(_world_of_file(options, old).compare(new, options.top).text())


def print_scores(options: argparse.Namespace, rules: Sequence[str], labels: Mapping[str, Any]) -> None:
    """The scores of rules on the labels of `lab rules backtest`, as `labels_of_options` gives them."""
    options.file = options.events
    world = _world_of_file(options, rules, is_order_told=True)
    with _warnings_as_lines():
        print(world.scores(**labels).text())


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """What is doubtful is a line for people, in place of a place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        print_warning(str(each.message))


def add_labels_options(command: argparse.ArgumentParser, required: bool = False) -> None:
    """Adds what says which events should alert; `labels_of_options` reads it."""
    help = (
        "which events should alert: the name of a field, a condition such as 'kind = \"stolen\"', or a file of ids, or with a column of "
        "ids and one of labels"
    )
    command.add_argument("--labels", required=required, metavar="FILE|FIELD|CONDITION", help=help)
    command.add_argument(
        "--amount", metavar="FIELD", help="also sum this field over the events that are found"
    )
    help = "labelled events with one value of this field are one case (each is its own)"
    command.add_argument("--case", metavar="FIELD", help=help)
    command.add_argument(
        "--held-out-by",
        metavar="FIELD",
        help="hold out half of the values of a field, such as an account, by their hash (the later half of the events)",
    )


def labels_of_options(options: argparse.Namespace, schema: Schema) -> dict[str, Any]:
    """The arguments of `World.scores`; what is wrong with them is found before any event is read."""
    labels, amount, by, case = own_names(
        schema, options.labels, options.amount, options.held_out_by, options.case
    )
    if labels not in schema.names and Path(labels).exists():
        labels = labels_of_file(Path(labels), schema)
    elif labels not in schema.names:
        try:
            labels_condition(labels, schema)
        except ValueError as error:
            raise Usage(f"--labels {labels}: no such file, and {error}") from None
    check_fields(schema, amount, by, case)
    return {"labels": labels, "amount": amount, "by": by, "case": case}


def _tune(options: argparse.Namespace) -> None:
    if options.html:
        check_output(options.html, Path(options.file), Path(options.labels))
    labels = labels_of_options(options, _settings_of_file(options).schema)
    world = _world_of_file(options, options.rules or ())
    with _warnings_as_lines():
        tuning = world.tune(read_rules_argument(options.rule), windows=options.windows, **labels)
    print(tuning.text())
    if options.html:
        write_output(options.html, [PAGE.format(tuning._repr_html_())])
