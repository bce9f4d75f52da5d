"""A plotly figure that outlives a reload of its page: light to make again, and made from what it shows now.

    kernel ── figure.js, state as it is ──► page ── who has plotly? ──► kernel ── bundle, once a page ──► page

Plotly's own widget carries the whole bundle in each figure, and the state with which it was made. A page that is loaded
again took longer over seven of them than anywidget waits (2 s), and drew empty axes.
"""

import sys
from copy import deepcopy
from pathlib import Path
from uuid import uuid4

import traitlets

# plotly imports nbformat, whose JSON validator compiles 38 grammars for checks that nothing here uses: 1.5 s of every kernel
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
import plotly.graph_objects as go
from plotly.basewidget import BaseFigureWidget
from plotly.serializers import custom_serializers

from lab.model.language import say

if sys.modules["rfc3987_syntax"] is None:
    del sys.modules["rfc3987_syntax"]

PROCESS = uuid4().hex
SCRIPT = "".join(Path(__file__).with_name(name).read_text() for name in ("plottext.js", "figure.js"))


class Figure(go.FigureWidget):
    """A live figure; its state is the present one, also for a page that asks later.

    >>> figure = Figure()
    >>> _ = figure.add_scatter(x=[1], y=[2])
    >>> figure.data[0].x = [1, 2, 3]
    >>> figure.get_state()["_widget_data"][0]["x"]
    [1, 2, 3]
    """

    _esm, _css = SCRIPT, Path(__file__).with_name("figure.css")
    _process = traitlets.Unicode(PROCESS).tag(sync=True)
    _words = traitlets.Dict().tag(sync=True)

    @traitlets.default("_words")
    def _spoken(self) -> dict[str, str]:
        """The words of figure.js and plottext.js in the reader's language."""
        return {
            "waiting": say("This picture appears when the cell that is running has ended."),
            "plot": say("Plot"),
            "by": say("{y} by {x}"),
            "shown": say("shown: {names}"),
            "range": say("{name} from {least} to {most}"),
            "marked": say("marked: {texts}"),
            "table": say("Table"),
            "back": say("Plot"),
            "point": say("point"),
            "value": say("value"),
            "more": say("and {count} more rows"),
        }

    def get_state(self, key=None, drop_defaults=False) -> dict:
        """The widget's traits for the page. Plotly sends changes as differences, and leaves the whole as it was made."""
        state = super().get_state(key, drop_defaults)
        if not hasattr(self, "_layout_obj"):
            return state  # it is being made
        now = {"_widget_data": self._data, "_widget_layout": self._layout_obj._props}
        present = {
            name: custom_serializers["to_json"](deepcopy(now[name]), self) for name in now.keys() & state
        }
        return state | present

    def _handle_custom_msg(self, content: dict, buffers: list) -> None:
        """Here and not in `on_msg`: JupyterLab's messages come in a thread of their own, so the first while the figure is made."""
        super()._handle_custom_msg(content, buffers)
        wanted = content.get("wanted")
        if wanted == "plotly":
            self.send({"answer": wanted}, [str(BaseFigureWidget._esm).encode()])
        elif wanted == "state":
            self.send_state(["_widget_data", "_widget_layout"])
            self.send({"answer": wanted})
