"""The player: an exact rate whatever happens, seeded, and all of it can be changed while it plays."""

import itertools
import json
import sys
import threading
import time
from types import SimpleNamespace

import pexpect
import pytest

from lab.cli.main import FAILED, OK, USAGE, main
from lab.engine.loop.ends import kind_of
from lab.logs.config import Config
from lab.logs.files import FileLog
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS, SCHEMAS
from lab.stream.player import CHUNK, Player
from lab.stream.simulate import MAX_DISORDER_MS, SPIKES, PlantedBurst
from lab.studio.demo import first_rules
from tests.waiting import PATIENCE_S

WALL_MS = 1_700_000_000_000


class Stage:
    """A player with a clock that stands until it is moved, and what the player sent."""

    def __init__(self, schema="payments", rate=100, **settings):
        self.now, self.jump_ms, self.events, self.appends = 50.0, 0, [], []
        settings = {"burst_every_s": 0} | settings
        if schema == "logins":
            settings = {"users": 500} | settings
        self.player = Player(schema, self, rate, clock=lambda: self.now, wall=self.wall, **settings)

    def wall(self) -> int:
        return WALL_MS + round((self.now - 50) * 1000) + self.jump_ms

    def append(self, lines):
        self.appends.append(len(lines))
        self.events += map(json.loads, lines)

    def play(self, seconds: float, every: float = 0.01) -> list[dict]:
        """The events of the next seconds, a step each `every` s."""
        before, began = len(self.events), self.now
        for step in range(1, round(seconds / every) + 1):
            self.now = began + step * every
            self.player.step()
        return self.events[before:]

    def times(self) -> list[int]:
        return [event["eventTime"] - WALL_MS for event in self.events]


def trailing(times: list[int]) -> int:
    return max(newest - at for newest, at in zip(itertools.accumulate(times, max), times))


@pytest.mark.parametrize("schema", ["payments", "logins"])
@pytest.mark.parametrize("rate, every", [(1, 0.01), (7, 0.013), (500, 0.01), (500, 0.2), (3333, 0.1)])
def test_after_n_seconds_exactly_rate_times_n_are_sent_and_no_drift_adds_up(schema, rate, every):
    stage = Stage(schema, rate)
    for second in (1, 2, 3):
        stage.play(1 - 1e-9 if second == 1 else 1, every=every)
        stage.now = 50.0 + second
        stage.player.step()
        assert stage.player.sent == rate * second == len(stage.events)
    assert stage.player.events_behind == 0
    assert rate < 10 or stage.player.actual_rate == pytest.approx(rate, rel=0.25)


@pytest.mark.parametrize("every", [0.7, 1.2, 1.9, 2.5])
def test_the_actual_rate_is_right_also_if_a_step_takes_longer_than_a_second(every):
    """A slow machine or sink: the rate was shown as 0, although all events were sent."""
    stage = Stage(rate=100)
    stage.play(10 * every, every)
    for part in range(4):
        stage.now += every / 5
        assert stage.player.actual_rate == pytest.approx(100, rel=0.5), part
    stage.now += every
    stage.player.pause()
    for _ in range(300):
        stage.now += 0.01
        stage.player.step()
    assert stage.player.actual_rate == 0


def test_an_event_is_due_at_the_end_of_its_slot_though_binary_fractions_fall_short():
    stage = Stage(rate=10)
    for tenth in range(1, 101):
        stage.now = 50 + tenth / 10
        assert stage.player.step() == 1


@pytest.mark.parametrize("schema", ["payments", "logins"])
def test_events_are_of_the_schema_numbered_and_timed_by_the_real_clock(schema):
    stage = Stage(schema, 500)
    events = stage.play(4)
    for event in events:
        SCHEMAS[schema].parse(json.dumps(event).encode())
    assert [next(iter(event.values())) for event in events] == list(range(1, 2001))
    assert 0 < trailing(stage.times()) <= MAX_DISORDER_MS
    assert 3_998 <= max(stage.times()) <= 4_000 and min(stage.times()) >= -MAX_DISORDER_MS


def test_the_same_seed_plays_the_same_events_whatever_the_steps_and_another_seed_others():
    def played(seed, every):
        return [(e["payeeId"], e["paymentAmount"]) for e in Stage(seed=seed).play(2, every)]

    assert played(1, 0.01) == played(1, 0.5) != played(2, 0.01)


def test_after_a_stall_it_catches_up_in_chunks_with_the_times_that_were_due():
    stage = Stage(rate=2_000)
    stage.play(1)
    stage.now += 5
    assert stage.player.events_behind == 10_000
    while stage.player.step() == CHUNK:
        pass
    assert stage.player.sent == 12_000 and stage.player.events_behind == 0 and max(stage.appends) == CHUNK
    assert trailing(stage.times()) <= MAX_DISORDER_MS
    late = [at for at in stage.times() if 2_000 <= at < 3_000]
    assert 1_800 < len(late) < 2_200, "spread over the stall, not heaped at its end"


