"""Key-groups: the unit of keyed state, and where Spark places them.

A group (one value of a rule's keys) belongs to one of a fixed number of key-groups; a key-group is what Spark stores,
moves and calls Python for. Idea: "A Deep Dive into Rescalable State"; Flink's `KeyGroupRangeAssignment`.
"""

from functools import cache
from hashlib import blake2b
from math import lcm

import numpy as np

PLACED_EVENLY_UP_TO = lcm(*range(1, 9))  # 840: an id whose hash is g modulo 840 is g modulo 1, 2, … 8 as well


def digest(text: str) -> tuple[int, int]:
    """A string as two signed 64-bit numbers (128-bit BLAKE2b), the form in which strings enter keys and windows.

    >>> digest("KR") == digest("KR"), digest("KR") == digest("CN")
    (True, False)
    """
    raw = blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "little", signed=True), int.from_bytes(raw[8:], "little", signed=True)


def key_groups_of(columns: list[np.ndarray], rows: int, key_groups: int) -> np.ndarray:
    """The key-group, 0 … key_groups − 1, of each row of a key's int64 columns (strings: their two digest columns).

    Mixes with the finaliser of MurmurHash3 (Austin Appleby), 64 bits wide.

    >>> key_groups_of([np.array([25, 26]), np.array([12, 12])], 2, 16).tolist()
    [6, 3]
    """
    hashed = np.zeros(rows, np.uint64)
    for column in columns:
        hashed = (hashed ^ column.view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(factor)
        hashed ^= hashed >> np.uint64(33)
    return (hashed % np.uint64(key_groups)).astype(np.int16)


def spark_hash(ints: np.ndarray) -> np.ndarray:
    """Spark's `hash(int)`: MurmurHash3_x86_32 with seed 42, as signed 32-bit; modulo n it names the partition.

    >>> spark_hash(np.array([0, 1])).tolist()      # SELECT hash(0), hash(1)
    [933211791, -559580957]
    """

    def rotate(x: np.ndarray, by: int) -> np.ndarray:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    k = rotate(ints.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = rotate(np.uint32(42) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    return (h ^ (h >> np.uint32(16))).view(np.int32)


@cache
def placed_ids(count: int) -> tuple[int, ...]:
    """Ids for `count` key-groups that Spark's hash spreads evenly over any parallelism up to 8.

    The g-th id lands on partition g mod p, whatever p ≤ 8 is: with ids 0 … count − 1 it would be left to chance.

    >>> [int(h) % 3 for h in spark_hash(np.array(placed_ids(6)))]
    [0, 1, 2, 0, 1, 2]
    """
    candidates = np.arange(64 * PLACED_EVENLY_UP_TO)
    residues = spark_hash(candidates) % PLACED_EVENLY_UP_TO
    ids: list[int] = []
    for g in range(count):
        fitting = candidates[residues == g % PLACED_EVENLY_UP_TO]
        ids.append(int(fitting[g // PLACED_EVENLY_UP_TO]))
    return tuple(ids)
