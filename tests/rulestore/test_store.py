"""Rules as rows: what the engine would reject is refused, edits are kept with who made them, text is only ever text."""

import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest.mock import Mock

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from psycopg2.extras import PhysicalReplicationConnection
from sqlalchemy import create_engine, insert, text, update
from sqlalchemy.exc import DatabaseError, OperationalError, TimeoutError

from lab.cli.main import FAILED, OK, USAGE, main
from lab.logs.access import NotTrusted
from lab.machine import database
from lab.model.aggregates import AGGREGATES
from lab.model.jsontext import BadRecord
from lab.model.rules import BadRule, parse_message
from lab.model.schema import LOGINS, PAYMENTS
from lab.rulestore.changes import RuleChange, change_to_message, rule_to_row
from lab.rulestore.store import RuleStore, parse_row_json
from lab.rulestore.tables import RULE_ANSWERS, RULE_CHANGES, RULES
from lab.running.errormessage import error_message
from tests.anylogs import rules
from tests.examples import examples
from tests.postgresql import running_database
from tests.rulestore.conftest import new_database
from tests.waiting import wait_until

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50.10),(20)"
ROW = rule_to_row(parse_message(RULE, PAYMENTS).rule)
HOSTILE = "x'); DROP TABLE rules; --\" \\ %s :name {0} $$ \u2028 é"


def test_escaped_quotes_behind_one_that_is_not_closed_are_refused_in_no_time():
    began = time.process_time()
    with pytest.raises(BadRecord):
        parse_row_json('"' + '\\"' * 20_000)
    assert time.process_time() - began < 2


def edit(store: RuleStore, statement) -> None:
    with store.engine.begin() as connection:
        connection.execute(statement)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(message=rules())
def test_every_rule_comes_back_from_its_row_as_it_was(message):
    rule = replace(parse_message(message, LOGINS).rule, action="notify", ttl_ms=60_000)
    row = json.loads(json.dumps(rule_to_row(rule)))
    assert parse_message(change_to_message(RuleChange(1, str(rule.rule_id), row), "s"), LOGINS).rule == rule


def test_a_rule_is_a_row_and_its_message_gives_the_rule(store):
    store.put(RULE)
    (row,) = store.rows()
    assert (row["limit_operator_type"], str(row["limit_value"]), row["status"]) == (
        "GREATER",
        "50.1",
        "waiting",
    )
    (change,) = store.history(1)
    assert parse_message(change_to_message(change, "s"), PAYMENTS).rule == parse_message(RULE, PAYMENTS).rule


def test_the_history_tells_who_changed_what_and_an_edit_that_changes_nothing_is_none(store):
    store.put(RULE, by="ann")
    store.set_state(1, "PAUSE", by="bob")
    store.set_state(1, "PAUSE", by="cy")
    store.put(RULE.replace("50.10", "60"), by="dee")
    store.delete(1, by="eve")
    said = [
        (change.row["rule_state"], str(change.row["limit_value"]), change.row["disabled"])
        for change in store.history(1)
    ]
    assert said == [
        ("ACTIVE", "50.1", False),
        ("PAUSE", "50.1", False),
        ("ACTIVE", "60", False),
        ("ACTIVE", "60", True),
    ]
    who = [change.changed_by for change in store.history(1)]
    is_file = store.url.get_backend_name() == "sqlite"
    assert who == (["ann", "bob", "dee", "eve"] if is_file else ["lab"] * 4), (
        "PostgreSQL knows who is connected"
    )


@pytest.mark.parametrize(
    "message, reason",
    [
        (RULE.replace("payeeId", "payee"), 'unknown payments field "payee", did you mean payeeId?'),
        (RULE.replace("paymentAmount", "paymentType"), "SUM takes a numeric field"),
        ('{"ruleId": 9, "ruleState": "PAUSE"}', "expected a rule of "),
        ('{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}', "commands go to the control log"),
        ("{}", "ruleState"),
    ],
)
def test_the_store_refuses_with_the_rule_books_reason(store, message, reason):
    with pytest.raises(BadRule, match=reason.replace("?", r"\?")):
        store.put(message)
    assert not store.rows() and not store.last_change_id()


