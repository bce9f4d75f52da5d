"""Skew: how the events of a route spread over key-groups and tasks when one key is much heavier than the others.

key-groups   0   1   2   3 …                 the key-group with the heavy key is on one task,
events       ▂   ▂   █   ▂                   and that task ends last: the micro-batch waits for it
"""

from collections.abc import Sequence

import numpy as np

from lab.model.keygroups import digest, key_groups_of
from lab.state.placement import by_range


def heavier(values: Sequence, share: float, heavy: object, seed: int = 1) -> list:
    """The values, a random `share` of them (0 to 1) replaced by `heavy`.

    >>> heavier([1, 2, 3, 4], 0.5, 9).count(9)
    2
    """
    rng = np.random.default_rng(seed)
    chosen = set(rng.permutation(len(values))[: round(share * len(values))].tolist())
    return [heavy if i in chosen else value for i, value in enumerate(values)]


def shares(columns: Sequence[Sequence], key_groups: int) -> np.ndarray:
    """The share of events in each key-group, adding up to 1; `columns`: the values of each key field, ints or strings.

    >>> shares([[25, 26], [12, 12]], 16).nonzero()[0].tolist()
    [3, 6]
    """
    numbers = [column for values in columns for column in _numbers(values)]
    counts = np.bincount(key_groups_of(numbers, len(columns[0]), key_groups), minlength=key_groups)
    return counts / counts.sum()


def fullest(shares: np.ndarray, parallelism: int) -> float:
    """The share of the fullest task, when tasks have ranges of key-groups, as the engine gives them out.

    >>> fullest(np.array([0.4, 0.2, 0.2, 0.2]), 2), fullest(np.array([0.4, 0.2, 0.2, 0.2]), 4)
    (0.6000000000000001, 0.4)
    """
    return float(np.bincount(by_range(len(shares), parallelism), weights=shares).max())


def _numbers(values: Sequence) -> list[np.ndarray]:
    if isinstance(values[0], str):
        return list(np.array([digest(value) for value in values], np.int64).T.copy())
    return [np.array(values, np.int64)]
