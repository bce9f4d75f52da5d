"""What `lab notify` sends: alerts to a program in signed requests, or to people in a short text."""

import hmac
import logging
import os
import re
import signal
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b, sha256
from threading import Event
from typing import Any, Protocol
from urllib.parse import urlsplit

from lab.followers.alerttext import AbsenceRules, describe_alert, sanitize_text
from lab.logs.config import BASE64_SECRET, AlertReceiver, BadConfig
from lab.model.alerts import Alert, Withdrawal
from lab.model.formatting import escape_control_characters

READ_AT_ONCE = 500  # alerts
MAX_BODY = 256 << 10  # bytes of a request; a longer alert travels alone
MAX_COUNTED = 100_000  # alerts that one text stands for
MAX_GROUPS, MAX_LINE = 10, 150  # groups that a text names, and characters for each: that fits every chat
ANSWER_S, STOP_S, CHECK_S = 10.0, 1.0, 0.1


class NotAccepted(Exception):
    """A target did not accept a message. The text gives the reason, and none of the target's secrets."""


class TooLarge(NotAccepted):
    """A target says that a request is too large (413)."""


class _Interrupted(BaseException):
    """Ends a request from a signal's handler. No `except Exception` on the way keeps it."""


@contextmanager
def time_limit(name: str, stopped: Event | None = None) -> Iterator[None]:
    """Raises NotAccepted if the block takes longer than ANSWER_S in all, or STOP_S after `stopped` is set. In the main thread only.

    The timeouts of sockets do not suffice: they begin anew with each byte.
    """
    seconds, deadline, is_over = ANSWER_S, time.monotonic() + ANSWER_S, False

    def check(*_: object) -> None:
        nonlocal deadline
        if is_over:
            return
        if stopped and stopped.is_set():
            deadline = min(deadline, time.monotonic() + STOP_S)
        if time.monotonic() > deadline:
            raise _Interrupted

    before = signal.signal(signal.SIGALRM, check)
    try:
        signal.setitimer(signal.ITIMER_REAL, CHECK_S, CHECK_S)
        yield
    except _Interrupted:
        raise NotAccepted(f"{name} does not answer within {seconds:g} s") from None
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _own_surroundings(proxy: str) -> Iterator[None]:
    """For apprise, which cannot be told: no passwords of the user's .netrc, and no proxy but this one."""
    before = dict(os.environ)
    names = [
        name for name in before if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    ]
    try:
        for name in names:
            del os.environ[name]
        os.environ["NETRC"] = os.devnull
        if proxy:
            os.environ["http_proxy"] = os.environ["https_proxy"] = proxy
        yield
    finally:
        for name in ("NETRC", "http_proxy", "https_proxy"):
            os.environ.pop(name, None)
        os.environ.update({name: before[name] for name in (*names, "NETRC") if name in before})


class Message(Protocol):
    """Alerts on their way to a receiver of lab.toml. A kind of receiver is a subclass in `KINDS`.

    `alert_count`: the lines that it stands for; `left_out`: those of them that the receiver can never take. `is_rare`: whether
    messages come no more often than lab.toml says, as to people.
    """

    is_rare: bool = False
    left_out: int = 0

    def __init__(self, receiver: AlertReceiver, absences: AbsenceRules | None = None): ...

    @classmethod
    def is_for(cls, receiver: AlertReceiver) -> bool:
        """Whether messages of this kind go to a receiver. Raises BadConfig if they would, but cannot."""

    @property
    def alert_count(self) -> int: ...

    @property
    def is_full(self) -> bool:
        """Whether no more lines should be added."""

    def add(self, alert: Alert | Withdrawal) -> None:
        """Adds a line."""

    def send(self, stopped: Event | None = None) -> None:
        """Raises NotAccepted, also soon after `stopped` is set; then all or some of it has to be sent again."""


