"""The values of aggregates as columns, beside what the conditions of a verdict measure."""

import json
import warnings
from decimal import Decimal
from random import Random

import pytest

from lab.cli.main import main
from lab.desk import world as worlds
from lab.desk.features import features
from lab.desk.world import World, conditions_that_hold
from lab.engine.checkpoint.settings import Settings
from lab.model.field import Field
from lab.model.messages import parse_message
from lab.model.operators import RELATIONS
from lab.model.schema import LOGINS, Schema
from lab.past.alertframe import alerts
from lab.past.badrows import BadRows
from lab.sources.infer import infer
from tests.desk.test_tuning import random_events

RULES = [
    "1: SUM(amount) per userId over 5 min > 3 and COUNT(events where action = pay) over 1 min < 2",
    "2: STDDEV(amount) per userId, country over 30 min > 1 × AVG(amount) over 2 min + 1",
    "3: MIN(amount) where country in (KR, CN) over 2 min without the current event = 1, when userId = 2",
    "4: COUNT_WITH_RESET(events) per ip over 5 min >= 3",
]


def test_features_are_what_conditions_measure(monkeypatch):
    monkeypatch.setattr(worlds, "COMPILED", False)  # the values are the same, and nothing is compiled
    rng, at, lines = Random(5), 6_000_000, []
    for number in range(60):
        at += rng.choice([0, 1_000, 20_000, 90_000])
        event = {
            "eventId": number,
            "eventTime": at,
            "userId": rng.choice([1, 2, None]),
            "ip": rng.choice("ab"),
        }
        event |= {"action": rng.choice(["login", "pay"]), "country": rng.choice(["KR", "CN", "US"])}
        lines.append(json.dumps(event | {"amount": rng.choice([None, "-3.25", "1", "2.5"])}).encode())
    world = World(lines, RULES, LOGINS, Settings(LOGINS))
    rows = {row["eventId"]: row for row in world.features()}
    names = [name for name in rows[0] if name not in ("eventId", "eventTime")]
    assert len(names) == 6 and "COUNT(events) per ip over 5 min" in names
    compared = 0
    for number in range(60):
        for rule_id in (1, 2, 3):
            verdict = world.why_not(number, rule_id)
            assert verdict.rule
            per = f" per {', '.join(verdict.rule.keys)}" if verdict.rule.keys else ""
            per = f" where country in (CN, KR){per}" if verdict.rule.filter else per
            for each in verdict.conditions:
                found = rows[number][each.condition.aggregation.describe(per)]
                assert found == each.measured.aggregate, (number, rule_id)
                compared += found is not None
    assert compared > 100


def test_features_of_an_engine_are_refused():
    world = World.of_records(Settings(LOGINS), list, list, 1)
    with pytest.raises(ValueError, match="of an engine's logs"):
        world.features()


@pytest.mark.parametrize("seed", range(3))
def test_features_of_a_table_are_a_table_with_the_values_of_the_reference(
    seed, monkeypatch, tmp_path, capsys
):
    pandas, rows = pytest.importorskip("pandas"), random_events(seed, 30)
    rules = [
        "1: SUM(amount) per card over 10 min > 20",
        "2: AVG(amount) over 1 min > 1 and COUNT(events) over 1 h > 3",
    ]
    monkeypatch.setattr(worlds, "COMPILED", False)  # the reference
    expected = World(rows, rules).features()
    monkeypatch.setattr(worlds, "COMPILED", True)
    frame = features(pandas.DataFrame(rows), rules)
    names = [*expected[0]]
    assert list(frame.columns) == names and str(frame.eventTime.dtype) == "datetime64[ms, UTC]"
    times = [int(time.timestamp() * 1000) for time in frame.eventTime]
    assert times == [row["eventTime"] for row in expected]
    for name in (each for each in names if each != "eventTime"):
        assert [None if value is None else value for value in frame[name]] == [row[name] for row in expected]
    assert features(rows, rules) == expected
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    (tmp_path / "own.toml").write_text(infer([json.dumps(row).encode() for row in rows], "own").toml())
    given = [
        str(tmp_path / "events.jsonl"),
        "--rules",
        str(tmp_path / "rules.json"),
        "--out",
        str(tmp_path / "out.parquet"),
    ]
    assert main(["features", *given, "--schema", str(tmp_path / "own.toml")]) == 0
    assert "30 events, 5 columns" in capsys.readouterr().out
    read = pandas.read_parquet(tmp_path / "out.parquet")
    assert read.to_dict("list") == frame.to_dict("list")


