"""Key-groups: the unit of keyed state, and which task has which.

A group (one value of a rule's keys) belongs to one of a fixed number of key-groups; a task has a range of them, and state
changes hands by key-group. Idea: "A Deep Dive into Rescalable State"; Flink's `KeyGroupRangeAssignment`.

    key ──hash──► key-group, for ever ──range──► task, until the parallelism changes

`lab.state.placement` compares placements: how much moves when the parallelism changes.
"""

from collections.abc import Iterable
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FIRST, FACTORS, BITS = 0x9E3779B97F4A7C15, (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53), (1 << 64) - 1
BITS_32 = (1 << 32) - 1
FLINK_LEAST_KEY_GROUPS, FLINK_MOST_KEY_GROUPS = 1 << 7, 1 << 15


def digest(text: str) -> tuple[int, int]:
    """A string as two signed 64-bit numbers (128-bit BLAKE2b), the form in which strings enter keys and windows.

    >>> digest("KR") == digest("KR"), digest("KR") == digest("CN")
    (True, False)
    """
    raw = blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "little", signed=True), int.from_bytes(raw[8:], "little", signed=True)


def hash_numbers(numbers: Iterable[int]) -> int:
    """A 64-bit hash of one key's int64 numbers: the finaliser of MurmurHash3 (Austin Appleby), 64 bits wide."""
    hashed = 0
    for number in numbers:
        hashed = (hashed ^ (number & BITS)) + FIRST & BITS
        for factor in FACTORS:
            hashed = (hashed ^ hashed >> 33) * factor & BITS
        hashed ^= hashed >> 33
    return hashed


def key_group_of_one(numbers: Iterable[int], key_groups: int) -> int:
    """The key-group of one key: `key_groups_of` for a single row, without arrays.

    >>> key_group_of_one([25, 12], 16), key_group_of_one([26, 12], 16)
    (6, 3)
    """
    return hash_numbers(numbers) % key_groups


def hash_rows(columns: "list[np.ndarray]", rows: int) -> "np.ndarray":
    """`hash_numbers` for each row of a key's int64 columns."""
    import numpy as np

    hashed = np.zeros(rows, np.uint64)
    for column in columns:
        hashed = (hashed ^ column.view(np.uint64)) + np.uint64(FIRST)
        for factor in FACTORS:
            hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(factor)
        hashed ^= hashed >> np.uint64(33)
    return hashed


def key_groups_of(columns: "list[np.ndarray]", rows: int, key_groups: int) -> "np.ndarray":
    """The key-group, 0 … key_groups − 1, of each row of a key's int64 columns (strings: their two digest columns).

    >>> import numpy as np
    >>> key_groups_of([np.array([25, 26]), np.array([12, 12])], 2, 16).tolist()
    [6, 3]
    """
    import numpy as np

    return (hash_rows(columns, rows) % np.uint64(key_groups)).astype(np.int16)


def key_group_of(group: tuple, key_groups: int) -> int:
    """The key-group of one group's values, see `lab.model.keygroups`."""
    numbers: list[int] = []
    for value in group:
        if isinstance(value, str):
            numbers += digest(value)
        else:
            numbers.append(
                int(value.scaleb(-int(value.as_tuple().exponent))) if isinstance(value, Decimal) else value
            )
    return key_group_of_one(numbers, key_groups)


# -- the same in Flink -------------------------------------------------------------------------------------------------


def flink_murmur(code: int) -> int:
    """Flink's `MathUtils.murmurHash` of a Java hash code (any int, taken as 32 bits): 0 … 2³¹ − 1.

    MurmurHash3_x86_32 (Austin Appleby) of four bytes with seed 0, made positive.

    >>> [flink_murmur(code) for code in (0, 1, -1)]
    [593689054, 68075478, 1982413648]
    """

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> 32 - by) & BITS_32

    hashed = rotated((code & BITS_32) * 0xCC9E2D51 & BITS_32, 15) * 0x1B873593 & BITS_32
    hashed = (rotated(hashed, 13) * 5 + 0xE6546B64 & BITS_32) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ hashed >> shift) * factor & BITS_32
    hashed ^= hashed >> 16
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed)


def java_hash(key: int | str) -> int:
    """Java's `hashCode` of a `Long` or a `String`, which Flink mixes further; signed 32 bits.

    >>> java_hash("hello"), java_hash(25), java_hash(-25), java_hash(1 << 40)
    (99162322, 25, 24, 256)
    """
    code = 0
    if isinstance(key, int):
        code = (key ^ (key >> 32)) & 0xFFFFFFFF
    else:
        units = key.encode("utf-16-le")
        for low, high in zip(units[::2], units[1::2], strict=True):
            code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def flink_key_group(key: int | str, key_groups: int) -> int:
    """The key-group that Flink gives a `Long` or `String` key (`KeyGroupRangeAssignment.assignToKeyGroup`).

    >>> flink_key_group("hello", 128), flink_key_group(25, 128)
    (35, 46)
    """
    return flink_murmur(java_hash(key)) % key_groups


def flink_partition(key_group: int, key_groups: int, parallelism: int) -> int:
    """The subtask that has a key-group (`computeOperatorIndexForKeyGroup`): ranges of neighbours stay together.

    >>> [flink_partition(g, 10, 3) for g in range(10)]
    [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    """
    return key_group * parallelism // key_groups


def flink_range(partition: int, key_groups: int, parallelism: int) -> range:
    """The key-groups of a subtask (`computeKeyGroupRangeForOperatorIndex`): two numbers are all the metadata there is.

    >>> [flink_range(i, 10, 3) for i in range(3)]
    [range(0, 4), range(4, 7), range(7, 10)]
    >>> flink_range(0, 2, 3)
    Traceback (most recent call last):
    ValueError: parallelism: 3, expected 1 to 2, the number of key-groups
    """
    if not 1 <= parallelism <= key_groups:
        raise ValueError(f"parallelism: {parallelism}, expected 1 to {key_groups}, the number of key-groups")
    return range(-(-partition * key_groups // parallelism), -(-(partition + 1) * key_groups // parallelism))


def flink_default_key_groups(parallelism: int) -> int:
    """The maximum parallelism when none is set (`computeDefaultMaxParallelism`): room to grow by half, 128 to 32768.

    >>> [flink_default_key_groups(p) for p in (1, 85, 86, 1000, 30000)]
    [128, 128, 256, 2048, 32768]
    """
    if not 1 <= parallelism <= FLINK_MOST_KEY_GROUPS:
        raise ValueError(f"parallelism: {parallelism}, expected 1 to {FLINK_MOST_KEY_GROUPS}")
    power_of_two = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(power_of_two, FLINK_LEAST_KEY_GROUPS), FLINK_MOST_KEY_GROUPS)
