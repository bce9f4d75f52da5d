"""Changes of rows reach the control log in order, each accepted once whatever crashes, and the answers come back."""

import json
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread, Timer

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from lab.cli.main import OK, USAGE, main
from lab.engine.loop.filelogs import FileLogs
from lab.machine import database
from lab.model.rules import BadRule, RuleBook, parse_message
from lab.model.schema import PAYMENTS
from lab.rulestore import capture as captures
from lab.rulestore import replication
from lab.rulestore.capture import Capture
from lab.rulestore.changes import RuleChange, change_in_message, change_to_message
from lab.rulestore.create import grant_rights
from lab.rulestore.feeds import CaptureBusy, TableFeed
from lab.rulestore.pgoutput import PgoutputDecoder, UnexpectedMessage
from lab.rulestore.store import RuleStore
from lab.running.storedrules import StoredRules
from tests.postgresql import running_database
from tests.rulestore.conftest import new_database
from tests.rulestore.engine import Engine
from tests.waiting import PATIENCE_S, wait_until


def rule(rule_id: int, limit: object = 50) -> str:
    return f"{rule_id},(active),(payeeId),,(paymentAmount),(SUM),(>),({limit}),(20)"


def as_capture(store: RuleStore) -> RuleStore:
    """The store as the user sees it who captures: in PostgreSQL one with few rights."""
    if store.url.get_backend_name() == "sqlite":
        return store
    passwords = Path(store.url.query["passfile"]).with_name(database.CAPTURE)
    url = store.url.set(drivername="postgresql", username=database.CAPTURE)
    return RuleStore(str(url.update_query_dict({"passfile": str(passwords)})), store.schema)


@contextmanager
def capturing(store, logs):
    with (
        closing(logs.log("control")) as control,
        Capture(as_capture(store), control, logs.log("acks")) as capture,
    ):
        yield capture


def settle(capture: Capture) -> int:
    """Steps until nothing more comes; returns how many changes were new."""
    new, idle = 0, 0
    # SQLite's table has a change once it is committed; a busy PostgreSQL takes a while to report it
    wait_s = captures.ANSWERS_S if isinstance(capture._feed, TableFeed) else 0.3
    while idle < 3:
        came = capture.step(wait_s)
        new, idle = new + came, 0 if came else idle + 1
    return new


def delivered(logs) -> list[int]:
    return [change_in_message(line)[1] for line in logs.log("control").read()]


def book_of(logs) -> RuleBook:
    book = RuleBook(PAYMENTS)
    for line in logs.log("control").read():
        assert book.apply(line)["status"] == "accepted"
    return book


def rules_of(store: RuleStore) -> dict[int, object]:
    """The table's rules as the rule book would hold them, without versions."""
    rows = [row for row in store.rows() if not row["disabled"]]
    return {
        row["rule_id"]: parse_message(
            change_to_message(RuleChange(0, str(row["rule_id"]), row), "s"), PAYMENTS
        ).rule
        for row in rows
    }


def same(book: RuleBook, store: RuleStore) -> bool:
    rules = {
        rule_id: parse_message(json.dumps(rule.to_dict()), PAYMENTS).rule
        for rule_id, rule in book.rules.items()
    }
    return rules == rules_of(store)


def test_first_a_snapshot_then_changes_in_order_and_later_only_what_is_new(store, logs):
    for number in (1, 2, 3):
        store.put(rule(number))
    store.set_state(1, "PAUSE")
    store.delete(3)
    with capturing(store, logs) as capture:
        assert delivered(logs) == [2, 4], "the last change of each rule, none of one that was never delivered"
        assert [row["status"] for row in store.rows()] == ["waiting", "waiting", "removed"]
        store.put(rule(4))
        store.put(rule(2, 60))
        store.delete(1)
        assert settle(capture) == 3
    store.set_state(2, "PAUSE")
    store.put(rule(3, 70))  # it is enabled again
    with capturing(store, logs) as capture:
        assert settle(capture) == 2
    assert delivered(logs) == [2, 4, 6, 7, 8, 9, 10]
    assert same(book_of(logs), store)


