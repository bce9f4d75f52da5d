"""`lab lists`: values of named lists, changed and shown; and mutes of `lab rules`."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from lab.cli import rulestore as rulestorecli
from lab.cli.options import (
    RULES_AND_ACKS,
    Subparsers,
    add_answer_timeout,
    add_command,
    add_group,
    add_logs_options,
    add_rule_id,
    parse_name_and_value,
    target_from_options,
)
from lab.model.listmessages import list_messages, mute_sentence
from lab.running.target import Usage

UNTIL = "events with earlier times see it: 2026-12-01, 2026-12-01T10:00:00Z, or ms since the epoch (it stays until it is removed)"


def add_commands(commands: Subparsers) -> None:
    """Adds `lab lists` to the command line."""
    group = add_group(commands, "lists", "change and show the named lists that rules compare with")
    add = _sends(
        *(group, "add", _add, "add values to a list"),
        """\
examples:
  lab lists add highrisk KR "New York" --until 2026-12-01     then: lab rules add '7: COUNT(events) per userId over 1 h > 5, when country in @highrisk'
  lab lists add blocked --file blocked.txt                    a value on each line
  lab lists add blocked 25 --store sqlite:///rules.db         as a row of a database
""",
    )
    remove = _sends(group, "remove", _remove, "remove values from a list")
    clear = _sends(group, "clear", _clear, "empty a list")
    for command in (add, remove, clear):
        rulestorecli.add_store_option(command)
        command.add_argument("--reason", metavar="TEXT", help="why; it is stored with --store")
    for command in (add, remove):
        _add_name(command)
        command.add_argument("values", nargs="*", metavar="VALUE", help="a text or a number")
        command.add_argument("--file", metavar="FILE", help="values, one on each line; - is standard input")
    add.add_argument("--until", metavar="TIME", help=UNTIL)
    _add_name(clear)
    show = add_command(
        group, "show", _show, "show the lists, or what is in one, from the control log or --store"
    )
    rulestorecli.add_store_option(show)
    show.add_argument(
        "name", nargs="?", metavar="NAME", help="the list's name, without @ (all lists, with their sizes)"
    )
    add_logs_options(show, RULES_AND_ACKS)
    history = add_command(group, "history", _history, "show who changed an entry of --store, when and why")
    _add_name(history)
    history.add_argument("entry", metavar="VALUE", help="the entry")
    rulestorecli.add_store_option(history, required=True)


def add_mutes(group: Subparsers) -> None:
    """Adds `mute` and `unmute` to `lab rules`."""
    example = "example:\n  lab rules mute 7 payeeId=108925 --until 2026-12-01     its alerts are counted, not raised: lab rules list\n"
    for verb, help in (
        ("mute", "hold back the alerts of a rule, or of one of its groups"),
        ("unmute", "raise the alerts again"),
    ):
        command = _sends(group, verb, _mute, help, example)
        command.set_defaults(verb=verb, until=None)
        add_rule_id(command)
        command.add_argument(
            "group",
            nargs="*",
            type=parse_name_and_value,
            metavar="FIELD=VALUE",
            help="the group: each grouping field (all groups)",
        )
        if verb == "mute":
            command.add_argument("--until", metavar="TIME", help=UNTIL)


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the list's name, without @")


def _sends(
    group: Subparsers, name: str, run: Callable[[argparse.Namespace], None], help: str, epilog: str = ""
) -> argparse.ArgumentParser:
    command = add_command(group, name, run, help, epilog)
    add_logs_options(command, RULES_AND_ACKS)
    add_answer_timeout(command)
    return command


def _values(options: argparse.Namespace) -> list[str]:
    """Those of the arguments and of the file; blank lines are none."""
    lines: list[str] = []
    if options.file:
        text = sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
        lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines()]
    return [*options.values, *filter(None, lines)]


def _send(options: argparse.Namespace, *messages: str) -> None:
    from lab.running import control

    control.send_rules(target_from_options(options), messages, options.timeout)


def _add(options: argparse.Namespace) -> None:
    until = int(options.until) if options.until and options.until.isdecimal() else options.until
    values = _values(options)
    if not _changes_rows(options, "add", values, until):
        _send(options, *list_messages(options.name, "add", values, until))


def _remove(options: argparse.Namespace) -> None:
    values = _values(options)
    if not _changes_rows(options, "remove", values):
        _send(options, *list_messages(options.name, "remove", values))


def _clear(options: argparse.Namespace) -> None:
    if not _changes_rows(options, "remove", None):
        _send(options, json.dumps({"list": options.name, "clear": True}))


def _changes_rows(
    options: argparse.Namespace, change: str, values: list[str] | None, until: int | str | None = None
) -> bool:
    """Changes rows if `--store` names a database; returns whether it does."""
    if not options.store:
        if options.reason:
            raise Usage("--reason: only rows have one, expected --store as well")
        return False
    stored = rulestorecli.stored_rules(options)
    stored.change_entries(change, options.name, values, until, options.reason, options.timeout)
    return True


def _show(options: argparse.Namespace) -> None:
    from lab.running import control

    if options.store:
        rulestorecli.stored_rules(options).print_lists(options.name)
    else:
        control.print_lists(target_from_options(options), options.name)


def _history(options: argparse.Namespace) -> None:
    rulestorecli.stored_rules(options).print_history(f"@{options.name} {options.entry}")


def _mute(options: argparse.Namespace) -> None:
    _send(options, mute_sentence(options.verb, options.rule_id, dict(options.group), options.until))
