"""Past events to try rules on: in columns, by the engine's compiled windows, or where Numba is absent by the reference."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

COMPILED = find_spec("numba") is not None
if TYPE_CHECKING or COMPILED:
    from lab.apps.columnpast import Aggregates, Past
else:
    from lab.apps.plainpast import Aggregates, Past

__all__ = ["COMPILED", "Aggregates", "Past"]