def test_a_change_made_during_the_snapshot_is_delivered(store, logs, monkeypatch):
    store.put(rule(1))
    snapshot = RuleStore.last_changes

    def meanwhile(of):
        changes = snapshot(of)
        store.put(rule(2))
        return changes

    monkeypatch.setattr(RuleStore, "last_changes", meanwhile)
    with capturing(store, logs) as capture:
        wait_until(lambda: capture.step(0.1) >= 0 and delivered(logs) == [1, 2])


def test_what_is_given_again_is_not_accepted_again(store, logs):
    class Crash(Exception):
        pass

    def crash(position):
        if len(delivered(logs)) == number:  # a busy database tells of earlier changes first
            raise Crash

    with capturing(store, logs):
        pass
    for number in range(1, 6):
        store.put(rule(number))
        with pytest.raises(Crash), capturing(store, logs) as capture:
            capture._feed.confirm = crash  # after the log has it, before the store knows
            settle(capture)
    with capturing(store, logs) as capture:
        assert settle(capture) == 0
    assert delivered(logs) == [1, 2, 3, 4, 5]
    store.set_last_sent_change_id(logs.log("control").absolute_name, None)  # and even if it begins anew
    with capturing(store, logs) as capture:
        assert settle(capture) == 0
    assert set(book_of(logs).versions.values()) == {1}


def test_a_change_made_while_nobody_captures_and_the_log_lost_its_end_is_delivered(store, logs):
    store.put(rule(1))
    with capturing(store, logs):
        store.put(rule(1, 60))
    with capturing(store, logs) as capture:
        settle(capture)
    assert delivered(logs) == [1, 2]


def test_two_logs_are_fed_each_at_its_own_pace(store, logs, tmp_path):
    other = FileLogs(tmp_path / "other")
    other.create()
    store.put(rule(1))
    with capturing(store, logs) as one:
        store.put(rule(2))
        settle(one)
        with capturing(store, other) as two:
            store.put(rule(3))
            assert (settle(one), settle(two)) == (1, 1)
    assert same(book_of(logs), store) and same(book_of(other), store)


def test_there_is_one_capture_for_a_log(store, logs, monkeypatch):
    monkeypatch.setattr(replication, "FREE_S", 0.3)
    one_more = capturing(store, logs)
    with capturing(store, logs), pytest.raises(CaptureBusy, match="another capture feeds .*: stop it first"):
        one_more.__enter__()
    monkeypatch.setattr(replication, "FREE_S", PATIENCE_S)
    # a server notices only after a while that the reader before is gone
    if store.url.get_backend_name() != "sqlite":
        before = capturing(store, logs)
        before.__enter__()
        Timer(0.5, before.__exit__, (None, None, None)).start()
    with capturing(store, logs):
        pass


def test_an_edit_that_is_rolled_back_never_happened(store, logs):
    with capturing(store, logs) as capture:
        store.put(rule(1))
        with store.engine.connect() as connection:
            connection.execute(text("UPDATE rules SET limit_value = '9'"))
            connection.rollback()
        store.put(rule(2))
        settle(capture)
    assert same(book_of(logs), store) and len(delivered(logs)) == 2


def test_a_change_that_the_engine_would_reject_stays_out_and_the_row_says_why(store, logs):
    engine = Engine(logs)
    store.put(rule(1))
    with capturing(store, logs) as capture:
        with store.engine.begin() as connection:
            connection.execute(text("UPDATE rules SET aggregate_field_name = 'payment'"))
        store.put(rule(2))
        settle(capture)
        engine.step()
        settle(capture)
    first, second = store.rows()
    assert first["status"].startswith(
        'refused: aggregateFieldName: unknown payments field "payment", did you mean'
    )
    assert first["version_in_force"] == 1 and second["status"] == "in force"
    assert delivered(logs) == [1, 3]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param(f'{{"payeeId": {"7" * 5000}}}', 'filter.payeeId: "7777', id="5,000 digits"),
        pytest.param(f'{{"payeeId": {"[" * 2000}{"]" * 2000}}}', "filter.payeeId: a list", id="2,000 lists"),
    ],
)
def test_a_row_whose_json_no_rule_can_have_stops_no_capture(store, logs, document, reason, capsys):
    if "[" in document and store.url.get_backend_name() == "sqlite":
        pytest.skip("SQLite itself takes at most 1,000")
    engine = Engine(logs)
    store.put(rule(1))
    with store.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE rules SET filter = '{document}'")
    store.put(rule(2))
    with capturing(store, logs) as capture:  # a snapshot, and then a change
        settle(capture)
        with store.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE rules SET filter = '{document}', window_seconds = 7")
            connection.exec_driver_sql("UPDATE rules SET filter = NULL WHERE rule_id = 2")
        settle(capture)
        engine.step()
        settle(capture)
    first, second = store.rows()
    assert first["status"].startswith("refused: ") and reason in first["status"]
    assert second["status"] == "in force" and second["window_seconds"] == 7
    assert len(store.history(1)) == 3
    StoredRules(store).print_history(1)
    assert capsys.readouterr().out.count("payeeId") == 3


