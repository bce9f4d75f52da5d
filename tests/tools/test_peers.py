"""Each peer gives, on a small log, the alerts that `docs/peers.md` claims."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from rich.console import Console

from lab.model.alerts import Alert
from tools.bench.data import Payments
from tools.peers import batches, flink, streams
from tools.peers.__main__ import QUOTED, Peer, measure, svg, table
from tools.peers.data import Case, Exact, Window, make, reference

MINUTE = 60_000
START = 1_735_689_600_000


def payment(number: int, minute: float, cents: int | None, beneficiary: int = 7) -> str:
    amount = None if cents is None else cents / 100
    return json.dumps(
        {
            "transactionId": number,
            "eventTime": START + int(minute * MINUTE),
            "payeeId": number,  # all different: of the others only the rule of pairs, over 30, can fire
            "beneficiaryId": beneficiary,
            "paymentType": "CSH",
            "paymentAmount": amount,
        }
    )


LINES = [
    payment(1, 0, 2000),
    payment(2, 30, 2900),
    payment(2, 30, 2900),  # a duplicate
    payment(3, 60, None),  # a null
    payment(4, 60, 200),  # 0 … 60 min: 51, both ends included
    payment(5, 60.001, 200),  # 30 … 60 min: 33
    payment(6, 100, 5100, beneficiary=8),
    payment(7, 101, 100, beneficiary=9),
    payment(8, 100.5, 5050, beneficiary=9),  # late: fires by itself as it comes, but 7 does not
]
TRUE = {Case(3, 4), Case(3, 6), Case(3, 8), Case(1, 6), Case(1, 8)}
LATE_IN_ALL = {Case(3, 7)}  # a finished file has the late event in the window of 7, which came before it


@pytest.fixture
def payments(tmp_path: Path) -> Payments:
    file = tmp_path / "payments.jsonl"
    file.write_text("\n".join(LINES) + "\n")
    return Payments(file, len(LINES))


def test_the_reference_is_right(payments):
    exact, answer = reference(payments)
    assert answer.reports == TRUE
    assert exact.judged(answer.reports) == (1, 0)


def test_a_finished_file_counts_what_came_later_too(payments):
    exact, _ = reference(payments)
    for peer in (batches.by_duckdb, batches.by_polars):
        reports = peer(payments).reports
        assert reports == TRUE | LATE_IN_ALL
        assert exact.judged(reports) == (1, 1)


def test_the_engine_is_exact(spark, payments):
    assert streams.engine(spark, payments).reports == TRUE


@pytest.mark.slow
def test_the_textbook_takes_each_micro_batch_in_order_of_time(spark, payments):
    assert streams.textbook(spark, payments).reports == TRUE | LATE_IN_ALL


@pytest.mark.slow
def test_sliding_windows_find_what_their_grid_happens_to_hold(spark, payments):
    reports = streams.sliding(spark, payments).reports
    exact, _ = reference(payments)
    assert {report.rule for report in reports} == {1, 3}
    found, wrong = exact.judged(reports)
    # a window has only one of its ends: 0 … 60 min, whose sum is over 50, is in none
    assert (found, wrong) == (4 / 5, 0)


def test_flink_evaluates_events_as_they_come(payments):
    if not flink.READY.exists():
        pytest.skip("PyFlink is not installed: make peers does")
    assert flink.flink(payments, warm=0).reports == TRUE


def test_a_window_finds_the_alerts_in_it_and_is_wrong_without_any():
    alert = Alert.from_json(
        '{"ruleId": 1, "ruleVersion": 1, "key": "{payeeId=1}", "group": {"payeeId": 1}, "aggregate": "2", "operator": "GREATER", "limit": "1",'
        ' "eventId": 5, "eventTime": 100}'
    )
    exact = Exact([alert])
    assert exact.judged([Window(1, "{payeeId=1}", 100, 200), Window(1, "{payeeId=1}", 0, 101)]) == (1, 0)
    others = [
        Window(1, "{payeeId=1}", 0, 100),
        Window(1, "{payeeId=2}", 50, 150),
        Window(2, "{payeeId=1}", 50, 150),
    ]
    assert exact.judged(others) == (0, 3)


def test_the_payments_have_duplicates_nulls_and_late_events(tmp_path):
    payments = make(tmp_path / "payments", 2_000, keys=50)
    events = [json.loads(line) for line in payments.file.read_text().splitlines()]
    ids, times = ([event[name] for event in events] for name in ("transactionId", "eventTime"))
    assert payments.events == len(ids) > len(set(ids)) == 2_000
    assert times != sorted(times)
    assert any(event["paymentAmount"] is None for event in events)


def test_peers_are_timed_and_judged_on_a_sample_though_one_cannot_be_installed(payments, tmp_path):
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(LINES[:5]) + "\n")
    sample = Payments(few, 5)
    peers = [
        Peer("on all", payments, batches.by_duckdb),
        Peer("on the sample", sample, lambda of: reference(of)[1], warm=False),
        Peer("PyFlink", sample, flink.flink, warm=False),
    ]
    with patch.object(flink, "install", side_effect=flink.NotInstalled("no wheel")):
        measure(peers, sample, 2, Console(quiet=True))
    assert [len(peer.rates) for peer in peers] == [2, 2, 0]
    assert [(peer.found, peer.wrong) for peer in peers[:2]] == [(1, 0), (1, 0)]
    assert peers[2].missing == "not installed: no wheel"


def test_a_peer_that_cannot_be_installed_is_named_with_the_reason(tmp_path):
    here = Peer("the engine", Payments(tmp_path, 10), reference, rates=[5.0], found=1)
    gone = Peer("PyFlink", Payments(tmp_path, 10), reference, missing="not installed: no wheel")
    shown = table([here, gone], Payments(tmp_path, 10), 1)
    assert list(shown.columns[1].cells)[:2] == ["5", "not installed: no wheel"]
    assert "PyFlink" not in svg([here, gone])
    assert all(title in svg([here, gone]) for title in QUOTED)
