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


def array(values: Any, _: object) -> Array:
    flat = Array()
    for value in values:
        flat += array(value, _) if isinstance(value, list | tuple) else [value]
    return flat


def zeros(shape: Any, names: Any) -> Array:
    """So many numbers, or so many rows of numbers that have these names."""
    if isinstance(names, tuple):
        return Array(SimpleNamespace(**dict.fromkeys(names, 0)) for _ in range(shape))
    return Array([0] * prod(shape))


def dtype(fields: list[tuple[str, type]], align: bool) -> tuple[str, ...]:
    return tuple(name for name, _ in fields)


def njit(**_: object) -> Any:
    return lambda function: function


if not find_spec("numpy"):
    of_numpy = {
        "array": array,
        "zeros": zeros,
        "dtype": dtype,
        "ndarray": Array,
        "recarray": Array,
        "int64": int,
    }
    of_numba = {"njit": njit, "config": SimpleNamespace(DISABLE_JIT=True)}
    for name, members in (("numpy", of_numpy), ("numba", of_numba)):
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(members)
