"""Which alerts of a log stand: those whose event was not taken back after it was logged."""

from hashlib import blake2b

from lab.model.alerts import Alert, Withdrawal
from lab.model.group import sorted_group
from lab.model.jsontext import compact_json

AT_MOST = 100_000  # events that were taken back


def event_and_group_hash(line: Alert | Withdrawal) -> bytes:
    """Tells the event of a line and its group from all others, in 16 bytes however long they are.

    The order of the group's fields does not matter: a rule may have named them in another order when it alerted.
    """
    at = compact_json((line.event_id, line.event_time, sorted_group(line.group)))
    return blake2b(at.encode(), digest_size=16).digest()


class Withdrawals:
    """The events that were taken back, as far as the lines of an alerts log that were read tell: the newest `at_most`.

    >>> from decimal import Decimal
    >>> withdrawn = Withdrawal("{payeeId=25}", (("payeeId", 25),), 7, 1356998400000, log_time=20)
    >>> first, again = (Alert(1, 1, withdrawn.key, Decimal(51), "GREATER", Decimal(50), 7, withdrawn.event_time, at, group=withdrawn.group) for at in (10, 30))
    >>> withdrawals = Withdrawals()
    >>> [withdrawals.add_and_check_stands(line) for line in (first, withdrawn, first, again)]
    [True, True, False, True]
    """

    def __init__(self, at_most: int = AT_MOST):
        # the hash of an event and its group -> the log time of the newest such record
        self._taken_back: dict[bytes, int] = {}
        self._at_most = at_most

    def add_and_check_stands(self, line: Alert | Withdrawal) -> bool:
        """Takes in a line. False for an alert that an earlier line withdrew: its event was logged before it was taken back.

        So if an attempt that was presumed dead delivers an alert after its successor has delivered the withdrawal, the alert stays
        withdrawn. If an event and the record that takes it back were logged in the same millisecond, or if the log is not live,
        the order of the lines decides.
        """
        at = event_and_group_hash(line)
        if isinstance(line, Alert):
            return line.log_time is None or line.log_time >= self._taken_back.get(at, 0)
        if line.log_time is not None:
            self._taken_back[at] = max(line.log_time, self._taken_back.pop(at, 0))
            if len(self._taken_back) > self._at_most:
                del self._taken_back[next(iter(self._taken_back))]
        return True
