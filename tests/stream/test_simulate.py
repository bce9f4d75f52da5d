"""The generators: seeded, bounded disorder, exact amounts, and what was planted is there."""

import itertools
import json
from decimal import Decimal

import pytest

from lab.model.schema import SCHEMAS
from lab.model.times import HOUR_MS, MINUTE_MS
from lab.stream import logins, simulate
from lab.stream.simulate import MAX_DISORDER_MS, SPIKE_MS, SPIKES, PlantedBurst


def live_bursts(every_ms: int = 10_000):
    """An endless iterator of short bursts, one kind after the other."""
    for number, (kind, (count, total)) in enumerate(itertools.cycle(SPIKES.items()), start=1):
        yield PlantedBurst(kind, number * every_ms, min(SPIKE_MS, every_ms), count, total)


STREAMS = {
    "payments": lambda seed: simulate.payments(seed, 5_000, rate_per_s=50, bursts=live_bursts(5_000)),
    "logins": lambda seed: logins.logins(
        seed,
        5_000,
        rate_per_s=1,
        users=300,
        planted_after_ms=[(i * 60_000, k) for i, k in enumerate(logins.EPISODES)],
    ),
}
each_stream = pytest.mark.parametrize("name", STREAMS)


@each_stream
def test_the_same_seed_gives_the_same_lines_and_another_seed_others(name):
    first, again, other = ([simulate.to_json(e) for e in STREAMS[name](seed)] for seed in (7, 7, 8))
    assert first == again
    assert first != other


@each_stream
def test_every_line_is_an_event_of_the_schema(name):
    schema = SCHEMAS[name]
    for event in STREAMS[name](1):
        parsed = schema.parse(simulate.to_json(event).encode())
        assert {field: parsed[field] for field in event} == event


@each_stream
def test_ids_count_from_one(name):
    assert [next(iter(event.values())) for event in STREAMS[name](1)] == list(range(1, 5_001))


@each_stream
def test_no_event_trails_the_newest_time_by_more_than_the_documented_bound(name):
    times = [event["eventTime"] for event in STREAMS[name](1)]
    trailing = [newest - time for newest, time in zip(itertools.accumulate(times, max), times, strict=True)]
    assert 0 < max(trailing) <= MAX_DISORDER_MS
    assert sum(delay > 0 for delay in trailing) > 50, "some events are out of order"
    assert sum(a == b for a, b in itertools.pairwise(times)) > 50, "some times are equal"


def test_the_first_event_is_not_before_the_start_even_at_the_epoch():
    assert min(e["eventTime"] for e in simulate.payments(3, 2_000, start_ms=0, rate_per_s=1_000)) >= 0


def test_the_stream_keeps_its_rate():
    times = [event["eventTime"] for event in simulate.payments(1, 2_000, start_ms=10**12, rate_per_s=500)]
    assert 3_990 <= max(times) - 10**12 <= 4_000


def test_generators_may_be_endless():
    assert len(list(itertools.islice(simulate.payments(1, None, bursts=live_bursts()), 100))) == 100
    assert len(list(itertools.islice(logins.logins(1, None), 100))) == 100


def test_amounts_are_exact_and_have_two_digits():
    for event in simulate.payments(1, 1_000):
        assert Decimal(5) <= event["paymentAmount"] <= Decimal(20)
        text = simulate.to_json(event).rsplit(":", 1)[1].rstrip("}")
        assert Decimal(text) == event["paymentAmount"] and len(text.split(".")[1]) == 2


def test_planting_a_burst_leaves_the_ordinary_payments_as_they_were():
    def payees(bursts):
        stream = simulate.labelled_payments(5, 1_000, rate_per_s=10, bursts=bursts)
        return [event["payeeId"] for event, label in stream if label is None]

    with_burst = payees([PlantedBurst("surge", 20_000, 5_000, 50)])
    assert with_burst == payees([])[: len(with_burst)]


