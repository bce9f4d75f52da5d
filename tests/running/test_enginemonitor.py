"""What `lab run` says beside its counts: each kind of thing in one sentence, and no more often than one can read."""

import json
import re
import shlex
from collections import Counter
from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.engine.loop.filelogs import FileLogs
from lab.engine.records.kafkafeed import ConsumerGroupFollower
from lab.logs.cluster import Cluster, NoBroker, TopicMadeAnew
from lab.model.deadletters import dead_letter
from lab.model.schemafile import schema_from_toml
from lab.model.times import now_ms
from lab.running import enginemonitor as monitoring
from lab.running.enginemonitor import (
    AGAIN_S,
    FIRST_CUT_S,
    NEW_S,
    OUTPUTS_S,
    STALE_S,
    BrokersAwayTooLong,
    EngineMonitor,
    OutputGone,
    TwoEngines,
)
from lab.sources.infer import infer
from tests.orders import orders
from tests.topics import delete_topic, topics
from tests.waiting import PATIENCE_S, wait_until


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def notes(tmp_path, clock):
    logs = FileLogs(tmp_path)
    logs.create()
    return EngineMonitor(logs, tmp_path / "checkpoint", 50, clock=clock)


def told(logs: Logs, batch: int, **counts) -> None:
    stats = {"batch": batch, "keyGroups": [0, 3], "stored": {}, "times": {}, **counts}
    logs.log("stats").publish([json.dumps(stats)], [""])


def engine(id: str, since: int) -> dict:
    return {"engine": {"id": id, "since": since}, "times": {"end": now_ms()}}


def test_a_backlog_whose_first_cut_takes_long_is_said_until_the_cut_is_done(notes, clock):
    notes._logs.log("events").append(["{}"] * 70)
    assert not list(notes.due_notices())
    clock.now += FIRST_CUT_S
    assert list(notes.due_notices()) == [
        "about 70 events wait; the engine evaluates its first cut since the start, 5 s ago"
    ]
    assert not list(notes.due_notices())
    clock.now += AGAIN_S
    assert "25 s ago" in next(notes.due_notices())
    told(notes._logs, 0, records=70)
    notes.read()
    clock.now += AGAIN_S
    assert not list(notes.due_notices())


def test_an_engine_that_has_nothing_to_read_says_nothing_of_a_first_cut(notes, clock):
    clock.now += FIRST_CUT_S
    assert not list(notes.due_notices())


def test_of_two_engines_on_one_log_the_one_that_came_later_ends_and_the_other_says_so(notes, tmp_path, clock):
    mine = Settings().bind(tmp_path / "checkpoint")
    told(notes._logs, 0, **engine(mine, notes._started + 5))
    assert notes.read() == Counter() and not list(notes.due_notices())
    told(notes._logs, 0, **engine("other", notes._started + 9))
    notes.read()
    assert "another engine, with another checkpoint, writes to" in next(notes.due_notices())
    told(notes._logs, 7, **engine("other", notes._started - 1))
    with pytest.raises(TwoEngines, match="stats 0.. s ago, so each alert would come twice: stop one"):
        notes.read()


@pytest.mark.parametrize("times", [{}, {"end": 2**62}])
def test_a_line_that_anybody_wrote_ends_no_engine_that_has_run_for_a_minute(notes, tmp_path, clock, times):
    Settings().bind(tmp_path / "checkpoint")
    forged = {"engine": {"id": "other", "since": 0}, "times": times}
    told(notes._logs, 0, **forged)
    with pytest.raises(TwoEngines, match="wrote to .*stats"):
        notes.read()
    clock.now += NEW_S
    for batch in range(3):
        told(notes._logs, batch, **forged)
        notes.read()
    assert "another engine, with another checkpoint" in next(notes.due_notices())


