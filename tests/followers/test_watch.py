"""What `lab alerts` and `lab latency` show of an engine's logs."""

import json
import time
from contextlib import closing, nullcontext
from dataclasses import replace
from decimal import Decimal
from threading import Event

import pytest

from lab.cli.main import FAILED, OK, main
from lab.engine.loop.filelogs import FileLogs
from lab.followers.alerttext import AGAIN_S, AbsenceRules
from lab.followers.latency import STAGES, Latencies
from lab.logs.kafka import KafkaLog
from lab.logs.offsets import PartitionOffsets
from lab.model.aggregation import MeasuredCondition
from lab.model.alerts import Alert, Withdrawal
from lab.model.schema import PAYMENTS
from lab.running.target import locate


def alert(event_id: int, log_time: int, alert_time: int) -> str:
    given = (1, 2, "{payeeId=25}", Decimal("50.10"), "GREATER", Decimal(50), event_id, 1356998400000)
    return Alert(*given, log_time, alert_time).to_json()


def stats(batch: int, **times: int) -> str:
    return json.dumps({"batch": batch, "keyGroups": [0, 15], "times": times})


def test_the_stages_of_an_alert_add_up_to_its_latency(logs):
    """
    ms        1000      1030  1040   1050  1060  1065      1100             1104
    event 7   logged ─gap┤wait─ start ─plan─ decode ─ route ─ evaluate ─ alert ─deliver─ appended, of batch 4
                         resumed
    """
    latencies = Latencies(logs)
    logs.log("stats").append([stats(3, start=900, decode=910, route=920, evaluate=930, end=990)])
    logs.log("stats").append(
        [
            stats(4, stopped=990, resumed=1030, start=1040, decode=1050, route=1060, evaluate=1065, end=1110),
            stats(4, end=1111),
        ]
    )
    logs.log("alerts").append([alert(6, 880, 950)], log_time_ms=950)
    logs.log("alerts").append([alert(7, 1000, 1100)], log_time_ms=1104)
    assert latencies.read() == 2
    stages = latencies.stages()
    assert list(stages) == list(STAGES)
    assert [int(values[1]) for values in stages.values()] == [30, 10, 10, 10, 5, 35, 4]
    assert [int(values[0]) for values in stages.values()] == [0, 20, 10, 10, 10, 20, 0]
    assert latencies.total() == [70, 104]


def test_alerts_of_before_are_not_counted_and_old_ones_are_let_go(logs):
    logs.log("alerts").append([alert(1, 0, 1)], log_time_ms=1)
    latencies = Latencies(logs, at_most=2)
    assert latencies.total() == [] and latencies.stages()["wait"] == []
    for number in (2, 3, 4):
        logs.log("alerts").append([alert(number, 0, number)], log_time_ms=number)
    latencies.read()
    assert latencies.total() == [3, 4]


def test_an_alert_that_an_engine_delivers_again_after_a_crash_counts_once(logs):
    """Topics may get it twice. How long it took is how long its first copy took; a later record of its event is another alert."""
    latencies, log = Latencies(logs, at_most=2), logs.log("alerts")
    for logged, appended in (1000, 1104), (1000, 9104), (9000, 9110):
        log.append([alert(7, logged, appended - 4)], log_time_ms=appended)
    assert latencies.read() == 2 and latencies.total() == [104, 110]
    log.append([alert(7, 1000, 9200)], log_time_ms=9204)
    assert latencies.read() == 0
    for number in (1, 2, 3):
        log.append([alert(number, 9300, 9300)], log_time_ms=9300)
    latencies.read()
    assert len(latencies._known) == 2


def test_alerts_are_shown_as_text_or_as_they_are(logs, capsys):
    line = alert(7, 1000, 1100)
    logs.log("alerts").append([line])
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    text = "2013-01-01 00:00:00.000  rule 1 v2  {payeeId=25}  50.10 GREATER 50  event 7    100 ms\n"
    assert capsys.readouterr().out == text
    assert main(["alerts", "--logs", str(logs.folder), "--json"]) == OK
    assert capsys.readouterr().out == line + "\n"


def test_every_condition_of_an_alert_is_shown(logs, capsys):
    conditions = (
        MeasuredCondition(Decimal("50.10"), "GREATER", Decimal(50)),
        MeasuredCondition(None, "LESS", Decimal(2)),
    )
    logs.log("alerts").append(
        [replace(Alert.from_json(alert(7, 1000, 1100)), conditions=conditions).to_json()]
    )
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    assert "  50.10 GREATER 50, no value LESS 2  event 7 " in capsys.readouterr().out


