"""Which alerts stand, at the borders of log time."""

from decimal import Decimal

import pytest

from lab.model.alerts import Alert, Withdrawal, Withdrawals

T0 = 1_356_998_400_000
GROUP = (("payeeId", 25),)
KEY = "{payeeId=25}"


def alert(log_time: int | None, event_id: int = 7) -> Alert:
    condition = Decimal(51), "GREATER", Decimal(50)
    return Alert(1, 1, KEY, *condition, event_id, T0, log_time, group=GROUP)


def withdrawal(log_time: int | None, event_id: int = 7) -> Withdrawal:
    return Withdrawal(KEY, GROUP, event_id, T0, log_time=log_time)


@pytest.mark.parametrize(("alerted_at", "stands"), [(19, False), (20, True), (21, True)])
def test_an_alert_after_a_withdrawal_of_its_own_millisecond_stands(alerted_at, stands):
    """The order of the lines decides then: the event was taken back and came again at once."""
    withdrawals = Withdrawals()
    assert withdrawals.add_and_check_stands(withdrawal(20))
    assert withdrawals.add_and_check_stands(alert(alerted_at)) is stands


def test_of_two_withdrawals_the_newest_counts_in_whatever_order_they_are_read():
    for times in ((20, 30), (30, 20)):
        withdrawals = Withdrawals()
        for log_time in times:
            withdrawals.add_and_check_stands(withdrawal(log_time))
        assert [withdrawals.add_and_check_stands(alert(at)) for at in (29, 30)] == [False, True]


def test_a_withdrawal_is_about_its_own_event_and_on_a_log_that_is_not_live_about_none():
    withdrawals = Withdrawals()
    withdrawals.add_and_check_stands(withdrawal(20))
    withdrawals.add_and_check_stands(withdrawal(None, event_id=8))
    assert withdrawals.add_and_check_stands(alert(10, event_id=9))
    assert withdrawals.add_and_check_stands(alert(10, event_id=8))
    assert withdrawals.add_and_check_stands(alert(None))


def test_of_more_withdrawals_than_it_remembers_the_oldest_read_are_forgotten():
    withdrawals = Withdrawals(at_most=2)
    for event_id in (1, 2, 1, 3):
        withdrawals.add_and_check_stands(withdrawal(20, event_id))
    assert [withdrawals.add_and_check_stands(alert(10, n)) for n in (1, 2, 3)] == [False, True, False]
