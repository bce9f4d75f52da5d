"""What a checkpoint holds, against what the reference holds."""

import json
import shutil
from collections import defaultdict
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from pyspark.errors import StreamingQueryException

from lab.cli.main import OK, main
from lab.engine.checkpoint.ledger import Ledger
from lab.engine.checkpoint.lock import FolderLock
from lab.engine.checkpoint.record import VERSION, last_saved_mark, mark_at_end_of, read_record, write_record
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.windows.statefiles import StateFileMissing, StateFiles
from lab.model.field import Field
from lab.model.keygroups import key_group_of
from lab.model.messages import parse_message
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS, Schema
from lab.state import read as state
from tests.engine.test_pipeline import EVENTS, RULES, run, write

KEYS = ("payeeId", "beneficiaryId", "paymentType")
TYPED = json.dumps(
    {
        "ruleId": 9,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["paymentType"],
        "aggregatorFunctionType": "UNIQUE_COUNT",
        "unique": ["beneficiaryId", "paymentType"],
        "limitOperatorType": ">",
        "limit": 10**6,
        "window": "1d",
    }
)
from tests.state.groupsizes import group_sizes


def events_by_key() -> dict[tuple[str, object], list[dict]]:
    by_key = defaultdict(list)
    for event in map(PAYMENTS.parse, EVENTS[:300]):
        for name in KEYS:
            by_key[name, event[name]].append(event)
    return by_key


@pytest.fixture(scope="module")
def checkpoint(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    write(FileLogs(folder), EVENTS[:300], [*RULES, TYPED, "2,(pause)"])
    run(spark, folder, Settings(parallelism=3, max_batch_records=200))
    return folder / "checkpoint"


def test_rules_and_key_groups_are_those_of_the_engine(spark, checkpoint):
    found = state.read_state(checkpoint)
    told = found.widget_data()
    assert [(rule.rule_id, rule.version, rule.state) for rule in found.rules] == [
        (1, 1, "ACTIVE"),
        (2, 2, "PAUSE"),
        (3, 1, "ACTIVE"),
        (9, 1, "ACTIVE"),
    ]
    assert (found.epoch, found.parallelism, told["key_group"]) == (1, 3, [*range(16)])
    assert mark_at_end_of(checkpoint, 0)["begin"]["events"] == {"0": 0} and "begin" not in mark_at_end_of(
        checkpoint, 1
    )
    assert told["partition"] == [g * 3 // 16 for g in range(16)]
    assert sum(told["events"]) == 900, "each event on three routes"
    assert sum(told["groups"]) == len(events_by_key())
    assert all(files > 0 and size > 0 for files, size in zip(told["files"], told["bytes"]))
    times = [event["eventTime"] for events in events_by_key().values() for event in events]
    assert min(t for t in told["oldest"] if t is not None) == min(times)
    assert max(t for t in told["newest"] if t is not None) == max(times)


@pytest.mark.parametrize(
    "name, value", [("payeeId", 3), ("beneficiaryId", "5"), ("paymentType", "CRD"), ("payeeId", 99)]
)
def test_the_events_of_one_key_come_back(checkpoint, name, value):
    found = state.stored_events_of_key(checkpoint, {name: value})
    expected = events_by_key().get((name, PAYMENTS.field(name).parse_csv_cell(str(value))), [])
    expected = sorted(expected, key=lambda event: (event["eventTime"], event["transactionId"]))
    assert [event["eventId"] for event in found] == [event["transactionId"] for event in expected]
    assert [event["eventTime"] for event in found] == [event["eventTime"] for event in expected]
    if name == "payeeId":
        assert [event["paymentAmount"] for event in found] == [
            str(event["paymentAmount"]) for event in expected
        ]
    if name == "paymentType":
        assert {len(event["paymentType"]) for event in found} == {32}, "only a digest is held"


def test_each_group_on_each_route_has_a_size(spark, checkpoint):
    hashes, sizes = group_sizes(checkpoint)
    assert len(hashes) == len(set(hashes.tolist())) == len(events_by_key())
    assert sizes.sum() >= 900 * 4 * 8, "time, id, seq and the key of each held event"


def test_a_key_of_no_rule_and_a_folder_of_no_engine_are_refused(spark, checkpoint):
    known = "no rule groups by ingestionTimestamp; there are: beneficiaryId; payeeId; paymentType"
    with pytest.raises(ValueError, match=known):
        state.stored_events_of_key(checkpoint, {"ingestionTimestamp": 1})
    with pytest.raises(ValueError, match="nowhere is no checkpoint of the engine"):
        state.read_state(checkpoint / "nowhere")
    Settings().bind(checkpoint.parent / "new")
    with pytest.raises(ValueError, match="no epoch was saved yet"):
        state.read_state(checkpoint.parent / "new")


def test_the_command_reads_while_an_engine_runs_and_changes_nothing(checkpoint, capsys):
    before = {path: path.stat().st_mtime_ns for path in checkpoint.rglob("*") if path.is_file()}
    with FolderLock(checkpoint):
        del before[checkpoint / "lab.lock"]
        assert main(["state", str(checkpoint)]) == OK
        assert main(["state", str(checkpoint), "--json", "--epoch", "0"]) == OK
        assert main(["state", str(checkpoint), "--key", "payeeId=3"]) == OK
    out = capsys.readouterr().out
    table, told = (
        out[: out.index('{"checkpoint"')],
        next(line for line in out.splitlines() if line.startswith('{"checkpoint"')),
    )
    assert "v2   PAUSE   COUNT_WITH_RESET" in table and "16 key-groups on 3 partitions" in table
    told = json.loads(told)
    assert (told["epoch"], sum(group["events"] for group in told["keyGroups"])) == (0, 666)
    after = {
        path: path.stat().st_mtime_ns
        for path in checkpoint.rglob("*")
        if path.is_file() and path.name != "lab.lock"
    }
    assert before == after


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (1, f"; this engine reads version {VERSION}. Start with a new checkpoint"),
        (99, ", made by a newer engine"),
    ],
)
def test_a_checkpoint_of_another_version_is_refused_with_the_reason_and_the_way_on(tmp_path, version, why):
    Settings().bind(tmp_path)
    write_record(tmp_path, read_record(tmp_path) | {"version": version})
    with pytest.raises(ValueError, match=f"of version {version}{why}"):
        Settings().bind(tmp_path)