WRONG = [
    {"rule_id": 0},
    {"rule_state": "DELETE"},
    {"rule_state": "active"},
    {"aggregator_function_type": "MODE"},
    *(
        {"aggregator_function_type": name, "aggregate_field_name": None}
        for name, aggregate in AGGREGATES.items()
        if aggregate.argument_kind == "field"
    ),
    {"aggregator_function_type": "UNIQUE_COUNT", "unique_fields": None},
    {"aggregator_function_type": "UNIQUE_COUNT", "unique_fields": []},
    {"unique_fields": "payeeId"},
    {"aggregator_function_type": "SEQUENCE"},
    {"steps": "paymentType = CSH, paymentType = CRD"},
    {"grouping_key_names": {"payeeId": 1}},
    {"grouping_key_names": None},
    {"filter": ["paymentType"]},
    {"filter": {"paymentType": "C" * 60_000}},
    {"limit_operator_type": ">"},
    {"limit_value": None},
    {"limit_value": "NaN"},
    {"limit_value": "Infinity"},
    {"limit_value": "1e400"},
    {"limit_value": "1" + "0" * 24},
    {"limit_value": "0.1234567890123"},
    {"window_seconds": 0},
    {"window_seconds": 3661 * 86_400},
    {"window_seconds": None},
    {"action": "jail", "ttl_seconds": 1},
    {"action": "notify"},
    {"action": "block_login", "ttl_seconds": 60, "grouping_key_names": []},
    {"ttl_seconds": 5},
    {"action": "notify", "ttl_seconds": 0},
    {"changed_by": ""},
]


def test_the_database_refuses_a_row_that_the_engine_would_reject(store):
    edit(store, insert(RULES).values(ROW))
    for wrong in WRONG:
        if "changed_by" in wrong and store.url.get_backend_name() == "postgresql":
            continue  # a trigger fills it in
        for statement in (insert(RULES).values(ROW | {"rule_id": 2} | wrong), update(RULES).values(wrong)):
            with pytest.raises(DatabaseError):
                edit(store, statement)
                pytest.fail(f"{wrong} was let in")
    assert store.last_change_id() == 1


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"rule_state": "DELETE"}, "rule_state is ACTIVE, PAUSE or SHADOW"),
        ({"limit_operator_type": ">"}, "limit_operator_type is GREATER, LESS_EQUAL, or another name"),
        ({"window_seconds": 0}, "window_seconds is 1 to 316224000"),
        ({"action": "notify"}, "action and ttl_seconds need each other"),
        ({"severity": "urgent"}, "severity is low, medium, high, critical or null"),
        ({"title": "x" * 201}, "title has 1 to 200 characters"),
        ({"labels": ["fraud"]}, "labels is an object of texts of at most 50000 characters"),
        ({"filter": ["paymentType"]}, "filter is an object without nulls of at most 50000 characters"),
    ],
)
def test_what_the_database_says_tells_what_would_be_right(store, wrong, said):
    with pytest.raises(DatabaseError, match=said):
        edit(store, insert(RULES).values(ROW | wrong))


@pytest.mark.parametrize(
    "wrong", ["''", "'.5'", "'5.'", "'--5'", "'1-2'", "'1.2.3'", "'-'", "'5 '", "x'35'", "'0x5'"]
)
def test_a_limit_in_sqlite_is_a_decimal_in_plain_notation(tmp_path, wrong):
    store = RuleStore(f"sqlite:///{tmp_path}/rules.db", PAYMENTS)
    for limit in ("-0.5", "0", "9" * 24 + ".000000000001", "-" + "9" * 24):
        edit(store, insert(RULES).values(ROW | {"rule_id": 1 + len(store.rows()), "limit_value": limit}))
    with pytest.raises(DatabaseError):
        edit(store, text(f"UPDATE rules SET limit_value = {wrong} WHERE rule_id = 1"))


def test_a_row_is_not_deleted_and_keeps_its_number(store):
    store.put(RULE)
    statements = ["DELETE FROM rules", "UPDATE rules SET rule_id = 2"]
    statements += ["TRUNCATE rules"] * (store.url.get_backend_name() == "postgresql")
    for statement in statements:
        with pytest.raises(DatabaseError, match="disable"):
            edit(store, text(statement))
    assert [row["rule_id"] for row in store.rows()] == [1]


def test_hostile_text_in_any_column_is_refused_or_stays_text(store):
    no_texts = ("rule_id", "disabled", "exclude_current", "absence")
    lists = ("grouping_key_names", "unique_fields", "and_conditions", "or_conditions")
    taken = []
    for number, name in enumerate((name for name in ROW if name not in no_texts), start=1):
        value = [HOSTILE] if name in lists else HOSTILE
        value = {HOSTILE: HOSTILE} if name in ("filter", "labels", "limit_of", "at_most") else value
        before = len(store.rows())
        try:
            edit(store, insert(RULES).values(ROW | {"rule_id": number, name: value}))
        except DatabaseError:
            assert len(store.rows()) == before
        else:
            assert store.rows()[-1][name] == value == store.history(number)[0].row[name]
            taken.append(name)
    documents = {
        "grouping_key_names",
        "filter",
        "unique_fields",
        "labels",
        "limit_of",
        "and_conditions",
        "or_conditions",
        "at_most",
    }
    texts = {"aggregate_field_name", "when_condition", "title", "where_condition", "filter_condition"}
    assert {*taken} == documents | texts


