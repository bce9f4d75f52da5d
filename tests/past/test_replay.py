"""A replay on Spark gives what the reference gives, however it is cut, and accounts for every line."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.logs.files import FileLog
from lab.model.alerts import Alert, parse_alert_line
from lab.model.horizon import WITNESSES
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.routestats import bounded_route_id
from lab.model.rules import BadRule, rule_message
from lab.model.schema import LOGINS, PAYMENTS, SCHEMAS
from lab.past.replay import Replayed, check_rules, read_rules, replay
from lab.sources.sources import EventSource, Source
from tests.model.test_taken_back import standing

DATASETS = Path(__file__).parents[2] / "datasets"
FILES = {"payments": "payments.jsonl.gz", "logins": "logins.jsonl.gz", "flights": "2013-01.jsonl.gz"}
SUM = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"
EVERY = "2,(active),(payeeId),,(COUNT_FLINK),(SUM),(>=),(1),(20)"  # alerts at each event


def paths(name: str) -> tuple[Path, list[str]]:
    return DATASETS / name / FILES[name], read_rules(DATASETS / name / "rules.json")


class FirstEvents(Source):
    """The first `count` events of a file."""

    def __init__(self, path: Path, count: int):
        super().__init__(path)
        self._count = count

    def __len__(self) -> int:
        return self._count


@cache
def by_reference(name: str, count: int | None = None) -> Replayed:
    events, rules = paths(name)
    source = FirstEvents(events, count) if count else events
    return replay(source, rules, engine="reference", settings=Settings(SCHEMAS[name]))


def assert_same(found: Replayed, expected: Replayed) -> None:
    assert found.alert_lines == expected.alert_lines
    assert found.counts == expected.counts
    of_routes, wanted = (
        {bounded_route_id(route): +tally.counts for route, tally in of.routes.by_route.items()}
        for of in (found, expected)
    )
    assert of_routes == wanted
    assert found.acks == expected.acks
    assert sorted(found.dead_letters, key=str) == sorted(expected.dead_letters, key=str)


@pytest.fixture(params=["local", "spark"])
def on_engine(request):
    """Arguments of `replay` for each engine that cuts the log."""
    if request.param == "local":
        return {"engine": "local"}
    return {"engine": "spark", "spark": request.getfixturevalue("spark")}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_data_set_gives_the_alerts_of_the_reference(name, on_engine):
    events, rules = paths(name)
    found = replay(events, rules, settings=Settings(SCHEMAS[name]), **on_engine)
    assert_same(found, by_reference(name))
    assert len(found.alerts) > 400 and found.seconds > 0


@pytest.mark.parametrize(
    "events, batches, key_groups, parallelism",
    [
        (4_000, 7, 4, 1),
        (4_000, 7, 4, 2),
        *(
            pytest.param(20_000, *cut, marks=pytest.mark.slow, id="-".join(map(str, cut)))
            for cut in ((1, 1, 1), (1, 16, 2), (7, 4, 2), (7, 16, 1), (100, 4, 1))
        ),
    ],
)
def test_alerts_do_not_depend_on_how_the_log_is_cut(events, batches, key_groups, parallelism, request):
    path, rules = paths("logins")
    settings = Settings(LOGINS, key_groups=key_groups, parallelism=parallelism)
    seen = []

    def progress(*done: int) -> None:
        seen.append(done)

    spark = request.getfixturevalue("spark") if parallelism > 1 else None
    found = replay(
        FirstEvents(path, events), rules, settings=settings, batches=batches, spark=spark, progress=progress
    )
    assert_same(found, by_reference("logins", events))
    assert seen[-1] == (events, events) and found.batches == batches and len(found.alerts) > 50


def payment(number: int, **given) -> bytes:
    event: dict[str, Any] = {
        "transactionId": number,
        "eventTime": 1000 * number,
        "payeeId": 25,
        "beneficiaryId": 12,
    }
    event |= {"paymentType": "CSH", "paymentAmount": 20.5} | given
    return json.dumps({name: value for name, value in event.items() if value is not ...}).encode()


BAD = {  # line -> a word of its reason
    payment(101)[:-9]: "not one JSON object",
    b"": "",
    payment(102, payeeId="x"): "payeeId",
    b"   \t": "",
    payment(103, transactionId=...): "transactionId: nothing",
    payment(104, eventTime=None): "eventTime: nothing",
    payment(105, eventTime=-1): "eventTime: -1",
    payment(106, eventTime=10**15): "eventTime: 1000000000000000",
    payment(107, paymentAmount=10**16): "paymentAmount",
    payment(108, paymentAmount=1.234): "paymentAmount: 1.234",
    payment(109, paymentAmount=10**400): "paymentAmount",
    payment(110, paymentType="caf\u00e9").replace(b"\\u00e9", b"\xe9"): "not UTF-8",
    payment(111, paymentType="x" * MAX_LINE_BYTES): "at most 1048576 are allowed",
    b"\x00\x01\x02": "not one JSON object",
    b"[1, 2]": "not one JSON object",
    payment(112) + payment(113): "not one JSON object",
    payment(115, transactionId=float("nan")): "transactionId: nothing",
    b"115,2013-02-03 00:00:00,25,12,CSH,20": "not one JSON object",
    b'{"a":' * 100_000: "nested too deeply",
    b"\xff\xfe" * 10: "not UTF-8",
}


def test_what_a_rule_suppresses_is_counted(on_engine, tmp_path):
    rule = rule_message(1, [], None, "COUNT", ">", 0, "1h", atMost={"alerts": 1, "per": "1h"})
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(payment(number) for number in range(1, 6)))
    found = replay(file, [json.dumps(rule)], **on_engine)
    assert_same(found, replay(file, [json.dumps(rule)], engine="reference"))
    assert found.counts["suppressed"] == 4 and len(found.alert_lines) == 1


def test_of_the_lines_about_an_event_the_last_one_counts(spark, tmp_path):
    rules = [
        SUM,
        SUM.replace("1,", "2,", 1).replace("payeeId", "beneficiaryId&payeeId"),
        EVERY.replace("2,", "3,", 1),
    ]
    settings = Settings(replace(PAYMENTS, taken_back="paymentType = back"), parallelism=2)
    back = {"paymentType": "back"}
    lines = [payment(2, paymentAmount=60), payment(1, paymentAmount=70), payment(2, **back)]
    lines += [
        payment(2, paymentAmount=55),
        payment(1, **back),
        payment(3, paymentAmount=60),
        payment(3, **back),
    ]
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(lines))
    found = replay(file, rules, settings=settings, batches=2, spark=spark)
    assert_same(found, replay(file, rules, settings=settings, engine="reference"))
    told = list(map(parse_alert_line, found.alert_lines))
    assert {told.event_id for told in map(Alert.from_json, standing(told).values())} == {2}
    assert found.summary()["alerts"] == found.alert_count == len(found.alerts) < len(found.alert_lines)


@pytest.mark.parametrize("engine, batches", [("reference", None), ("local", 5), ("spark", 1), ("spark", 5)])
def test_each_bad_record_becomes_a_dead_letter_with_its_reason_and_place(engine, batches, spark, tmp_path):
    lines: list[bytes] = []
    places: dict[str, str] = {}
    for number, (bad, reason) in enumerate(BAD.items(), 1):
        lines += [payment(number), bad]
        if reason:
            places[f"bad.jsonl:{len(lines)}"] = reason
    duplicate, unknown_field = payment(1), payment(900, colour="red")
    lines += [duplicate, unknown_field, payment(901, paymentAmount=float("nan"))]
    file = tmp_path / "bad.jsonl"
    file.write_bytes(b"\r\n".join(lines))  # and no line end after the last
    found = replay(file, [SUM, EVERY], engine=engine, batches=batches, spark=spark)
    reasons = {letter["place"]: letter["reason"] for letter in found.dead_letters}
    assert reasons.keys() == places.keys()
    for place, reason in places.items():
        assert reason in reasons[place]
    counts = dict(found.counts)
    records = counts.pop("records")
    assert records == counts["routed"] + len(places) == 2 * len(BAD) - 2 + 3
    assert counts == {
        "deadLetters": len(places),
        "unrouted": 0,
        "routed": len(BAD) + 3,
        "evaluated": len(BAD) + 2,
        "storedLate": 0,
        "duplicates": 1,
        "droppedLate": 0,
        "takenBack": 0,
        "notHeld": 0,
        "suppressed": 0,
        "muted": 0,
        "shadowAlerts": 0,
    }
    assert {tally.record_count for tally in found.routes.by_route.values()} == {len(BAD) + 3}
    assert found.alerts.by_rule()[2] == len(BAD) + 2 and found.nan_as_null == 1
    raw = {letter["place"]: letter.get("raw") for letter in found.dead_letters}
    assert raw["bad.jsonl:6"] == payment(102, payeeId="x").decode()
    assert all("raw" in letter or "rawBase64" in letter for letter in found.dead_letters)


@pytest.mark.parametrize("policy", ["evaluate", "store", "drop"])
def test_late_events_are_counted_as_the_reference_counts_them(policy, on_engine, tmp_path):
    file = tmp_path / "late.jsonl"
    times = [600, 601, 200, 602, 700, 100, *range(5000, 5000 + WITNESSES), 10, 4999]
    file.write_bytes(b"\n".join(payment(n, eventTime=1000 * t) for n, t in enumerate(times)))
    settings = Settings(late_policy=policy, max_out_of_orderness_ms=60_000)
    found = replay(file, [SUM, EVERY], settings=settings, batches=3, **on_engine)
    assert_same(found, replay(file, [SUM, EVERY], engine="reference", settings=settings))
    assert found.counts["droppedLate"] > 0


def test_the_folder_of_a_log_is_replayed_in_log_order(on_engine, tmp_path):
    log = FileLog(tmp_path / "events")
    log.append([payment(1), payment(2)], log_time_ms=5)
    log.append([b"nonsense", payment(3)], log_time_ms=7)
    found = replay(log.folder, [EVERY], **on_engine, batches=2)
    assert [alert.event_id for alert in found.alerts] == [1, 2, 3]
    assert [letter["place"] for letter in found.dead_letters] == [f"events/{0:020d}.jsonl:3"]
    assert_same(found, replay(log.folder, [EVERY], engine="reference"))


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_a_file_without_records_gives_nothing(content, on_engine, tmp_path):
    file = tmp_path / "empty.jsonl"
    file.write_bytes(content)
    found = replay(file, [SUM], **on_engine)
    assert (found.events, found.alert_lines, found.acks[0]["status"]) == (0, [], "accepted")


def test_alerts_are_sorted_by_event_time_then_event_then_rule(tmp_path):
    file = tmp_path / "e.jsonl.gz"
    times = {3: 20, 2: 20, 1: 30, 4: 10}
    file.write_bytes(gzip.compress(b"\n".join(payment(n, eventTime=t) for n, t in times.items())))
    found = replay(file, [EVERY, EVERY.replace("2", "1", 1)], engine="reference")
    order = [(alert.event_id, alert.rule_id) for alert in found.alerts]
    assert order == [(4, 1), (4, 2), (2, 1), (2, 2), (3, 1), (3, 2), (1, 1), (1, 2)]
    assert "8" in found._repr_html_() and "payeeId=25" in found._repr_html_()


def test_a_rule_that_would_be_rejected_stops_it_before_anything_starts(tmp_path):
    with pytest.raises(BadRule, match="rule 2 of 2: aggregateFieldName"):
        replay(tmp_path / "there is no such file", [SUM, SUM.replace("paymentAmount", "amount")])


class Endless(EventSource):
    """A file so large that nobody waits for its end."""

    def __len__(self) -> int:
        return 1 << 40

    def __iter__(self) -> Iterator[bytes]:
        return repeat(b"{}")

    def place(self, index: int) -> str:
        return str(index)


def test_where_spark_does_not_start_nobody_waits_for_the_file(monkeypatch):
    def no_java(master: str):
        raise RuntimeError(f"Spark did not start on {master}")

    monkeypatch.setattr("lab.machine.session.session", no_java)
    with pytest.raises(RuntimeError, match=r"Spark did not start on local\[1\]"):
        replay(Endless(), [SUM], engine="spark")


def test_one_task_needs_no_java_and_several_need_spark(monkeypatch, tmp_path):
    monkeypatch.setattr("lab.machine.session.session", None)
    file = tmp_path / "events.jsonl"
    file.write_bytes(payment(1))
    assert replay(file, [EVERY]).engine == "local"
    with pytest.raises(ValueError, match="'local' has one task, expected 'spark' for 2 tasks"):
        replay(file, [EVERY], engine="local", settings=Settings(parallelism=2))


def test_a_gzip_file_that_is_cut_short_is_an_error_that_names_it(tmp_path):
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(payment(1) * 100)[:-20])
    with pytest.raises(OSError, match="cut.jsonl.gz is not a complete gzip file"):
        replay(file, [SUM], engine="reference")


@pytest.mark.parametrize(
    "text",
    [
        '[{"ruleId": 1, "ruleState": "PAUSE"}, {"ruleId": 2, "limit": 0.12345678901234567890}]',
        '\ufeff{"ruleId": 1, "ruleState": "PAUSE"}\r\n\n{"ruleId": 2, "limit": 0.12345678901234567890}\n',
    ],
)
def test_rules_are_a_json_list_or_one_per_line_with_every_digit(text, tmp_path):
    (tmp_path / "rules").write_text(text, "utf-8")
    first, second = read_rules(tmp_path / "rules")
    assert json.loads(first) == {"ruleId": 1, "ruleState": "PAUSE"}
    assert str(json.loads(second, parse_float=str)["limit"]) == "0.12345678901234567890"


def test_a_rule_in_a_json_list_may_be_a_sentence(tmp_path):
    sentence = '7: COUNT(events) per payeeId over 1 h > 9, title "Too \\"much\\""'
    (tmp_path / "rules").write_text(json.dumps([{"ruleId": 1, "ruleState": "DELETE"}, sentence]))
    assert read_rules(tmp_path / "rules")[1] == sentence


def test_a_file_may_be_one_rule_over_several_lines(tmp_path):
    rule = {"ruleId": 1, "aggregateFieldName": "COUNT", "limitOperatorType": ">", "limit": 3, "window": "1h"}
    (tmp_path / "rules").write_text(json.dumps(rule | {"ruleState": "ACTIVE"}, indent=1))
    assert check_rules(read_rules(tmp_path / "rules"), PAYMENTS).rules[1].first.limit == 3


def test_only_the_end_of_a_line_ends_a_rule(tmp_path):
    rule = '{"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": ">", "limit": 3, "window": 5, "title": "a\u2028b\x85c"}'
    (tmp_path / "rules").write_text(f"{rule}\r\n{rule}\n", "utf-8")
    assert read_rules(tmp_path / "rules") == [rule, rule]


def test_lines_that_begin_with_a_number_sign_are_comments_in_a_file_and_nowhere_else(tmp_path):
    rules = ['1: COUNT(events) over 1 h > 5, title "# 1"', '{"ruleId": 2, "ruleState": "PAUSE"}']
    (tmp_path / "rules").write_text(
        f"# first\r\n{rules[0]}\r\n  # 3: COUNT(events) over 1 h > 5\r\n\n{rules[1]}\n#"
    )
    assert read_rules(tmp_path / "rules") == rules
    (tmp_path / "rules").write_text(
        f'# a list\n[\n"7: COUNT(events) over 1 h > 5",\n# off: "8"\n{rules[1]}\n]'
    )
    assert [
        json.loads(rule)["ruleId"] if rule[0] == "{" else rule[0] for rule in read_rules(tmp_path / "rules")
    ] == ["7", 2]
    with pytest.raises(BadRule, match="neither a JSON object, nor a sentence"):
        check_rules(["# no message"], PAYMENTS)


def test_a_list_that_is_not_json_is_a_bad_rule(tmp_path):
    (tmp_path / "rules").write_text("[{]")
    with pytest.raises(BadRule, match="rules is not a JSON list"):
        read_rules(tmp_path / "rules")


@pytest.mark.parametrize(
    "text, said", [("[" * 100_000, "is not a JSON list"), ('[{"ruleId": %s}]' % ("9" * 5_000), "rule 1")]
)
def test_a_file_of_rules_that_somebody_wrote_to_break_it_is_refused_as_one(text, said, tmp_path):
    (tmp_path / "rules.json").write_text(text)
    with pytest.raises(BadRule, match=said):
        check_rules(read_rules(tmp_path / "rules.json"), PAYMENTS)