def test_a_copy_without_its_newest_state_files_is_refused_by_readers_and_by_the_engine(
    spark, checkpoint, tmp_path, capsys
):
    write(FileLogs(tmp_path), EVENTS[:300], [*RULES, TYPED, "2,(pause)"])
    copy = shutil.copytree(checkpoint, tmp_path / "checkpoint")
    (newest,) = (copy / "state").glob("000000001-*-00006-00010.arrow")
    newest.unlink()
    lost = "state: what epoch 1 left of key-groups 6 … 10 is gone: the checkpoint is not whole"
    assert main(["state", str(copy)]) != OK
    assert lost in capsys.readouterr().err
    write(FileLogs(tmp_path), EVENTS[300:310], [])
    with pytest.raises(StreamingQueryException, match=lost):
        run(spark, tmp_path, Settings(parallelism=3, max_batch_records=200))


@pytest.mark.parametrize("gone", [StateFileMissing("a file"), ValueError("cuts/000000000.jsonl is gone")])
def test_what_a_running_engine_goes_on_from_meanwhile_is_read_again(checkpoint, gone):
    done, read = state.read_state(checkpoint).epoch, []

    def gone_on(files, upto_epoch, begins_next_epoch):
        read.append(upto_epoch)
        if upto_epoch < done:
            raise gone
        return find(files, upto_epoch, begins_next_epoch)

    find = StateFiles.find
    behind = [last_saved_mark(checkpoint) | {"epoch": epoch} for epoch in (0, done, done)]
    with (
        patch("lab.state.read.last_saved_mark", side_effect=behind),
        patch.object(StateFiles, "find", gone_on),
    ):
        assert state.read_state(checkpoint).epoch == done
    assert read == [0, 1]