def test_the_answers_come_back_beside_the_rows(store, logs):
    engine = Engine(logs)

    def statuses() -> list[tuple]:
        return [(row["version_in_force"], row["status"]) for row in store.rows()]

    with capturing(store, logs) as capture:
        store.put(rule(1))
        store.put(rule(2))
        settle(capture)
        assert statuses() == [(None, "waiting")] * 2
        engine.step()
        settle(capture)
        assert statuses() == [(1, "in force")] * 2
        store.put(rule(1, 60))
        assert statuses() == [(1, "waiting"), (1, "in force")]
        store.delete(2)
        settle(capture)
        engine.step()
    with capturing(store, logs) as capture:  # another one takes the answers to what the first one sent
        settle(capture)
        assert statuses() == [(2, "in force"), (None, "removed")]
        logs.log("control").append(['{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}'])
        engine.step()
        settle(capture)
        assert statuses() == [(None, "removed")] * 2


def test_a_rule_that_somebody_changes_in_the_control_log_has_the_version_of_the_engine(store, logs):
    engine = Engine(logs)

    def versions() -> list[tuple[int, str]]:
        return [(row["version_in_force"], row["status"]) for row in store.rows()]

    store.put(rule(1))
    with capturing(store, logs) as capture:
        logs.log("control").append([rule(2)])  # which the store does not have
        engine.step()
        settle(capture)
        assert versions() == [(1, "in force")]
        logs.log("control").append([rule(1, 60), '{"ruleId": 1, "ruleState": "PAUSE"}'])
        engine.step()
        settle(capture)
        assert [version for version, _ in versions()] == [3]
    with capturing(store, logs) as capture:
        settle(capture)
        assert [version for version, _ in versions()] == [3]
        logs.log("control").append(['{"ruleId": 1, "ruleState": "DELETE"}'])
        engine.step()
        settle(capture)
        assert versions() == [(None, "removed")]


def test_a_change_that_was_sent_after_all_rules_were_deleted_waits_for_its_own_answer(store, logs):
    engine = Engine(logs)

    def status() -> str:
        return store.rows()[0]["status"]

    store.put(rule(1))
    with capturing(store, logs) as capture:
        engine.step()
        logs.log("control").append(['{"ruleState": "CONTROL", "controlType": "DELETE_RULES_ALL"}'])
        engine.step()
        store.put(rule(1, 60))
        settle(capture)
        assert status() == "waiting"
    with capturing(store, logs) as capture:  # another one reads all answers again
        settle(capture)
        assert status() == "waiting"
        engine.step()
        settle(capture)
        assert status() == "in force"


@pytest.mark.parametrize("reason", ["\0", "\ud800"])
def test_a_reason_that_no_database_takes_ends_no_capture(store, logs, reason):
    """Anybody who may write to the log of answers can give one."""
    store.put(rule(1))
    with capturing(store, logs) as capture:
        place = next(iter(capture._unanswered))
        logs.log("acks").append([json.dumps({"status": "rejected", "place": place, "reason": reason})])
        settle(capture)
        assert store.rows()[0]["status"] == f"refused: {json.dumps(reason)[1:-1]}"