def test_what_did_not_come_is_said_with_the_window_of_the_rule_version(logs, capsys):
    rules = (
        "3: NO(events) per payeeId within 15 min after",
        "3: NO(events where paymentAmount > 5) per payeeId within 1 h after",
        "3: SUM(paymentAmount) per payeeId over 1 h = 0",
        "nonsense",
    )
    logs.log("control").append(rules)
    made = replace(
        Alert.from_json(alert(7, 1000, 1100)),
        rule_id=3,
        aggregate=Decimal(0),
        operator="EQUAL",
        limit=Decimal(0),
    )
    logs.log("alerts").append([replace(made, rule_version=version).to_json() for version in (1, 2, 3, 9)])
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    told = [line.split("  ")[3] for line in capsys.readouterr().out.splitlines()]
    assert told == ["nothing came within 15 min", "nothing that counts came within 1 h", *["0 EQUAL 0"] * 2]
    # a topic that has let older messages go has fewer versions than the engine counted
    logs.log("control").append([rules[0]])
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    assert "nothing came within 15 min" in capsys.readouterr().out.splitlines()[-1]


def test_alerts_whose_rules_are_elsewhere_are_shown_as_they_are(logs, capsys):
    made = replace(
        Alert.from_json(alert(7, 1000, 1100)), aggregate=Decimal(0), operator="EQUAL", limit=Decimal(0)
    )
    logs.log("alerts").append([made.to_json()])
    (logs.folder / "control").rmdir()
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    assert "  0 EQUAL 0, as when nothing came in time  event 7 " in capsys.readouterr().out


def test_a_control_log_that_cannot_be_read_for_a_while_is_read_later(logs, monkeypatch):
    made = replace(
        Alert.from_json(alert(7, 1000, 1100)), aggregate=Decimal(0), operator="EQUAL", limit=Decimal(0)
    )
    rules = AbsenceRules(locate(str(logs.folder), schema=PAYMENTS))
    control = logs.log_folder("control")
    control.rename(logs.folder / "aside")
    assert "as when nothing came" in rules.describe(made)
    (logs.folder / "aside").rename(control)
    logs.log("control").append(["1: NO(events) per payeeId within 15 min after"])
    assert "as when nothing came" in rules.describe(made)  # it does not look at once again
    later = time.monotonic() + AGAIN_S
    monkeypatch.setattr("lab.followers.alerttext.time.monotonic", lambda: later)
    assert rules.describe(made) == "nothing came within 15 min"
    rules.close()


def test_latency_prints_a_table(logs, capsys):
    assert main(["latency", "--logs", str(logs.folder), "--seconds", "1"]) == OK
    out = capsys.readouterr().out
    assert "0 alerts" in out and all(stage in out for stage in STAGES)


def shown(capsys) -> list[int]:
    return [json.loads(line)["eventId"] for line in capsys.readouterr().out.splitlines()]


