"""What the benchmarks read: a finished file of payments, made once, and the rules."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from lab.engine.loop.filelogs import FileLogs
from lab.engine.records.feeds import BYTES_A_RECORD
from lab.logs.files import FileLog
from lab.model.listmessages import list_messages
from lab.model.messages import CONDITION
from lab.model.rules import MAX_ENTRIES, rule_message
from lab.model.times import DAY_MS
from lab.stream.simulate import START_MS, write_payments

AT_ONCE = 100_000  # events of an append
LISTED_FROM = 10**9  # the payees of events have smaller numbers


@dataclass(frozen=True)
class Payments:
    """A finished file of payments."""

    file: Path
    events: int

    @classmethod
    def make(
        cls, folder: Path, events: int, keys: int, span_ms: int = 40 * DAY_MS, rough: "Rough | None" = None
    ) -> "Payments":
        """`events` payments of `keys` payees to `keys` beneficiaries over `span_ms`: evenly and in order, or rough."""
        folder.mkdir(parents=True)
        file = folder / "payments.jsonl"
        if rough:
            rough.write(file, events, keys, span_ms)
        else:
            write_payments(file, events, 1, keys, keys, span_ms)
        return cls(file, events)

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


def rule(
    rule_id: int,
    keys: Sequence[str],
    window: str,
    limit: float,
    function: str = "SUM",
    filter: dict | None = None,
) -> str:
    """A control message about `paymentAmount`."""
    operator = "LESS" if function == "MIN" else "GREATER"
    return json.dumps(
        rule_message(rule_id, keys, "paymentAmount", function, operator, limit, window, filter=filter)
    )


@dataclass(frozen=True)
class Rough:
    """What real logs have and ordered ones hide: late events, hot keys, bursts, nulls. Each is a share of the events."""

    late: float = 0.03
    behind_ms: int = (
        60_000  # a late event is so much older at most, where the events before it are about as old
    )
    hot: float = 0.5  # of one key in a hundred
    bursts: float = 0.2  # of the same hundredth of the time
    nulls: float = 0.05

    def times(self, events: int, span_ms: int, rng: np.random.Generator) -> np.ndarray:
        """Event times in order of arrival."""
        share = rng.random(events)
        in_burst = rng.integers(0, 100, events) * 100 + 50 + rng.random(events)
        share = np.where(rng.random(events) < self.bursts, in_burst / 10_000, share)
        times = np.sort((share * span_ms).astype(np.int64))
        behind = rng.integers(1, self.behind_ms, events, endpoint=True)
        return START_MS + times - np.where(rng.random(events) < self.late, behind, 0)

    def keys(self, events: int, keys: int, rng: np.random.Generator) -> np.ndarray:
        hot = rng.random(events) < self.hot
        return np.where(hot, rng.integers(0, max(keys // 100, 1), events), rng.integers(0, keys, events))

    def write(self, path: Path, events: int, keys: int, span_ms: int) -> Path:
        """Payments as `write_payments` writes them, but rough."""
        rng = np.random.default_rng(1)
        columns = (
            np.arange(1, events + 1),
            self.times(events, span_ms, rng),
            self.keys(events, keys, rng),
            self.keys(events, keys, rng),
            np.array(["CSH", "CRD"])[rng.integers(0, 2, events)],
            np.where(rng.random(events) < self.nulls, "null", rng.integers(500, 2000, events) / 100),
        )
        line = (
            '{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":%d,"paymentType":"%s",'
            '"paymentAmount":%s}\n'
        )
        rows = zip(*(column.tolist() for column in columns))
        path.write_text("".join(line % row for row in rows))
        return path


PAIR, PAYEE, BENEFICIARY = ["payeeId", "beneficiaryId"], ["payeeId"], ["beneficiaryId"]

SumRule = tuple[list[str], str, int]  # keys, window, limit

# of 100k × 100k keys: a pair pays once or twice, a payee once in 4 days
THREE_RULES: tuple[SumRule, ...] = ((PAIR, "30d", 30), (PAYEE, "24h", 70), (BENEFICIARY, "60m", 50))


def three_rules() -> list[str]:
    """Three rules of three groupings; on 100k × 100k keys they fire now and then."""
    return messages(THREE_RULES)


def listed_rules() -> list[str]:
    """The three rules, of events whose payee is not in a list as long as one can be, which has none of them."""
    entries = [str(LISTED_FROM + number) for number in range(MAX_ENTRIES)]
    rules = (json.loads(text) | {"filter": "payeeId not in @closed"} for text in three_rules())
    return [*list_messages("closed", "add", entries), *map(json.dumps, rules)]


def same_window_rules(window: str) -> list[str]:
    """The same groupings, all with one window, and limits that are not reached."""
    return messages([(keys, window, 10**6) for keys in (PAIR, PAYEE, BENEFICIARY)])


def messages(rules: Sequence[SumRule]) -> list[str]:
    """The control messages of rules."""
    return [rule(number, *each) for number, each in enumerate(rules, 1)]


# and limits that are rarely reached
FUNCTIONS = {"SUM": 500, "AVG": 19.99, "MIN": 5.01, "MAX": 19.99, "COUNT": 20}


def hundred_rules() -> list[str]:
    """Twenty rules on each of five routes: five functions, four windows."""
    return _on_five_routes(100, FUNCTIONS)


def joined_rules(count: int) -> list[str]:
    """Rules of three conditions each, over the 100 different aggregates of `hundred_rules`: on each route any three of its twenty."""
    plain = [json.loads(text) for text in hundred_rules()]
    rules = []
    for number in range(count):
        turn, route = divmod(number, 5)
        first, apart = turn % 20, turn // 20 % 9
        places = (first, first + 1 + apart, first + 10 + apart)
        own, *others = (plain[20 * route + place % 20] for place in places)
        further = [{name: of[name] for name in CONDITION if name in of} for of in others]
        rules.append(json.dumps(own | {"ruleId": number + 1, "and": further}))
    return rules


def many_rules(count: int) -> list[str]:
    """Rules with 120 different aggregates on five routes, six functions and four windows; of an aggregate each has another limit."""
    return _on_five_routes(count, FUNCTIONS | {"STDDEV": 7.49})


def _on_five_routes(count: int, functions: dict[str, float]) -> list[str]:
    routes = (PAIR, PAYEE, BENEFICIARY, ["payeeId", "paymentType"], ["beneficiaryId", "paymentType"])
    kinds = [
        (keys, window, limit, function)
        for keys in routes
        for window in ("10m", "60m", "24h", "30d")
        for function, limit in functions.items()
    ]
    rules = []
    for number in range(count):
        turn, kind = divmod(number, len(kinds))
        keys, window, limit, function = kinds[kind]
        beyond = limit * (1 + turn / 1000) if function != "MIN" else limit / (1 + turn / 1000)
        rules.append(rule(number + 1, keys, window, round(beyond, 6), function))
    return rules
