"""Options shared by the commands of `lab`, and their conversion to settings."""

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from lab.engine.checkpoint.record import read_record
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import kind_of
from lab.logs.access import holds_password
from lab.logs.places import MAX_PORT
from lab.model import schemafile
from lab.model.enginelogs import ALL_LOGS
from lab.model.reference import LATE_POLICIES
from lab.model.schema import MAX_TIME, PAYMENTS, SCHEMAS, Schema
from lab.model.times import expected_time, parse_duration_ms, time_ms
from lab.running.target import Target, Usage, locate

Subparsers = argparse._SubParsersAction  # the object to which commands are added
SETTINGS = Settings()
MAX_DIGITS = 18
RULES_AND_ACKS = {"--rules": "the control log", "--acks": "the engine's answers (next to the rules)"}
RULES_FORMAT = """\
A rule is JSON, a sentence, or plain text (id, state, keys, unique, field, function, operator, limit, minutes):

  {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "aggregateFieldName": "paymentAmount",
   "aggregatorFunctionType": "SUM", "limitOperatorType": "GREATER", "limit": 50, "window": "20m"}
  1: SUM(paymentAmount) per payeeId over 20 min > 50, at most 1 per 1 h, severity high, title "Too much"
  1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)
"""


def add_command(
    commands: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    epilog: str = "",
    schema: bool = True,
    is_service: bool = False,
) -> argparse.ArgumentParser:
    """Adds a command that calls `run` with its options; `schema`: it has `--schema`, too.

    `is_service`: it works until it is stopped, so it has failed if it ends because nobody reads its output any more.
    """
    command = commands.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + "." * (not help.endswith("?")),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, is_service=is_service)
    command.add_argument("--debug", action="store_true", help="show the whole traceback if the command fails")
    if schema:
        command.add_argument(
            "--schema",
            type=parse_schema_argument,
            metavar="NAME|FILE",
            help=f"schema of the events: {', '.join(SCHEMAS)}, or a file like those of `lab infer` (that which the engine of these logs has announced, or payments)",
        )
    return command


def add_group(commands: Subparsers, name: str, help: str, epilog: str = "") -> Subparsers:
    """Adds a command that has commands of its own; returns what those are added to."""
    command = commands.add_parser(
        name, help=help, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return command.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_server_commands(
    group: Subparsers,
    folder_help: str,
    default_port: int,
    **commands: tuple[Callable[[argparse.Namespace], None], str],
) -> argparse.ArgumentParser:
    """Adds `start` and other commands (name -> function and help) of a server on this machine; returns `start`."""
    added = {}
    for name, (run, help) in commands.items():
        command = added[name] = add_command(group, name, run, help, schema=False)
        command.add_argument("--folder", type=Path, metavar="FOLDER", help=folder_help.replace("%", "%%"))
    help, start = f"port on 127.0.0.1 ({default_port})", added["start"]
    start.add_argument("--port", type=at_least(1, MAX_PORT), default=default_port, metavar="N", help=help)
    return start


def add_engine_options(command: argparse.ArgumentParser, live: bool) -> None:
    """Adds what `settings_from_options` reads. `live`: whether the command reads live logs, whose records have log times."""
    group = command.add_argument_group("engine")
    for name, meaning in (
        ("key_groups", "units of keyed state: the maximum parallelism"),
        ("parallelism", "number of tasks of the stateful stage"),
    ):
        option, default = "--" + name.replace("_", "-"), getattr(SETTINGS, name)
        help = f"{meaning} ({default}, or the checkpoint's)"
        group.add_argument(option, type=at_least(1), metavar="N", help=help)
    group.add_argument(
        "--throughput",
        dest="short_batches",
        action="store_false",
        default=None,
        help="for tens of thousands of events per second: longer micro-batches, less work per event",
    )
    default = SETTINGS.late_policy
    group.add_argument(
        "--late-policy",
        choices=LATE_POLICIES,
        default=default,
        help=f"what happens to late events ({default})",
    )
    group.add_argument(
        "--max-out-of-orderness",
        dest="max_out_of_orderness_ms",
        type=parse_duration,
        default=SETTINGS.max_out_of_orderness_ms,
        metavar="TIME",
        help="an event is late if it is this far behind its group's newest: 500ms, 10s, 5m, 1h (5m)",
    )
    group.add_argument(
        "--max-future",
        dest="max_future_ms",
        type=parse_duration if live else refuse_max_future,
        default=SETTINGS.max_future_ms,
        metavar="TIME",
        help="an event becomes a dead letter if its time is this far after its log time (1d)"
        if live
        else argparse.SUPPRESS,
    )


def refuse_max_future(text: str) -> int:
    """Refuses the option where no record has a log time."""
    raise argparse.ArgumentTypeError(
        f"{text} after which log time? Only records of live logs have one, and `lab run` has this option. Here one event "
        "dated ahead changes nothing for others; docs/semantics.md says how late events are treated"
    )


def add_spark_and_metrics_options(command: argparse.ArgumentParser) -> None:
    """Adds the options for Spark, metrics and logging."""
    group = command.add_argument_group("service", "More: docs/operations.md")
    group.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master: local[4,4] (cores, attempts at a task), spark://HOST:7077, yarn, k8s://… (this machine)",
    )
    group.add_argument(
        "--conf",
        type=parse_spark_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a Spark setting; may be repeated",
    )
    group.add_argument(
        "--metrics",
        type=at_least(0, MAX_PORT),
        metavar="PORT",
        help="serve /metrics for Prometheus, and /healthz (0: any free port)",
    )
    group.add_argument(
        "--metrics-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address on which to serve them (127.0.0.1: this machine only)",
    )
    group.add_argument(
        "--show-values",
        action="store_true",
        help="also print the values of bad records (they are in the dead-letter log)",
    )
    group.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="json: one object per line on stdout (text)",
    )


