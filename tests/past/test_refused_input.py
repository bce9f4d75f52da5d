"""What functions of notebooks cannot take they refuse with a sentence, and take nothing in silence."""

import json
import warnings
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import lab
from lab.engine.checkpoint.settings import Settings
from lab.logs.files import FileLog
from lab.model.rules import BadRule
from lab.model.schema import LOGINS, PAYMENTS
from lab.past import plainpast
from lab.past.columnpast import Past
from lab.past.replay import NothingRead, replay
from lab.sources.sources import source_at
from tests.past.windows import window

LOGINS_OF_TWO = [
    '{"eventId": 1, "eventTime": 1000, "userId": 7, "action": "login", "amount": 1}',
    '{"eventId": 2, "eventTime": 2000, "userId": 7, "action": "logout", "amount": 1}',
    '{"eventId": 3, "eventTime": 3000, "userId": 7, "action": "login", "amount": 1}',
]
RULE = "1: COUNT(events) per userId over 1 h > 0"
PASTS = [Past, plainpast.Past]


class DataFrame:
    """As much of one as the refusal looks at: to iterate over it gives the names of its columns."""

    columns = ("eventId", "userId")

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize("kind", PASTS)
def test_a_past_refuses_what_is_no_lines(kind, tmp_path):
    past, file = kind(LOGINS), tmp_path / "events.csv"
    file.write_text("eventId,eventTime\n1,5\n")
    for given, said in (
        (DataFrame(), "to_pandas"),
        (LOGINS_OF_TWO[0], "a list of lines"),
        (b"{}", "a list of lines"),
        ([5], "row 0: int, expected a dict or a line of JSON"),
    ):
        with pytest.raises(TypeError, match=said):
            past.add(given)
    with file.open() as opened, pytest.raises(TypeError, match="lab.source_at"):
        past.add(opened)
    with file.open("rb") as opened, pytest.raises(TypeError, match="lab.source_at"):
        past.add(opened)
    assert len(past) == 0


@pytest.mark.parametrize("kind", PASTS)
def test_a_past_and_a_replay_take_rows_as_well_as_lines(kind, tmp_path):
    rows, file = [json.loads(line) for line in LOGINS_OF_TWO], tmp_path / "events.jsonl"
    file.write_text("\n".join(LOGINS_OF_TWO))
    for given in (rows, pd.DataFrame(rows), pa.Table.from_pylist(rows), file):
        past = kind(LOGINS)
        assert past.add(given) == 3
        past.history.apply(RULE)
        assert [event["eventId"] for event in window(past, 1, 3)] == [1, 2, 3]
        found = replay(given, [RULE], engine="reference", settings=Settings(LOGINS))
        assert found.alert_count == 3 and not found.dead_letters


def test_a_bad_row_is_a_dead_letter_with_its_number():
    rows = [*map(json.loads, LOGINS_OF_TWO), {"eventId": "x", "eventTime": 4000}]
    for engine in ("reference", "local"):
        for given in (rows, pd.DataFrame(rows[:3]).assign(userId=["x", "7", "7"])):
            letters = replay(given, [RULE], engine=engine, settings=Settings(LOGINS)).dead_letters
            places = [letter["place"] for letter in letters]
            assert places == (["row 3"] if given is rows else ["row 0", "row 1", "row 2"])
            assert '"x"' in letters[0]["reason"]


@pytest.mark.parametrize("kind", PASTS)
def test_a_past_says_when_it_could_read_nothing(kind):
    past = kind(PAYMENTS)
    with pytest.warns(UserWarning, match="none of 3 records is one of payments.*transactionId"):
        assert past.add(LOGINS_OF_TWO) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert past.add(LOGINS_OF_TWO, [1, 2, 3]) == 0  # a live log may have any record
        assert past.add([]) == past.add(["", "\n"]) == 0


@pytest.mark.parametrize("kind", PASTS)
def test_a_past_says_how_many_records_its_windows_lack(kind):
    rows = [{"eventId": n, "eventTime": n, "amount": "much" if n == 2 else n} for n in range(4)]
    for given in (rows, pd.DataFrame(rows).astype({"amount": str})):
        with pytest.warns(
            UserWarning, match="1 of 4 records are none of logins, and left out; the first: amount"
        ):
            assert kind(LOGINS).add(given) == 3