def test_an_engine_that_finds_another_at_work_does_not_begin(kafka, tmp_path):
    logs = topics(kafka.address, "at-work")
    EngineMonitor(logs, tmp_path).check_no_other_engine()
    told(logs, 0, **engine("other", 1))
    with pytest.raises(TwoEngines, match="--alerts, --acks, --dead-letters, --stats"):
        EngineMonitor(logs, tmp_path).check_no_other_engine()
    told(logs, 1, **engine("other", 1) | {"times": {"end": 1}})
    EngineMonitor(logs, tmp_path).check_no_other_engine()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_group_that_another_program_has_joined_is_said_once(kafka, tmp_path, clock, protocol):
    cluster = Cluster(kafka.address, consumer_group=f"joined-{protocol}")
    logs = topics(cluster, f"joined-{protocol}")
    follower = ConsumerGroupFollower(cluster, logs.log("events").topic)
    events = [TopicPartition(follower.topic, 0)]
    follower.commit_progress({0: 1})
    wait_until(lambda: cluster.non_fetching_consumer.committed(events, PATIENCE_S)[0].offset == 1)
    notes = EngineMonitor(logs, tmp_path / "checkpoint", clock=clock)
    assert list(notes.due_notices()) == []
    settings = {"group.id": cluster.consumer_group, "group.protocol": protocol, "log_level": 0}
    member = Consumer({**cluster.librdkafka_properties, **settings})
    with closing(member):
        member.subscribe([follower.topic])
        wait_until(lambda: member.poll(0.1) or member.assignment())
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            cluster.non_fetching_consumer.commit(
                offsets=[TopicPartition(follower.topic, 0, 2)], asynchronous=False
            )
        clock.now += AGAIN_S
        [said] = notes.due_notices()
        assert said.startswith(f"consumer group joined-{protocol} has active members, so the brokers refuse")
        clock.now += 9 * AGAIN_S
        assert list(notes.due_notices()) == []


def test_events_are_behind_until_their_cut_is_evaluated(kafka, tmp_path, monkeypatch):
    logs = topics(kafka.address, "behind")
    events = logs.log("events")
    events.append([b"{}"] * 5)
    events.flush()
    taken = {"cut": 1, "at": 1, "events": {"0": 5}}
    monkeypatch.setattr(monitoring, "cut_mark", lambda checkpoint: taken)
    notes = EngineMonitor(logs, tmp_path / "checkpoint")
    assert notes.lag() is None
    told(logs, 0, cut={"from": 0, "to": 1, "events": {"0": 2}, "control": {}})
    notes.read()
    assert notes.lag() == 3
    told(logs, 1, cut={"from": 0, "to": 1, "events": {"0": 5}, "control": {}})
    notes.read()
    assert notes.lag() == 0


def test_after_a_rescale_the_stored_events_of_the_tasks_before_are_not_counted_again(notes):
    report, told_by = notes.report, {"stored": {"0": 1}, "stateBytes": 8}
    for key_groups in [0, 1], [2, 3]:
        told(notes._logs, 0, keyGroups=key_groups, heldEvents=10, **told_by)
    notes.read()
    assert (report.window_event_count, report.state_bytes) == (20, 16)
    told(notes._logs, 1, keyGroups=[0, 3], heldEvents=21, **told_by)
    notes.read()
    assert (report.window_event_count, report.state_bytes) == (21, 8)
    told(notes._logs, 2, keyGroups=[0, 0], heldEvents=5, **told_by)
    notes.read()
    assert (report.window_event_count, report.state_bytes) == (5, 8)


def test_the_span_of_what_was_read_is_from_the_first_start_to_the_last_end(notes):
    began = notes._started
    for batch, start, end in (0, 1000, 2500), (1, 2500, 3700):
        times = {"start": began + start, **dict.fromkeys(("decode", "route", "evaluate"), began + start + 10)}
        told(notes._logs, batch, times=times | {"end": began + end})
    told(notes._logs, 1, keyGroups=[4, 7], times={"end": began + 3900})  # of another task
    notes.read()
    assert notes.report.span_s == 2.7
    notes.read()
    assert notes.report.span_s == 0


