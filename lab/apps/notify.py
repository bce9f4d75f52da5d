"""`lab notify`: sends alerts to people and programs, each at least once and in order.

    alerts ──► all that came since the last message ──► one message ──► accepted? ──► position saved
                                                              ▲             │ no
                                                              └── wait ◄────┘

A target of lab.toml with a `secret` is a webhook: a program that gets every alert as JSON, in requests signed as the
Standard Webhooks specification says. Any other target is a person: a short text through apprise, by chat, mail and the like.
"""

import hmac
import logging
import re
import sys
import time
from base64 import b64decode, b64encode
from contextlib import AbstractContextManager, closing
from hashlib import blake2b, sha256
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from lab.apps.alerttext import AbsenceRules, describe_alert, sanitize_text
from lab.apps.bookmarks import bookmark_file, load_bookmark, save_bookmark
from lab.apps.run import POLL_S
from lab.apps.target import Target, Usage, open_existing_log
from lab.apps.watch import lines_before
from lab.logs.access import file_lock, make_folder
from lab.logs.config import BASE64_SECRET, AlertReceiver, BadConfig, Config
from lab.logs.positions import Positions
from lab.logs.reading import SkippedLines, parse_records, print_expired
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert, Withdrawal, parse_alert_line
from lab.model.standing import AT_MOST, Withdrawals, event_and_group_hash
from lab.model.words import escape_control_characters

READ_AT_ONCE = 500  # alerts
MAX_BODY = 256 << 10  # bytes of a request; a longer alert travels alone
MAX_COUNTED = 100_000  # alerts that one text stands for
MAX_GROUPS, MAX_LINE = 10, 150  # groups that a text names, and characters for each: that fits every chat
ANSWER_S, LONGEST_WAIT_S = 10, 300
COLLECT_S = 1.0  # how long a webhook's alerts are collected while more come without a pause


class NotAccepted(Exception):
    """A target did not accept a message. The text gives the reason, and none of the target's secrets."""


class TooLarge(NotAccepted):
    """A target says that a request is too large (413)."""


class WebhookBatch:
    """Alerts for a webhook: POST requests of `{"alerts": [...]}`, signed as Standard Webhooks says.

    The id of a request is a hash of its alerts' ids and log times, so that a request that is sent again can be recognised.

    >>> batch = WebhookBatch(AlertReceiver("audit", "https://example.com/alerts", webhook_secret="hush"))
    >>> batch.is_full, batch.alert_count
    (False, 0)
    """

    def __init__(self, receiver: AlertReceiver):
        self._receiver, self._alerts, self._most = receiver, [], MAX_BODY
        self.left_out = 0  # alerts that are too large for the target

    @property
    def alert_count(self) -> int:
        return len(self._alerts)

    @property
    def is_full(self) -> bool:
        return self.alert_count >= READ_AT_ONCE

    def add(self, alert: Alert | Withdrawal) -> None:
        line = alert.to_json()
        self._alerts.append((alert.alert_id if isinstance(alert, Alert) else line, alert.log_time, line))

    def send(self) -> None:
        """Sends less at once to a target for which a request is too large. Raises NotAccepted."""
        while self._alerts:
            size = length = 0
            while size < self.alert_count and (not size or length + len(self._alerts[size][-1]) < self._most):
                length += len(self._alerts[size][-1]) + 1
                size += 1
            try:
                self._post(self._alerts[:size])
            except TooLarge as error:
                if size > 1:
                    self._most = length // 2
                    continue
                # it would be refused for ever, and nothing behind it would arrive
                self.left_out += 1
                print(
                    escape_control_characters(f"left out: alert {self._alerts[0][0]}: {error}"),
                    file=sys.stderr,
                    flush=True,
                )
            del self._alerts[:size]

    def _post(self, alerts: list[tuple[str, int | None, str]]) -> None:
        import requests

        # an alert that was withdrawn may come again, at an event that was logged later
        ids = "\n".join(f"{alert_id} {log_time}" for alert_id, log_time, _ in alerts)
        message_id, now = blake2b(ids.encode(), digest_size=16).hexdigest(), str(int(time.time()))
        body = f'{{"alerts":[{",".join(line for *_, line in alerts)}]}}'.encode()
        headers = {
            "content-type": "application/json",
            "webhook-id": message_id,
            "webhook-timestamp": now,
            "webhook-signature": webhook_signature(self._receiver.webhook_secret, message_id, now, body),
        }
        host = urlsplit(self._receiver.url).hostname
        try:
            # a redirect would hand the alerts to somebody whom lab.toml does not name
            with requests.post(
                self._receiver.url,
                body,
                headers=headers,
                timeout=ANSWER_S,
                allow_redirects=False,
                stream=True,
            ) as answer:
                status = answer.status_code
        except requests.RequestException as error:
            raise NotAccepted(f"{host} does not answer ({type(error).__name__})") from None
        if status == 413:
            raise TooLarge(f"{host} answered 413 to a request of {len(body):,} bytes")
        if not 200 <= status < 300:
            raise NotAccepted(f"{host} answered {status}, expected 2xx")


