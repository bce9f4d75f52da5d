"""Stands in for NumPy and Numba in Pyodide, which has neither, as far as a route's rules become numbers; imported before they are.

What Numba compiles elsewhere stays as it is: in the page it is WebAssembly, and nobody calls it here.
"""

import sys
from importlib.util import find_spec
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any


class Array(list):
    """Whole numbers, row after row; its shape is for its reader to know."""

    def reshape(self, *_: int) -> "Array":
        return self

    view = reshape

    def ravel(self) -> "Array":
        return self

    def tobytes(self) -> bytes:
        return b"".join((number % 2**64).to_bytes(8, "little") for number in self)


def array(values: Any, _: object) -> Array:
    flat = Array()
    for value in values:
        flat += array(value, _) if isinstance(value, list | tuple) else [value]
    return flat


def zeros(shape: Any, names: Any) -> Array:
    """So many numbers, or so many rows of numbers that have these names."""
    if isinstance(names, tuple):
        return Array(SimpleNamespace(**dict.fromkeys(names, 0)) for _ in range(shape))
    return Array([0] * (prod(shape) if isinstance(shape, tuple) else shape))


def dtype(fields: Any, align: bool = True) -> tuple[str, ...]:
    """The names of the fields: pairs with types, or what they are to be and such pairs."""
    return tuple(name for name, _ in (fields[1] if isinstance(fields, tuple) else fields))


def njit(**_: object) -> Any:
    return lambda function: function


if not find_spec("numpy"):
    of_numpy = {
        "array": array,
        "frombuffer": lambda data, _: memoryview(data),
        "zeros": zeros,
        "dtype": dtype,
        "ndarray": Array,
        "recarray": Array,
        "record": object,
        **dict.fromkeys(("uint8", "int64", "uint64"), int),
    }
    of_numba = {"njit": njit, "config": SimpleNamespace(DISABLE_JIT=True)}
    for name, members in (("numpy", of_numpy), ("numba", of_numba)):
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(members)
