"""Other parallelism for a stopped engine: the same alerts, whatever interrupts the change."""

import json
import os
import shutil
from pathlib import Path

import pytest

from lab.cli.main import FAILED, OK, main
from lab.engine.checkpoint import Batches, give_up, read_record, write_record
from lab.engine.ends import LOGS, FileLogs
from lab.engine.held import CheckpointInUse, held
from lab.engine.settings import Settings
from lab.state import rescale as module
from lab.state.rescale import CannotRescale, rescale
from tests.engine.test_pipeline import EVENTS, RULES, alert_ids, expected, run, write


class Interrupted(Exception):
    pass


def interrupt(*_) -> None:
    raise Interrupted


def forget_commit(checkpoint: Path, batch_id: int) -> None:
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink()


def begun(spark, folder: Path, parallelism: int = 3, segments: int = 2) -> Path:
    """An engine that has read a third of the events, stopped; its checkpoint."""
    write(FileLogs(folder), EVENTS[:200], RULES)
    run(spark, folder, Settings(parallelism=parallelism, max_segments_per_batch=segments))
    return folder / "checkpoint"


def test_alerts_stay_the_same_whatever_interrupts_a_rescale(spark, tmp_path, monkeypatch):
    checkpoint = begun(spark, tmp_path)

    def refused(to: int, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            run(spark, tmp_path, Settings(parallelism=to))
        with pytest.raises(CannotRescale, match="half way .* finish that first: --to"):
            rescale(checkpoint, to + 1, spark=spark)

    # before Spark begins
    with monkeypatch.context() as patched:
        patched.setattr(module, "_repartition", interrupt)
        with pytest.raises(Interrupted):
            rescale(checkpoint, 4, spark=spark, backup=True)
    refused(4, r"half way from 3 to 4 partitions; finish that: lab rescale .*checkpoint --to 4")
    told = rescale(checkpoint, 4, spark=spark)
    assert (told.before.parallelism, told.after.parallelism, told.move.key_groups) == (3, 4, 10)
    kept = next(tmp_path.glob("checkpoint.parallelism-3.batch-*"))
    assert Batches.read(kept).done < Batches.read(checkpoint).done
    write(FileLogs(tmp_path), EVENTS[200:400])
    run(spark, tmp_path, Settings(parallelism=4))

    # between Spark's plan and its commit
    def half(spark, checkpoint, change) -> None:
        spark._streamingCheckpointManager.repartition(str(checkpoint), change["to"])
        done = Batches.read(checkpoint).done
        forget_commit(checkpoint, done)
        shutil.rmtree(checkpoint / "state" / "0" / "1")  # as if that partition had been in the making
        restored = checkpoint.with_name("of before") / "state" / "0" / "1"
        shutil.copytree(restored, checkpoint / "state" / "0" / "1")
        raise Interrupted

    shutil.copytree(checkpoint, tmp_path / "of before")
    with monkeypatch.context() as patched:
        patched.setattr(module, "_repartition", half)
        with pytest.raises(Interrupted):
            rescale(checkpoint, 2, spark=spark)
    refused(2, "half way from 4 to 2 partitions")
    assert rescale(checkpoint, 2, spark=spark).seconds > 0
    write(FileLogs(tmp_path), EVENTS[400:])
    run(spark, tmp_path, Settings(parallelism=2))

    # after Spark's commit, before our own note; nothing is repartitioned twice
    with monkeypatch.context() as patched:
        patched.setattr(module, "_same", interrupt)
        with pytest.raises(Interrupted):
            rescale(checkpoint, 5, spark=spark)
    refused(5, "half way from 2 to 5 partitions")
    batch = Batches.read(checkpoint)
    assert rescale(checkpoint, 5, spark=spark).seconds == 0 and Batches.read(checkpoint) == batch
    assert read_record(checkpoint)["parallelism"] == 5 == batch.partitions(batch.done)
    write(FileLogs(tmp_path), EVENTS[:1])  # a duplicate: it alerts nothing, if the windows are all there
    run(spark, tmp_path, Settings(parallelism=5))
    assert alert_ids(tmp_path) == expected()


def test_a_micro_batch_cut_short_is_read_again_after_a_rescale(spark, tmp_path, monkeypatch):
    """Killed before it wrote anything: the batch is taken back, also if that is interrupted in turn."""
    checkpoint = begun(spark, tmp_path, segments=1)
    last = Batches.read(checkpoint).done
    forget_commit(checkpoint, last)
    with pytest.raises(CannotRescale, match=f"micro-batch {last} was interrupted after its output had begun"):
        rescale(checkpoint, 4, spark=spark)
    for name in LOGS[2:]:  # those that it writes
        for segment in FileLogs(tmp_path).log(name).folder.glob(f"*-{last:08d}.jsonl"):
            segment.unlink()
    with held(checkpoint) as lock:
        lock.output_begins(last - 1)

    def taken_back_half(checkpoint, batch_id) -> None:
        next((checkpoint / "state").glob(f"*/*/{batch_id + 1}.changelog")).unlink()
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(module, "give_up", taken_back_half)
        with pytest.raises(Interrupted):
            rescale(checkpoint, 4, spark=spark)

    def planned(spark, checkpoint, change) -> None:  # taken back, Spark's plan in its place, but no commit
        give_up(checkpoint, last)
        spark._streamingCheckpointManager.repartition(str(checkpoint), change["to"])
        forget_commit(checkpoint, last)
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(module, "_repartition", planned)
        with pytest.raises(Interrupted):
            rescale(checkpoint, 4, spark=spark)
    rescale(checkpoint, 4, spark=spark)
    write(FileLogs(tmp_path), EVENTS[200:])
    run(spark, tmp_path, Settings(parallelism=4))
    assert alert_ids(tmp_path) == expected()


def test_what_cannot_be_done_is_refused_and_changes_nothing(spark, tmp_path):
    checkpoint = begun(spark, tmp_path, 2)

    def all_of_it() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in checkpoint.rglob("*") if p.is_file() and p.name != "lab.lock"}

    before = all_of_it()
    for to, message in [
        (2, "has 2 partitions already"),
        (17, "--to 17, expected 1 to 16: a partition without a key-group has nothing to do"),
        (0, "--to 0, expected 1 to 16"),
    ]:
        with pytest.raises(CannotRescale, match=message):
            rescale(checkpoint, to, spark=spark)
    with held(checkpoint), pytest.raises(CheckpointInUse, match=rf"an engine \(process {os.getpid()}\)"):
        rescale(checkpoint, 4, spark=spark)
    with pytest.raises(CannotRescale, match="nowhere is no checkpoint of the engine"):
        rescale(tmp_path / "nowhere", 4, spark=spark)
    told = rescale(checkpoint, 4, spark=spark, dry_run=True)
    assert told.summary().startswith("2 to 4 partitions: would move 8 of 16 key-groups")
    assert all_of_it() == before
    with pytest.raises(ValueError, match="parallelism: 4, but .* or change it: lab rescale .* --to 4"):
        run(spark, tmp_path, Settings(parallelism=4))
    write_record(checkpoint, read_record(checkpoint) | {"version": 1})
    with pytest.raises(ValueError, match="is of version 1, this engine reads version 2"):
        rescale(checkpoint, 4, spark=spark)


