"""Named lists and mutes: conditions on values that messages add and remove, and alerts that are held back."""

import json
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from time import process_time

import pytest

from lab.model import rules
from lab.model.conditions import BadConditions
from lab.model.listmessages import list_messages
from lab.model.lists import FOREVER, NamedList
from lab.model.reference import Reference
from lab.model.rules import RuleBook, parse_message
from lab.model.schema import LOGINS
from lab.model.when import when_text
from lab.model.whenreader import parse_when, taken_back_condition

RULE = "1: COUNT(events where country in @highrisk) per userId over 1 h >= 1"
LIVE = "2: COUNT(events) per userId over 1 h >= 1"


def event(number: int, country: str | None = "KR", user: int = 1, **more: object) -> bytes:
    fields = {"eventId": number, "eventTime": 1000 * number, "userId": user, "country": country}
    return json.dumps(fields | more).encode()


def run(*log: str | bytes) -> Reference:
    """The reference after a log, of control messages as text and events as bytes. None of the messages is refused."""
    reference = Reference(LOGINS)
    for each in log:
        if isinstance(each, bytes):
            reference.event(each)
        else:
            assert reference.control(each)["status"] == "accepted", each
    return reference


def alerted(*log: str | bytes) -> list:
    return [alert.event_id for alert in run(*log).alerts]


def test_an_event_sees_a_list_as_it_is_at_its_place_in_the_log():
    rule = "1: COUNT(events) per userId over 1 s >= 1, when country in @highrisk"
    log = [rule, event(1), "add KR to @highrisk", event(3), "remove KR from @highrisk", event(5)]
    assert alerted(*log) == [3]
    assert alerted(rule.replace("in @", "not in @"), *log[1:]) == [1, 5]


@pytest.mark.parametrize(
    "rule",
    [
        "1: COUNT(events) where country in @highrisk per userId over 1 h >= 2",
        "1: COUNT(events where country in @highrisk) per userId over 1 h >= 2",
    ],
)
def test_an_event_counts_as_the_list_was_when_it_arrived(rule):
    log = [
        rule,
        "add KR to @highrisk",
        event(1),
        "clear @highrisk",
        event(2),
        "add KR to @highrisk",
        event(3),
    ]
    assert alerted(*log) == [3], "with the first one; what is stored stays, and the second never passed"


def test_an_entry_is_seen_by_events_with_times_before_it_expires():
    rule = "1: COUNT(events) per userId over 1 s >= 1, when country in @highrisk"
    log = [rule, "add KR to @highrisk until 2000", event(1), event(2), event(3)]
    assert alerted(*log) == [1], "not the one at the time itself"
    assert alerted(*log[:2], "add KR to @highrisk", *log[2:]) == [1, 2, 3], "added again, it does not expire"
    assert alerted(rule, "add KR to @highrisk until 1970-01-01T00:00:03Z", event(1), event(2), event(3)) == [
        1,
        2,
    ]


def test_values_are_texts_for_texts_and_numbers_for_numbers():
    rule = "1: COUNT(events) per userId over 1 s >= 1, when amount in @amounts or country in @amounts"
    add = json.dumps({"list": "amounts", "add": ["7.50", 3]})
    log = [event(1, None, amount="7.5"), event(2, "7.5"), event(3, "7.50"), event(4, "3"), event(5, amount=3)]
    assert alerted(rule, add, *log) == [1, 3, 4, 5]
    assert alerted(rule.replace("in @", "not in @"), add, event(1, None, amount=None)) == []


def test_a_null_is_in_no_list_and_in_no_other():
    for condition in ("country in @highrisk", "country not in @highrisk"):
        rule = f"1: COUNT(events) per userId over 1 s >= 1, when {condition}"
        assert alerted(rule, "add KR to @highrisk", event(1, None)) == []


def test_each_change_is_a_version_and_is_answered():
    reference = Reference(LOGINS)
    asked = [
        '{"list": "a", "add": ["x", "y"]}',
        "remove x, z from @a",
        "clear @a",
        '{"list": "b", "add": ["x"]}',
    ]
    answers = [reference.control(message) for message in asked]
    assert [(answer["list"], answer["version"], answer["entries"]) for answer in answers] == [
        *(("a", 1, 2), ("a", 2, 1), ("a", 3, 0), ("b", 1, 1))
    ]


def test_a_rule_that_names_an_empty_list_is_accepted_with_a_hint():
    reference = Reference(LOGINS)
    assert reference.control(RULE)["hint"] == "the list @highrisk is empty, so no value is in it"
    reference.control("add KR to @highrisk")
    assert "hint" not in reference.control(RULE)


def test_a_change_in_one_message_empties_then_removes_then_adds():
    book = RuleBook(LOGINS)
    book.apply('{"list": "a", "add": ["x", "y"]}')
    book.apply('{"list": "a", "clear": true, "remove": ["z"], "add": ["z", "y"]}')
    assert set(book.lists["a"].until_by_value) == {"y", "z"}


