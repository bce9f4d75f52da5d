"""Typical mistakes in writing `window` or a count with reset, each planted into a correct function."""

from collections.abc import Callable

from lab.teach.attack.words import OUTSIDE
from lab.teach.judge import Mistake


def _horizon(memory: list, event, width: int, late: int) -> int:
    return max(one.time for one in memory) - width - late


def _windowed(
    belongs: Callable = lambda other, event, width: event.time - width <= other.time <= event.time,
    alike: Callable = lambda other, event: (other.id, other.time) == (event.id, event.time),
    oldest: Callable = _horizon,
) -> Callable:
    """A window function, right but for what is put in place of one of its parts."""

    def window(memory: list, event, width: int, late: int) -> list | None:
        if any(alike(other, event) for other in memory):
            return None
        memory.append(event)
        horizon = oldest(memory, event, width, late)
        memory[:] = [other for other in memory if other.time >= horizon]
        return [other for other in memory if belongs(other, event, width)]

    return window


def _replacing(memory: list, event, width: int, late: int) -> list:
    memory[:] = [other for other in memory if other.time != event.time]
    return _windowed(alike=lambda other, event: False)(memory, event, width, late)


def _judged_again(memory: list, event, width: int, late: int) -> list:
    if event not in memory:
        memory.append(event)
    return [other for other in memory if event.time - width <= other.time <= event.time]


def _late_ones_ignored(memory: list, event, width: int, late: int) -> list | None:
    if memory and event.time < max(other.time for other in memory):
        return None
    return _windowed()(memory, event, width, late)


def _only_the_window(memory: list, event, width: int, late: int) -> list | None:
    found = _windowed()(memory, event, width, late)
    if found is not None:
        memory[:] = found
    return found


def _first_width(memory: list, event, width: int, late: int) -> list | None:
    memory[:] = memory or [width]
    kept = memory[1:]
    found = _windowed()(kept, event, memory[0], late)
    memory[1:] = kept
    return found


_everything: list = []


def _outside(memory: list, event, width: int, late: int) -> list | None:
    return _windowed()(_everything, event, width, late)


WINDOW = (
    Mistake(
        _windowed(belongs=lambda other, event, width: event.time - width < other.time <= event.time),
        "An event exactly W back still counts: the left end belongs to the window.",
    ),
    Mistake(
        _windowed(belongs=lambda other, event, width: event.time - width <= other.time < event.time),
        "The current event counts, and so does an earlier arrival with the same time: the right end belongs to the window.",
    ),
    Mistake(
        _windowed(
            belongs=lambda other, event, width: (
                event.time - width <= other.time < event.time or other == event
            )
        ),
        "An earlier arrival with the same time counts: a group may have two events at once.",
    ),
    Mistake(
        _windowed(belongs=lambda other, event, width: other.time >= event.time - width),
        "When an event is late, events with a later time have already arrived. They are not in its window.",
    ),
    Mistake(
        _windowed(belongs=lambda other, event, width: True),
        "What you keep in memory is not the window: some of it is kept for late events.",
    ),
    Mistake(
        _windowed(alike=lambda other, event: False),
        "A record that arrives twice, with the same id and the same time, counts once.",
    ),
    Mistake(
        _windowed(alike=lambda other, event: other.id == event.id),
        "The same id with another time is another event: a duplicate has the same id and the same time.",
    ),
    Mistake(
        _windowed(alike=lambda other, event: other.time == event.time),
        "Two events with the same time are still two events: a duplicate has the same id and the same time.",
    ),
    Mistake(_replacing, "An event does not replace an earlier one with the same time: both count."),
    Mistake(_judged_again, "A duplicate is not evaluated again: the answer is None."),
    Mistake(
        _windowed(oldest=lambda memory, event, width, late: max(one.time for one in memory) - width),
        "An event was forgotten too early: a late event looks back from its own time.",
    ),
    Mistake(
        _windowed(oldest=lambda memory, event, width, late: max(one.time for one in memory) - late),
        "An event was forgotten too early: the window is longer than events may be late.",
    ),
    Mistake(_late_ones_ignored, "A late event is evaluated, too, over the window that ends with it."),
    Mistake(
        _only_the_window,
        "Only the window of this event is kept. If the event is late, that discards newer events, which later windows need.",
    ),
    Mistake(
        _first_width,
        "The width may change while the stream runs: each time, use the width that is passed in.",
    ),
    Mistake(_outside, OUTSIDE),
)

# -- a count that starts again -----------------------------------------------------------------------------------------


def _is_duplicate(memory: list, event) -> bool:
    return any(event == other for other, _ in memory)


def _all_used(memory: list, event) -> list:
    return [(other, True) for other, _ in memory]


def _counting(
    enough: Callable = lambda count, limit: count >= limit,
    used: Callable = _all_used,
    belongs: Callable = lambda other, event, width: event.time - width <= other.time <= event.time,
    duplicate: Callable = _is_duplicate,
) -> Callable:
    """A count that starts again after an alert, correct except for one of its parts."""

    def alerts(memory: list, event, width: int, limit: int) -> bool:
        if duplicate(memory, event):
            return False
        memory.append((event, False))
        count = sum(not gone and belongs(other, event, width) for other, gone in memory)
        if not enough(count, limit):
            return False
        memory[:] = used(memory, event)
        return True

    return alerts


def _up_to_now(memory: list, event) -> list:
    return [(other, gone or other.time <= event.time) for other, gone in memory]


COUNT = (
    Mistake(
        _counting(used=lambda memory, event: memory),
        "That is a plain count. After an alert the count must start again.",
    ),
    Mistake(
        _counting(enough=lambda count, limit: count > limit),
        "Reaching the limit is enough: the rule says >=.",
    ),
    Mistake(
        _counting(enough=lambda count, limit: count == limit and count > 0 and limit > 2),
        "Your function never alerts.",
    ),
    Mistake(
        _counting(used=lambda memory, event: []),
        "Remember the events that no longer count: if one of them arrives again, it is a duplicate, not a new event.",
    ),
    Mistake(
        _counting(used=lambda memory, event: [(other, gone or other != event) for other, gone in memory]),
        "The event that raised the alert no longer counts, either.",
    ),
    Mistake(
        _counting(used=_up_to_now),
        "After an alert, nothing that has arrived counts, whatever its time: a late event's alert uses up newer events, too.",
    ),
    Mistake(_counting(duplicate=lambda memory, event: False), "A record that arrives twice counts once."),
    Mistake(
        _counting(belongs=lambda other, event, width: other.time >= event.time - width),
        "When an event is late, events with a later time have already arrived. They do not count for it.",
    ),
    Mistake(
        _counting(belongs=lambda other, event, width: True),
        "Only events in the window count: from W before the event up to the event.",
    ),
)
