"""Which alerts of a log stand: those whose event was not taken back after it was logged."""

from lab.model.alerts import Alert, Withdrawn

AT_MOST = 100_000  # events that were taken back


class Withdrawals:
    """The events that were taken back, as far as the lines of an alerts log that were read tell: the newest `at_most`.

    >>> from decimal import Decimal
    >>> told = Withdrawn("{payeeId=25}", (("payeeId", 25),), 7, 1356998400000, log_time=20)
    >>> first, again = (Alert(1, 1, told.key, Decimal(51), "GREATER", Decimal(50), 7, told.event_time, at, group=told.group) for at in (10, 30))
    >>> lines = Withdrawals()
    >>> [lines.take(line) for line in (first, told, first, again)]
    [True, True, False, True]
    """

    def __init__(self, at_most: int = AT_MOST):
        self._taken_back: dict[
            tuple, int
        ] = {}  # the event and its group -> the log time of the newest such record
        self._at_most = at_most

    def take(self, told: Alert | Withdrawn) -> bool:
        """Takes in a line. False for an alert that was withdrawn by a line before: its event was logged before that was taken back.

        So an attempt that was taken for dead, and delivers an alert after its successor delivered what withdraws it, changes
        nothing. Where an event and what takes it back were logged in the same millisecond, or the log is not live, the
        order of the lines decides.
        """
        at = told.event_id, told.event_time, told.group
        if isinstance(told, Alert):
            return told.log_time is None or told.log_time >= self._taken_back.get(at, 0)
        if told.log_time is not None:
            self._taken_back[at] = max(told.log_time, self._taken_back.pop(at, 0))
            if len(self._taken_back) > self._at_most:
                del self._taken_back[next(iter(self._taken_back))]
        return True
