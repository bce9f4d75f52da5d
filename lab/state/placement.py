"""What moves when the parallelism changes from p to q, under four placements; and how state without keys is dealt out anew.

    placement         partition of key-group g of G        3 → 4, G = 128       contiguous on disk
    modulo            g mod p                              three in four move   no
    ranges (Flink)    g · p ÷ G                            about half move      yes
    Spark's hash      murmur(id of g) mod p                as modulo            no
    rendezvous        the p with the largest hash(g, p)    one in four moves    no

Source: "A Deep Dive into Rescalable State"; rendezvous hashing: Thaler and Ravishankar, 1998. Seen through key-groups,
"modulo" is also what happens to single keys that are placed by hash modulo parallelism, without key-groups. Ranges are
not there to move the least: from 4 to 2 they move more than modulo. They let a new partition read its state in one go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np

from lab.model.keygroups import PLACED_EVENLY_UP_TO, placed_ids, spark_hash

T = TypeVar("T")
Placement = Callable[[int, int], np.ndarray]  # (key-groups, parallelism) -> partition of each key-group


def by_modulo(key_groups: int, parallelism: int) -> np.ndarray:
    """Key-group (or key) number modulo parallelism.

    >>> by_modulo(6, 3).tolist()
    [0, 1, 2, 0, 1, 2]
    """
    return np.arange(key_groups) % parallelism


def by_range(key_groups: int, parallelism: int) -> np.ndarray:
    """Flink's: neighbours stay together (`lab.model.keygroups.flink_partition` for all key-groups).

    >>> by_range(6, 3).tolist()
    [0, 0, 1, 1, 2, 2]
    """
    return np.arange(key_groups) * parallelism // key_groups


def by_spark_hash(key_groups: int, parallelism: int, ids: Sequence[int] | None = None) -> np.ndarray:
    """Where Spark puts the rows of state keys: `pmod(hash(id), parallelism)`; ids: the engine's, unless told.

    >>> by_spark_hash(6, 3).tolist(), by_spark_hash(6, 3, range(6)).tolist()
    ([0, 1, 2, 0, 1, 2], [0, 1, 0, 0, 0, 0])
    """
    return spark_hash(np.array(placed_ids(key_groups) if ids is None else ids)) % parallelism


def by_rendezvous(key_groups: int, parallelism: int) -> np.ndarray:
    """Consistent hashing: every partition bids a hash for the key-group, the highest bid has it.

    A partition that comes takes only what it now wins, one that goes leaves only what it had: the least that can move,
    at the price of a load that is even only on average.

    >>> before, after = by_rendezvous(128, 3), by_rendezvous(128, 4)
    >>> set(after[before != after].tolist())
    {3}
    """
    numbers = np.arange(key_groups * parallelism).reshape(parallelism, key_groups)
    partition, key_group = np.divmod(numbers, key_groups)
    bids = spark_hash(
        (spark_hash(key_group + 1).astype(np.int64) ^ (partition + 1) * 0x9E3779B1) & 0xFFFFFFFF
    )
    return bids.argmax(axis=0)


PLACEMENTS: dict[str, Placement] = {
    "modulo": by_modulo,
    "ranges": by_range,
    "spark": by_spark_hash,
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


def moves(before: np.ndarray, after: np.ndarray, sizes: Sequence[int] | None = None) -> Move:
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
    weights = np.ones(len(before), np.int64) if sizes is None else np.asarray(sizes, np.int64)
    moved = np.asarray(before) != np.asarray(after)
    filled = np.bincount(after, weights)
    return Move(
        int(moved.sum()),
        len(moved),
        int(weights[moved].sum()),
        int(weights.sum()),
        int(filled.max(initial=0)),
    )


def compare(p: int, q: int, key_groups: int = 128, sizes: Sequence[int] | None = None) -> dict[str, Move]:
    """What each placement moves from p to q partitions.

    >>> {name: move.key_groups for name, move in compare(3, 4).items()}
    {'modulo': 95, 'ranges': 65, 'spark': 95, 'rendezvous': 39}
    """
    return {
        name: moves(place(key_groups, p), place(key_groups, q), sizes) for name, place in PLACEMENTS.items()
    }


# -- ranges on Spark? --------------------------------------------------------------------------------------------------


def range_ids(key_groups: int) -> tuple[int, ...]:
    """Ids that Spark's hash places in ranges of neighbours for the parallelisms 1, 2, 3, 4, 5, 7 and 8, but not for 6.

    Spark's partition is r mod p, where r is the hash. Ranges numbered in order contradict each other: the second of four
    quarters has r mod 4 = 1, so r is odd, but it lies in the first half, which has r mod 2 = 0. The numbers of ranges
    do not matter, though: with quarters numbered 0, 2, 1, 3 (bits reversed) r mod 2 gives the halves. So 1, 2, 4
    and 8 go together, and 3, 5 and 7 have no factor in common with them (Chinese remainder theorem). For 6 there is no
    way: the first two sixths share a half and a third, hence r mod 2 and r mod 3, hence r mod 6.

    The engine keeps `placed_ids`, which are even for 6 too: ranges save a restore that reads files in sequence, and
    Spark's repartition reads, shuffles and writes all state, whatever moves.

    >>> by_spark_hash(8, 4, range_ids(8)).tolist()
    [0, 0, 2, 2, 1, 1, 3, 3]
    """
    groups = np.arange(key_groups)
    eighth = groups * 8 // key_groups
    wanted = {8: (eighth & 1) << 2 | (eighth & 2) | eighth >> 2}
    wanted |= {p: groups * p // key_groups for p in (3, 5, 7)}
    residue = sum(part * _one_modulo(p) for p, part in wanted.items()) % PLACED_EVENLY_UP_TO
    candidates = np.arange(64 * PLACED_EVENLY_UP_TO)
    hashed = spark_hash(candidates) % PLACED_EVENLY_UP_TO
    used: dict[int, int] = {}
    ids = []
    for r in residue.tolist():
        ids.append(int(candidates[hashed == r][used.get(r, 0)]))
        used[r] = used.get(r, 0) + 1
    return tuple(ids)


def _one_modulo(p: int) -> int:
    """The number that is 1 modulo p and 0 modulo the other factors of 840 = 8 · 3 · 5 · 7."""
    others = PLACED_EVENLY_UP_TO // p
    return others * pow(others, -1, p)


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
