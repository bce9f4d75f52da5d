"""A rehearsal publishes at the planned seconds, answers everything, and leaves nothing behind."""

import tempfile

import pytest

from lab.teach.rehearsal import rehearse

EVERY = "1,(active),(paymentType),,(COUNT),,(>),(0),(1)"
PLAN = [(2, "1,(pause)"), (0, EVERY), (1, "2,(active),(nobody),,(COUNT),,(>),(0),(1)")]


@pytest.mark.slow
def test_changes_are_answered_in_order_and_a_pause_holds_from_its_place_in_the_log(
    spark, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = rehearse(spark, PLAN, 4, rate=50)
    accepted, rejected, pause = done.answers
    assert accepted.ack["status"] == "accepted" and accepted.published_ms < done.started_ms
    assert rejected.ack["status"] == "rejected" and "nobody" in rejected.ack["reason"]
    assert (pause.ack["version"], pause.ack["ruleState"]) == (2, "PAUSE")
    assert pause.published_ms - done.started_ms >= 2000
    assert all(answer.answered_ms >= answer.published_ms for answer in done.answers)
    assert len(done.alerts_of_version(accepted)) == len(done.alerts) > 50
    assert all(alert.log_time < pause.published_ms for alert in done.alerts)
    assert not done.alerts_of_version(pause)
    assert not list(tmp_path.glob("lab-rehearsal-*"))
    assert not spark.streams.active


@pytest.mark.slow
def test_a_stalled_engine_gives_the_alerts_of_before_a_pause_after_it_and_no_others(spark):
    done = rehearse(spark, [(0, EVERY), (2, "1,(pause)")], 5, rate=50, stalls=[(1.5, 3.5)])
    pause = done.answers[1]
    assert pause.answered_ms - pause.published_ms > 1000
    late = [alert for alert in done.alerts if alert.alert_time > pause.published_ms + 1000]
    assert late and all(alert.log_time < pause.published_ms for alert in done.alerts)
    assert not spark.streams.active


def test_a_message_that_is_not_answered_in_time_ends_the_rehearsal(spark, monkeypatch):
    monkeypatch.setattr("lab.teach.rehearsal.START_S", 0)
    with pytest.raises(TimeoutError, match="no acknowledgement of control/"):
        rehearse(spark, [(0, EVERY)], 1)
    assert not spark.streams.active
