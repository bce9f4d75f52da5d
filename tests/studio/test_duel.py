"""The judge's score of a duel is that of the engine on the same logs, and nobody can play against the rules."""

import json
from decimal import Decimal

import pytest

from lab.cli.main import main
from lab.studio.duel import BALANCE, CLAIM_S, DuelRound, judge
from lab.studio.duelbranch import duel_branch
from lab.studio.duelists import DEFENDERS, THIEVES, DefenderSide, Players, ThiefSide, duel

MESSAGES = (
    "1: SUM(paymentAmount) per payeeId over 1 min > 600",
    "2: COUNT(events where beneficiaryId in @mules) per beneficiaryId over 10 s >= 1",
    "add 1001 to @mules",
    "3: SUM(paymentAmount where beneficiaryId >= 1000) per payeeId over 20 s > 400, at most 1 per 5 s",
    '{"ruleId": 4, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "absence": true, "window": "5s"}',
    "1 SHADOW: SUM(paymentAmount) per payeeId over 1 min > 600",
    "mute rule 1",
    "unmute rule 1",
    '{"ruleId": 2, "ruleState": "PAUSE"}',
    "COUNT per nobody > 3",
)


@pytest.mark.parametrize("thief", THIEVES)
def test_the_judge_counts_what_the_room_counted_whatever_the_defenders_did(thief, tmp_path):
    with DuelRound(seed=5, seconds=60, folder=tmp_path / "round") as played:
        players = Players(played, thief)
        for second in range(6, 60, 2):
            players.advance(second)
            message = played.random.choice(MESSAGES) if second > 6 else MESSAGES[0]
            played.tell(message.replace("1001", str(played.random.choice(played.mules))))
        players.advance(60)
    assert any(alert.log_time != alert.event_time for alert in played.alerts if alert.log_time)  # of absence
    assert 0 < len(played.refused) < len(played.events)
    assert played.score == judge(tmp_path / "round")
    assert Decimal(0) < played.score.stolen == sum(BALANCE - left for left in played.balances.values())


def test_the_same_moves_give_the_same_round_and_rules_hold_thieves_up():
    scores = {
        (thief, name): duel(thief, name, rounds=1, seconds=60)[0] for thief in THIEVES for name in DEFENDERS
    }
    assert scores["drip", "tighten"] == duel("drip", "tighten", rounds=1, seconds=60)[0]
    for thief in THIEVES:
        assert scores[thief, "nobody"].caught == scores[thief, "nobody"].hurt == 0
        assert all(
            scores[thief, name].bill < scores[thief, "nobody"].bill for name in ("tighten", "list mules")
        )


@pytest.fixture
def started():
    with DuelRound(seed=1, seconds=30) as played:
        yield played


@pytest.mark.parametrize(
    "account, mule, amount, said",
    [
        ("free", "own", 10, "account"),
        ("stolen", "shop", 10, "mule"),
        ("stolen", "own", 0, "more than 0"),
        ("stolen", "own", "NaN", "more than 0"),
        ("stolen", "own", "0.001", "more than 0"),
        ("stolen", "own", 5_001, "at most 5000, what is left"),
    ],
)
def test_what_no_thief_can_do_is_refused_and_leaves_no_trace(started, account, mule, amount, said):
    free = next(number for number in range(100, 300) if number not in started.balances)
    place = {"free": free, "stolen": min(started.balances)}[account]
    with pytest.raises(ValueError, match=said):
        started.steal(place, {"shop": 1, "own": started.mules[0]}[mule], amount)
    assert not started.events and not (started.folder / "thefts.jsonl").exists()


def test_thieves_have_two_payments_a_second_and_none_after_the_end(started):
    account, mule = min(started.balances), started.mules[0]
    assert started.steal(account, mule, 1) and started.steal(account, mule, 1)
    with pytest.raises(ValueError, match="Too fast"):
        started.steal(account, mule, 1)
    started.advance(1.5)
    assert started.steal(account, mule, 1)
    started.advance(99)
    assert started.now_s == 30 and started.is_over
    for move in (lambda: started.steal(account, mule, 1), lambda: started.tell("clear @mules")):
        with pytest.raises(ValueError, match="over"):
            move()