def test_a_new_rate_holds_from_its_moment_on_and_times_stay_in_order():
    stage = Stage(rate=100)
    assert len(stage.play(1)) == 100
    stage.player.target_rate = 1_000
    assert len(stage.play(2)) == 2_000
    stage.now += 0.5  # 500 are due at the old rate
    stage.player.target_rate = 10
    assert len(stage.play(1)) in (509, 510, 511)
    assert trailing(stage.times()) <= MAX_DISORDER_MS
    assert [event["transactionId"] for event in stage.events] == list(range(1, len(stage.events) + 1))


def test_a_pause_sends_nothing_and_is_not_made_up_for():
    stage = Stage(rate=100)
    stage.player.burst(PlantedBurst("surge", 0, 2_000, 101))
    stage.play(1)
    sent = len(stage.events)
    stage.player.pause()
    stage.player.pause()
    assert stage.player.is_paused and stage.play(30) == []
    stage.player.resume()
    assert sent == 150 == len(stage.play(1)), "the burst goes on too"
    assert trailing(stage.times()) <= MAX_DISORDER_MS and max(stage.times()) == 32_000


@pytest.mark.parametrize("kind", SPIKES)
def test_a_burst_comes_at_once_and_on_top_and_is_counted(kind):
    stage = Stage(rate=50)
    stage.play(1)
    stage.player.burst(kind)
    count, total = SPIKES[kind]
    events = stage.play(3)
    player = stage.player
    assert len(events) == 150 + count and player.planted == count and player.sent == 200 + count
    assert player.bursts == dict.fromkeys(SPIKES, 0) | {kind: 1}
    if total:
        planted = [event for event in events if event["paymentAmount"] > 20]
        assert len({event["beneficiaryId"] for event in planted}) == 1 and len(planted) == count
        assert total <= sum(event["paymentAmount"] for event in planted) < total + 1
        assert planted[-1]["eventTime"] - WALL_MS <= 3_010 + MAX_DISORDER_MS


@pytest.mark.parametrize("rate", [50, 200])
@pytest.mark.parametrize("kind, rule", [("pair", 1), ("beneficiary", 3), ("surge", 4)])
def test_a_burst_alerts_by_its_rule_of_the_first_rules_at_any_rate(kind, rule, rate):
    stage, engine = Stage(rate=rate), Reference(PAYMENTS)
    for message in first_rules(rate):
        assert engine.control(json.dumps(message))["status"] == "accepted"
    alerts = []
    for _ in range(2):
        for event in stage.play(3):
            engine.event(json.dumps(event).encode())
        alerts.append(engine.alerts.by_rule()[rule])
        stage.player.burst(kind)
    ordinary, with_burst = alerts
    assert ordinary == 0 < with_burst


def test_bursts_come_in_turn_and_leave_the_ordinary_events_as_they_were():
    stage, plain = Stage(burst_every_s=1), Stage()
    stage.play(7), plain.play(7)
    assert stage.player.bursts == {"pair": 3, "beneficiary": 2, "surge": 2}
    payees = [event["payeeId"] for event in stage.events]
    rest = iter(payees)
    assert all(event["payeeId"] in rest for event in plain.events), "the same, in the same order"


def test_an_episode_of_logins_is_planted_on_demand():
    stage = Stage("logins", rate=10)
    stage.player.burst("guessing_many_ips")
    events = stage.play(200, every=1)
    failed = [event for event in events if event["ip"].startswith("203.0.113.")]
    assert len({event["userId"] for event in failed}) == 1 and len(failed) == 17
    assert stage.player.planted == 17 and len(events) == 2_017


def test_sessions_of_logins_go_on_at_their_own_pace():
    stage = Stage("logins", rate=5, users=3_000)
    assert not any(event["action"] == "payment" for event in stage.play(239, every=1)), (
        "the first after 4 min"
    )
    stage.play(1_000, every=1)
    later = [event["action"] for event in stage.play(600, every=1)]
    assert later.count("payment") / later.count("login") == pytest.approx(0.9, abs=0.1)


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_when_the_real_clock_is_set_it_is_followed_but_never_back(jump_ms):
    stage = Stage()
    stage.play(1)
    stage.jump_ms = jump_ms
    stage.play(1)
    assert trailing(stage.times()) <= MAX_DISORDER_MS
    assert max(stage.times()) == (2_000 + jump_ms if jump_ms > 0 else 1_000)


