"""A world that follows an engine judges events that have not happened as the reference does, refuses what is old, and stores nothing."""

import json
import re
from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pytest

from lab.desk import live
from lab.desk.live import LOST, LiveWorld
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.windows import arrays, evaluate
from lab.model import horizon
from lab.model.schema import PAYMENTS, Schema
from lab.model.times import DAY_MS
from lab.model.whenreader import takes_back
from tests.desk.test_matrix import AlertsAtOnce, some_and_more
from tests.engine.drawn import drawn
from tests.engine.randomlogs import log_times

AT = 1_400_000_000_000
RULES = [
    "1: SUM(paymentAmount) per payeeId over 20 min > 50",
    "2 SHADOW: COUNT(events) per payeeId over 1 h > 0",
]


def payment(number: int, amount: object, minute: int = 0, **more: object) -> dict[str, Any]:
    event = {"transactionId": number, "eventTime": AT + minute * 60_000, "payeeId": 25, "beneficiaryId": 1}
    return event | {"paymentType": "CSH", "paymentAmount": amount} | more


def lines(*events: dict) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


class Logs(FileLogs):
    """Logs with the lines that an engine would write about its cuts."""

    def cut(
        self,
        number: int,
        since: int,
        until: int,
        settings: Settings,
        engine_id: str = "a",
        events: int | None = None,
    ) -> None:
        """`events`: how many it has read; all unless told."""
        ends = {name: {"0": self.log(name).bounds()[1].get(0, 0)} for name in ("events", "control")}
        if events is not None:
            ends["events"] = {"0": sum(len(line) + 1 for line in self.log("events").read()[:events])}
        stats = {"batch": number, "keyGroups": [0, 0], "times": {"end": until}}
        if engine_id:
            stats |= {"engine": {"id": engine_id, "since": 0, **settings.stats_fields()}}
        self.log("stats").append([json.dumps(stats | {"cut": {"from": since, "to": until, **ends}})], until)


def followed(world: LiveWorld) -> LiveWorld:
    """The world once it has taken over what there is."""
    for wait_s in world.steps():
        if wait_s:
            break
    return world


@pytest.fixture
def now(monkeypatch) -> list[int]:
    clock = [AT]
    monkeypatch.setattr(live, "now_ms", lambda: clock[0])
    return clock


@pytest.fixture
def logs(tmp_path, now) -> Logs:
    made = Logs(tmp_path / "logs")
    made.log("control").append(RULES, AT - 10)
    made.log("events").append(lines(payment(1, "30", 1)), AT - 9)
    made.cut(0, AT - 20, AT - 5, Settings(PAYMENTS))
    return made


def alerts_at_each(
    log: list[tuple[int, str, bytes]], schema: Schema, settings: dict
) -> list[set[str] | None]:
    """Of each entry, the ids of the alerts that its event raises at once; None of a bad record, a message, and what takes back."""
    reference, found = AlertsAtOnce(schema, **settings), list[set[str] | None]()
    for at, kind, text in log:
        reference.at_once, bad = [], reference.counts["deadLetters"]
        if kind == "control":
            reference.control(text, at)
        else:
            reference.event(text, "", at)
        is_bad = kind == "control" or reference.counts["deadLetters"] > bad
        returns = not is_bad and any(takes_back(event, schema) for event in schema.events(text))
        found.append(None if is_bad or returns else {*reference.at_once})
    return found


def saying_all(line: bytes, schema: Schema) -> bytes:
    """The record with null for each field that it leaves out, but in inner objects."""
    if not line.startswith(b"{"):
        return line
    record = json.loads(line)
    absent = {field.record_path[0] for field in schema.fields if not field.is_in(record)} - record.keys()
    return line.rstrip()[:-1] + "".join(f', "{name}": null' for name in sorted(absent)).encode() + b"}"


