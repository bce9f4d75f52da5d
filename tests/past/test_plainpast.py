"""A page's backtest looks at as many events as it can go through in some seconds, and says how many."""

from lab.model.rules import parse_message
from lab.model.schema import PAYMENTS
from lab.past import plainpast
from lab.past.plainpast import Past


def test_a_rule_with_large_windows_is_tried_on_the_newest_events_only(monkeypatch):
    monkeypatch.setattr(plainpast, "MOST_STEPS", 55)
    past = Past(PAYMENTS)
    past.add(f"{n},2013-01-01 00:{n:02}:00,25,{n},CSH,1".encode() for n in range(20))
    narrow = parse_message("1,(active),(beneficiaryId),,(paymentAmount),(SUM),(>),(0),(60)", PAYMENTS).rule
    wide = parse_message("2,(active),(payeeId),,(paymentAmount),(SUM),(>),(0),(60)", PAYMENTS).rule
    assert past.evaluated_count_and_time_range_ms(narrow)[0] == len(past.aggregates(narrow).ids) == 20
    events, first, last = past.evaluated_count_and_time_range_ms(wide)
    # all windows together have 210 events
    assert events == 20 - int(20 * (1 - 55 / 210)) == 6 and last - first == 5 * 60_000
    assert past.aggregates(wide).ids == list(range(14, 20))
