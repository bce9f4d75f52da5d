"""A slider over texts: what the page shows is what counts."""

from lab.widgets.slider import TextSlider


def slider_with(**values):
    moved = []
    slider = TextSlider("limit", moved.append)
    slider.offer(values, 0)
    return slider, moved


def test_the_text_that_is_shown_counts_also_if_others_are_offered_meanwhile():
    slider, moved = slider_with(a=1, b=2, c=3)
    slider.offer({"c": 3, "d": 4, "e": 5}, 0)
    slider._heard(slider, {"text": "b", "move": "view 7"}, [])
    assert moved == [2] and slider.text == "b" and slider.answered == "view 7"
    slider._heard(slider, {"text": "d", "move": "view 8"}, [])
    assert moved == [2, 4] and (slider.position, slider.text) == (1, "d")


def test_a_text_that_was_never_offered_is_left_alone_and_the_page_is_told():
    slider, moved = slider_with(a=1, b=2)
    for text in ("z", "a", "", None, ["a"]):
        slider._heard(slider, {"text": text, "move": f"view {text}"}, [])
    assert moved == [] and slider.text == "a" and slider.answered == "view ['a']"
    slider.disabled = True
    slider.move("b")
    assert moved == []


def test_a_rule_keeps_a_limit_of_its_own_until_the_slider_is_moved():
    slider, moved = slider_with(a=1, b=2)
    slider.offer({"a": 1, "b": 2}, 1, "b and a half")
    assert slider.text == "b and a half" and moved == []
    slider.move("b")
    assert moved == [2] and slider.text == "b"
