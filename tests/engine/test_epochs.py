"""Epochs on Spark: an engine that was killed in the middle of one, and then goes on in another way, gives the same alerts."""

import json
import shutil
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException

from lab.engine.checkpoint.record import BatchProgress
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.filelogs import FileLogs
from lab.engine.spark import pipeline
from lab.state.rescale import rescale
from tests.engine.test_pipeline import EVENTS, RULES, alert_ids, expected, wait_for_records, write


def in_the_middle(spark, logs: FileLogs, settings: Settings):
    """A copy of the checkpoint, made while an epoch was running; what came after is in the logs."""
    checkpoint, copy = logs.folder / "checkpoint", logs.folder / "copy"
    write(logs, EVENTS[:100], RULES)
    with pipeline.start(spark, logs, checkpoint, settings) as engine:
        wait_for_records(logs, engine, 100)
        shutil.copytree(checkpoint, copy, ignore=shutil.ignore_patterns("lab.lock", "lease*"))
    shutil.rmtree(checkpoint)
    return copy.rename(checkpoint)


@pytest.mark.parametrize(
    "way",
    ["live", pytest.param("once", marks=pytest.mark.slow), pytest.param("rescaled", marks=pytest.mark.slow)],
)
def test_an_open_epoch_is_finished_before_anything_new(spark, tmp_path, way):
    logs, settings = FileLogs(tmp_path), Settings()
    checkpoint = in_the_middle(spark, logs, settings)
    assert (checkpoint / "offsets" / "0").exists() and not (checkpoint / "commits" / "0").exists()
    before = logs.log("alerts").read()
    if way == "rescaled":
        rescale(checkpoint, 2)
        settings = replace(settings, parallelism=2)
    write(logs, EVENTS[100:])
    with pipeline.start(spark, logs, checkpoint, settings, once=way == "once") as engine:
        if way == "once":
            engine.query.awaitTermination()
        else:
            wait_for_records(logs, engine, len(EVENTS))
    assert logs.log("alerts").read()[: len(before)] == before
    assert alert_ids(tmp_path) == expected()


def test_a_cut_that_the_driver_chose_and_nobody_delivered_comes_before_those_of_the_loop(
    spark, tmp_path, monkeypatch
):
    logs, settings = FileLogs(tmp_path), Settings(max_batch_records=100)
    write(logs, EVENTS[:300], RULES)
    deliver = FileLogs.write

    def dies_at_the_last(self, rows, cut_number, *of):
        if cut_number == 2:
            raise OSError("died before it delivered")
        deliver(self, rows, cut_number, *of)

    with monkeypatch.context() as patch:
        patch.setattr(FileLogs, "write", dies_at_the_last)
        engine = pipeline.start(spark, logs, tmp_path / "checkpoint", settings, once=True)
        with engine, pytest.raises(StreamingQueryException, match="died before it delivered"):
            engine.query.awaitTermination()
    progress = BatchProgress.read(tmp_path / "checkpoint")
    assert (progress.planned, progress.done) == (2, 1)
    before = logs.log("alerts").read()
    write(logs, EVENTS[300:])
    with pipeline.start(spark, logs, tmp_path / "checkpoint", settings) as engine:
        wait_for_records(logs, engine, len(EVENTS))
    assert logs.log("alerts").read()[: len(before)] == before
    assert alert_ids(tmp_path) == expected()
    numbers = [json.loads(line)["batch"] for line in logs.log("stats").read()]
    assert numbers == list(range(len(numbers)))
