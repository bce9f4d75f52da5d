"""Chooses what the control room shows, a simulated stream, own events or a running engine, and then opens the room."""

from collections.abc import Callable, Sequence
from pathlib import Path

import ipywidgets as widgets

from lab.model.language import say, translated
from lab.past.replay import read_rules
from lab.running.target import target_of_existing_logs
from lab.stream.background import HAS_THREADS
from lab.stream.datasets import dataset
from lab.studio.demo import first_rules
from lab.studio.studio import Studio
from lab.widgets.controlroom import ControlRoom
from lab.widgets.look import StylesAndAccessibility, button, sentence_html, styled

RATE = 200
ENGINES = {
    "kernel": "in this kernel: needs no Java, keeps nothing",
    "spark": "Spark, on files",
    "kafka": "Spark, on a Kafka broker of its own",
}
STREAMS: dict[str, Callable[[], Sequence]] = {
    "payments": lambda: first_rules(RATE),
    "logins": lambda: read_rules(dataset("logins") / "rules.json"),
}
PLAY, OWN, CONNECT = (
    "Play a simulated stream here",
    "Play your own events here",
    "Connect to a running engine",
)
HELP = {
    PLAY: "Generates events with planted fraud and starts an engine that evaluates them. You control the rate and the bursts.",
    OWN: "Replays recorded events from a file or a topic as if they happened now, and starts an engine that evaluates them.",
    CONNECT: "Watches the logs of a running `lab run` and publishes rules to its control log. It does not start or stop that engine.",
}


class ControlRoomLauncher(widgets.VBox):
    """Asks which stream and which engine, opens the control room on them, and folds away; the room's *Change* unfolds it."""

    def __init__(self):
        # a browser's Python, which has no threads, has no Spark and reaches no engine elsewhere
        ways, engines = ([*HELP], [*ENGINES]) if HAS_THREADS else ([PLAY, OWN], [*ENGINES][:1])
        self.how = widgets.ToggleButtons(
            options=[(say(way), way) for way in ways], tooltips=[say(HELP[way]) for way in ways]
        )
        self.help = widgets.HTML()
        self.stream = widgets.Dropdown(
            options=[(say("payments"), "payments"), (say("logins"), "logins")], description=say("stream")
        )
        self.engine = widgets.Dropdown(
            options=[(say(ENGINES[engine]), engine) for engine in engines], description=say("engine")
        )
        self.logs = widgets.Text(
            description=say("logs"), placeholder=say("a folder, or kafka://127.0.0.1:9092")
        )
        self.events = widgets.Text(
            description=say("events"), placeholder=say("a file, a folder, or kafka://127.0.0.1:9092/TOPIC")
        )
        self.schema = widgets.Text(description=say("schema"))
        self.start = button(say("Start"), "play", self._open, button_style="primary")
        self.said, self.room = widgets.HTML(), None
        other = say("choose another stream or engine")
        self.again = button(say("Change"), "sliders", lambda: self._fold(False), tooltip=other)
        controls = [self.how, self.help, self.stream, self.events, self.engine, self.logs, self.schema]
        controls += [self.start, self.said, StylesAndAccessibility()]
        self.form = styled(widgets.VBox(controls), "lab-door")
        self.how.observe(lambda _: self._show(), "value")
        super().__init__([self.form])
        self.add_class("lab")
        self._show()

    def _show(self) -> None:
        how = self.how.value
        for control, shown_for in (
            (self.stream, (PLAY,)),
            (self.events, (OWN,)),
            (self.engine, (PLAY, OWN)),
            (self.logs, (CONNECT,)),
            (self.schema, (OWN, CONNECT)),
        ):
            control.layout.display = "" if how in shown_for else "none"
        self.schema.placeholder = say(
            "payments, logins or FILE.toml made by lab infer"
            if how == OWN
            else "that of its checkpoint, or payments, logins or FILE.toml"
        )
        self.help.value = f"<p>{say(HELP[how])}</p>"
        self.start.description = say("Connect" if how == CONNECT else "Start")
        self.start.icon = "plug" if how == CONNECT else "play"

    def _open(self) -> None:
        self.start.disabled = True
        self.said.value = sentence_html(say("Connecting…" if self.how.value == CONNECT else "Starting…"))
        try:
            studio = self._studio()
            if self.room:
                self.room.end()
            self.room = ControlRoom(studio)
            self.room.head.children = [*self.room.head.children, self.again]
            self.children = [self.form, self.room]
            self._fold(True)
        except Exception as error:  # noqa: BLE001  (no Java, no broker, a typing error: a button's errors go nowhere else)
            self.said.value = sentence_html(_error_text(error), "bad")
        finally:
            self.start.disabled = False

    def _studio(self) -> Studio:
        if self.how.value == PLAY:
            rules = STREAMS[self.stream.value]()
            return Studio(self.stream.value, self.engine.value, rate=RATE, rules=rules)
        schema = self.schema.value.strip()
        if self.how.value == OWN:
            if not (events := self.events.value.strip()):
                raise ValueError(
                    say("events is empty, expected a file, a folder, or kafka://HOST:PORT/TOPIC")
                )
            return Studio(schema or "payments", self.engine.value, rate=RATE, events=events)
        where = self.logs.value.strip()
        if "@" in where:
            self.logs.value = ""  # a password does not stay on the screen
        target = target_of_existing_logs(where, schema)
        return Studio(target.effective_schema, "elsewhere", logs=target.logs)

    def _fold(self, folded: bool) -> None:
        self.said.value = ""
        self.form.layout.display = "none" if folded else ""


def _error_text(error: Exception) -> str:
    if not isinstance(error, FileNotFoundError) or not error.filename:
        return translated(str(error))
    return say(
        "{file} is not there; a name that does not begin with / is looked for in {folder}",
        file=error.filename,
        folder=Path.cwd(),
    )
