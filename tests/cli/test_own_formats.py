"""The way of docs/own-events.md from a file to alerts, for files that others write: the same alerts, whatever the format."""

import csv
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lab
from lab.cli.main import FAILED, OK, USAGE, main

START = datetime(2024, 5, 1, 9, tzinfo=UTC)
# `total` is in cents
ROWS: list[dict] = [
    {"no": n, "sold_at": START + timedelta(seconds=n, microseconds=n), "shop": f"{n % 3:03}", "total": n * 25}
    for n in range(1, 61)
]
RULE = "1,(active),(shop),,(total),(SUM),(>),(100),(1)"


def euros(row: dict) -> str:
    return f"{row['total'] // 100}.{row['total'] % 100:02}"


def write_csv() -> None:
    with Path("sales").open("w", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["shop", "sold_at", "note", "total", "no"])
        for row in ROWS:
            at = row["sold_at"].strftime("%d.%m.%Y %H:%M:%S.%f")
            rows.writerow([row["shop"], at, "a;b\nc", euros(row).replace(".", ","), row["no"]])


def write_parquet() -> None:
    table = pa.Table.from_pylist([row | {"total": Decimal(euros(row))} for row in ROWS])
    pq.write_table(table, "sales", row_group_size=7)


def write_list() -> None:
    records = [row | {"sold_at": row["sold_at"].isoformat(), "total": float(euros(row))} for row in ROWS]
    Path("sales").write_text(json.dumps({"Records": [each | {"weight": float("nan")} for each in records]}))


def write_debezium() -> None:
    lines = []
    for row in ROWS:
        at = row["sold_at"] - datetime(1970, 1, 1, tzinfo=UTC)
        after = row | {"sold_at": at // timedelta(microseconds=1), "total": euros(row)}
        payload = {
            "before": None,
            "after": after,
            "op": "c",
            "source": {"db": "shop"},
            "ts_ms": 1714554000000,
        }
        lines += [{"schema": {}, "payload": payload}]
    lines += [
        {"schema": {}, "payload": {"before": after, "after": None, "op": "d", "source": {}, "ts_ms": 1}}
    ]
    Path("sales").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize("write", [write_csv, write_parquet, write_list, write_debezium])
def test_from_a_foreign_file_to_alerts(write, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write()
    assert main(["infer", "sales", "--out", "sales.toml"]) == OK
    Path("rules.txt").write_text(RULE)
    reference = ["--schema", "sales.toml", "--engine", "reference"]
    assert main(["replay", "sales", *reference, "--rules", "rules.txt", "--out", "alerts"]) == OK
    alerts = [json.loads(line) for line in Path("alerts").read_text().splitlines()]
    expected, sums = [], dict.fromkeys(("000", "001", "002"), 0)
    for row in ROWS:
        sums[row["shop"]] += row["total"]
        if sums[row["shop"]] > 10_000:
            expected.append((row["no"], Decimal(sums[row["shop"]]) / 100))
    assert [(alert["eventId"], Decimal(alert["aggregate"])) for alert in alerts] == expected and expected
    assert main(["rules", "backtest", RULE, "sales", *reference]) == OK
    assert f"alerts: {len(alerts)}, groups: 3" in capsys.readouterr().out
    played = [
        "simulate",
        "--events",
        "sales",
        "--schema",
        "sales.toml",
        "--rate",
        "5000",
        "--to",
        "logs/events",
    ]
    assert main(played) == OK
    assert main(["replay", "logs/events", *reference, "--rules", "rules.txt", "--out", "again"]) == OK
    assert Path("again").read_text() == Path("alerts").read_text()


def test_cells_of_csv_are_not_played_without_a_schema(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_csv()
    assert main(["simulate", "--events", "sales", "--to", "logs/events"]) == USAGE
    assert (
        "also pass --schema FILE, which gives its cells types" in capsys.readouterr().err
        and not Path("logs").exists()
    )


def test_what_infer_cannot_say_is_written_without_it_and_can_be_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    records = [{"kind": "ab"[n % 2], "when_seen": "1 May" if n else "2024-05-01T10:00:00Z"} for n in range(9)]
    Path("seen").write_text("\n".join(map(json.dumps, records)))
    assert main(["infer", "seen", "--out", "seen.toml"]) == FAILED
    err = capsys.readouterr().err
    assert "seen.toml is written, but incomplete: no id" in err and "--time NAME" in err
    assert "[fields.kind]" in Path("seen.toml").read_text()
    assert main(["infer", "seen", "--id", "kind", "--time", "when_seen", "--out", "seen.toml"]) == OK
    schema = lab.schema("seen.toml")
    assert (schema.id_fields, schema.time_field) == (("kind",), "when_seen")
    assert (
        "another type in 8 records, which will be dead letters; the first: " in Path("seen.toml").read_text()
    )
    assert main(["infer", "seen", "--out", "seen.toml"]) == USAGE  # it may have been mended
