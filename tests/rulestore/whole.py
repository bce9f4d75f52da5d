"""Rows edited at random while every part of the loop is killed, engine and all; then all that can be read is compared.

    table ══ control log ══ EXPORT_RULES_CURRENT ══ the checkpoint's rules
    logs ──► reference ──► alerts with an action ══ restriction log ══ what the service refuses

Nothing is compared with what produced it: the reference reads events and control messages in the order in which the engine took them.
"""

import http.client
import json
import random
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread

from lab.engine.loop.kafkalogs import KafkaLogs
from lab.model.alerts import Alert
from lab.model.reference import Reference
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.model.times import now_ms
from lab.restrict.client import HOST
from lab.restrict.restrictions import FORBIDS
from lab.restrict.standing import fold_restrictions
from lab.restrict.tokens import read_tokens
from lab.state.read import StateReader
from lab.stream.simulate import payments, to_json
from tests.answers import only_answers
from tests.rulestore import kills
from tests.rulestore.loop import Loop
from tests.topics import counted, in_log_order, publish
from tests.waiting import wait_until

PAYEES, EVENTS_A_SECOND, PAUSE_S = 30, 10, 0.15
ASK_S = 0.3
ASKED = [(action, str(payee)) for action in FORBIDS for payee in range(PAYEES) if FORBIDS[action]]

Who = tuple[str, str]  # an action and whom it is forbidden
Term = tuple[int, int]  # from, until


