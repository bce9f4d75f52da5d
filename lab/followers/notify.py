"""`lab notify`: sends alerts to people and programs, each at least once and in order.

    alerts ──► all that came since the last message ──► one message ──► accepted? ──► position saved
                                                              ▲             │ no
                                                              └── wait ◄────┘

A target of lab.toml with a `secret` is a webhook: a program that gets every alert as JSON, in requests signed as the
Standard Webhooks specification says. Any other target is a person: a short text through apprise, by chat, mail and the like.
"""

import logging
import sys
import time
from contextlib import AbstractContextManager, closing
from threading import Event
from typing import Any

from lab.followers.alertmessages import READ_AT_ONCE, NotAccepted, TextBatch, WebhookBatch
from lab.followers.alerttext import AbsenceRules
from lab.followers.bookmarks import bookmark_file, load_bookmark, save_bookmark
from lab.followers.watch import lines_before
from lab.logs.access import file_lock, make_folder
from lab.logs.config import AlertReceiver, BadConfig, Config
from lab.logs.positions import Positions
from lab.logs.reading import POLL_S, SkippedLines, parse_records, print_expired
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert, Withdrawal, parse_alert_line
from lab.model.standing import AT_MOST, Withdrawals, event_and_group_hash
from lab.model.words import escape_control_characters
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
    reader, left_out, sent, too_large = f"notify {receiver.name}", SkippedLines(), 0, 0
    lines = ReceiverFilter(receiver.rule_ids)
    with _alone(log, reader), stop_signals() as stopped, closing(AbsenceRules(target)) as absences:
        at = start or load_bookmark(log, reader)
        with closing(log.tail(at is None, at)) as tail:
            for line in lines_before(log, tail.positions):
                lines.note_before(line, sent=at is not None)
            save_bookmark(log, tail, reader)
            print(
                f"alerts of {log} go to {escape_control_characters(receiver.name)}, until Ctrl-C",
                file=sys.stderr,
                flush=True,
            )
            while not stopped.is_set():
                batch = WebhookBatch(receiver) if receiver.webhook_secret else TextBatch(receiver, absences)
                interval_s = 0 if receiver.webhook_secret else receiver.min_interval_ms / 1000
                if not _collected(tail, batch, lines, left_out, stopped, max(interval_s, COLLECT_S)):
                    break
                count = batch.alert_count
                if count and not _delivered(batch, receiver, stopped):
                    break
                sent += count - batch.left_out
                too_large += batch.left_out
                save_bookmark(log, tail, reader)
                stopped.wait(interval_s if count and interval_s else POLL_S)
    refused = f", {too_large:,} too large for it" if too_large else ""
    name = escape_control_characters(receiver.name)
    print(f"{sent:,} alerts sent to {name}{left_out}{refused}", file=sys.stderr)


def find_receiver(name: str, config: Config) -> AlertReceiver:
    """The receiver of a name in lab.toml. Raises Usage if that file lacks it, BadConfig."""
    if name not in config.receivers:
        there = f"it has {', '.join(sorted(config.receivers))}" if config.receivers else "it has none"
        raise Usage(f"--to: {name}, expected a target of lab.toml, a table [notify.NAME]; {there}")
    receiver = config.receivers[name]
    logging.getLogger("apprise").propagate = False
    if not receiver.webhook_secret:
        import apprise

        if apprise.Apprise.instantiate(receiver.url) is None:
            raise BadConfig(
                f"notify.{name}.url: not a URL that apprise knows, expected one such as slack://… or mailtos://…"
            )
    return receiver


def _alone(log: Any, reader: str) -> AbstractContextManager[None]:
    """Raises Usage if another process sends the same alerts to the same target."""
    file = bookmark_file(log, reader).with_suffix(".lock")
    make_folder(file.parent)
    command = f"lab {reader.replace(' ', ' --to ')}"
    return file_lock(file, Usage(f"another `{command}` already sends the alerts of {log}"))


def _collected(
    tail: Any,
    batch: "WebhookBatch | TextBatch",
    lines: ReceiverFilter,
    left_out: SkippedLines,
    stopped: Event,
    at_most_s: float,
) -> bool:
    """Collects the alerts since the last message, until there is a pause or for a time. Returns False if asked to stop."""
    deadline = time.monotonic() + at_most_s
    while not stopped.is_set():
        try:
            records = tail.records(READ_AT_ONCE)
        except ConnectionError as error:
            print(f"trying again: {escape_control_characters(str(error))}", file=sys.stderr, flush=True)
            stopped.wait(1)
            continue
        print_expired(tail)
        for _, line in parse_records(records, parse_alert_line, left_out):
            if lines.gets(line):
                batch.add(line)
        if not records or batch.is_full or time.monotonic() > deadline:
            return True
    return False


def _delivered(batch: "WebhookBatch | TextBatch", receiver: AlertReceiver, stopped: Event) -> bool:
    """Retries until the target accepts. Returns False if asked to stop first."""
    wait_s = 1
    while True:
        try:
            batch.send(stopped)
            return True
        except NotAccepted as error:
            if stopped.is_set():
                return False
            said = f"{receiver.name}: {error}; the alerts are kept, trying again in {wait_s} s"
            print(escape_control_characters(said), file=sys.stderr, flush=True)
        if stopped.wait(wait_s):
            return False
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