def test_what_is_held_follows_the_engine_s_out_of_orderness_and_a_path_may_have_spaces(spark, tmp_path):
    folder = tmp_path / "a path with spaces"
    rule = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(1)"
    write(FileLogs(folder), EVENTS[:300], [rule])
    run(spark, folder, Settings(max_out_of_orderness_ms=10_000))
    assert main(["state", str(folder / "checkpoint")]) == OK
    reference = Reference(PAYMENTS, max_out_of_orderness_ms=10_000)
    reference.control(rule)
    for line in EVENTS[:300]:
        reference.event(line)
    expected = dict.fromkeys(range(reference.key_groups), 0)
    for route, group in list(reference.stored_events):
        reference._expire(route, group)
        expected[key_group_of(group, reference.key_groups)] += len(reference.stored_events[route, group])
    held = {group.key_group: group.events for group in state.read_state(folder / "checkpoint").key_groups}
    assert held == expected and 0 < sum(held.values()) < 300


def test_a_route_that_has_stored_nothing_yet_holds_no_events_of_any_key(spark, tmp_path, capsys):
    other = "4,(active),(payeeId&paymentType),,(paymentAmount),(SUM),(>),(50),(1)"
    nowhere = TYPED.replace('"ruleId": 9', '"ruleId": 5, "filter": {"paymentAmount": "-7"}')
    write(FileLogs(tmp_path), [], [*RULES, TYPED, nowhere])
    run(spark, tmp_path, Settings())
    for key in ("paymentType=CRD", "payeeId=3"):
        assert main(["state", str(tmp_path / "checkpoint"), "--key", key]) == OK
    hashes, sizes = group_sizes(tmp_path / "checkpoint")
    assert (capsys.readouterr().out, len(hashes), len(sizes)) == ("", 0, 0)
    write(FileLogs(tmp_path), EVENTS[:3], [other])
    run(spark, tmp_path, Settings())
    found = state.stored_events_of_key(
        tmp_path / "checkpoint", {"paymentType": PAYMENTS.parse(EVENTS[0])["paymentType"]}
    )
    assert found and {event["route"] for event in found} == {"paymentType"}
    write(FileLogs(tmp_path), [], ['{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}'])
    run(spark, tmp_path, Settings())
    assert [len(found) for found in group_sizes(tmp_path / "checkpoint")] == [0, 0]


def test_a_text_id_is_shown_as_the_digest_that_windows_have():
    schema = Schema("visits", (Field("id", "string"), Field("at", "time", unit="s")), ("id",), "at")
    plan = SimpleNamespace(entry=SimpleNamespace(fields=[]))
    shown = state._shown(schema, plan, {"id": -1, "time": 5})
    assert shown == {"eventId": "ffffffffffffffff", "eventTime": 5}


def test_fields_that_are_shown_as_digests_are_named(tmp_path, monkeypatch, capsys):
    schema = Schema(
        "visits", (Field("id", "string"), Field("at", "time", unit="s"), Field("user", "long")), ("id",), "at"
    )
    Settings(schema).bind(tmp_path)
    event = {"route": "user", "keyGroup": 3, "eventId": "ff", "eventTime": 5, "user": 7}
    monkeypatch.setattr(state, "stored_events_of_key", lambda *_, **__: [event])
    assert main(["state", str(tmp_path), "--key", "user=7"]) == OK
    out, err = capsys.readouterr()
    assert json.loads(out) == event and err.startswith("eventId: state files have only digests of texts")
    assert state.fields_shown_as_digests(event, tmp_path) == ["eventId"]
    Settings(PAYMENTS).bind(tmp_path / "payments")
    assert state.fields_shown_as_digests(event | {"paymentType": "ff"}, tmp_path / "payments") == [
        "paymentType"
    ]


def test_a_key_may_be_a_decimal_with_scale_0():
    fields = Field("id", "long"), Field("at", "long"), Field("pieces", "decimal(9,0)")
    schema = Schema("parcels", fields, ("id",), "at")
    rule = parse_message("1: COUNT(events) per pieces over 1 min > 1", schema).rule
    (plan,) = Ledger.from_rules([rule], schema).plans
    assert [state._numbers(schema, plan, {"pieces": seven}) for seven in (7, "7")] == 2 * [{"pieces": 7}]
    assert type(state._numbers(schema, plan, {"pieces": 7})["pieces"]) is int
