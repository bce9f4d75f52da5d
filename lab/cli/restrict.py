"""`lab restrict`: alerts become restrictions, a service enforces them, people see and lift them."""

import time
from argparse import ArgumentTypeError, Namespace

from lab.apps.run import Usage
from lab.cli.options import add_command, add_logs_options, at_least, name_and_value
from lab.model.alerts import utc
from lab.model.rules import ACTIONS
from lab.restrict.client import PORT

LOG = {"--restrictions": "the restriction log (beside the others)"}


def add_commands(commands) -> None:
    """Adds `lab restrict run`, `serve`, `list` and `lift` to the command line."""
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
        _run,
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
        _serve,
        "answer on 127.0.0.1 whether somebody may do something, until Ctrl-C",
        schema=False,
    )
    add_logs_options(command, LOG)
    command.add_argument("--port", type=at_least(1), default=PORT, metavar="N", help="(%(default)s)")
    command = add_command(
        group, "list", _list, "who is restricted, until when, because of which rule", schema=False
    )
    add_logs_options(command, LOG)
    command = add_command(
        group,
        "lift",
        _lift,
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


def _log(options: Namespace):
    from lab.apps.run import logs_of
    from lab.logs.files import FileLog
    from lab.logs.kafka import COMPACTED

    log = logs_of(options).log("restrictions")
    log.create() if isinstance(log, FileLog) else log.create(1, COMPACTED)
    return log


def _run(options: Namespace) -> None:
    from confluent_kafka import KafkaException

    from lab.apps.run import POLL_S, logs_of, schema_of
    from lab.logs.cluster import NoBroker
    from lab.machine.signals import stop_signals
    from lab.restrict.decide import Decider

    logs = logs_of(options)
    logs.create()
    _log(options).close()
    with stop_signals() as stopped:
        while not stopped.is_set():
            try:
                with Decider(logs, schema_of(options)) as decider:
                    print(f"restrictions go to {logs.log('restrictions')}", flush=True)
                    while not stopped.wait(POLL_S):
                        if made := decider.step():
                            print(f"{made} restriction{'s' * (made > 1)}", flush=True)
            except (KafkaException, NoBroker) as error:
                print(f"trying again: {error}", flush=True)
                stopped.wait(1)


def _serve(options: Namespace) -> None:
    from lab.machine.ports import is_free
    from lab.restrict.service import HOST, serve

    if not is_free(options.port):
        raise Usage(
            f"port {options.port} of {HOST} is taken: stop what listens there, or take another --port"
        )
    serve(_log(options), options.port)


def _folded(options: Namespace):
    from lab.restrict.decide import folded

    log = _log(options)
    return log, folded(log)


def _list(options: Namespace) -> None:
    _, restrictions = _folded(options)
    now = time.time_ns() // 1_000_000
    found = [each for each in restrictions.all() if each.in_force(now)]
    for each in found:
        who = " ".join(f"{name}={value}" for name, value in each.subject)
        print(f"{each.action:12}  until {utc(each.until)}  rule {each.rule_id} v{each.rule_version}  {who}")
    if not found:
        print("nobody is restricted")


def _lift(options: Namespace) -> None:
    """Raises Usage if no such restriction is in force."""
    import getpass

    from lab.restrict.restrictions import Restriction

    log, restrictions = _folded(options)
    now, subject = time.time_ns() // 1_000_000, tuple(sorted(options.subject))
    found = [
        each
        for each in restrictions.all()
        if each.subject == subject and each.in_force(now) and options.action in (None, each.action)
    ]
    if not found:
        raise Usage(f"{dict(subject)} is not restricted; `lab restrict list` shows who is")
    lifts = [Restriction(each.action, subject, lifted=now, by=getpass.getuser()) for each in found]
    log.publish([each.to_json() for each in lifts], [each.key for each in lifts])
    print(f"lifted: {', '.join(each.action for each in found)}")
