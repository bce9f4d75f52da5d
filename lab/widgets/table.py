"""A table of which a row can be chosen, and a file for the browser to save."""

from collections.abc import Sequence
from pathlib import Path

import anywidget
import traitlets

from lab.model.language import say
from lab.widgets.look import CSS


class SelectableTable(anywidget.AnyWidget):
    """Rows of texts, each behind its key: `rows = [(key, cell, cell, …), …]`; `selected` is the key of the row chosen.

    `numeric` and `wide`: numbers of the columns that hold numbers (aligned right), or texts that get what width is left.
    `steady`: rows that come are not shown while somebody points at the table, so that a click meets what was meant.

    >>> table = SelectableTable(("rule", "alerts"), "Rules", numeric=(1,))
    >>> table.rows = [["1", "sum over 50", "17"]]
    >>> table.rows[0][0]
    '1'
    """

    _esm, _css = Path(__file__).with_name("table.js"), CSS
    columns = traitlets.List().tag(sync=True)
    rows = traitlets.List().tag(sync=True)
    numeric = traitlets.List().tag(sync=True)
    wide = traitlets.List().tag(sync=True)
    selected = traitlets.Unicode("").tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    empty = traitlets.Unicode().tag(sync=True)
    waits = traitlets.Unicode().tag(sync=True)  # what a steady table says while it waits
    steady = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        columns: Sequence[str],
        label: str,
        numeric: Sequence[int] = (),
        wide: Sequence[int] = (),
        empty: str = "",
        steady: bool = False,
    ):
        super().__init__(columns=list(columns), label=label, empty=empty or say("nothing yet"), steady=steady)
        self.waits = say("updates pause while you are here")
        self.numeric, self.wide = list(numeric), list(wide)

    def download(self, name: str, text: str) -> None:
        """Has the browser save a text as a file."""
        self.send({"name": name, "text": text})
