"""Replay, backtest and proposal from a topic and from the logs of an engine, as from a file."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

import lab
from lab.cli.main import FAILED, OK, main
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.announcement import announce_schema
from lab.engine.loop.filelogs import FileLogs
from lab.logs.kafka import KEPT, KafkaLog
from lab.model.rules import parse_message
from lab.past.backtest import Past
from lab.past.replay import replay
from lab.running.target import locate
from lab.sources.sources import source_at
from tests.orders import orders
from tests.topics import RULES, events

ODD = [
    b'{"transactionId":\n 900,\n"eventTime": 5, "payeeId": 1, "paymentAmount": 99}',
    b"",
    b"{",
    b'{"a": "x\ny"}',
]
ORDERS_RULE = (
    '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["city"], "aggregatorFunctionType": "COUNT", '
    '"limitOperatorType": ">", "limit": 3, "window": "1m"}'
)


def written(kafka, name: str, lines: list, partitions: int = 1) -> KafkaLog:
    """A topic with lines, spread over its partitions."""
    log = KafkaLog(kafka.address, name)
    log.create(partitions, KEPT)
    for line in lines:
        log.append([line], [str(hash(line))])
        log.flush()
    log.close()
    return log


def test_a_topic_of_several_partitions_is_read_in_the_order_of_the_log(kafka):
    lines = [line.encode() for line in events(120)]
    log = written(kafka, "several", lines, partitions=3)
    source = source_at(repr(log))
    read = list(source)
    with closing(log.tail()) as tail:
        records = [(record.log_time_ms, *place_of(record.place), record.line) for record in tail.records()]
    assert read == [record[-1].encode() for record in sorted(records)] and len(source) == len(read) == 120
    assert [place_of(source.place(row)) for row in range(120)] == [record[1:3] for record in sorted(records)]
    assert len({partition for _, partition, *_ in records}) == 3
    log.append(["later"])
    log.close()
    assert list(source) == read


def place_of(place: str) -> tuple[int, int]:
    partition, _, offset = place.rpartition("/")[2].partition(":")
    return int(partition), int(offset)


@pytest.mark.parametrize("engine", ["spark", "reference"])
def test_a_topic_is_replayed_as_a_file_with_the_same_lines(engine, kafka, spark, tmp_path):
    lines = [line.encode() for line in events(300)]
    log = written(kafka, f"replayed-{engine}", [*lines, *ODD])
    Path(tmp_path, "events.jsonl").write_bytes(b"\n".join([*lines, ODD[0].replace(b"\n", b" ")]))
    file = replay(tmp_path / "events.jsonl", RULES, engine="reference")
    topic = replay(repr(log), RULES, engine=engine, spark=spark)
    assert topic.alert_lines == file.alert_lines and len(topic.alerts) > 50
    assert topic.counts["routed"] == 301 and topic.events == 304
    letters = {letter["place"]: letter["reason"] for letter in topic.dead_letters}
    assert list(letters) == [f"{log.topic}/0:{offset}" for offset in (301, 302, 303)]
    assert (
        "a tombstone" in letters[f"{log.topic}/0:301"]
        and "not one JSON object" in letters[f"{log.topic}/0:302"]
    )


def test_from_a_topic_of_own_events_to_alerts_by_commands(kafka, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = written(kafka, "shop.orders.v1", list(orders(200)))
    Path("lab.toml").write_text(f'[kafka]\nbootstrap = "{kafka.address}"\n')
    Path("rules.txt").write_text(ORDERS_RULE)
    assert main(["infer", "kafka:///shop.orders.v1", "--out", "orders.toml"]) == OK
    assert lab.schema("orders.toml").name == "shop.orders.v1"
    where = ["kafka:///shop.orders.v1", "--engine", "reference"]
    replayed = ["replay", *where, "--rules", "rules.txt", "--out", "alerts.jsonl", "--schema", "orders.toml"]
    assert main(replayed) == OK
    capsys.readouterr()
    assert main(["rules", "backtest", ORDERS_RULE, *where, "--schema", "orders.toml"]) == OK
    alerts = len(Path("alerts.jsonl").read_text().splitlines())
    assert alerts > 50 and f"alerts: {alerts:,}, groups: 3" in capsys.readouterr().out
    logs = locate(places={"events": "kafka:///shop.orders.v1"}).logs
    logs.log("acks").create()
    announce_schema(logs, lab.schema("orders.toml"))
    assert main(["rules", "backtest", ORDERS_RULE, *where]) == OK  # the schema is the engine's
    assert main(["replay", "kafka:///nowhere", "--rules", "rules.txt"]) == FAILED
    assert "there is no topic nowhere" in capsys.readouterr().err
    past = Past(lab.schema("orders.toml"))
    past.add(source_at(repr(log)))
    rule = parse_message(ORDERS_RULE, past.schema).rule
    assert (past.aggregates(rule).values > 3).sum() == alerts


def test_tombstones_of_a_topic_are_skipped_and_counted_when_a_schema_is_inferred(
    kafka, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("lab.sources.sampledrecords.SAMPLE", 150)  # records with a value
    monkeypatch.chdir(tmp_path)
    lines = [line.encode() for line in orders(200)]
    log = written(kafka, "with-tombstones", [None, *lines[:100], *[None] * 300, *lines[100:]])
    assert main(["infer", repr(log), "--out", "orders.toml"]) == OK
    assert "fields from 150 records, 301 tombstones skipped; id " in capsys.readouterr().err
    said = "# doubt: 301 tombstones (records without a value) are skipped here; an engine makes dead letters of them"
    text = Path("orders.toml").read_text()
    assert said in text and "will be dead letters" not in text
    Path("orders.jsonl").write_bytes(b"\n".join(lines[:150]))
    assert main(["infer", "orders.jsonl", "--out", "file.toml"]) == OK
    assert "tombstone" not in capsys.readouterr().err
    assert lab.schema("file.toml").fields == lab.schema("orders.toml").fields
    only = written(kafka, "only-tombstones", [None, None])
    assert main(["infer", repr(only)]) == FAILED
    assert "no records, only 2 tombstones (records without a value); expected" in capsys.readouterr().err


def test_the_events_log_of_an_engine_is_replayed_with_its_schema(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("orders.jsonl").write_text("\n".join(orders(200)))
    assert main(["infer", "orders.jsonl", "--out", "orders.toml"]) == OK
    lab.FileLogs(tmp_path / "logs").log("events").append(Path("orders.jsonl").read_text().splitlines())
    Settings(lab.schema("orders.toml")).bind("logs/checkpoint")
    Path("rules.txt").write_text(ORDERS_RULE)
    capsys.readouterr()
    assert main(["replay", "logs/events", "--rules", "rules.txt", "--engine", "reference"]) == OK
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["alerts"] > 50
    assert main(["replay", "logs/evnts", "--rules", "rules.txt", "--engine", "reference"]) == FAILED
    assert "logs/evnts: No such file" in capsys.readouterr().err


def test_a_pipe_is_refused_as_a_file_is_read_several_times(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ValueError, match=f"^{place} is a pipe or a device, which can be read only once"):
            source_at(place)


def test_a_folder_that_has_only_folders_is_refused_with_their_names(tmp_path, capsys):
    FileLogs(tmp_path / "logs").create()
    rules = tmp_path / "rules.txt"
    rules.write_text(RULES[0])
    assert main(["replay", str(tmp_path / "logs"), "--rules", str(rules)]) == FAILED
    assert f"only folders, expected one of them: {tmp_path}/logs/acks, " in capsys.readouterr().err


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_that_is_one_json_list_is_read_as_its_elements(indent, tmp_path):
    given = [json.loads(order) for order in orders(20)]
    Path(tmp_path, "orders.json").write_text(json.dumps(given, indent=indent) + "\n")
    source = source_at(tmp_path / "orders.json")
    assert [json.loads(line) for line in source] == given and len(source) == 20
    assert source.place(4) == "orders.json:record 5" and not any(b"\n" in line for line in source)


def test_what_is_no_list_of_objects_is_lines(tmp_path):
    text = '[1]\n{"a": 1}\n'
    Path(tmp_path, "odd.jsonl").write_text(text)
    assert list(source_at(tmp_path / "odd.jsonl")) == text.encode().splitlines()
