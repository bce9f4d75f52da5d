"""The side panel: shows the selected item of a room until it is closed, by its button or with Escape."""

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

import anywidget
import ipywidgets as widgets
import traitlets

from lab.model.language import say
from lab.widgets.look import CSS, StylesAndAccessibility, button, styled


class EscapeKeyListener(anywidget.AnyWidget):
    """Escape anywhere in the room closes the panel; what was in focus before gets the focus back."""

    _esm, _css = Path(__file__).with_name("side.js"), CSS
    shown = traitlets.Bool(False).tag(sync=True)


class DetailPanel(widgets.VBox):
    """Shows one of `details`, under a title; `on_close(name)` is called when the detail that was shown closes.

    >>> side = DetailPanel({"Rules": widgets.VBox(), "Alerts": widgets.VBox()}, print)
    >>> side.show("Rules", "Rule 3")
    >>> side.show("Alerts", "An alert")
    Rules
    >>> side.shown, side.details["Rules"].layout.display
    ('Alerts', 'none')
    >>> side.close_button.click()
    Alerts
    >>> side.shown, side.layout.display
    ('', 'none')
    """

    def __init__(self, details: Mapping[str, widgets.Box], on_close: Callable[[str], None]):
        self.details, self._on_close, self.shown = details, on_close, ""
        self.title, self.escape = widgets.HTML(), EscapeKeyListener()
        self.close_button = styled(button("", "times", self.hide, tooltip=say("close (Escape)")), "lab-close")
        self.escape.observe(lambda change: None if change["new"] else self.hide(), "shown")
        head = styled(widgets.HBox([self.title, self.close_button]), "lab-side-head")
        super().__init__(
            [self.escape, head, *details.values(), StylesAndAccessibility()], layout={"display": "none"}
        )
        self.add_class("lab-side")
        for detail in details.values():
            detail.layout.display = "none"

    def show(self, name: str, title: str) -> None:
        """Opens it with one of the details, or only changes the title if that is shown."""
        if self.shown != name:
            self._leave()
            self.shown = name
            self.details[name].layout.display = ""
        self.title.value = f"<h3>{escape(title)}</h3>"
        self.layout.display, self.escape.shown = "", True

    def hide(self) -> None:
        """Closes it."""
        self._leave()
        self.layout.display, self.escape.shown = "none", False

    def _leave(self) -> None:
        before, self.shown = self.shown, ""
        if before:
            self.details[before].layout.display = "none"
            self._on_close(before)