def test_a_cut_that_was_read_while_the_one_before_was_evaluated_counts_from_the_end_of_that(notes):
    """Else cuts that overlap would look half as fast as they are."""
    began = notes._started
    for batch, start, end in (0, 1000, 2500), (1, 1800, 3500):
        times = {"start": began + start, **dict.fromkeys(("decode", "route", "evaluate"), began + start + 10)}
        told(notes._logs, batch, times=times | {"end": began + end})
        notes.read()
    assert notes.report.span_s == 1.0


def test_the_time_in_which_no_engine_ran_is_not_part_of_the_span(notes):
    """A cut that an engine chose before it was killed is carried out by the next one, with the time at which it was chosen."""
    began = notes._started
    times = {"start": began - 3_600_000, **dict.fromkeys(("decode", "route", "evaluate"), began + 5_000)}
    told(notes._logs, 0, times=times | {"end": began + 6_500})
    told(notes._logs, 1, times=dict.fromkeys(times, began + 6_500) | {"end": began + 7_000})
    notes.read()
    assert notes.report.span_s == 2.0


def test_a_flood_of_bad_records_is_a_sentence_for_each_kind_with_its_first(notes, clock):
    letters = notes._logs.log("deadLetters")
    for round in range(3):
        letters.append(
            [dead_letter(f"paymentAmount: {n}, expected a number", f"e/0:{n}", b"") for n in range(9)]
        )
        letters.append([dead_letter("gzip inside a record: unpack it", f"e/1:{round}", b"")])
        told(notes._logs, round, records=10, deadLetters=10)
        assert notes.read()["deadLetters"] == 10
        said = list(notes.due_notices())
        if round == 0:
            assert said == [
                "1 dead letter: gzip inside a record (at e/1:0)",
                "9 dead letters: paymentAmount: expected a number (the first at e/0:0)",
            ]
        else:
            assert said == []
    clock.now += AGAIN_S
    assert list(notes.due_notices())[1].startswith("18 dead letters: paymentAmount: expected ")


def test_rejected_control_messages_are_said_with_the_first_one_and_counted(tmp_path, clock):
    """A program that sends rules by itself may not read the answers."""
    logs, heard = FileLogs(tmp_path), list[dict]()
    logs.create()
    notes = EngineMonitor(logs, tmp_path / "checkpoint", clock=clock, on_ack=heard.append)
    rejected = {"status": "rejected", "reason": "limit: " + "x" * 300, "message": "{}"}
    for number in range(3):
        logs.log("acks").append([json.dumps(rejected | {"place": f"control/0:{number}"})])
    accepted = {
        "status": "accepted",
        "ruleId": 1,
        "version": 1,
        "ruleState": "ACTIVE",
        "place": "control/0:3",
    }
    logs.log("acks").append([json.dumps(accepted)])
    notes.read()
    (said,) = notes.due_notices()
    assert said.startswith("3 control messages were rejected (the first at control/0:0): limit: xxx")
    assert len(said) < 300 and said.endswith("…")
    assert [ack["status"] for ack in heard] == ["rejected"] * 3 + ["accepted"]
    logs.log("acks").append([json.dumps(rejected | {"place": "control/0:9", "reason": "why"})])
    notes.read()
    assert not list(notes.due_notices()), "so soon after the last one"
    clock.now += AGAIN_S
    assert list(notes.due_notices()) == ["1 control message was rejected (at control/0:9): why"]


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_an_engine_ends_if_a_topic_that_it_writes_to_is_deleted(kafka, tmp_path, clock, is_made_anew):
    """Spark's sink, which delivers if there are several tasks, would wait for it for ever."""
    logs = topics(kafka.address, f"gone-{is_made_anew}")
    with closing(EngineMonitor(logs, tmp_path / "checkpoint", clock=clock)) as notes:
        clock.now += OUTPUTS_S
        notes.read()
        delete_topic(logs.log("alerts"))
        if is_made_anew:
            logs.create_log("alerts")
        notes.read()
        clock.now += OUTPUTS_S
        name = re.escape(f"{logs.address}")
        with pytest.raises(
            (OutputGone, TopicMadeAnew), match=f"alerts-gone-{is_made_anew}.*deleted.*lab run"
        ) as raised:
            notes.read()
        assert re.search(name, str(raised.value))


