"""The demo: its stream makes each of its rules alert, and it ends by itself with counts that add up."""

import json
import re
import subprocess
import sys

import pytest

from lab.cli.main import OK, main
from lab.model.schema import PAYMENTS
from lab.past.fastreference import FastReference
from lab.stream.simulate import to_json
from lab.studio import demo
from tests.waiting import PATIENCE_S

SHORT = ("--seconds", "8", "--rate", "200")


@pytest.mark.parametrize(
    "rate, seconds", [(20, 6), *(pytest.param(*of, marks=pytest.mark.slow) for of in ((100, 45), (500, 10)))]
)
def test_each_rule_catches_its_bursts_and_little_else(rate, seconds):
    reference = FastReference(PAYMENTS)
    for rule in (*demo.first_rules(rate), demo.new_rule()):
        assert reference.control(json.dumps(rule))["status"] == "accepted"
    start_ms = 1_700_000_000_000
    for event in demo.endless_payment_stream(rate, seconds, start_ms):
        if event["eventTime"] >= start_ms + 1000 * seconds:
            break
        reference.event(to_json(event).encode())
    alerts = reference.alerts.by_rule()
    assert set(alerts) == {1, 2, 3, 4, 5}
    assert len({alert.key for alert in reference.alerts if alert.rule_id == 3}) > alerts[1] // 5
    assert max(alerts.values()) < 4 * seconds + 30


def test_it_shows_alerts_changes_rules_and_ends_with_counts_that_add_up(spark, capsys):
    assert main(["demo", *SHORT]) == OK
    assert_shown(*capsys.readouterr())


@pytest.mark.slow
def test_the_command_starts_a_spark_of_its_own_and_ends():
    command = [sys.executable, "-m", "lab", "demo", *SHORT]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == OK
    assert_shown(done.stdout, done.stderr)


def assert_shown(out: str, err: str) -> None:
    assert err == ""
    for rule in (1, 2, 3, 4):
        assert re.search(rf"^\d\d:\d\d:\d\d  rule {rule}  \{{.*\d ms$", out, re.MULTILINE), out
    assert "rule 5 ACTIVE: COUNT(events)" in out and "rule 4 PAUSE: COUNT_WITH_RESET" in out
    counts = re.search(
        r"^([\d,]+) records sent = ([\d,]+) routed, ([\d,]+) without a route, ([\d,]+) dead letters\.$",
        out,
        re.MULTILINE,
    )
    records, *fates = (int(count.replace(",", "")) for count in counts.groups())
    assert records == sum(fates) > 1000 and fates[-1] == 1
    assert re.search(r"first alert was on the screen [\d.]+ s after", out)
