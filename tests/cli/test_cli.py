"""The command line: results on stdout, the rest on stderr, exit codes, errors of one line."""

import errno
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from lab.cli.main import FAILED, OK, STOPPED, USAGE, build_parser, main
from lab.cli.options import settings_from_options
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.loop.filelogs import FileLogs
from lab.past.replay import replay
from lab.stream.simulate import payments, to_json
from tests.answers import only_answers
from tests.orders import orders
from tests.waiting import PATIENCE_S, program, wait_until

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(60),(10)"
LINES = [to_json(event) for event in payments(seed=3, events=300, start_ms=0, rate_per_s=1, payees=9)]
NOISE = ("WARN", "ERROR", "log4j", "Python worker", "Traceback")
COMMANDS = ["", "demo", "infer", "spec", "replay", "run", "rules", "alerts", "latency", "simulate", "broker"]
COMMANDS += ["rescale", "state"]
COMMANDS += [f"rules {name}" for name in ("add", "pause", "activate", "delete", "list", "backtest")]
COMMANDS += [f"broker {name}" for name in ("start", "stop", "status")]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("events.jsonl").write_text("\n".join([*LINES, "{"]))
    Path("rules.txt").write_text(RULE + "\n")
    return tmp_path


def command(*words: str) -> list[str]:
    files = ["events.jsonl", "--rules", "rules.txt", "--out", "alerts.jsonl"]
    return ["replay", *files, "--engine", "reference", *words]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as exit:
        main([*name.split(), "--help"])
    assert exit.value.code == OK
    assert f"usage: lab {name}".strip() in capsys.readouterr().out


def test_replay_writes_alerts_and_ends_its_output_with_one_json_object(files, capsys):
    assert main(command("--dead-letters", "bad.jsonl")) == OK
    out, err = capsys.readouterr()
    summary = json.loads(out.splitlines()[-1])
    assert summary.pop("seconds") > 0 and summary.pop("events_per_second") > 0
    alerts = Path("alerts.jsonl").read_text().splitlines()
    expected = {"events": 301, "alerts": len(alerts), "dead_letters": 1, "duplicates": 0, "dropped_late": 0}
    assert summary == {"engine": "reference", **expected}
    assert alerts == replay("events.jsonl", [RULE], engine="reference").alert_lines and len(alerts) > 50
    assert json.loads(Path("bad.jsonl").read_text())["place"] == "events.jsonl:301"
    assert "1 dead letters" in err and "events.jsonl:301: not one JSON object" in err


