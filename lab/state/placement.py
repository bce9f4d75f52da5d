"""What moves when the parallelism changes from p to q under three placements, and how operator state is redistributed.

    placement         partition of key-group g of G        3 → 4, G = 128       contiguous on disk
    modulo            g mod p                              three in four move   no
    ranges (Flink)    g · p ÷ G                            about half move      yes
    rendezvous        the p with the largest hash(g, p)    one in four moves    no

Source: "A Deep Dive into Rescalable State"; rendezvous hashing: Thaler and Ravishankar, 1998. "Modulo"
also describes placement without key-groups, by the hash of each key modulo the parallelism. Ranges do not minimize what moves: from 4
to 2 they move more than modulo. Their advantage is that a new partition reads its state in one sequential read.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from lab.model.keygroups import hash_numbers

T = TypeVar("T")
Placement = Callable[[int, int], list[int]]  # (key-groups, parallelism) -> partition of each key-group


def by_modulo(key_groups: int, parallelism: int) -> list[int]:
    """Key-group (or key) number modulo parallelism.

    >>> by_modulo(6, 3)
    [0, 1, 2, 0, 1, 2]
    """
    return [key_group % parallelism for key_group in range(key_groups)]


def by_range(key_groups: int, parallelism: int) -> list[int]:
    """Contiguous ranges, as in Flink and in this engine (`lab.model.keygroups.flink_partition` for all key-groups).

    >>> by_range(6, 3)
    [0, 0, 1, 1, 2, 2]
    """
    return [key_group * parallelism // key_groups for key_group in range(key_groups)]


def by_rendezvous(key_groups: int, parallelism: int) -> list[int]:
    """Rendezvous hashing: each key-group goes to the partition with the highest hash of the pair.

    A new partition takes only what it wins, and a removed one leaves only what it had. That is the least that can move, but
    the load is even only on average.

    >>> before, after = by_rendezvous(128, 3), by_rendezvous(128, 4)
    >>> {new for old, new in zip(before, after) if old != new}
    {3}
    """

    def winner(key_group: int) -> int:
        return max(range(parallelism), key=lambda partition: hash_numbers((key_group, partition)))

    return list(map(winner, range(key_groups)))


PLACEMENTS: dict[str, Placement] = {"modulo": by_modulo, "ranges": by_range, "rendezvous": by_rendezvous}


@dataclass(frozen=True)
class Move:
    """How many key-groups and bytes change partition, and the totals; `fullest`: bytes of the fullest partition afterwards."""

    key_groups: int
    of_key_groups: int
    bytes: int
    of_bytes: int
    fullest: int

    @property
    def share(self) -> float:
        """The share of the bytes that move, 0 to 1."""
        return self.bytes / self.of_bytes if self.of_bytes else 0.0


def moves(before: Sequence[int], after: Sequence[int], sizes: Sequence[int] | None = None) -> Move:
    """Compares two placements (the partition of each key-group). `sizes`: bytes of each key-group, 1 by default.

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
    """Distributes the operator state of the old instances one by one to the new ones (Flink's `ListCheckpointed`).

    Each entry, such as (Kafka partition, offset), is a unit that can move by itself; a single object would not be.
    Flink's `RoundRobinOperatorStateRepartitioner` cuts as fairly, in runs instead of one by one.

    >>> round_robin([[("p0", 17), ("p3", 5)], [("p1", 40)], [("p2", 8)]], 2)
    [[('p0', 17), ('p1', 40)], [('p3', 5), ('p2', 8)]]
    """
    entries = list(chain.from_iterable(parts))
    return [entries[instance::parallelism] for instance in range(_at_least_one(parallelism))]


def union(parts: Sequence[Sequence[T]], parallelism: int) -> list[list[T]]:
    """Gives all entries to every new instance, which keeps its own (Flink's `getUnionListState`).

    >>> union([["p0"], ["p1"]], 3)
    [['p0', 'p1'], ['p0', 'p1'], ['p0', 'p1']]
    """
    return [list(chain.from_iterable(parts)) for _ in range(_at_least_one(parallelism))]


def _at_least_one(parallelism: int) -> int:
    if parallelism < 1:
        raise ValueError(f"parallelism: {parallelism}, expected 1 or more")
    return parallelism
