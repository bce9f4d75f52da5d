"""An operator is one row: `like`, added by this file alone, is read, refused, evaluated, written and documented."""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import compress
from pathlib import Path
from random import Random

import pytest
from jsonschema import Draft202012Validator

import lab
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.conditions import BadConditions
from lab.model.operators import OPERATORS, Operator, markdown_rows, with_negations
from lab.model.reference import Reference, evaluate_log
from lab.model.rules import BadRule, parse_message
from lab.model.schema import LOGINS
from lab.model.spec import control_message_json_schema
from lab.model.when import Comparison, when_text
from lab.model.whenreader import parse_when
from lab.past import columnpast, plainpast
from tests.engine import randomlogs
from tests.engine.test_inprocess import assert_same
from tests.past.test_past import alone
from tests.strategies import WHENS


def is_like(text: str, pattern: str) -> bool:
    """As `like` of SQL has it: % stands for any letters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("%"))), text, re.DOTALL) is not None


LIKE = Operator(
    *("like", "texts", is_like, "not like"),
    texts=lambda pc, column, pattern: pc.match_like(column, pattern),
    examples=('userAgent like "curl/%"', 'userAgent not like ("%bot", "curl/%")'),
    meaning="the text is, or is not, as this pattern, or as one of these",
)
CONDITIONS = (
    *("country like K%", "ip not like %a", 'country not like ("%N", KR) and amount > 0'),
    *("country like %R or ip is null", 'ip like ("%b", "a%K%") or userId = 1'),
)
RULE = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["userId"], "window": "5m"}
RULE |= {"aggregateFieldName": "COUNT", "limitOperatorType": ">=", "limit": 1}


@pytest.fixture(autouse=True, params=["columns", "each text"])
def operator(request, monkeypatch):
    """The operator, with a truth of columns, or with none but that of one text."""
    operator = LIKE if request.param == "columns" else replace(LIKE, texts=None)
    for words, each in with_negations([operator]).items():
        monkeypatch.setitem(OPERATORS, words, each)


@pytest.mark.parametrize("text", CONDITIONS)
def test_it_is_read_and_written(text):
    when = parse_when(text, LOGINS)
    assert parse_when(when_text(when), LOGINS) == when
    rule = parse_message(json.dumps(RULE | {"when": text, "where": text, "filter": text}), LOGINS).rule
    assert parse_message(json.dumps(rule.to_dict()), LOGINS).rule == rule
    assert parse_message(f"1: {rule.describe()}", LOGINS).rule.describe() == rule.describe()
    Draft202012Validator(control_message_json_schema(LOGINS)).validate(rule.to_dict())


def test_it_is_written_in_one_way():
    assert parse_when("device NOT LIKE bot", LOGINS) == Comparison("device", "not like", "bot")


@pytest.mark.parametrize(
    "text, because",
    [
        ("amount like 5", "amount is no text: like is for texts"),
        ("country like", "expected a value for country"),
        ("country like null", "nothing equals null"),
        ("country like K%, C%", 'one of several values: country like ("K%", …)'),
        ("country not KR", "expected in, startsWith, contains, endsWith, matches or like after country not"),
        ("country is_like KR", "not matches, is null, is not null, like or not like after country"),
        ("not country like R", "field not matches …, field not like …, field != …"),
        ("country = KR and like R", "repeat the field: … and country like …"),
    ],
)
def test_it_is_refused_with_the_reason(text, because):
    with pytest.raises(BadConditions) as error:
        parse_when(text, LOGINS)
    assert because in str(error.value)


def random_log(seed: int, monkeypatch) -> list:
    monkeypatch.setattr(randomlogs, "WHENS", (*CONDITIONS, *CONDITIONS, *WHENS))
    return randomlogs.random_log(Random(seed), short=True)


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 1_000), marks=pytest.mark.slow)])
def test_the_engine_finds_in_random_logs_what_the_reference_finds(monkeypatch, seeds):
    used = Counter()
    for seed in seeds:
        log = random_log(seed, monkeypatch)
        with InProcessEngine(Settings(LOGINS)) as engine:
            for at in range(0, len(log), 15):
                engine.run_batch(log[at : at + 15])
            reference = evaluate_log(LOGINS, log)
            assert_same(engine.out, reference)
        used["like"] += any(b" like " in text for _, text in log)
        used["alerts"] += bool(reference.alerts)
    assert min(used.values()) > len(seeds) / 4


@pytest.mark.parametrize("Past", [columnpast.Past, plainpast.Past])
def test_a_backtest_finds_in_random_logs_what_the_reference_finds(monkeypatch, Past):
    alerting = 0
    for seed in range(25):
        log = random_log(seed, monkeypatch)
        lines = [text for kind, text in log if kind == "event"]
        past = Past(LOGINS)
        past.add(lines)
        for text in (text for kind, text in log if kind == "control" and b" like " in text):
            try:
                rule = parse_message(json.dumps(json.loads(text) | {"ruleState": "ACTIVE"}), LOGINS).rule
            except BadRule:
                continue
            message = json.dumps(rule.to_dict())
            alerts = alone(Reference(LOGINS), message, lines, [0] * len(lines)).alerts
            found = past.aggregates(rule)
            ids = compress(found.ids.tolist(), found.alert_mask(rule, rule.first.limit))
            assert Counter(ids) == Counter(alert.event_id for alert in alerts), (seed, rule)
            alerting += bool(alerts)
    assert alerting > 3


def test_the_table_of_the_documentation_is_made_of_the_operators():
    table = (Path(lab.__file__).parents[1] / "docs/rules.md").read_text()
    rows = markdown_rows()
    added = [row for row in rows if " like " in row]
    assert all(row in table for row in rows if row not in added) and len(rows) - len(added) == 7


def test_no_other_code_names_an_operator_of_texts():
    """But for examples of conditions in a grammar, refusals and a hint."""
    root = Path(lab.__file__).parent
    naming = {path.name for path in root.rglob("*.py") if "startsWith" in path.read_text()}
    assert naming == {"operators.py", "examples.py", "hints.py", "patterns.py", "whenreader.py"}
