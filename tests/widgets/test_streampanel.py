"""What the stream panel shows of events that routes lost."""

import re
from types import SimpleNamespace

import pytest

from lab.model.routestats import RouteTallies, make_duplicate_example
from lab.studio.studio import Studio
from lab.widgets import streampanel
from lab.widgets.streampanel import StreamPanel, route_losses_html


def test_a_micro_batch_that_takes_long_is_shown_with_the_rate_at_which_it_was_evaluated(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    with Studio(rate=1) as studio:
        studio.player.stop()
        monkeypatch.setattr(streampanel, "time", SimpleNamespace(monotonic=lambda: clock.now))
        panel, rates = StreamPanel(studio), []
        for beat in range(25):
            clock.now += 0.5
            studio.report._spans_ms = []
            if beat == 20:  # one of ten seconds has ended
                studio.report.total["records"] += 100_000
                studio.report._spans_ms = [(0, 10_000)]
            panel.update(studio)
            rates.append(
                int(re.search(r"<b>([\d,]+)</b> <span>evaluated/s", panel.facts.value)[1].replace(",", ""))
            )
        assert max(rates) == pytest.approx(10_000, rel=0.01) == rates[20]
        assert max(panel.rates.data[0].y) == pytest.approx(10_000, rel=0.01)


def test_what_each_route_lost_is_a_table_and_much_of_it_a_warning():
    routes = RouteTallies()
    routes.add("payeeId", 1, 1, {"evaluated": 1000, "droppedLate": 1})
    assert "<td>1,000</td>" not in route_losses_html(routes) and "lost" not in route_losses_html(routes)
    assert '<td style="text-align:left">payeeId</td>' in route_losses_html(routes)
    example = make_duplicate_example("<b>", 0, "{ip=<i>}", {}, {})
    routes.add("ip|country=<script>", 2, 1, {"evaluated": 1, "duplicates": 9}, example)
    shown = route_losses_html(routes)
    assert shown.index("ip|country") < shown.index("payeeId")
    assert "rule 2 (route ip|country=&lt;script&gt;) did not count 90.0 % of 10 events" in shown
    assert "<script" not in shown and "<b>" not in shown and "<i>" not in shown


def test_where_nothing_is_lost_nothing_is_shown():
    routes = RouteTallies()
    routes.add("payeeId", 1, 1, {"evaluated": 1000, "storedLate": 5})
    assert route_losses_html(routes) == route_losses_html(RouteTallies()) == ""
