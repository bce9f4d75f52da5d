"""A rule in the shadow beside the one in force: where both alert, and where only one does."""

from dataclasses import replace

import pytest

from lab.cli.main import main
from lab.desk.world import NotFound, World
from lab.engine.checkpoint.settings import Settings
from lab.model.reference import Reference
from lab.model.schema import PAYMENTS

RULES = [
    "1: SUM(paymentAmount) per payeeId over 1 h > 50",
    "2 SHADOW: SUM(paymentAmount) per beneficiaryId over 1 h >= 100",
]
EVENTS = [f"{n},2013-01-01 00:00:0{n},25,12,CSH,30".encode() for n in range(1, 6)]


def test_finished_events_are_compared_and_the_shadow_is_no_alert():
    world = World(EVENTS, RULES, PAYMENTS)
    assert {alert.rule_id for alert in world.alerts} == {1}
    found = world.compare_rules(1, 2)
    assert found.counts == {1: (2, 2, 0)} and [each.alert.event_id for each in found.telling] == [2, 3]
    assert (
        found.telling[1].said
        == "SUM(paymentAmount) over 1 h >= 100 is false at event 3: the value is 90.00, 10.00 from the limit 100."
    )
    with pytest.raises(NotFound, match="Rule 7 was never in force"):
        world.compare_rules(1, 7)


def test_of_an_engine_alerts_count_from_when_both_rules_were_in_force():
    at = 1_357_000_000_000
    lines = [f"{n},2012-12-31 00:00:0{n},25,12,CSH,30".encode() for n in range(1, 6)]
    control = [(at, RULES[0].encode()), (at + 4, RULES[1].encode())]
    events = [(at + n, line) for n, line in enumerate(lines, 1)]
    world = World.of_records(Settings(PAYMENTS), lambda: control, lambda: events, at + 9)
    reference = Reference(PAYMENTS)
    written: dict[str, list[str]] = {"alerts": [], "shadow": []}
    for log_time, is_event, line in sorted(
        [(t, True, line) for t, line in events] + [(t, False, line) for t, line in control]
    ):
        (reference.event(line, log_time=log_time) if is_event else reference.control(line, log_time))
        for name, raised in (
            ("alerts", reference.alerts_and_withdrawals),
            ("shadow", reference.shadow_alerts),
        ):
            written[name] += [
                replace(each, log_time=log_time, alert_time=log_time).to_json() for each in raised
            ]
            raised.clear()
    world._alert_lines, world._shadow_lines = (
        lambda name=name: written[name] for name in ("alerts", "shadow")
    )
    assert len(written["alerts"]) == 4 and len(written["shadow"]) == 0
    assert world.compare_rules(1, 2).counts == {1: (0, 2, 0)}, (
        "events 4 and 5 only: rule 2 came at the time of event 4"
    )


def test_the_command_compares_a_file(tmp_path, capsys):
    events, rules = tmp_path / "events.csv", tmp_path / "rules.txt"
    events.write_bytes(b"\n".join(EVENTS) + b"\n")
    rules.write_text("\n".join(RULES) + "\n")
    main(["rules", "compare", "1", "2", str(events), "--rules", str(rules), "--schema", "payments"])
    assert "only old     1      3  2013-01-01" in capsys.readouterr().out
