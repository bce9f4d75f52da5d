"""The fault room: delay, repeat and reorder a stream, kill the engine between any two steps, and see the result.

buttons ──► lab.studio.drill ──► logs with their batches, files on disk, what memory holds, alerts, and the verdict
"""

import json
from collections.abc import Callable
from html import escape
from typing import Any

import ipywidgets as widgets

from lab.model.colours import GREEN, GREY, ORANGE, PURPLE, RED
from lab.model.language import say
from lab.studio.drill import STEPS, Drill
from lab.studio.traffic import BEGIN_MS
from lab.widgets.look import StylesAndAccessibility, button, sentence_html

SHOWN, STORY, ALERTS, FILES = 12, 3, 6, 8  # records of each partition, sentences, alerts, short names
LEFT, CELL, LANE = 90, 72, 62
BREAK, REPAIR = "Break the write-ahead log", "Repair the write-ahead log"
BUTTONS = {  # and their tooltips
    "Send 4 payments": "two for each partition",
    "Duplicate": "send the last payment again",
    "Reorder": "send two payments in the wrong order",
    "Delay partition 1": "make its new records unreadable for now",
    "Clock back 20 s": "set the clock of partition 1 back",
    "Change the rule": "publish another limit",
    "Step": "run the next step of the micro-batch",
    "Whole batch": "run all steps of the micro-batch",
    "Kill": "the engine loses its memory; a new one starts from the disk",
    BREAK: "write a cut's marks to disk only with the commit",
}
MEANT = {
    "cut": "choose the cut and write its marks to disk",
    "evaluate": "read, route and evaluate; write the state file",
    "deliver": "append the alerts to their log",
    "commit": "record on disk that the batch is done",
}
LANES = "the logs: for each record its number, amount and payer, when it was logged and paid, and the batch that took it; and the kills"
TAKEN = (
    "{records} records: {evaluated} evaluated, {duplicates} duplicates sent by the producer and not counted"
)
LOOKS = {  # of a record: colour, filled
    "waiting": (GREY, "none"),
    "delayed": (PURPLE, "none"),
    "running": (ORANGE, ORANGE),
    "done": (GREEN, GREEN),
}


class FaultRoom(widgets.VBox):
    """A drill with buttons. `end()` removes what it wrote.

    >>> room = FaultRoom()
    >>> room.buttons["Send 4 payments"].click()
    >>> room.buttons["Whole batch"].click()
    >>> room.drill.done
    0
    >>> room.end()
    """

    def __init__(self):
        self.drill = Drill()
        self.buttons: dict[str, widgets.Button] = {}
        stream = (
            ("Send 4 payments", "plus", lambda: self.drill.send_payments(4)),
            ("Duplicate", "copy", self.drill.send_duplicate),
            ("Reorder", "exchange", self.drill.send_out_of_order),
            ("Delay partition 1", "hourglass-half", self.drill.toggle_delay_of_partition_1),
            ("Clock back 20 s", "clock-o", self.drill.set_back_clock_of_partition_1),
            ("Change the rule", "pencil", self.drill.publish_next_limit),
        )
        engine = (
            ("Step", "step-forward", self.drill.run_next_step),
            ("Whole batch", "forward", self.drill.run_batch),
            ("Kill", "bolt", self.drill.kill_and_restart),
            (BREAK, "chain-broken", self.drill.toggle_write_ahead_log),
        )
        rows = [self._row(name, of) for name, of in ((say("Stream"), stream), (say("Engine"), engine))]
        self.buttons["Kill"].button_style = "warning"
        self.steps, self.lanes, self.sides, self.story = (widgets.HTML() for _ in range(4))
        self.said = widgets.HTML()
        super().__init__(
            [*rows, self.steps, self.story, self.lanes, self.said, self.sides, StylesAndAccessibility()]
        )
        self.add_class("lab")
        self._draw()

    def _row(self, name: str, of: tuple) -> widgets.HBox:
        for text, icon, does in of:
            self.buttons[text] = button(
                say(text), icon, self._doing(does), tooltip=say(BUTTONS[text]), layout={"width": "auto"}
            )
        label = widgets.HTML(f"<b>{name}</b>", layout={"width": "4.5em"})
        return widgets.HBox(
            [label, *(self.buttons[text] for text, *_ in of)], layout={"flex_flow": "row wrap"}
        )

    def _doing(self, does: Callable) -> Callable:
        def pressed() -> None:
            does()
            self._draw()

        return pressed

    def end(self) -> None:
        """Removes the drill's files; the widgets keep their last content."""
        self.drill.close()
        for each in self.buttons.values():
            each.disabled = True

    def _draw(self) -> None:
        drill = self.drill
        delayed = drill.events.partitions[1].delayed_records is not None
        self.buttons["Delay partition 1"].description = say(
            "Let it arrive" if delayed else "Delay partition 1"
        )
        self.buttons[BREAK].description = say(BREAK if drill.writes_ahead else REPAIR)
        self.steps.value = batch_steps_html(drill)
        self.lanes.value = partitions_svg(drill)
        good, words = drill.compare_with_reference()
        self.said.value = sentence_html(words, "good" if good else "bad")
        self.sides.value = disk_memory_and_alerts_html(drill)
        items = "".join(f"<li>{escape(text)}</li>" for text in drill.story[-STORY:])
        self.story.value = f'<ol class="lab-story" aria-live="polite" start="{max(len(drill.story) - STORY, 0) + 1}">{items}</ol>'