class WebhookBatch(Message):
    """Alerts for a webhook: POST requests of `{"alerts": [...]}`, signed as Standard Webhooks says.

    The id of a request is a hash of its alerts' ids and log times, so that a request that is sent again can be recognised.

    >>> batch = WebhookBatch(AlertReceiver("audit", "https://example.com/alerts", webhook_secret="hush"))
    >>> batch.is_full, batch.alert_count
    (False, 0)
    """

    def __init__(self, receiver: AlertReceiver, absences: AbsenceRules | None = None):
        self._receiver, self._most = receiver, MAX_BODY
        self._alerts: list[tuple[str, int | None, str]] = []
        self.left_out = 0  # alerts that are too large for the target

    @classmethod
    def is_for(cls, receiver: AlertReceiver) -> bool:
        """One that has a secret to sign with."""
        return bool(receiver.webhook_secret)

    @property
    def alert_count(self) -> int:
        return len(self._alerts)

    @property
    def is_full(self) -> bool:
        return self.alert_count >= READ_AT_ONCE

    def add(self, alert: Alert | Withdrawal) -> None:
        line = alert.to_json()
        self._alerts.append((alert.alert_id if isinstance(alert, Alert) else line, alert.log_time, line))

    def send(self, stopped: Event | None = None) -> None:
        """Sends less at once to a target for which a request is too large. Raises NotAccepted, also soon after `stopped` is set."""
        while self._alerts:
            size = length = 0
            while size < self.alert_count and (not size or length + len(self._alerts[size][-1]) < self._most):
                length += len(self._alerts[size][-1]) + 1
                size += 1
            try:
                self._post(self._alerts[:size], stopped)
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

    def _post(self, alerts: list[tuple[str, int | None, str]], stopped: Event | None) -> None:
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
        proxy = self._receiver.proxy
        try:
            with requests.Session() as session, time_limit(str(host), stopped):
                # without this, the user's .netrc would be sent along, and variables would name a proxy
                session.trust_env = False
                # a redirect would hand the alerts to somebody whom lab.toml does not name
                with session.post(
                    self._receiver.url,
                    body,
                    headers=headers,
                    timeout=ANSWER_S,
                    allow_redirects=False,
                    stream=True,
                    proxies={"http": proxy, "https": proxy} if proxy else None,
                    verify=os.environ.get("REQUESTS_CA_BUNDLE") or True,
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


class TextBatch(Message):
    """Alerts for people: how many came, and the latest of each group, at most ten groups. `absences`: to say what did not come.

    >>> alert = Alert.from_json(
    ...     '{"ruleId":1,"ruleVersion":2,"key":"{host=@all http://x}","group":{"host":"@all http://x"},"aggregate":"51",'
    ...     '"operator":"GREATER","limit":"50",'
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

    is_rare = True

    def __init__(self, receiver: AlertReceiver, absences: AbsenceRules | None = None):
        self._receiver, self._count = receiver, 0
        self._withdrawals = 0  # of the lines that `alert_count` counts
        self._absences = absences
        # by group: the latest ten with their latest alert, of the others the number alone
        self._named: dict[bytes, tuple[int, Alert | Withdrawal]] = {}
        self._others: dict[bytes, int] = {}

    @classmethod
    def is_for(cls, receiver: AlertReceiver) -> bool:
        """Any whose URL apprise knows."""
        import apprise

        logging.getLogger("apprise").propagate = False
        if apprise.Apprise.instantiate(receiver.url) is None:
            raise BadConfig(
                f"notify.{receiver.name}.url: not a URL that apprise knows, expected one such as slack://… or mailtos://…"
            )
        return True

    @property
    def alert_count(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        return self.alert_count >= MAX_COUNTED

    def add(self, alert: Alert | Withdrawal) -> None:
        self._count += 1
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

    def send(self, stopped: Event | None = None) -> None:
        """Raises NotAccepted, also soon after `stopped` is set."""
        import apprise
        from apprise.logger import LogCapture

        asset = apprise.AppriseAsset(
            app_id="lab", app_desc="alerts", app_url="", secure_logging=True, http_redirects=False
        )
        service: Any = apprise.Apprise.instantiate(self._receiver.url, asset=asset)
        title, body = self.title_and_body()
        limit = time_limit(service.service_name, stopped)
        with LogCapture(level=logging.WARNING) as log, _own_surroundings(self._receiver.proxy), limit:
            accepted = service.notify(body, title=title, body_format=apprise.NotifyFormat.TEXT)
            status = re.search(r"error=(\d+)", log.getvalue())
        if not accepted:
            reason = f"answered {status[1]}" if status else "did not accept it"
            raise NotAccepted(f"{service.service_name} {reason}")


# the first that is for a receiver sends to it
KINDS: list[type[Message]] = [WebhookBatch, TextBatch]


def message_kind(receiver: AlertReceiver) -> type[Message]:
    """The kind of messages that go to a receiver. Raises BadConfig."""
    return next(kind for kind in KINDS if kind.is_for(receiver))
