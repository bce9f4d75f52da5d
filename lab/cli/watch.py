"""`lab alerts`, `lab export` and `lab latency`: what a running engine gives, on the screen, in a database, and how fast."""

from argparse import ArgumentTypeError, Namespace

from lab.cli.options import add_command, add_logs_options, at_least, database_url
from lab.logs.positions import Positions, positions_of

WATCHED = {"--alerts": "the engine's alerts", "--stats": "its counts of each micro-batch (beside the alerts)"}
ALERTS = {"--alerts": WATCHED["--alerts"]}


def add_commands(commands) -> None:
    """Adds `lab alerts`, `lab export` and `lab latency` to the command line."""
    _alerts(commands)
    _export(commands)
    _latency(commands)


def _alerts(commands) -> None:
    from lab.apps import watch

    command = add_command(
        commands,
        "alerts",
        watch.alerts,
        "show the alerts of an engine",
        """\
examples:
  lab alerts --logs logs                            all that the log keeps
  lab alerts --logs logs --follow                   those to come, until Ctrl-C
  lab alerts --logs logs --json --from saved        as JSON, those since the last time; with --follow: and those to come
""",
        schema=False,
    )
    add_logs_options(command, ALERTS)
    command.add_argument("--follow", action="store_true", help="those to come, until Ctrl-C")
    command.add_argument(
        "--from",
        dest="start",
        type=_start,
        metavar="OFFSET|saved",
        help="from an offset of the log on (0: the oldest), or from where the last `--from saved` ended",
    )
    command.add_argument("--json", action="store_true", help="as they are in the log, a JSON object a line")


def _start(text: str) -> Positions | str:
    return text if text == "saved" else _offset(text)


def _export(commands) -> None:
    def run(options: Namespace) -> None:
        from lab.apps import export  # and with it SQLAlchemy, when it is needed

        export.export(options)

    command = add_command(
        commands,
        "export",
        run,
        "write alerts into a database: a row of lab_alerts for each",
        """\
examples:
  lab export --logs logs --to sqlite:///alerts.db
  lab export --logs kafka://127.0.0.1:9092 --to 'postgresql://lab@127.0.0.1:5433/lab?passfile=/path/pgpass' --follow

Started again it goes on where it stopped, or was killed. An alert that comes twice is one row: its alertId is the key.
""",
        schema=False,
    )
    add_logs_options(command, ALERTS)
    command.add_argument(
        "--to", type=database_url, required=True, metavar="URL", help="sqlite:///FILE, or postgresql://…"
    )
    command.add_argument("--follow", action="store_true", help="those to come as well, until Ctrl-C")
    command.add_argument(
        "--from",
        dest="start",
        type=_offset,
        metavar="OFFSET",
        help="from an offset of the log on (where it stopped; at first the oldest)",
    )


def _offset(text: str) -> Positions:
    try:
        return positions_of(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def _latency(commands) -> None:
    from lab.apps import watch

    help = "how long after its event does an alert come, and where does the time go?"
    command = add_command(commands, "latency", watch.latency, help, schema=False)
    add_logs_options(command, WATCHED)
    command.add_argument(
        "--seconds", type=at_least(1), default=30, metavar="N", help="how long to watch (%(default)s)"
    )
