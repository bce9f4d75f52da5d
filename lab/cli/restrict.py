"""`lab restrict`: alerts become restrictions, a service enforces them, people see and lift them."""

from argparse import ArgumentParser
from pathlib import Path

from lab.cli.options import (
    Subparsers,
    add_command,
    add_group,
    add_logs_options,
    at_least,
    parse_name_and_value,
    target_from_options,
)
from lab.logs.places import MAX_PORT
from lab.model.rules import ACTIONS
from lab.restrict.client import PORT
from lab.restrict.questions import MAX_AGE_MS
from lab.restrict.restrictions import KNOWN

QUESTION = f"""\
A question is an event that has not happened yet: its action, and its fields with the names of the schema.

  POST /may   {{"questions": [{{"action": "login", "userId": 7}}, {{"action": "payment", "userId": 8, "amount": 12.5}}]}}
  answer      {{"answers": [{{"allowed": false, "until": 1738024200000, "ruleId": 1, "subject": {{"userId": 7}}, ...}}, {{"allowed": true}}]}}

action: {", ".join(KNOWN)}. Values are texts, numbers, true, false, or null if the event has none.
What cannot be judged is not allowed: {{"allowed": false, "refused": "why"}}, as for another action, or if a field is missing
by which somebody is restricted. Only status 200 with "allowed": true means yes. GET /restrictions and GET /health also answer.

example:
  curl -H "Authorization: Bearer $(cat ~/.local/share/lab/restrict-token)" \\
    -d '{{"questions": [{{"action": "login", "userId": 7}}]}}' http://127.0.0.1:{PORT}/may
"""
WOULD = f"""\

With --would, it also follows the engine of --logs, and says which alerts a record would raise if it came next.

  POST /would {{"questions": [{{"transactionId": 7, "eventTime": 1738024200000, "payeeId": 7, ...}}], "maxAgeMs": 1000}}
  answer      {{"answers": [{{"clear": true, "alerts": []}}], "asOf": {{"cut": 812, "upTo": 1738024199990}}}}

What cannot be judged is not clear: {{"clear": false, "refused": "why"}}. If the engine's cuts are older than maxAgeMs ({MAX_AGE_MS:,}),
the status is 503. Only status 200 with "clear": true means that no rule would alert.
"""
LOG = {"--restrictions": "the restriction log (next to the others)"}


def add_commands(commands: Subparsers) -> None:
    """Adds `lab restrict run`, `serve`, `list` and `lift` to the command line."""
    from lab.followers import restrict

    help = "turn alerts into restrictions, enforce them, list and lift them"
    group = add_group(commands, "restrict", help, QUESTION)
    read = {
        "--rules": "log to read: the control messages",
        "--acks": "log to read: the engine's answers",
        "--alerts": "log to read: the engine's alerts",
    }
    command = add_command(
        group,
        "run",
        lambda options: restrict.run(target_from_options(options)),
        "turn alerts of rules with an action into restrictions, until Ctrl-C",
        """\
example:
  lab rules add '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "filter": {"action": "login_failed"},
    "aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 5, "window": "10m",
    "action": "block_login", "ttl": "30m"}' --schema logins --logs logs
  lab restrict run --schema logins --logs logs
""",
        is_service=True,
    )
    add_logs_options(command, read | {"--restrictions": "log to write: the restrictions (next to the rules)"})
    _add_serve(group)
    command = add_command(
        group,
        "list",
        lambda options: restrict.print_restrictions(target_from_options(options)),
        "show who is restricted, until when, and by which rule",
        schema=False,
    )
    add_logs_options(command, LOG)
    command = add_command(
        group,
        "lift",
        lambda options: restrict.lift_restrictions(
            target_from_options(options), options.subject, options.action
        ),
        "lift somebody's restrictions",
        "example:\n  lab restrict lift userId=7 --action block_login --logs logs\n",
        schema=False,
    )
    command.add_argument(
        "subject",
        nargs="+",
        type=parse_name_and_value,
        metavar="FIELD=VALUE",
        help="who, as `lab restrict list` shows it",
    )
    command.add_argument("--action", choices=ACTIONS, help="lift only this one (all that are in force)")
    add_logs_options(command, LOG)


def _add_serve(group: Subparsers) -> None:
    from lab.followers import restrict

    command = add_command(
        group,
        "serve",
        lambda options: restrict.serve(
            target_from_options(options), options.port, options.token_file, options.would
        ),
        "answer on 127.0.0.1 whether somebody may do something, until Ctrl-C",
        QUESTION + WOULD,
        is_service=True,
    )
    add_logs_options(command, LOG)
    command.add_argument(
        "--would",
        action="store_true",
        help="also answer which alerts an event would raise: keeps the engine's windows in memory",
    )
    command.add_argument(
        "--port", type=at_least(1, MAX_PORT), default=PORT, metavar="N", help="(%(default)s)"
    )
    add_token_option(command)


def add_token_option(command: ArgumentParser) -> None:
    """Adds `--token-file`."""
    command.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with one token per line, one for each client (LAB_RESTRICT_TOKEN, or else the user's own file)",
    )
