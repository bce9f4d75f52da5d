"""The sizes of the groups in a checkpoint."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.state.read import StateReader, group_hashes


class GroupSizes(NamedTuple):
    """The sizes of all groups of all routes, one entry per group and route."""

    hashes: np.ndarray
    stored_bytes: np.ndarray  # the size of the group's events, at eight bytes per value


def group_sizes(checkpoint: Path | str) -> GroupSizes:
    """The size of the stored events of each group."""
    # without any route there would be nothing to concatenate
    hashes, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for plan, stored in StateReader(checkpoint).stored_events():
        columns = sum(stored[name].null_count < len(stored) for name in stored.column_names)
        found, counts = np.unique(group_hashes(plan, stored), return_counts=True)
        hashes.append(found.view(np.int64))
        sizes.append(counts * 8 * columns)
    return GroupSizes(np.concatenate(hashes), np.concatenate(sizes))