def test_a_log_and_a_replay_refuse_one_text_in_place_of_a_list(tmp_path):
    with pytest.raises(TypeError, match="a list of lines"):
        FileLog(tmp_path / "log").append("abc")
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(LOGINS_OF_TWO))
    with pytest.raises(TypeError, match="a list of rules"):
        replay(events, RULE, engine="reference", settings=Settings(LOGINS))


def test_a_replay_takes_the_schema_of_its_source_and_refuses_another_one(tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(LOGINS_OF_TWO))
    source = source_at(events, schema=LOGINS)
    assert replay(source, [RULE], engine="reference").alert_count == 3
    assert replay(source, [RULE], engine="reference", settings=Settings(LOGINS)).alert_count == 3
    with pytest.raises(ValueError, match="made for logins events, but the settings are for payments"):
        replay(source, [RULE], engine="reference", settings=Settings(PAYMENTS))


def test_csv_without_a_schema_is_refused_because_its_cells_have_no_types(tmp_path):
    events = tmp_path / "events.csv"
    events.write_text("eventId,eventTime,userId,action\n1,5,7,login\n")
    with pytest.raises(ValueError, match="schema"):
        replay(source_at(events), [RULE], engine="reference", settings=Settings(LOGINS))


def test_a_replay_of_dead_letters_alone_warns(tmp_path):
    events = tmp_path / "events.jsonl"
    events.write_text("\n".join(LOGINS_OF_TWO))
    with pytest.warns(NothingRead, match=r"all 3 records .* are dead letters.*transactionId"):
        replay(events, ["1: COUNT(events) over 1 h > 0"], engine="reference")


@pytest.mark.parametrize("kind", PASTS)
def test_a_window_has_only_the_events_that_count(kind):
    past = kind(LOGINS)
    past.add(LOGINS_OF_TWO)
    own = '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 1, "window": "1h", "where": "action = \\"login\\""}'
    past.history.apply(own)
    assert [event["eventId"] for event in window(past, 1, 3)] == [1, 3]
    assert len(window(past, 1, 3)) == past.aggregates(past.history.book.rules[1]).values.tolist()[-1]
    past.history.apply(json.dumps(json.loads(own) | {"excludeCurrent": True}))
    assert [event["eventId"] for event in window(past, 1, 3)] == [1]


def test_a_backtest_of_several_rules_counts_the_alerts_of_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_text("\n".join(LOGINS_OF_TWO))
    Path("rules.txt").write_text(
        f"{RULE}\n2: COUNT(events) per userId over 1 h > 1\n3: COUNT(events) over 1 h > 9\n"
    )
    backtest = ["events.jsonl", "--schema", "logins", "--engine", "reference"]
    from lab.cli.main import OK, main

    assert main(["rules", "backtest", "rules.txt", *backtest]) == OK
    out = capsys.readouterr().out
    assert "alerts: 5, groups: 1\n" in out
    assert "rule 1: alerts: 3, groups: 1" in out and "rule 2: alerts: 2" in out and "rule 3: alerts: 0" in out
    assert "rule 1: alerts: 3, groups: 1, events: 3, where no other rule alerts: 1\n" in out
    assert "rules 1 and 2: events at which both alert: 2\n" in out
    assert main(["rules", "backtest", RULE, *backtest]) == OK
    assert "rule 1: alerts" not in capsys.readouterr().out


def test_a_rule_id_that_comes_twice_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    from lab.cli.main import OK, main

    Path("events.jsonl").write_text("\n".join(LOGINS_OF_TWO))
    Path("rules.txt").write_text(f"{RULE}\n2: COUNT(events) over 1 h > 9\n{RULE.replace('> 0', '> 2')}\n")
    of_file = ["--schema", "logins", "--engine", "reference"]
    for words in (
        ["rules", "backtest", "rules.txt", "events.jsonl", *of_file],
        ["replay", "events.jsonl", "--rules", "rules.txt", *of_file],
        ["rules", "add", "rules.txt", "--schema", "logins", "--timeout", "0"],
    ):
        assert main(words) == OK
        out, err = capsys.readouterr()
        assert "hint for rule 1: it comes 2 times, and the last one applies" in out + err
        assert "rule 2: it comes" not in out + err
    with pytest.raises(BadRule):
        lab.replay("events.jsonl", ["nonsense"], engine="reference")
