"""The pictures of the lessons: series by name, told apart by colour and by line, symbol or hatching.

>>> picture = lines({"all": [1, 2], "kept": [1, 1]}, "Events held", x="events", y="held")
>>> [(trace.name, trace.line.dash) for trace in picture.data]
[('all', 'solid'), ('kept', 'dash')]
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipywidgets import FloatSlider, IntSlider, VBox

from lab.model.colours import GREY, PALETTE, RED
from lab.model.language import say
from lab.widgets.figures import Figure
from lab.widgets.look import StylesAndAccessibility, figure

DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "x")
PATTERNS = ("", "/", "x", ".", "-")
DECADES = range(-3, 10)  # of a logarithmic axis
OVERLAID = 0.6  # opacity


def _axes(log: str, digits: Sequence[int] = (1, 2, 5)) -> dict[str, Any]:
    """`log`: the axes with a logarithmic scale, such as "xy"; `digits`: which of each decade are written, all in full."""
    ticks = [digit * 10.0**power for power in DECADES for digit in digits]
    names = [f"{tick:,.10g}" for tick in ticks]
    return {f"{axis}axis": {"type": "log", "tickvals": ticks, "ticktext": names} for axis in log}


def _look(n: int) -> tuple[str, str]:
    return PALETTE[n % len(PALETTE)], PATTERNS[n % len(PATTERNS)]


def lines(
    series: Mapping[str, Sequence[float]],
    title: str = "",
    *,
    at: Sequence[float] | None = None,
    x: str = "",
    y: str = "",
    log: str = "",
    dots: bool = False,
    texts: Sequence[str] | None = None,
    level: tuple[float, str] | None = None,
) -> Figure:
    """A line for each series over `at`; `dots`: with a symbol at each point; `texts`: beside them; `level`: a line across."""
    picture = figure(title, x=x, y=y, **_axes(log))
    for n, (name, values) in enumerate(series.items()):
        line = {"color": PALETTE[n % len(PALETTE)], "dash": DASHES[n % len(DASHES)]}
        marker = {"symbol": SYMBOLS[n % len(SYMBOLS)], "size": 9}
        mode = "lines" + "+markers" * dots + "+text" * (texts is not None)
        given = {"x": at, "y": values, "name": name, "mode": mode, "line": line, "marker": marker}
        picture.add_scatter(**given, text=texts, textposition="top right", cliponaxis=False)
    if level:
        picture.add_hline(
            y=level[0],
            line={"color": RED, "width": 1},
            annotation_text=level[1],
            annotation_position="bottom left",
        )
    return picture


def line_pairs(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    title: str = "",
    *,
    at: Sequence[float] | None = None,
    x: str = "",
    y: str = "",
) -> Figure:
    """Two lines of one colour for each series over `at`, the first solid, the second dotted."""
    picture = figure(title, x=x, y=y, height=380)
    for n, (name, both) in enumerate(series.items()):
        for values, dash in zip(both, ("solid", "dot")):
            line = {"color": PALETTE[n % len(PALETTE)], "dash": dash}
            picture.add_scatter(
                x=at, y=values, name=name, line=line, showlegend=dash == "solid", legendgroup=name
            )
    return picture


def bars(
    series: Mapping[str, Sequence[float | None]],
    title: str = "",
    *,
    at: Sequence | None = None,
    x: str = "",
    y: str = "",
    log: str = "",
    texts: bool | Sequence[str] = False,
    marks: Mapping[float, str] | None = None,
) -> Figure:
    """Bars side by side for each series over `at`, None where one has none; `texts`: the numbers, or texts, on them; `marks`: upright lines."""
    named = all(isinstance(place, str) for place in at or ())
    by_place = zip(*series.values())
    alone = all(sum(value is not None for value in values) == 1 for values in by_place)
    picture = figure(title, x=x, y=y, barmode="overlay" if alone else "group", **_axes(log, digits=(1,)))
    for n, (name, values) in enumerate(series.items()):
        colour, pattern = _look(n)
        numbers = ["" if value is None else f"{value:,.0f}" for value in values]
        written = numbers if texts is True else texts or None
        marker = {"color": colour, "pattern": {"shape": pattern}}
        picture.add_bar(x=at, y=values, name=name, marker=marker, text=written)
    picture.update_traces(textposition="outside", textangle=0, cliponaxis=False)
    if at is not None and named:
        picture.update_layout(xaxis_type="category")
    for place, text in (marks or {}).items():
        picture.add_vline(x=place, line={"color": GREY, "dash": "dash"}, annotation_text=text)
    return picture


def horizontal_bars(values: Mapping[str, float], title: str = "", *, x: str = "") -> Figure:
    """A bar across for each name, the first on top."""
    picture = figure(title, x=x, height=280)
    picture.add_bar(x=list(values.values()), y=list(values), orientation="h", marker={"color": PALETTE[3]})
    picture.update_layout(yaxis_autorange="reversed")
    return picture


def lanes(
    rows: Mapping[str, Sequence[tuple[float, str]]],
    alerts: Mapping[str, Sequence[float]],
    title: str = "",
    *,
    x: str = "",
    height: int = 260,
) -> Figure:
    """A lane for each name, the first on top: its events as (place, kind), a symbol for each kind, and its alerts."""
    picture = figure(title, x=x, height=height)
    kinds = dict.fromkeys(kind for events in rows.values() for _, kind in events)
    for n, kind in enumerate(kinds):
        places = [(at, lane) for lane, events in rows.items() for at, its in events if its == kind]
        marker = {"symbol": SYMBOLS[n % len(SYMBOLS)], "size": 8, "color": PALETTE[3 * n % len(PALETTE)]}
        picture.add_scatter(
            x=[at for at, _ in places],
            y=[lane for _, lane in places],
            name=kind,
            mode="markers",
            marker=marker,
        )
    points = [(at, lane) for lane, places in alerts.items() for at in places]
    ring = {"symbol": "diamond-open", "size": 17, "color": RED, "line": {"width": 2.5}}
    picture.add_scatter(
        x=[at for at, _ in points],
        y=[lane for _, lane in points],
        name=say("alert"),
        mode="markers",
        marker=ring,
        cliponaxis=False,
    )
    picture.update_layout(
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": list(rows)[::-1]}
    )
    picture.update_layout(yaxis_range=[-0.6, len(rows) - 0.4])
    return picture


def boxes(series: Mapping[str, Sequence[float]], title: str = "", *, y: str = "", log: str = "") -> Figure:
    """How values scatter: a box for each series, and its points."""
    picture = figure(title, y=y, **_axes(log))
    for n, (name, values) in enumerate(series.items()):
        marker = {"color": PALETTE[n % len(PALETTE)], "size": 4}
        picture.add_box(y=values, name=name, boxpoints="all", jitter=0.4, marker=marker)
    picture.update_layout(showlegend=False)
    return picture


def histogram(
    series: Mapping[str, Sequence[float]], title: str = "", *, x: str = "", step: float = 1
) -> Figure:
    """How often values lie in each `step`, in percent, one series over the other."""
    picture = figure(title, x=x, y=say("share, %"), barmode="overlay")
    for n, (name, values) in enumerate(series.items()):
        colour, pattern = _look(n)
        marker = {"color": colour, "pattern": {"shape": pattern}}
        bins = {"start": 0, "size": step}
        picture.add_histogram(
            x=values, xbins=bins, histnorm="percent", name=name, marker=marker, opacity=OVERLAID
        )
    return picture


def bars_with_slider(
    slider: FloatSlider | IntSlider,
    drawn: Callable[[float], tuple[str, Sequence[float]]],
    *,
    x: str = "",
    y: str = "",
) -> VBox:
    """Bars that follow a slider: `drawn` gives title and values for its value."""
    title, values = drawn(slider.value)
    highest = max(max(drawn(end)[1]) for end in (slider.min, slider.value, slider.max))
    picture = figure(title, x=x, y=y, yaxis_range=[0, 1.05 * highest])  # the same at each place of the slider
    picture.add_bar(y=values, marker={"color": PALETTE[0]})

    def redraw(change: dict) -> None:
        title, values = drawn(change["new"])
        with picture.batch_update():
            picture.layout.title.text, picture.data[0].y = title, values

    slider.observe(redraw, "value")
    return VBox([slider, picture, StylesAndAccessibility()])
