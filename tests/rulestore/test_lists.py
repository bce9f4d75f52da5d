"""Entries of lists are rows: their changes reach the control log in order, each once, and a compacted log has the lists."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import DatabaseError

from lab.cli.main import FAILED, OK, USAGE, main
from lab.logs.kafka import KafkaLog
from lab.machine import database
from lab.model import rules
from lab.model.jsontext import MAX_LINE_BYTES
from lab.model.lists import FOREVER
from lab.model.reference import Reference
from lab.model.rules import BadRule, RuleBook
from lab.model.schema import PAYMENTS
from lab.rulestore import replication
from lab.rulestore.changes import subjects_in_message
from lab.rulestore.constraints import MAX_ENTRY_BYTES
from lab.rulestore.store import RuleStore
from lab.rulestore.tables import LIST_ENTRIES
from tests.rulestore.conftest import new_database
from tests.rulestore.engine import Engine
from tests.rulestore.test_capture import as_capture, capturing, rule, running, settle
from tests.topics import topics
from tests.waiting import PATIENCE_S, wait_until

RULE = "1: COUNT(events) where paymentType in @risky per payeeId over 1 h >= 1"
HOSTILE = "x'); DROP TABLE rules; --\" \\ %s :name {0} $$ \u2028 é 🦊"


def messages(logs) -> list[dict]:
    """Those of the control log, without the store's identity."""
    read = [json.loads(line) for line in logs.log("control").read()]
    return [each | {"changeId": int(each["changeId"].partition(".")[2])} for each in read]


def lists_of(lines) -> dict[str, dict[str, int]]:
    """What is in each list after these messages, all of which are accepted."""
    book = RuleBook(PAYMENTS)
    for line in lines:
        assert book.apply(line)["status"] == "accepted", line
    return {name: dict(each.until_by_value) for name, each in book.lists.items() if each}


def stored_lists(store: RuleStore, *names: str) -> dict[str, dict[str, int]]:
    """What the rows say is in each list."""
    rows = {name: [row for row in store.entries(name) if not row["disabled"]] for name in names}
    return {
        name: {row["entry"]: FOREVER if row["until_ms"] is None else row["until_ms"] for row in of}
        for name, of in rows.items()
        if of
    }


def statuses(store: RuleStore, name: str = "risky") -> dict[str, tuple[int | None, str]]:
    return {row["entry"]: (row["version_in_force"], row["status"]) for row in store.entries(name)}


def test_entries_are_messages_about_their_list_and_those_that_say_the_same_share_one(store, logs):
    store.put_entries("risky", ["CSH", "7.50", HOSTILE])
    store.put(rule(1))
    with capturing(store, logs) as capture:
        store.put_entries("risky", ["CRD", "CSH"], until="2026-12-01", by="ann")
        store.remove_entries("risky", ["CSH", "7.50"])
        store.put_entries("risky", ["CRD"], until="2026-12-01", by="bob")  # it changes nothing
        store.put_entries("vip", [25])
        settle(capture)
    sent = [(each.get("add"), each.get("remove"), each["changeId"]) for each in messages(logs)]
    assert sent == [
        (["CSH", "7.50", HOSTILE], None, 3),
        (None, None, 4),
        (["CRD", "CSH"], None, 6),
        (None, ["CSH", "7.50"], 8),
        (["25"], None, 9),
    ]
    assert lists_of(logs.log("control").read()) == stored_lists(store, "risky", "vip")


