"""Epochs on Spark: an engine that was killed in the middle of one, and then goes on in another way, gives the same alerts."""

import shutil
from dataclasses import replace

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import FileLogs
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
