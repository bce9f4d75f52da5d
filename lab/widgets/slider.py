"""A slider over a list of texts, with the one chosen beside it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from lab.widgets.look import CSS


class TextSlider(anywidget.AnyWidget):
    """A slider over texts. Calls `on_move(value)` only when a person moves it, not when `position` or `offer` sets it.

    The sliders of ipywidgets, in contrast, adapt their value to a new range and write it back, which nobody asked for.
    The page sends the text that it shows, so that this is what counts, also if other texts are offered meanwhile.

    >>> slider = TextSlider("window", print)
    >>> slider.offer({"1 s": 1, "1 min": 60, "1 h": 3600}, position=2)
    >>> slider.move("1 min")
    60
    >>> slider.position, slider.text
    (1, '1 min')
    """

    _esm, _css = Path(__file__).with_name("slider.js"), CSS
    label = traitlets.Unicode().tag(sync=True)
    texts = traitlets.List().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(True).tag(sync=True)
    answered = traitlets.Unicode("").tag(sync=True)  # the newest move of a page that was taken in

    def __init__(self, label: str, on_move: Callable[[Any], object]):
        super().__init__(label=label)
        self._on_move = on_move
        self._values: Mapping[str, Any] = {}
        self._values_before: Mapping[str, Any] = {}  # a page may not know yet that others are offered
        self.on_msg(self._heard)

    def offer(self, values: Mapping[str, Any], position: int, text: str = "") -> None:
        """Offers texts with what they stand for, in order, and stands at one of them; `text`: shown there instead of it."""
        texts = list(values)
        with self.hold_sync():  # as one: the page says each text that it shows
            if texts != self.texts:
                self._values_before, self._values, self.texts = self._values, dict(values), texts
            self.position, self.text, self.disabled = position, text or texts[position], False

    def move(self, text: str) -> None:
        """What a person does. A text that was not offered is left alone."""
        known = {**self._values_before, **self._values}
        if not self.disabled and text != self.text and text in known:
            with self.hold_sync():
                self.text = text
                self.position = self.texts.index(text) if text in self._values else self.position
            self._on_move(known[text])

    def _heard(self, _: Any, message: Mapping[str, Any], __: Any) -> None:
        self.move(str(message["text"]))
        self.answered = message["move"]