def batch_steps_html(drill: Drill) -> str:
    """The four steps of the micro-batch, the next one marked."""
    parts = []
    for step in STEPS:
        now = step == drill.next
        style = f"border:2px solid {ORANGE if now else 'var(--jp-border-color1,#bbb)'};font-weight:{600 if now else 400}"
        mark = "▶ " if now else ""
        parts.append(
            f'<span title="{say(MEANT[step])}" style="{style};border-radius:4px;padding:.1em .6em">{mark}{say(step)}</span>'
        )
    said = say("Batch {number}: {steps}", number=drill.batch_number, steps=" → ".join(parts))
    meant = say("next: {step}", step=say(MEANT[drill.next]))
    return f'<div style="color:var(--jp-ui-font-color1,inherit)">{said} &nbsp; {meant}</div>'


def partitions_svg(drill: Drill) -> str:
    """Each partition's newest records in order, with log times, and the batch that each was cut into."""
    names = [("control", 0), ("events", 0), ("events", 1)]
    height = LANE * len(names) + 22
    parts = []
    for row, (name, number) in enumerate(names):
        y = LANE * row + 24
        partition = drill.feed(name).partitions[number]
        label = say("rules") if name == "control" else say("partition {number}", number=number)
        parts.append(
            f'<text x="0" y="{y + 4}" fill="currentColor">{label}</text>'
            f'<path d="M{LEFT - 20} {y}H{LEFT + CELL * SHOWN}" stroke="currentColor" opacity=".3"/>'
        )
        records = [(offset, record, False) for offset, record in enumerate(partition.records)]
        records += [(-1, record, True) for record in partition.delayed_records or []]
        for at, (offset, record, is_under_way) in enumerate(records[-SHOWN:]):
            batch = None if is_under_way else drill.batch_of_record(number, offset, name)
            state = (
                "delayed"
                if is_under_way
                else "waiting"
                if batch is None
                else "done"
                if batch <= drill.done
                else "running"
            )
            parts.append(
                _record(LEFT + CELL * at, y, _shown(name, record.value), _times(name, record), state, batch)
            )
        first = max(len(records) - SHOWN, 0)
        parts += [_crash(LEFT + CELL * (of[row] - first), y) for of in drill.kills if of[row] >= first]
    label = say(LANES)
    style = "display:block;max-width:68em;width:100%;height:auto;font:12px sans-serif;color:var(--jp-ui-font-color1,currentColor)"
    return f'<svg role="img" aria-label="{label}" viewBox="0 0 {LEFT + CELL * SHOWN + 10} {height}" style="{style}">{"".join(parts)}</svg>'


