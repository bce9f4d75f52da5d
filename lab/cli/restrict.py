"""`lab restrict`: alerts become restrictions, a service enforces them, people see and lift them."""

from argparse import ArgumentTypeError

from lab.cli.options import add_command, add_logs_options, at_least, name_and_value
from lab.model.rules import ACTIONS
from lab.restrict.client import PORT

LOG = {"--restrictions": "the restriction log (beside the others)"}


def add_commands(commands) -> None:
    """Adds `lab restrict run`, `serve`, `list` and `lift` to the command line."""
    from lab.apps import restrict

    help = "restrict whom rules with an action caught, and lift restrictions"
    group = commands.add_parser("restrict", help=help).add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    read = {
        "--rules": "read: the control log",
        "--acks": "read: the engine's answers",
        "--alerts": "read: its alerts",
    }
    command = add_command(
        group,
        "run",
        restrict.run,
        "turn alerts of rules with an action into restrictions, until Ctrl-C",
        """\
example:
  lab rules add '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "filter": {"action": "login_failed"},
    "aggregatorFunctionType": "COUNT", "limitOperatorType": ">=", "limit": 5, "window": "10m",
    "action": "block_login", "ttl": "30m"}' --schema logins --logs logs
  lab restrict run --schema logins --logs logs
""",
    )
    add_logs_options(command, read | {"--restrictions": "written: the restriction log (beside the rules)"})
    command = add_command(
        group,
        "serve",
        restrict.serve,
        "answer on 127.0.0.1 whether somebody may do something, until Ctrl-C",
        schema=False,
    )
    add_logs_options(command, LOG)
    command.add_argument("--port", type=at_least(1), default=PORT, metavar="N", help="(%(default)s)")
    command = add_command(
        group, "list", restrict.show, "who is restricted, until when, because of which rule", schema=False
    )
    add_logs_options(command, LOG)
    command = add_command(
        group,
        "lift",
        restrict.lift,
        "let somebody act again",
        "example:\n  lab restrict lift userId=7 --action block_login --logs logs\n",
        schema=False,
    )
    command.add_argument(
        "subject", nargs="+", type=_subject, metavar="FIELD=VALUE", help="as `list` shows it"
    )
    command.add_argument("--action", choices=ACTIONS, help="only this one (all that are in force)")
    add_logs_options(command, LOG)


def _subject(text: str) -> tuple[str, str]:
    try:
        return name_and_value(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(f"{text!r}, expected a field and its value, such as userId=7") from None
