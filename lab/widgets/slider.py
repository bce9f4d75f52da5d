"""A slider over a list of texts, with the one chosen beside it."""

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

from lab.widgets.look import CSS


class TextSlider(anywidget.AnyWidget):
    """A slider over texts. Calls `on_move(position)` only when a person moves it, not when `position` or `texts` are set.

    The sliders of ipywidgets, in contrast, adapt their value to a new range and write it back, which nobody asked for.

    >>> slider = TextSlider("window", print)
    >>> slider.texts, slider.position, slider.disabled = ["1 s", "1 min", "1 h"], 2, False
    >>> slider.move(1)
    1
    >>> slider.text
    '1 min'
    """

    _esm, _css = Path(__file__).with_name("slider.js"), CSS
    label = traitlets.Unicode().tag(sync=True)
    texts = traitlets.List().tag(sync=True)
    position = traitlets.Int(0).tag(sync=True)
    text = traitlets.Unicode("").tag(sync=True)
    disabled = traitlets.Bool(True).tag(sync=True)

    def __init__(self, label: str, on_move: Callable[[int], object]):
        super().__init__(label=label)
        self._on_move = on_move
        self.on_msg(lambda _, message, buffers: self.move(message["position"]))

    def move(self, position: int) -> None:
        """What a person does. A position that the slider no longer has is left alone."""
        if not self.disabled and position != self.position and position in range(len(self.texts)):
            with self.hold_sync():  # as one: the page says each text that it shows
                self.position, self.text = position, self.texts[position]
            self._on_move(position)