def test_what_was_delivered_is_not_delivered_again_by_the_next_capture(store, logs):
    for number in range(3):
        store.put_entries("risky", [f"{number}", "same"], until=number + 1)
    store.remove_entries("risky", ["never there"])
    with capturing(store, logs):
        assert [each["changeId"] for each in messages(logs)] == [1, 3, 6], "the last change of each entry"
    store.put_entries("risky", ["new"])
    with capturing(store, logs) as capture:
        assert settle(capture) == 1
    assert lists_of(logs.log("control").read()) == stored_lists(store, "risky")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_capture_that_is_killed_beside_its_publishing_delivers_each_change_once(store, logs, when):
    class Crash(Exception):
        pass

    with capturing(store, logs):
        pass
    for number in range(1, 5):
        store.put_entries("risky", [f"{number}", "same"], until=number)
        with pytest.raises(Crash), capturing(store, logs) as capture:
            publish = capture._control.publish

            def crash(*given, publish=publish):
                if when == "after":
                    publish(*given)
                raise Crash

            capture._control.publish = crash
            wait_until(lambda: settle(capture) < 0)
        with capturing(store, logs) as capture:
            settle(capture)
        assert sum(len(each["add"]) for each in messages(logs)) == 2 * number
    book = RuleBook(PAYMENTS)
    versions = [book.apply(line)["version"] for line in logs.log("control").read()]
    assert versions == [1, 2, 3, 4] and lists_of(logs.log("control").read()) == stored_lists(store, "risky")


def test_transactions_come_in_the_order_of_their_commits_and_none_is_lost(logs, postgres):
    """A message says which change of each entry it has: were it the newest of the message, change 3 would count as delivered."""
    store = RuleStore(new_database(postgres), PAYMENTS)
    store.put_entries("risky", ["A", "B"])
    with capturing(store, logs) as capture:
        slow, quick = store.engine.connect(), store.engine.connect()
        slow.execute(text("UPDATE list_entries SET until_ms = 3 WHERE entry = 'A'"))  # change 3
        quick.execute(text("UPDATE list_entries SET until_ms = 5 WHERE entry = 'B'"))  # change 4
        quick.commit()
        assert settle(capture) == 1
    with capturing(store, logs) as capture:
        slow.commit()
        assert settle(capture) == 1
        slow.close(), quick.close()
    with capturing(store, logs) as capture:
        assert settle(capture) == 0
    assert [each["changeId"] for each in messages(logs)] == [2, 4, 3]
    assert lists_of(logs.log("control").read()) == {"risky": {"A": 3, "B": 5}}


def test_a_slot_that_is_gone_makes_a_new_snapshot_of_the_entries_that_the_log_lacks(logs, postgres):
    store = RuleStore(new_database(postgres), PAYMENTS)
    store.put_entries("risky", ["A", "B", "C"])
    with capturing(store, logs):
        pass
    place = logs.log("control").absolute_name
    wait_until(lambda: not replication.slot_status(store, place)["active"])
    replication.drop_slot(store, place)
    store.remove_entries("risky", ["A"])
    store.put_entries("risky", ["D"])
    with capturing(store, logs) as capture:
        assert settle(capture) == 0
    assert [each["changeId"] for each in messages(logs)] == [3, 4, 5]
    assert lists_of(logs.log("control").read()) == {"risky": {"B": FOREVER, "C": FOREVER, "D": FOREVER}}


def test_the_answers_come_back_beside_the_entries(store, logs, monkeypatch):
    engine = Engine(logs)
    with capturing(store, logs) as capture:
        store.put_entries("risky", ["A", "B"])
        store.put_entries("muted", ["7"])  # there is no rule 7
        settle(capture)
        assert statuses(store) == {"A": (None, "waiting"), "B": (None, "waiting")}
        assert statuses(store, "muted") == {"7": (None, "waiting")}, "a mute may come before its rule"
        engine.step()
        settle(capture)
        store.remove_entries("risky", ["B"])
        settle(capture)
        engine.step()
    with capturing(store, logs) as capture:  # another one takes the answers to what the first one sent
        settle(capture)
        assert statuses(store) == {"A": (1, "in force"), "B": (2, "removed")}
        monkeypatch.setattr(rules, "MAX_ENTRIES", 2)
        store.put_entries("risky", ["C", "D"])
        settle(capture)
        assert "@risky would have 3 entries, expected at most 2" in statuses(store)["C"][1]
        assert len(messages(logs)) == 3
        store.remove_entries("risky", ["C", "D"])  # which the log does not have
        settle(capture)
        assert [statuses(store)[name] for name in "CD"] == [(None, "removed")] * 2


