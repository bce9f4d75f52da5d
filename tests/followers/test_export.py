"""`lab export`: alerts in SQLite and PostgreSQL, each once, whatever is killed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

import pytest
from confluent_kafka import TopicPartition
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.event import listen

from lab.cli.main import FAILED, OK, USAGE, main
from lab.engine.loop.filelogs import FileLogs
from lab.model.alerts import Alert, Withdrawal, event_id_text
from lab.model.field import Id
from lab.model.group import Group
from lab.rulestore.databases import create_database_engine, database_url
from tests.rulestore.conftest import needs_postgres, postgres, url  # noqa: F401
from tests.topics import topics
from tests.waiting import PATIENCE_S, program, wait_until

AT = 1_356_998_400_000


def alert(event_id: Id, rule_id: int = 1, alert_time: int = 1_100) -> str:
    key, limit = f"{{payeeId={event_id}}}", Decimal("50.5")
    times, group = (AT, 1_000, alert_time), (("payeeId", event_id_text(event_id)),)
    return Alert(rule_id, 2, key, Decimal("51.10"), "GREATER", limit, event_id, *times, group).to_json()


def rows(where: str, query: str = "SELECT * FROM lab_alerts ORDER BY event_id") -> list[dict]:
    with create_engine(database_url(where)).connect() as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def exported(where: str) -> int:
    """How many alerts the database has: none before it has the table."""
    with create_engine(database_url(where)).connect() as connection:
        if not inspect(connection).has_table("lab_alerts"):
            return 0
        return connection.execute(text("SELECT count(*) FROM lab_alerts")).scalar()


def test_each_alert_is_a_row_and_a_second_run_adds_what_is_new(logs, url, capsys):  # noqa: F811
    command = ["export", "--logs", str(logs.folder), "--to", url]
    logs.log("alerts").append([alert(7), alert(8), alert(7, alert_time=1_200), '{"odd": 1}'])
    assert main(command) == OK
    said = capsys.readouterr().err
    assert "3 alerts from" in said and ", 1 unreadable line left out" in said and "left out: alerts/" in said
    first, second = rows(url)
    assert first["event_id"] == "7" and second["alert_id"] == Alert.from_json(alert(8)).alert_id
    assert Decimal(first["aggregate"]) == Decimal("51.10") and first["group_key"] == "{payeeId=7}"
    if not url.startswith("sqlite"):
        assert first["event_time"] == datetime.fromtimestamp(AT / 1000, UTC)
        assert first["alert_time"] == datetime.fromtimestamp(1.2, UTC)
    assert main(command) == OK and "0 alerts from" in capsys.readouterr().err
    logs.log("alerts").append([alert("x\0y"), alert("x\ufffdy"), alert(("d", 1)), alert(9)])
    assert main(command) == OK and "4 alerts from" in capsys.readouterr().err
    assert [row["event_id"] for row in rows(url)] == ["7", "8", "9", '["d",1]', "x\ufffdy", "x\ufffdy"]
    forged = json.loads(alert(9)) | {"operator": ">\0"}
    logs.log("alerts").append([json.dumps(forged)])
    assert main(command) == OK and rows(url)[2]["operator"] == ">\ufffd"
    assert main([*command, "--from", "0"]) == OK and len(rows(url)) == 6


def test_an_event_id_longer_than_a_key_of_the_database_ends_no_export(logs, url):  # noqa: F811
    """PostgreSQL's keys have at most 2,704 bytes; an id of eight fields in Hangul has 9,600 as JSON."""
    draw = Random(7)
    ids = [tuple("".join(chr(draw.randrange(0xAC00, 0xD7A4)) for _ in range(200)) for _ in range(8))] * 2
    ids[1] = (*ids[1][:7], "x")
    told = [Alert.from_json(alert(each)) for each in ids]
    withdrawn = Withdrawal(told[1].key, told[1].group, ids[1], AT, 1_000)
    logs.log("alerts").append([*(each.to_json() for each in told), withdrawn.to_json(), alert(7)])
    assert main(["export", "--logs", str(logs.folder), "--to", url]) == OK
    assert exported(url) == 3
    found = {row["event_id"]: row["withdrawn"] for row in rows(url)}
    assert found == {event_id_text(ids[0]): None, event_id_text(ids[1]): "yes", "7": None}