@some_and_more
def test_it_gives_the_alerts_that_the_event_then_raises(tmp_path, now, seeds, monkeypatch):
    """With all that rules can say: legs, lists, mutes, sessions, absence, the shadow, derived fields; bad records; late policies."""
    seen = Counter[str]()
    monkeypatch.setattr(live, "JUDGE_S", 60)  # the loop may be compiled meanwhile
    for seed in seeds:
        of, rng = drawn(seed, short=True), Random(seed)
        monkeypatch.setattr(horizon, "WITNESSES", of.witnesses)
        monkeypatch.setattr(arrays, "ROOM_AT_FIRST", rng.choice([1, 2, 16, 1024]))
        monkeypatch.setattr(evaluate, "MOST_STEPS", rng.choice([2, 10**6]))
        timed = sorted(
            zip(log_times(rng, len(of.log)), of.log), key=lambda each: (each[0], each[1][0] == "event")
        )
        log = [(at, kind, text) for at, (kind, text) in timed]
        at_each, settings = alerts_at_each(log, of.schema, of.settings), Settings(of.schema, **of.settings)
        logs, written, cuts, before = Logs(tmp_path / str(seed)), 0, 0, 0
        world = LiveWorld(logs, of.schema)
        for n in [n for n, alerts in enumerate(at_each) if alerts is not None][::3]:
            at = log[n][0]
            for log_time, kind, text in log[written:n]:
                logs.log("events" if kind == "event" else "control").append([text], log_time)
                if rng.random() < 0.2 and log_time > before:
                    logs.cut(cuts, before, log_time, settings)
                    cuts, before = cuts + 1, log_time
            logs.cut(cuts, before, at, settings)
            cuts, before, written, now[0] = cuts + 1, at, n, at
            asked = [
                text if alerts is None else saying_all(text, of.schema)  # a bad record is refused
                for (_, kind, text), alerts in zip(log[n : n + 9], at_each[n:])
                if kind == "event"
            ]
            asked += rng.sample(asked, len(asked))
            answers = followed(world).would(asked, 0)["answers"]
            assert answers == [world.would([each], 0)["answers"][0] for each in asked], "nothing is stored"
            answer = answers[0]
            if reason := re.search("not judged|missing", answer.get("refused", "")):
                seen[reason[0]] += 1
                continue
            found = {alert["alertId"] for alert in answer.get("alerts", ())}
            assert found == at_each[n] and answer["clear"] == ("alerts" in answer and not found), (seed, n)
            assert "refused" not in answer or answer["refused"] in LOST.values()
            seen.update(("alerts" if found else answer.get("refused", "clear"), str(len(of.schema.legs))))
    assert seen["alerts"] and seen["clear"], seen


def test_it_refuses_a_state_that_is_older_than_it_was_told_to_accept(logs, now):
    world = LiveWorld(logs, PAYMENTS)
    with pytest.raises(TimeoutError, match="no cut of an engine"):
        world.would(lines(payment(2, "30")), 10**9)
    followed(world)  # and the logs have nothing more, so it is as new as they are
    now[0] = AT + 100
    assert world.would(lines(payment(2, "30", 2)), 100)["asOf"] == {"cut": 0, "upTo": AT}
    with pytest.raises(TimeoutError, match="the state is 100 ms old, expected at most 99"):
        world.would(lines(payment(2, "30", 2)), 99)
    logs.log("events").append(lines(payment(3, "1", 1)), AT + 100)  # which the engine has not taken yet
    now[0] = AT + 200
    followed(world)
    with pytest.raises(TimeoutError, match="200 ms old"):
        world.would(lines(payment(2, "30", 2)), 199)
    logs.cut(1, AT - 5, AT + 150, Settings(PAYMENTS))
    now[0] = AT + 200
    assert followed(world).would(lines(payment(2, "30", 2)), 0)["asOf"] == {"cut": 1, "upTo": AT + 200}


def test_what_no_rule_would_judge_is_refused_and_never_clear(logs, now):
    world = followed(LiveWorld(logs, PAYMENTS))
    asked = lines(
        payment(2, "20", 2),
        payment(2, "20.01", 2),
        payment(1, "1", 1),
        payment(2, "many"),
        payment(2, 1, 10**6),
        payment(3, "99", 2, payeeId=None),
    )
    clear, alerts, again, bad, future, unrouted = world.would(asked, 0)["answers"]
    assert clear == {"clear": True, "alerts": []} == unrouted
    assert [alert["aggregate"] for alert in alerts["alerts"]] == ["50.01"] and not alerts["clear"]
    for refused, why in ((again, "this id and time"), (bad, "paymentAmount"), (future, "eventTime")):
        assert refused["clear"] is False and why in refused["refused"] and "alerts" not in refused
    assert world.would(asked, 0) == world.would(asked, 0), "nothing is stored"


def test_what_only_some_rules_would_judge_is_clear_for_none(logs, now):
    """The event is known, or late, to one route, and new to another."""
    logs.log("control").append(["3: COUNT(events) per beneficiaryId over 20 min > 9"], AT - 8)
    logs.log("events").append(lines(payment(2, "30", 500)), AT - 7)
    logs.cut(1, AT - 5, AT, Settings(PAYMENTS, late_policy="drop"))
    now[0] = AT + DAY_MS
    world = followed(LiveWorld(logs, PAYMENTS))
    again, late = payment(2, "90", 500, beneficiaryId=77), payment(4, "90", 1, beneficiaryId=77)
    for answer, why in zip(world.would(lines(again, late), 0)["answers"], ("this id and time", "too late")):
        assert answer["clear"] is False and why in answer.get("refused", ""), answer


