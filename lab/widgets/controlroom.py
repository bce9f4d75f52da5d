"""All widgets on one studio: as a cell of a notebook, or as a page of its own.

┌ how it goes ──────────────────────────────── buttons ┐
│ Stream     │ Rules                 │ what was chosen │      the third column is there while something is chosen;
│            │                       │                 │      a narrow room has two columns, or one
│ Latency    │ Alerts                │                 │
└────────────┴───────────────────────┴─────────────────┘
"""

from collections.abc import Sequence
from functools import partial

import ipywidgets as widgets

from lab.model.language import say
from lab.studio.studio import KEY_GROUPS, Studio
from lab.widgets.alertfeed import AlertFeed
from lab.widgets.keygroupscope import KeyGroupScope
from lab.widgets.latencyscope import LatencyScope
from lab.widgets.look import button, styled
from lab.widgets.panel import Panel
from lab.widgets.refreshingstatus import RefreshingStatus
from lab.widgets.ruledesk import RuleDesk
from lab.widgets.side import DetailPanel
from lab.widgets.streampanel import StreamPanel
from lab.widgets.whynot import WhyNot

COLUMNS = (("Stream", "Latency"), ("Rules", "Alerts"))
PANELS = ("Stream", "Rules", "Alerts", "Latency", "Why not?", "Key-groups")
BUTTONS = {  # panels that open beside without choosing a row, and their tooltips
    "Why not?": "why a rule did not alert at an event",
    "Key-groups": "which task owns which part of the state, and what moves when there are more tasks",
}
ICONS = {"Why not?": "question", "Key-groups": "th"}


class Room(widgets.VBox):
    """Widgets that live on a studio, under a line that says how it goes; each has `update(studio)`."""

    def __init__(self, studio: Studio, parts: dict[str, widgets.Widget]):
        self.studio, self.parts = studio, parts
        refresh = [studio.read, *(lambda part=part: part.update(studio) for part in parts.values())]
        self.status = RefreshingStatus(refresh, studio.state)
        stops = say("stop the stream and the engine; the page keeps what it shows")
        self.stop = button(say("Stop"), "stop", self.end, tooltip=stops)
        self.head = styled(widgets.HBox([*self.title(), self.status, *self.tools(), self.stop]), "lab-head")
        panels = {name: titled_panel(name, part) for name, part in parts.items()}
        super().__init__([self.head, *self.layout_of(panels)])
        self.add_class("lab")
        self.add_class("lab-room")
        if (
            studio.player
        ):  # its engine ends with the kernel; where the kernel ends with the page, the browser asks
            self.add_class("lab-lost-with-page")
        self.status.start()

    def title(self) -> list[widgets.Widget]:
        """The text before the status line at the top."""
        return []

    def tools(self) -> list[widgets.Widget]:
        """Buttons at the top, beside *Stop*."""
        return []

    def layout_of(self, panels: dict[str, widgets.Widget]) -> list[widgets.Widget]:
        """The panels, one below the other."""
        return list(panels.values())

    def end(self) -> None:
        """Stops stream, engine and refreshing; the widgets keep their last content."""
        try:
            self.studio.close()
        finally:  # also if the engine cannot be stopped any more, as when its Java was killed
            self.remove_class("lab-lost-with-page")
            self.status.stop()
            self.status.refresh_now()
            self.stop.disabled = True


class ControlRoom(Room):
    """Stream, rules, alerts and latency on one page, or some of these `panels`; what is chosen opens beside them."""

    def __init__(self, studio: Studio, panels: Sequence[str] = PANELS):
        if unknown := set(panels) - set(PANELS):
            raise ValueError(
                f"unknown panels: {', '.join(sorted(unknown))}, expected some of {', '.join(PANELS)}"
            )
        parts = {
            "Stream": StreamPanel(studio),
            "Rules": RuleDesk(studio.schema, book=studio.book, past=studio.past, publish=studio.publish),
            "Alerts": AlertFeed(past=studio.past, rules=studio.book.rules),
            "Latency": LatencyScope(),
            "Why not?": WhyNot(studio.past),
            "Key-groups": KeyGroupScope([0] * KEY_GROUPS, 2, 3),
        }
        super().__init__(studio, {name: parts[name] for name in panels})

    def title(self) -> list[widgets.Widget]:
        """The room's name."""
        return [widgets.HTML(f"<h2>{say('Control room')}</h2>")]

    def tools(self) -> list[widgets.Widget]:
        """What may be opened beside without choosing a row."""
        return [
            button(say(name), ICONS[name], partial(self._open_beside, name), tooltip=say(tooltip))
            for name, tooltip in BUTTONS.items()
            if name in self.parts
        ]

    def layout_of(self, panels: dict[str, widgets.Widget]) -> list[widgets.Widget]:
        """Two columns, what flows on the left and what comes out on the right; and the panel beside."""
        columns = [
            styled(widgets.VBox(boxes), "lab-column")
            for names in COLUMNS
            if (boxes := [panels[name] for name in names if name in panels])
        ]
        details = {
            name: part.detail if isinstance(part, Panel) else part
            for name, part in self.parts.items()
            if not isinstance(part, Panel) or part.detail
        }
        self.side = DetailPanel(details, self._on_close)
        for name in details.keys() & {"Rules", "Alerts"}:
            self.parts[name].opens = lambda title, name=name: self.side.show(name, title)
        return [styled(widgets.HBox([*columns, self.side]), "lab-main")]

    def _open_beside(self, name: str) -> None:
        self.side.show(name, say(name))

    def _on_close(self, name: str) -> None:
        if isinstance(part := self.parts[name], Panel):
            part.clear_selection()


def titled_panel(name: str, part: widgets.Widget) -> widgets.Widget:
    """A part under its heading, which its tools stand beside."""
    tools, body = (part.tools, part.body) if isinstance(part, Panel) else ((), (part,))
    head = styled(widgets.HBox([widgets.HTML(f"<h3>{say(name)}</h3>"), *tools]), "lab-tools")
    return styled(widgets.VBox([head, *body]), "lab-panel")