def webhook_signature(secret: str, message_id: str, timestamp: str, body: bytes) -> str:
    """The header `webhook-signature`. A secret that begins with `whsec_` is base64, as the specification writes it.

    Source: the Standard Webhooks specification 1.0.

    >>> webhook_signature("hush", "7f", "1356998400", b"{}")
    'v1,QmX0f6p2L8lJzY9VGwy0u0X9wX/AQ45qK8iA2MCj5E0='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    is_base64 = secret.startswith(BASE64_SECRET)
    key = b64decode(secret.removeprefix(BASE64_SECRET)) if is_base64 else secret.encode()
    return "v1," + b64encode(hmac.digest(key, signed, sha256)).decode()


class TextBatch:
    """Alerts for people: how many came, and the latest of each group, at most ten groups. `absences`: to say what did not come.

    >>> alert = Alert.from_json(
    ...     '{"ruleId":1,"ruleVersion":2,"key":"{host=@all http://x}","aggregate":"51","operator":"GREATER","limit":"50",'
    ...     '"eventId":7,"eventTime":0}'
    ... )
    >>> batch = TextBatch(AlertReceiver("oncall", "slack://…"))
    >>> for _ in range(2):
    ...     batch.add(alert)
    >>> title, text = batch.title_and_body()
    >>> title
    '2 alerts of 1 group'
    >>> print(text.replace("\u200b", "|"))
    2 alerts: 1970-01-01 00:00:00.000  rule 1 v2  {host=@|all http:|//x}  51 GREATER 50  event 7
    """

    def __init__(self, receiver: AlertReceiver, absences: AbsenceRules | None = None):
        self._receiver, self.alert_count, self.left_out = receiver, 0, 0
        self._withdrawals = 0  # of the lines that `alert_count` counts
        self._absences = absences
        # by group: the latest ten with their latest alert, of the others the number alone
        self._named: dict[bytes, tuple[int, Alert | Withdrawal]] = {}
        self._others: dict[bytes, int] = {}

    @property
    def is_full(self) -> bool:
        return self.alert_count >= MAX_COUNTED

    def add(self, alert: Alert | Withdrawal) -> None:
        self.alert_count += 1
        self._withdrawals += isinstance(alert, Withdrawal)
        kind, rule = ("a", alert.rule_id) if isinstance(alert, Alert) else ("w", "")
        group = kind.encode() + blake2b(f"{rule} {alert.key}".encode(), digest_size=16).digest()
        before, _ = self._named.pop(group, (self._others.pop(group, 0), alert))
        self._named[group] = before + 1, alert
        if len(self._named) > MAX_GROUPS:
            oldest = next(iter(self._named))
            self._others[oldest], _ = self._named.pop(oldest)

    def title_and_body(self) -> tuple[str, str]:
        """Title and body."""
        lines = [
            f"{count:,} {'alert' if isinstance(latest, Alert) else 'event'}{'s' * (count > 1)}: {describe_alert(latest, self._nothing_came(latest), sanitize_text, MAX_LINE)}"
            for count, latest in reversed(self._named.values())
        ]
        if self._others:
            lines.append(f"and {sum(self._others.values()):,} of {len(self._others):,} other groups")
        alerts, events = self.alert_count - self._withdrawals, self._withdrawals
        groups = sum(group.startswith(b"a") for group in (*self._named, *self._others))
        came = f"{alerts:,} alert{'s' * (alerts > 1)} of {groups:,} group{'s' * (groups > 1)}"
        withdrawn = f"alerts of {events:,} event{'s' * (events > 1)} withdrawn"
        return ", ".join([came] * (alerts > 0) + [withdrawn] * (events > 0)), "\n".join(lines)

    def _nothing_came(self, alert: Alert | Withdrawal) -> str:
        return self._absences.describe(alert) if self._absences else ""

    def send(self) -> None:
        """Raises NotAccepted."""
        import apprise
        from apprise.logger import LogCapture

        asset = apprise.AppriseAsset(
            app_id="lab", app_desc="alerts", app_url="", secure_logging=True, http_redirects=False
        )
        service: Any = apprise.Apprise.instantiate(self._receiver.url, asset=asset)
        title, body = self.title_and_body()
        with LogCapture(level=logging.WARNING) as log:
            accepted = service.notify(body, title=title, body_format=apprise.NotifyFormat.TEXT)
            status = re.search(r"error=(\d+)", log.getvalue())
        if not accepted:
            reason = f"answered {status[1]}" if status else "did not accept it"
            raise NotAccepted(f"{service.service_name} {reason}")


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
    log = open_existing_log(target.logs, "alerts")
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
            batch.send()
            return True
        except NotAccepted as error:
            said = f"{receiver.name}: {error}; the alerts are kept, trying again in {wait_s} s"
            print(escape_control_characters(said), file=sys.stderr, flush=True)
        if stopped.wait(wait_s):
            return False
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
