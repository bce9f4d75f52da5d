"""`lab cdc` and `lab db`: changes of a rule store on their way to the engine, and a PostgreSQL to keep rules in."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from lab.cli.options import add_command, add_logs_options, at_least, database_url
from lab.machine import database

STORE_HELP = "the database of the rules: sqlite:///rules.db, or what `lab db start` prints"


def add_store_option(command: ArgumentParser, required: bool = False) -> None:
    """Adds `--store`."""
    command.add_argument("--store", type=database_url, required=required, metavar="URL", help=STORE_HELP)


def add_commands(commands) -> None:
    """Adds `lab cdc` and `lab db` to the command line."""
    _cdc(commands)
    _db(commands)


def _cdc(commands) -> None:
    def run(options: Namespace) -> None:
        from lab.apps import stored

        stored.run(options)

    def status(options: Namespace) -> None:
        from lab.apps import stored

        stored.status(options)

    def forget(options: Namespace) -> None:
        from lab.apps import stored

        stored.forget(options)

    help = "capture the changes of a rule store into the control log"
    group = commands.add_parser("cdc", help=help).add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    command = add_command(
        group,
        "run",
        run,
        "capture changes until Ctrl-C, and write the engine's answers beside the rules",
        """\
example:
  lab cdc run --store sqlite:///rules.db --logs logs
Then, elsewhere: lab rules add … --store sqlite:///rules.db, or edit the rows of `rules` by any other means.
Stopped or killed and started again it goes on where it was; each change is given to the engine once.
""",
    )
    add_store_option(command, required=True)
    add_logs_options(
        command, {"--rules": "written: the control log", "--acks": "the engine's answers (beside the rules)"}
    )
    command = add_command(group, "status", status, "how far is each control log? what is waiting?")
    add_store_option(command, required=True)
    command = add_command(
        group, "forget", forget, "keep nothing more for a control log that is not fed again"
    )
    command.add_argument("place", help="of the control log, as `lab cdc status` names it")
    add_store_option(command, required=True)


def _db(commands) -> None:
    help = "a PostgreSQL on this machine, without Docker"
    group = commands.add_parser("db", help=help).add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    place = f"its data and passwords ({database.default_folder()})"
    for name, run, help in (
        ("start", _start, "start it, with the tables of a rule store: it goes on when the command has ended"),
        ("stop", _stop, "stop it; its data stay"),
        ("status", _status, "does it run, and where? exit code 1 if not"),
    ):
        command = add_command(group, name, run, help, schema=False)
        command.add_argument("--folder", type=Path, metavar="FOLDER", help=place.replace("%", "%%"))
        if name == "start":
            port: dict[str, Any] = {"type": at_least(1), "default": database.PORT, "metavar": "N"}
            command.add_argument("--port", **port, help="of 127.0.0.1 (%(default)s)")


def _start(options: Namespace) -> None:
    from lab.model.schema import PAYMENTS
    from lab.rulestore.store import RuleStore

    if not database.status(options.folder):
        print("starting PostgreSQL", file=sys.stderr)
    started = database.start(options.folder, options.port)
    RuleStore(
        started.url(), PAYMENTS
    )  # makes the tables, which are the same for every schema: analysts may begin
    _tell(started)


def _stop(options: Namespace) -> None:
    if running := database.status(options.folder):
        running.stop()
        print(f"stopped; data in {running.folder}")
    else:
        print(_none(options))


def _status(options: Namespace) -> None:
    running = database.status(options.folder)
    if not running:
        raise database.DatabaseError(_none(options))
    _tell(running)


def _tell(running: database.Database) -> None:
    print(f"PostgreSQL runs at {database.HOST}:{running.port} (pid {running.pid}), data in {running.folder}")
    for user, what in (
        (database.OWNER, "owns all, captures"),
        (database.ANALYST, "edits rules"),
        (database.READER, "only reads"),
    ):
        print(f"  {user:8} {what:18} {running.url(user)}")


def _none(options: Namespace) -> str:
    folder = (options.folder or database.default_folder()).expanduser().resolve()
    return f"no database runs in {folder}; `lab db start` starts one"