@pytest.mark.parametrize("name", ["payeeId", "paymentAmount"])
def test_a_question_that_leaves_out_what_a_rule_asks_for_is_refused(logs, now, name):
    world = followed(LiveWorld(logs, PAYMENTS))
    misspelt = payment(3, "99", 2, note="fields that no rule asks for may be there, or not")
    misspelt[name.upper()] = misspelt.pop(name)
    del misspelt["paymentType"]
    refused, null = world.would(lines(misspelt, misspelt | {name: None}), 0)["answers"]
    assert refused["clear"] is False and f"{name}: missing, expected its value, or null" in refused["refused"]
    assert null == {"clear": True, "alerts": []}


def test_it_holds_a_part_of_a_long_stats_log_at_a_time(logs, now, monkeypatch):
    monkeypatch.setattr(live, "LINES", 50)
    for number in range(1, 200):
        logs.cut(number, AT - 5, AT - 5, Settings(PAYMENTS))
    world, held = LiveWorld(logs, PAYMENTS), list[int]()
    monkeypatch.setattr(world, "step", lambda step=world.step: (held.append(len(world._cuts)), step())[1])
    followed(world)
    assert world.cut == 199 and max(held) < 100


WITH_ALL_KINDS = [  # of windows, each of which the loop moves in its own way
    "SUM(paymentAmount) per payeeId over 20 min >= 0",
    "MAX(paymentAmount) per payeeId over 20 min >= 0",
    "MEDIAN(paymentAmount) per payeeId over 20 min >= 0",
    "UNIQUE_COUNT(beneficiaryId) per payeeId over 20 min >= 0",
    "COUNT_WITH_RESET(events) per payeeId over 20 min >= 0",
    "SUM(paymentAmount) per payeeId over 100 events within 20 min >= 0",
    "SUM(paymentAmount) per payeeId over a session with gaps up to 1 min within 20 min >= 0",
    "SUM(paymentAmount) per payeeId over 10 min ending 5 min before >= 0",
    "SEQUENCE(paymentAmount > 60, paymentAmount < 1) per payeeId over 20 min >= 0",
]


@pytest.mark.parametrize("rule", WITH_ALL_KINDS)
def test_a_question_that_takes_a_look_at_too_many_events_is_refused(logs, now, rule, monkeypatch):
    monkeypatch.setattr(evaluate, "MOST_STEPS", 1_000)
    logs.log("control").append([f"1: {rule}"], AT - 8)
    logs.log("events").append(
        lines(*(payment(10 + n, "0", beneficiaryId=n) | {"eventTime": AT + 200 * n} for n in range(3_000))),
        AT,
    )
    logs.cut(1, AT - 5, AT + 1, Settings(PAYMENTS, max_out_of_orderness_ms=3_600_000))
    now[0] = AT + 600_000
    world = followed(LiveWorld(logs, PAYMENTS))
    early, newest, other = payment(1, "70", -1), payment(5_000, "70", 10), payment(5_001, "70", payeeId=26)
    refused, judged, of_few = world.would(lines(early, newest, other), 10**9)["answers"]
    assert judged["alerts"][0]["ruleVersion"] == 2 and "alerts" in of_few
    assert refused["clear"] is False and "more than 1,000 stored events by payeeId" in refused["refused"]
    late = world.would(lines(payment(1, "70", 0)), 10**9)["answers"][0]
    monkeypatch.setattr(evaluate, "MOST_STEPS", 100_000)
    allowed = world.would(lines(early, newest, other), 10**9)["answers"]
    assert allowed[1:] == [judged, of_few] and "alerts" in allowed[0] and "refused" in late


def test_what_a_question_takes_is_told_apart_by_what_the_loop_has_to_do(logs, now, monkeypatch):
    """An event a little late in a long group is judged; one after a pause, by which the whole window is too old, is not."""
    monkeypatch.setattr(evaluate, "MOST_STEPS", 1_000)
    events = (payment(10 + n, "0.01", beneficiaryId=n) | {"eventTime": AT + 200 * n} for n in range(3_000))
    logs.log("events").append(lines(*events), AT)
    logs.cut(1, AT - 5, AT + 1, Settings(PAYMENTS))
    now[0] = AT + 3 * 3_600_000
    world = followed(LiveWorld(logs, PAYMENTS))
    late, after = payment(1, "70") | {"eventTime": AT + 590_000}, payment(2, "70", 120)
    judged, refused = world.would(lines(late, after), 10**9)["answers"]
    assert [alert["aggregate"] for alert in judged["alerts"]] == ["129.51"] and "not judged" in refused[
        "refused"
    ]