def test_defenders_know_a_theft_when_it_is_claimed_and_thieves_know_no_rule(started):
    account, mule = min(started.balances), started.mules[0]
    started.steal(account, mule, 100)
    side, thief = DefenderSide(started), ThiefSide(started)
    assert not side.claims
    started.advance(CLAIM_S + 1)
    assert [(claim["payeeId"], claim["paymentAmount"]) for claim in side.claims] == [(account, 100)]
    seen = {name for name in dir(thief) if not name.startswith("_")}
    assert seen == {"balances", "mules", "random", "steal"}


def test_a_rule_in_shadow_refuses_nothing_and_says_what_it_would_have_refused(started):
    account, mule = min(started.balances), started.mules[0]
    rule = f"SUM(paymentAmount) per payeeId over 1 min > 100, when beneficiaryId = {mule} and payeeId = {account}"
    started.tell(f"7 SHADOW: {rule}")
    assert started.steal(account, mule, 100) and started.steal(account, mule, 1)
    assert not started.refused and not started.alerts and started.shadow_trials() == {7: (1, 0)}
    started.advance(CLAIM_S + 2)
    assert started.shadow_trials() == DefenderSide(started).shadow_trials() == {7: (1, 1)}
    started.tell(f"7: {rule}")
    assert not started.steal(account, mule, 1) and started.refused == {started.alerts[-1].event_id}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A round of a program against a rule that became stricter, with a list."""
    folder = tmp_path_factory.mktemp("duel") / "round-1"
    with DuelRound(seed=3, seconds=60, folder=folder) as played:
        players = Players(played, "drip")
        played.tell(MESSAGES[0].replace("600", "900"))
        players.advance(30)
        played.tell(MESSAGES[0])
        played.tell(f"add {played.mules[0]} to @mules")
        players.advance(60)
    return played, folder


def test_a_round_with_other_rules_has_the_score_that_they_would_have_had(kept):
    played, folder = kept
    same = duel_branch(folder, [MESSAGES[0]], from_s=30.001)
    assert same.played == same.other == played.score == judge(folder)
    without = duel_branch(folder, ["1: SUM(paymentAmount) per payeeId over 1 min > 999999"])
    assert without.played == played.score and without.other.caught == without.other.hurt == 0
    assert played.score.stolen < without.other.stolen <= BALANCE * len(played.balances)
    early = duel_branch(folder, [MESSAGES[1]])
    assert early.other.caught > 0, "the list stays that of the round"
    assert "With the other rules: " in early.text() and early.other.describe() in early.text()
    with pytest.raises(ValueError, match="expected \\( after COUNT"):
        duel_branch(folder, [MESSAGES[-1].encode()])


def test_the_thefts_of_a_round_are_labels_for_tuning_a_rule(kept, capsys):
    _, folder = kept
    labels = ["--labels", str(folder / "thefts.jsonl"), "--amount", "paymentAmount"]
    assert main(["rules", "tune", MESSAGES[0], str(folder / "events"), *labels]) == 0
    assert "The best of these by F1: SUM(paymentAmount) per payeeId" in capsys.readouterr().out


def test_a_folder_holds_one_round_and_a_forged_theft_is_named(tmp_path):
    with DuelRound(seconds=2, folder=tmp_path) as played:
        played.advance(2)
    with pytest.raises(ValueError, match="holds a round already"):
        DuelRound(folder=tmp_path)
    for line in (json.dumps({"transactionId": [1]}), "[" * 100_000, '{"transactionId": 1e999, "account": 1}'):
        (tmp_path / "thefts.jsonl").write_text(line + "\n")
        with pytest.raises(ValueError, match=r"thefts.jsonl:1: expected transactionId and account"):
            judge(tmp_path)


def test_a_folder_without_a_round_has_no_score(tmp_path):
    for ask in (judge, lambda folder: duel_branch(folder, [])):
        with pytest.raises(ValueError, match="no round is there"):
            ask(tmp_path / "round-7")
    assert not list(tmp_path.iterdir())


def test_an_unknown_program_is_named():
    with pytest.raises(ValueError, match="thief.*drop.*burst, drip, spread"):
        duel("drop")
