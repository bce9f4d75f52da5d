"""Histories of one rule's window: events that come in order, late, together or twice; batches that crash; a rule that changes.

    a        b     | b again   ✗ crash: what came since the cut comes again   the window is 20 min from now on

Times are minutes, letters are events in the order in which they first came, payees are the groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

WIDTHS = (10, 10, 20, 5)
FACTORS = (1, 1, 1, 20)  # of a history's minutes
# minutes that an event may be behind; how many a count alerts on: unless a history says otherwise
LATE, LIMIT = 5, 2
CROWD = 24  # events of one group close together: more than a function may happen to look back
GAPS = (0, 1, 5, 5, 10, 10, 15, 40)
BEHIND = (0, 0, 1, 5, 5)


class Event(NamedTuple):
    """An event, as a learner's function receives it."""

    id: int
    time: int
    payee: int


@dataclass(frozen=True)
class BatchEnd:
    """A micro-batch ends: what the function remembers is written down."""


@dataclass(frozen=True)
class Crash:
    """The micro-batch that runs dies, and runs again from what was written down."""


@dataclass(frozen=True)
class WidthChange:
    """The rule changes: its window is so long from now on, in minutes."""

    minutes: int


Entry = Event | BatchEnd | Crash | WidthChange


@dataclass(frozen=True)
class History:
    """What happens, in order; `width`: the rule's window at first, `late`: how far events may be behind, in minutes."""

    width: int
    entries: tuple[Entry, ...]
    late: int = LATE
    limit: int = LIMIT

    @property
    def events(self) -> list[Event]:
        return [entry for entry in self.entries if isinstance(entry, Event)]

    @property
    def names(self) -> dict[Event, str]:
        """A letter for each event; one that comes again keeps its own."""
        names: dict[Event, str] = {}
        for event in self.events:
            names.setdefault(event, chr(ord("a") + len(names) % 26))
        return names

    @property
    def has_no_too_late_events(self) -> bool:
        """Whether no event is further behind than `late` minutes; an event that comes again counts only the first time."""
        newest: dict[int, int] = {}
        for event in self.names:
            newest[event.payee] = max(event.time, newest.get(event.payee, event.time))
            if event.time < newest[event.payee] - self.late:
                return False
        return True

    def event_at(self, entry_index: int) -> Event:
        """The event at entry number `entry_index`."""
        event = self.entries[entry_index]
        assert isinstance(event, Event)
        return event

    def width_at(self, entry_index: int) -> int:
        """The rule's window when entry number `entry_index` comes."""
        widths = [entry.minutes for entry in self.entries[:entry_index] if isinstance(entry, WidthChange)]
        return widths[-1] if widths else self.width


def random_history(seed: int, event_count: int) -> History:
    """A history with so many events, and now and then something between them."""
    rng = Random(f"{seed} {event_count}")
    entries: list[Entry] = []
    at, ids, troubles = 0, 0, rng.random() < 0.5
    factor = rng.choice(FACTORS)
    late, limit = factor * rng.choice((LATE, LATE, 0, 12)), rng.choice((LIMIT, LIMIT, 1, 3))
    behind = [minutes for minutes in BEHIND if minutes <= late] + [late, late // 2]
    gaps: tuple[int, ...] = GAPS
    payees: tuple[int, ...] = (1, 1, 1, 2)
    if event_count > 4 and rng.random() < 0.25:
        event_count, gaps, payees = CROWD, (0, 0, 1), (1,)
        limit = rng.choice((LIMIT, 12))
    for _ in range(event_count):
        if troubles and rng.random() < 0.4:
            entries.append(
                rng.choice((BatchEnd(), Crash(), Crash(), WidthChange(factor * rng.choice(WIDTHS))))
            )
        before = [entry for entry in entries if isinstance(entry, Event)]
        if before and rng.random() < 0.2:
            entries.append(rng.choice(before))  # sent again
            continue
        at += factor * rng.choice(gaps)
        ids += 1
        same_id = before and rng.random() < 0.1
        number = rng.choice(before).id if same_id else ids
        entries.append(Event(number, max(at - rng.choice(behind), 0), rng.choice(payees)))
    return History(factor * rng.choice(WIDTHS), tuple(entries), late, limit)


def simpler_histories(history: History) -> Iterator[History]:
    """Without some entries; earlier, closer, fewer payees and ids."""
    entries = history.entries
    size = len(entries) // 2
    while size:
        for at in range(len(entries) - size + 1):
            yield replace(history, entries=entries[:at] + entries[at + size :])
        size //= 2
    for minutes in (10, 20):
        yield replace(history, width=minutes)
    yield replace(history, late=LATE)
    yield replace(history, limit=LIMIT)
    events = list(dict.fromkeys(history.events))
    if events and (first := min(event.time for event in events)):
        yield _with(history, {event: event._replace(time=event.time - first) for event in events})
    for event in events:
        for time in (0, event.time // 2, event.time - 10, event.time - 5, event.time - 1):
            if 0 <= time < event.time:
                yield _with(history, {event: event._replace(time=time)})
        later = [other for other in events if other.time > event.time]
        room = min((other.time for other in later), default=0) - event.time
        for by in (10, 5, 1):  # all that is after it moves towards it
            if by <= room:
                yield _with(history, {other: other._replace(time=other.time - by) for other in later})
        yield _with(history, {event: event._replace(payee=1)})


def _with(history: History, changed: dict[Entry, Entry]) -> History:
    return replace(history, entries=tuple(changed.get(entry, entry) for entry in history.entries))


def history_size(history: History) -> tuple:
    """Events first, then all entries, payees, and minutes."""
    events = history.events
    plain = [entry.minutes if isinstance(entry, WidthChange) else 0 for entry in history.entries]
    return (
        len(events),
        len(history.entries),
        len({event.payee for event in events}),
        sum(event.time for event in events),
        abs(history.width - 10) + abs(history.late - LATE) + abs(history.limit - LIMIT) + sum(plain),
    )
