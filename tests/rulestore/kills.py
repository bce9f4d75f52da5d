"""Edits rows of rules and lists at random while what carries them is killed, and compares what arrived with the table. See the tests that use it."""

import json
import random
import time
from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from lab.model.lists import EMPTY
from lab.model.rules import BadRule, RuleBook, parse_message
from lab.model.schema import PAYMENTS
from lab.model.times import now_ms
from lab.rulestore.changes import RuleChange, change_to_message, run_to_message, subjects_in_message
from lab.rulestore.store import RuleStore
from tests.waiting import wait_until

RULE_IDS = range(1, 9)
RULE = {
    "ruleState": "ACTIVE",
    "groupingKeyNames": ["payeeId"],
    "filter": {"payeeId": list(range(0, 30, 2))},  # the others are never restricted
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": "GREATER",
    "window": "20m",
}
ENTRIES = {
    "kinds": ["CSH", "CRD", "x"],
    "others": ["CSH", "x", "y", "z"],
    "muted": ["8", '3 {"payeeId":4}', '7 {"payeeId":2}'],
}
ACTIONS = ({}, *({"action": action, "ttl": "5h"} for action in ("hold_payment", "block_login", "notify")))
WHENS = ({}, {"when": "paymentType in @kinds"}, {"when": "paymentType not in @others"})


def edit(store: RuleStore, rng: random.Random) -> None:
    """One edit of some row; now and then one that the database takes and the engine would reject."""
    rule_id, limit = rng.choice(RULE_IDS), rng.randint(1, 300)
    raw = {
        "limit": text("UPDATE rules SET limit_value = :limit WHERE rule_id = :id"),
        "wrong": text("UPDATE rules SET aggregate_field_name = 'nothing' WHERE rule_id = :id"),
        "right": text("UPDATE rules SET aggregate_field_name = 'paymentAmount' WHERE rule_id = :id"),
        "disable": text("UPDATE rules SET disabled = NOT disabled WHERE rule_id = :id"),
    }
    kind = rng.choice(["put", "put", "pause", "limit", "limit", "wrong", "right", "disable"])
    try:
        if kind == "put":
            said = RULE | {"ruleId": rule_id, "limit": limit} | rng.choice(ACTIONS) | rng.choice(WHENS)
            store.put(json.dumps(said))
        elif kind == "pause":
            store.set_state(rule_id, rng.choice(["PAUSE", "ACTIVE"]))
        else:
            with store.engine.begin() as connection:
                given = {"id": rule_id} | ({"limit": str(limit)} if kind == "limit" else {})
                if kind == "limit" and store.url.get_backend_name() == "postgresql":
                    given["limit"] = limit
                connection.execute(raw[kind], given)
    except BadRule:  # no such rule, or it is disabled
        return


def edit_list(store: RuleStore, rng: random.Random) -> None:
    """Adds some entries in one transaction, some of them in force already, or removes some, or all."""
    name, values = rng.choice([*ENTRIES.items()])
    some = rng.sample(values, rng.randint(1, len(values)))
    if rng.random() < 0.7:
        store.put_entries(name, some, until=rng.choice([None, None, 1 << 41, now_ms() + 3_000]))
    else:
        store.remove_entries(name, rng.choice([some, some, None]))


def edit_until_done(
    store: RuleStore,
    rng: random.Random,
    edits: int,
    pause_s: float,
    meanwhile: Callable[[int], None],
) -> None:
    """Edits once a capture has begun, again and again while the database is away; `meanwhile` is told how many are done.

    Every third edit is one of a list.
    """
    wait_until(lambda: store.last_sent_change_id_by_log())
    for number in range(edits):
        while True:
            try:
                edit_list(store, rng) if number % 3 == 1 else edit(store, rng)
                break
            except DBAPIError:
                store.engine.dispose()
                time.sleep(0.1)
        meanwhile(number)
        time.sleep(pause_s)


def expected(store: RuleStore) -> tuple[RuleBook, set[tuple[str, int]]]:
    """The rules and lists that the history implies, and the changes, each with its subject, that the log must have."""
    book, must = RuleBook(PAYMENTS), set()
    for change in store.changes_after(0, at_most=100_000):
        message, _ = run_to_message([change], "s")
        is_there = not change.row["disabled"] or is_in_force(book, change)
        if book.apply(message)["status"] == "accepted" and is_there:
            must.add((change.subject, change.change_id))
    return book, must


def is_in_force(book: RuleBook, change: RuleChange) -> bool:
    if change.is_entry:
        return change.row["entry"] in book.lists.get(change.row["list_name"], EMPTY).until_by_value
    return int(change.subject) in book.rules


def unversioned(book: RuleBook) -> dict[int, dict]:
    return {rule.rule_id: {**rule.to_dict(), "version": None} for rule in book.sorted()}


def entries(book: RuleBook) -> dict[str, dict[str, int]]:
    return {name: dict(each.until_by_value) for name, each in book.lists.items() if each}


def folded(lines: list[str]) -> RuleBook:
    book = RuleBook(PAYMENTS)
    for line in lines:
        book.apply(line)
    return book


def check(store: RuleStore, control) -> int:
    """Waits for the last change, then compares; returns how many messages there were."""
    book, must = expected(store)

    def delivered() -> bool:
        found = folded(control.read())
        return (unversioned(found), entries(found)) == (unversioned(book), entries(book))

    wait_until(delivered, pause_s=0.1)
    lines = control.read()
    changes = [each for line in lines for each in subjects_in_message(line, store.identity())]
    assert len(set(changes)) == len(changes), "a change was delivered and accepted twice"
    assert must <= set(changes), "a change was lost"
    for subject in {subject for subject, _ in changes}:
        numbers = [number for of, number in changes if of == subject]
        assert numbers == sorted(numbers), f"the changes of {subject} are out of order"
    current = {row["rule_id"]: row for row in store.rows() if not row["disabled"]}
    refused = {rule_id for rule_id, row in current.items() if row["status"].startswith("refused")}
    assert refused == {rule_id for rule_id, row in current.items() if not is_valid(row)}
    return len(lines)


def is_valid(row: dict) -> bool:
    try:
        return bool(parse_message(change_to_message(RuleChange(0, str(row["rule_id"]), row), "s"), PAYMENTS))
    except BadRule:
        return False