@pytest.mark.parametrize(
    "attribute",
    ["groupingKeyNames", "unique", "aggregateFieldName", "filter", "limit", "window", "action", "when"],
)
def test_hostile_text_in_a_message_is_refused_by_name(store, attribute):
    given = json.loads(json.dumps(parse_message(RULE, PAYMENTS).rule.to_dict()))
    value = [HOSTILE] if attribute in ("groupingKeyNames", "unique") else HOSTILE
    given[attribute] = {HOSTILE: HOSTILE} if attribute == "filter" else value
    with pytest.raises(BadRule, match=attribute):
        store.put(json.dumps(given), by=HOSTILE)
    assert not store.rows()


def test_a_filter_and_a_name_may_hold_any_text(store):
    given = parse_message(RULE, PAYMENTS).rule.to_dict() | {"filter": {"paymentType": [HOSTILE, "a"]}}
    store.put(json.dumps(given), by=HOSTILE)
    (change,) = store.history(1)
    assert parse_message(change_to_message(change, "s"), PAYMENTS).rule.route.field_values == (
        ("paymentType", ("a", HOSTILE)),
    )


def test_a_filter_in_words_has_a_column_of_its_own_and_a_row_has_one_filter(store):
    given = parse_message(RULE, PAYMENTS).rule.to_dict()
    store.put(json.dumps(given | {"filter": "paymentAmount > 5 or paymentType is null"}))
    (row,) = store.rows()
    words = "paymentAmount > 5.00 or paymentType is null"
    assert (row["filter"], row["filter_condition"]) == (None, words)
    (change,) = store.history(1)
    assert parse_message(change_to_message(change, "s"), PAYMENTS).rule.to_dict()["filter"] == words
    for both in ({"filter": {"paymentType": "CSH"}}, {"filter_condition": "x" * 50_001}):
        with pytest.raises(DatabaseError, match="filter_condition: at most 50000 characters, and no filter"):
            edit(store, update(RULES).values(both))
    store.put(json.dumps(given | {"filter": "paymentType = CSH"}))
    assert [(row["filter"], row["filter_condition"]) for row in store.rows()] == [
        ({"paymentType": "CSH"}, None)
    ]


# -- who may do what, in PostgreSQL ------------------------------------------------------------------------------------


@pytest.fixture
def as_user(postgres):
    owner = new_database(postgres)
    RuleStore(owner, PAYMENTS).put(RULE)
    own = f"//{database.OWNER}@", f"/passwords/{database.OWNER}"
    return lambda user: owner.replace(own[0], f"//{user}@").replace(own[1], f"/passwords/{user}")


def test_a_store_of_other_columns_is_refused_with_what_it_lacks(tmp_path):
    url = f"sqlite:///{tmp_path}/rules.db"
    edit(RuleStore(url, PAYMENTS), text("ALTER TABLE rules RENAME COLUMN ttl_seconds TO ttl"))
    with pytest.raises(
        ValueError, match="another version of lab: its table rules has no ttl_seconds. Use another database"
    ):
        RuleStore(url, PAYMENTS)


def test_who_may_not_make_the_tables_is_told_who_does(postgres):
    with pytest.raises(
        ValueError, match="no rule store in .*, and analyst may not make one .*: any command with its owner"
    ):
        RuleStore(new_database(postgres, database.ANALYST), PAYMENTS)


def test_a_rule_that_somebody_else_adds_at_the_same_moment_is_changed(postgres):
    """
    another   insert ───────────────── commit
    this           update: no such row   insert: waits ─► is there already
    """
    store = RuleStore(new_database(postgres), PAYMENTS)
    other = store.engine.connect()
    other.execute(insert(RULES).values(ROW | {"changed_by": "other"}))
    with ThreadPoolExecutor(1) as threads:
        put = threads.submit(store.put, RULE.replace("50.10", "60"))
        wait_until(lambda: _waits(store))
        other.commit()
        other.close()
        put.result(30)
    assert [change.row["limit_value"] for change in store.history(1)] == [Decimal("50.10"), 60]


def _waits(store: RuleStore) -> bool:
    with store.engine.connect() as connection:
        return bool(connection.execute(text("SELECT 1 FROM pg_locks WHERE NOT granted")).first())


