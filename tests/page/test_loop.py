"""What the page calls of the loop, compiled for this machine: the same functions that become WebAssembly."""

import hashlib

import numpy as np
import pytest

from lab.model.keygroups import key_groups_of
from lab.page import loop
from lab.page.layout import page_layout
from lab.page.wasm import with_exports


def frame(**arrays: np.ndarray) -> np.ndarray:
    """A frame that names some arrays by their places in it."""
    made = np.zeros(loop.FRAME, np.int64)
    made[loop.SELF : loop.SELF + 2] = made.ctypes.data, len(made)
    for name, array in arrays.items():
        place = getattr(loop, name)
        made[place : place + 1 + array.ndim] = array.ctypes.data, *array.shape
    return made


@pytest.mark.parametrize("size", [0, 3, 127, 128, 129, 1000])
def test_texts_have_the_digests_of_hashlib(size):
    text = bytes(number % 251 for number in range(size))
    room = np.frombuffer(text.ljust(max(-(-size // 128) * 128, 128), b"\0"), np.uint8).copy()
    word = np.zeros(40, np.uint64)
    given = frame(TEXT=room, DIGEST=word)
    given[[loop.START_ROW, loop.DONE]] = size, 16
    loop.blake2b(given.ctypes.data)
    assert word.tobytes()[:16] == hashlib.blake2b(text, digest_size=16).digest()


def test_keys_have_the_key_groups_of_the_engine():
    columns = [np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 500) for _ in range(3)]
    keys, found = np.ascontiguousarray(np.stack(columns, 1)), np.zeros(500, np.int64)
    given = frame(KEYS=keys, KEY_GROUPS=found)
    given[loop.DONE] = 16
    loop.compute_key_groups(given.ctypes.data)
    assert found.tolist() == key_groups_of(columns, 500, 16).tolist()


def test_places_of_the_frame_do_not_overlap():
    frame = page_layout()["frame"]
    blocks = (
        "STORE",
        "OTHER",
        "RULES",
        "BATCH",
        "LINES",
        "WAITS",
        "OTHER_WAITS",
        "WAIT_ROWS",
        "DUE",
        "FATE",
        "ALERTS",
        "KEYS",
        "KEY_GROUPS",
        "TEXT",
        "DIGEST",
        "SELF",
        "FIRST_SEQ",
    )
    places = [frame[name] for name in blocks]
    assert places == sorted(set(places)) and frame["FIRED"] < frame["FRAME"]


def test_an_object_gets_exports_by_name():
    """A module with one function of no arguments, and a table of symbols that calls it `f`."""
    magic, types, functions = b"\0asm\1\0\0\0", b"\1\4\1\x60\0\0", b"\3\2\1\0"
    code = b"\x0a\4\1\2\0\x0b"
    linking = b"\7linking\2\x08\6\1\0\0\0\1f"
    whole = magic + types + functions + code + bytes([0, len(linking)]) + linking
    assert with_exports(whole, {"go": "f"}) == magic + types + functions + b"\7\6\1\2go\0\0" + code
