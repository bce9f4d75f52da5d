"""The batch limit: the same rules as SQL windows of DuckDB over the finished file."""

import time
from collections.abc import Sequence
from pathlib import Path

import duckdb

from tools.bench.data import THREE_RULES, Payments, SumRule

COLUMNS = {
    "transactionId": "BIGINT",
    "eventTime": "BIGINT",
    "payeeId": "BIGINT",
    "beneficiaryId": "BIGINT",
    "paymentAmount": "DECIMAL(18,2)",
}
UNITS = {"d": "DAYS", "h": "HOURS", "m": "MINUTES"}


def query(source: str, rules: Sequence[SumRule] = THREE_RULES) -> str:
    """One row for each alert of rules: a rule's number, the event, the sum. `source`: SQL of the payments."""
    sums, alerts = [], []
    for number, (keys, window, limit) in enumerate(rules, 1):
        interval = f"INTERVAL {window[:-1]} {UNITS[window[-1]]}"
        sums.append(
            f"SUM(paymentAmount) OVER (PARTITION BY {', '.join(keys)} ORDER BY epoch_ms(eventTime) "
            f"RANGE BETWEEN {interval} PRECEDING AND CURRENT ROW) AS sum{number}"
        )
        alerts.append(f"SELECT {number}, transactionId, sum{number} FROM sums WHERE sum{number} > {limit}")
    return f"WITH sums AS MATERIALIZED (SELECT transactionId, {', '.join(sums)} FROM {source}) {' UNION ALL '.join(alerts)}"


def read(payments: Payments) -> str:
    return f"read_json('{payments.file}', format = 'newline_delimited', columns = {COLUMNS})"


def duckdb_seconds(payments: Payments, threads: int = 2) -> tuple[float, int]:
    """How long DuckDB takes, reading the file included, and how many alerts it finds."""
    with duckdb.connect(config={"threads": threads}) as connection:
        started = time.perf_counter()
        found = connection.execute(query(read(payments))).fetchall()
        return time.perf_counter() - started, len(found)


def alerts_of(
    payments: Payments, rules: Sequence[SumRule], folder: Path, memory_bytes: int
) -> set[tuple[int, int]]:
    """(a rule's number, the event) of each alert, one rule at a time; what finds no room in memory goes to a folder."""
    found = set[tuple[int, int]]()
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 2,
        "memory_limit": f"{memory_bytes >> 20}MB",
        "temp_directory": str(folder),
        "preserve_insertion_order": False,
    }
    with duckdb.connect(config=config) as connection:
        connection.execute(f"CREATE TEMP TABLE payments AS SELECT * FROM {read(payments)}")
        for number, each in enumerate(rules, 1):
            rows = connection.execute(query("payments", [each])).fetchall()
            found.update((number, event) for _, event, _ in rows)
    return found