def test_a_condition_on_a_list_reads_back_as_it_is_written():
    for text in (
        "country in @highrisk",
        'userId not in @vip.2-x and country = "@a"',
        "hour(eventTime) in @night",
    ):
        assert when_text(parse_when(text, LOGINS)) == text
    rule = parse_message(RULE, LOGINS).rule
    assert rule and parse_message(json.dumps(rule.to_dict()), LOGINS).rule == rule


REFUSED = {
    '{"list": "a b", "add": ["x"]}': 'list: "a b", expected a name of at most 64 letters',
    '{"list": "a"}': "list: nothing to change",
    '{"list": "a", "add": "x"}': 'add: "x", expected a list',
    '{"list": "a", "add": [true]}': "add: true, expected a text",
    '{"list": "a", "add": [""]}': 'add: "", expected a text',
    '{"list": "a", "add": ["x"], "until": "soon"}': 'until: "soon", expected a time such as',
    '{"list": "a", "remove": ["x"], "until": 5}': "until: only for what is added",
    '{"list": "a", "ad": ["x"]}': 'unknown attribute "ad", did you mean add?',
    '{"list": "a", "clear": 1}': "clear: 1, expected true or false",
    "add KR to highrisk": "expected the name of a list with its @",
    "add New York to @a": "expected , or to @list after a value",
    "add to @a": "expected a value",
    "remove KR from @a until 5": "expected the end",
    "clear @a b": "expected the end",
    "mute rule 2 for user=1": "unknown logins field",
    '{"mute": 2, "group": {"userId": null}}': "group: userId is null",
    '{"mute": 2, "unmute": 2}': "both are given",
    '{"mute": "2"}': 'mute: "2", expected a rule\'s id',
    '{"list": "muted", "add": ["all"]}': 'muted: "all", expected a rule\'s id',
    "1: COUNT(events) over 1 h > 1, when country in @": "expected @ and a name of at most 64 letters",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_change_of_a_list_is_refused_with_its_reason(message):
    book = RuleBook(LOGINS)
    book.apply(LIVE)
    ack = book.apply(message)
    assert ack["status"] == "rejected" and REFUSED[message] in ack["reason"], ack
    assert not book.lists


def test_lists_are_bounded(monkeypatch):
    monkeypatch.setattr(rules, "MAX_LISTS", 2)
    monkeypatch.setattr(rules, "MAX_ENTRIES", 3)
    monkeypatch.setattr(rules, "MAX_ALL_ENTRIES", 4)
    monkeypatch.setattr(rules, "MAX_CHARACTERS", 10)
    book = RuleBook(LOGINS)

    def accepted(*messages: str) -> list[bool]:
        return [book.apply(message)["status"] == "accepted" for message in messages]

    assert accepted("add 1, 2, 3 to @a", "add 4 to @a", "add 1, 2 to @b", "add 1 to @b") == [
        True,
        False,
        False,
        True,
    ]
    assert accepted("add 1 to @c", "remove 1, 2, 3 from @a", "add abcdefghijk to @a") == [False, True, False]
    assert (book.lists["a"].version, len(book.lists["a"]), len(book.lists["b"])) == (2, 0, 1)


def test_many_values_become_messages_that_are_short_enough():
    values = [f"{n}" * 500 for n in range(200)]
    messages = list(list_messages("a", "add", values, 5))
    assert max(map(len, messages)) < rules.MAX_MESSAGE_BYTES and len(messages) > 2
    book = RuleBook(LOGINS)
    assert all(book.apply(message)["status"] == "accepted" for message in messages)
    assert list(book.lists["a"].until_by_value.items()) == [(value, 5) for value in values]


def test_a_list_is_what_its_changes_say_and_a_change_does_not_touch_the_list_before_it():
    for seed in range(100):
        rng, entries, expected = Random(seed), NamedList(), dict[str, int]()
        for _ in range(rng.randrange(60)):
            before, was, clear = entries, dict(expected), rng.random() < 0.03
            add, remove = ([f"{rng.randrange(30)}" for _ in range(rng.randrange(6))] for _ in range(2))
            entries = entries.changed(untils := {value: rng.randrange(9) for value in add}, remove, clear)
            kept = {} if clear else {value: until for value, until in expected.items() if value not in remove}
            expected = kept | untils
            assert entries.until_by_value == expected and before.until_by_value == was
            assert (len(entries), entries.characters) == (len(expected), sum(map(len, expected)))
            assert all(entries.contains(f"{n}") == (f"{n}" in expected) for n in range(30))


def test_a_list_grows_entry_by_entry_in_linear_time():
    def seconds(entries: int) -> float:
        began, grown = process_time(), NamedList()
        for n in range(entries):
            grown = grown.changed({f"{n}": FOREVER})
        return process_time() - began

    assert seconds(40_000) < 10 * seconds(10_000)  # a copy for each would take 16 times as long


def test_a_book_reads_back_with_its_lists():
    book = RuleBook(LOGINS)
    for message in (RULE, "add KR to @highrisk until 5", "add US to @highrisk"):
        book.apply(message)
    again = RuleBook.from_json(book.to_json(), LOGINS)
    assert again.lists["highrisk"].until_by_value == {"KR": 5, "US": FOREVER}
    assert again.lists["highrisk"].version == 2 and again.rules == book.rules
    (of,) = again.rules[1].aggregations
    assert of.is_counted({"country": "US", "eventTime": 0}), "its conditions see the lists"


# -- mutes -------------------------------------------------------------------------------------------------------------


def muted(*log: str | bytes) -> tuple[list, dict[str, int]]:
    reference = run(*log)
    return [alert.event_id for alert in reference.alerts], dict(reference.muted)


def users(numbers: Iterable[int]) -> list[bytes]:
    return [event(10 * number + user, user=user) for number in numbers for user in (1, 2)]


def test_alerts_of_a_muted_group_are_held_back_and_counted():
    log = [
        LIVE,
        *users([1]),
        "mute rule 2 for userId=1",
        *users([2]),
        "unmute rule 2 for userId=1",
        *users([3]),
    ]
    assert muted(*log) == ([11, 12, 22, 31, 32], {"2.1": 1})


def test_a_whole_rule_is_muted_until_a_time():
    log = [LIVE, "mute rule 2 until 1970-01-01T00:00:21Z", *users([1, 2, 3])]
    assert muted(*log) == ([21, 22, 31, 32], {"2.1": 2}), (
        "events see a mute if their times are before its end"
    )


def test_a_mute_names_fields_in_any_order():
    rule = "3: COUNT(events) per userId, country over 1 h >= 1"
    for of in ("userId=1, country=KR", "country = KR, userId = 1"):
        assert muted(rule, f"mute rule 3 for {of}", event(1)) == ([], {"3.1": 1})


def test_a_mute_may_come_before_its_rule_and_says_what_it_holds_back():
    """As in a compacted log, which keeps only the last message of each rule."""
    book = run(LIVE).book
    assert "hint" not in book.apply("mute rule 2 for userId=1") and "hint" not in book.apply("mute rule 2")
    assert book.apply("mute 9")["hint"] == "rule 9 is not in force, so the mute holds nothing back"
    hint = "the mute names the fields country, but the grouping fields of rule 2 are userId, so it holds nothing back"
    assert book.apply("mute rule 2 for country=KR")["hint"] == hint
    assert "hint" not in book.apply("unmute 9")
    hints = book.apply(json.dumps({"list": "muted", "add": list(range(10, 100))}))["hint"].split("; ")
    assert len(hints) == rules.MAX_HINTS
    assert muted("mute rule 2 for userId=1", event(1), LIVE, event(2)) == ([], {"2.1": 1})
    by_country = LIVE.replace("userId", "country")
    assert muted(by_country, "mute rule 2 for userId=1", event(1), LIVE, event(2)) == ([1], {"2.2": 1})


def test_a_mute_changes_nothing_but_whether_alerts_are_given():
    """A muted alert resets a count, counts for `atMost`, and its event causes a line when it is taken back."""
    reset = "4: COUNT_WITH_RESET(events) per userId over 1 h >= 2"
    assert muted(reset, "mute rule 4", event(1), event(2), "unmute rule 4", event(3), event(4)) == (
        [4],
        {"4.1": 1},
    )
    most = f"{LIVE}, at most 1 per 1 h"
    reference = run(most, "mute rule 2", event(1), "unmute rule 2", event(2))
    assert (len(reference.alerts), dict(reference.muted), dict(reference.suppressed)) == (
        0,
        {"2.1": 1},
        {"2.1": 1},
    )


def test_mutes_are_entries_of_a_list():
    book = run(LIVE, "mute rule 2 for userId=1", '{"list": "muted", "add": ["2"]}').book
    assert list(book.lists["muted"].until_by_value) == ['2 {"userId":1}', "2"]


def test_a_mute_stays_when_its_rule_is_changed_or_deleted():
    log = [LIVE, "mute rule 2 for userId=1", '{"ruleId": 2, "ruleState": "DELETE"}', LIVE, event(1)]
    assert muted(*log) == ([], {"2.3": 1})


# -- what stays --------------------------------------------------------------------------------------------------------


def test_an_expired_entry_stays_until_it_is_removed():
    book = run("add KR to @highrisk until 1000", event(5)).book
    assert len(book.lists["highrisk"]) == 1
    assert book.apply("remove KR from @highrisk")["entries"] == 0


@pytest.mark.parametrize("control", ["CLEAR_STATE_ALL", "DELETE_RULES_ALL"])
def test_controls_leave_lists_as_they_are(control):
    message = json.dumps({"ruleState": "CONTROL", "controlType": control})
    assert alerted("add KR to @highrisk", RULE, message, RULE, event(1)) == [1]


def test_a_schema_names_no_list():
    schema = replace(LOGINS, taken_back="country in @highrisk")
    with pytest.raises(BadConditions, match="a schema names no list"):
        taken_back_condition(schema)
