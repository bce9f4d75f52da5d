"""`lab restrict`: alerts of rules with an action become restrictions; lists and lifts restrictions."""

import getpass
import sys
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from lab.logs.protocol import Log
from lab.logs.reading import SkippedLines
from lab.machine.ports import is_free
from lab.machine.signals import stop_signals
from lab.model.alerts import utc_text
from lab.model.formatting import escape_control_characters, plain_text
from lab.model.times import now_ms
from lab.restrict.client import PORT
from lab.restrict.restrictions import Restriction, Subject
from lab.restrict.standing import Restrictions, fold_restrictions
from lab.running.target import Target, Usage


def run(target: Target) -> None:
    """Turns alerts into restrictions until a signal; a broker that is away is tried again."""
    from confluent_kafka import KafkaException

    from lab.logs.cluster import NoBroker
    from lab.restrict.decide import DEAD_LETTERS, POLL_S, Decider

    logs = target.logs
    logs.check_readable("control", "acks", "alerts")
    schema = target.required_schema
    for name in ("restrictions", DEAD_LETTERS):
        logs.create_log(name)
    with stop_signals() as stopped:
        while not stopped.is_set():
            try:
                with Decider(logs, schema) as decider:
                    print(f"restrictions go to {logs.log('restrictions')}", flush=True)
                    known = 0
                    while not stopped.wait(POLL_S):
                        if made := decider.write_new_restrictions():
                            print(f"{made} restriction{'s' * (made > 1)}", flush=True)
                        if decider.dead_letters > known:
                            known = decider.dead_letters
                            print(
                                f"{known:,} lines could not be used; they are in {logs.log(DEAD_LETTERS)}",
                                file=sys.stderr,
                                flush=True,
                            )
            except (KafkaException, NoBroker) as error:
                print(f"trying again: {escape_control_characters(str(error))}", flush=True)
                stopped.wait(1)


def serve(
    target: Target, port: int = PORT, token_file: Path | None = None, judges_events: bool = False
) -> None:
    """Answers whether somebody may do something, until a signal. Raises Usage if the port is taken.

    `judges_events`: also which alerts an event would raise, by the windows of the engine of these logs.
    """
    from lab.restrict import service
    from lab.restrict.tokens import read_tokens

    try:
        tokens = read_tokens(token_file)
    except (ValueError, OSError) as error:
        raise Usage(f"--token-file: {error}") from None
    if not is_free(port):
        raise Usage(
            f"port {port} of {service.HOST} is in use: stop the program that listens there, or choose another --port"
        )
    target.logs.create_log("restrictions")
    log = target.logs.log("restrictions")
    if not judges_events:
        return service.serve(log, port, tokens)
    from lab.desk.live import LiveWorld

    target.logs.check_readable("control", "events", "stats")
    with LiveWorld(target.logs, target.required_schema) as world:
        service.serve(log, port, tokens, world)


def _folded(target: Target) -> tuple[Log, Restrictions]:
    log = target.logs.existing("restrictions")
    left_out = SkippedLines()
    found = fold_restrictions(log, left_out)
    left_out.print_total()
    return log, found


def _who(subject: Subject) -> str:
    """A subject as arguments of `lab restrict lift`: a shell obeys nothing in it, whoever chose the values."""
    return " ".join(quote(f"{name}={value}") for name, value in _as_shown(subject))


def _as_text(subject: Subject) -> Subject:
    return tuple((name, plain_text(value)) for name, value in subject)


def _as_shown(subject: Subject) -> Subject:
    return tuple((name, escape_control_characters(plain_text(value))) for name, value in subject)


def print_restrictions(target: Target) -> None:
    """Prints the current restrictions."""
    _, restrictions = _folded(target)
    now = now_ms()
    found = [each for each in restrictions.all() if each.is_in_force(now)]
    for each in found:
        said = f"until {utc_text(each.until)}  rule {each.rule_id} v{each.rule_version}  {_who(each.subject)}"
        print(f"{each.action:12}  {said}")
    if not found:
        print("nobody is restricted")


def lift_restrictions(target: Target, subject: Iterable[tuple[str, str]], action: str | None = None) -> None:
    """Lifts the restrictions of a subject, or only that of an action. Raises Usage if no such restriction is in force."""
    log, restrictions = _folded(target)
    now, who = now_ms(), tuple(sorted(subject))
    in_force = [
        each for each in restrictions.all() if each.is_in_force(now) and action in (None, each.action)
    ]
    found = [each for each in in_force if _as_text(each.subject) == who]
    # a value with control characters is typed as it is shown
    found = found or [each for each in in_force if _as_shown(each.subject) == who]
    if not found:
        raise Usage(f"{_who(who)} is not restricted; `lab restrict list` shows who is")
    # restrictions begin at log times: this computer's clock may be behind that of the log
    lifts = [
        Restriction(each.action, each.subject, lifted=max(now, each.start), by=getpass.getuser())
        for each in found
    ]
    log.publish([each.to_json() for each in lifts], [each.key for each in lifts])
    print(f"lifted: {', '.join(each.action for each in found)}")
