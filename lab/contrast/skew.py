"""Skew: how the events of a route spread over key-groups and tasks when one key is much heavier than the others.

key-groups   0   1   2   3 …                 the key-group with the heavy key is on one task,
events       ▂   ▂   █   ▂                   and that task ends last: the micro-batch waits for it
"""

from collections import Counter
from collections.abc import Sequence
from random import Random

from lab.model.keygroups import digest, key_group_of_one
from lab.state.placement import by_range


def replace_with_heavy_value(values: Sequence, share: float, heavy: object, seed: int = 1) -> list:
    """The values, a random `share` of them (0 to 1) replaced by `heavy`.

    >>> replace_with_heavy_value([1, 2, 3, 4], 0.5, 9).count(9)
    2
    """
    chosen = set(Random(seed).sample(range(len(values)), round(share * len(values))))
    return [heavy if i in chosen else value for i, value in enumerate(values)]


def key_group_shares(columns: Sequence[Sequence], key_groups: int) -> list[float]:
    """The share of events in each key-group, adding up to 1; `columns`: the values of each key field, ints or strings.

    >>> [group for group, share in enumerate(key_group_shares([[25, 26], [12, 12]], 16)) if share]
    [3, 6]
    """
    counts: Counter[int] = Counter()
    for group, events in Counter(zip(*columns)).items():
        counts[key_group_of_one(_numbers(group), key_groups)] += events
    return [counts[key_group] / counts.total() for key_group in range(key_groups)]


def fullest_task_share(shares: Sequence[float], parallelism: int) -> float:
    """The share of the fullest task, when tasks have ranges of key-groups, as the engine gives them out.

    >>> fullest_task_share([0.5, 0.125, 0.25, 0.125], 2), fullest_task_share([0.5, 0.125, 0.25, 0.125], 4)
    (0.625, 0.5)
    """
    of_task = [0.0] * parallelism
    for task, share in zip(by_range(len(shares), parallelism), shares):
        of_task[task] += share
    return max(of_task)


def _numbers(group: tuple) -> list[int]:
    return [number for value in group for number in (digest(value) if isinstance(value, str) else (value,))]