@pytest.mark.parametrize(
    ("kind", "shared", "total"),
    [("pair", ["payeeId", "beneficiaryId"], 21_000_000), ("beneficiary", ["beneficiaryId"], 10_500_000)],
)
def test_a_burst_of_money_shares_its_key_and_reaches_its_total(kind, shared, total):
    burst = PlantedBurst(kind, 2_000, 3_000, 12, total)
    stream = simulate.labelled_payments(1, 1_000, rate_per_s=100, bursts=[burst])
    planted = [event for event, label in stream if label]
    assert len(planted) == 12
    assert all(len({event[name] for event in planted}) == 1 for name in shared)
    assert total <= sum(event["paymentAmount"] for event in planted) < total + 1
    assert (
        max(e["eventTime"] for e in planted) - min(e["eventTime"] for e in planted) <= 3_000 + MAX_DISORDER_MS
    )


def test_a_surge_has_ordinary_amounts_of_one_type():
    stream = simulate.labelled_payments(
        1, 1_000, rate_per_s=100, bursts=[PlantedBurst("surge", 2_000, 1_000, 120)]
    )
    planted = [event for event, label in stream if label]
    assert len(planted) == 120
    assert len({event["paymentType"] for event in planted}) == 1
    assert max(event["paymentAmount"] for event in planted) <= 20


def test_nothing_ordinary_happens_in_a_lull():
    stream = simulate.payments(1, 1_000, start_ms=0, rate_per_s=10, lulls=[(20_000, 30_000)])
    assert not [e for e in stream if 20_000 <= e["eventTime"] < 50_000]


def test_live_spikes_come_in_turn():
    kinds = {label.kind for _, label in simulate.labelled_payments(1, 20_000, bursts=live_bursts()) if label}
    assert kinds == set(simulate.BURSTS)


@pytest.mark.parametrize("kind", logins.EPISODES)
def test_an_episode_is_labelled_with_its_events(kind):
    labelled = list(logins.labelled_logins(4, 1_000, planted_after_ms=[(HOUR_MS, kind)]))
    [episode] = simulate.planted_episodes(labelled)
    events = [event for event, label in labelled if label]
    assert (episode["episodeId"], episode["kind"], episode["fraud"]) == (1, kind, kind != "traveller")
    assert episode["eventIds"] == [event["eventId"] for event in events]
    assert episode["firstEventTime"] == min(event["eventTime"] for event in events)
    assert episode["lastEventTime"] == max(event["eventTime"] for event in events)
    key = "ip" if kind == "stuffing" else "userId"
    assert {event[key] for event in events} == {episode[key]}


def test_a_takeover_is_login_abroad_then_reset_then_payments_within_minutes():
    stream = logins.labelled_logins(4, 1_000, planted_after_ms=[(HOUR_MS, "takeover")])
    home, *abroad = [event for event, label in stream if label]
    assert [event["action"] for event in abroad] == ["login", "password_reset", "payment", "payment"]
    assert {event["country"] for event in abroad} != {home["country"]}
    assert abroad[-1]["eventTime"] - abroad[0]["eventTime"] <= 5 * MINUTE_MS
    assert sum(event["amount"] for event in abroad[2:]) > 500


def test_an_unknown_episode_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="'phishing': one of guessing_one_ip, "):
        list(logins.logins(1, 10, planted_after_ms=[(0, "phishing")]))


def test_the_bulk_writer_spreads_its_payments_over_the_span(tmp_path):
    first, again = (simulate.write_payments(tmp_path / n, 10_001, 3, 50, 60, 1_000_000, 500) for n in "ab")
    assert first.read_bytes() == again.read_bytes()
    lines = first.read_bytes().splitlines()
    events = [SCHEMAS["payments"].parse(line) for line in lines]
    assert [event["transactionId"] for event in events] == list(range(1, 10_002))
    assert [event["eventTime"] for event in events] == [500 + i * 1_000_000 // 10_001 for i in range(10_001)]
    assert {e["payeeId"] for e in events} == set(range(50)) and {e["beneficiaryId"] for e in events} == set(
        range(60)
    )
    assert {event["paymentType"] for event in events} == {"CSH", "CRD"}
    assert all(5 <= event["paymentAmount"] <= 20 for event in events)
    assert list(json.loads(lines[0])) == list(next(simulate.payments(1, 1)))