def test_a_row_notes_that_its_alert_is_withdrawn_until_it_comes_again(logs, url):  # noqa: F811
    command = ["export", "--logs", str(logs.folder), "--to", url]
    withdrawn = Withdrawal("{payeeId=7}", (("payeeId", "7"),), 7, AT).to_json()
    of_another_group = Withdrawal("{payeeId=8}", (("payeeId", "9"),), 8, AT).to_json()
    again = alert(7, alert_time=1_200)

    def noted_after(*lines: str) -> list[tuple]:
        logs.log("alerts").append(list(lines))
        assert main(command) == OK
        found = rows(url, "SELECT * FROM lab_alerts ORDER BY event_id, rule_id")
        return [(row["event_id"], row["rule_id"], row["withdrawn"]) for row in found]

    both = [("7", 1, "yes"), ("7", 2, "yes"), ("8", 1, None)]
    stands = [("7", 1, None), *both[1:]]
    assert noted_after(alert(7), alert(8), alert(7, rule_id=2), withdrawn, of_another_group) == both
    assert noted_after(again) == stands
    assert noted_after(withdrawn) == both
    assert noted_after(again, withdrawn, again) == stands
    # what an attempt delivered before it was killed comes again as a whole
    assert noted_after(again, withdrawn, again, withdrawn) == both


def test_an_alert_that_comes_late_stays_withdrawn_and_does_not_replace_one_that_came_again(logs, url):  # noqa: F811
    """Without transactions an attempt that was taken for dead delivers alerts after its successor has withdrawn them."""
    command = ["export", "--logs", str(logs.folder), "--to", url]
    first, again = (replace(Alert.from_json(alert(7)), log_time=time) for time in (1_000, 3_000))
    again = replace(again, aggregate=Decimal(60))
    never = replace(Alert.from_json(alert(8)), log_time=1_000)
    withdrawn = [Withdrawal(each.key, each.group, each.event_id, AT, 2_000) for each in (first, never)]

    def noted_after(*lines: Alert | Withdrawal) -> list[tuple]:
        logs.log("alerts").append([each.to_json() for each in lines])
        assert main(command) == OK
        return [(row["event_id"], Decimal(row["aggregate"]), row["withdrawn"]) for row in rows(url)]

    value = Decimal("51.1")
    assert noted_after(first, *withdrawn) == [("7", value, "yes")]
    both = [("7", value, "yes"), ("8", value, "yes")]
    assert noted_after(first, never) == both
    assert noted_after(withdrawn[0], first) == both
    assert noted_after(again) == [("7", Decimal(60), None), both[1]]
    assert noted_after(first, withdrawn[0], first) == [("7", Decimal(60), None), both[1]]
    assert noted_after(replace(withdrawn[0], log_time=3_000)) == [("7", Decimal(60), "yes"), both[1]]


ORDERS: tuple[Group, ...] = (("user", 1), ("card", "c")), (("card", "c"), ("user", 1))


def ordered(order: int, log_time: int | None = None, event_id: int = 7) -> Alert:
    """An alert of a rule, by which order it names its grouping fields in."""
    group, limit = ORDERS[order], Decimal(1)
    return Alert(order + 1, 1, "{}", Decimal(2), "GREATER", limit, event_id, AT, log_time, group=group)


def taking_back(alert: Alert, log_time: int | None = None) -> Withdrawal:
    return Withdrawal("{}", alert.group, alert.event_id, AT, log_time)


def withdrawn_rules(logs: FileLogs, where: str, *lines: Alert | Withdrawal) -> list[int]:
    """Ids of the rules whose alerts are withdrawn, once these lines are exported as well."""
    logs.log("alerts").append([each.to_json() for each in lines])
    assert main(["export", "--logs", str(logs.folder), "--to", where]) == OK
    query = "SELECT rule_id FROM lab_alerts WHERE withdrawn = 'yes' ORDER BY rule_id"
    return [row["rule_id"] for row in rows(where, query)]


@pytest.mark.parametrize("live", [False, True])
def test_a_line_withdraws_the_alerts_of_its_group_in_whatever_order_rules_name_the_fields(logs, url, live):  # noqa: F811
    """A rule that named its grouping fields in another order when it alerted has been changed or deleted since."""
    at, later, again = (1_000, 2_000, 3_000) if live else (None, None, None)
    first, second = ordered(0, at), ordered(1, at)
    other_group = replace(first, rule_id=3, group=(("user", 2), ("card", "c")))
    assert withdrawn_rules(logs, url, first, second, other_group, taking_back(second, later)) == [1, 2]
    # live logs say when: a copy that an attempt which was presumed dead delivers later stays withdrawn
    assert withdrawn_rules(logs, url, first) == ([1, 2] if live else [2])
    assert withdrawn_rules(logs, url, ordered(0, again)) == [2]


def test_an_event_that_comes_again_in_the_millisecond_in_which_it_was_taken_back_keeps_its_alerts(logs, url):  # noqa: F811
    """An update of a row is two records with one log time; the lines of each order are in a partition of their own."""
    first, second = ordered(0, 2_000), ordered(1, 2_000)
    lines = taking_back(first, 2_000), first, taking_back(second, 2_000), second
    assert withdrawn_rules(logs, url, *lines) == []