@pytest.mark.parametrize(
    "words", [["replay", "events.jsonl", "--rules", "rules.txt"], ["rules", "backtest", RULE, "events.jsonl"]]
)
def test_who_compiles_the_window_loop_first_says_so(words, files, capsys, monkeypatch):
    def compiled() -> None:
        assert "compiling the window loop" in capsys.readouterr().err
        raise InterruptedError("compiled")

    monkeypatch.setattr("lab.engine.compiled.codecache.is_window_loop_cached", lambda: False)
    monkeypatch.setattr("lab.engine.loop.inprocess.compile_kernels", compiled)
    monkeypatch.setattr("lab.machine.session.session", Mock(side_effect=RuntimeError("Spark is not needed")))
    assert main(words) == FAILED
    assert "compiled" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, code, says",
    [
        (["--rules", "bad.txt"], USAGE, 'rule 1 of 1: window: "ten"'),
        (["--rules", "nowhere.txt"], FAILED, "nowhere.txt: No such file or directory"),
        (["--out", "nowhere/alerts.jsonl"], USAGE, "there is no folder nowhere"),
        (["--out", "."], USAGE, ".: is a folder, expected a file to write"),
        (["--dead-letters", "events.jsonl"], USAGE, "events.jsonl: is what the command reads"),
        (["--out", "rules.txt"], USAGE, "rules.txt: is what the command reads"),
        (["--dead-letters", "alerts.jsonl"], USAGE, "alerts.jsonl: is written twice, expected two different"),
        (["--rules", "/dev/zero"], USAGE, "/dev/zero: more than 64 MiB, expected a file of rules"),
        (["--parallelism", "99"], USAGE, "parallelism: 99, expected at most key_groups (16)"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(words, code, says, files, capsys):
    Path("bad.txt").write_text(RULE.replace("(10)", "(ten)"))
    assert main(command(*words)) == code
    out, err = capsys.readouterr()
    assert says in err and len(err.strip().splitlines()) == 1 and err.startswith("lab: ")
    assert not out and not Path("alerts.jsonl").exists()


def test_a_full_disk_is_told_with_the_file_that_the_command_writes(files, capsys):
    assert main(command("--out", "/dev/full")) == FAILED
    assert capsys.readouterr().err.splitlines()[-1] == "lab: /dev/full: No space left on device"


def test_the_settings_of_an_engine_are_options():
    options = build_parser().parse_args(["run", "--max-future", "2h", "--max-out-of-orderness", "10s"])
    settings = settings_from_options(options)
    assert (settings.max_future_ms, settings.max_out_of_orderness_ms) == (7_200_000, 10_000)
    assert settings_from_options(build_parser().parse_args(["run"])).max_future_ms == 86_400_000


@pytest.mark.parametrize(
    "command", [["replay", "events.jsonl"], ["rules", "backtest", "rules.json", "events.jsonl"]]
)
def test_max_future_is_refused_where_records_have_no_log_time(command, capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args([*command, "--max-future", "2h"])
    assert "2h after which log time? Only records of live logs have one" in capsys.readouterr().err


def test_a_replay_without_out_shows_the_alerts(files, capsys):
    words = [word for word in command() if word not in ("--out", "alerts.jsonl")]
    assert main(words) == OK
    out, _ = capsys.readouterr()
    alerts = replay("events.jsonl", [RULE], engine="reference").alerts
    assert (
        f"{len(alerts)} alerts, the first 20" in out
        and alerts[0].key in out
        and alerts[20].key not in out[:200]
    )
    assert json.loads(out.splitlines()[-1])["alerts"] == len(alerts)


@pytest.mark.parametrize("words", [["replay", "--rules", "rules.txt"], ["rules", "backtest", RULE]])
def test_nothing_but_dead_letters_is_a_failure_that_proposes_infer(words, files, capsys):
    Path("my other.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    assert main([*words, "my other.jsonl", "--engine", "reference"]) == FAILED
    assert "all 2 records of my other.jsonl are dead letters" in (err := capsys.readouterr().err)
    assert "`lab infer 'my other.jsonl' --out schema.toml`" in err


@pytest.mark.parametrize("out", ["events.toml", ".", "/dev/zero"])
def test_infer_does_not_write_over_a_schema_that_may_have_been_mended(out, files, capsys):
    Path("events.toml").write_text("mine")
    assert main(["infer", "events.jsonl", "--out", out]) == USAGE
    assert f"{out} already exists" in capsys.readouterr().err
    assert Path("events.toml").read_text() == "mine"
    Path("orders.jsonl").write_text("\n".join(orders(100)))
    assert main(["infer", "orders.jsonl"]) == OK
    out, err = capsys.readouterr()
    assert (
        'id = "order_id"' in out
        and "10 fields from 100 records; id order_id, time placedAt (iso), 2 doubts" in err
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [("paymets", "did you mean payments?"), ("bad.toml", "bad.toml: name: nothing, expected a text")],
)
def test_a_schema_that_is_none_is_refused_in_one_sentence(text, says, files, capsys):
    Path("bad.toml").write_text("id = 'x'")
    with pytest.raises(SystemExit) as exit:
        main(command("--schema", text))
    assert exit.value.code == USAGE and says in capsys.readouterr().err


def test_a_command_that_is_told_can_be_pasted_whatever_the_folder_is_called(capsys, monkeypatch):
    running = Mock(folder=Path("/my lab/broker"), address="127.0.0.1:1", pid=7)
    monkeypatch.setattr("lab.machine.broker.status", lambda folder: running)
    running.answers.return_value = False
    assert main(["broker", "status"]) == FAILED
    assert "stop it: lab broker stop --folder '/my lab/broker'" in capsys.readouterr().err


def test_without_java_a_broker_downloads_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["broker", "start", "--folder", str(tmp_path / "broker")]) == FAILED
    assert capsys.readouterr().err.startswith("lab: Spark and Kafka need Java")


def test_a_checkpoint_of_another_user_is_refused_with_the_way_on(tmp_path, capsys, monkeypatch):
    """As it is for others than root, whom the system refuses no file."""
    record = tmp_path / "logs" / "checkpoint" / "lab.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    said = f"Failed to open local file '{record}'. Detail: [errno 13] Permission denied"  # in Arrow's words
    error = PermissionError(errno.EACCES, said)
    monkeypatch.setattr(CheckpointFolder, "read", Mock(side_effect=error))
    assert main(["state", str(record.parent)]) == FAILED
    assert (
        f"lab: {record}: Permission denied; copied from another user, a checkpoint needs `chown -R`"
        in capsys.readouterr().err
    )


def test_a_current_folder_that_has_been_removed_is_told(tmp_path, capsys, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["run", "--logs", "logs"]) == FAILED
    assert capsys.readouterr().err == "lab: the current folder has been removed: cd to another one\n"


def test_debug_shows_where_an_error_was_raised(files):
    with pytest.raises(FileNotFoundError):
        main(command("--rules", "nowhere.txt", "--debug"))


@pytest.mark.parametrize(
    "words",
    [["--max-out-of-orderness", "5 months"], ["--batches", "0"], ["--engine", "flink"], ["--schema", "x"]],
)
def test_wrong_usage_says_what_is_expected(words, files, capsys):
    with pytest.raises(SystemExit) as exit:
        main(command(*words))
    assert exit.value.code == USAGE
    assert words[1] in capsys.readouterr().err


def test_two_hyphens_are_no_value(files, capsys):
    with pytest.raises(SystemExit) as exit:
        main(command("--batches=--"))
    assert exit.value.code == USAGE
    assert capsys.readouterr().err.endswith("lab: error: --batches=--: expected a value\n")


@pytest.mark.parametrize(
    "words, expected",
    [
        (["run", "--key-groups", "1e3"], "a whole number, 1 or more"),
        (["run", "--parallelism", "-1"], "a whole number, 1 or more"),
        (["run", "--metrics", "65536"], "a whole number, 0 to 65535"),
        (["broker", "start", "--port", "99999"], "a whole number, 1 to 65535"),
        (["restrict", "serve", "--port", "99999"], "a whole number, 1 to 65535"),
        (["demo", "--seconds", "9" * 5000], "a whole number of at most 18 digits"),
        (["typologies", "--seed", "x"], "a whole number, 0 or more"),
        (["simulate", "--to", "logs/events", "--seed", "x"], "a whole number, 0 or more"),
        (["rules", "add", RULE, "--timeout", "nan"], "seconds, 0 or more"),
        (["rules", "pause", "1", "--timeout", "-1"], "seconds, 0 or more"),
    ],
)
def test_a_number_that_is_none_or_too_large_is_refused_with_what_is_expected(words, expected, files, capsys):
    with pytest.raises(SystemExit) as exit:
        main(words)
    assert exit.value.code == USAGE
    assert capsys.readouterr().err.rstrip().endswith(f"{words[-1]!r}, expected {expected}")


@pytest.mark.parametrize("lost", ["full", "closed"])
def test_an_engine_whose_messages_nobody_can_read_any_more_ends_as_failed_and_says_why(lost, files):
    """Not as a command does that `head` has read enough of: a service manager would not start it again."""
    command = [sys.executable, "-m", "lab", "run", "--logs", "lost", "--log-format", "json"]
    read, closed = os.pipe()
    os.close(read)
    with open("/dev/full", "w") as full:
        output = full if lost == "full" else closed
        done = subprocess.run(command, check=False, stdout=output, stderr=subprocess.PIPE, text=True)
    os.close(closed)
    reason = {"full": "No space left on device", "closed": "Broken pipe"}[lost]
    expected = f"lab: standard output: {reason}, so nobody would read what the engine says; started again, it continues"
    assert (done.returncode, done.stderr.splitlines()) == (FAILED, [expected])


@pytest.mark.parametrize(
    "words",
    [
        "restrict run --schema logins --logs lost",
        "cdc run --schema payments --store sqlite:///rules.db --logs lost",
    ],
)
def test_a_service_whose_output_nobody_reads_any_more_ends_as_failed(words, files):
    """A service manager starts it again; after a success it would not, and nobody would be restricted any more."""
    read, closed = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "lab", *words.split()]
    done = subprocess.run(
        command, check=False, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    os.close(closed)
    expected = "lab: ended, because nobody reads its output any more; started again, it continues"
    assert (done.returncode, done.stderr.splitlines()) == (FAILED, [expected])


@pytest.mark.parametrize("words", [["datasets"], ["--version"], ["infer", "events.jsonl"]])
def test_an_output_that_is_full_or_that_nobody_reads_is_told_in_one_line_or_not_at_all(words, files):
    kind = {"stderr": subprocess.PIPE, "text": True}
    kind["env"] = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "lab", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, check=False, stdout=full, **kind)
    assert done.returncode == FAILED
    assert done.stderr.splitlines()[-1] == "lab: standard output: No space left on device"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, check=False, stdout=write, **kind)
    os.close(write)
    assert done.returncode == OK and "Broken" not in done.stderr


def test_what_a_terminal_of_another_encoding_cannot_show_is_escaped(files):
    Path("events.jsonl").write_text(LINES[0].replace("CSH", "漢字") + "\n" + "\n".join(LINES[1:]))
    words = [sys.executable, "-m", "lab", "infer", "events.jsonl"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(words, check=False, env=environment, capture_output=True, text=True)
    assert "codec" not in done.stderr
    assert r"\u6f22\u5b57" in done.stdout


def test_ctrl_c_ends_the_doctor_too(capsys, monkeypatch):
    def interrupted(*_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(PATIENCE_S)

    monkeypatch.setattr("lab.machine.doctor.run", interrupted)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as while the program is being loaded
    try:
        assert main(["doctor"]) == STOPPED
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.strip() == "lab: stopped"


def test_ctrl_c_ends_a_replay_without_a_traceback(files, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.running.replayreport.replay_with_progress", interrupted)
    assert main(command()) == STOPPED
    assert capsys.readouterr().err.strip() == "lab: stopped"


def test_rules_wait_in_the_control_log_while_no_engine_runs(files, capsys):
    assert main(["rules", "add", RULE, "--timeout", "0.1"]) == OK
    said = capsys.readouterr().out
    assert (
        "queued in logs/control: no answer" in said
        and "the engine reads it once it has started, or the next" in said
    )
    assert main(["rules", "pause", "1", "--timeout", "0"]) == OK
    assert main(["rules", "list"]) == OK
    assert capsys.readouterr().out.endswith("v2   PAUSE   SUM(paymentAmount) per payeeId over 10 min > 60\n")
    assert main(["rules", "list", "--rules", "logs/control"]) == OK
    assert main(["rules", "delete", "1", "--logs", "logs", "--timeout", "0"]) == OK
    capsys.readouterr()
    assert main(["rules", "list", "--logs", "logs"]) == OK
    assert capsys.readouterr().out == "no rule is in force\n"


def test_a_rule_is_typed_as_a_sentence_and_listed_as_the_sentence_that_it_is(files, capsys):
    plain = "SUM(paymentAmount) per payeeId over 10 min > 60"
    carries = (
        f'{plain}, severity high, title "Too much", labels team = "fraud", with beneficiaryId of the event'
    )
    long = {"ruleId": 3, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": ">"}
    long |= {"limit": 9, "window": "1d", "title": "x" * 200, "labels": {"why": "y" * 200}}
    for rule in (f"1: {plain}", f"2 pause: {carries}", json.dumps(long)):
        assert main(["rules", "add", rule, "--timeout", "0"]) == OK
    capsys.readouterr()
    assert main(["rules", "list"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=3)[3] for line in lines[:2]] == [plain, carries] and len(lines) == 3
    assert main(["rules", "backtest", f"1: {plain}", "events.jsonl", "--engine", "reference"]) == OK
    assert capsys.readouterr().out.startswith(f"rule 1: {plain}\n")


def test_a_rule_that_can_never_alert_is_sent_with_a_hint(files, capsys):
    never = "1,(active),(payeeId),,(COUNT),,(=),(0),(10)"
    store = ["--store", "sqlite:///rules.db"]
    for words in (
        ["add", never, "--timeout", "0"],
        ["add", never, *store],
        ["backtest", never, "events.jsonl"],
    ):
        engine = ["--engine", "reference"] if words[0] == "backtest" else []
        assert main(["rules", *words, *engine]) == OK
        assert "hint for rule 1: COUNT = 0 is never true" in capsys.readouterr().out
    assert main(["rules", "add", RULE, "--timeout", "0"]) == OK
    assert "hint" not in capsys.readouterr().out


def test_a_bad_rule_is_not_sent(files, capsys):
    assert main(["rules", "add", RULE.replace("payeeId", "payerId")]) == USAGE
    assert 'unknown payments field "payerId", did you mean payeeId?' in capsys.readouterr().err
    assert not Path("logs").exists()
    assert main(["rules", "list"]) == FAILED
    assert "logs/control: no such log" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rule", ["SUM(paymentAmount) per payeeId over 1 h > 5", "rule 7: COUNT(events) over 1 h > 5"]
)
def test_a_sentence_without_its_id_is_no_file(rule, files, capsys):
    assert main(["rules", "backtest", rule, "events.jsonl", "--engine", "reference"]) == USAGE
    assert "7: SUM(amount) per userId over 1 h > 500" in capsys.readouterr().err


def test_a_backtest_tells_how_often_for_whom_and_first(files, capsys):
    assert main(["rules", "backtest", RULE, "events.jsonl", "--engine", "reference", "--top", "2"]) == OK
    lines = capsys.readouterr().out.splitlines()
    alerts = replay("events.jsonl", [RULE], engine="reference").alerts
    assert lines[0] == "rule 1: SUM(paymentAmount) per payeeId over 10 min > 60"
    assert lines[1] == f"alerts: {len(alerts)}, groups: {len({alert.key for alert in alerts})}"
    assert len(lines) == 2 + 2 + 1 + 2 and alerts[0].key in lines[5] and lines[4] == "first (times in UTC):"


def test_a_backtest_shows_the_first_alerts_of_each_rule_in_the_zone_of_the_schema(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{n},2024-05-01 0{n}:00:00,a\n" for n in range(8))
    Path("events.csv").write_text(f"id,at,card\n{rows}")
    assert main(["infer", "events.csv", "--zone", "Asia/Seoul", "--out", "own.toml"]) == OK
    Path("rules.txt").write_text(
        "1: COUNT(events) per card over 9 h > 0\n2: COUNT(events) per card over 9 h > 5\n"
    )
    assert (
        main(
            ["rules", "backtest", "rules.txt", "events.csv", "--schema", "own.toml", "--engine", "reference"]
        )
        == OK
    )
    shown = capsys.readouterr().out.partition("first (times in Asia/Seoul):\n")[2].splitlines()
    assert [line.partition("  {")[0].strip() for line in shown] == [
        "2024-05-01 00:00:00.000  rule 1",
        "2024-05-01 01:00:00.000  rule 1",
        "2024-05-01 05:00:00.000  rule 2",
        "2024-05-01 06:00:00.000  rule 2",
    ]


@pytest.mark.parametrize(
    "where, said",
    [
        (["--events", "kafka://localhost/events"], "expected kafka://HOST:PORT/TOPIC"),
        (["--events", "file://events"], "expected kafka://HOST:PORT/TOPIC"),
        (
            ["--logs", "kafka://localhost:9092", "--alerts", "out"],
            "expected only folders, or topics of one Kafka cluster",
        ),
        (["--logs", "kafka://localhost:1"], "no Kafka broker answers at localhost:1"),
        (["--logs", "kafka://localhost:99999"], "expected kafka://HOST:PORT/TOPIC"),
    ],
)
def test_a_place_of_logs_that_is_none_is_refused(where, said, files, capsys, monkeypatch):
    monkeypatch.setattr("lab.logs.cluster.ANSWER_S", 0.2)
    with suppress(SystemExit):
        assert main(["run", *where]) != OK
    assert said in capsys.readouterr().err


def test_rules_for_another_schema_are_refused(files, capsys):
    assert main(["rules", "add", RULE, "--timeout", "0"]) == OK
    assert main(["run", "--schema", "logins"]) == USAGE
    assert (
        "are for payments, but this engine's events are logins: use --schema payments"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--checkpoint", "hdfs://name:9000/lab"],
            "checkpoint hdfs://name:9000/lab: expected a folder, file:///…",
        ),
        (
            ["--master", "spark://far:7077"],
            "logs in folders are on this machine, Spark's tasks on spark://far:7077",
        ),
        (
            ["--logs", "kafka://localhost:1", "--master", "spark://far:7077", "--checkpoint", "/var/lab"],
            "checkpoint /var/lab is on this machine, Spark's tasks on spark://far:7077 are on others: use file:///var/lab if",
        ),
    ],
)
def test_what_cannot_work_is_refused_in_one_line_before_spark_starts(words, says, files, capsys):
    assert main(["run", "--logs", "logs", *words]) == FAILED
    err = capsys.readouterr().err
    assert says in err and len(err.strip().splitlines()) == 1 and not Path("logs").exists()


def shared_memory(process: psutil.Process) -> set[Path]:
    """The folders of shared memory that an engine has open."""
    opened: list[str] = []
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):  # it has just ended
            opened += [file.path for file in each.open_files()]
    return {Path(path).parent for path in opened if path.endswith("/held")}


def signalled(process: psutil.Process, number: signal.Signals, everybody: bool) -> list[psutil.Process]:
    """Sends a signal to an engine, or to everybody of its family, Java and the workers, too."""
    family = [process, *process.children(recursive=True)]
    for each in family if everybody else family[:1]:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(number)
    return family


@pytest.fixture
def heeds_hangup():
    """Processes that are started heed SIGHUP, also where the tests were started by `nohup`, which has an engine ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.slow
@pytest.mark.usefixtures("heeds_hangup")
@pytest.mark.parametrize(
    "stops",
    [(signal.SIGKILL, signal.SIGTERM), (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)],
    ids=["killed", "stopped"],
)
def test_run_answers_rules_alerts_refuses_a_second_engine_and_continues_after_a_stop_or_kill(
    stops, files, tmp_path
):
    """One engine in a process of its own: killed, stopped by Ctrl-C, and stopped by a terminal that is closed and by a service manager, which signal the whole family.

    Each log is where it was told to be. No shared memory is left, what a killed engine left is removed by the next one.
    """
    logs = FileLogs(tmp_path / "out", {"events": tmp_path / "in", "control": tmp_path / "rules"})
    where = ["--events", "in", "--rules", "rules", "--alerts", "out/alerts"]
    run = [sys.executable, "-m", "lab", "run", *where]
    expected = [alert.alert_id for alert in replay("events.jsonl", [RULE], engine="reference").alerts]

    def seen() -> int:
        return sum(json.loads(line).get("records", 0) for line in logs.log("stats").read())

    control = ["--rules", "rules", "--acks", "out/acks"]
    assert main(["rules", "add", RULE, *control, "--timeout", "0"]) == OK
    left: set[Path] = set()
    part = len(LINES) // len(stops)
    for number, stop in enumerate(stops):
        logs.log("events").append(LINES[part * number : part * (number + 1)])
        with program(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as engine:
            wait_until(
                lambda: seen() == part * (number + 1),  # noqa: B023
                alive=lambda: engine.poll() is None,
                said=lambda: engine.communicate(timeout=1),
            )
            assert not any(folder.exists() for folder in left)
            process = psutil.Process(engine.pid)
            assert (left := shared_memory(process)) and all(folder.exists() for folder in left)
            if not number:
                second = [*run, "--checkpoint", "other"]
                done = subprocess.run(second, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
                assert done.returncode == FAILED, done.stderr
                in_use = r"lab: log .*/alerts is in use by an engine \(process \d+\)"
                assert re.search(in_use, done.stderr.splitlines()[-1])
            if stop is signal.SIGTERM:
                assert main(["rules", "pause", "1", *control, "--timeout", str(PATIENCE_S)]) == OK
                assert main(["rules", "pause", "7", *control, "--timeout", str(PATIENCE_S)]) == USAGE
            family = signalled(process, stop, everybody=stop is not signal.SIGINT)
            out, err = engine.communicate(timeout=PATIENCE_S)
            psutil.wait_procs(family, PATIENCE_S)
        if stop is not signal.SIGKILL:
            assert engine.returncode == OK and f"{part} events, " in err and out == ""
            assert not any(folder.exists() for folder in left)
        assert not [word for word in NOISE if word in err], err
    found = [json.loads(line)["alertId"] for line in logs.log("alerts").read()]
    assert sorted(found) == sorted(expected)
    states = [json.loads(line).get("ruleState", "") for line in only_answers(logs.log("acks").read())]
    assert states == ["ACTIVE", "PAUSE", ""]


def test_a_file_that_is_not_gzip_is_one_line(files, capsys):
    Path("events.jsonl.gz").write_bytes(gzip.compress(b"{}" * 100)[:-9])
    assert main([*command()[:1], "events.jsonl.gz", *command()[2:]]) == FAILED
    assert capsys.readouterr().err.startswith("lab: events.jsonl.gz is not a complete gzip file")
