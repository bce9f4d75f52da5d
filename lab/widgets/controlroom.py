"""All widgets on one studio: as a cell of a notebook, or as a page of its own."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from lab.apps.demo import first_rules
from lab.apps.replay import read_rules
from lab.apps.studio import KEY_GROUPS, Studio
from lab.stream.datasets import dataset
from lab.widgets.alertfeed import AlertFeed
from lab.widgets.keygroupscope import KeyGroupScope
from lab.widgets.latencyscope import LatencyScope
from lab.widgets.look import sentence
from lab.widgets.pulse import Pulse
from lab.widgets.ruledesk import RuleDesk
from lab.widgets.streampanel import StreamPanel

RATE = 200
PANELS = ("Stream", "Rules", "Alerts", "Latency", "Key-groups")
ENGINES = {
    "in this kernel: no Java needed, nothing durable": "kernel",
    "Spark, on files": "spark",
    "Spark, on a Kafka broker of its own": "kafka",
}
STREAMS: dict[str, Callable[[], Sequence]] = {
    "payments": lambda: first_rules(RATE),
    "logins": lambda: read_rules(dataset("logins") / "rules.json"),
}


class Room(widgets.VBox):
    """Widgets that live on a studio, under a line that says how it goes; each has `update(studio)`."""

    def __init__(self, studio: Studio, parts: dict[str, widgets.Widget]):
        self.studio, self.parts = studio, parts
        refresh = [studio.read, *(lambda part=part: part.update(studio) for part in parts.values())]
        self.pulse = Pulse(refresh, studio.state)
        self.stop = widgets.Button(description="Stop", icon="stop", layout={"width": "auto"})
        self.stop.tooltip = "stop stream and engine; what is shown stays"
        self.stop.on_click(lambda _: self.end())
        panels = {name: panel(name, part) for name, part in parts.items()}
        super().__init__([widgets.HBox([self.pulse, self.stop]), *self.layout_of(panels)])
        self.add_class("lab-room")
        self.pulse.start()

    def layout_of(self, panels: dict[str, widgets.Widget]) -> list[widgets.Widget]:
        """The panels, one below the other."""
        return list(panels.values())

    def end(self) -> None:
        """Stops stream, engine and pulse; what is shown stays."""
        self.studio.close()
        self.pulse.stop()
        self.pulse.tick()
        self.stop.disabled = True


class ControlRoom(Room):
    """Rule desk, alert feed, latency scope, stream panel and key-group scope on one page, or some of these `panels`."""

    def __init__(self, studio: Studio, panels: Sequence[str] = PANELS):
        parts = {
            "Stream": StreamPanel(studio),
            "Rules": RuleDesk(studio.schema, book=studio.book, past=studio.past, publish=studio.publish),
            "Alerts": AlertFeed(past=studio.past, rules=studio.book.rules),
            "Latency": LatencyScope(),
            "Key-groups": KeyGroupScope([0] * KEY_GROUPS, 2, 3),
        }
        if unknown := set(panels) - set(parts):
            raise ValueError(f"panels: {', '.join(sorted(unknown))}, expected some of {', '.join(parts)}")
        super().__init__(studio, {name: parts[name] for name in panels})

    def layout_of(self, panels: dict[str, widgets.Widget]) -> list[widgets.Widget]:
        """Two columns: what is steered on the left, what comes out on the right."""
        columns = [
            widgets.VBox(
                [panels[name] for name in names if name in panels],
                layout={"width": "49%", "min_width": "30em"},
            )
            for names in (PANELS[:2], PANELS[2:])
        ]
        return [widgets.HBox(columns, layout={"flex_flow": "row wrap", "justify_content": "space-between"})]


class FrontDoor(widgets.VBox):
    """Asks which stream and which engine, starts them, and opens the control room; again, if that is wanted."""

    def __init__(self):
        wide = {"style": {"description_width": "6em"}, "layout": {"width": "36em"}}
        self.stream = widgets.Dropdown(options=list(STREAMS), description="stream", **wide)
        self.engine = widgets.Dropdown(options=list(ENGINES.items()), description="engine", **wide)
        self.start = widgets.Button(description="Start", icon="play", button_style="primary")
        self.start.on_click(lambda _: self._open())
        self.said, self.room = widgets.HTML(), None
        super().__init__([self.stream, self.engine, self.start, self.said])
        self.add_class("lab")

    def _open(self) -> None:
        self.start.disabled = True
        self.said.value = sentence("Starting…")
        rules = STREAMS[self.stream.value]()
        try:
            if self.room:
                self.room.end()
            self.room = ControlRoom(Studio(self.stream.value, self.engine.value, rate=RATE, rules=rules))
            self.children = [self.stream, self.engine, self.start, self.said, self.room]
            self.said.value = ""
        except Exception as error:  # noqa: BLE001  (no Java, no room, no jars: a button's errors go nowhere else)
            self.said.value = sentence(str(error), "bad")
        finally:
            self.start.disabled, self.start.description = False, "Start anew"


def panel(name: str, part: widgets.Widget) -> widgets.Widget:
    """A part under its heading."""
    box = widgets.VBox([widgets.HTML(f"<h3>{name}</h3>"), part])
    box.add_class("lab-panel")
    return box
