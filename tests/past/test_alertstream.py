"""`lab.alerts` of a streaming DataFrame: the engine inside somebody else's job of Spark's."""

import json
import time
from decimal import Decimal

import pytest

import lab
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.model.alerts import Alert
from lab.model.rules import BadRule
from lab.past.alertstream import AlertReader, check_workers, publish_new

ROWS = "id long, at timestamp, card string, amount decimal(12, 2)"
RULE = "1: SUM(amount) per card over 1 h > 80"
EVENTS = [
    {"id": n, "at": f"2024-05-01T10:00:{n:02}Z", "card": "ab"[n % 2], "amount": 30.25} for n in range(1, 13)
]
WAIT_S = 120


@pytest.fixture
def schema():
    return lab.infer(EVENTS, "cards", id=["id"], time="at").schema


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def put(folder, name, rows):
    """A file that Spark finds whole."""
    aside = folder / name
    aside.write_text("\n".join(map(json.dumps, rows)))
    aside.rename(folder / "in" / name)


def frame(spark, folder):
    return spark.readStream.schema(ROWS).json(str(folder / "in"))


def wait_for(spark, running, count):
    """The first `count` alerts and whatever came with them: (rule, event, aggregate)."""
    deadline = time.monotonic() + WAIT_S
    while spark.table("found").count() < count:
        running.check()
        assert time.monotonic() < deadline, spark.table("found").collect()
        time.sleep(0.1)
    return sorted((row.ruleId, int(row.eventId), row.aggregate) for row in spark.table("found").collect())


def as_replayed(events, rules, schema):
    found = lab.alerts(events, rules, schema)
    return sorted((each["ruleId"], each["eventId"], Decimal(each["aggregate"])) for each in found)


def follow(spark, running):
    return running.alerts.writeStream.format("memory").queryName("found").start()


@pytest.mark.slow
def test_rows_of_a_streaming_dataframe_raise_the_alerts_of_a_replay_and_each_batch_counts_once(
    spark, folder, schema
):
    checkpoint = folder / "checkpoint"
    put(folder, "1.json", EVENTS[:8])
    with lab.alerts(frame(spark, folder), RULE, schema, checkpoint=checkpoint) as running:
        query = follow(spark, running)
        wanted = as_replayed(EVENTS[:8], RULE, schema)
        assert wait_for(spark, running, len(wanted)) == wanted != []
        with pytest.raises(BadRule, match='unknown cards field "amuont"'):
            running.publish("2: SUM(amuont) per card over 1 h > 1")
        [answer] = running.publish("2: COUNT(events) per card over 1 h >= 5")
        assert (answer["ruleId"], answer["version"]) == (2, 1)
        put(folder, "2.json", EVENTS[8:10])
        counted = [(2, 9, Decimal(5)), (2, 10, Decimal(5))]
        both = as_replayed(EVENTS[:10], RULE, schema) + counted
        assert wait_for(spark, running, len(both)) == both
        query.stop()
    # as if Spark had died after it handed over the last batch, and before it noted that
    newest = max((checkpoint / "feed" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    put(folder, "3.json", EVENTS[10:])
    with lab.alerts(frame(spark, folder), RULE, schema, checkpoint=checkpoint) as running:
        query = follow(spark, running)
        all_alerts = as_replayed(EVENTS, RULE, schema) + counted + [(2, 11, Decimal(6)), (2, 12, Decimal(6))]
        assert wait_for(spark, running, len(all_alerts)) == all_alerts
        query.stop()
    events = [json.loads(line)["id"] for line in lab.FileLog(checkpoint / "logs" / "events").read()]
    assert sorted(events) == [event["id"] for event in EVENTS]


def test_a_rule_that_was_changed_while_the_stream_ran_stays_so_and_one_that_is_given_anew_is_published(
    folder, schema
):
    logs = lab.FileLogs(folder / "logs")
    logs.create()
    for given in (["1: A"], ["1: A"], ["1: B", "2: C"], ["1: A", "2: C"]):
        publish_new(given, logs, CheckpointFolder(folder))
    assert logs.log("control").read() == ["1: A", "1: B", "2: C", "1: A"]


def test_workers_that_lack_the_engine_are_refused_with_what_helps():
    with pytest.raises(
        RuntimeError,
        match=r"workers run /bin/false, which cannot run the engine: open Spark with lab.session\(\)",
    ):
        check_workers("/bin/false")


def test_lines_that_no_engine_wrote_are_left_out_and_told(folder, capsys):
    log = lab.FileLog(folder / "alerts")
    alert = Alert(1, 1, "{card=a}", Decimal(90), "GREATER", Decimal(80), 7, 0, group=(("card", "a"),))
    log.append(["no alert", alert.to_json(), '{"withdrawn":true,"key":1}'])
    reader = AlertReader(log, Decimal("0.01"))
    [partition] = reader.partitions(reader.initialOffset(), {"position": log.end()})
    assert [(row[1], row[4], row[-1]) for row in reader.read(partition)] == [
        (1, Decimal("90.00"), alert.to_json())
    ]
    assert capsys.readouterr().err.count("left out: alerts/") == 2