def test_alerts_are_shown_from_an_offset_or_from_where_the_last_reading_ended(
    logs, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log, command = logs.log("alerts"), ["alerts", "--json", "--logs", str(logs.folder), "--from"]
    log.append([alert(1, 0, 1), alert(2, 0, 1)])
    second = len(alert(1, 0, 1)) + 1
    assert main([*command, str(second)]) == OK and shown(capsys) == [2]
    assert main([*command, "saved"]) == OK and shown(capsys) == [1, 2]
    log.append([alert(3, 0, 1)])
    assert main([*command, "saved"]) == OK and shown(capsys) == [3]
    assert main([*command, "saved"]) == OK and shown(capsys) == []
    assert main([*command, str(log.end())]) == OK
    assert f"read up to {log.end()}; --from with this position continues there" in capsys.readouterr().err


@pytest.mark.parametrize(
    "start, says",
    [("3", "no line begins at position 3"), ("9999", "it ends at 244; was it deleted and created again?")],
)
def test_an_offset_that_is_none_is_an_error(start, says, logs, capsys):
    logs.log("alerts").append([alert(1, 0, 1)])
    assert main(["alerts", "--logs", str(logs.folder), "--from", start]) == FAILED
    assert says in capsys.readouterr().err


def test_an_offset_is_a_number_or_saved(capsys):
    with pytest.raises(SystemExit):
        main(["alerts", "--from", "yesterday"])
    assert "'yesterday', expected an offset such as 17" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["alerts"],
        ["alerts", "--follow"],
        ["latency", "--seconds", "1"],
        ["rules", "list"],
        ["restrict", "list"],
        ["restrict", "lift", "userId=7"],
    ],
)
def test_reading_a_place_that_is_none_makes_no_folder_and_says_where_logs_are(
    words, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    FileLogs(tmp_path / "logs").create()
    assert main([*words, "--logs", "lgos"]) == FAILED
    assert f"no such log; logs are in {tmp_path}/logs" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    (tmp_path / "logs" / "restrictions").mkdir()
    for name in ("alerts", "control", "restrictions"):
        (tmp_path / "logs" / name).rmdir()
    assert main([*words, "--logs", "logs"]) == FAILED
    assert "; logs has events, shadow, acks, deadLetters, stats" in capsys.readouterr().err


def test_alerts_of_a_topic_are_shown_from_an_offset_of_each_partition(kafka, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = KafkaLog(kafka.address, "alerts-from")
    log.create(partitions=2)
    with closing(log):
        for number in range(8):
            log.publish([alert(number, number, number)], [str(number)])
    ends = PartitionOffsets(log.cluster, log.topic).end_offsets()
    where = ["--logs", f"kafka://{kafka.address}", "--alerts", f"kafka://{kafka.address}/alerts-from"]
    command = ["alerts", "--json", *where, "--from"]
    assert main([*command, "0:0,1:0"]) == OK and sorted(shown(capsys)) == [*range(8)]
    assert main([*command, f"0:{ends[0]},1:{ends[1] - 1}"]) == OK and len(shown(capsys)) == 1
    assert main([*command, f"1:{ends[1]}"]) == OK and len(shown(capsys)) == ends[0]
    assert main([*command, "saved"]) == OK and sorted(shown(capsys)) == [*range(8)]
    assert main([*command, "saved"]) == OK and shown(capsys) == []
    assert main([*command, f"1:{ends[1] + 1}"]) == FAILED
    assert f"no position 1:{ends[1] + 1}: it ends at 0:{ends[0]},1:{ends[1]}" in capsys.readouterr().err


def test_an_alert_that_comes_after_it_was_withdrawn_is_not_shown(logs, capsys):
    """Without transactions an attempt that was taken for dead delivers alerts after its successor has withdrawn them."""
    group = (("payeeId", 25),)
    first, again = (replace(Alert.from_json(alert(7, time, time)), group=group) for time in (1_000, 3_000))
    told = Withdrawal("{payeeId=25}", group, 7, first.event_time, 2_000)
    logs.log("alerts").append([each.to_json() for each in (first, told, first, again, first)])
    assert main(["alerts", "--logs", str(logs.folder), "--json"]) == OK
    assert capsys.readouterr().out.splitlines() == [each.to_json() for each in (first, told, again)]


@pytest.mark.parametrize("follow", [False, True])
def test_what_was_withdrawn_before_the_position_from_which_alerts_are_shown_is_not_shown(
    logs, capsys, monkeypatch, follow
):
    group = (("payeeId", 25),)
    first, again = (replace(Alert.from_json(alert(7, time, time)), group=group) for time in (1_000, 3_000))
    told = Withdrawal("{payeeId=25}", group, 7, first.event_time, 2_000)
    log = logs.log("alerts")
    log.append([each.to_json() for each in (first, told)])
    position = log.end()
    log.append([each.to_json() for each in (first, again)])
    arguments = ["alerts", "--logs", str(logs.folder), "--json", "--from", str(position)]
    if follow:
        monkeypatch.setattr("lab.followers.watch.stop_signals", lambda: nullcontext(AfterOneLook()))
    assert main([*arguments, *["--follow"] * follow]) == OK
    assert capsys.readouterr().out.splitlines() == [again.to_json()]


class AfterOneLook(Event):
    """Set once somebody has waited for it."""

    def wait(self, timeout=None):
        self.set()
        return True


def test_a_withdrawn_alert_is_said_and_has_no_latency(logs, capsys):
    latencies = Latencies(logs)
    told = Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1356998400000, 1_000, 1_100).to_json()
    odd = '{"withdrawn":true,"key":7}'
    logs.log("alerts").append([alert(7, 1000, 1100), told, odd])
    assert latencies.read() == 1 and latencies.left_out.count == 1
    capsys.readouterr()
    assert main(["alerts", "--logs", str(logs.folder)]) == OK
    said = capsys.readouterr()
    assert "withdrawn: the alerts of {payeeId=25} at event 7, which was taken back" in said.out
    assert "left out" in said.err and "not a withdrawn alert" in said.err
