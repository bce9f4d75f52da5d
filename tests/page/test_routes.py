"""What the page's engine does for routes after control messages: new stores, other rules, and what is forgotten."""

import json
from typing import Any

from lab.engine.compiled.layout import NEVER
from lab.model.schema import LOGINS
from lab.page.front import Book
from lab.page.reader import described

SUM = "SUM(amount) per userId over {} > 5"


def routes_of(book: Book, *messages: str, newest: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """The routes after the last of some messages."""
    for text in messages:
        answer = json.loads(book.carry_out(text, 0, json.dumps(newest)))
        assert answer["ack"]["status"] == "accepted", answer
    return answer["routes"]


def new_book() -> Book:
    return Book(json.dumps(described(LOGINS.to_dict())), late_ms=1_000)


def numbers(exact: list[dict[str, str]]) -> list[int]:
    return [int(each["$"]) for each in exact]


def test_a_route_is_laid_out_when_its_rules_change_and_not_when_others_do_or_lists():
    book = new_book()
    [first] = routes_of(book, f"5: {SUM.format('1 min')}")
    assert numbers(first["changed"]["rules"]) == [5] and first["changed"]["widestMs"] == 60_000
    before, after = routes_of(book, "3: COUNT(events) per country over 1 h > 2")
    assert after == {"store": first["store"]} and numbers(before["changed"]["rules"]) == [3]
    assert [set(each) for each in routes_of(book, "mute 5", "add KR to @risky")] == [{"store"}, {"store"}]
    assert "changed" in routes_of(book, '{"ruleId": 5, "ruleState": "PAUSE"}')[1]


def test_a_wider_window_has_events_forgotten_that_the_one_before_did_not_reach():
    book = new_book()
    routes_of(book, f"1: {SUM.format('1 min')}")
    [wider] = routes_of(book, f"2: {SUM.format('1 h')}", newest=(900_000, 800_000, 700_000, 600_000))
    assert wider["changed"]["before"] == {"$": str(600_000 - 60_000 - 1_000)}
    assert numbers(wider["changed"]["kept"]) == [1]
    [narrow] = routes_of(
        book, '{"ruleId": 2, "ruleState": "DELETE"}', newest=(900_000, 800_000, 700_000, 600_000)
    )
    assert narrow["changed"]["before"] == {"$": str(NEVER)} and numbers(narrow["changed"]["kept"]) == [1]
    [unknown] = routes_of(book, f"2: {SUM.format('1 h')}", newest=(900_000,))
    assert unknown["changed"]["before"] == {"$": str(NEVER)}


def test_a_route_that_goes_or_is_cleared_has_another_store_when_it_comes_again():
    book, rule = new_book(), f"1: {SUM.format('1 min')}, at most 2 per 1 h"
    [first] = routes_of(book, rule)
    assert first["changed"]["fields"][1].startswith("!1.")
    [cleared] = routes_of(book, '{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}')
    assert routes_of(book, '{"ruleId": 1, "ruleState": "DELETE"}') == []
    [again] = routes_of(book, rule)
    assert len({each["store"] for each in (first, cleared, again)}) == 3
    assert first["changed"]["fields"] != again["changed"]["fields"], (
        "what it alerted at before does not count"
    )


def test_waits_go_on_under_their_name_when_a_rule_leaves_the_shadow_and_not_when_it_changes():
    rule = {"ruleId": 1, "groupingKeyNames": ["userId"], "aggregatorFunctionType": "COUNT", "absence": True}
    rule |= {"when": "action = login", "window": "1m", "ruleState": "SHADOW"}
    book = new_book()
    names = []
    for message in (rule, {"ruleId": 1, "ruleState": "ACTIVE"}, rule | {"window": "2m"}):
        [route] = routes_of(book, json.dumps(message))
        [awaiting] = route["changed"]["awaiting"]
        names.append(awaiting["name"])
    assert names[0] == names[1] != names[2]
