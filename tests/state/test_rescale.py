"""Other parallelism for a stopped engine: the same alerts, and no file is moved."""

import json
from pathlib import Path

import pytest

from lab.cli.main import FAILED, OK, main
from lab.engine.checkpoint.lock import CheckpointInUse, FolderLock
from lab.engine.checkpoint.record import BatchProgress, read_record
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.state.rescale import CannotRescale, rescale
from tests.engine.test_pipeline import EVENTS, RULES, alert_ids, expected, run, write


def begun(spark, folder: Path, parallelism: int = 3) -> Path:
    """An engine that has read a third of the events, stopped; its checkpoint."""
    write(FileLogs(folder), EVENTS[:200], RULES)
    run(spark, folder, Settings(parallelism=parallelism, max_batch_records=100))
    return folder / "checkpoint"


def files(checkpoint: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (checkpoint / "state").iterdir()}


@pytest.mark.slow
def test_alerts_stay_the_same_and_nothing_moves(spark, tmp_path):
    checkpoint = begun(spark, tmp_path)
    for number, (to, first, end) in enumerate(((4, 200, 300), (1, 300, 400), (5, 400, 600))):
        before = files(checkpoint)
        told = rescale(checkpoint, to)
        assert files(checkpoint) == before
        assert told.before.parallelism == (3, 4, 1)[number] and told.after.parallelism == to
        assert sum(told.before.sizes) > 0 and "no file is moved" in told.summary()
        with pytest.raises(ValueError, match=f"was made with {to}; use that, or change it: lab rescale"):
            run(spark, tmp_path, Settings(parallelism=to + 1))
        write(FileLogs(tmp_path), EVENTS[first:end])
        run(spark, tmp_path, Settings(parallelism=to))
    assert alert_ids(tmp_path) == expected()


def test_a_micro_batch_cut_short_is_run_again_by_other_tasks(spark, tmp_path):
    checkpoint = begun(spark, tmp_path)
    last = BatchProgress.read(checkpoint).done
    for name in (str(last), f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    rescale(checkpoint, 4)
    write(FileLogs(tmp_path), EVENTS[200:])
    run(spark, tmp_path, Settings(parallelism=4))
    assert alert_ids(tmp_path) == expected()


def test_what_cannot_be_done_is_refused_and_says_why(spark, tmp_path):
    with pytest.raises(CannotRescale, match="nowhere is no checkpoint of the engine"):
        rescale(tmp_path / "nowhere", 2)
    checkpoint = begun(spark, tmp_path)
    with pytest.raises(CannotRescale, match="--to 17, expected 1 to 16"):
        rescale(checkpoint, 17)
    with pytest.raises(CannotRescale, match="has 3 partitions already"):
        rescale(checkpoint, 3)
    with FolderLock(checkpoint), pytest.raises(CheckpointInUse, match="in use by an engine"):
        rescale(checkpoint, 2)


def test_the_command_tells_what_changes_hands(spark, tmp_path, capsys):
    checkpoint = begun(spark, tmp_path)
    assert main(["rescale", str(checkpoint), "--to", "4", "--dry-run"]) == OK
    assert read_record(checkpoint)["parallelism"] == 3
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["from"], told["to"], told["dryRun"]) == (3, 4, True)
    assert main(["rescale", str(checkpoint), "--to", "4"]) == OK
    assert read_record(checkpoint)["parallelism"] == 4
    assert main(["rescale", str(checkpoint), "--to", "4"]) == FAILED
    assert "has 4 partitions already" in capsys.readouterr().err
