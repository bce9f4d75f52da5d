"""Reads logs that others can write to: an invalid line is named and skipped."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lab.logs.positions import Record
from lab.logs.protocol import Tail
from lab.model.formatting import escape_control_characters
from lab.model.statuslines import parse_ack

T = TypeVar("T")
NAMED = 20
POLL_S = 0.1  # how often a reader at a terminal looks for new records
AT_ONCE, MOST_PARTS = 10_000, 100  # records of a part; parts of a call


def parse_records(
    records: Iterable[Record], parse: Callable[[str], T], bad: Callable[[Record, str], None]
) -> Iterator[tuple[Record, T]]:
    """Yields each record with its parsed line. Records for which `parse` raises ValueError go to `bad` with the reason."""
    for record in records:
        try:
            value = parse(record.line)
        except ValueError as error:
            bad(record, str(error))
        else:
            yield record, value


def new_answers(
    acks: Tail,
    places: Iterable[str],
    timeout_s: float,
    left_out: "SkippedLines",
    check: Callable[[], object] = bool,
) -> Iterator[dict]:
    """The engine's answers to the control messages at some places, until each has one or the time is over. `check`: called at each look."""
    waiting, deadline = set(places), time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline:
        check()
        for _, ack in parse_records(acks.records(), parse_ack, left_out):
            if ack.get("place") in waiting:
                waiting.remove(ack["place"])
                yield ack
        time.sleep(POLL_S)


def new_records(tail: Tail) -> Iterator[list[Record]]:
    """The records that a reader has not read yet, a part of them in memory at a time: after a pause there may be millions.

    After MOST_PARTS it ends, too: what comes faster than it is read waits for the next call.
    """
    for _ in range(MOST_PARTS):
        if not (records := tail.records(AT_ONCE)):
            return
        yield records


def print_expired(tail: Tail) -> None:
    """Prints to stderr what a reader has missed because it expired, once."""
    if tail.expired:
        print(f"left out: {tail.expired}", file=sys.stderr, flush=True)
        tail.expired = ""


class SkippedLines:
    """Counts the lines that a command skips, and prints the first 20 to stderr, with place and reason.

    >>> left_out = SkippedLines(print)
    >>> list(parse_records([Record(0, "", "x", "alerts/a:1")], int, left_out)), str(left_out)
    left out: alerts/a:1: invalid literal for int() with base 10: 'x'
    ([], ', 1 unreadable line left out')
    """

    def __init__(self, say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)):
        self._say, self.count = say, 0

    def __call__(self, record: Record, reason: str) -> None:
        self.count += 1
        if self.count <= NAMED:
            self._say(escape_control_characters(f"left out: {record.place}: {reason}"))
        elif self.count == NAMED + 1:
            self._say("more lines are left out and counted, but not named")

    def print_total(self, say: Callable[[str], None] | None = None) -> None:
        """Prints the total, if there is any, for commands without a last line of their own. `say` replaces the function that names the lines."""
        if self.count:
            (say or self._say)(str(self).removeprefix(", "))

    def __str__(self) -> str:
        """The total as the end of a sentence; empty if no line was skipped."""
        return f", {self.count:,} unreadable line{'s' * (self.count > 1)} left out" if self.count else ""
