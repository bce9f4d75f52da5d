"""Database, capture, broker, decider and enforcement service killed in turn while rows are edited: the engine's rules are the
table's, and every restriction that the alerts imply is enforced, no other. Run by `make soak`."""

import json
import os
import random
import time
from contextlib import ExitStack, closing
from threading import Event, Thread

import pytest
from confluent_kafka import KafkaException

from lab.engine.ends import KafkaLogs
from lab.logs.cluster import NoBroker
from lab.logs.kafka import COMPACTED
from lab.machine import broker, database, jars, ports
from lab.model.alerts import Alert
from lab.model.rules import Rule, RuleBook
from lab.model.schema import PAYMENTS
from lab.restrict.client import Enforcement
from lab.restrict.restrictions import FORBIDS
from lab.rulestore.store import RuleStore
from lab.stream.simulate import payments, to_json
from tests.rulestore import kills
from tests.rulestore.engine import Engine

EDITS, EDITS_A_KILL, PAUSE_S, PAYEES = 1000, 20, 0.15, 30


class Standing(Thread):
    """The reference in place of the engine, fed with payments. What fails is begun anew, from the start of the logs."""

    def __init__(self, logs):
        super().__init__(daemon=True)
        self._logs, self.stopped = logs, Event()

    def run(self) -> None:
        events = self._logs.log("events")
        stream = payments(
            seed=3, events=None, start_ms=time.time_ns() // 1_000_000, rate_per_s=20, payees=PAYEES
        )
        while not self.stopped.is_set():
            try:
                engine = Engine(self._logs)
                while not self.stopped.wait(0.1):
                    events.append([to_json(next(stream)) for _ in range(2)])
                    events.flush()
                    engine.step()
            except (KafkaException, NoBroker):  # as if the engine had been killed with the broker
                time.sleep(0.5)


def implied(logs) -> set[tuple[str, str]]:
    """(action, payee) of each alert whose version of its rule names an action."""
    book, rules = RuleBook(PAYMENTS), {}
    for line in logs.log("control").read():
        ack = book.apply(line)
        if rule := book.rules.get(ack.get("ruleId")):
            rules[rule.rule_id, rule.version] = rule
    alerts = map(Alert.from_json, logs.log("alerts").read())
    found: list[tuple[Rule, Alert]] = [(rules[alert.rule_id, alert.rule_version], alert) for alert in alerts]
    return {
        (rule.action, alert.key.removeprefix("{payeeId=").removesuffix("}"))
        for rule, alert in found
        if rule.action
    }


def refused(shop: Enforcement) -> set[tuple[str, str]]:
    asked = [(action, str(payee)) for action in FORBIDS for payee in range(PAYEES) if FORBIDS[action]]
    answers = shop.allowed([{"action": FORBIDS[action][0], "payeeId": int(payee)} for action, payee in asked])
    assert shop.unanswered == 0
    return {each for each, allowed in zip(asked, answers) if not allowed}


@pytest.mark.soak
def test_whatever_is_killed_rules_and_restrictions_arrive(tmp_path):
    rng = random.Random(os.environ.get("SEED", "1"))
    try:
        database.programs(), jars.fetch("broker")
    except (database.DatabaseError, jars.JarsError) as error:
        pytest.skip(str(error))
    with ExitStack() as opened:
        db, kafka = opened.enter_context(database.running()), opened.enter_context(broker.running())
        logs, port = KafkaLogs(kafka.address), ports.free_port()
        logs.create()
        logs.log("restrictions").create(1, COMPACTED)
        store = RuleStore(db.url(), PAYMENTS)
        where = ("--logs", f"kafka://{kafka.address}")
        commands = {
            "capture": ("cdc", "run", "--store", db.url(), *where),
            "decider": ("restrict", "run", *where),
            "service": ("restrict", "serve", "--port", str(port), *where),
        }
        processes = [
            opened.enter_context(kills.Victim(tmp_path / f"{name}.log", *command))
            for name, command in commands.items()
        ]
        standing = Standing(logs)
        standing.start()

        def kill_database() -> None:
            database.status(db.folder).kill()
            time.sleep(rng.uniform(0, 1))
            database.start(db.folder, db.port)

        def kill_broker() -> None:
            broker.status(kafka.folder).kill()
            broker.start(kafka.folder, kafka.port)

        victims = [kill_database, *(process.restart for process in processes), kill_broker]
        count = 0

        def meanwhile(number: int) -> None:
            nonlocal count
            if number % EDITS_A_KILL == EDITS_A_KILL - 1:
                victims[count % len(victims)]()
                count += 1

        kills.edit_until_done(store, rng, EDITS, PAUSE_S, meanwhile)
        messages = kills.check(store, logs.log("control"))
        time.sleep(3)
        assert standing.is_alive()
        standing.stopped.set()
        standing.join()
        shop = opened.enter_context(closing(Enforcement(f"http://127.0.0.1:{port}")))
        deadline = time.monotonic() + kills.WAIT_S
        while (found := refused(shop)) != (wanted := {each for each in implied(logs) if FORBIDS[each[0]]}):
            assert time.monotonic() < deadline, f"missing {wanted - found}, too many {found - wanted}"
            time.sleep(0.5)
        versions = [json.loads(line) for line in logs.log("acks").read()]
        assert len(found) > 20, "too few restrictions to mean anything"
        print(
            f"{count} kills, {EDITS} edits, {messages} messages, {len(versions)} answers, {len(found)} restricted: as implied"
        )
