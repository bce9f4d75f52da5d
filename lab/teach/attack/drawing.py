"""Draws a history on a time line, in SVG that takes its colours from the page's theme.

minute      0        10
1   a       ●
2   b                ●
3   c         ●                  rows in order of arrival; the last has the window under attack
            ├─┤
"""

from collections.abc import Sequence
from html import escape
from typing import cast

from lab.model.colours import BLUE, GREEN, ORANGE, RED
from lab.model.language import say
from lab.teach.attack.timeline import BatchEnd, Crash, Event, History, WidthChange

LEFT, WIDTH, ROW, TOP = 150, 560, 30, 34
LINE = f"var(--jp-brand-color1,{BLUE})"
SAID = {
    "both": "in the window",
    "missing": "missing",
    "extra": "does not belong",
    "twice": "a duplicate",
    "this": "here",
}
COLOURS = {"both": GREEN, "missing": ORANGE, "extra": RED, "twice": ORANGE, "this": ORANGE, "": LINE}


def draw_timeline(
    history: History, entry_index: int, expected: Sequence[tuple] | None, got: Sequence[tuple] | None
) -> str:
    """The history up to the entry at which the answers differ, its window, and what is missing from it or too much.

    `expected` None: it has no window, as it is a duplicate; `got` None: there is nothing to compare with.
    """
    entries, names = history.entries[: entry_index + 1], history.names
    event = cast(Event, entries[entry_index])
    minutes = [entry.time for entry in entries if isinstance(entry, Event)]
    start = event.time - history.width_at(entry_index)
    low, high = min([*minutes, start]), max([*minutes, event.time])
    step = max((high - low) / WIDTH, 0.01)

    def x(minute: float) -> float:
        return LEFT + (minute - low) / step

    height = TOP + ROW * (len(entries) + 1) + 14
    window = _window(x(start), x(event.time), height - 14, history.width_at(entry_index))
    parts = [window] if expected is not None else []
    parts.append(
        f'<text x="{LEFT - 36}" y="{TOP - 12}" text-anchor="end" fill="currentColor">{say("minute")}</text>'
    )
    parts += [_tick(x(minute), minute, height) for minute in sorted({*minutes, start})]
    for row, entry in enumerate(entries):
        y = TOP + ROW * (row + 0.5)
        if isinstance(entry, Event):
            state = _state(entry, expected, got) if expected is not None and got is not None else ""
            if row == entry_index:
                state = state or ("twice" if expected is None else "this")
            arrives = say(
                "{name} arrives again" if entry in entries[:row] else "{name} arrives", name=names[entry]
            )
            groups = len({event.payee for event in history.events}) > 1
            parts.append(
                _row_label(y, arrives + (say(" · payee {payee}", payee=entry.payee) if groups else ""))
            )
            parts.append(_event_mark(x(entry.time), y, names[entry], entry, state))
        else:
            parts.append(_separator(y, _separator_text(entry)))
    label = say("{count} entries on a timeline; the text above says the same", count=len(entries))
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {LEFT + WIDTH + 170} {height}" '
        f'style="max-width:56em;width:100%;height:auto;font:13px sans-serif;color:var(--jp-ui-font-color1,currentColor)">'
        f"{''.join(parts)}</svg>"
    )


def _state(event: Event, expected: Sequence[tuple], got: Sequence[tuple]) -> str:
    wanted, given = tuple(event) in expected, tuple(event) in got
    return "both" if wanted and given else "missing" if wanted else "extra" if given else ""


def _window(left: float, right: float, bottom: float, minutes: int) -> str:
    y = bottom - 12
    return (
        f'<rect x="{left:.1f}" y="{TOP}" width="{max(right - left, 2):.1f}" height="{y - TOP:.1f}" fill="{LINE}" opacity=".15"/>'
        f'<path d="M{left:.1f} {y - 6}v12M{left:.1f} {y}H{right:.1f}M{right:.1f} {y - 6}v12" stroke="{LINE}" stroke-width="2"/>'
        f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end" fill="currentColor">{say("window, {minutes} min", minutes=minutes)}</text>'
    )


def _tick(x: float, minute: int, height: float) -> str:
    return (
        f'<path d="M{x:.1f} {TOP - 6}V{height - 26}" stroke="currentColor" opacity=".2"/>'
        f'<text x="{x:.1f}" y="{TOP - 12}" text-anchor="middle" fill="currentColor">{f"{minute}".replace("-", "−")}</text>'
    )


def _event_mark(x: float, y: float, name: str, event: Event, state: str) -> str:
    colour, mark = COLOURS[state], 'stroke-dasharray="3 2"' if state == "missing" else ""
    filled = colour if state in ("both", "extra") else "none"
    shape = (
        f'<rect x="{x - 8:.1f}" y="{y - 8:.1f}" width="16" height="16" '
        if event.payee == 2
        else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" '
    )
    said = f'<text x="{x + 14:.1f}" y="{y + 4:.1f}" fill="currentColor">{name}{": " + say(SAID[state]) if state else ""}</text>'
    return f'{shape}fill="{filled}" stroke="{colour}" stroke-width="2.5" {mark}/>{said}'


def _row_label(y: float, text: str) -> str:
    return (
        f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end" fill="currentColor">{escape(text)}</text>'
    )


def _separator(y: float, text: str) -> str:
    return (
        f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDTH}" stroke="currentColor" stroke-dasharray="4 4" opacity=".5"/>'
        f"{_row_label(y, text)}"
    )


def _separator_text(entry: BatchEnd | Crash | WidthChange) -> str:
    match entry:
        case BatchEnd():
            return say("a cut")
        case Crash():
            return say("✗ a crash")
        case WidthChange():
            return say("window: {minutes} min", minutes=entry.minutes)