def test_a_restored_database_is_another_store(store, logs):
    """Else its numbers, which begin again, would hide its changes."""
    for limit in range(50, 55):
        store.put(rule(1, limit))
    with capturing(store, logs):
        before = store.identity()
    with store.engine.begin() as connection:
        connection.execute(text("DELETE FROM rule_changes WHERE change_id > 2"))
    with capturing(store, logs):
        assert store.identity() != before
        assert [change_in_message(line)[0] for line in logs.log("control").read()] == [
            before,
            store.identity(),
        ]


def test_a_slot_that_is_gone_makes_a_new_snapshot(logs, postgres):
    store = RuleStore(new_database(postgres), PAYMENTS)
    store.put(rule(1))
    with capturing(store, logs):
        pass
    place = logs.log("control").absolute_name
    wait_until(lambda: not replication.slot_status(store, place)["active"])
    replication.drop_slot(store, place)
    store.put(rule(1, 60))
    store.put(rule(2))
    with capturing(store, logs) as capture:
        assert settle(capture) == 0
    assert delivered(logs) == [1, 2, 3]


def test_transactions_come_in_the_order_of_their_commits(logs, postgres):
    store = RuleStore(new_database(postgres), PAYMENTS)
    for number in (1, 2):
        store.put(rule(number))
    with capturing(store, logs) as capture:
        slow, quick = store.engine.connect(), store.engine.connect()
        slow.execute(text("UPDATE rules SET limit_value = 7 WHERE rule_id = 1"))  # change 3
        quick.execute(text("UPDATE rules SET limit_value = 7 WHERE rule_id = 2"))  # change 4
        quick.commit()
        assert settle(capture) == 1
        slow.commit()
        assert settle(capture) == 1
        slow.close(), quick.close()
    assert delivered(logs) == [1, 2, 4, 3] and same(book_of(logs), store)


def test_other_messages_of_pgoutput_are_not_guessed_at():
    with pytest.raises(UnexpectedMessage, match="the publication was changed"):
        PgoutputDecoder().inserted_row(b"D1234")


@contextmanager
def running(url, logs, said):
    stopped = Event()
    thread = Thread(target=captures.run_capture, args=(url, PAYMENTS, logs, stopped, said.append))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.slow
def test_a_database_that_goes_and_comes_back_is_captured_on(logs, needs_postgres):
    with running_database() as postgres:
        said: list[str] = []
        store = RuleStore(postgres.url(), PAYMENTS)
        with running(postgres.url(), logs, said):
            store.put(rule(1))
            wait_until(lambda: delivered(logs) == [1])
            postgres.kill()
            wait_until(lambda: any(line.startswith("trying again") for line in said))
            postgres.restart()
            store.engine.dispose()
            store.put(rule(2))
            wait_until(lambda: len(delivered(logs)) == 2)
        assert same(book_of(logs), store)


def test_each_commit_reaches_the_control_log_without_another_one(logs, postgres):
    url = new_database(postgres)
    store = RuleStore(url, PAYMENTS)
    store.put(rule(1))
    tail = logs.log("control").tail()
    came: list[str] = []
    with running(url, logs, []):
        wait_until(tail.read)
        for limit in range(100, 200):
            store.put(rule(1, limit))
            wait_until(lambda: came.extend(tail.read()) or len(came) > limit - 100, pause_s=0.001)  # noqa: B023
    assert [json.loads(message)["limit"] for message in came] == [str(limit) for limit in range(100, 200)]


def test_capture_on_the_command_line(url, logs, capsys, monkeypatch):
    where = ["--store", url]
    assert main(["cdc", "status", *where]) == OK
    assert "not captured into any control log yet" in capsys.readouterr().out
    assert main(["rules", "add", rule(1), *where]) == OK
    store = RuleStore(url, PAYMENTS)
    with running(url, logs, []):
        wait_until(lambda: store.last_sent_change_id_by_log())
        assert main(["cdc", "status", *where]) == OK
        assert f"{logs.log_folder('control')}: change 1 of 1, up to date" in capsys.readouterr().out
        engine, answered = Engine(logs), Event()

        def answer() -> None:
            while not answered.wait(0.02):
                engine.step()

        helper = Thread(target=answer)
        helper.start()
        try:
            assert main(["rules", "pause", "1", *where, "--timeout", str(PATIENCE_S)]) == OK
        finally:
            answered.set()
            helper.join()
        assert "rule 1 version 2 in force (" in capsys.readouterr().out
    assert main(["cdc", "forget", str(logs.log_folder("control")), *where]) == OK
    assert main(["cdc", "forget", str(logs.log_folder("control")), *where]) == USAGE
    assert store.last_sent_change_id_by_log() == {}


