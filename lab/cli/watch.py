"""`lab alerts`, `lab export`, `lab notify` and `lab latency`: show, store and send alerts, and show their latency."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable

from lab.cli.options import (
    Subparsers,
    add_command,
    add_logs_options,
    at_least,
    parse_database_url,
    target_from_options,
)
from lab.logs.config import load_config
from lab.logs.positions import Positions, parse_positions

WATCHED = {
    "--alerts": "the engine's alerts",
    "--stats": "the engine's counts of each micro-batch (next to the alerts)",
}
ALERTS = {"--alerts": WATCHED["--alerts"]}


def add_commands(commands: Subparsers) -> None:
    """Adds them to the command line."""
    _alerts(commands)
    _export(commands)
    _notify(commands)
    _latency(commands)


def _offset(text: str) -> Positions:
    try:
        return parse_positions(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _start(text: str) -> Positions | str:
    return text if text == "saved" else _offset(text)


def _add_start(command: ArgumentParser, help: str, type: Callable = _offset, metavar: str = "OFFSET") -> None:
    command.add_argument("--from", dest="start", type=type, metavar=metavar, help=help)


def _alerts(commands: Subparsers) -> None:
    from lab.followers import watch

    command = add_command(
        commands,
        "alerts",
        lambda options: watch.print_alerts(
            target_from_options(options), options.follow, options.start, options.json
        ),
        "show the alerts of an engine",
        """\
examples:
  lab alerts --logs logs                            all alerts in the log
  lab alerts --logs logs --follow                   new alerts, until Ctrl-C
  lab alerts --logs logs --json --from saved        as JSON, the alerts since the last time; with --follow, also new ones
""",
        schema=False,
    )
    add_logs_options(command, ALERTS)
    command.add_argument("--follow", action="store_true", help="show new alerts until Ctrl-C")
    help = "start at an offset of the log (0: the oldest), or where the last `--from saved` ended"
    _add_start(command, help, _start, "OFFSET|saved")
    command.add_argument("--json", action="store_true", help="print one JSON object per line, as in the log")


def _export(commands: Subparsers) -> None:
    def run(options: Namespace) -> None:
        from lab.followers import export  # and with it SQLAlchemy, when it is needed

        export.export(target_from_options(options), options.to, options.follow, options.start)

    command = add_command(
        commands,
        "export",
        run,
        "write alerts to a database, one row of lab_alerts each",
        """\
examples:
  lab export --logs logs --to sqlite:///alerts.db
  lab export --logs kafka://127.0.0.1:9092 --to 'postgresql://lab@127.0.0.1:5433/lab?passfile=/path/pgpass' --follow

Started again, it continues where it stopped or was killed. An alert that comes twice is one row: its alertId is the key.
""",
        schema=False,
    )
    add_logs_options(command, ALERTS)
    command.add_argument(
        "--to",
        type=parse_database_url,
        required=True,
        metavar="URL",
        help="sqlite:///FILE, or postgresql://…",
    )
    command.add_argument("--follow", action="store_true", help="also write new alerts, until Ctrl-C")
    _add_start(command, "start at an offset of the log (where it stopped; at first, the oldest)")


def _notify(commands: Subparsers) -> None:
    def run(options: Namespace) -> None:
        from lab.followers import notify  # and with it the options of lab.toml, when they are needed

        receiver = notify.find_receiver(options.to, load_config(options.config))
        notify.notify(target_from_options(options), receiver, options.start)

    command = add_command(
        commands,
        "notify",
        run,
        "send new alerts to people and programs until Ctrl-C",
        """\
example of lab.toml:
  [notify.oncall]                                   people: chat, mail and so on, with a URL for apprise
  url = { file = "/run/secrets/slack" }             slack://…, mailtos://…, ntfys://…
  every = "1m"                                      at most one message per minute, for all alerts of that minute

  [notify.audit]                                    a program: every alert, as JSON, signed (Standard Webhooks)
  url = "https://fraud.example.com/alerts"
  secret = { file = "/run/secrets/audit" }
  rules = [1, 3]                                    only the alerts of these rules
  proxy = "http://proxy.example.com:3128"           the way out; variables such as https_proxy are not used

examples:
  lab notify --to oncall --logs logs
  lab notify --to audit --logs kafka://127.0.0.1:9092 --from 0

The first time, it sends new alerts only. Started again, it continues where it stopped or was killed. If a target does not
accept a message, the command sends it again until it does: each alert arrives at least once and in order, and copies have the same alertId.
""",
        schema=False,
        is_service=True,
    )
    add_logs_options(command, ALERTS)
    command.add_argument("--to", required=True, metavar="NAME", help="a target of lab.toml")
    _add_start(command, "start at an offset of the log (where it stopped; at first, the end)")


def _latency(commands: Subparsers) -> None:
    from lab.followers import latency

    help = "measure how long after its event an alert comes, and which stage takes how much of it"
    command = add_command(
        commands,
        "latency",
        lambda options: latency.print_latency(target_from_options(options), options.seconds),
        help,
        schema=False,
    )
    add_logs_options(command, WATCHED)
    command.add_argument(
        "--seconds", type=at_least(1), default=30, metavar="N", help="how long to watch (%(default)s)"
    )
