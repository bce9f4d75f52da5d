"""An aggregate is one row: `LAST`, the last value by event time, added by this file alone, is known everywhere.

The compiled loop takes the aggregates that there are when it is imported, so the checks run in a process of their own. It runs the
loop as plain Python, or, among the slow tests, compiles it anew.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import compress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest

from lab.model.aggregates import AGGREGATES, Aggregate

LAST = Aggregate(
    *("LAST", "field", 1, lambda values: values[-1], "queue", lambda value, older: True),
    other_names=("LATEST", "LAST_VALUE"),
    is_multiple=True,
    result="the value of the last event; of several at one time, of the one that came last",
    maintained="a queue in which every event supersedes all older ones",
)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_an_aggregate_from_one_object_is_known_everywhere(tmp_path, compiled):
    env = os.environ | {"NUMBA_DISABLE_JIT": str(int(not compiled)), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-m", __name__, "300" if compiled else "60"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["read", "documented", "stored", "chosen", "agreed", "tested"]


def check_sentences_and_refusals() -> None:
    from jsonschema import Draft202012Validator

    from lab.model.rules import BadRule, parse_message
    from lab.model.schema import LOGINS
    from lab.model.spec import control_message_json_schema

    for text in (
        "1: LAST(amount) per userId over 10 min > 2 × LAST(amount) over 1 h + 1",
        "1: COUNT(events) over 1 h > 2 and LAST(amount where country = KR) over 1 min without the current event <= 7",
    ):
        rule = parse_message(text, LOGINS).rule
        assert parse_message(f"1: {rule.describe()}", LOGINS).rule == rule, rule.describe()
        Draft202012Validator(control_message_json_schema(LOGINS)).validate(rule.to_dict())
    for text, because in {
        "1: LATEST(amount) over 1 h > 5": "here it is called LAST",
        "1: LAST(ip) over 1 h > 5": "ip is a string in the schema, and LAST takes a numeric field",
        "1: LAST(amount, userId) over 1 h > 5": "LAST takes one field",
        "1: FIRST(amount) over 1 h > 5": "SEQUENCE, LAST",
    }.items():
        try:
            parse_message(text, LOGINS)
        except BadRule as error:
            assert because in str(error), str(error)
        else:
            raise AssertionError(text)


def check_documentation() -> None:
    for name, row in (("aggregates", "markdown_row"), ("rules", "rules_markdown_row")):
        page = (Path(__file__).parents[2] / f"docs/{name}.md").read_text()
        missing = [each.name for each in AGGREGATES.values() if getattr(each, row) not in page]
        assert missing == [LAST.name] and "the value of the last event" in getattr(LAST, row)


def check_database(folder: Path) -> None:
    from sqlalchemy import create_engine, insert

    from lab.model.rules import parse_message
    from lab.model.schema import LOGINS
    from lab.rulestore.changes import rule_to_row
    from lab.rulestore.create import create_tables
    from lab.rulestore.tables import RULES

    rule = parse_message("1: LAST(amount) per userId over 10 min > 2", LOGINS).rule
    engine = create_engine(f"sqlite:///{folder}/rules.db")
    create_tables(engine)
    with engine.begin() as connection:
        connection.execute(insert(RULES).values(**rule_to_row(rule)))


def check_form_and_page() -> None:
    from lab.model.schema import LOGINS
    from lab.page.layout import page_layout
    from lab.widgets.ruleform import TYPES, RuleForm

    assert TYPES["LAST"] == "field" and "LAST" in RuleForm(LOGINS, print).function.options
    assert page_layout()["running"]["LAST"]["of"] == "field"


def check_random_logs(count: int) -> None:
    from lab.engine.checkpoint.settings import Settings
    from lab.engine.loop.inprocess import InProcessEngine
    from lab.model.reference import evaluate_log
    from lab.model.schema import LOGINS
    from tests.engine.drawn import first_difference
    from tests.engine.test_inprocess import assert_same

    assert not (different := first_difference(range(count))), different
    for seed in range(count // 3):
        log = with_last(seed)
        with InProcessEngine(Settings(LOGINS)) as engine:
            for at in range(0, len(log), 20):
                engine.run_batch(log[at : at + 20])
            assert_same(engine.out, evaluate_log(LOGINS, log))


def with_last(seed: int) -> list:
    """A random log in which every second rule is about the last value."""
    from tests.engine import randomlogs

    random_rule, names = randomlogs.random_rule, (*AGGREGATES, *["LAST"] * len(AGGREGATES))
    with patch.object(randomlogs, "random_rule", lambda rng, routes: random_rule(rng, routes, names)):
        return randomlogs.random_log(Random(seed), short=True)


def check_backtest(count: int) -> None:
    from lab.model.reference import Reference
    from lab.model.rules import BadRule, parse_message
    from lab.model.schema import LOGINS
    from lab.past import columnpast, plainpast
    from tests.past.test_past import alone

    alerting = 0
    for seed in range(count):
        log = with_last(seed)
        lines = [text for kind, text in log if kind == "event"]
        pasts = [module.Past(LOGINS) for module in (columnpast, plainpast)]
        for past in pasts:
            past.add(lines)
        for text in (text for kind, text in log if kind == "control" and b"LAST" in text):
            try:
                rule = replace(parse_message(text, LOGINS).rule, state="ACTIVE")
            except BadRule:
                continue
            alerts = alone(Reference(LOGINS), json.dumps(rule.to_dict()), lines, [0] * len(lines)).alerts
            for past in pasts:
                found = past.aggregates(rule)
                ids = compress(found.ids.tolist(), found.alert_mask(rule, rule.first.limit))
                assert Counter(ids) == Counter(alert.event_id for alert in alerts), (seed, rule)
            alerting += bool(alerts)
    assert alerting > 3


if __name__ == "__main__":
    AGGREGATES["LAST"] = LAST
    check_sentences_and_refusals()
    print("read")
    check_documentation()
    print("documented")
    with TemporaryDirectory() as folder:
        check_database(Path(folder))
        print("stored")
        check_form_and_page()
        print("chosen")
    check_random_logs(int(sys.argv[1]))
    print("agreed")
    check_backtest(25)
    print("tested")
