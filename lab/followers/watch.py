"""`lab alerts`: the alerts of a running engine, as lines of text."""

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal

from lab.followers.alerttext import AbsenceRules, describe_alert
from lab.followers.bookmarks import load_bookmark, save_bookmark
from lab.logs.positions import Positions, position_text
from lab.logs.reading import POLL_S, SkippedLines, parse_records, print_expired
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert, Withdrawal, parse_alert_line
from lab.model.standing import Withdrawals
from lab.model.words import escape_control_characters
from lab.running.target import Target

AT_ONCE = 5_000  # alerts
READ_BACK = 10_000  # lines before the first; an attempt that was presumed dead delivers within minutes


def print_alerts(
    target: Target,
    follow: bool = False,
    start: Positions | Literal["saved"] | None = None,
    as_json: bool = False,
) -> None:
    """Prints the alerts of a log; with `follow`, those to come, as they come; with `start`, from a position on.

    `start="saved"`: from where the last such call ended.
    """
    log = target.logs.existing("alerts")
    saved = start == "saved"
    at = load_bookmark(log) if isinstance(start, str) else start
    new, left_out, withdrawals = follow and start is None, SkippedLines(), Withdrawals()
    with (
        stop_signals() as stopped,
        closing(log.tail(new, at)) as tail,
        closing(AbsenceRules(target)) as absences,
    ):
        for alert_or_withdrawal in lines_before(log, tail.positions):
            withdrawals.add_and_check_stands(alert_or_withdrawal)
        while not stopped.is_set():
            records = tail.records(AT_ONCE)
            print_expired(tail)
            for record, alert_or_withdrawal in parse_records(records, parse_alert_line, left_out):
                if withdrawals.add_and_check_stands(alert_or_withdrawal):
                    line = (
                        record.line
                        if as_json
                        else describe_alert(alert_or_withdrawal, absences.describe(alert_or_withdrawal))
                    )
                    print(escape_control_characters(line))
            sys.stdout.flush()
            if saved and records:
                save_bookmark(log, tail)
            if not records:
                if not follow:
                    break
                stopped.wait(POLL_S)
    if follow or start is not None or left_out.count:
        print(
            f"read up to {position_text(tail.positions)}{left_out}; --from with this position continues there",
            file=sys.stderr,
        )


def lines_before(log: Any, positions: Positions) -> Iterator[Alert | Withdrawal]:
    """The last lines of an alerts log before a position; they may withdraw alerts that come after it."""
    with closing(log.tail(at=log.earlier(positions, READ_BACK))) as tail:
        while records := tail.records(AT_ONCE, positions):
            yield from (line for _, line in parse_records(records, parse_alert_line, lambda *_: None))
