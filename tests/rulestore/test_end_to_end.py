"""All parts together: a row is in force and abuse refused soon. `python -m tools.bench.policy` measures it at length."""

import numpy as np
import pytest

from tools.bench.policy import measured


@pytest.mark.soak
def test_a_row_is_in_force_and_abuse_is_refused_soon(needs_loop):
    edits, abuse = measured(rate=500, edits=10, attacks=5, warm_up_s=2)
    for took, total in ((edits, "in force"), (abuse, "refused")):
        print({stage: round(float(np.median(times))) for stage, times in took.items()})
        assert sum(times.sum() for stage, times in took.items()) >= 2 * took[total].sum(), (
            "stages are left out"
        )