def test_no_line_reads_the_whole_table(logs, url, monkeypatch):  # noqa: F811
    many = [replace(ordered(n % 2, 1_000, event_id=n), event_time=AT + n) for n in range(3_000)]
    assert withdrawn_rules(logs, url, *many) == []
    plans: list[str] = []

    def explain(connection, cursor, statement, parameters, context, executemany):
        if statement.startswith(("SELECT lab_", "UPDATE", "SELECT DISTINCT")):
            how = "EXPLAIN QUERY PLAN" if url.startswith("sqlite") else "EXPLAIN"
            cursor.execute(f"{how} {statement}", parameters)
            plans.append(" ".join(str(row) for row in cursor.fetchall()))

    engines = [create_database_engine(database_url(url))]
    monkeypatch.setattr("lab.followers.export.create_database_engine", lambda _: engines[0])
    with engines[0].begin() as connection:
        connection.execute(text("ANALYZE"))
    listen(engines[0], "before_cursor_execute", explain)
    assert withdrawn_rules(logs, url, taking_back(many[0], 2_000), many[0]) == [1]
    assert len(plans) >= 4 and not [plan for plan in plans if re.search("(?i)scan (on )?lab_alerts", plan)]
    assert any("ix_lab_alerts_event_time" in plan for plan in plans)


def test_a_table_of_other_columns_is_refused_with_what_it_lacks(logs, tmp_path, capsys):
    database = f"sqlite:///{tmp_path}/alerts.db"
    command = ["export", "--logs", str(logs.folder), "--to", database]
    logs.log("alerts").append([alert(7)])
    assert main(command) == OK
    with create_engine(database_url(database)).begin() as connection:
        for name in ("title", "severity"):
            connection.execute(text(f"ALTER TABLE lab_alerts DROP COLUMN {name}"))
    assert main(command) == FAILED
    assert "another version of lab: its table lab_alerts has no severity, title" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_nothing_is_lost_or_twice(logs, url):  # noqa: F811
    count = 30_000
    for first in range(0, count, 2_000):
        logs.log("alerts").append([alert(number) for number in range(first, first + 2_000)])
    command = [sys.executable, "-m", "lab", "export", "--logs", str(logs.folder), "--to", url]
    seen, kills = 0, 0
    while seen < count and kills < 4:
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        before = seen
        while seen <= before and process.poll() is None:
            time.sleep(0.02)
            seen = exported(url)
        os.killpg(process.pid, signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills > 0 and main(["export", "--logs", str(logs.folder), "--to", url]) == OK
    (found,) = rows(url, "SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM lab_alerts")
    assert found == {"n": count, "ids": count}


def test_alerts_of_a_topic_are_followed_and_those_that_expired_before_are_told(kafka, tmp_path, capsys):
    logs, url = topics(kafka.address, "export"), f"sqlite:///{tmp_path}/alerts.db"  # noqa: F811
    logs.log("alerts").publish([alert(number) for number in range(10)], ["key"] * 10)
    where = repr(logs.log("alerts"))
    command = [sys.executable, "-m", "lab", "export", "--alerts", where, "--to", url, "--follow"]
    for upto in (12, 14):
        with program(command, stderr=subprocess.PIPE, text=True) as process:
            logs.log("alerts").publish([alert(number) for number in range(upto - 2, upto)], ["key"] * 2)
            wait_until(lambda: exported(url) >= upto, alive=lambda: process.poll() is None)  # noqa: B023
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == OK and f"read up to {upto}" in said
    assert "2 alerts from" in said
    log = logs.log("alerts")
    log.publish([alert(number) for number in range(14, 18)], ["key"] * 4)
    for future in log.cluster.admin_client.delete_records([TopicPartition(log.topic, 0, 16)]).values():
        future.result()
    assert main(command[3:-1]) == OK
    assert (
        f"left out: {where} from 14 up to 16: expired before it was read\n2 alerts" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hush@h/d",
        "postgresql://ann:hush@127.0.0.1:1/lab",
        "postgresql://ann@127.0.0.1:1/lab?password=hush",
        "postgresql://ann:hush@/",
    ],
)
def test_a_database_that_is_none_is_one_line_without_its_password(url, logs, capsys):  # noqa: F811
    try:
        assert main(["export", "--logs", str(logs.folder), "--to", url]) == FAILED
    except SystemExit as exit:
        assert exit.code == USAGE
    said = "".join(capsys.readouterr())
    assert "Traceback" not in said and len(said.strip().splitlines()[-1]) > 20
    assert "hush" not in said
