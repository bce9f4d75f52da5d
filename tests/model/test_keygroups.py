"""Key-groups as Flink assigns them. Expected values: printed by Flink 1.20.0's own classes.

A Java program with flink-core and flink-runtime 1.20.0 called `MathUtils.murmurHash` and `KeyGroupRangeAssignment`.
"""

import pytest

from lab.model.keygroups import (
    flink_default_key_groups,
    flink_key_group,
    flink_murmur,
    flink_partition,
    flink_range,
    java_hash,
)

MURMUR = {  # hash code -> MathUtils.murmurHash
    0: 593689054,
    1: 68075478,
    -1: 1982413648,
    2: 1085422463,
    42: 1134849565,
    128: 132521001,
    1001: 2131111877,
    -1001: 1649690053,
    123456789: 1088346449,
    2147483647: 1653689534,
    -2147483648: 1718298732,
    99162322: 1715862179,
    4: 1889779975,
}
KEYS = {  # key -> hashCode, assignToKeyGroup(key, 128), assignKeyToParallelOperator(key, 128, 3)
    "hello": (99162322, 35, 0),
    "": (0, 94, 2),
    "payeeId=25": (-1226854947, 14, 0),
    "\U0001f600": (1772899, 54, 1),
    25: (25, 46, 1),
    -25: (24, 30, 0),
    1 << 40: (256, 54, 1),
    -(1 << 63): (-2147483648, 108, 2),
}
RANGES = {  # maximum parallelism, parallelism -> computeKeyGroupRangeForOperatorIndex of each subtask, ends included
    (10, 3): [(0, 3), (4, 6), (7, 9)],
    (10, 4): [(0, 2), (3, 4), (5, 7), (8, 9)],
    (16, 3): [(0, 5), (6, 10), (11, 15)],
    (16, 5): [(0, 3), (4, 6), (7, 9), (10, 12), (13, 15)],
    (128, 3): [(0, 42), (43, 85), (86, 127)],
    (128, 7): [(0, 18), (19, 36), (37, 54), (55, 73), (74, 91), (92, 109), (110, 127)],
}
DEFAULTS = {1: 128, 84: 128, 85: 128, 86: 256, 127: 256, 128: 256, 170: 256, 171: 256, 200: 512, 1000: 2048}
DEFAULTS |= {21845: 32768, 21846: 32768, 32768: 32768}


def test_hash_codes_are_mixed_as_in_flink():
    assert {code: flink_murmur(code) for code in MURMUR} == MURMUR


@pytest.mark.parametrize("key", KEYS)
def test_a_key_goes_where_flink_sends_it(key):
    group = flink_key_group(key, 128)
    assert (java_hash(key), group, flink_partition(group, 128, 3)) == KEYS[key]


@pytest.mark.parametrize("key_groups, parallelism", RANGES)
def test_ranges_are_those_of_flink_and_each_key_group_lies_in_its_own(key_groups, parallelism):
    ranges = [flink_range(i, key_groups, parallelism) for i in range(parallelism)]
    assert [(r[0], r[-1]) for r in ranges] == RANGES[key_groups, parallelism]
    assert [i for i, r in enumerate(ranges) for _ in r] == [
        flink_partition(g, key_groups, parallelism) for g in range(key_groups)
    ]


def test_the_default_maximum_parallelism_is_that_of_flink():
    assert {p: flink_default_key_groups(p) for p in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("parallelism", [0, 32769])
def test_a_parallelism_out_of_bounds_is_refused(parallelism):
    with pytest.raises(ValueError, match=f"parallelism: {parallelism}, expected 1 to 32768"):
        flink_default_key_groups(parallelism)
