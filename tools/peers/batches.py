"""The peers that need the finished file: SQL windows of DuckDB, rolling sums of Polars. Reading it counts."""

import time

import duckdb
import polars as pl

from tools.bench.data import Payments
from tools.bench.limit import query, read
from tools.peers.data import RULES, Answer, Case

THREADS = 2
CENTS = 100


def by_duckdb(payments: Payments) -> Answer:
    clean = f"(SELECT DISTINCT * FROM {read(payments)} WHERE paymentAmount IS NOT NULL)"
    with duckdb.connect(config={"threads": THREADS}) as connection:
        started = time.perf_counter()
        found = connection.execute(query(clean)).fetchall()
        seconds = time.perf_counter() - started
    return Answer({Case(rule, event) for rule, event, _ in found}, seconds, payments.events)


def by_polars(payments: Payments) -> Answer:
    started = time.perf_counter()
    schema = dict.fromkeys(("transactionId", "eventTime", "payeeId", "beneficiaryId"), pl.Int64)
    lines = pl.scan_ndjson(payments.file, schema=schema | {"paymentAmount": pl.Float64})
    events = lines.drop_nulls("paymentAmount").unique().sort("eventTime")
    at = pl.from_epoch("eventTime", "ms").alias("at")
    events = events.with_columns(at, cents=(pl.col("paymentAmount") * CENTS).round().cast(pl.Int64))
    sums = [
        pl.col("cents").rolling_sum_by("at", f"{window_ms}ms", closed="both").over(keys).alias(str(number))
        for number, keys, window_ms, _ in RULES
    ]
    sums_of = events.select("transactionId", *sums).collect()
    found = {
        Case(number, event)
        for number, _, _, limit in RULES
        for event in sums_of.filter(pl.col(str(number)) > limit * CENTS)["transactionId"]
    }
    return Answer(found, time.perf_counter() - started, payments.events)