def parse_name_and_value(text: str) -> tuple[str, str]:
    """The type of an argument such as `payeeId=25`."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a name and its value, such as payeeId=25")
    return name, value


def parse_spark_setting(text: str) -> tuple[str, str]:
    """The type of an argument that is a setting of Spark. What it refuses is a secret: errors do not repeat it."""
    from lab.machine.session import SECRET

    name, value = parse_name_and_value(text)
    if SECRET.search(name):
        raise argparse.ArgumentTypeError(
            f"{name}: everybody on this machine can see a secret on a command line: "
            "put it into spark-defaults.conf, in the folder that SPARK_CONF_DIR names"
        )
    return name, value


def add_rule_id(command: argparse.ArgumentParser) -> None:
    """Adds the number of the rule that a command is about."""
    command.add_argument("rule_id", type=at_least(1), metavar="ID", help="the rule's number")


def add_signature(command: argparse.ArgumentParser) -> None:
    """Adds `--author` and `--reason`, for commands that change rules; `signature_of` reads them."""
    command.add_argument("--author", metavar="NAME", help="who makes the change (the user of this machine)")
    command.add_argument("--reason", metavar="TEXT", help="why; lab rules history shows both")


def signature_of(options: argparse.Namespace) -> dict[str, str]:
    """What a message about rules says of its author and reason."""
    from lab.running.rulehistory import user_name

    said = {"author": options.author or user_name(), "reason": options.reason}
    return {name: text for name, text in said.items() if text}


def add_answer_timeout(command: argparse.ArgumentParser) -> None:
    """Adds `--timeout`, for commands that send something to the engine and wait for its answer."""
    from lab.running.control import ANSWER_S  # which loads the engine

    command.add_argument(
        "--timeout",
        type=parse_seconds,
        default=ANSWER_S,
        metavar="S",
        help=f"how long to wait for the answer ({ANSWER_S:g} s)",
    )


def add_logs_options(command: argparse.ArgumentParser, logs: dict[str, str]) -> None:
    """Adds `--logs` and an option for each single log; `target_from_options` reads them."""
    group = command.add_argument_group(
        "logs",
        "A log is a folder or a topic: kafka://HOST:PORT/TOPIC (kafka:///TOPIC: on lab.toml's cluster). --logs names the "
        "place of all logs. Without it, the logs are on lab.toml's cluster, if that file names one.",
    )
    add_config_option(group)
    group.add_argument(
        "--logs",
        type=parse_log_place,
        metavar="WHERE",
        help="a folder (logs) or kafka://HOST:PORT, for every log without an option of its own",
    )
    for option, meaning in logs.items():
        group.add_argument(option, type=parse_log_place, metavar="WHERE", help=meaning)


def add_config_option(group: argparse._ActionsContainer) -> None:
    """Adds `--config`; `lab.logs.config.load_config` reads it."""
    help = "file that says how to reach a Kafka cluster, see docs/kafka.md (lab.toml in this folder, if it exists)"
    group.add_argument("--config", type=Path, metavar="FILE", help=help)


def parse_log_place(text: str) -> str:
    """The type of an argument that names the place of logs."""
    try:
        kind_of(text).check_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def add_sort_option(command: argparse.ArgumentParser) -> None:
    """Adds --sort, for commands that read finished events."""
    command.add_argument(
        "--sort",
        action="store_true",
        help="sort the events by their times first, for a file in another order",
    )


def target_from_options(options: argparse.Namespace) -> Target:
    """The engine that the options for logs name; `--checkpoint` and `--schema` too, where a command has them."""
    given = vars(options)
    named = {log: kind.option.replace("-", "_") for log, kind in ALL_LOGS.items()}
    places = {log: given[option] for log, option in named.items() if given.get(option)}
    return locate(options.logs, places, given.get("checkpoint"), given.get("schema"), options.config)


def settings_from_options(options: argparse.Namespace, target: Target | None = None) -> Settings:
    """The engine's settings that the arguments give; those left out are its checkpoint's, if there is one, or the defaults."""
    names = {setting.name for setting in fields(Settings)} & vars(options).keys() - {"schema"}
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    record = (read_record(target.checkpoint) if target else None) or {}
    given = {name: record[name] for name in ("key_groups", "parallelism") if name in record} | given
    try:
        return Settings(target.schema_to_run if target else options.schema or PAYMENTS, **given)
    except ValueError as error:
        raise Usage(str(error)) from None


def parse_schema_argument(text: str) -> Schema:
    """The type of an argument that is a schema's name or file."""
    try:
        return schemafile.schema(text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_duration(text: str) -> int:
    """The type of an argument that is a time, in ms."""
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_time(text: str) -> int:
    """The type of an argument that is a moment, in ms since the epoch."""
    found = time_ms(int(text), "ms") if text.isdecimal() and len(text) <= 13 else time_ms(text, "iso")
    if found is None or not 0 < found < MAX_TIME:
        raise argparse.ArgumentTypeError(f"{text!r}, expected {expected_time('iso')}, or ms since the epoch")
    return found


def parse_durations(text: str) -> list[int]:
    """The type of an argument that is times with commas between them, in ms.

    >>> parse_durations("10min, 1 h,90s")
    [600000, 3600000, 90000]
    """
    return [parse_duration(each.strip()) for each in text.split(",")]


def parse_database_url(text: str) -> str:
    """The type of an argument that is the URL of a database. What it refuses may hold a password: errors do not repeat it."""
    if text.partition(":")[0] not in ("sqlite", "postgresql"):
        raise argparse.ArgumentTypeError("expected sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE")
    parts = urlsplit(text)
    if parts.password or any(holds_password(name, value) for name, value in parse_qsl(parts.query)):
        raise argparse.ArgumentTypeError(
            "everybody on this machine can see a password on a command line: put it into a file that the URL names "
            "(postgresql://USER@HOST:PORT/DATABASE?passfile=FILE) or into the variable PGPASSWORD"
        )
    return text


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of an argument that is a whole number."""
    expected = f"a whole number, {least} or more" if most is None else f"a whole number, {least} to {most}"

    def number(text: str) -> int:
        if len(text) > MAX_DIGITS:
            raise argparse.ArgumentTypeError(
                f"{text!r}, expected a whole number of at most {MAX_DIGITS} digits"
            )
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}")
        return int(text)

    return number


def parse_seconds(text: str) -> float:
    """The type of an argument that is a number of seconds."""
    with suppress(ValueError):
        if 0 <= (number := float(text)) < float("inf"):
            return number
    raise argparse.ArgumentTypeError(f"{text!r}, expected seconds, 0 or more")