def test_a_reader_changes_nothing(as_user):
    store = RuleStore(as_user(database.READER), PAYMENTS)
    assert len(store.rows()) == 1 and len(store.history(1)) == 1
    for statement in (
        "UPDATE rules SET limit_value = 1",
        "INSERT INTO rules SELECT * FROM rules",
        "DELETE FROM rules",
        "TRUNCATE rules",
        "UPDATE rule_answers SET version = 9",
        "DELETE FROM rule_changes",
        "DROP TRIGGER rules_changed ON rules",
        "CREATE TABLE mine (id int)",
    ):
        with pytest.raises(DatabaseError, match="permission denied|must be owner"):
            edit(store, text(statement))


def test_an_analyst_edits_rules_but_neither_history_nor_answers_nor_who_did_it(as_user):
    store = RuleStore(as_user(database.ANALYST), PAYMENTS)
    store.set_state(1, "PAUSE", by="somebody else")
    edit(store, text("UPDATE rules SET limit_value = 7, changed_by = 'somebody else'"))
    assert [change.changed_by for change in store.history(1)] == ["lab", "analyst", "analyst"]
    for table in (RULE_CHANGES, RULE_ANSWERS):
        for statement in (table.delete(), update(table).values(subject="5")):
            with pytest.raises(DatabaseError, match="permission denied"):
                edit(store, statement)


def test_passwords_are_asked_for_and_nowhere_shown(postgres, as_user):
    without = as_user(database.ANALYST).partition("?")[0]
    with pytest.raises(DatabaseError, match="no password supplied|password authentication failed"):
        create_engine(without.replace("postgresql:", "postgresql+psycopg2:")).connect()
    assert (postgres.folder / "passwords" / "lab").stat().st_mode & 0o777 == 0o600
    store = RuleStore(as_user(database.OWNER), PAYMENTS)
    store.url = store.url.set(password="s3cret")
    assert "s3cret" not in repr(store)


def test_a_wrong_password_is_told_at_once_and_not_shown(as_user, tmp_path, capsys):
    (passwords := tmp_path / "passwords").write_text("*:*:*:*:s3cret-but-wrong\n")
    passwords.chmod(0o600)
    url = f"{as_user(database.OWNER).partition('?')[0]}?passfile={passwords}"
    logs = str(tmp_path / "logs")
    of = ["--store", url, "--logs", logs, "--schema", "payments"]
    for words in (["cdc", "run", *of], ["rules", "list", *of]):
        began = time.monotonic()
        assert main(words) == 1
        assert time.monotonic() - began < 5
        said = capsys.readouterr()
        assert "password authentication failed, expected that of this user in the file" in said.err
        assert "s3cret" not in said.out + said.err and "trying again" not in said.out + said.err


# -- lab rules --store -------------------------------------------------------------------------------------------------


def test_rules_are_rows_on_the_command_line(url, capsys):
    where = ["--store", url]
    assert main(["rules", "add", RULE, *where]) == OK
    assert main(["rules", "pause", "1", *where]) == OK
    assert "no answer yet; `lab cdc run`" in capsys.readouterr().out
    assert main(["rules", "list", *where]) == OK
    assert (
        "–    PAUSE    SUM(paymentAmount) per payeeId over 20 min > 50.1  [waiting; "
        in capsys.readouterr().out
    )
    assert main(["rules", "delete", "1", *where]) == OK
    assert main(["rules", "delete", "1", *where]) == USAGE
    assert main(["rules", "history", "1", *where]) == OK
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["rules", "add", RULE.replace("payeeId", "payee"), *where]) == USAGE
    assert "did you mean payeeId?" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["postgresql://me:s3cret@host/db", "postgresql://me@host/db?password=s3cret"])
def test_a_password_on_the_command_line_is_refused_and_not_repeated(url, capsys):
    with pytest.raises(SystemExit):
        main(["rules", "list", "--store", url])
    said = capsys.readouterr().err
    assert "s3cret" not in said and "passfile=FILE" in said and "PGPASSWORD" in said


def test_a_url_of_another_kind_is_refused_without_its_password(capsys):
    with pytest.raises(SystemExit):
        main(["rules", "list", "--store", "mysql://me:s3cret@host/db"])
    assert "s3cret" not in capsys.readouterr().err
    for url in (
        "mysql://me:s3cret@host/db",
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "postgresql://127.0.0.1",
    ):
        with pytest.raises(ValueError, match="expected one such as sqlite:///rules.db"):
            RuleStore(url, PAYMENTS)


