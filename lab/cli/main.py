"""The command `lab`: reads its arguments, calls the module that does the work, and turns errors into one line.

Results go to stdout, progress and summaries to stderr. Exit codes: 0 ok, 1 failed, 2 usage or a bad rule, 130 stopped.
"""

import argparse
import re
import signal
import sys
from collections.abc import Sequence
from importlib import metadata

from lab.apps.run import Usage
from lab.cli import broker as brokercli
from lab.cli import checkpoint as checkpointcli
from lab.cli import classroom as classroomcli
from lab.cli import infer as infercli
from lab.cli import replay as replaycli
from lab.cli import reset as resetcli
from lab.cli import restrict as restrictcli
from lab.cli import rulestore as rulestorecli
from lab.cli import simulate as simulatecli
from lab.cli import watch as watchcli
from lab.cli.options import (
    RULES_FORMAT,
    add_command,
    add_config_option,
    add_engine_options,
    add_logs_options,
    add_service_options,
    at_least,
    duration,
    place,
    settings_of,
)
from lab.logs.config import BadConfig
from lab.machine.signals import ENDING, STOPPED
from lab.model.rules import BadRule

OK, FAILED, USAGE = 0, 1, 2
EXTRAS = {  # module -> the extra of pyproject.toml that brings it
    "confluent_kafka": "kafka",
    **dict.fromkeys(("sqlalchemy", "psycopg2", "fastapi", "uvicorn", "pydantic"), "rules"),
    **dict.fromkeys(("ipywidgets", "anywidget", "plotly", "IPython", "nbformat", "google"), "lessons"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["doctor"]:  # it reads its own arguments
        from lab.machine import doctor

        return doctor.main(arguments[1:])
    before = {number: signal.signal(number, signal.default_int_handler) for number in ENDING}
    try:
        options = parser().parse_args(arguments)
        options.run(options)
        return OK
    except KeyboardInterrupt:
        print("\nlab: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of our output has gone, as in `lab rules list | head -1`
        sys.stdout = None
        return OK
    except Exception as error:
        if "--debug" in arguments:
            raise
        print(f"lab: {one_line(error)}", file=sys.stderr)
        return USAGE if isinstance(error, BadRule | BadConfig | Usage) else FAILED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def one_line(error: Exception) -> str:
    """What an error says; of a failed query, the error of the Python worker that failed."""
    text = str(error).strip() or repr(error)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        return f"{text}; it comes with pip install 'lab[{extra}]'"
    if type(error).__module__.startswith(("pyspark", "lab.machine.session")):
        raised = re.findall(
            r"^(?:: )?((?:lab\.[\w.]+|(?:\w+\.)*\w*(?:Error|Exception|Exit))\b: .*)$", text, re.MULTILINE
        )
        return f"the query failed: {raised[-1] if raised else text.splitlines()[0]} (all of it: --debug)"
    if type(error).__module__.startswith("sqlalchemy"):
        return text.splitlines()[0].partition(") ")[2]
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return text


def parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    top = argparse.ArgumentParser(
        prog="lab",
        description="Rules that change at run time, evaluated on event streams, on Spark.",
        epilog="Start with `lab demo`. Help on a command: `lab replay --help`.",
    )
    top.add_argument("--version", action="version", version=f"lab {metadata.version('lab')}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _demo(commands)
    infercli.add_commands(commands)
    replaycli.add_command_to(commands)
    _run(commands)
    _rules(commands)
    watchcli.add_commands(commands)
    simulatecli.add_command_to(commands)
    brokercli.add_commands(commands)
    rulestorecli.add_commands(commands)
    restrictcli.add_commands(commands)
    checkpointcli.add_commands(commands)
    classroomcli.add_commands(commands)
    resetcli.add_command_to(commands)
    commands.add_parser("doctor", help="is this machine ready? what is wrong, and the fix")
    return top


# -- lab demo ----------------------------------------------------------------------------------------------------------


def _demo(commands) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.apps import demo

        demo.run(options.seconds, options.rate)

    help = "play a payment stream with planted fraud through the engine and show the alerts"
    command = add_command(commands, "demo", run, help, schema=False)
    command.add_argument(
        "--seconds", type=at_least(6), default=45, metavar="N", help="length of the stream (45)"
    )
    command.add_argument(
        "--rate", type=at_least(20), default=500, metavar="N", help="events per second (500)"
    )


# -- lab run, lab rules ------------------------------------------------------------------------------------------------


def _run(commands) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.apps import run as live

        logs = live.logs_of(options)
        checkpoint = options.checkpoint or live.default_checkpoint(logs)
        metrics = (options.metrics_host, options.metrics) if options.metrics is not None else None
        as_json = options.log_format == "json"
        give_up_s = options.give_up_after_ms / 1000 if options.give_up_after_ms else float("inf")
        service = live.Service(options.master, dict(options.conf), metrics, as_json, give_up_s)
        live.run(logs, checkpoint, settings_of(options, checkpoint), service)

    command = add_command(
        commands,
        "run",
        run,
        "run the engine on live logs until Ctrl-C",
        """\
examples:
  lab run --logs logs                               in logs/: events, control, alerts, acks, deadLetters, stats
  lab run --events in/events --rules in/rules --alerts out/alerts          acks and so on go to out/
  lab run --logs kafka://127.0.0.1:9092             topics of a broker (lab broker start); it makes those that are not there
  lab run --events kafka://127.0.0.1:9092/transactions --alerts kafka://127.0.0.1:9092/alerts
  lab run                                           with a lab.toml here that names a Kafka cluster: docs/kafka.md

Then, in other terminals, with the same --logs: `lab simulate payments --to …/events`, `lab rules add …`, `lab alerts --follow`.

Started again with the same checkpoint it continues where it was: no alert is lost or given twice.
""",
    )
    add_logs_options(
        command,
        {
            "--events": "read: the folder of events",
            "--rules": "read: the control log",
            "--alerts": "written",
            "--acks": "written: an answer to each control message (beside the alerts)",
            "--dead-letters": "written: bad records and why they are bad (beside the alerts)",
            "--stats": "written: counts of each micro-batch (beside the alerts)",
        },
    )
    command.add_argument(
        "--checkpoint",
        metavar="WHERE",
        help="where it remembers: a folder (beside the alerts' folder), file:///… that hosts share, s3a://BUCKET/…",
    )
    command.add_argument(
        "--give-up-after",
        dest="give_up_after_ms",
        type=duration,
        metavar="TIME",
        help="end when Kafka has not answered for so long: 10m, 2h (never: wait until it is back)",
    )
    add_engine_options(command)
    add_service_options(command)


def _rules(commands) -> None:
    from lab.apps import control

    group = commands.add_parser("rules", help="change, list and try out rules").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    shared = {
        "--rules": "the control log",
        "--acks": "the engine's answers (beside the rules)",
        "--alerts": "the engine's alerts (beside the rules)",
    }

    def sends(name: str, run, help: str, argument: str, meaning: str, epilog: str = "", **kind) -> None:
        command = add_command(group, name, run, help, epilog)
        command.add_argument(argument, help=meaning, **kind)
        rulestorecli.add_store_option(command)
        add_logs_options(command, shared)
        command.add_argument(
            "--timeout",
            type=float,
            default=15,
            metavar="S",
            help="how long to wait for the answer (%(default)s s)",
        )
        if name == "add":
            command.add_argument(
                "--first-alert",
                action="store_true",
                help="wait for the rule's first alert too, and tell how long it took",
            )

    example = f"example:\n  lab rules add '1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)'\n\n{RULES_FORMAT}"

    def add(options: argparse.Namespace) -> None:
        (_stored() if options.store else control).add(options)

    sends("add", add, "add or update rules", "rule", "its text, or a file of rules", example)
    for name, state, help in (
        ("pause", "PAUSE", "let a rule rest: its history goes on, it does not alert"),
        ("activate", "ACTIVE", "let a paused rule alert again"),
        ("delete", "DELETE", "remove a rule"),
    ):

        def change(options: argparse.Namespace, state: str = state) -> None:
            (_stored() if options.store else control).change(options, state)

        sends(name, change, help, "rule_id", "the rule's number", type=at_least(1), metavar="ID")

    def show(options: argparse.Namespace) -> None:
        (_stored() if options.store else control).show(options)

    command = add_command(group, "list", show, "show the rules in force, as control log or --store give them")
    rulestorecli.add_store_option(command)
    add_logs_options(command, {"--rules": shared["--rules"]})

    def history(options: argparse.Namespace) -> None:
        _stored().history(options)

    command = add_command(group, "history", history, "who changed a rule of a store, when, and to what")
    command.add_argument("rule_id", type=at_least(1), metavar="ID", help="the rule's number")
    rulestorecli.add_store_option(command, required=True)
    command = add_command(
        group,
        "backtest",
        replaycli.backtest,
        "what would a rule have alerted on a past log?",
        f"""\
example:
  lab rules backtest '7,(active),(payeeId),,(paymentAmount),(SUM),(>),(100),(60)' datasets/payments/payments.jsonl.gz

{RULES_FORMAT}""",
    )
    command.add_argument("rule", help="its text, or a file of rules")
    command.add_argument("events", type=place, help=replaycli.EVENTS)
    add_config_option(command)
    command.add_argument(
        "--top", type=at_least(1), default=5, metavar="N", help="how many groups and alerts to show (5)"
    )
    command.add_argument("--engine", choices=("spark", "reference"), default="spark", help="(spark)")
    add_engine_options(command)


def _stored():
    from lab.apps import stored  # and with it SQLAlchemy, when it is needed

    return stored