class Until(Thread):
    """Does a step again and again until it is stopped."""

    def __init__(self, pause_s: float):
        super().__init__(daemon=True)
        self._pause_s, self._stopped = pause_s, Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stopped.wait(self._pause_s):
                self.step()
        except Exception as error:  # noqa: BLE001  (who stops it is told)
            self.error = error

    def step(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        if self.error:
            raise self.error


class Payments(Until):
    """Lets the events topic grow; a broker that is away only delays it."""

    def __init__(self, loop: Loop):
        super().__init__(1 / EVENTS_A_SECOND)
        self._log = loop.logs.log("events")
        start_ms = now_ms()
        self._events = payments(
            seed=3, events=None, start_ms=start_ms, rate_per_s=EVENTS_A_SECOND, payees=PAYEES
        )

    def step(self) -> None:
        self._log.append([to_json(next(self._events))])

    def stop(self) -> None:
        super().stop()
        self._log.close()


class Shop(Until):
    """Asks for everybody, and keeps every refusal: who, and because of which alert, until when."""

    def __init__(self, loop: Loop):
        super().__init__(ASK_S)
        self._port = loop.port
        self.refused: dict[Who, tuple[str, int]] = {}
        self.journal: set[tuple[Who, str, int]] = set()

    def step(self) -> None:
        with suppress(OSError, http.client.HTTPException):  # the service has been killed
            self.ask()

    def ask(self) -> dict[Who, tuple[str, int]]:
        """Who is refused now: the alert, until when."""
        now: dict[Who, tuple[str, int]] = {}
        with closing(http.client.HTTPConnection(HOST, self._port, timeout=5)) as connection:
            questions = [{"action": FORBIDS[action][0], "payeeId": int(payee)} for action, payee in ASKED]
            body = json.dumps({"questions": questions})
            token = {"Authorization": f"Bearer {read_tokens()[0]}"}
            connection.request("POST", "/may", body, {"Content-Type": "application/json"} | token)
            answers = json.loads(connection.getresponse().read())["answers"]
        for who, answer in zip(ASKED, answers, strict=True):
            if not answer["allowed"]:
                now[who] = answer["alertId"], answer["until"]
        self.journal |= {(who, *because) for who, because in now.items()}
        return now


class Derived:
    """What the reference makes of what an engine has taken: its rules and answers, and each restriction that an alert implies."""

    def __init__(self, logs: KafkaLogs):
        self.reference, self.terms, self.journal, seen = Reference(PAYMENTS), {}, set(), 0
        for log_time, is_event, line in in_log_order(logs):
            if is_event:
                self.reference.event(line.encode(), log_time=log_time)
            else:
                self.reference.control(line, log_time)
            for alert in self.reference.alerts[seen:]:
                self._restrict(alert, log_time)
            seen = len(self.reference.alerts)

    def _restrict(self, alert: Alert, log_time: int) -> None:
        rule = self.reference.book.rules[alert.rule_id]
        if rule.action:
            who = rule.action, alert.key.removeprefix("{payeeId=").removesuffix("}")
            start, until = self.terms.get(who, (0, 0))
            self.terms[who] = max(start, log_time), max(until, log_time + rule.ttl_ms)
            self.journal.add((who, alert.alert_id, log_time + rule.ttl_ms))


def whole_loop(folder: Path, edits: int, edits_a_kill: int, seed: int | str = 1) -> str:
    """Edits, kills, compares; returns the figures."""
    rng, killed, began = random.Random(seed), Counter(), time.monotonic()
    with Loop(folder, PAYMENTS, seed) as loop:
        events, shop = Payments(loop), Shop(loop)
        events.start()
        shop.start()

        def meanwhile(number: int) -> None:
            if number % edits_a_kill == edits_a_kill - 1:
                part = loop.parts[killed.total() % len(loop.parts)]
                loop.kill(part)
                killed[part] += 1

        kills.edit_until_done(loop.store, rng, edits, PAUSE_S, meanwhile)
        edited_s = time.monotonic() - began
        messages = kills.check(loop.store, loop.logs.log("control"))
        events.stop()
        (place,) = publish(loop.logs, '{"ruleState": "CONTROL", "controlType": "EXPORT_RULES_CURRENT"}')
        sent = len(loop.logs.log("events").read())
        wait_until(lambda: counted(loop.logs)["records"] == sent and place in answers(loop), pause_s=1)
        # once the engine has taken all: a record that turns up late counts as logged at its cut
        derived = Derived(loop.logs)
        assert_rules(loop, derived, answers(loop)[place])
        assert_restrictions(loop, derived, shop)
        shop.stop()
    kinds = ", ".join(f"{part} {times}" for part, times in killed.items())
    return (
        f"{edits:,} edits and {killed.total()} kills ({kinds}) in {edited_s:.0f} s: {messages:,} messages, "
        f"{sent:,} events, {len(derived.reference.alerts):,} alerts, {len(derived.terms)} restrictions, "
        f"{len(shop.journal):,} different refusals; no difference"
    )


def answers(loop: Loop) -> dict[str, dict]:
    """The engine's answers by the place of what they answer; one that comes again is the same."""
    found: dict[str, dict] = {}
    for ack in map(json.loads, only_answers(loop.logs.log("acks").read())):
        before = found.setdefault(ack["place"], ack)
        assert before == ack, "an answer that was given again differs"
    return found


def assert_rules(loop: Loop, derived: Derived, export: dict) -> None:
    """The engine's rules and lists, told and on disk, are the tables'; versions are in order; beside the rows they are right."""
    book, (of_table, _) = derived.reference.book, kills.expected(loop.store)
    wanted = [rule.to_dict() for rule in book.sorted()]
    assert kills.unversioned(book) == kills.unversioned(of_table)
    assert kills.entries(book) == kills.entries(of_table)
    assert export["rules"] == wanted
    wait_until(lambda: as_saved(StateReader(loop.checkpoint).ledger.book) == as_saved(book))
    said = [(ack["status"], ack.get("ruleId"), ack.get("version")) for ack in in_order(answers(loop))]
    acks = derived.reference.acks
    assert said == [(ack["status"], ack.get("ruleId"), ack.get("version")) for ack in acks]
    for rule_id in kills.RULE_IDS:
        versions = [version for _, rule, version in said if rule == rule_id]
        assert versions == list(range(1, len(versions) + 1)), f"the versions of rule {rule_id}"
    in_force = {rule["ruleId"]: rule["version"] for rule in wanted}
    wait_until(
        lambda: (
            {row["rule_id"]: row["version_in_force"] for row in loop.store.rows() if row["version_in_force"]}
            == in_force
        )
    )
    entries = [row for name in kills.ENTRIES for row in loop.store.entries(name)]
    assert not [row for row in (*loop.store.rows(), *entries) if row["status"] == "waiting"]


def as_saved(book: RuleBook) -> dict:
    """Rules, versions and lists."""
    return json.loads(book.to_json())


def in_order(found: dict[str, dict]) -> list[dict]:
    """Answers in the order of the control log."""
    return [found[place] for place in sorted(found, key=lambda place: int(place.rpartition(":")[2]))]


def assert_restrictions(loop: Loop, derived: Derived, shop: Shop) -> None:
    """Whom the reference restricts, the log restricts, for the same time, and the service refuses; nobody else, ever."""
    alerts = {json.loads(line)["alertId"] for line in loop.logs.log("alerts").read()}
    assert alerts == {alert.alert_id for alert in derived.reference.alerts}

    def restricted() -> dict[Who, Term]:
        standing = fold_restrictions(loop.logs.log("restrictions")).all()
        return {
            (each.action, str(dict(each.subject)["payeeId"])): (each.start, each.until) for each in standing
        }

    wait_until(lambda: restricted() == derived.terms)

    def enforced() -> bool:
        now = now_ms()
        wanted = {who: until for who, (_, until) in derived.terms.items() if who in ASKED and until > now}
        return {who: until for who, (_, until) in shop.ask().items()} == wanted

    wait_until(enforced)
    assert shop.journal <= derived.journal, "somebody was refused whom no alert names"
