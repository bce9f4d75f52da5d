"""Plays a generator or recorded events into a log, with a display and keys that change it. Used by `lab simulate`."""

import os
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from lab.engine.loop.ends import kind_of
from lab.logs.config import load_config
from lab.machine.signals import stop_signals
from lab.model import formatting
from lab.model.schema import PAYMENTS, Schema
from lab.restrict.client import Enforcement
from lab.restrict.tokens import read_tokens
from lab.running.target import Usage
from lab.sources.sources import source_at
from lab.stream.player import Player

POLL_S = 0.1
FASTER = 1.2


def play_into_log(
    log_place: str,
    stream: str | Schema | None,
    events_place: str | None = None,
    *,
    rate: float = 500,
    seconds: float = float("inf"),
    seed: int = 1,
    burst_every_s: int = 10,
    ask_url: str | None = None,
    token_file: Path | None = None,
    on_outage: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> None:
    """Plays until Ctrl-C, SIGTERM, q, or the end of `seconds`.

    `stream`: payments, logins, or the schema of other events. `events_place`: recorded events, which it plays instead of
    generated ones. `ask_url`: a `lab restrict serve` that it asks before each event; `token_file`, `on_outage`: as
    `Enforcement` takes them; events of a schema without `action` are payments. Raises Usage if the arguments contradict each other or the log's place is none.
    """
    if not (stream or events_place):
        raise Usage("nothing to play: expected payments, logins, --schema FILE or --events WHERE")
    if isinstance(stream, str) and events_place:
        raise Usage(f"{stream} and --events: expected only one of the two")
    try:
        config = load_config(config_file)
        sink = kind_of(log_place).open_log(log_place, config)
    except ValueError as error:
        raise Usage(f"--to: {error}") from None
    has_actions = stream == "logins" or isinstance(stream, Schema) and "action" in stream.names
    action = None if has_actions else "payment"
    try:
        enforcement = Enforcement(ask_url, read_tokens(token_file)[0], on_outage, action) if ask_url else None
    except (ValueError, OSError) as error:
        raise Usage(f"--ask: {error}") from None
    schema = None if isinstance(stream, str) else stream
    lines = source_at(events_place, config, schema) if events_place else None
    if lines and lines.texts:
        raise Usage(
            f"--events {events_place} is {lines.format}: also pass --schema FILE, which gives its cells types"
        )
    sink.create()
    many: dict[str, Any] = {"users": 100_000} if stream == "logins" else {}
    player = Player(
        stream or PAYMENTS,
        sink,
        rate,
        seed=seed,
        every_s=sink.pause_s,
        burst_every_s=burst_every_s,
        seconds=seconds,
        lines=lines.live_log_lines() if lines else None,
        ask=enforcement.allowed if enforcement else None,
        **many,
    )
    console = Console(stderr=True, highlight=False)
    console.print(f"{events_place or player.schema} to {log_place}; Ctrl-C stops it", soft_wrap=True)
    began = time.monotonic()
    try:
        _play(player, console)
    finally:
        sink.close()
    bursts = f", {player.planted:,} of them of {player.bursts.total():,} bursts" if player.planted else ""
    refused = f"; refused: {format_counts_by_kind(player.refused)}" if player.refused else ""
    if enforcement and (without := enforcement.unanswered + enforcement.refused):
        refused += f"; {without:,} questions without an answer, the last because of {formatting.short_json(enforcement.error)}"
    console.print(
        f"{player.sent:,} events in {time.monotonic() - began:.1f} s{bursts}{refused}", soft_wrap=True
    )


def _play(player: Player, console: Console) -> None:
    """Runs the player to its end, or until somebody stops it; in a terminal, keys change it. Raises what ended it."""
    shown = (
        Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext()
    )
    with stop_signals() as stopped, terminal_keys() as keys, shown as display, player:
        while player.is_alive() and not stopped.is_set():
            for key in keys(POLL_S):
                if not handle_key(player, key):
                    stopped.set()
            if display:
                display.update(status_lines(player, keys is not wait_without_keys), refresh=True)
    if player.error:
        raise player.error


def handle_key(player: Player, key: str) -> bool:
    """Does what the key asks for; False if it asks for the end."""
    if key in "+=":
        player.target_rate = min(player.target_rate * FASTER, 1_000_000)
    elif key in "-_":
        player.target_rate = max(player.target_rate / FASTER, 0.1)
    elif key == " ":
        player.resume() if player.is_paused else player.pause()
    elif kind := burst_kinds_by_keyboard_key(player).get(key):
        player.burst(kind)
    return key != "q"


def burst_kinds_by_keyboard_key(player: Player) -> dict[str, str]:
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
        plant = "  ".join(
            f"[bold]{key}[/] {kind}" for key, kind in burst_kinds_by_keyboard_key(player).items()
        )
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
