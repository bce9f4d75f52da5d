"""Describes a history and a difference in words."""

from collections import Counter

from lab.model.language import say
from lab.teach.attack.timeline import BatchEnd, Crash, Event, History, WidthChange

OUTSIDE = (
    "The same event with an empty `memory` got two different answers: your function keeps something outside of `memory`. "
    "After a crash only `memory` is restored, and each group has its own."
)


def describe_entry(history: History, entry_index: int) -> str:
    """An entry of a history as a sentence."""
    entry, names = history.entries[entry_index], history.names
    match entry:
        case BatchEnd():
            return say("The micro-batch ends, and `memory` is saved.")
        case Crash():
            since = [history.event_at(at) for at in replayed_indices(history, entry_index)]
            again = ", ".join(names[event] for event in since) or say("nothing")
            return say(
                "A crash: `memory` goes back to the start of the micro-batch, and {again} arrives again.",
                again=again,
            )
        case WidthChange():
            return say("The rule changes: its window is {minutes} min from now on.", minutes=entry.minutes)
    before = [other for other in history.entries[:entry_index] if isinstance(other, Event)]
    groups = len({event.payee for event in history.events}) > 1
    whose = say(", of payee {payee}", payee=entry.payee) if groups else ""
    named = {"name": names[entry], "id": entry.id, "minute": entry.time, "whose": whose}
    if entry in before:
        return say("{name} arrives again (id {id}, minute {minute}{whose}).", **named)
    newest = max((other.time for other in before if other.payee == entry.payee), default=entry.time)
    late = say(", {minutes} min behind", minutes=newest - entry.time) if entry.time < newest else ""
    return say("{name} happened at minute {minute} (id {id}{whose}{late}).", late=late, **named)


def replayed_indices(history: History, entry_index: int) -> list[int]:
    """The indices of the events that come again after the crash at entry number `entry_index`."""
    cuts = [at for at in range(entry_index) if isinstance(history.entries[at], BatchEnd)]
    begin = cuts[-1] if cuts else 0
    return [at for at in range(begin, entry_index) if isinstance(history.entries[at], Event)]


def explain_difference(
    history: History, entry_index: int, expected: list | None, got: list | None
) -> list[str]:
    """Why each missing event belongs in a window, and why each extra one does not."""
    event = history.event_at(entry_index)
    name, names = history.names[event], history.names
    if expected is None:
        return [
            say(
                "{name} arrived before, with the same id and the same time: a duplicate is not evaluated again.",
                name=name,
            )
        ]
    if got is None:
        alike = [
            names[other]
            for other in dict.fromkeys(history.events)
            if other != event and (other.id == event.id or other.time == event.time)
        ]
        if not alike:
            return [say("{name} is not a duplicate.", name=name)]
        return [
            say(
                "{name} is not a duplicate: a duplicate has the same id and the same time, and {others} differs in one of them.",
                name=name,
                others=", ".join(alike),
            )
        ]
    wanted, given = (Counter(Event(*one) for one in answer) for answer in (expected, got))
    said = [_missing(history, entry_index, other) for other in wanted - given]
    return said + [_extra(history, entry_index, other, wanted) for other in given - wanted]


def _missing(history: History, entry_index: int, other: Event) -> str:
    event, width = history.event_at(entry_index), history.width_at(entry_index)
    names = {"name": history.names[other], "this": history.names[event]}
    if other == event:
        return say("{name} is missing: the current event is in its own window.", **names)
    if other.time == event.time - width:
        return say(
            "{name} is missing: it is exactly {width} min before {this}, and both ends count.",
            width=width,
            **names,
        )
    if other.time == event.time:
        return say("{name} is missing: it has the same time as {this}, and it arrived earlier.", **names)
    newest = max(
        one.time
        for one in history.entries[:entry_index]
        if isinstance(one, Event) and one.payee == event.payee
    )
    if newest > event.time:
        return say(
            "{name} is missing: {this} is late, so its window ends at its own time, minute {minute}. "
            "Events may be up to {late} min behind, so your function must still keep {name}.",
            minute=event.time,
            late=history.late,
            **names,
        )
    return say(
        "{name} is missing: it is {minutes} min before {this}, within the window of {width} min.",
        minutes=event.time - other.time,
        width=width,
        **names,
    )


def _extra(history: History, entry_index: int, other: Event, wanted: Counter) -> str:
    event, width = history.event_at(entry_index), history.width_at(entry_index)
    names = {"name": history.names[other], "this": history.names[event]}
    if other in wanted:
        return say("{name} counts only once.", **names)
    if other.payee != event.payee:
        return say("{name} does not belong there: it is of another payee.", **names)
    if other.time > event.time:
        return say(
            "{name} does not belong there: it happened after {this}, although it arrived first.", **names
        )
    if other.time < event.time - width:
        return say(
            "{name} does not belong there: it is {minutes} min before {this}, and the window is {width} min.",
            minutes=event.time - other.time,
            width=width,
            **names,
        )
    return say("{name} does not belong there.", **names)
