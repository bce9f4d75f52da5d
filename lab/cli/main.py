"""The command `lab`: reads its arguments, calls the module that does the work, and turns errors into one line.

Results go to stdout, progress and summaries to stderr. Exit codes: 0 ok, 1 failed, 2 usage or a bad rule, 130 stopped.
"""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata

from lab.cli import broker as brokercli
from lab.cli import checkpoint as checkpointcli
from lab.cli import classroom as classroomcli
from lab.cli import desk as deskcli
from lab.cli import infer as infercli
from lab.cli import lists as listscli
from lab.cli import replay as replaycli
from lab.cli import reset as resetcli
from lab.cli import restrict as restrictcli
from lab.cli import rulestore as rulestorecli
from lab.cli import simulate as simulatecli
from lab.cli import watch as watchcli
from lab.cli.options import (
    RULES_AND_ACKS,
    RULES_FORMAT,
    Subparsers,
    add_answer_timeout,
    add_command,
    add_config_option,
    add_engine_options,
    add_group,
    add_logs_options,
    add_rule_id,
    add_signature,
    add_sort_option,
    add_spark_and_metrics_options,
    at_least,
    parse_duration,
    parse_log_place,
    settings_from_options,
    signature_of,
    target_from_options,
)
from lab.logs.config import BadConfig
from lab.machine.signals import ENDING, STOPPED
from lab.model.enginelogs import LOGS, READ, WRITTEN
from lab.model.formatting import escape_control_characters
from lab.model.rules import BadRule
from lab.running.errormessage import error_message
from lab.running.target import Usage