def test_the_questions_of_a_request_are_judged_for_half_a_second(logs, now, monkeypatch):
    world, cpu = followed(LiveWorld(logs, PAYMENTS)), count(0, 0.2)
    monkeypatch.setattr(live, "thread_time", lambda: next(cpu))
    monkeypatch.setattr(live, "TOGETHER", 1)
    answers = world.would(lines(*(payment(number, "1", 2) for number in range(2, 7))), 0)["answers"]
    assert [each["clear"] for each in answers] == [True, True, True, False, False]
    assert "the 3 questions before" in answers[4]["refused"]


def test_an_engine_in_a_notebook_which_has_no_id_is_followed(logs, now):
    for number in (1, 2):
        logs.log("events").append(lines(payment(10 + number, "5", 1)), AT)
    logs.cut(0, AT - 20, AT + 5, Settings(PAYMENTS), engine_id="")
    world = followed(LiveWorld(logs, PAYMENTS))
    [answer] = world.would(lines(payment(2, "20", 2)), 10**9)["answers"]
    assert [alert["aggregate"] for alert in answer["alerts"]] == ["60.00"] and world.error is None


def test_lines_of_the_stats_log_that_come_again_change_nothing(logs, now):
    for number in (1, 2, 1, 2, 3, 2):
        logs.log("events").append(lines(payment(10 + number, "5", 1)), AT) if number == 3 else None
        logs.cut(number, AT - 5, AT + number, Settings(PAYMENTS))
    world = followed(LiveWorld(logs, PAYMENTS))
    [answer] = world.would(lines(payment(2, "20", 2)), 10**9)["answers"]
    assert [alert["aggregate"] for alert in answer["alerts"]] == ["55.00"] and world.cut == 3


def test_a_record_that_turns_up_after_its_cut_counts_as_logged_at_the_cut(logs, now):
    """Else it would be too far in the future of its log time."""
    logs.log("events").append(lines(payment(2, "40") | {"eventTime": AT + 994}), AT - 7)
    logs.cut(1, AT - 5, AT, Settings(PAYMENTS, max_future_ms=1000))
    world = followed(LiveWorld(logs, PAYMENTS))
    [answer] = world.would(lines(payment(3, "15") | {"eventTime": AT + 1000}), 0)["answers"]
    assert [alert["aggregate"] for alert in answer["alerts"]] == ["55.00"]


def test_an_engine_that_begins_again_elsewhere_is_not_taken_for_the_same(logs, now):
    world = followed(LiveWorld(logs, PAYMENTS))
    logs.log("events").append(lines(payment(2, "1", 1)), AT)
    logs.cut(0, AT - 20, AT + 5, Settings(PAYMENTS))
    world.run()
    assert isinstance(world.error, ValueError)
    with pytest.raises(TimeoutError, match="the engine has begun again"):
        world.would(lines(payment(3, "1")), 10**9)


def test_a_new_engine_is_followed_from_the_beginning_of_the_logs(logs, now):
    world = followed(LiveWorld(logs, PAYMENTS))
    logs.log("events").append(lines(payment(2, "1", 2), payment(3, "15", 2)), AT)
    logs.cut(0, 0, AT - 4, Settings(PAYMENTS), "b", events=1)  # has read the first payment only
    now[0] = AT + 100
    with pytest.raises(TimeoutError, match="104 ms old.*another engine.*with a new checkpoint"):
        followed(world).would(lines(payment(4, "10", 2)), 103)
    found = world.would(lines(payment(4, "10", 2)), 104)
    assert found["asOf"] == {"cut": 0, "upTo": AT - 4} and found["answers"][0]["clear"]
    logs.cut(1, AT - 4, AT + 50, Settings(PAYMENTS, max_future_ms=150_000), "b")
    found = followed(world).would(lines(payment(4, "10", 2), payment(4, "10", 3)), 0)
    alerts, future = found["answers"]
    assert alerts["alerts"][0]["aggregate"] == "56.00" and "eventTime" in future["refused"]
    assert found["asOf"] == {"cut": 1, "upTo": AT + 100} and world.error is None


def test_an_engine_that_goes_on_after_another_one_ends_the_world_with_the_reason(logs, now):
    world = followed(LiveWorld(logs, PAYMENTS))
    logs.cut(7, AT - 5, AT + 5, Settings(PAYMENTS), "b")
    world.run()
    with pytest.raises(TimeoutError, match="another engine.*at cut 7.*start this program again"):
        world.would(lines(payment(3, "1")), 10**9)


def test_of_several_engines_the_one_that_wrote_last_is_followed(logs, now):
    logs.log("events").append(lines(payment(2, "1", 1)), AT)
    logs.cut(0, 0, AT + 1, Settings(PAYMENTS), "b")
    logs.cut(1, AT - 5, AT + 2, Settings(PAYMENTS))
    now[0] = AT + 3
    world = followed(LiveWorld(logs, PAYMENTS))
    assert world.error is None and world.as_of() == {"cut": 1, "upTo": AT + 3}
