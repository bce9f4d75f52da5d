"""`lab simulate`: plays a generator into a log until it is told to stop, with a display and keys that change it."""

import os
import select
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from lab.apps.target import Usage
from lab.cli.options import (
    Subparsers,
    add_command,
    add_config_option,
    at_least,
    parse_log_place,
    parse_name_and_value,
    parse_schema_argument,
)
from lab.cli.replay import EVENTS
from lab.cli.restrict import add_token_option
from lab.model import words
from lab.model.schema import PAYMENTS
from lab.stream.player import SCHEMAS, Player

SEGMENT_S, KAFKA_S = 0.2, 0.01  # how often events reach a folder, and Kafka
POLL_S = 0.1
FASTER = 1.2


def add_command_to(commands: Subparsers) -> None:
    """Adds `lab simulate` to the command line."""
    command = add_command(
        commands,
        "simulate",
        run,
        "play a live stream of simulated or recorded events into a log",
        """\
examples:
  lab simulate payments --to logs/events                                   then, in another terminal: lab run --logs logs
  lab simulate logins --rate 50 --to kafka://127.0.0.1:9092/logins
  lab simulate --schema orders.toml --to logs/events                       for your own schema, from its types and examples
  lab simulate --events orders.jsonl --to logs/events                      your own events, unchanged
  lab simulate --events orders.csv --schema orders.toml --to logs/events   from CSV, each row as an object

Keys in a terminal: + and - change the rate by 20 %; p, b and s plant a burst (pair, beneficiary, surge); for logins
1 to 5 plant an episode; for other schemas s plants a busy group; space pauses; q quits. A burst comes on top of the rate.
""",
        schema=False,
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument(
        "schema",
        nargs="?",
        choices=SCHEMAS,
        metavar="payments|logins",
        help="a built-in stream with planted fraud",
    )
    what.add_argument(
        "--schema",
        dest="own",
        type=parse_schema_argument,
        metavar="FILE",
        help="a schema file like those of `lab infer`",
    )
    command.add_argument(
        "--events",
        type=parse_log_place,
        metavar="WHERE",
        help=f"recorded events: {EVENTS}; CSV also needs --schema",
    )
    command.add_argument(
        "--to", required=True, metavar="WHERE", help="log to write: a folder, or kafka://host:port/topic"
    )
    add_config_option(command)
    command.add_argument("--rate", type=_rate, default=500, metavar="N", help="events per second (500)")
    command.add_argument("--seconds", type=at_least(1), metavar="N", help="how long (until Ctrl-C)")
    command.add_argument(
        "--seed", type=at_least(0), default=1, metavar="N", help="another seed gives other events (1)"
    )
    command.add_argument(
        "--bursts",
        type=at_least(0),
        default=10,
        metavar="S",
        help="plant a burst every S seconds; 0: none (10)",
    )
    command.add_argument(
        "--ask",
        metavar="URL",
        help="ask this `lab restrict serve` before each event; an event that it forbids does not happen",
    )
    add_token_option(command)
    command.add_argument(
        "--on-outage",
        action="append",
        type=parse_name_and_value,
        default=[],
        metavar="ACTION=allow|deny",
        help="whether to allow events that the action restricts while the service does not answer (block_login=deny, hold_payment=deny)",
    )


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= 1_000_000:
        raise ArgumentTypeError(f"{text!r}, expected events per second, above 0 and up to 1000000")
    return number


def run(options: Namespace) -> None:
    """Plays until Ctrl-C, SIGTERM, q, or the end of `--seconds`."""
    from rich.console import Console
    from rich.live import Live

    from lab.apps.sources import source_at
    from lab.logs.config import load_config
    from lab.logs.files import FileLog
    from lab.logs.opened import open_log
    from lab.machine.signals import stop_signals
    from lab.restrict.client import Enforcement
    from lab.restrict.tokens import read_tokens

    if not (options.schema or options.own or options.events):
        raise Usage("nothing to play: expected payments, logins, --schema FILE or --events WHERE")
    if options.schema and options.events:
        raise Usage(f"{options.schema} and --events: expected only one of the two")
    try:
        config = load_config(options.config)
        sink = open_log(options.to, config)
    except ValueError as error:
        raise Usage(f"--to: {error}") from None
    try:
        token = read_tokens(options.token_file)[0] if options.ask else None
        enforcement = Enforcement(options.ask, token, dict(options.on_outage)) if options.ask else None
    except (ValueError, OSError) as error:
        raise Usage(f"--ask: {error}") from None
    lines = source_at(options.events, config, options.own) if options.events else None
    if lines and lines.texts:
        raise Usage(
            f"--events {options.events} is {lines.format}: also pass --schema FILE, which gives its cells types"
        )
    sink.create()
    many: dict[str, Any] = {"users": 100_000} if options.schema == "logins" else {}
    player = Player(
        options.schema or options.own or PAYMENTS,
        sink,
        options.rate,
        seed=options.seed,
        every_s=SEGMENT_S if isinstance(sink, FileLog) else KAFKA_S,
        burst_every_s=options.bursts,
        seconds=options.seconds or float("inf"),
        lines=lines.live_log_lines() if lines else None,
        ask=enforcement.allowed if enforcement else None,
        **many,
    )
    console = Console(stderr=True, highlight=False)
    console.print(f"{options.events or player.schema} to {options.to}; Ctrl-C stops it", soft_wrap=True)
    shown = (
        Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext()
    )
    began = time.monotonic()
    with stop_signals() as stopped, terminal_keys() as keys, shown as display:
        player.start()
        try:
            while player.is_alive() and not stopped.is_set():
                for key in keys(POLL_S):
                    if not handle_key(player, key):
                        stopped.set()
                if display:
                    display.update(status_lines(player, keys is not wait_without_keys), refresh=True)
        finally:
            player.stop()
            sink.close()
    if player.error:
        raise player.error
    bursts = f", {player.planted:,} of them of {player.bursts.total():,} bursts" if player.planted else ""
    refused = f"; refused: {format_counts_by_kind(player.refused)}" if player.refused else ""
    if enforcement and (without := enforcement.unanswered + enforcement.refused):
        refused += f"; {without:,} questions without an answer, the last because of {words.short_json(enforcement.error)}"
    console.print(
        f"{player.sent:,} events in {time.monotonic() - began:.1f} s{bursts}{refused}", soft_wrap=True
    )


def handle_key(player: Player, key: str) -> bool:
    """Does what the key asks for; False if it asks for the end."""
    if key in "+=":
        player.target_rate = min(player.target_rate * FASTER, 1_000_000)
    elif key in "-_":
        player.target_rate = max(player.target_rate / FASTER, 0.1)
    elif key == " ":
        player.resume() if player.is_paused else player.pause()
    elif kind := burst_keys(player).get(key):
        player.burst(kind)
    return key != "q"


def burst_keys(player: Player) -> dict[str, str]:
    """Which key plants which burst: its letter, or where those are not different, its number."""
    letters = {kind[0]: kind for kind in player.kinds}
    numbers = {str(number): kind for number, kind in enumerate(player.kinds, start=1)}
    return letters if len(letters) == len(numbers) else numbers


def format_counts_by_kind(counts: Counter[str]) -> str:
    """How many events of each kind of burst may not happen.

    >>> format_counts_by_kind(Counter({"stuffing": 9, "": 1}))
    'stuffing 9, ordinary 1'
    """
    return ", ".join(f"{kind or 'ordinary'} {count:,}" for kind, count in counts.most_common())


def status_lines(player: Player, has_keys: bool) -> str:
    """What the display says; the second line, if there are keys, which they are."""
    state = "[yellow]paused[/]" if player.is_paused else "playing"
    behind = f"  [red]{player.events_behind:,} behind[/]" if player.events_behind > player.target_rate else ""
    planted = "  ".join(f"{kind} {count}" for kind, count in player.bursts.items() if count)
    text = (
        f"{state}  rate {player.target_rate:,.0f}/s, actual [bold]{player.actual_rate:,.0f}[/]/s, "
        f"sent {player.sent:,}{behind}  {planted}"
    )
    text += f"  [red]refused: {format_counts_by_kind(player.refused)}[/]" if player.refused else ""
    if has_keys:
        plant = "  ".join(f"[bold]{key}[/] {kind}" for key, kind in burst_keys(player).items())
        text += f"\n[dim]keys: [bold]+ -[/] rate  {plant}  [bold]space[/] pause  [bold]q[/] quit[/]"
    return text


def wait_without_keys(seconds: float) -> str:
    """Waits, and nothing was pressed: there is no terminal to read from."""
    time.sleep(seconds)
    return ""


@contextmanager
def terminal_keys() -> Iterator[Callable[[float], str]]:
    """A function that waits up to so many seconds and returns what was pressed, without Enter."""
    fd = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
    if fd is None or os.tcgetpgrp(fd) != os.getpgrp():  # in the background the terminal is not ours
        yield wait_without_keys
        return
    import termios
    import tty

    def keys(seconds: float) -> str:
        ready = select.select([fd], [], [], seconds)[0]
        return os.read(fd, 64).decode(errors="replace") if ready else ""

    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield keys
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
