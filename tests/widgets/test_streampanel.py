"""What the stream panel shows of events that routes lost."""

from lab.model.tallies import RouteTallies, make_duplicate_example
from lab.widgets.streampanel import route_losses_html


def test_what_each_route_lost_is_a_table_and_much_of_it_a_warning():
    routes = RouteTallies()
    routes.add("payeeId", 1, 1, {"evaluated": 1000, "droppedLate": 1})
    assert "<td>1,000</td>" not in route_losses_html(routes) and "lost" not in route_losses_html(routes)
    assert '<td style="text-align:left">payeeId</td>' in route_losses_html(routes)
    example = make_duplicate_example("<b>", 0, "{ip=<i>}", {}, {})
    routes.add("ip|country=<script>", 2, 1, {"evaluated": 1, "duplicates": 9}, example)
    shown = route_losses_html(routes)
    assert shown.index("ip|country") < shown.index("payeeId")
    assert "rule 2 (route ip|country=&lt;script&gt;) lost 90.0 % of 10 events" in shown
    assert "<script" not in shown and "<b>" not in shown and "<i>" not in shown


def test_where_nothing_is_lost_nothing_is_shown():
    routes = RouteTallies()
    routes.add("payeeId", 1, 1, {"evaluated": 1000, "storedLate": 5})
    assert route_losses_html(routes) == route_losses_html(RouteTallies()) == ""