def test_with_two_persons_an_edit_waits_until_a_user_who_had_no_part_in_it_approves(
    postgres, logs, tmp_path, capsys
):
    owner = RuleStore(new_database(postgres), PAYMENTS)
    names = [f"{name}{tmp_path.parent.name}{id(owner)}".replace("-", "_") for name in ("ann", "bob", "kim")]
    users = []
    for name in names:
        with owner.engine.begin() as connection:
            connection.execute(text(f"CREATE ROLE \"{name}\" LOGIN PASSWORD 'w' IN ROLE {database.ANALYST}"))
        (tmp_path / name).write_text(f"*:*:*:{name}:w\n")
        (tmp_path / name).chmod(0o600)
        url = owner.url.set(drivername="postgresql", username=name)
        users.append(RuleStore(str(url.update_query_dict({"passfile": str(tmp_path / name)})), PAYMENTS))
    ann, bob, kim = users
    grant_rights(owner.engine)
    ann.put(rule(1))
    assert main(["db", "two-persons", "on", "--store", str(owner.url.set(drivername="postgresql"))]) == OK
    with capturing(owner, logs) as capture:
        assert delivered(logs) == [1], "what was a change before remains one"
        ann.put(rule(1, 60))
        ann.put(rule(2))
        assert settle(capture) == 0 and owner.rows()[0]["status"] == "waits for approval: proposal 1"
        for user, number, why in (
            (ann, 1, "contains edits by ann"),
            (bob, 9, "no proposal 9 waits"),
        ):
            with pytest.raises(BadRule, match=why):
                user.approve(number)
        bob.put(rule(1, 70))
        for user, number, why in (
            (kim, 1, "outdated: the newest of rule 1 is proposal 3"),
            (ann, 3, "another user must approve it"),  # a part of it is hers
            (bob, 3, "another user must approve it"),
        ):
            with pytest.raises(BadRule, match=why):
                user.approve(number)
        assert settle(capture) == 0
        kim.approve(3)
        bob.approve(2)
        assert settle(capture) == 2 and same(book_of(logs), owner)
        ann.put(rule(1, 80))
        ann.put(rule(1, 70))  # as approved: that withdraws it
        assert ann.proposals(1) == [] and owner.rows()[0]["status"] == "waiting"
        ann.set_state(1, "PAUSE")
        with pytest.raises(DBAPIError, match="permission denied"):
            as_capture(owner).approve(5)
        for forged in (
            "UPDATE rule_store SET two_persons = false",
            "UPDATE rule_proposals SET proposed_by = 'kim'",
            "INSERT INTO rule_changes (subject, changed_at, changed_by, row_after) VALUES ('1', now(), 'kim', '{}')",
        ):
            for user in (ann, as_capture(owner)):
                with pytest.raises(DBAPIError, match="permission denied"), user.engine.begin() as connection:
                    connection.execute(text(forged))
        assert settle(capture) == 0
    capsys.readouterr()
    StoredRules(owner).print_history(1)
    *_, approved, waits = capsys.readouterr().out.splitlines()
    assert f"[approved by {names[2]}, " in approved and "proposal 5 waits for approval]" in waits
    owner.require_two_persons(False)
    bob.put(rule(1, 90))
    assert [change.row["limit_value"] for change in owner.history(1)] == [50, 70, 90] and not owner.proposals(
        1
    )


def test_sqlite_has_no_two_persons(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/rules.db"
    assert main(["db", "two-persons", "on", "--store", url]) != OK
    assert "SQLite file has no users, so it cannot tell two persons apart" in capsys.readouterr().err
    with (
        pytest.raises(IntegrityError, match="two_persons needs PostgreSQL"),
        RuleStore(url, PAYMENTS).engine.begin() as connection,
    ):
        connection.execute(text("UPDATE rule_store SET two_persons = 1"))
    assert main(["rules", "approve", "1", "--store", url]) != OK
    assert "edits in SQLite need none" in capsys.readouterr().err
