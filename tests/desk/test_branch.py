"""A branch gives the alerts of a log in which the other rules came at that moment."""

import json
from collections import Counter
from contextlib import closing, nullcontext
from random import Random

import pytest

from lab.cli import desk
from lab.cli.main import main
from lab.desk.branch import standing_alerts
from lab.desk.compare import Comparison, Difference, differing
from lab.desk.livebranch import LiveBranch
from lab.desk.world import World
from lab.engine.checkpoint.settings import Settings
from lab.model.messages import parse_message
from lab.model.reference import Reference
from lab.model.rules import BadRule, RuleBook
from lab.model.schema import LOGINS
from lab.past.backtest import Past
from lab.sources.infer import infer
from tests.desk.test_live import Logs
from tests.desk.test_matrix import drawn, some_and_more, world_of
from tests.strategies import RETURNS

START = 1714557600000
EVENTS = [{"id": n, "at": START + n * 60_000, "card": "a", "amount": 10} for n in range(10)]
RULES = ["1: SUM(amount) per card over 3 min > 35", "2: COUNT(events) per card over 1 h > 8"]


def alerts_from(at: int, entries, settings, end: int) -> list[str]:
    """The ids of the alerts from a log time on."""
    how = {"late_policy": settings.late_policy, "key_groups": settings.key_groups}
    reference, before = Reference(settings.schema, **how), None
    for log_time, kind, text in entries:
        if log_time >= at and before is None:
            reference.advance_to(at)
            before = len(reference.alerts_and_withdrawals)
        if kind == "control":
            reference.control(text, log_time)
        else:
            reference.event(text, "", log_time)
    reference.advance_to(end)
    return [each.alert_id for each in standing_alerts(reference.alerts_and_withdrawals[before:])]


def is_about_a_rule(text: bytes, schema) -> bool:
    try:
        return parse_message(text, schema).list_change is None
    except BadRule:
        return True


