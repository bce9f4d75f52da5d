"""A checkpoint that was put back, as a copy made before an upgrade is: nothing that its logs need is lost, or repeated in silence."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import batch_fingerprint
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.engine.loop.filelogs import FileLogs
from lab.engine.loop.kafkalogs import KafkaLogs
from lab.engine.loop.restored import CheckpointRestored, check_not_restored
from lab.engine.spark import pipeline
from lab.logs.index import Batch, writer_id
from lab.model.enginelogs import WRITTEN
from lab.state.reprocess import reprocess
from tests.studio.test_strangers import STRANGE
from tests.topics import append, publish, topics

RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),(5),(50)"


def event(number: int) -> str:
    return f"{number},2013-01-01 00:00:00,25,12,CSH,{number}"


def run(spark, logs: Logs, checkpoint: Path) -> None:
    with pipeline.start(spark, logs, checkpoint, Settings(), once=True) as engine:
        engine.query.awaitTermination()


def log_events(logs: Logs, *numbers: int) -> None:
    if isinstance(logs, KafkaLogs):
        append(logs, list(map(event, numbers)))
    else:
        logs.log("events").append(map(event, numbers))


def alerted(logs: Logs) -> list[int]:
    return [json.loads(line)["eventId"] for line in logs.log("alerts").read()]


def put_back(spark, logs: Logs, folder: Path) -> Path:
    """A checkpoint as it was after event 2; events 3 and 4 were alerted since."""
    checkpoint, copy = folder / "checkpoint", folder / "copy"
    log_events(logs, 1, 2)
    run(spark, logs, checkpoint)
    shutil.copytree(checkpoint, copy)
    log_events(logs, 3, 4)
    run(spark, logs, checkpoint)
    shutil.rmtree(checkpoint)
    return copy.rename(checkpoint)


@pytest.fixture(params=["files", pytest.param("kafka", marks=pytest.mark.slow)])
def logs(request, tmp_path):
    if request.param == "files":
        logs = FileLogs(tmp_path / "logs")
        logs.log("control").append([RULE])
    else:
        logs = topics(request.getfixturevalue("kafka").address, "restored")
        publish(logs, RULE)
    return logs


def test_a_checkpoint_that_was_put_back_is_refused_and_goes_on_under_a_new_id(spark, logs, tmp_path):
    checkpoint = put_back(spark, logs, tmp_path)
    assert alerted(logs) == [3, 4]
    log_events(logs, 6, 7)
    with pytest.raises(
        CheckpointRestored,
        match=rf"ends with cut 0, and .*(alerts|stats).* has its cut 1.* lab reprocess {checkpoint}, and .* same alertId unless another version gave them",
    ):
        run(spark, logs, checkpoint)
    assert alerted(logs) == [3, 4]
    assert reprocess(checkpoint).after_epoch == 0
    run(spark, logs, checkpoint)
    assert alerted(logs) == [3, 4, 3, 4, 6, 7]
    alerts = [json.loads(line) for line in logs.log("alerts").read()]
    assert len({alert["alertId"] for alert in alerts}) == 4


def test_a_batch_that_was_killed_before_its_commit_is_in_the_logs_once(spark, tmp_path):
    """Its lines have other times when it runs again."""
    logs, checkpoint = FileLogs(tmp_path / "logs"), tmp_path / "checkpoint"
    logs.log("control").append([RULE])
    for numbers in ((1, 2), (3, 4)):
        log_events(logs, *numbers)
        run(spark, logs, checkpoint)
    before = {name: logs.log(name).read() for name in WRITTEN}
    commits = checkpoint / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink()
    run(spark, logs, checkpoint)
    assert {name: logs.log(name).read() for name in WRITTEN} == before and (commits / "1").exists()


# -- what is compared ---------------------------------------------------------------------------------------------------


def planned(checkpoint: Path, *cuts: int) -> list[int]:
    """Micro-batches that a checkpoint has planned, the first at 0; their fingerprints."""
    marks = [
        {"cut": cut, "at": cut, "events": {"0": 5}, "control": {}, "ledger": "", "number": n}
        for n, cut in enumerate(cuts)
    ]
    for number, mark in enumerate(marks):
        (CheckpointFolder(checkpoint) / "offsets").write(
            str(number), f"v1\n{{}}\n{json.dumps(mark)}".encode()
        )
    return list(map(batch_fingerprint, marks))


@pytest.mark.parametrize(
    "log, number, cut, said",
    [
        ("alerts", 2, 100, "ends with cut 1, and .*/alerts has its cut 2"),
        ("stats", 900, 100, "ends with cut 1, and .*/stats has its cut 900"),
        ("acks", 1, 21, ".*/acks has another cut 1 of it"),
        ("deadLetters", 0, 11, ".*/deadLetters has another cut 0 of it"),
        ("stats", 1, 20, None),
        ("stats", 0, 10, None),
    ],
)
def test_each_log_tells_whether_it_has_later_or_other_batches(tmp_path, log, number, cut, said):
    logs, checkpoint = FileLogs(tmp_path), tmp_path / "checkpoint"
    (other,) = planned(tmp_path / "other", cut)
    planned(checkpoint, 10, 20)
    logs.log(log).put_batch_once("id", number, b"line\n", other)
    check_not_restored(logs, CheckpointFolder(checkpoint), "another id")
    if said is None:
        return check_not_restored(logs, CheckpointFolder(checkpoint), "id")
    with pytest.raises(CheckpointRestored, match=said):
        check_not_restored(logs, CheckpointFolder(checkpoint), "id")


@pytest.mark.parametrize("log", ["alerts", "stats"])
def test_every_log_is_looked_at_also_after_one_that_agrees(tmp_path, log):
    logs, checkpoint = FileLogs(tmp_path), tmp_path / "checkpoint"
    one, _ = planned(checkpoint, 10, 20)
    for each in ("alerts", "stats"):
        logs.log(each).put_batch_once("id", 0, b"line\n", one)
    check_not_restored(logs, CheckpointFolder(checkpoint), "id")
    logs.log(log).put_batch_once("id", 2, b"line\n", 99)
    with pytest.raises(CheckpointRestored, match=f"{log} has its cut 2"):
        check_not_restored(logs, CheckpointFolder(checkpoint), "id")


def test_a_copy_from_before_the_first_batch_is_refused_and_one_without_old_marks_is_not(tmp_path):
    logs, checkpoint = FileLogs(tmp_path), tmp_path / "checkpoint"
    logs.log("stats").put_batch_once("id", 0, b"line\n", 99)
    with pytest.raises(CheckpointRestored, match="ends before its first cut"):
        check_not_restored(logs, CheckpointFolder(checkpoint), "id")
    planned(checkpoint, 10, 20, 30)
    (CheckpointFolder(checkpoint) / "offsets").remove("0")  # Spark keeps a hundred
    check_not_restored(logs, CheckpointFolder(checkpoint), "id")


@pytest.mark.parametrize(
    "engine, others, since_ms, asked",
    [
        ("id", 0, 0, [100]),
        ("id", 150, 0, [100, 1000]),
        ("id", 2_000, 0, [100, 1000, 10_000]),
        ("nobody", 0, 0, [100]),
        ("nobody", 150, 0, [100, 1000]),
        ("nobody", 150, 60, [100, 1000]),
        ("nobody", 150, 61, [100]),
    ],
)
def test_a_stats_topic_is_read_backwards_as_far_as_it_takes(
    monkeypatch, tmp_path, engine, others, since_ms, asked
):
    """Another engine has written since; and of one that told nothing, all since a time."""
    cut = {"from": 0, "to": 30, "events": {"0": 5}, "control": {}}

    def line(engine: str, number: int) -> str:
        told = {"batch": number, "keyGroups": [0, 15], "times": {"end": number}}
        told |= {"engine": {"id": engine, "since": 0}}
        return json.dumps(told | ({"cut": cut} if engine == "other" or number < 4 else {}))

    lines = [line("id", number) for number in range(5)] + [line("other", 10 + n) for n in range(others)]
    sizes = []
    stats = SimpleNamespace(
        newest=lambda size: sizes.append(size) or lines[-size:],
        newest_returns_all=lambda size: size >= len(lines),
    )
    monkeypatch.setattr(KafkaLogs, "log", lambda *_: stats)
    found = list(KafkaLogs("nowhere:1").last_batches(engine, since_ms))
    [mark] = planned(tmp_path, 30)
    assert found == ([(stats, Batch(writer_id("id"), 3, mark))] if engine == "id" else [])
    assert sizes == asked


def test_a_stats_topic_with_lines_that_no_engine_wrote_ends_no_start(monkeypatch):
    told = {"batch": 7, "keyGroups": [0, 15], "times": {"end": 5}, "engine": {"id": "id", "since": 0}}
    cut = {"from": 0, "to": 30, "events": {"0": 5}, "control": {}}
    broken = [told | {"cut": odd} for odd in (None, 7, [], {}, cut | {"to": "x"}, cut | {"events": [1]})]
    broken += [told | {"times": {}, "engine": {"id": "other", "since": 0}}, told | {"engine": "id"}]
    strange = [*map(json.dumps, broken), *STRANGE]
    for mine in ([], [json.dumps(told | {"batch": 3, "cut": cut})]):
        stats = SimpleNamespace(
            newest=lambda size, lines=[*mine, *strange]: lines[-size:], newest_returns_all=lambda size: True
        )
        monkeypatch.setattr(KafkaLogs, "log", lambda *_, stats=stats: stats)
        assert [last.number for _, last in KafkaLogs("nowhere:1").last_batches("id", 0)] == [3] * len(mine)


@pytest.mark.parametrize("way", ["made", "reprocessed", "planned"])
def test_a_topic_is_asked_since_the_last_plan_or_else_since_there_is_the_id(tmp_path, monkeypatch, way):
    """A minute earlier, as clocks differ: also for a copy from before the first batch, however old it is."""
    checkpoint, asked = tmp_path / "checkpoint", []
    monkeypatch.setattr("lab.engine.checkpoint.record.now_ms", lambda: 1_000_000)
    writer = Settings().bind(checkpoint)
    if way == "reprocessed":
        monkeypatch.setattr("lab.engine.checkpoint.record.now_ms", lambda: 2_000_000)
        reprocess(checkpoint)
    elif way == "planned":
        planned(checkpoint, 5_000_000)
    logs = SimpleNamespace(last_batches=lambda writer, since_ms: asked.append(since_ms) or [])
    check_not_restored(logs, CheckpointFolder(checkpoint), writer)
    assert asked == [{"made": 940_000, "reprocessed": 1_940_000, "planned": 4_940_000}[way]]


def test_only_a_checkpoint_gets_a_new_id(tmp_path):
    with pytest.raises(ValueError, match="is no checkpoint of the engine"):
        reprocess(tmp_path)
    before = Settings().bind(tmp_path)
    done = reprocess(tmp_path)
    assert (done.after_epoch, done.log_time, "from the beginning" in done.summary()) == (None, 0, True)
    assert Settings().bind(tmp_path) != before
