"""How the widgets look: colours that colour-blind people can tell apart, figures that fit a light and a dark theme."""

from html import escape
from pathlib import Path

import anywidget

from lab.widgets.figures import Figure

# Okabe and Ito's palette, "Color Universal Design", 2008
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW, GREY = "#56B4E9", "#CC79A7", "#F0E442", "#8A8A8A"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, GREY)
FAINT = "rgba(138, 138, 138, 0.25)"
CSS = Path(__file__).with_name("lab.css")


class Fit(anywidget.AnyWidget):
    """Beside figures in a box: has them take the width that the box gets, and brings the kit's style sheet."""

    _esm, _css = Path(__file__).with_name("fit.js"), CSS

    def reveal(self) -> None:
        """Scrolls the box into view, as little as that takes."""
        self.send({})


def sentence(text: str, kind: str = "") -> str:
    """A line of text for an `ipywidgets.HTML`, read aloud when it changes; `kind`: good, bad or neither.

    >>> sentence("1 < 2", "good")
    '<div class="lab-said good" role="status" aria-live="polite">1 &lt; 2</div>'
    """
    return f'<div class="lab-said {kind}" role="status" aria-live="polite">{escape(text)}</div>'


def figure(title: str = "", x: str = "", y: str = "", height: int = 320, **layout) -> Figure:
    """An empty live figure; add traces to it. `x`, `y`: titles of the axes, with their units.

    >>> figure("Alerts", x="time", y="per minute").layout.xaxis.title.text
    'time'
    """
    made = Figure(
        layout={
            "title": {"text": title, "font": {"size": 15}},
            "height": height,
            "margin": {"l": 60, "r": 20, "t": 40 if title else 15, "b": 45},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": "#7a7a7a", "size": 12},
            "colorway": PALETTE,
            "legend": {"orientation": "h", "y": 1.12, "x": 1, "xanchor": "right", "yanchor": "bottom"},
            "xaxis": {"title": {"text": x}, "gridcolor": FAINT, "zerolinecolor": FAINT},
            "yaxis": {"title": {"text": y}, "gridcolor": FAINT, "zerolinecolor": FAINT},
            "hovermode": "closest",
        }
    )
    made.update_layout(**layout)
    made._config = {"responsive": True, "displaylogo": False}
    made.add_class("lab")
    return made
