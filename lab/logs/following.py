"""Follows a log: its records go to a sink, a batch at a time, and a bookmark says how far they have arrived.

    bookmark ──► Tail ──records──► Sink.write_batch ──► have they arrived? ──► bookmark saved
                  ▲                                                                 │
                  └────────── waits, if there was nothing new ◄─────────────────────┘

After a crash, what was written since the last bookmark is written again, in the same order.
"""

import sys
from collections.abc import Callable, Sequence
from threading import Event
from typing import Protocol

from lab.logs.positions import Record
from lab.logs.protocol import Tail
from lab.logs.reading import POLL_S, print_expired
from lab.model.formatting import escape_control_characters

AGAIN_S = 1.0


class Sink(Protocol):
    """Where the records of a log go. `at_once`: about how many in a batch. `outlasts_outages`: whether to wait for a log that does not answer."""

    at_once: int = 5_000
    outlasts_outages: bool = False

    def write_batch(self, records: Sequence[Record]) -> bool:
        """Takes the next records, none while nothing comes. Returns whether all records so far have arrived where they belong."""


def follow(
    tail: Tail,
    sink: Sink,
    stopped: Event,
    save: Callable[[Tail], None] = lambda tail: None,
    forever: bool = True,
    poll_s: float = POLL_S,
) -> None:
    """Hands the records of a log to a sink until `stopped` is set; without `forever`, up to the end. `save`: stores the bookmark."""
    saved = tail.positions
    while not stopped.is_set():
        try:
            records = tail.records(sink.at_once)
        except ConnectionError as error:
            if not sink.outlasts_outages:
                raise
            print(f"trying again: {escape_control_characters(str(error))}", file=sys.stderr, flush=True)
            stopped.wait(AGAIN_S)
            continue
        print_expired(tail)
        if sink.write_batch(records) and saved != tail.positions:
            saved = tail.positions
            save(tail)
        if not records:
            if not forever:
                return
            stopped.wait(poll_s)
