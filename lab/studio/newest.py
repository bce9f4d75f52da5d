"""The newest items of a list without end."""

from collections import deque
from collections.abc import Iterable
from typing import Any


class NewestItems(deque):
    """The newest items of an endless list, for several readers that each know how far they have read.

    >>> newest = NewestItems(maxlen=2)
    >>> newest.extend("abc")
    >>> newest.total, newest.since(0), newest.since(2)
    (3, ['b', 'c'], ['c'])
    """

    total = 0

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)
            self.total += 1

    def since(self, position: int) -> list:
        """The items after the first `position`, as far as they are kept."""
        new = min(self.total - position, len(self))
        return [self[i] for i in range(len(self) - new, len(self))]