def _shown(name: str, value: bytes) -> str:
    if name == "control":
        return f"> {value.decode().split('(')[6].partition(')')[0]}"
    payment = json.loads(value)
    of = {"id": payment["transactionId"], "amount": payment["paymentAmount"], "payer": payment["payeeId"]}
    return say("{id}: {amount} by {payer}", **of)


def _times(name: str, record: Any) -> str:
    """When it was logged, and a payment also when it was paid."""
    logged = (record.log_time - BEGIN_MS) // 1000
    if name == "control":
        return say("logged {time} s", time=logged)
    paid = (json.loads(record.value)["eventTime"] - BEGIN_MS) // 1000
    return say("logged {logged} s, paid {paid}", logged=logged, paid=paid)


def _crash(x: float, y: float) -> str:
    """A kill, between the records that were logged before it and after it."""
    line = f'<path d="M{x - 4} {y - 24}V{y + 26}" stroke="{RED}" stroke-width="2" stroke-dasharray="4 3"/>'
    return f'{line}<text x="{x - 4}" y="{y + 36}" text-anchor="middle" font-size="10" fill="{RED}">{say("✗ killed")}</text>'


def _record(x: float, y: float, text: str, times: str, state: str, batch: int | None) -> str:
    colour, fill = LOOKS[state]
    label = say(state) if batch is None else say("batch {number}", number=batch)
    dash = ' stroke-dasharray="3 3"' if state == "delayed" else ""
    return (
        f'<rect x="{x}" y="{y - 11}" width="{CELL - 8}" height="20" rx="4" fill="{fill}" fill-opacity=".35" stroke="{colour}" stroke-width="2"{dash}/>'
        f'<text x="{x + (CELL - 8) / 2}" y="{y + 4}" text-anchor="middle" fill="currentColor">{escape(text)}</text>'
        f'<text x="{x + (CELL - 8) / 2}" y="{y - 14}" text-anchor="middle" fill="currentColor" opacity=".75" font-size="9">{times}</text>'
        f'<text x="{x + (CELL - 8) / 2}" y="{y + 21}" text-anchor="middle" fill="currentColor" opacity=".75" font-size="10">{label}</text>'
    )


def disk_memory_and_alerts_html(drill: Drill) -> str:
    """On disk, in memory, delivered: side by side."""
    folders: dict[str, list[str]] = {}
    for file in drill.checkpoint_files():
        folder, _, name = file.partition("/")
        folders.setdefault(folder, []).append(name)
    disk = [f"{folder}/ {_newest(names)}" for folder, names in folders.items()] or [say("nothing yet")]
    memory = say("Nothing; the next batch reads the state files.")
    if drill.in_memory is not None:
        memory = say("The windows, as batch {number} left them.", number=drill.in_memory)
    counts = drill.record_outcomes
    taken = {name: counts[name] for name in ("records", "evaluated", "duplicates")}
    outcomes = say(TAKEN, **taken)
    alerts = [
        f"{say('event {id}', id=alert['eventId'])}: {alert['key']} {alert['aggregate']} > {alert['limit']}"
        for alert in drill.alerts[-ALERTS:]
    ] or [say("none yet")]
    title = say("In the alert log: {count}", count=len(drill.alerts))
    parts = [
        _side(say("On disk"), disk),
        _side(say("In memory"), [memory, "", outcomes]),
        _side(title, alerts),
    ]
    return f'<div class="lab-sides">{"".join(parts)}</div>'


def _newest(names: list[str]) -> str:
    """All short names, or the newest long one, and how many there are."""
    if all(name.isdigit() for name in names):
        return "… " * (len(names) > FILES) + ", ".join(names[-FILES:])
    return say("{name} and {count} more", name=names[-1], count=len(names) - 1) if names[1:] else names[-1]


def _side(title: str, lines: list[str]) -> str:
    return f"<div><b>{title}</b>{''.join(f'<div>{escape(line)}</div>' for line in lines)}</div>"
