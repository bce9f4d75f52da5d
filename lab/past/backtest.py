"""Past events for trying rules: uses the engine's compiled windows, or the reference if Numba is not installed."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

COMPILED = find_spec("numba") is not None
if TYPE_CHECKING or COMPILED:
    from lab.past.columnpast import Aggregates, Past
else:
    from lab.past.plainpast import Aggregates, Past

__all__ = ["COMPILED", "Aggregates", "Past"]