@pytest.mark.parametrize("asked", [False, True])
def test_a_bad_record_s_value_is_said_only_if_somebody_asks(tmp_path, clock, asked):
    logs = FileLogs(tmp_path)
    notes = EngineMonitor(logs, tmp_path / "checkpoint", clock=clock, show_bad_values=asked)
    for reason in (
        'paymentAmount: "4111-1111", expected a number',
        'payeeId: "4111, expected 4111", expected a whole number',
        "not one JSON object: 4111",
    ):
        logs.log("deadLetters").append([dead_letter(reason, "e/0:0", b"4111")])
    notes.read()
    said = list(notes.due_notices())
    assert len(said) == 3 and all(("4111" in each) == asked for each in said), said
    if not asked:
        assert "1 dead letter: payeeId: expected a whole number (at e/0:0)" in said


def test_duplicates_drops_and_odd_dates_are_said(notes):
    told(notes._logs, 0, records=9, duplicates=1, droppedLate=2, datedLikeSeconds=3, nanAsNull=2)
    notes.read()
    assert list(notes.due_notices()) == [
        "3 events dated before March 1973: are their times in seconds? If so, the schema must say it (lab infer)",
        "2 times an event was too late for a route, and dropped there",
        "1 time an event had the id and time of an earlier one of its group on a route: it was not counted again",
        "2 values of NaN, Infinity or -Infinity read as null",
    ]
    assert list(notes.due_notices()) == []


def test_a_disk_for_which_saves_wait_long_is_said(notes):
    told(notes._logs, 0, diskWaitMs=500)
    notes.read()
    assert list(notes.due_notices()) == []
    told(notes._logs, 1, diskWaitMs=1234)
    notes.read()
    assert list(notes.due_notices()) == [
        "1,234 milliseconds in which saves waited for the checkpoint's disk: alerts came so much later"
    ]


def test_a_rule_that_loses_events_is_named_and_again_when_it_has_lost_more(notes, clock):
    route = {"rule": 2, "rules": 1, "routed": 100, "evaluated": 98, "droppedLate": 2}
    told(notes._logs, 0, routes={"siteId": route, "dev": route | {"evaluated": 99, "droppedLate": 1}})
    notes.read()
    warning = "rule 2 (route siteId) did not count 2.0 % of 100 events: 0 duplicates, 2 dropped late"
    assert list(notes.due_notices()) == [warning]
    clock.now += AGAIN_S
    assert list(notes.due_notices()) == []
    told(notes._logs, 1, routes={"siteId": route})
    notes.read()
    assert list(notes.due_notices()) == [
        warning.replace("100 events", "200 events").replace("2 dropped", "4 dropped")
    ]


def test_brokers_that_are_away_are_said_every_20_s_and_when_they_are_back(notes, clock, monkeypatch):
    def away():
        raise NoBroker("no Kafka broker answers at b1:9092 (refused)")

    here = notes.report.read

    def back():
        clock.now += 10  # so long does it wait for an answer
        return here()

    monkeypatch.setattr(notes.report, "read", away)
    said = []
    for _ in range(45):
        assert notes.read() == Counter()
        said += notes.due_notices()
        clock.now += 1
    assert [text.partition(",")[0] for text in said] == [f"waiting for Kafka for {s} s" for s in (0, 20, 40)]
    assert said[0].endswith("nothing is lost: no Kafka broker answers at b1:9092 (refused)")
    monkeypatch.setattr(notes.report, "read", back)
    notes.read()
    assert list(notes.due_notices()) == ["Kafka answers again after 55 s"]


