"""`lab cdc` and `lab db`: changes of a rule store on their way to the engine, and a PostgreSQL to keep rules in."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.cli.options import (
    Subparsers,
    add_command,
    add_group,
    add_logs_options,
    add_server_commands,
    parse_database_url,
    target_from_options,
)
from lab.machine import database
from lab.model.schema import PAYMENTS
from lab.running.target import Usage

if TYPE_CHECKING:
    from lab.running.storedrules import StoredRules

STORE_HELP = "the database that stores the rules: sqlite:///rules.db, or a URL that `lab db start` prints"


def add_store_option(command: ArgumentParser, required: bool = False) -> None:
    """Adds `--store`."""
    command.add_argument(
        "--store", type=parse_database_url, required=required, metavar="URL", help=STORE_HELP
    )


def stored_rules(options: Namespace) -> "StoredRules":
    """The rules of the store that `--store` names, for the schema of `--schema`, or of the engine that the options for logs name."""
    from lab.rulestore.store import RuleStore
    from lab.running.storedrules import StoredRules

    # entries of lists have a reason of their own
    if getattr(options, "author", None) or "author" in options and options.reason:
        raise Usage("--store records the user who is connected to it: expected no --author and no --reason")
    schema = (
        target_from_options(options).effective_schema if "logs" in options else options.schema or PAYMENTS
    )
    return StoredRules(RuleStore(options.store, schema))


def add_commands(commands: Subparsers) -> None:
    """Adds `lab cdc` and `lab db` to the command line."""
    _cdc(commands)
    _db(commands)


def _cdc(commands: Subparsers) -> None:
    def run(options: Namespace) -> None:
        from lab.running.storedrules import run_capture

        run_capture(options.store, target_from_options(options))

    group = add_group(commands, "cdc", "write the changes of a rule store to the control log")
    command = add_command(
        group,
        "run",
        run,
        "capture changes until Ctrl-C, and store the engine's answers next to the rules",
        """\
example:
  lab cdc run --store sqlite:///rules.db --logs logs
Then, in another terminal: lab rules add … --store sqlite:///rules.db, or edit the rows of `rules` by any other means.
If it is stopped or killed and started again, it continues where it was; each change reaches the engine once.
""",
        is_service=True,
    )
    add_store_option(command, required=True)
    add_logs_options(
        command,
        {"--rules": "log to write: the control log", "--acks": "the engine's answers (next to the rules)"},
    )
    command = add_command(
        group,
        "status",
        lambda options: stored_rules(options).print_capture_status(),
        "show how far each control log is, and what is waiting",
    )
    add_store_option(command, required=True)
    command = add_command(
        group,
        "forget",
        lambda options: stored_rules(options).forget_capture(options.place),
        "stop keeping changes for a control log that is no longer used",
    )
    command.add_argument("place", help="the control log, as `lab cdc status` names it")
    add_store_option(command, required=True)


def _db(commands: Subparsers) -> None:
    group = add_group(commands, "db", "run PostgreSQL on this machine, without Docker")
    start_help = "start PostgreSQL with the tables of a rule store; it keeps running after the command ends"
    add_server_commands(
        group,
        f"folder for its data and passwords ({database.default_folder()})",
        database.PORT,
        start=(_start, start_help),
        stop=(_stop, "stop PostgreSQL and keep its data"),
        status=(_status, "show where PostgreSQL runs; exit code 1 if it does not"),
    )
    help = "create the tables of a rule store in your own PostgreSQL, and users with no more rights than they need"
    command = add_command(group, "roles", _roles, help, schema=False)
    add_store_option(command, required=True)
    what = "folder for the users' passwords, one file each (passwords)"
    command.add_argument("--passwords", type=Path, default=Path("passwords"), metavar="FOLDER", help=what)

    help = "ask, or no longer ask, that another user approves each edit of a rule"
    command = add_command(group, "two-persons", _two_persons, help, schema=False)
    command.add_argument("required", choices=("on", "off"), help="whether edits wait for approval")
    add_store_option(command, required=True)


def add_approve(group: Subparsers) -> None:
    """Adds `lab rules approve` to the commands of rules."""
    command = add_command(
        group,
        "approve",
        lambda options: stored_rules(options).approve_proposal(options.proposal),
        "approve an edit that another user of --store proposed",
    )
    command.add_argument(
        "proposal", type=int, metavar="N", help="the proposal, as `lab rules list --store` numbers it"
    )
    add_store_option(command, required=True)


def _two_persons(options: Namespace) -> None:
    from lab.rulestore.store import RuleStore

    RuleStore(options.store, PAYMENTS).require_two_persons(options.required == "on")
    print(
        f"two persons: {options.required}; "
        + (
            "each edit waits until another user approves it"
            if options.required == "on"
            else "edits need no approval"
        )
    )


def _start(options: Namespace) -> None:
    from lab.rulestore.create import grant_rights
    from lab.rulestore.store import RuleStore

    if not database.status(options.folder):
        print("starting PostgreSQL", file=sys.stderr)
    started = database.start(options.folder, options.port)
    # makes the tables, which are the same for every schema: analysts may begin
    grant_rights(RuleStore(started.url(), PAYMENTS).engine)
    _print_urls(started)


def _roles(options: Namespace) -> None:
    from lab.rulestore.create import grant_rights
    from lab.rulestore.store import RuleStore

    if not options.store.startswith("postgresql:"):
        raise database.DatabaseError(
            "only PostgreSQL has users: for a store in SQLite, use the permissions of its file"
        )
    made = database.create_roles(options.store, options.passwords)
    grant_rights(RuleStore(options.store, PAYMENTS).engine)
    for name in database.ROLES:
        print(f"  {name:8} {options.passwords.absolute() / name if name in made else 'already existed'}")


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
    _print_urls(running)


def _print_urls(running: database.Database) -> None:
    print(f"PostgreSQL runs at {database.HOST}:{running.port} (pid {running.pid}), data in {running.folder}")
    for user, what in (
        (database.OWNER, "owns everything"),
        (database.CAPTURE, "captures changes"),
        (database.ANALYST, "edits rules"),
        (database.READER, "only reads"),
    ):
        print(f"  {user:8} {what:18} {running.url(user)}")


def _none(options: Namespace) -> str:
    folder = (options.folder or database.default_folder()).expanduser().resolve()
    return f"no database runs in {folder}; `lab db start` starts one"
