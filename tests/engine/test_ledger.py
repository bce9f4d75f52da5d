"""The ledger: stores that are numbered anew, files under names that say what is in them."""

from hashlib import sha256

import pytest

from lab.engine.checkpoint import ledger
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.ledger import CutRecord, Ledger, load_ledger, save_ledger
from lab.model.deadletters import BEGINNING
from lab.model.jsontext import LongLine
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS
from tests.engine.test_inprocess import count_rule

RULE = count_rule(">", 0, "5m")[1]
OTHER = RULE.replace(b'"ruleId": 1', b'"ruleId": 2')
DELETE = b'{"ruleId": 1, "ruleState": "DELETE"}'
CLEAR = b'{"ruleState": "CONTROL", "controlType": "CLEAR_STATE_ALL"}'


def after(*messages: bytes) -> Ledger:
    found = Ledger(RuleBook(LOGINS))
    for message in messages:
        assert found.apply(message)["status"] == "accepted"
    return found


def test_its_digest_follows_each_change():
    found, digests = Ledger(RuleBook(LOGINS)), set[str]()
    for message in (RULE, OTHER, CLEAR, b'{"ruleId": 2, "ruleState": "PAUSE"}', DELETE, RULE, DELETE):
        digests.add(found.digest)
        assert found.apply(message)["status"] == "accepted" and found.digest == found.copy().digest
    assert len(digests | {found.digest}) == 8
    before = found.digest
    assert found.apply(DELETE)["status"] == "rejected" and found.digest == before


@pytest.mark.parametrize("between", [[DELETE, RULE], [CLEAR]])
def test_a_route_that_begins_anew_has_another_store(between):
    (before,), (now,) = after(RULE).plans, after(RULE, *between).plans
    assert now.entry.store > before.entry.store


def test_a_rule_that_comes_back_joins_anew_and_the_others_stay():
    before, now = (of.plans[0].entry for of in (after(RULE, OTHER), after(RULE, OTHER, DELETE, RULE)))
    assert now.store == before.store
    assert (
        now.joined_by_rule_id[1] > before.joined_by_rule_id[1]
        and now.joined_by_rule_id[2] == before.joined_by_rule_id[2]
    )


def test_it_comes_back_from_a_file_as_it_was(tmp_path):
    folder, change = CheckpointFolder(tmp_path), CutRecord(17, 0, "control/0:1", RULE)
    name = save_ledger(folder, "", [change], after(RULE))
    found, changes = load_ledger(folder, name, LOGINS)
    assert (found.to_dict(), changes) == (after(RULE).to_dict(), [change])


def test_a_file_with_any_byte_changed_is_damaged_and_says_so(tmp_path):
    """A limit with another digit would raise other alerts."""
    folder = CheckpointFolder(tmp_path)
    name = save_ledger(folder, "", [CutRecord(17, 0, "control/0:1", RULE)], after(RULE))
    whole = (folder / "rules").read(name)
    for at in range(len(whole)):
        (folder / "rules").write(name, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=f"rules/{name} is damaged: restore the checkpoint"):
            load_ledger(folder, name, LOGINS)


@pytest.mark.parametrize("unit", ["x", "é", "😀", "\x01"])
def test_a_message_that_is_too_long_to_be_in_memory_is_answered_as_one_that_is_not(tmp_path, unit):
    raw = (unit * 10_000).encode() + b"x" * 100_000
    long = LongLine.of(len(raw), sha256(raw).hexdigest(), raw[:BEGINNING])
    name = save_ledger(CheckpointFolder(tmp_path), "", [CutRecord(17, 0, "control/a:1", long)], after(RULE))
    ((change,),) = load_ledger(CheckpointFolder(tmp_path), name, LOGINS)[1:]
    answers = [RuleBook(LOGINS).apply(message) for message in (raw, long, change.record)]
    assert answers == answers[:1] * 3
    assert answers[0]["reason"] == f"message of {len(raw)} bytes, at most 65536 are allowed"
    assert answers[0]["bytes"] == len(raw)


def test_other_changes_have_another_name_so_a_plan_that_was_given_up_does_no_harm(tmp_path):
    folder = CheckpointFolder(tmp_path)
    names = [
        save_ledger(folder, "", [CutRecord(17, 0, "control/0:1", of)], after(of)) for of in (RULE, OTHER)
    ]
    assert len(set(names)) == 2
    assert save_ledger(folder, "", [CutRecord(17, 0, "control/0:1", RULE)], after(RULE)) == names[0]


def test_a_copy_goes_on_by_itself(tmp_path):
    folder = CheckpointFolder(tmp_path)
    name = save_ledger(folder, "", [CutRecord(17, 0, "control/0:1", RULE)], after(RULE))
    load_ledger(folder, name, LOGINS).ledger.copy().apply(DELETE)
    assert len(load_ledger(folder, name, LOGINS).ledger.plans) == 1


def test_old_files_go_but_not_those_of_the_last_two_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT", 2)
    folder, names = CheckpointFolder(tmp_path), [""]
    for number in range(9):
        names.append(save_ledger(folder, names[-1], [CutRecord(number, 0, "", RULE)], after(RULE)))
        assert set(names[-2:]) - {""} <= set((folder / ledger.FOLDER).names())
    assert len((folder / ledger.FOLDER).names()) <= 4


FILTERED = RULE.replace(b'{"ruleId": 1', b'{"ruleId": 1, "filter": {"action": "login"}')
OTHER_KEYS = RULE.replace(b'"userId"', b'"country"')


@pytest.mark.parametrize("between", [FILTERED, OTHER_KEYS])
def test_a_rule_that_was_on_another_route_for_a_moment_joins_anew(between):
    """Another rule keeps the route, so the store stays."""
    before, now = (of.plans[0].entry for of in (after(RULE, OTHER), after(RULE, OTHER, between, RULE)))
    assert between != RULE and now.store == before.store
    assert now.joined_by_rule_id[1] > before.joined_by_rule_id[1]
    assert now.joined_by_rule_id[2] == before.joined_by_rule_id[2]


def test_a_rule_that_changes_and_keeps_its_route_stays_as_it_joined():
    paused = b'{"ruleId": 1, "ruleState": "PAUSE"}'
    wider = RULE.replace(b"5m", b"9m")
    before, now = (of.plans[0].entry for of in (after(RULE, OTHER), after(RULE, OTHER, paused, wider, RULE)))
    assert wider != RULE and now.joined_by_rule_id == before.joined_by_rule_id


def test_a_list_is_written_only_when_it_changes_and_as_long_as_a_ledger_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "KEPT", 2)
    folder, name = CheckpointFolder(tmp_path), ""

    def save(message: bytes) -> set[str]:
        nonlocal name
        after = load_ledger(folder, name, LOGINS).ledger.copy()
        assert after.apply(message)["status"] == "accepted"
        name = save_ledger(folder, name, [CutRecord(17, 0, "", message)], after)
        return set((folder / ledger.LISTS).names())

    first = save(b"add KR to @highrisk")
    assert len(first) == 1 and save(RULE) == first, "a change of rules writes no list"
    second = save(b"add CN to @highrisk") - first
    for _ in range(4):
        left = save(RULE)
    assert left == second
    ledger._load.cache_clear()
    assert [*load_ledger(folder, name, LOGINS).ledger.book.lists["highrisk"].until_by_value] == ["CN", "KR"]
