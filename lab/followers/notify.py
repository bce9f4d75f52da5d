"""`lab notify`: sends alerts to people and programs, each at least once and in order.

    alerts ──► all that came since the last message ──► one message ──► accepted? ──► position saved
                                                              ▲             │ no
                                                              └── wait ◄────┘

A target of lab.toml with a `secret` is a webhook: a program that gets every alert as JSON, in requests signed as the
Standard Webhooks specification says. Any other target is a person: a short text through apprise, by chat, mail and the like.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from threading import Event

from lab.followers.alertmessages import READ_AT_ONCE, Message, NotAccepted, message_kind
from lab.followers.alerttext import AbsenceRules
from lab.followers.bookmarks import bookmark_file, load_bookmark, save_bookmark
from lab.followers.watch import lines_before
from lab.logs.access import file_lock, make_folder
from lab.logs.config import AlertReceiver, Config
from lab.logs.following import Sink, follow
from lab.logs.positions import Positions, Record
from lab.logs.protocol import Log
from lab.logs.reading import SkippedLines, parse_records
from lab.machine.signals import stop_signals
from lab.model.alerts import AT_MOST, Alert, Withdrawal, Withdrawals, event_and_group_hash, parse_alert_line
from lab.model.formatting import escape_control_characters
from lab.running.target import Target, Usage

LONGEST_WAIT_S = 300
COLLECT_S = 1.0  # how long a webhook's alerts are collected while more come without a pause


class ReceiverFilter:
    """Decides which lines of an alerts log a receiver gets: valid alerts of the given rules (of all rules if none are given), and their withdrawals.

    A receiver does not get a withdrawal if it got none of the withdrawn alerts, as far as the newest `at_most` events tell.
    """

    def __init__(self, rules: tuple[int, ...], at_most: int = AT_MOST):
        self._rules, self._at_most, self._withdrawals = rules, at_most, Withdrawals(at_most)
        # the hash of an event and its group -> whether it got an alert there
        self._got_alert: dict[bytes, bool] = {}

    def gets(self, line: Alert | Withdrawal) -> bool:
        """Notes the next line, and returns whether the receiver gets it."""
        return self.note_before(line, sent=True)

    def note_before(self, line: Alert | Withdrawal, sent: bool) -> bool:
        """Notes a line before the first one to send; `sent`: an earlier call has sent it if the receiver wanted it."""
        at = event_and_group_hash(line)
        stands = self._withdrawals.add_and_check_stands(line)
        if isinstance(line, Withdrawal):
            return self._got_alert.get(at, True)
        wanted = stands and (not self._rules or line.rule_id in self._rules)
        self._got_alert[at] = self._got_alert.pop(at, False) or (wanted and sent)
        if len(self._got_alert) > self._at_most:
            del self._got_alert[next(iter(self._got_alert))]
        return wanted


def notify(target: Target, receiver: AlertReceiver, start: Positions | None = None) -> None:
    """Sends the alerts of a log to one receiver until a signal.

    `start`: a position in the alerts; without it, where the last call for this receiver ended, and at first the end.
    """
    log = target.logs.existing("alerts")
    reader = f"notify {receiver.name}"
    with _alone(log, reader), stop_signals() as stopped, closing(AbsenceRules(target)) as absences:
        at = start or load_bookmark(log, reader)
        messages = Messages(receiver, absences, stopped)
        with closing(log.tail(at is None, at)) as tail:
            for line in lines_before(log, tail.positions):
                messages.lines.note_before(line, sent=at is not None)
            save_bookmark(log, tail, reader)
            print(
                f"alerts of {log} go to {escape_control_characters(receiver.name)}, until Ctrl-C",
                file=sys.stderr,
                flush=True,
            )
            follow(tail, messages, stopped, partial(save_bookmark, log, reader=reader))
    refused = f", {messages.too_large:,} too large for it" if messages.too_large else ""
    name = escape_control_characters(receiver.name)
    print(f"{messages.sent:,} alerts sent to {name}{messages.left_out}{refused}", file=sys.stderr)


class Messages(Sink):
    """Sends alerts to one receiver, in messages of what comes until there is a pause, or for a time."""

    at_once = READ_AT_ONCE
    outlasts_outages = True

    def __init__(
        self, receiver: AlertReceiver, absences: AbsenceRules, stopped: Event, collect_s: float = COLLECT_S
    ):
        self._kind = message_kind(receiver)
        self._receiver, self._absences, self._stopped = receiver, absences, stopped
        self._interval_s = receiver.min_interval_ms / 1000 if self._kind.is_rare else 0
        self._collect_s = max(self._interval_s, collect_s)
        self.lines, self.left_out = ReceiverFilter(receiver.rule_ids), SkippedLines()
        self.sent = self.too_large = 0
        self._begin()

    def _begin(self) -> None:
        self._message = self._kind(self._receiver, self._absences)
        self._deadline = time.monotonic() + self._collect_s

    def write_batch(self, records: Sequence[Record]) -> bool:
        """Adds the lines that the receiver gets to the message, and sends it when it is due, until the receiver accepts it."""
        message = self._message
        for _, line in parse_records(records, parse_alert_line, self.left_out):
            if self.lines.gets(line):
                message.add(line)
        if records and not message.is_full and time.monotonic() < self._deadline:
            return False
        if count := message.alert_count:
            if not self._deliver(message):
                return False
            self.sent += count - message.left_out
            self.too_large += message.left_out
            self._stopped.wait(self._interval_s)
        self._begin()
        return True

    def _deliver(self, message: Message) -> bool:
        """Retries until the target accepts. Returns False if asked to stop first."""
        wait_s = 1
        while True:
            try:
                message.send(self._stopped)
                return True
            except NotAccepted as error:
                if self._stopped.is_set():
                    return False
                said = f"{self._receiver.name}: {error}; the alerts are kept, trying again in {wait_s} s"
                print(escape_control_characters(said), file=sys.stderr, flush=True)
            if self._stopped.wait(wait_s):
                return False
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def find_receiver(name: str, config: Config) -> AlertReceiver:
    """The receiver of a name in lab.toml. Raises Usage if that file lacks it, BadConfig."""
    if name not in config.receivers:
        there = f"it has {', '.join(sorted(config.receivers))}" if config.receivers else "it has none"
        raise Usage(f"--to: {name}, expected a target of lab.toml, a table [notify.NAME]; {there}")
    message_kind(config.receivers[name])
    return config.receivers[name]


def _alone(log: Log, reader: str) -> AbstractContextManager[bool]:
    """Raises Usage if another process sends the same alerts to the same target."""
    file = bookmark_file(log, reader).with_suffix(".lock")
    make_folder(file.parent)
    command = f"lab {reader.replace(' ', ' --to ')}"
    return file_lock(file, Usage(f"another `{command}` already sends the alerts of {log}"))
