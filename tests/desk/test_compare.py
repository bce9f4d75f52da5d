"""What an edit of rules changes: alerts of both sides, and the events that tell most, with the reason."""

import json

import pytest

from lab.cli.main import main
from lab.desk import world as worlds
from lab.desk.world import World
from lab.past import plainpast
from lab.past.replay import replay
from lab.sources.infer import infer
from tests.desk.test_tuning import random_events

OLD = ["1: SUM(amount) per card over 10 min > 20", "2: COUNT(events) over 1 h > 30", "3: VALUE(amount) > 7"]
NEW = ["1: SUM(amount) per card over 10 min > 22.5", "2: COUNT(events) over 1 h > 30", "4: VALUE(amount) < 2"]


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.setattr(worlds, "Past", plainpast.Past)
    monkeypatch.setattr(worlds, "COMPILED", False)  # the alerts are the same, and nothing is compiled


def places(world: World, rules: list[str]) -> set[tuple]:
    found = replay(random_events(5), rules, engine="reference", settings=world.settings)
    return {(each.rule_id, each.event_id) for each in found.alerts}


def test_alerts_are_of_both_or_only_of_one_as_two_replays_say():
    world = World(random_events(5), OLD)
    found = world.compare(NEW, top=1_000)
    old, new = places(world, OLD), places(world, NEW)
    assert {(each.alert.rule_id, each.alert.event_id) for each in found.telling if each.is_new} == new - old
    assert {
        (each.alert.rule_id, each.alert.event_id) for each in found.telling if not each.is_new
    } == old - new
    for rule, (both, only_old, only_new) in found.counts.items():
        sides = [{at for at in side if at[0] == rule} for side in (old & new, old - new, new - old)]
        assert [both, only_old, only_new] == [len(side) for side in sides]
    assert found.counts[1][1] and not found.counts[2][1] and found.counts[4][2]
    distances = [each.from_limit for each in found.telling]
    assert distances == sorted(distances) and len(world.compare(NEW).telling) == 10
    assert "nearest to the limit" in found.text() and "<table" in found._repr_html_()
    said = {each.alert.rule_id: each.said for each in found.telling}
    assert "from the limit 22.5" in said[1] and "Rule 3 was not in force" in said[3]


def test_the_world_keeps_its_own_rules():
    world = World(random_events(5), OLD)
    before = [each.alert_id for each in world.alerts]
    world.compare(NEW)
    assert [each.alert_id for each in world.alerts] == before and world.why_not(1, 3).rule
    assert world.compare(OLD).telling == ()


def test_events_of_a_known_schema_may_be_objects(tmp_path, capsys):
    payment = {"eventTime": 1735689691913, "payeeId": 5, "beneficiaryId": 9, "paymentType": "CRD"}
    rows = [payment | {"transactionId": n, "paymentAmount": n} for n in range(1, 9)]
    (tmp_path / "payments.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rules = (f"1: VALUE(paymentAmount) > {limit}" for limit in (3, 5))
    assert main(["rules", "diff", *rules, str(tmp_path / "payments.jsonl")]) == 0
    assert "VALUE(paymentAmount) > 5 is false at event 5: the value is 5.00" in capsys.readouterr().out


def test_the_commands_print_what_changes_and_what_each_rule_finds_of_the_labels(tmp_path, capsys):
    rows = random_events(5)
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "old.json").write_text(json.dumps(OLD))
    (tmp_path / "new.json").write_text(json.dumps(NEW))
    (tmp_path / "own.toml").write_text(infer([json.dumps(row).encode() for row in rows], "own").toml())
    schema = ["--schema", str(tmp_path / "own.toml")]
    files = [str(tmp_path / name) for name in ("old.json", "new.json", "events.jsonl")]
    assert main(["rules", "diff", *files, *schema, "--top", "2"]) == 0
    printed = capsys.readouterr().out
    assert "only old" in printed and printed.count("2024-05-01") == 2
    given = [files[0], files[2], *schema, "--engine", "reference", "--labels", "fraud"]
    assert main(["rules", "backtest", *given]) == 0
    printed = capsys.readouterr().out
    assert World(rows, OLD).scores("fraud").text() in printed and "both alert" in printed
