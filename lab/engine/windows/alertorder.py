"""The lines of a cut for the alerts' log in log order, where events can be taken back: of the lines about one event the last one counts.

route 1   alert of 7   7 withdrawn                  alert of 7            routes are evaluated one by one,
route 2   alert of 7                 7 withdrawn    alert of 7            and one may give what takes back an alert of the other
          ──────────────────────────────────────────────────► log
"""

from collections.abc import Sequence

import numpy as np

from lab.engine.records.columns import HEARD, PLACE, SOURCE, Columns
from lab.engine.records.keyedlines import JoinedLines, KeyedLines


def log_positions_of_rows(columns: Columns, rows: np.ndarray, control_messages_before: int) -> np.ndarray:
    """The log positions of rows. `control_messages_before`: control messages of the cut before them."""
    heard, source, place = (np.asarray(columns[name])[rows] for name in (HEARD, SOURCE, PLACE))
    return np.column_stack(
        (heard, np.zeros(len(rows), np.int64), np.full(len(rows), control_messages_before), source, place)
    )


def log_positions_of_due_alerts(until_ms: Sequence[int]) -> np.ndarray:
    """The log positions of alerts whose waits end at the given times, ms: after all events logged at that time."""
    return np.array([(time, 1, 0, 0, 0) for time in until_ms], np.int64).reshape(-1, 5)


def sort_by_log_position(lines: KeyedLines, positions: Sequence[np.ndarray]) -> KeyedLines:
    """Sorts keys and lines by their log positions.

    >>> columns = {HEARD: np.array([5, 6]), SOURCE: np.array([0, 0]), PLACE: np.array([0, 1])}
    >>> lines = KeyedLines(["", "", ""], JoinedLines(["6", "5", "until 5"]))
    >>> sort_by_log_position(lines, [log_positions_of_rows(columns, np.array([1, 0]), 0), log_positions_of_due_alerts([5])]).lines.data
    b'5\\nuntil 5\\n6\\n'
    """
    order = np.lexsort(np.concatenate(positions).T[::-1]).tolist()
    texts = list(lines.lines)
    return KeyedLines([lines.keys[n] for n in order], JoinedLines(texts[n] for n in order))
