"""The engine's stages against the reference, over random logs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.inprocess import Entry, InProcessEngine
from lab.model import messages
from lab.model.alerts import Alert, Withdrawal, parse_alert_line
from lab.model.reference import COUNTS, Reference, evaluate_log
from lab.model.routestats import RouteTallies, bounded_route_id
from lab.model.rules import rule_message
from lab.model.schema import LOGINS, MAX_TIME
from tests.answers import only_answers
from tests.model.test_taken_back import standing
from tests.strategies import MINUTE


def batches(log: list[Entry], at: list[int]) -> list[list[Entry]]:
    return [log[first:end] for first, end in zip([0, *at], [*at, len(log)], strict=True)]


def assert_same(out: Mapping[str, Sequence[str]], reference: Reference, tasks: int = 1) -> None:
    """Asserts that an engine wrote what the reference says, except for times.

    The stats of several `tasks` are in no order, so they do not say which rules a route had last.
    """

    def without(line: str, *names: str) -> str:
        return json.dumps({name: value for name, value in json.loads(line).items() if name not in names})

    got = sorted(without(line, "logTime", "alertTime") for line in out["alerts"])
    assert got == sorted(without(told.to_json(), "logTime") for told in reference.alerts_and_withdrawals)
    shadow = sorted(without(line, "logTime", "alertTime") for line in out.get("shadow", ()))
    assert shadow == sorted(without(told.to_json(), "logTime") for told in reference.shadow_alerts)
    acks = [without(line, "logTime", "place") for line in only_answers(out["acks"])]
    assert acks == [json.dumps(ack) for ack in reference.acks]
    letters = sorted(json.loads(line)["reason"] for line in out["deadLetters"])
    assert letters == sorted(letter["reason"] for letter in reference.dead_letters)
    counts, tallies = dict.fromkeys((*COUNTS, "nanAsNull"), 0), RouteTallies()
    suppressed, muted, in_shadow = Counter[str](), Counter[str](), Counter[str]()
    for stats in map(json.loads, out["stats"]):
        tallies.add_stats(stats)
        suppressed.update(stats.get("suppressedByRule", {}))
        muted.update(stats.get("mutedByRule", {}))
        in_shadow.update(stats.get("shadowByRule", {}))
        for name in counts:
            counts[name] += stats.get(name, 0)
    assert counts == {**reference.counts, "nanAsNull": reference.nan_as_null.total()}
    assert suppressed == reference.suppressed
    assert muted == reference.muted
    assert in_shadow == Counter(f"{each.rule_id}.{each.rule_version}" for each in reference.shadow_alerts)
    found, expected = told(tallies), told(reference.tallies)
    assert {route: fates for route, (*_, fates) in found.items()} == {
        route: fates for route, (*_, fates) in expected.items()
    }
    assert tasks > 1 or found == expected
    assert counts["records"] == counts["deadLetters"] + counts["unrouted"] + counts["routed"]


def told(tallies: RouteTallies) -> dict[str, tuple]:
    """Rule, number of rules and fates of each route."""
    return {
        bounded_route_id(route): (tally.lowest_rule_id, tally.rule_count, +tally.counts)
        for route, tally in tallies.by_route.items()
    }


class DatedLogs:
    """The logs of an engine, and the reference. Alerts of the reference get the log times that those of the engine have."""

    def __init__(self, logs: FileLogs, reference: Reference, now: int):
        self.logs, self.reference, self.now = logs, reference, now
        self.told: list[Alert | Withdrawal] = []

    def take(self, kind: str, text: bytes, gap: int) -> None:
        self.now += gap
        self.logs.log("events" if kind == "event" else kind).append([text], self.now)
        if kind == "event":
            self.reference.event(text, log_time=self.now)
        else:
            self.reference.control(text, self.now)
        self._date()

    def advance(self, pause: int) -> None:
        """Nothing is logged for so long."""
        self.now += pause
        self.reference.advance_to(self.now)
        self._date()

    def assert_same(self, out: Mapping[str, Sequence[str]], tasks: int = 1) -> None:
        """Asserts that an engine wrote what the reference says, including log times."""
        assert_same(out, self.reference, tasks)
        got = list(map(parse_alert_line, out["alerts"]))
        assert Counter(replace(told, alert_time=None) for told in got) == Counter(self.told)
        assert standing(got) == standing(self.told)

    def _date(self) -> None:
        new = self.reference.alerts_and_withdrawals[len(self.told) :]
        self.told += [replace(told, log_time=told.log_time or self.now) for told in new]


class Dated(DatedLogs):
    """An engine in this process, and the reference, on the same logs."""

    def __init__(self, stages: InProcessEngine, reference: Reference):
        super().__init__(stages.own_logs, reference, MAX_TIME)
        self.stages = stages

    def cut(self, pause: int) -> None:
        """A micro-batch of what was logged before the end of a pause, be it nothing."""
        self.advance(pause)
        self.stages._log_time = self.now - 1
        self.stages.step()

    def assert_same_at_end(self) -> None:
        """After a last cut, long after all that may be awaited."""
        self.cut(60 * MINUTE)
        self.assert_same(self.stages.out)


def login(event_id: int, seconds: int, user: int = 1) -> Entry:
    return "event", json.dumps({"eventId": event_id, "eventTime": seconds * 1000, "userId": user}).encode()


def count_rule(operator: str, limit: int, window: str) -> Entry:
    rule = rule_message(1, ["userId"], None, "COUNT", operator, limit, window)
    return "control", json.dumps(rule).encode()


@pytest.mark.parametrize("lose_memory", [False, True])
@pytest.mark.parametrize("at", [[], [4], [4, 6]])
def test_a_rule_deleted_and_added_again_counts_from_the_start(at, lose_memory):
    rule = count_rule(">", 1, "5m")[1].replace(b'"COUNT"', b'"COUNT_WITH_RESET"')
    other = count_rule(">", 99, "5m")[1].replace(b'"ruleId": 1', b'"ruleId": 2')  # keeps the route's history
    log = [("control", rule), ("control", other), login(1, 100), login(2, 110)]  # fires and resets at event 2
    log += [("control", b'{"ruleId": 1, "ruleState": "DELETE"}'), ("control", rule), login(3, 120)]
    reference = evaluate_log(LOGINS, log)
    assert [(alert.event_id, alert.aggregate) for alert in reference.alerts] == [(2, 2), (3, 3)]
    with InProcessEngine(Settings(LOGINS)) as stages:
        for entries in batches(log, at):
            stages.run_batch(entries)
            if lose_memory:
                stages.lose_memory()
        assert_same(stages.out, reference)


def test_a_count_that_began_anew_goes_on_from_there_when_the_windows_were_lost():
    rule = count_rule(">", 1, "5m")[1].replace(b'"COUNT"', b'"COUNT_WITH_RESET"')
    log = [("control", rule), *(login(number, 100 + number) for number in range(1, 5))]
    reference = evaluate_log(LOGINS, log)
    assert [alert.event_id for alert in reference.alerts] == [2, 4]
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(log[:3])
        stages.lose_memory()
        stages.run_batch(log[3:])
        assert_same(stages.out, reference)


def test_an_aborted_first_batch_leaves_nothing_behind():
    log = [count_rule(">", 0, "1m"), login(1, 100)]
    with InProcessEngine(Settings(LOGINS)) as stages:
        initial = stages.mark
        stages.run_batch(log)
        stages.lose_memory()
        stages.out.clear()
        stages.mark = initial  # nothing was committed: only shared memory and files remain
        stages.step()
        assert_same(stages.out, evaluate_log(LOGINS, log))


def payment(number: int, seconds: float, payee: int, amount: str) -> Entry:
    event = {
        "transactionId": number,
        "eventTime": round(seconds * 1000),
        "payeeId": payee,
        "paymentType": "CSH",
    }
    return "event", json.dumps(event | {"paymentAmount": amount}).encode()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_stats_log_tells_what_each_route_dropped(parallelism):
    log = [("control", b"1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(60)")]
    log += [("control", b"2,(active),(paymentType),,(paymentAmount),(SUM),(>),(50),(1)")]
    log += [
        payment(1, 1000, 1, "1"),
        payment(2, 2000, 2, "2"),
        payment(3, 1001, 1, "3"),
        payment(1, 1000, 1, "4"),
    ]
    settings = Settings(key_groups=4, parallelism=parallelism)
    with InProcessEngine(settings) as stages:
        stages.run_batch(log)
        assert_same(stages.out, evaluate_log(settings.schema, log, key_groups=4))
        (route,) = [
            told["routes"]["payeeId"]
            for told in map(json.loads, stages.out["stats"])
            if "duplicates" in told.get("routes", {}).get("payeeId", {})
        ]
    assert route["example"] == {
        "id": 1,
        "time": 1_000_000,
        "key": "{payeeId=1}",
        "records": [{"paymentAmount": "1.00"}, {"paymentAmount": "4.00"}],
    }


@pytest.mark.parametrize("at", [[], [5], [6], [5, 7]])
def test_the_example_of_duplicates_is_that_of_the_reference(at):
    """Also where the event that is held came in a batch before, and is not the only one with its time."""
    unique = {"aggregatorFunctionType": "UNIQUE_COUNT", "unique": ["amount", "eventId"]}
    log = [
        (
            "control",
            count_rule(">", 0, "1m")[1]
            .replace(b"COUNT", b"SUM")
            .replace(b"}", b', "aggregateFieldName": "amount"}'),
        )
    ]
    log += [
        ("control", json.dumps(json.loads(count_rule(">", 0, "1m")[1]) | unique | {"ruleId": 2}).encode())
    ]
    lines = [
        {"eventId": n, "eventTime": 1000 * t, "userId": 1, "amount": amount}
        for n, t, amount in (
            (1, 100, "5"),
            (2, 100, None),
            (3, 100, "7"),
            (4, 130, "8"),
            (2, 100, "9"),
            (5, 131, "1"),
        )
    ]
    log += [("event", json.dumps(line).encode()) for line in lines]
    reference = evaluate_log(LOGINS, log)
    with InProcessEngine(Settings(LOGINS)) as stages:
        for entries in batches(log, at):
            stages.run_batch(entries)
        (example,) = [
            route["example"]
            for stats in map(json.loads, stages.out["stats"])
            for route in stats.get("routes", {}).values()
            if "example" in route
        ]
    (tally,) = reference.tallies.by_route.values()
    assert example == tally.example
    assert example["records"] == [{"amount": None, "eventId": 2}, {"amount": "9.00", "eventId": 2}]


@pytest.mark.parametrize("policy", ["evaluate", "drop"])
@pytest.mark.parametrize("at", [[], [5], [3, 8]])
def test_the_example_of_late_events_is_that_of_the_reference(policy, at):
    """One event dated ahead names itself, and costs its own group alone, if late events are dropped."""
    log = [count_rule(">", 0, "1m")]
    times = [(1, 100), (2, 100), (3, 101), (1, 5000), *((n, 5000 + n) for n in (4, 5, 6)), (1, 102), (2, 10)]
    for number, (user, at_s) in enumerate(times):
        event = {"eventId": number, "eventTime": 1000 * at_s, "userId": user}
        log.append(("event", json.dumps(event).encode()))
    settings = {"late_policy": policy, "key_groups": 1}
    reference = evaluate_log(LOGINS, log, **settings)
    with InProcessEngine(Settings(LOGINS, **settings)) as stages:
        for entries in batches(log, at):
            stages.run_batch(entries)
        examples = [
            route["lateExample"]
            for stats in map(json.loads, stages.out["stats"])
            for route in stats.get("routes", {}).values()
            if "lateExample" in route
        ]
    (tally,) = reference.tallies.by_route.values()
    assert examples[0] == tally.late_example and tally.counts["droppedLate"] == 2
    assert examples[0]["newest"] == {"id": 6, "time": 5_006_000}


def test_few_examples_are_looked_up_however_many_routes_have_duplicates():
    keys = [["userId"], ["ip"], ["country"], ["action"], ["device"]]
    log = [
        (
            "control",
            json.dumps(
                json.loads(count_rule(">", 9, "1m")[1]) | {"ruleId": n, "groupingKeyNames": names}
            ).encode(),
        )
        for n, names in enumerate(keys, 1)
    ]
    line = {
        "eventId": 1,
        "eventTime": 10**5,
        "userId": 1,
        "ip": "a",
        "country": "KR",
        "action": "x",
        "device": "d",
    }
    log += [("event", json.dumps(line).encode())] * 2
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch(log)
        (stats,) = map(json.loads, stages.out["stats"])
    assert [route["duplicates"] for route in stats["routes"].values()] == [1] * 5
    assert sum("example" in route for route in stats["routes"].values()) == 3


def test_a_control_message_is_read_once_in_a_process(monkeypatch):
    """Driver, routing tasks and window tasks each apply it; conditions are not written as text to be read again."""
    read = []
    for name in ("parse_message", "parse_rule_sentence", "parse_when"):
        of = getattr(messages, name)
        recorded = lambda text, *args, name=name, of=of: read.append(name) or of(text, *args)
        monkeypatch.setattr(messages, name, recorded)
    counted = "7: SUM(amount where userId > 1) where action = pay per userId over 7 min > 77, when userId > 2"
    refused = b"8: SUM(amount) per user over 7 min > 77"
    event = b'{"eventId": 1, "eventTime": 5, "userId": 7, "action": "pay", "amount": 78}'
    with InProcessEngine(Settings(LOGINS)) as stages:
        stages.run_batch([("control", counted.encode()), ("control", refused), ("event", event)])
        assert [json.loads(ack)["status"] for ack in stages.out["acks"]][-2:] == ["accepted", "rejected"]
        assert len(stages.out["alerts"]) == 1
    assert Counter(read) == {"parse_message": 2, "parse_rule_sentence": 2, "parse_when": 2}
