"""A widget for a projector: large on the whole screen, without code around it."""

from pathlib import Path

import anywidget
import ipywidgets as widgets
import traitlets

from lab.model.language import say
from lab.widgets.look import CSS, StylesAndAccessibility


class WholeScreenButton(anywidget.AnyWidget):
    """Shows its projector on the whole screen, and the notebook again; Escape does the second, too."""

    _esm, _css = Path(__file__).with_name("projector.js"), CSS
    large, back = traitlets.Unicode().tag(sync=True), traitlets.Unicode().tag(sync=True)


class Projector(widgets.VBox):
    """A widget with a button that shows it alone, half as large again, for a class.

    >>> room = widgets.HTML("a room")
    >>> Projector(room).children[1] is room
    True
    """

    def __init__(self, widget: widgets.Widget):
        self.button = WholeScreenButton(large=say("On the whole screen"), back=say("Back to the notebook"))
        super().__init__([self.button, widget, StylesAndAccessibility()])
        self.add_class("lab-projector")
