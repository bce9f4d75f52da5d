"""What the parts of a room have in common: tools, a body, and a detail that may stand beside instead of below."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from lab.widgets.look import StylesAndAccessibility, styled


class Panel(widgets.VBox):
    """A widget that stands alone, `tools` in a row over the `body`, and `detail` beside them where there is room.

    A room takes these apart, and has `opens(title)` called when something is chosen whose detail is to be seen.

    >>> part = Panel([widgets.Button()], [widgets.HTML()], widgets.VBox())
    >>> part.opens("Rule 3")
    """

    def __init__(
        self,
        tools: Sequence[widgets.Widget],
        body: Sequence[widgets.Widget],
        detail: widgets.Box | None = None,
    ):
        self.tools, self.body, self.detail = tuple(tools), (*body, StylesAndAccessibility()), detail
        self.opens: Callable[[str], None] = lambda title: None
        head = styled(widgets.HBox(self.tools), "lab-tools")
        main = styled(widgets.VBox([head, *self.body]), "lab-body")
        super().__init__([main] if detail is None else [main, detail])
        self.add_class("lab")
        self.add_class("lab-part")
        if detail is not None:
            detail.add_class("lab-detail")

    def clear_selection(self) -> None:
        """Called when the detail is closed: clears the selection."""
