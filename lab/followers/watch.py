"""`lab alerts`: the alerts of a running engine, as lines of text."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Literal

from lab.followers.alerttext import AbsenceRules, describe_alert
from lab.followers.bookmarks import load_bookmark, save_bookmark
from lab.logs import following
from lab.logs.following import Sink
from lab.logs.positions import Positions, Record, position_text
from lab.logs.protocol import Log
from lab.logs.reading import SkippedLines, parse_records
from lab.machine.signals import stop_signals
from lab.model.alerts import Alert, Withdrawal, Withdrawals, parse_alert_line
from lab.model.formatting import escape_control_characters
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
    with (
        stop_signals() as stopped,
        closing(log.tail(follow and start is None, at)) as tail,
        closing(AbsenceRules(target)) as absences,
    ):
        printer = AlertPrinter(absences, as_json)
        for line in lines_before(log, tail.positions):
            printer.withdrawals.add_and_check_stands(line)
        following.follow(
            tail, printer, stopped, partial(save_bookmark, log) if saved else lambda tail: None, follow
        )
    if follow or start is not None or printer.left_out.count:
        print(
            f"read up to {position_text(tail.positions)}{printer.left_out}; --from with this position continues there",
            file=sys.stderr,
        )


class AlertPrinter(Sink):
    """Prints alerts to stdout, those that stand and lines that withdraw some."""

    def __init__(self, absences: AbsenceRules, as_json: bool):
        self._absences, self._as_json = absences, as_json
        self.left_out, self.withdrawals = SkippedLines(), Withdrawals()

    def write_batch(self, records: Sequence[Record]) -> bool:
        """Prints the lines."""
        for record, line in parse_records(records, parse_alert_line, self.left_out):
            if self.withdrawals.add_and_check_stands(line):
                text = record.line if self._as_json else describe_alert(line, self._absences.describe(line))
                print(escape_control_characters(text))
        sys.stdout.flush()
        return True


def lines_before(log: Log, positions: Positions) -> Iterator[Alert | Withdrawal]:
    """The last lines of an alerts log before a position; they may withdraw alerts that come after it."""
    with closing(log.tail(at=log.earlier(positions, READ_BACK))) as tail:
        while records := tail.records(AT_ONCE, positions):
            yield from (line for _, line in parse_records(records, parse_alert_line, lambda *_: None))