def test_an_engine_that_stands_still_while_events_wait_is_said(notes, clock, monkeypatch):
    log = notes._logs.log("events")
    log.append(["one"])
    told(notes._logs, 0)  # it has evaluated something since it started
    notes.read()
    mark = {"cut": 0, "at": now_ms(), "events": {"0": log.end()}}
    monkeypatch.setattr(monitoring, "cut_mark", lambda checkpoint: dict(mark))

    def said_after(seconds: float) -> str:
        clock.now += seconds
        return "".join(notes.due_notices())

    assert said_after(0) == "" == said_after(STALE_S + AGAIN_S), "nothing waits"
    log.append(["two"])
    assert said_after(AGAIN_S) == "", "it may have come just now"
    assert said_after(AGAIN_S).startswith("no cut for 2 min although events wait; ")
    assert said_after(1) == ""
    mark["events"] = {"0": log.end() - 1}
    assert said_after(AGAIN_S) == "" == said_after(STALE_S - 1), "a cut has come"
    assert said_after(1) == ""
    assert said_after(AGAIN_S).startswith("no cut for 80 s")


def test_what_another_program_has_put_into_a_log_s_folder_is_said_once(notes, tmp_path):
    """Nobody reads it, and whoever copied a file of events there would wait for alerts for ever."""
    events, control = notes._logs.log("events"), notes._logs.log("control")
    events.append(["{}"])
    assert list(notes.due_notices()) == []
    (tmp_path / "events" / "orders.jsonl").write_text("{}\n")
    with open(tmp_path / "events" / "00000000000000000000.jsonl", "a") as segment:
        segment.write('{"transactionId": 7}\n')
    (tmp_path / "control" / "rules.json").write_text("[]")
    said = [sentence for _ in range(4) for sentence in notes.due_notices()]
    orders, segment, rules = (
        tmp_path / name
        for name in ("events/orders.jsonl", "events/00000000000000000000.jsonl", "control/rules.json")
    )
    assert said == [
        f"{orders} is not part of the log {events}, so it is not read: lab simulate --events {orders} --to {events} appends what it has",
        (
            f"the last 21 bytes of {segment} are not read, and the next append removes them: they do not come from a complete append; "
            f"lab simulate --events FILE --to {events} appends what a file has"
        ),
        f"{rules} is not part of the log {control}, so it is not read: lab rules add {rules} --rules {control} appends what it has",
    ]
    events.append(["{}"])
    assert list(notes.due_notices()) == []


def test_the_command_that_a_notice_shows_has_a_file_s_name_as_one_word(notes, tmp_path):
    """Whoever may write to the folder, as one of a team, chooses the name."""
    notes._logs.log("events").append(["{}"])
    file = tmp_path / "events" / "a b; touch pwned.jsonl"
    file.write_text("{}\n")
    (said,) = [sentence for _ in range(4) for sentence in notes.due_notices()]
    command = said.partition("is not read: ")[2].removesuffix(" appends what it has")
    assert shlex.split(command)[:4] == ["lab", "simulate", "--events", str(file)]


def test_an_append_that_is_running_is_not_taken_for_another_program_s(notes, tmp_path):
    notes._logs.log("events").append(["{}"])
    segment = tmp_path / "events" / "00000000000000000000.jsonl"
    for part in range(3):
        with open(segment, "a") as file:
            file.write("part")
        assert list(notes.due_notices()) == [], part


def test_it_gives_up_when_it_is_told_to(notes, clock, monkeypatch):
    def away():
        raise NoBroker("nobody answers")

    monkeypatch.setattr(notes.report, "read", away)
    notes.read()
    clock.now += 50
    with pytest.raises(
        BrokersAwayTooLong, match="gave up after 50 s: nobody answers; started again, it continues"
    ):
        notes.read()


def test_a_path_of_ones_own_schema_that_no_record_has_is_said_once(tmp_path, clock):
    lines = [line.encode() for line in orders(150)]
    toml = infer(lines, "orders").toml().replace("customer.address.city", "customer.adress.city")
    logs = FileLogs(tmp_path)
    notes = EngineMonitor(logs, tmp_path / "checkpoint", clock=clock, schema=schema_from_toml(toml))
    logs.log("events").append(lines)
    told(logs, 0, records=99, evaluated=99)
    notes.read()
    assert list(notes.due_notices()) == []
    told(logs, 1, records=1, evaluated=1)
    notes.read()
    (said,) = notes.due_notices()
    assert said.startswith("field city: none of 150 records has customer.adress.city, did you mean ")
    assert list(notes.due_notices()) == []
