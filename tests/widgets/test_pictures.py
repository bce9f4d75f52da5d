"""The pictures of the lessons, as they are drawn."""

from ipywidgets import FloatSlider

from lab.widgets import pictures


def test_series_differ_in_more_than_colour():
    series = {"a": [1, 2], "b": [2, 3], "c": [3, 4]}
    drawn = pictures.lines(series, at=[1, 2], dots=True)
    assert len({(trace.line.dash, trace.marker.symbol) for trace in drawn.data}) == 3
    assert len({trace.marker.pattern.shape for trace in pictures.bars(series).data}) == 3
    assert len({trace.marker.pattern.shape for trace in pictures.histogram(series).data}) == 3


def test_numbers_and_marks_are_written_on_bars():
    drawn = pictures.bars({"": [1_000, 5]}, at=["a", "b"], texts=True, log="y")
    assert drawn.data[0].text == ("1,000", "5") and drawn.layout.yaxis.type == "log"
    marked = pictures.bars({"": [1, 2]}, at=[0.5, 1.0], marks={0.7: "pause"})
    assert [note.text for note in marked.layout.annotations] == ["pause"]


def test_a_logarithmic_axis_writes_its_numbers_out():
    ticks = pictures.lines({"": [3, 70_000]}, log="y").layout.yaxis
    named = dict(zip(ticks.tickvals, ticks.ticktext))
    assert (named[2], named[500], named[20_000], named[0.05]) == ("2", "500", "20,000", "0.05")
    assert pictures.bars({"": [3, 70_000]}, log="y").layout.yaxis.ticktext[3:6] == ("1", "10", "100")


def test_a_limit_is_not_taken_for_a_series():
    drawn = pictures.lines({"exact": [1, 2], "buckets": [1, 3]}, level=(2, "limit"))
    assert drawn.layout.shapes[0].line.dash not in {trace.line.dash for trace in drawn.data[1:]}


def test_a_slider_moves_bars_and_title():
    slider = FloatSlider(1, min=0, max=9)
    _, drawn, _ = pictures.bars_with_slider(
        slider, lambda value: (f"at {value:g}", [value, 2 * value])
    ).children
    slider.value = 3
    assert drawn.layout.title.text == "at 3" and drawn.data[0].y == (3, 6)


def test_the_first_name_is_on_top():
    drawn = pictures.horizontal_bars({"wait": 5, "plan": 2}, x="ms")
    assert drawn.data[0].y == ("wait", "plan") and drawn.layout.yaxis.autorange == "reversed"


def test_each_series_has_its_box():
    assert [trace.name for trace in pictures.boxes({"a": [1, 2], "b": [3]}).data] == ["a", "b"]


def test_a_pair_shares_its_colour_and_differs_in_its_line():
    drawn = pictures.line_pairs({"a": ([1, 2], [2, 1]), "b": ([1, 1], [2, 2])}, at=[1, 2])
    assert [(trace.name, trace.line.dash) for trace in drawn.data] == [
        *(("a", "solid"), ("a", "dot"), ("b", "solid"), ("b", "dot"))
    ]
    assert drawn.data[0].line.color == drawn.data[1].line.color != drawn.data[2].line.color


def test_a_slider_does_not_rescale_the_axis():
    slider = FloatSlider(1, min=0, max=9)
    _, drawn, _ = pictures.bars_with_slider(slider, lambda value: ("", [value, 2 * value])).children
    before = tuple(drawn.layout.yaxis.range)
    slider.value = 9
    assert tuple(drawn.layout.yaxis.range) == before and before[1] >= 18


def test_bars_that_never_stand_side_by_side_have_the_whole_width():
    drawn = pictures.bars({"Spark": [5, None], "alone": [None, 7]}, at=["a", "b"], texts=True)
    assert drawn.layout.barmode == "overlay" and drawn.data[0].text == ("5", "")
    assert pictures.bars({"a": [1, 2], "b": [2, 3]}).layout.barmode == "group"


def test_lanes_stand_in_their_order_with_a_symbol_for_each_kind_and_a_ring_for_alerts():
    drawn = pictures.lanes({"a": [(1, "login"), (2, "pay")], "b": [(3, "pay")]}, {"b": [3, 4]})
    assert [trace.name for trace in drawn.data] == ["login", "pay", "alert"]
    assert len({trace.marker.symbol for trace in drawn.data}) == 3
    assert drawn.data[-1].x == (3, 4) and drawn.layout.yaxis.categoryarray == ("b", "a")