OK, FAILED, USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options: argparse.Namespace | None = None
    before = {number: signal.signal(number, signal.default_int_handler) for number in ENDING}
    try:
        with _flushed_output():
            if arguments[:1] == ["doctor"]:  # it reads its own arguments
                from lab.machine import doctor

                return doctor.main(arguments[1:])
            parser = build_parser()
            for word in arguments:
                if word.startswith("--") and word.endswith("=--"):  # argparse takes that for an empty list
                    parser.error(f"{word}: expected a value")
            options = parser.parse_args(arguments)
            options.run(options)
            return OK
    except KeyboardInterrupt:
        print("\nlab: stopped", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of our output has ended, as in `lab rules list | head -1`
        sys.stdout = None
        if not (options and options.is_service):
            return OK
        print(
            "lab: ended, because nobody reads its output any more; started again, it continues",
            file=sys.stderr,
        )
        return FAILED
    except Exception as error:
        if "--debug" in arguments:
            raise
        said = escape_control_characters(error_message(error), keep="\n")
        print(f"lab: {said}", file=sys.stderr)
        return USAGE if isinstance(error, BadRule | BadConfig | Usage) else FAILED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _flushed_output() -> Iterator[None]:
    """Flushes the output at the end, while an error can still be reported; otherwise Python would do it on exit."""
    try:
        yield
    finally:
        try:
            if sys.stdout:
                sys.stdout.flush()
        except OSError as error:
            sys.stdout = None
            raise type(error)(error.errno, error.strerror, "standard output") from None


def build_parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    top = argparse.ArgumentParser(
        prog="lab",
        description="Rules that change at run time, evaluated on event streams, on Spark.",
        epilog="Start with `lab demo`. For help on a command: `lab replay --help`.",
    )
    top.add_argument("--version", action="version", version=f"lab {metadata.version('rules-lab')}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _demo(commands)
    infercli.add_commands(commands)
    replaycli.add_command_to(commands)
    _run(commands)
    _rules(commands)
    listscli.add_commands(commands)
    deskcli.add_commands(commands)
    watchcli.add_commands(commands)
    simulatecli.add_command_to(commands)
    brokercli.add_commands(commands)
    rulestorecli.add_commands(commands)
    restrictcli.add_commands(commands)
    checkpointcli.add_commands(commands)
    classroomcli.add_commands(commands)
    resetcli.add_command_to(commands)
    _datasets(commands)
    _typologies(commands)
    commands.add_parser("doctor", help="check this machine and show how to fix what is wrong")
    return top


def _datasets(commands: Subparsers) -> None:
    def show(options: argparse.Namespace) -> None:
        from lab.stream.datasets import dataset

        for file in sorted(dataset("payments").parent.glob("*/*.*")):
            print(file)

    help = "list the files of the data sets that come with the kit"
    epilog = "example:\n  lab replay $(lab datasets | grep payments.jsonl) --rules $(lab datasets | grep payments/rules.json)\n"
    add_command(commands, "datasets", show, help, epilog, schema=False)


# -- lab demo ----------------------------------------------------------------------------------------------------------


def _typologies(commands: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.past.typologies import typologies_table

        print(typologies_table(options.seed))

    command = add_command(
        commands,
        "typologies",
        run,
        "measure how well rules for patterns of fraud and of failing sensors find generated cases",
        """\
example:
  lab typologies --seed 2
""",
        schema=False,
    )
    command.add_argument(
        "--seed", type=at_least(0), default=1, metavar="N", help="another seed gives other events (1)"
    )


def _demo(commands: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.studio import demo

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


def _run(commands: Subparsers) -> None:
    def run(options: argparse.Namespace) -> None:
        from lab.running import run as live

        target = target_from_options(options)
        metrics = (options.metrics_host, options.metrics) if options.metrics is not None else None
        as_json = options.log_format == "json"
        give_up_s = options.give_up_after_ms / 1000 if options.give_up_after_ms else float("inf")
        service = live.ServiceOptions(
            options.master, dict(options.conf), metrics, as_json, give_up_s, options.show_values
        )
        live.run(target, settings_from_options(options, target), service)

    command = add_command(
        commands,
        "run",
        run,
        "run the engine on live logs until Ctrl-C",
        f"""\
examples:
  lab run --logs logs                               in logs/: {", ".join(LOGS)}
  lab run --events in/events --rules in/rules --alerts out/alerts          the other logs go to out/
  lab run --logs kafka://127.0.0.1:9092             topics of a broker (lab broker start); missing topics are created
  lab run --events kafka://127.0.0.1:9092/transactions --alerts kafka://127.0.0.1:9092/alerts
  lab run                                           with the Kafka cluster that lab.toml in this folder names: docs/kafka.md

Then, in other terminals, with the same --logs: `lab simulate payments --to …/events`, `lab rules add …`, `lab alerts --follow`.

Started again with the same checkpoint, the engine continues where it stopped: no alert is lost or repeated.
""",
    )
    add_logs_options(
        command,
        {
            f"--{kind.option}": f"log to {'read' if name in READ else 'write'}: {kind.holds}"
            + " (next to the alerts)" * (name in WRITTEN and name != "alerts")
            for name, kind in LOGS.items()
        },
    )
    command.add_argument(
        "--checkpoint",
        metavar="WHERE",
        help="where to keep the state: a folder (next to the alerts), file:///… shared by several hosts, or s3a://BUCKET/…",
    )
    command.add_argument(
        "--give-up-after",
        dest="give_up_after_ms",
        type=parse_duration,
        metavar="TIME",
        help="end if Kafka does not answer for this long: 10m, 2h (never: wait until it is back)",
    )
    command.add_argument(
        "--exactly-once",
        action="store_true",
        help="topics only: deliver in transactions, so that readers of committed records get each alert once, some tens of ms later",
    )
    command.add_argument(
        "--power-safe",
        action="store_true",
        help="topics only: each save waits for the disk, so that a power failure loses no alert, some tens of ms every 2 s",
    )
    add_engine_options(command, live=True)
    add_spark_and_metrics_options(command)


def _rules(commands: Subparsers) -> None:
    from lab.running import control

    group = add_group(commands, "rules", "change, list and test rules")

    def sends(name: str, run, help: str, argument: str, meaning: str, epilog: str = "", **kind) -> None:
        command = add_command(group, name, run, help, epilog)
        command.add_argument(argument, help=meaning, **kind)
        rulestorecli.add_store_option(command)
        add_logs_options(command, LOGS_OF_RULES)
        add_answer_timeout(command)
        add_signature(command)
        if name == "add":
            command.add_argument(
                "--first-alert",
                action="store_true",
                help="also wait for the rule's first alert, and print how long it took",
            )

    example = f"example:\n  lab rules add '1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)'\n\n{RULES_FORMAT}"

    def add(options: argparse.Namespace) -> None:
        from lab.past.replay import read_rules_argument

        rules = [rule for each in options.rule for rule in read_rules_argument(each)]
        if options.store:
            rulestorecli.stored_rules(options).store_rules(rules, options.timeout)
        else:
            target, signature = target_from_options(options), signature_of(options)
            control.send_rules(target, rules, options.timeout, options.first_alert, signature)

    sends("add", add, "add or update rules", "rule", "a rule, or a file of rules", example, nargs="+")
    for name, state, help in (
        ("pause", "PAUSE", "pause a rule: it raises no alerts, but its history goes on"),
        ("activate", "ACTIVE", "activate a paused rule, or promote one in the shadow: it keeps its version"),
        ("shadow", "SHADOW", "judge a rule as always, but write its alerts to the shadow log only"),
        ("delete", "DELETE", "remove a rule"),
    ):

        def change(options: argparse.Namespace, state: str = state) -> None:
            if options.store:
                rulestorecli.stored_rules(options).change_rule_state(options.rule_id, state, options.timeout)
            else:
                target, signature = target_from_options(options), signature_of(options)
                control.change_rule_state(target, options.rule_id, state, options.timeout, signature)

        sends(name, change, help, "rule_id", "the rule's number", type=at_least(1), metavar="ID")

    listscli.add_mutes(group)
    rulestorecli.add_approve(group)
    _shows_rules(group)


LOGS_OF_RULES = RULES_AND_ACKS | {"--alerts": "the engine's alerts (next to the rules)"}


def _shows_rules(group: Subparsers) -> None:
    from lab.running import control

    def show(options: argparse.Namespace) -> None:
        if options.store:
            rulestorecli.stored_rules(options).print_rules()
        else:
            control.print_rules(target_from_options(options))

    command = add_command(group, "list", show, "show the rules in force, from the control log or --store")
    rulestorecli.add_store_option(command)
    add_logs_options(command, RULES_AND_ACKS)

    def history(options: argparse.Namespace) -> None:
        from lab.running.rulehistory import print_versions

        if options.store:
            rulestorecli.stored_rules(options).print_history(options.rule_id)
        else:
            print_versions(target_from_options(options), options.rule_id)

    def rollback(options: argparse.Namespace) -> None:
        from lab.running.rulehistory import roll_back

        roll_back(
            target_from_options(options), options.rule_id, options.to, signature_of(options), options.timeout
        )

    of_rule = "show who changed a rule, when, why and how, from the control log or --store"
    command = add_command(group, "history", history, of_rule)
    add_rule_id(command)
    rulestorecli.add_store_option(command)
    add_logs_options(command, RULES_AND_ACKS)
    back = "make a rule what it was in an earlier version, as a new version"
    command = add_command(group, "rollback", rollback, back)
    add_rule_id(command)
    command.add_argument("--to", type=at_least(1), required=True, metavar="V", help="the version")
    add_logs_options(command, LOGS_OF_RULES)
    add_answer_timeout(command)
    add_signature(command)
    command = add_command(
        group,
        "backtest",
        replaycli.backtest,
        "show which alerts a rule would have raised on past events",
        f"""\
example:
  lab rules backtest '7,(active),(payeeId),,(paymentAmount),(SUM),(>),(100),(60)' datasets/payments/payments.jsonl.gz

{RULES_FORMAT}""",
    )
    command.add_argument("rule", help="a rule, or a file of rules")
    command.add_argument("events", type=parse_log_place, help=deskcli.EVENTS)
    add_config_option(command)
    command.add_argument(
        "--top", type=at_least(1), default=5, metavar="N", help="how many groups and alerts to show (5)"
    )
    command.add_argument("--engine", choices=("local", "spark", "reference"), help=replaycli.ENGINE)
    add_sort_option(command)
    deskcli.add_labels_options(command)
    add_engine_options(command, live=False)
    deskcli.add_tune(group)
    deskcli.add_suggest(group)
    deskcli.add_diff(group)
    deskcli.add_compare(group)
    deskcli.add_cost(group)
