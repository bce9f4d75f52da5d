"""A history and a difference in words."""

from collections import Counter
from collections.abc import Sequence

from lab.teach.attack.timeline import LATE, Crash, Cut, Event, History, Width

OUTSIDE = (
    "The same event, each time with an empty `memory`, got two answers: your function keeps something outside of `memory`. "
    "After a crash only `memory` is given back, and each group has one of its own."
)


def joined(names: Sequence[str]) -> str:
    """Names in a row.

    >>> joined(["a", "b"])
    'a, b'
    """
    return ", ".join(names)


def entry_said(history: History, place: int) -> str:
    """An entry of a history as a sentence."""
    entry, names = history.entries[place], history.names
    match entry:
        case Cut():
            return "The micro-batch ends; what your function remembers is written down."
        case Crash():
            since = [history.event_at(at) for at in since_cut(history, place)]
            again = joined([names[event] for event in since]) or "nothing"
            return f"A crash: memory is as it was when the micro-batch began, and {again} comes again."
        case Width():
            return f"The rule changes: its window is {entry.minutes} min from now on."
    before = [other for other in history.entries[:place] if isinstance(other, Event)]
    groups = len({event.payee for event in history.events}) > 1
    whose = f", of payee {entry.payee}" if groups else ""
    if entry in before:
        return f"{names[entry]} comes once more (id {entry.id}, minute {entry.time}{whose})."
    newest = max((other.time for other in before if other.payee == entry.payee), default=entry.time)
    late = f", {newest - entry.time} min behind" if entry.time < newest else ""
    return f"{names[entry]} happened at minute {entry.time} (id {entry.id}{whose}{late})."


def since_cut(history: History, place: int) -> list[int]:
    """The places of the events that come again after a crash at a place."""
    cuts = [at for at in range(place) if isinstance(history.entries[at], Cut)]
    begin = cuts[-1] if cuts else 0
    return [at for at in range(begin, place) if isinstance(history.entries[at], Event)]


def why(history: History, at: int, expected: list | None, got: list | None) -> list[str]:
    """Of each event that is missing or too much in a window: why it belongs there, or not."""
    event = history.event_at(at)
    name, names = history.names[event], history.names
    if expected is None:
        return [
            f"{name} has come before, with the same id and the same time: a duplicate is not judged again."
        ]
    if got is None:
        alike = [
            names[other]
            for other in dict.fromkeys(history.events)
            if other != event and (other.id == event.id or other.time == event.time)
        ]
        than = (
            f": only id and time together tell a duplicate, and {joined(alike)} differs in one"
            if alike
            else ""
        )
        return [f"{name} is no duplicate{than}."]
    wanted, given = (Counter(Event(*one) for one in answer) for answer in (expected, got))
    said = [_missing(history, at, other) for other in wanted - given]
    return said + [_extra(history, at, other, wanted) for other in given - wanted]


def _missing(history: History, at: int, other: Event) -> str:
    event, width = history.event_at(at), history.width_at(at)
    name, this = history.names[other], history.names[event]
    if other == event:
        return f"{name} is missing: the current event is in its own window."
    if other.time == event.time - width:
        return f"{name} is missing: it is exactly {width} min before {this}, and both ends count."
    if other.time == event.time:
        return f"{name} is missing: it has the time of {this}, and it had arrived before."
    newest = max(
        one.time for one in history.entries[:at] if isinstance(one, Event) and one.payee == event.payee
    )
    if newest > event.time:
        return (
            f"{name} is missing: {this} comes late, its window ends at its own time, minute {event.time}. "
            f"Events may be up to {LATE} min behind, so {name} must still be held."
        )
    return f"{name} is missing: it is {event.time - other.time} min before {this}, within the {width} min, and still held."


def _extra(history: History, at: int, other: Event, wanted: Counter) -> str:
    event, width = history.event_at(at), history.width_at(at)
    name, this = history.names[other], history.names[event]
    if other in wanted:
        return f"{name} counts once only."
    if other.payee != event.payee:
        return f"{name} is too much: it belongs to another payee."
    if other.time > event.time:
        return f"{name} is too much: it happened after {this}, though it came before."
    if other.time < event.time - width:
        return f"{name} is too much: it is {event.time - other.time} min before {this}, and the window is {width} min."
    return f"{name} is too much."
