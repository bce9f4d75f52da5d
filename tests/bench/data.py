"""What the benchmarks read: payments cut into segments once, and the rules."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lab.logs.files import FileLog
from lab.stream.simulate import DAY_MS, write_payments

SEGMENT = 100_000  # events


@dataclass(frozen=True)
class Payments:
    """A finished file of payments, and the same payments as segments of a log that is not live."""

    file: Path
    segments: tuple[Path, ...]
    events: int

    @classmethod
    def make(
        cls, folder: Path, events: int, keys: int, span_ms: int = 40 * DAY_MS, segment: int = SEGMENT
    ) -> "Payments":
        """`events` payments of `keys` payees to `keys` beneficiaries, spread evenly over `span_ms`."""
        folder.mkdir(parents=True)
        file = write_payments(folder / "payments.jsonl", events, 1, keys, keys, span_ms)
        log = FileLog(folder / "segments")
        with file.open("rb") as lines:
            for number in range(-(-events // segment)):
                log.put(number, islice(lines, segment))
        return cls(file, tuple(log.segments()), events)

    def link_into(self, log: FileLog) -> None:
        """Makes them a log's segments without copying; Spark takes files in order of their modification time."""
        for number, path in enumerate(self.segments):
            os.utime(path, (1_000_000_000 + number,) * 2)
            os.link(path, log.folder / path.name)


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