@some_and_more
@pytest.mark.parametrize("schema", [LOGINS, RETURNS], ids=["logins", "returns"])
def test_the_lane_of_other_rules_is_a_log_in_which_they_came_then(schema, seeds):
    changed = 0
    for seed in seeds:
        entries, settings, end = drawn(seed, True, schema, "evaluate")
        rng, times = Random(seed), [at for at, _, _ in entries]
        at = times[len(times) // 2]
        before = [entry for entry in entries if entry[0] < at]
        after = [entry for entry in entries if entry[0] >= at]
        book = RuleBook(schema)
        for _, kind, text in before:
            if kind == "control":
                book.apply(text)
        removed = rng.choice(sorted(book.rules)) if len(book.rules) > 1 else None
        edited = [json.dumps(rule.to_dict()) for rule_id, rule in book.rules.items() if rule_id != removed]
        edited.append("99: COUNT(events) per userId over 1 h > 1")
        messages = [json.dumps({"ruleId": removed, "ruleState": "DELETE"})] * bool(removed) + edited[-1:]
        rest = [each for each in after if each[1] == "event" or not is_about_a_rule(each[2], schema)]
        branch = world_of(entries, settings, end).branch(edited, at)
        other = [*before, *((at, "control", each) for each in messages), *rest]
        assert [each.alert_id for each in branch.old] == alerts_from(at, entries, settings, end)
        assert [each.alert_id for each in branch.new] == alerts_from(at, other, settings, end), seed
        changed += len(branch.comparison.telling)
    assert changed


def test_of_finished_events_the_other_rules_begin_with_the_first_event_of_the_time():
    branch = World(EVENTS, RULES).branch("1: SUM(amount) per card over 3 min > 45", START + 6 * 60_000)
    ids = [
        [(each.rule_id, each.event_id) for each in lane] for lane in (branch.before, branch.old, branch.new)
    ]
    assert ids == [[(1, 3), (1, 4), (1, 5)], [(1, 6), (1, 7), (1, 8), (2, 8), (1, 9), (2, 9)], []]
    assert branch.comparison.counts == {1: (0, 4, 0), 2: (0, 2, 0)}
    said = {each.alert.rule_id: each.said for each in branch.comparison.telling}
    assert said == {1: "SUM(amount) per card over 3 min > 45", 2: "The new rules have no rule 2."}


def test_a_rule_that_stays_keeps_its_windows_and_one_with_new_keys_begins_empty():
    rules = [RULES[1], "3: COUNT(events) over 1 h > 1"]
    branch = World(EVENTS, RULES).branch(rules, START + 6 * 60_000)
    assert [(each.rule_id, each.event_id) for each in branch.new] == [(3, 7), (2, 8), (3, 8), (2, 9), (3, 9)]
    told = [each.said for each in branch.comparison.telling if each.is_new]
    assert told and all(
        said == "Rule 3 was not in force when event 7 came." or "8" in said or "9" in said for said in told
    )


def test_what_cannot_branch_says_so():
    world = World(EVENTS, RULES)
    with pytest.raises(BadRule):
        world.branch("1: SUM(nothing) per card over 3 min > 45", START)
    with pytest.raises(ValueError, match="a branch needs the log"):
        World.of_past(Past(LOGINS)).branch("1: COUNT(events) over 1 h > 1", START)


def test_the_command_prints_both_lanes_and_writes_a_page(tmp_path, capsys):
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, EVENTS)))
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    schema, page = tmp_path / "schema.toml", tmp_path / "page.html"
    schema.write_text(infer([json.dumps(event).encode() for event in EVENTS], "own").toml())
    given = ["branch", "1: SUM(amount) per card over 3 min > 45", str(tmp_path / "events.jsonl")]
    given += ["--rules", str(tmp_path / "rules.json"), "--schema", str(schema)]
    given += ["--at", "2024-05-01T10:06:00Z"]
    assert main([*given, "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "From 2024-05-01 10:06:00.000 UTC on: 6 alerts with the old rules, 0 with the new ones."
    )
    assert "   1     0         4         0" in said and "<svg" in page.read_text()
    with pytest.raises(SystemExit, match="2"):
        main(given[:-2])


def followed_branch(
    folder, entries, settings, end: int, edited, at: int, rng: Random
) -> tuple[set, Comparison]:
    """A live branch of a log whose cuts come at random: (is it new, alert id) of the alerts that only one lane has, and the comparison."""
    logs, number, since, found = Logs(folder), 0, 0, list[Difference]()
    logs.cut(0, 0, 0, settings)
    with closing(LiveBranch(logs, settings.schema, edited, at)) as lanes:
        for log_time, kind, text in [*entries, (end, "", b"")]:
            if (
                not kind or rng.random() < 0.2 and log_time > since
            ):  # everything logged before this time is there
                number += 1
                logs.cut(number, since, log_time, settings)
                since = log_time
                found += (lanes.step() or []) if rng.random() < 0.5 else []
            if kind:
                logs.log("events" if kind == "event" else kind).append([text], log_time)
        while (more := lanes.step()) is not None:
            found += more
        return {(each.is_new, each.alert.alert_id) for each in found}, lanes.comparison()


@some_and_more
def test_a_branch_that_goes_on_tells_the_differences_of_one_that_is_replayed(tmp_path, seeds):
    told = Counter[bool]()
    for seed in seeds:
        entries, settings, end = drawn(seed, True, LOGINS, "evaluate")
        rng, at = Random(seed), entries[len(entries) // 2][0]
        book = RuleBook(LOGINS)
        for log_time, kind, text in entries:
            if kind == "control" and log_time < at:
                book.apply(text)
        edited = [json.dumps(rule.to_dict()) for rule in book.rules.values() if rng.random() < 0.2]
        edited.append("99: COUNT(events) per userId over 1 h > 1")
        found, comparison = followed_branch(tmp_path / str(seed), entries, settings, end, edited, at, rng)
        branch = world_of(entries, settings, end).branch(edited, at)
        expected = {(is_new, alert.alert_id) for is_new, alert in differing(branch.old, branch.new)}
        assert found == expected and comparison.counts == branch.comparison.counts, seed
        told.update(is_new for is_new, _ in found)
    assert told[True]


def test_a_branch_goes_on_with_the_engine_that_wrote_last_and_ends_with_the_reason_if_another_takes_over(
    tmp_path,
):
    logs, settings = Logs(tmp_path), Settings(LOGINS)
    logs.log("control").append(["1: COUNT(events) per userId over 1 h > 0"], START - 10)
    event = {"eventId": 1, "eventTime": START, "userId": 7, "action": "login"}
    logs.log("events").append([json.dumps(event)], START)
    for number in range(3):
        logs.cut(number, 0, START - 5, settings, "gone", events=0)
    logs.cut(0, 0, START + 1, settings)
    lanes = LiveBranch(logs, LOGINS, ["2: COUNT(events) per userId over 1 h > 0"], START)
    assert [(each.is_new, each.alert.rule_id) for each in lanes.step()] == [(False, 1), (True, 2)]
    assert lanes.step() is None and lanes.comparison().counts == {1: (0, 1, 0), 2: (0, 0, 1)}
    logs.cut(0, 0, START + 1, settings, "new")
    with pytest.raises(ValueError, match="another engine goes on with these logs"):
        lanes.step()
    lanes.close()


def test_the_command_goes_on_until_it_is_stopped_and_prints_each_difference_and_the_counts(
    tmp_path, capsys, monkeypatch
):
    logs = Logs(tmp_path)
    logs.log("control").append(["1: COUNT(events) per userId over 1 h > 1"], START - 10)
    event = {"eventId": 1, "eventTime": START, "userId": 7, "action": "login"}

    def log(number: int, at: int) -> None:
        logs.log("events").append([json.dumps(event | {"eventId": number, "eventTime": at})], at)

    log(1, START)
    logs.cut(0, 0, START + 1, Settings(LOGINS))
    looks = iter(range(4))

    class Stopping:
        def wait(self, seconds: float) -> bool:
            look = next(looks)
            if look:
                log(1 + look, START + look)
                logs.cut(look, START + look, START + look + 1, Settings(LOGINS))
            return look == 3

    monkeypatch.setattr(desk, "stop_signals", lambda: nullcontext(Stopping()))
    edited = "2: COUNT(events) per userId over 1 h > 1"
    given = ["branch", edited, "--at", str(START + 1), "--logs", str(tmp_path), "--schema", "logins"]
    assert main([*given, "--follow"]) == 0
    first, second, third, _, header, *counts = capsys.readouterr().out.splitlines()
    assert first.startswith("only old  1  2  2024-05-01 10:00:00.001") and first.endswith(
        "The new rules have no rule 1."
    )
    assert second.startswith("only old  1  3") and third.startswith("only new  2  3")
    assert [line.split() for line in counts] == [
        ["1", "0", "2", "0"],
        ["2", "0", "0", "1"],
    ] and "only old" in header
    assert main([*given, "--follow", "--html", "x.html"]) == 2
