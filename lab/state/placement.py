"""What moves when the parallelism changes from p to q, under three placements; and how state without keys is dealt out anew.

    placement         partition of key-group g of G        3 → 4, G = 128       contiguous on disk
    modulo            g mod p                              three in four move   no
    ranges (Flink)    g · p ÷ G                            about half move      yes
    rendezvous        the p with the largest hash(g, p)    one in four moves    no

Source: "A Deep Dive into Rescalable State"; rendezvous hashing: Thaler and Ravishankar, 1998. Seen through key-groups,
"modulo" is also what happens to single keys that are placed by hash modulo parallelism, without key-groups. Ranges are
not there to move the least: from 4 to 2 they move more than modulo. They let a new partition read its state in one go.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from lab.model.keygroups import mixed_one

T = TypeVar("T")
Placement = Callable[[int, int], list[int]]  # (key-groups, parallelism) -> partition of each key-group


def by_modulo(key_groups: int, parallelism: int) -> list[int]:
    """Key-group (or key) number modulo parallelism.

    >>> by_modulo(6, 3)
    [0, 1, 2, 0, 1, 2]
    """
    return [key_group % parallelism for key_group in range(key_groups)]


def by_range(key_groups: int, parallelism: int) -> list[int]:
    """Flink's, and the engine's: neighbours stay together (`lab.model.keygroups.flink_partition` for all key-groups).

    >>> by_range(6, 3)
    [0, 0, 1, 1, 2, 2]
    """
    return [key_group * parallelism // key_groups for key_group in range(key_groups)]


def by_rendezvous(key_groups: int, parallelism: int) -> list[int]:
    """Consistent hashing: every partition bids a hash for the key-group, the highest bid has it.

    A partition that comes takes only what it now wins, one that goes leaves only what it had: the least that can move,
    at the price of a load that is even only on average.

    >>> before, after = by_rendezvous(128, 3), by_rendezvous(128, 4)
    >>> {new for old, new in zip(before, after) if old != new}
    {3}
    """

    def winner(key_group: int) -> int:
        return max(range(parallelism), key=lambda partition: mixed_one((key_group, partition)))

    return list(map(winner, range(key_groups)))


PLACEMENTS: dict[str, Placement] = {
    "modulo": by_modulo,
    "ranges": by_range,
    "rendezvous": by_rendezvous,
}


@dataclass(frozen=True)
class Move:
    """How much changed partition: key-groups and bytes, of how many; `fullest`: bytes of the fullest partition after."""

    key_groups: int
    of_key_groups: int
    bytes: int
    of_bytes: int
    fullest: int

    @property
    def share(self) -> float:
        """Of the bytes, 0 to 1."""
        return self.bytes / self.of_bytes if self.of_bytes else 0.0


def moves(before: Sequence[int], after: Sequence[int], sizes: Sequence[int] | None = None) -> Move:
    """Compares two placements (the partition of each key-group); `sizes`: bytes of each key-group, 1 unless told.

    >>> moves(by_modulo(12, 3), by_modulo(12, 4))
    Move(key_groups=9, of_key_groups=12, bytes=9, of_bytes=12, fullest=3)
    >>> moves(by_range(12, 3), by_range(12, 4)).key_groups
    6
    """
    if len(before) != len(after):
        raise ValueError(
            f"{len(before)} key-groups before and {len(after)} after: their number never changes"
        )
    weights = [1] * len(before) if sizes is None else sizes
    moved = [weight for old, new, weight in zip(before, after, weights) if old != new]
    filled: Counter[int] = Counter()
    for partition, weight in zip(after, weights):
        filled[partition] += weight
    return Move(len(moved), len(before), sum(moved), sum(weights), max(filled.values(), default=0))


def compare(p: int, q: int, key_groups: int = 128, sizes: Sequence[int] | None = None) -> dict[str, Move]:
    """What each placement moves from p to q partitions.

    >>> {name: move.key_groups for name, move in compare(3, 4).items()}
    {'modulo': 95, 'ranges': 65, 'rendezvous': 38}
    """
    return {
        name: moves(place(key_groups, p), place(key_groups, q), sizes) for name, place in PLACEMENTS.items()
    }


# -- operator state: no keys, such as the offsets that a source has read ------------------------------------------------


def round_robin(parts: Sequence[Sequence[T]], parallelism: int) -> list[list[T]]:
    """Operator state of the old instances, dealt out one by one to the new ones (Flink's `ListCheckpointed`).

    Each entry, such as (Kafka partition, offset), is a unit that can move by itself; a single object would not be.
    Flink's `RoundRobinOperatorStateRepartitioner` cuts as fairly, in runs instead of one by one.

    >>> round_robin([[("p0", 17), ("p3", 5)], [("p1", 40)], [("p2", 8)]], 2)
    [[('p0', 17), ('p1', 40)], [('p3', 5), ('p2', 8)]]
    """
    entries = list(chain.from_iterable(parts))
    return [entries[instance::parallelism] for instance in range(_at_least_one(parallelism))]


def union(parts: Sequence[Sequence[T]], parallelism: int) -> list[list[T]]:
    """Every new instance gets all entries and keeps what it knows to be its own (Flink's `getUnionListState`).

    >>> union([["p0"], ["p1"]], 3)
    [['p0', 'p1'], ['p0', 'p1'], ['p0', 'p1']]
    """
    return [list(chain.from_iterable(parts)) for _ in range(_at_least_one(parallelism))]


def _at_least_one(parallelism: int) -> int:
    if parallelism < 1:
        raise ValueError(f"parallelism: {parallelism}, expected 1 or more")
    return parallelism