def test_many_entries_come_in_messages_that_each_fit_a_record(store, logs):
    entries = [f"DE{number:018}" for number in range(10_000)] + [f"{n}{'é' * 999}" for n in range(9)]
    store.put_entries("vip", entries)
    engine = Engine(logs)
    with capturing(store, logs) as capture:
        settle(capture)
        engine.step()
        settle(capture)
        assert {status for _, status in statuses(store, "vip").values()} == {"in force"}
    sent = logs.log("control").read()
    assert max(len(line.encode()) for line in sent) <= MAX_LINE_BYTES and 8 < len(sent) < 30
    assert lists_of(sent) == {"vip": dict.fromkeys(entries, FOREVER)}
    numbers = [number for line in sent for _, number in subjects_in_message(line, store.identity())]
    assert numbers == list(range(1, len(entries) + 1))
    with capturing(store, logs) as capture:
        assert settle(capture) == 0


WRONG = [
    {"list_name": ""},
    {"list_name": "7up"},
    {"list_name": "high risk"},
    {"list_name": "a" * 65},
    {"list_name": "vip\n"},
    {"list_name": "é"},
    {"entry": ""},
    {"entry": "x" * (MAX_ENTRY_BYTES + 1)},
    {"entry": "é" * (MAX_ENTRY_BYTES // 2 + 1)},
    {"until_ms": -1},
    {"until_ms": 1 << 60},
    {"reason": ""},
    {"reason": "x" * 201},
    {"changed_by": ""},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_the_database_refuses_an_entry_that_the_engine_would_reject(store, wrong):
    if "changed_by" in wrong and store.url.get_backend_name() != "sqlite":
        pytest.skip("PostgreSQL knows who is connected")
    row = {"list_name": "vip", "entry": "7", "changed_by": "ann"}
    with store.engine.begin() as connection:
        connection.execute(insert(LIST_ENTRIES).values(row))
        connection.execute(insert(LIST_ENTRIES).values(row | {"list_name": "a" * 64, "entry": HOSTILE}))
    with pytest.raises(DatabaseError), store.engine.begin() as connection:
        connection.execute(insert(LIST_ENTRIES).values(row | {"entry": "8"} | wrong))
    assert store.list_sizes() == {"vip": 1, "a" * 64: 1}
    assert store.history(f"@{'a' * 64} {HOSTILE}")[0].row["entry"] == HOSTILE


@pytest.mark.parametrize(
    "wrong", ["'vip' || char(0)", "x'766970'", "'vip', x'37'", "'vip', '7' || char(0)", "'vip', 7.5e300"]
)
def test_what_only_sqlite_would_take_is_no_entry(tmp_path, wrong):
    store = RuleStore(f"sqlite:///{tmp_path}/rules.db", PAYMENTS)
    values = wrong if ", " in wrong else f"{wrong}, 'x'"
    try:
        with store.engine.begin() as connection:
            connection.execute(text(f"INSERT INTO list_entries (list_name, entry) VALUES ({values})"))
    except DatabaseError:
        assert not store.list_sizes()
    else:
        assert store.entries("vip")[0]["entry"] == "7.5e+300", "a text"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM list_entries", "an entry is not deleted"),
        ("UPDATE list_entries SET entry = 'B'", "list_name and entry never change"),
        ("UPDATE list_entries SET list_name = 'other'", "list_name and entry never change"),
    ],
)
def test_an_entry_is_disabled_not_deleted(store, statement, reason):
    store.put_entries("risky", ["A"])
    with pytest.raises(DatabaseError, match=reason), store.engine.begin() as connection:
        connection.execute(text(statement))
    assert store.list_sizes() == {"risky": 1} and store.last_change_id() == 1


@pytest.mark.parametrize(
    ("name", "entries", "more", "reason"),
    [
        ("7up", ["A"], {}, "list: "),
        ("vip", [""], {}, "add: "),
        ("vip", ["x" * 2001], {}, "add: "),
        ("vip", ["é" * 1001], {}, "entry: .* at most 2,000 bytes in a database"),
        ("vip", ["A"], {"until": "soon"}, "until: "),
        ("vip", ["A"], {"reason": "x" * 201}, "reason: "),
        ("vip", [], {}, "nothing to change"),
        ("muted", ["A"], {}, "muted: "),
    ],
)
def test_the_store_refuses_entries_with_the_rule_books_reason(store, name, entries, more, reason):
    with pytest.raises(BadRule, match=reason):
        store.put_entries(name, entries, **more)
    assert not store.last_change_id()


def test_the_history_of_an_entry_tells_who_changed_it_when_and_why(store, capsys):
    store.put_entries("risky", ["A", "B"], by="ann", reason="case 12")
    store.put_entries("risky", ["A"], until=1_764_547_200_000, by="bob")
    store.remove_entries("risky", by="cy", reason="closed")
    url = str(store.url.set(drivername=store.url.get_backend_name()))
    assert main(["lists", "history", "risky", "A", "--store", url]) == OK
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    who = ["ann", "bob", "cy"] if store.url.get_backend_name() == "sqlite" else ["lab"] * 3
    assert [line.partition(" ")[0] for line in said] == ["1", "3", "4"]
    for line, (by, what) in zip(
        said,
        zip(who, ["in A (case 12)", "in A until 2025-12-01", "disabled A (closed)"], strict=True),
        strict=True,
    ):
        assert by in line and what in line
    assert main(["lists", "history", "risky", "C", "--store", url]) == USAGE
    assert "@risky C is not in" in capsys.readouterr().err


def test_entries_wait_for_another_user_where_rules_do(postgres, logs):
    owner = RuleStore(new_database(postgres), PAYMENTS)
    passwords = Path(owner.url.query["passfile"]).with_name(database.ANALYST)
    url = owner.url.set(drivername="postgresql", username=database.ANALYST)
    analyst = RuleStore(str(url.update_query_dict({"passfile": str(passwords)})), PAYMENTS)
    owner.put_entries("risky", ["A"])
    owner.require_two_persons(True)
    with capturing(owner, logs) as capture:
        analyst.put_entries("risky", ["B", "C"])
        analyst.remove_entries("risky", ["A"])
        assert settle(capture) == 0 and owner.count_entries_to_approve("risky") == 3
        (proposal,) = owner.proposals("@risky B")
        with pytest.raises(BadRule, match="contains edits by analyst"):
            analyst.approve(proposal.change_id)
        owner.approve(proposal.change_id)
        assert settle(capture) == 1
        with owner.engine.begin() as connection:
            connection.execute(
                text("SELECT lab_approve(proposal_id) FROM rule_proposals WHERE subject LIKE '@risky %'")
            )
        assert settle(capture) == 2 and owner.count_entries_to_approve("risky") == 0
    assert lists_of(logs.log("control").read()) == stored_lists(owner, "risky")
    for forged in ("DELETE FROM list_entries", "UPDATE rule_answers SET version = 9"):
        with pytest.raises(DatabaseError, match="permission denied"), analyst.engine.begin() as connection:
            connection.execute(text(forged))
    with pytest.raises(DatabaseError, match="permission denied"):
        as_capture(owner).put_entries("risky", ["D"])


def test_entries_on_the_command_line(url, logs, capsys, tmp_path, monkeypatch):
    where = ["--store", url]
    (tmp_path / "some.txt").write_text("CSH\nCRD\n")
    assert (
        main(["lists", "add", "risky", "--file", str(tmp_path / "some.txt"), *where, "--reason", "case 7"])
        == OK
    )
    assert "list @risky: 2 entries waiting" in (said := capsys.readouterr().out) and "no answer yet" in said
    store, engine = RuleStore(url, PAYMENTS), Engine(logs)
    with running(url, logs, []):
        wait_until(lambda: logs.log("control").read())
        engine.step()
        wait_until(lambda: statuses(store)["CSH"][1] == "in force")
        assert main(["lists", "remove", "risky", "CSH", *where, "--timeout", "0.2"]) == OK
        assert "list @risky version 1: 1 entry waiting" in capsys.readouterr().out
        wait_until(lambda: len(logs.log("control").read()) == 2)
        engine.step()
        wait_until(lambda: statuses(store)["CSH"][1] == "removed")
        monkeypatch.setattr(rules, "MAX_ENTRIES", 1)
        assert main(["lists", "add", "risky", "x", *where, "--timeout", str(PATIENCE_S)]) != OK
        assert "list @risky: 1 entry refused: list: @risky would have 2" in capsys.readouterr().err
        assert main(["lists", "remove", "risky", "x", *where, "--timeout", "0"]) == OK
        assert main(["lists", "add", "muted", "7", *where, "--timeout", "0"]) == OK
        capsys.readouterr()
    assert main(["lists", "show", *where]) == OK
    assert capsys.readouterr().out.splitlines() == ["@muted  entries: 1", "@risky  entries: 1"]
    assert main(["lists", "show", "risky", *where]) == OK
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("CRD  (case 7)  [in force; ") and shown[1].startswith("CSH  [removed; ")
    assert main(["lists", "clear", "risky", *where]) == OK
    assert store.list_sizes() == {"muted": 1}
    assert main(["lists", "show", "nothing", *where]) == USAGE
    assert main(["lists", "add", "risky", "A", "--reason", "x", "--logs", str(tmp_path)]) in (USAGE, FAILED)
    assert "--reason: only rows have one" in capsys.readouterr().err


def compacted(log: KafkaLog) -> list[tuple[str, str]]:
    """The lines that compaction keeps, each with its key."""
    with closing(log.tail()) as tail:
        records = tail.records()
    newest = {record.key: place for place, record in enumerate(records)}
    return [(record.line, record.key) for place, record in enumerate(records) if newest[record.key] == place]


def payment(number: int, payee: int) -> str:
    fields = {
        "transactionId": number,
        "eventTime": 1000 * number,
        "payeeId": payee,
        "beneficiaryId": 1,
        "paymentAmount": 5,
    }
    return json.dumps(fields | {"paymentType": "CSH"})


def test_rows_make_alerts_appear_and_disappear_and_a_compacted_log_has_the_same_lists(store, kafka):
    logs = topics(kafka.address, f"entries-{store.url.get_backend_name()}")
    engine = Engine(logs)
    events = logs.log("events")

    def alerted(number: int) -> bool:
        """Whether the engine, which has all messages so far, raises an alert of payment `number`."""
        engine.step()
        before = len(engine.reference.alerts)
        events.publish([payment(number, payee=number)], [""])
        engine.step()
        return len(engine.reference.alerts) > before

    store.put(RULE)
    with capturing(store, logs) as capture:
        seen = []
        for number, edit in enumerate(
            (
                lambda: store.put_entries("risky", ["CRD", "x"]),
                lambda: store.put_entries("risky", ["CSH"]),
                lambda: store.remove_entries("risky", ["CSH"]),
                lambda: store.put_entries("risky", ["CSH", "x"], until=4_500),
                lambda: store.put_entries("risky", ["y"]),
                lambda: store.remove_entries("risky", ["CRD"]),
            ),
            start=1,
        ):
            edit()
            settle(capture)
            seen.append(alerted(number))
        settle(capture)
    assert seen == [False, True, False, True, False, False]
    lines = logs.log("control").read()
    kept = compacted(logs.log("control"))
    assert len(kept) < len(lines)
    assert lists_of(line for line, _ in kept) == lists_of(lines) == stored_lists(store, "risky")
    # a new engine on what is left, and a capture that finds its changes there
    restarted = Reference(PAYMENTS)
    for line, _ in kept:
        assert restarted.control(line)["status"] == "accepted"
    restarted.event(payment(4, 9).encode())
    restarted.event(payment(5, 9).encode())
    assert [alert.event_id for alert in restarted.alerts] == [4]
    after = topics(kafka.address, f"compacted-{store.url.get_backend_name()}")
    after.log("control").publish([line for line, _ in kept], [key for _, key in kept])
    with capturing(store, after) as capture:
        settle(capture)
    assert len(after.log("control").read()) == len(kept)
