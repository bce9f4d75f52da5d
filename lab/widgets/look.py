"""How the widgets look: colours that colour-blind people can tell apart, figures that fit a light and a dark theme."""

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import anywidget
import ipywidgets as widgets
import traitlets

from lab.model.colours import FAINT, PALETTE
from lab.model.formatting import escape_control_characters
from lab.model.language import say
from lab.widgets.figures import Figure

Styled = TypeVar("Styled", bound=widgets.DOMWidget)
CSS = "".join(Path(__file__).with_name(name).read_text() for name in ("figure.css", "lab.css"))


class StylesAndAccessibility(anywidget.AnyWidget):
    """An invisible widget to put into a box: brings the kit's style sheet, names the sliders and choices of the page for screen
    readers, and says when the kernel has ended."""

    _esm, _css = Path(__file__).with_name("accessibility.js"), CSS
    ended, again = traitlets.Unicode().tag(sync=True), traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(
            ended=say("The kernel has ended: nothing here answers any more. Run the notebook from the top."),
            again=say("Run from the top"),
        )


def styled(widget: Styled, name: str) -> Styled:
    """The widget, with a class of the kit's style sheet."""
    widget.add_class(name)
    return widget


def button(text: str, icon: str, on_click: Callable[[], object], **traits: Any) -> widgets.Button:
    """A button that calls `on_click()`; `traits`: others of `ipywidgets.Button`, such as `tooltip`.

    >>> pressed = []
    >>> button("Start", "play", lambda: pressed.append(1)).click()
    >>> pressed
    [1]
    """
    made = widgets.Button(description=text, icon=icon, **traits)
    made.on_click(lambda _: on_click())
    return made


def sentence_html(text: str, kind: str = "") -> str:
    """A line of text for an `ipywidgets.HTML`, read aloud when it changes; `kind`: good, bad or neither.

    >>> sentence_html("1 < 2", "good")
    '<div class="lab-said good" role="status" aria-live="polite">1 &lt; 2</div>'
    """
    text = escape(escape_control_characters(text, keep="\n"))
    return f'<div class="lab-said {kind}" role="status" aria-live="polite">{text}</div>'


def facts_html(values: Mapping[str, tuple[str, str]]) -> str:
    """Large figures over their names, for an `ipywidgets.HTML`: {name: (figure, meaning)}. They change often: not read aloud.

    >>> facts_html({"lag": ("7", "events not evaluated yet")})
    '<div class="lab-facts"><div title="events not evaluated yet"><b>7</b> <span>lag</span></div></div>'
    """
    cells = " ".join(
        f'<div title="{escape(meaning)}"><b>{escape(value)}</b> <span>{escape(name)}</span></div>'
        for name, (value, meaning) in values.items()
    )
    return f'<div class="lab-facts">{cells}</div>'


def figure(title: str = "", x: str = "", y: str = "", height: int | None = 320, **layout) -> Figure:
    """An empty live figure; add traces to it. `x`, `y`: titles of the axes, with their units; `height`: px, None as its box is.

    >>> figure("Alerts", x="time", y="per minute").layout.xaxis.title.text
    'time'
    """
    axis = {"gridcolor": FAINT, "zerolinecolor": FAINT, "automargin": True}
    made = Figure(
        layout={
            "title": {"text": title, "font": {"size": 15}},
            "height": height,
            "margin": {"l": 10, "r": 10, "t": 40 if title else 15, "b": 10},
            "minreducedheight": 32,  # else a low figure keeps its plot 64 px high, and its ticks are cut off
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": "#7a7a7a", "size": 12},
            "colorway": PALETTE,
            "legend": {"orientation": "h", "y": 1, "x": 1, "xanchor": "right", "yanchor": "bottom"},
            "xaxis": {"title": {"text": x, "standoff": 4}, "ticklabelstandoff": 5, **axis},
            "yaxis": {"title": {"text": y, "standoff": 4}, **axis},
            "hovermode": "closest",
        }
    )
    made.update_layout(**layout)
    made._config = {"responsive": True, "displaylogo": False, "displayModeBar": False}
    made.add_class("lab")
    if height is None:
        made.add_class("lab-fill")
    return made


def hide_axes_if_empty(figure: Figure) -> None:
    """Hides the axes of a figure while it has no data: they mean nothing then, and a sentence beside them says what is missing.

    >>> empty = figure()
    >>> hide_axes_if_empty(empty)
    >>> empty.layout.xaxis.visible
    False
    """
    has_data = any(trace.x is not None and len(trace.x) for trace in figure.data)
    if figure.layout.xaxis.visible is not has_data:
        figure.update_layout(xaxis_visible=has_data, yaxis_visible=has_data)
