"""Buttons that stay down, for what is chosen in an order, such as the fields that group events."""

from collections.abc import Sequence

import ipywidgets as widgets
import traitlets


class OrderedToggles(widgets.HBox):
    """Buttons that stay down, in the order in which they were pressed: `value`.

    >>> picks = OrderedToggles("grouped by", "group by this field", ["payeeId", "beneficiaryId"])
    >>> picks.buttons["beneficiaryId"].value = picks.buttons["payeeId"].value = True
    >>> picks.value
    ('beneficiaryId', 'payeeId')
    """

    value = traitlets.Tuple()

    def __init__(self, label: str, tooltip: str, names: Sequence[str], rare: Sequence[str] = ()):
        self._rare = rare  # shown only where they are pressed
        self.buttons = {name: widgets.ToggleButton(description=name, tooltip=tooltip) for name in names}
        for name, button in self.buttons.items():
            button.observe(lambda change, name=name: self._pressed(name, change["new"]), "value")
        self._show_rare()
        row = widgets.HBox(list(self.buttons.values()))
        super().__init__([widgets.Label(label), row])
        self.add_class("lab-picks")

    def _pressed(self, name: str, down: bool) -> None:
        if down != (name in self.value):
            others = tuple(other for other in self.value if other != name)
            self.value = (*others, name) if down else others

    @traitlets.observe("value")
    def _set(self, change: dict) -> None:
        for name, button in self.buttons.items():
            button.value = name in self.value
        self._show_rare()

    def _show_rare(self) -> None:
        for name in self._rare:
            self.buttons[name].layout.display = "" if name in self.value else "none"