def test_an_engine_that_never_read_anything_only_takes_note(tmp_path):
    Settings(parallelism=3).bind(tmp_path)
    assert "of 16 key-groups, 0 of 0 bytes (0%)" in rescale(tmp_path, 4).summary()
    Settings(parallelism=4).bind(tmp_path)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").touch()
    with held(tmp_path) as lock:
        lock.output_begins(-1)
    with pytest.raises(CannotRescale, match="no micro-batch was completed yet"):
        rescale(tmp_path, 5)


def test_the_command_tells_before_and_after(spark, tmp_path, capsys, monkeypatch):
    checkpoint = begun(spark, tmp_path)
    monkeypatch.setattr(module, "_session", lambda: module.nullcontext(spark))
    assert main(["rescale", str(checkpoint), "--to", "4"]) == OK
    out, err = capsys.readouterr()
    told = json.loads(out.splitlines()[-1])
    assert (told["from"], told["to"], told["moved"]["key_groups"]) == (3, 4, 10)
    assert [row["keyGroups"] for row in told["after"]][3] == [3, 7, 11, 15]
    assert "        3" in err and "nothing lost" in err
    assert main(["rescale", str(checkpoint), "--to", "4"]) == FAILED
    assert capsys.readouterr().err.splitlines()[-1].endswith("has 4 partitions already")


def test_a_run_takes_the_parallelism_of_its_checkpoint(tmp_path):
    from lab.cli.main import parser
    from lab.cli.options import settings_of

    Settings(parallelism=5).bind(tmp_path)
    options = parser().parse_args(["run"])
    assert settings_of(options, tmp_path) == Settings(parallelism=5)
    assert settings_of(options) == Settings()
    options = parser().parse_args(["run", "--parallelism", "3"])
    assert settings_of(options, tmp_path).parallelism == 3, "refused later, by the engine"
