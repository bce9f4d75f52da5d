"""A route's windows against the reference, straight: no decoding, no Spark, no files."""

import os
from pathlib import Path

from tests.engine.direct import difference

LOGS = int(os.environ.get("LAB_EXAMPLES", "150"))


def test_the_windows_give_the_alerts_of_the_reference_on_random_logs(tmp_path: Path):
    found = [difference(seed, tmp_path) for seed in range(LOGS)]
    assert not any(found), "\n".join(filter(None, found))