def test_a_passfile_that_everybody_may_change_or_read_is_refused(tmp_path):
    (tmp_path / "pgpass").write_text("*:*:*:lab:hush\n")
    url = f"postgresql://lab@127.0.0.1:1/lab?passfile={tmp_path / 'pgpass'}"
    for mode, why in ((0o602, "everybody may change it"), (0o644, "has a secret, and everybody may read it")):
        (tmp_path / "pgpass").chmod(mode)
        with pytest.raises(NotTrusted, match=f"pgpass: {why}") as error:
            RuleStore(url, PAYMENTS)
        assert "hush" not in str(error.value)


# -- users with few rights ---------------------------------------------------------------------------------------------


def test_who_captures_writes_answers_and_positions_and_nothing_else(as_user):
    store = RuleStore(as_user(database.CAPTURE), PAYMENTS)
    with store.engine.connect() as connection:
        rights = connection.execute(
            text(
                "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles WHERE rolname = session_user"
            )
        ).one()
    assert rights == (False, False, False, True)
    store.set_last_sent_change_id("logs/control", 1)
    for statement in (
        "UPDATE rules SET limit_value = 7",
        "INSERT INTO rule_changes (subject, changed_at, changed_by, row_after) VALUES ('1', now(), 'x', '{}')",
        "DELETE FROM rule_changes",
        "DROP PUBLICATION lab_rule_changes",
        "CREATE TABLE mine (id int)",
        "SELECT pg_read_file('pg_hba.conf')",
    ):
        with pytest.raises(DatabaseError, match="permission denied|must be owner"):
            edit(store, text(statement))


def test_who_may_replicate_copies_no_data_folder(postgres, as_user):
    with pytest.raises(psycopg2.OperationalError, match="no pg_hba.conf entry for replication connection"):
        psycopg2.connect(as_user(database.CAPTURE), connection_factory=PhysicalReplicationConnection)


@pytest.mark.slow
def test_users_with_few_rights_are_made_in_a_database_of_one_s_own(needs_postgres, tmp_path, capsys):
    with running_database() as postgres:
        own = new_database(postgres)
        with (
            closing(psycopg2.connect(postgres.url())) as connection,
            connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("DROP ROLE capture, analyst, reader")
        command = ["db", "roles", "--store", own, "--passwords", str(tmp_path / "words")]
        assert main(command) == OK
        assert {path.name for path in (tmp_path / "words").iterdir()} == {"capture", "analyst", "reader"}
        said = capsys.readouterr().out
        for user in ("analyst", "capture", "reader"):
            file = tmp_path / "words" / user
            assert (
                file.read_text().split(":")[-1].strip() not in said and file.stat().st_mode & 0o777 == 0o600
            )
            url = own.replace("//lab@", f"//{user}@").partition("?")[0] + f"?passfile={file}"
            store = RuleStore(url, PAYMENTS)
            if user == "analyst":
                store.put(RULE)
                store.delete(1)
            assert len(store.history(1)) == 2
        assert main(command) == OK and "already existed" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["cdc", "run"], ["cdc", "status"], ["rules", "list"]])
@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("text.db", "text.db: file is not a database, expected"),
        ("nowhere/rules.db", "nowhere/rules.db: unable to open database file, expected"),
    ],
)
def test_a_file_that_is_no_database_ends_a_command_that_names_it(
    tmp_path, monkeypatch, capsys, words, file, says
):
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("not a database, and longer than the head of one " * 20)
    again = Mock(is_set=lambda: False, wait=Mock(side_effect=AssertionError("it tries again")))
    monkeypatch.setattr("lab.running.storedrules.stop_signals", lambda: nullcontext(again))
    assert main([*words, "--store", f"sqlite:///{file}", "--schema", "payments"]) == FAILED
    assert says in capsys.readouterr().err


def test_an_error_of_sqlalchemy_s_own_has_a_reason():
    assert (
        error_message(TimeoutError("QueuePool limit of size 5 reached"))
        == "QueuePool limit of size 5 reached"
    )
    of_driver = OperationalError("SELECT 1", {}, sqlite3.OperationalError("database is locked"))
    assert error_message(of_driver) == "database is locked"


def test_what_is_nested_too_deep_becomes_null_wherever_it_is_and_the_rest_stays():
    deep, brackets = "[" * 500 + "]" * 500, '"]}[{"'
    found = parse_row_json(f'{{"a": [[1], [2]], "b": {deep}, "c": {brackets}, "d": {deep}, "e": [[3]]}}')
    cut = found["b"]
    while isinstance(cut, list):
        (cut,) = cut
    assert cut is None and found["d"] == found["b"]
    assert (found["a"], found["c"], found["e"]) == ([[1], [2]], "]}[{", [[3]])
