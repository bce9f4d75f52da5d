"""The engine gives the reference's alerts on the events of every wish of docs/wishes.md, logged at their times."""

from itertools import accumulate, pairwise
from unittest.mock import patch

import pytest

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop import filelogs
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.reference import Reference
from tests.engine.test_inprocess import Dated
from tests.model.test_wishes import ABSENT, CASES, D, log_of, schema_of


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(CASES | ABSENT))
def test_a_wish_s_alerts_are_those_of_the_reference(number):
    schema = schema_of(number)
    for events in (CASES | ABSENT)[number]:
        log = log_of(number, events)
        newest = accumulate((time for time, _ in events), max, initial=0)
        gaps = [1] * (len(log) - len(events)) + [after - before for before, after in pairwise(newest)]
        with (
            patch.object(filelogs, "WEEK_MS", 10_000 * D),  # so that all events are there at once
            InProcessEngine(Settings(schema, parallelism=1)) as stages,
        ):
            both = Dated(stages, Reference(schema))
            for (kind, text), gap in zip(log, gaps, strict=True):
                both.take(kind, text, gap)
            both.assert_same_at_end()