def test_features_of_no_rules_and_unknown_files_are_refused(tmp_path, capsys):
    (tmp_path / "rules.json").write_text("[]")
    given = ["features", str(tmp_path / "none.csv"), "--rules", str(tmp_path / "rules.json")]
    assert main([*given, "--out", str(tmp_path / "no" / "out.parquet")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main([*given, "--out", str(tmp_path / "out.parquet")]) == 1


@pytest.mark.parametrize("ask", [features, World])
def test_rows_that_no_window_has_are_told_as_those_of_alerts(ask):
    """They were left out without a word, and the values at the other events were wrong."""
    pandas, start = pytest.importorskip("pandas"), 1_714_557_600_000
    rows = [{"id": n, "at": start + n, "card": "a", "x": x} for n, x in enumerate(("1.5", "2.5", "3.5"))]
    schema, rule = infer(rows, "events").schema, "SUM(x) per card over 1 h > 0"
    bad = [*rows, {"id": 3, "at": start, "card": "a", "x": "much"}, rows[0] | {"id": 4}]
    for table in (bad, pandas.DataFrame(bad)):
        with pytest.raises(ValueError, match="1 of 5 rows are no events: row 3: x: ") as of_alerts:
            alerts(table, rule, schema)
        with pytest.raises(ValueError) as found:
            ask(table, rule, schema)
        assert str(found.value) == str(of_alerts.value)
        with pytest.warns(BadRows, match="1 of 5 rows are no events: row 3.* left out"):
            ask(table, rule, schema, bad_rows="warn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask([rows[0] | {"id": 5}, *rows], rule, schema)
    with pytest.raises(ValueError, match="bad_rows: 'skip', expected 'raise' or 'warn'"):
        ask(rows, rule, schema, bad_rows="skip")


def test_features_of_no_events_are_an_empty_table():
    pandas, rule = pytest.importorskip("pandas"), "SUM(x) per card over 1 h > 0"
    rows = [{"id": 1, "at": 1_714_557_600_000, "card": "a", "x": 1.5}]
    frame = pandas.DataFrame(rows)
    assert features([], rule) == features([], rule, infer(rows, "events")) == []
    whole, none = (features(of, rule, infer(rows, "events")) for of in (frame, frame[:0]))
    assert none.dtypes.to_dict() == whole.dtypes.to_dict() and not len(none)
    without_schema = features(frame[:0], rule)
    assert list(without_schema.columns) == ["eventId", "eventTime"] and not len(without_schema)


def test_a_feature_has_every_value_that_its_aggregate_can_have():
    """One condition that always holds is written fast, and no limit is below all sums of very large integers."""
    least, start = -(2**63), 1_714_557_600_000
    rows = [{"id": n, "at": start + n, "n": least, "x": "-9999999999999999.99"} for n in range(30)]
    own = Schema(
        "own",
        (*infer(rows, "own").schema.fields[:2], Field("n", "long"), Field("x", "decimal(18,2)")),
        ("id",),
        "at",
    )
    names = {
        f"{of}(n) over 1 h": f"{of}(n) over 1 h > 0"
        for of in ("SUM", "AVG", "MIN", "VARIANCE", "CHANGE", "STDDEV")
    }
    names |= {f"{of}(x) over 1 h": f"{of}(x) over 1 h > 0" for of in ("SUM", "CHANGE")}
    names |= {"COUNT(events) over 1 h": "COUNT(events) over 1 h > 9", "VALUE(n)": "VALUE(n) > 0"}
    world = World(rows, [*names.values()], own)
    assert {*map(len, (rule.conditions for rule in world.rules_of_features().values()))} == {1}
    last = world.features()[-1]
    assert last["SUM(n) over 1 h"] == 30 * least and last["SUM(x) over 1 h"] == 30 * Decimal(
        "-9999999999999999.99"
    )
    for of, enough in (("n", 10**5), ("x", 10**8)):
        aggregation = parse_message(f"1: SUM({of}) over 1 h > 0", own).rule.aggregation
        for events in (enough - 1, enough - 2):
            world.past.arrived = events
            conditions = conditions_that_hold(aggregation, world.past)
            lowest = events * rows[0][of] if of == "n" else events * Decimal(rows[0][of])
            assert len(conditions) == 1 + (events == enough - 1)
            for value in (lowest, 0, -lowest):
                assert any(RELATIONS[each.symbol](value, each.limit) for each in conditions)
