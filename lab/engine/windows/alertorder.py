"""The lines of a cut for the alerts' log in log order, where events can be taken back: of the lines about one event the last one counts.

route 1   alert of 7   7 withdrawn                  alert of 7            routes are evaluated one by one,
route 2   alert of 7                 7 withdrawn    alert of 7            and one may give what takes back an alert of the other
          ──────────────────────────────────────────────────► log
"""

from collections.abc import Sequence

import numpy as np

from lab.engine.records.columns import HEARD, PLACE, SOURCE, Columns
from lab.engine.records.keyedlines import JoinedLines, KeyedLines


def row_places(columns: Columns, rows: np.ndarray, after: int) -> np.ndarray:
    """Where in the log the given rows stand. `after`: control messages of the cut before them."""
    heard, source, place = (np.asarray(columns[name])[rows] for name in (HEARD, SOURCE, PLACE))
    return np.column_stack((heard, np.zeros(len(rows), np.int64), np.full(len(rows), after), source, place))


def due_places(until: Sequence[int]) -> np.ndarray:
    """Where that stands which was awaited until the given times, ms: behind all events that were logged then."""
    return np.array([(time, 1, 0, 0, 0) for time in until], np.int64).reshape(-1, 5)


def by_place(lines: KeyedLines, places: Sequence[np.ndarray]) -> KeyedLines:
    """Keys and lines by their places.

    >>> columns = {HEARD: np.array([5, 6]), SOURCE: np.array([0, 0]), PLACE: np.array([0, 1])}
    >>> lines = KeyedLines(["", "", ""], JoinedLines(["6", "5", "until 5"]))
    >>> by_place(lines, [row_places(columns, np.array([1, 0]), 0), due_places([5])]).lines.data
    b'5\\nuntil 5\\n6\\n'
    """
    order = np.lexsort(np.concatenate(places).T[::-1]).tolist()
    texts = list(lines.lines)
    return KeyedLines([lines.keys[n] for n in order], JoinedLines(texts[n] for n in order))