def test_what_was_due_before_the_end_keeps_its_times_however_long_it_takes_to_send():
    stage = Stage(rate=10_000, seconds=2)
    stage.now += 60
    while stage.player.step():
        stage.now += 5
    assert stage.player.sent == 20_000 and max(stage.times()) == 2_000


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="expected a number of events per second above zero"):
        Stage(rate=rate)
    stage = Stage(rate=5)
    with pytest.raises(ValueError, match="rate: "):
        stage.player.target_rate = rate
    assert stage.player.target_rate == 5


def test_unknown_kinds_and_schemas_are_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="'dip', expected one of pair, beneficiary, surge"):
        Stage().player.burst("dip")
    with pytest.raises(ValueError, match="'bets', expected one of payments, logins"):
        Player("bets", None)


def test_the_thread_ends_after_its_seconds_with_exactly_what_was_due():
    sent = []
    player = Player("payments", SimpleNamespace(append=sent.extend), 1_000, seconds=0.5, every_s=0.05)
    time.sleep(0.2)  # the time before its start does not count
    player.start()
    player.join(PATIENCE_S)
    assert (len(sent), player.sent, player.events_behind, player.error) == (500, 500, 0, None)


def test_other_threads_may_change_everything_while_it_plays():
    sent = []
    player = Player("payments", SimpleNamespace(append=sent.extend), 2_000, burst_every_s=0)

    def meddle() -> None:
        for number in range(200):
            player.target_rate = 1_000 + number
            player.burst("pair")
            player.pause() if number % 2 else player.resume()
            player.actual_rate, player.events_behind  # noqa: B018

    player.start()
    threads = [threading.Thread(target=meddle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    player.resume()
    time.sleep(0.05)
    player.stop()
    assert player.error is None and player.bursts.total() == 800 and len(sent) == player.sent
    assert [json.loads(line)["transactionId"] for line in sent] == list(range(1, len(sent) + 1))


def test_a_sink_that_fails_ends_the_player_with_its_error():
    def full(lines):
        raise OSError("disk full")

    player = Player("payments", SimpleNamespace(append=full), 1_000)
    player.start()
    player.join(PATIENCE_S)
    assert not player.is_alive() and str(player.error) == "disk full"


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_plays_into_a_folder_and_sums_up(tmp_path, capsys):
    words = ["simulate", "payments", "--to", str(tmp_path / "events"), "--rate", "500", "--seconds", "1"]
    assert main(words) == OK
    out, err = capsys.readouterr()
    assert out == "" and "500 events in 1." in err
    log = FileLog(tmp_path / "events")
    appends, _ = log.append_ends_and_times_arrays(0, log.end())
    assert len(log.read()) == 500 and 2 <= len(appends) <= 7


@pytest.mark.parametrize(
    "words, says",
    [
        (["--to", "http://x/y"], "'http://x/y', expected kafka://HOST:PORT/TOPIC"),
        (["--to", "kafka://host/topic"], "'kafka://host/topic', expected"),
    ],
)
def test_a_place_that_is_none_is_refused(words, says, capsys):
    assert main(["simulate", "logins", *words]) == USAGE
    assert says in capsys.readouterr().err


def test_a_rate_that_is_no_number_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", "payments", "--to", "x", "--rate", "fast"])
    assert "'fast', expected events per second" in capsys.readouterr().err


def test_a_topic_without_a_broker_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 0.2)
    assert main(["simulate", "payments", "--to", "kafka://127.0.0.1:1/events"]) == FAILED
    assert "lab: no Kafka broker answers at 127.0.0.1:1" in capsys.readouterr().err


def test_events_reach_a_topic_each_once(kafka):
    where = f"kafka://{kafka.address}/played"
    assert main(["simulate", "payments", "--to", where, "--seconds", "2", "--rate", "300"]) == OK
    ids = [json.loads(line)["transactionId"] for line in kind_of(where).open_log(where, Config()).read()]
    assert ids == list(range(1, len(ids) + 1)) and len(ids) >= 600


def test_keys_change_what_is_played(tmp_path):
    words = ["-m", "lab", "simulate", "payments", "--to", str(tmp_path), "--rate", "100", "--bursts", "0"]
    terminal = pexpect.spawn(sys.executable, words, encoding="utf8", dimensions=(30, 150), timeout=PATIENCE_S)
    terminal.expect("quit")
    for keys, shown in (("++", "rate 144/s"), ("-p", "pair 1"), (" ", "paused"), (" ", "playing")):
        terminal.send(keys)
        terminal.expect_exact(shown)
    terminal.send("q")
    terminal.expect(r"[\d,]+ events in [\d.]+ s")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == OK and len(FileLog(tmp_path).read()) > 20
