"""What the benchmarks read: a finished file of payments, made once, and the rules."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lab.engine.ends import FileLogs
from lab.engine.feeds import BYTES_A_RECORD
from lab.logs.files import FileLog
from lab.stream.simulate import DAY_MS, write_payments

AT_ONCE = 100_000  # events of an append


@dataclass(frozen=True)
class Payments:
    """A finished file of payments."""

    file: Path
    events: int

    @classmethod
    def make(cls, folder: Path, events: int, keys: int, span_ms: int = 40 * DAY_MS) -> "Payments":
        """`events` payments of `keys` payees to `keys` beneficiaries, spread evenly over `span_ms`."""
        folder.mkdir(parents=True)
        return cls(write_payments(folder / "payments.jsonl", events, 1, keys, keys, span_ms), events)

    def parts(self, size: int) -> Iterator[list[bytes]]:
        """The lines, `size` at a time."""
        with self.file.open("rb") as lines:
            while part := list(islice(lines, size)):
                yield part

    def append_to(self, log: FileLog) -> None:
        """Writes them to a log, all with one log time: so they are cut by size alone."""
        for part in self.parts(AT_ONCE):
            log.append(part, log_time_ms=0)

    def per_batch(self, batches: int) -> int:
        """The `max_batch_records` that makes so many micro-batches of them."""
        return -(-self.file.stat().st_size // (batches * BYTES_A_RECORD))


def logs_of(folder: Path, payments: Payments, rules: Sequence[str]) -> FileLogs:
    """Logs that hold the payments, all rules in force before the first."""
    logs = FileLogs(folder)
    logs.log("control").append(rules, log_time_ms=0)  # control is first among equal log times
    payments.append_to(logs.log("events"))
    return logs


def rule(rule_id: int, keys: Sequence[str], window: str, limit: float, function: str = "SUM") -> str:
    """A control message about `paymentAmount`."""
    return json.dumps(
        {
            "ruleId": rule_id,
            "ruleState": "ACTIVE",
            "groupingKeyNames": keys,
            "aggregateFieldName": "paymentAmount",
            "aggregatorFunctionType": function,
            "limitOperatorType": "LESS" if function == "MIN" else "GREATER",
            "limit": limit,
            "window": window,
        }
    )


PAIR, PAYEE, BENEFICIARY = ["payeeId", "beneficiaryId"], ["payeeId"], ["beneficiaryId"]

# (keys, window, limit) of 100k × 100k keys: a pair pays once or twice, a payee once in 4 days
THREE_RULES = ((PAIR, "30d", 30), (PAYEE, "24h", 70), (BENEFICIARY, "60m", 50))


def three_rules() -> list[str]:
    """Three rules of three groupings; on 100k × 100k keys they fire now and then."""
    return [rule(number, *each) for number, each in enumerate(THREE_RULES, 1)]


def same_window_rules(window: str) -> list[str]:
    """The same groupings, all with one window, and limits that are not reached."""
    return [rule(number, keys, window, 10**6) for number, keys in enumerate((PAIR, PAYEE, BENEFICIARY), 1)]


def hundred_rules() -> list[str]:
    """Twenty rules on each of five routes: five functions, four windows."""
    routes = (PAIR, PAYEE, BENEFICIARY, ["payeeId", "paymentType"], ["beneficiaryId", "paymentType"])
    functions = {"SUM": 500, "AVG": 19.99, "MIN": 5.01, "MAX": 19.99, "COUNT": 20}
    kinds = [
        (keys, window, limit, function)
        for keys in routes
        for window in ("10m", "60m", "24h", "30d")
        for function, limit in functions.items()
    ]
    return [rule(number, *kind) for number, kind in enumerate(kinds, 1)]
