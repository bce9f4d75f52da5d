"""An attribute is one row: `owner`, added by this file alone, is read, refused, stored, offered by the form, documented and carried."""

import importlib
import json
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

import lab
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.alerts import Alert
from lab.model.attributes import ATTRIBUTES, Attribute, Clause, clause_markdown_rows, markdown_rows
from lab.model.kinds import BadRule, Text
from lab.model.reference import evaluate_log
from lab.model.rules import parse_message
from lab.model.schema import LOGINS
from lab.model.spec import alert_json_schema, control_message_json_schema
from lab.widgets.alertfacts import alert_facts_html
from lab.widgets.ruleform import RuleForm
from tests.rulestore.conftest import needs_postgres, postgres, url  # noqa: F401

OWNER = Attribute(
    "owner",
    Text("ann"),
    "a text of at most 200 characters: who answers for the rule",
    clause=Clause("owner", 'owner "ann"', "`owner`"),
    column="owner",
)
SENTENCE = '1: COUNT(events) per userId over 5 min > 0, severity high, owner "Ann, of \\"risk\\"", with ip of the event'
NAME = 'Ann, of "risk"'
EVENT = b'{"eventId": %d, "eventTime": 5, "userId": 7, "ip": "::1"}'


@pytest.fixture(autouse=True)
def owner(monkeypatch):
    monkeypatch.setitem(ATTRIBUTES, "owner", OWNER)


@pytest.fixture
def rulestore():
    """The modules that make tables of the attributes, made anew with this one, and without it afterwards."""
    names = [name for name in sys.modules if name.startswith("lab.rulestore")]
    before = {name: sys.modules.pop(name) for name in names}
    yield importlib.import_module("lab.rulestore.store"), importlib.import_module("lab.rulestore.changes")
    for name in [name for name in sys.modules if name.startswith("lab.rulestore")]:
        del sys.modules[name]
    sys.modules |= before


def test_a_sentence_says_it_and_json_too():
    rule = parse_message(SENTENCE, LOGINS).rule
    assert rule.carries("owner") == rule.to_dict()["owner"] == NAME
    assert parse_message(f"1: {rule.describe()}", LOGINS).rule == rule
    assert parse_message(json.dumps(rule.to_dict()), LOGINS).rule == rule


@pytest.mark.parametrize(
    ("message", "because"),
    [
        ("1: COUNT(events) over 1 h > 1, owner ann", 'expected the owner in quotes, such as owner "ann"'),
        ('1: COUNT(events) over 1 h > 1, owner "a", owner "b"', "owner is given twice"),
        ('1: COUNT(events) over 1 h > 1, owner ""', 'owner: "", expected a text of 1 to 200 characters'),
        ("1: COUNT(events) over 1 h > 1, boss 7", "title, labels, with or owner after the comma"),
        ('{"ruleId": 1, "ruleState": "ACTIVE", "ownr": "a"}', "did you mean owner?"),
    ],
)
def test_it_is_refused_with_the_reason(message, because):
    with pytest.raises(BadRule) as error:
        parse_message(message, LOGINS)
    assert because in str(error.value)


def test_json_schemas_have_it():
    rule = parse_message(SENTENCE, LOGINS).rule
    control = Draft202012Validator(control_message_json_schema(LOGINS))
    control.validate(rule.to_dict())
    assert not control.is_valid(rule.to_dict() | {"owner": 7})


def test_both_databases_have_it(rulestore, url):  # noqa: F811
    stores, changes = rulestore
    store = stores.RuleStore(url, LOGINS)
    rule = parse_message(SENTENCE, LOGINS).rule
    store.put(SENTENCE)
    (change,) = store.history(1)
    assert store.rows()[0]["owner"] == change.row["owner"] == NAME
    assert parse_message(changes.change_to_message(change, "s"), LOGINS).rule == rule
    with (
        pytest.raises(DatabaseError, match="owner has 1 to 200 characters"),
        store.engine.begin() as connection,
    ):
        connection.execute(text("UPDATE rules SET owner = ''"))


def test_the_form_shows_and_makes_it():
    rule = parse_message(SENTENCE, LOGINS).rule
    form = RuleForm(LOGINS, lambda: None)
    form.fill(rule)
    assert form.carried["owner"].value == NAME and parse_message(form.message(), LOGINS).rule == rule
    form.carried["owner"].value = "Bob"
    assert parse_message(form.message(), LOGINS).rule.carries("owner") == "Bob"


def test_the_documentation_is_made_of_it():
    page = (Path(lab.__file__).parents[1] / "docs/rules.md").read_text()
    rows = [*markdown_rows(), *clause_markdown_rows()]
    assert sum("owner" in row for row in rows) == 2
    assert all(row in page for row in rows if "owner" not in row)


@pytest.mark.parametrize("count", [1, 50])
def test_alerts_of_the_reference_and_of_the_engine_carry_it(count):
    """Few alerts are written one by one, many as columns."""
    log = [("control", SENTENCE.encode()), *(("event", EVENT % number) for number in range(count))]
    expected = [alert.to_json() for alert in evaluate_log(LOGINS, log).alerts]
    with InProcessEngine(Settings(LOGINS)) as engine:
        engine.run_batch(log)
        found = [json.loads(line) for line in engine.out["alerts"]]
    assert [alert["owner"] for alert in found] == [NAME] * count
    assert [json.loads(line)["owner"] for line in expected] == [NAME] * count
    alert = Alert.from_json(expected[0])
    assert alert.to_json() == expected[0] and alert.carries("owner") == NAME
    Draft202012Validator(alert_json_schema(LOGINS)).validate(json.loads(expected[0]))
    assert "<dt>owner</dt>" in alert_facts_html(alert, None)


def test_no_other_code_names_it():
    root = Path(lab.__file__).parent
    assert not [path for path in root.rglob("*.py") if '"owner"' in path.read_text()]
