"""Two games on a timeline: which events are in each event's window, and when does a count with reset alert?

Both are compared with `lab.model.reference`. It gets a rule whose alerts contain the answer: for the window, a sum of amounts
that are powers of two, so that the sum says which events are in the window.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any, ClassVar, cast

from lab.model.horizon import NOT_REACHED
from lab.model.language import say
from lab.model.reference import Reference
from lab.model.referencestate import StoredEvent
from lab.model.rules import Route
from lab.model.schema import PAYMENTS
from lab.model.times import MINUTE_MS
from lab.teach.attack.drawing import draw_timeline
from lab.teach.attack.search import ENDLESS, Difference, failure_words, play_until_time_limit
from lab.teach.attack.timeline import (
    BatchEnd,
    Crash,
    Event,
    History,
    WidthChange,
    history_size,
    random_history,
    simpler_histories,
)
from lab.teach.attack.words import OUTSIDE, describe_entry, explain_difference
from lab.teach.learner import FailureText, answer_text, error_suffix, plain_result_or_failure

EVER = 10**6  # minutes
TOO_OLD = object()  # a function may have forgotten it, and may do as it likes


class ForgetsEarly(Reference):
    """Forgets what a function may forget: all that no window can reach, counted back from the newest event of its group.

    The reference itself keeps more, because one event dated ahead must not make it forget.
    """

    def _horizon(self, route: Route, group: tuple, newest: list[StoredEvent] | None = None) -> int:
        return self._oldest(self.stored_events[route, group], self._widest_ms(route))

    def _forget_out_of_reach(self, route: Route, widest_ms: int) -> None:
        for key, stored in self.stored_events.items():
            if key[0] == route:
                oldest = self._oldest(stored, widest_ms)
                self.stored_events[key] = [event for event in stored if event.time >= oldest]

    def _oldest(self, stored: list[StoredEvent], widest_ms: int) -> int:
        newest = max((event.time for event in stored), default=NOT_REACHED)
        return newest - widest_ms - self.max_out_of_orderness_ms

    def _widest_ms(self, route: Route) -> int:
        return max(rule.widest_ms for rule in self.routes[route])


class TimelineGame:
    """What both games have in common: `function(memory, event, …)` is called for each event.

    `memory` is a list of the event's group, empty at first. A crash gives it back as it was at the last cut, and the events
    since then come again; their second answers count, as the first were never delivered.
    """

    # the function's argument after memory, event and width: a number of the history
    fourth_argument: ClassVar[str]

    random_history = staticmethod(random_history)
    simpler_histories = staticmethod(simpler_histories)
    size = staticmethod(history_size)

    def run(self, function: Callable, history: History) -> list:
        answers: list = [None] * len(history.entries)
        play_until_time_limit(lambda: self._play(function, history, answers))
        return answers

    def hidden_state_fault(self, function: Callable) -> str:
        """An event that nobody has seen before, twice, each time with an empty memory: the answers must be alike."""
        now = time.monotonic_ns()
        history = History(10, (Event(now, now, 1),))
        first, second = (self.run(function, history) for _ in range(2))
        return "" if first == second else say(OUTSIDE)

    def _play(self, function: Callable, history: History, answers: list) -> None:
        memory: dict[int, list] = defaultdict(list)
        saved, batch, latest = deepcopy(memory), [], 0
        for place, entry in enumerate(history.entries):
            again: list[int] = []
            try:
                match entry:
                    case Event():
                        batch.append(place)
                        again = [place]
                    case BatchEnd():
                        saved, batch = deepcopy(memory), []
                    case Crash():
                        memory, again = deepcopy(saved), batch
            except Exception as error:  # noqa: BLE001  (a learner may put anything into memory)
                answers[latest] = FailureText(
                    say("put something into `memory` that cannot be saved{error}", error=error_suffix(error))
                )
                return
            for at in again:
                event, latest = cast(Event, history.entries[at]), at
                answers[at] = ENDLESS
                given = (
                    memory[event.payee],
                    event,
                    history.width_at(at),
                    getattr(history, self.fourth_argument),
                )
                answers[at] = self.comparable_answer(plain_result_or_failure(function, *given), history)
                if isinstance(answers[at], FailureText):
                    return

    def comparable_answer(self, given: Any, history: History) -> Any:
        """The function's answer in the form in which it is compared; `FailureText` if it has the wrong type."""
        raise NotImplementedError

    def expected_answer(self, alert: Any, events: list[Event]) -> Any:
        """The right answer, from an alert of the reference (None: no alert)."""
        raise NotImplementedError

    def first_difference(self, history: History, answers: list) -> Difference | None:
        """Judges only where a reference that forgets early and one that never does agree: a function that stores more may find more."""
        if not history.has_no_too_late_events:
            return None
        for at, (expected, got) in enumerate(zip(self._expected(history, history.late), answers)):
            if expected is TOO_OLD or (expected == got and not isinstance(got, FailureText)):
                continue
            if isinstance(got, FailureText) or self._expected(history, EVER)[at] == expected:
                return Difference(at, expected, got)
        return None

    @lru_cache(maxsize=20_000)  # noqa: B019  (a game is made once)
    def _expected(self, history: History, late: int) -> list:
        reference = ForgetsEarly(PAYMENTS, max_out_of_orderness_ms=late * MINUTE_MS)
        numbers = {event: place for place, event in enumerate(history.names)}
        self._rule(reference, history, history.width)
        expected: list = []
        for entry in history.entries:
            before, dropped = len(reference.alerts), reference.counts["droppedLate"]
            if isinstance(entry, WidthChange):
                self._rule(reference, history, entry.minutes)
            elif isinstance(entry, Event):
                reference.event(_line(entry, numbers[entry]))
            alert = reference.alerts[-1] if len(reference.alerts) > before else None
            if reference.counts["droppedLate"] > dropped:
                expected.append(TOO_OLD)
            else:
                expected.append(
                    self.expected_answer(alert, list(numbers)) if isinstance(entry, Event) else None
                )
        return expected

    def _rule(self, reference: Reference, history: History, minutes: int) -> None:
        rule = {"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": ["payeeId"], "windowMinutes": minutes}
        reference.control(json.dumps(rule | self.reference_rule(history)))

    def reference_rule(self, history: History) -> dict[str, Any]:
        """The function and limit of the reference's rule."""
        raise NotImplementedError

    def describe_answer(self, answer: Any, history: History) -> str:
        """An answer, for people."""
        raise NotImplementedError

    def describe_difference(self, history: History, difference: Difference) -> str:
        _, name = self._at(history, difference)
        lines = [
            say(
                "Your function differs from the reference at event {name}. The shortest history that shows it "
                "(width is {width} min, {argument} is {value}):",
                name=name,
                width=history.width,
                argument=self.fourth_argument,
                value=getattr(history, self.fourth_argument),
            )
        ]
        lines += [
            f"{n:3}. {describe_entry(history, place)}"
            for n, place in enumerate(range(len(history.entries)), 1)
        ]
        expected = self.describe_answer(difference.expected, history)
        if isinstance(difference.got, FailureText):
            failure = failure_words(difference.got)
            said = say(
                "At {name} your function {failure}. Expected: {expected}.",
                name=name,
                failure=failure,
                expected=expected,
            )
            return "\n".join([*lines, said])
        got = self.describe_answer(difference.got, history)
        lines.append(
            say(
                "At {name} expected: {expected}. Your function gave: {got}.",
                name=name,
                expected=expected,
                got=got,
            )
        )
        return "\n".join([*lines, *self.reasons(history, difference)])

    def reasons(self, history: History, difference: Difference) -> list[str]:
        """Why the reference says so."""
        return []

    def _at(self, history: History, difference: Difference) -> tuple[Event, str]:
        event = history.event_at(difference.entry_index)
        return event, history.names[event]

    def draw_difference(self, history: History, difference: Difference) -> str:
        got = None if isinstance(difference.got, FailureText) else difference.got
        return draw_timeline(history, difference.entry_index, difference.expected, got)


class WindowGame(TimelineGame):
    """`window(memory, event, width, late)`: the events in the window of `event`; None if it is a duplicate."""

    fourth_argument = "late"

    def reference_rule(self, history: History) -> dict[str, Any]:
        return {
            "aggregateFieldName": "paymentAmount",
            "aggregatorFunctionType": "SUM",
            "limitOperatorType": ">",
            "limit": 0,
        }

    def comparable_answer(self, given: Any, history: History) -> Any:
        if given is None or given is ... or isinstance(given, FailureText):
            return given
        if not isinstance(given, (list, tuple, set)):
            return FailureText(
                say(
                    "gave {answer}; expected a list of events, or None for a duplicate",
                    answer=answer_text(given),
                )
            )
        known = [tuple(event) for event in history.names]
        if wrong := [one for one in given if one not in known]:
            return FailureText(
                say(
                    "gave a list with {answer} in it; expected a list of events", answer=answer_text(wrong[0])
                )
            )
        return sorted(given)

    def expected_answer(self, alert: Any, events: list[Event]) -> Any:
        if alert is None:
            return None
        cents = int(alert.aggregate * 100)
        return sorted(tuple(event) for place, event in enumerate(events) if cents >> place & 1)

    def describe_answer(self, answer: Any, history: History) -> str:
        if answer is None:
            return say("None, as for a duplicate")
        return ", ".join(history.names[Event(*one)] for one in answer) or say("an empty list")

    def reasons(self, history: History, difference: Difference) -> list[str]:
        return explain_difference(history, difference.entry_index, difference.expected, difference.got)


class CountGame(TimelineGame):
    """`alerts(memory, event, width, limit)`: whether the count within the window alerts; it starts again after an alert."""

    fourth_argument = "limit"

    def reference_rule(self, history: History) -> dict[str, Any]:
        return {
            "aggregatorFunctionType": "COUNT_WITH_RESET",
            "limitOperatorType": ">=",
            "limit": history.limit,
        }

    def comparable_answer(self, given: Any, history: History) -> Any:
        if isinstance(given, FailureText) or given is ...:
            return given
        if given is None or isinstance(given, bool):
            return bool(given)
        return FailureText(say("gave {answer}; expected True or False", answer=answer_text(given)))

    def expected_answer(self, alert: Any, events: list[Event]) -> Any:
        return alert is not None

    def describe_answer(self, answer: Any, history: History) -> str:
        return say("an alert" if answer else "no alert")

    def draw_difference(self, history: History, difference: Difference) -> str:
        return draw_timeline(history, difference.entry_index, [], None)

    def reasons(self, history: History, difference: Difference) -> list[str]:
        event, name = self._at(history, difference)
        fired = [
            history.names[one]
            for one, alert in zip(
                history.entries[: difference.entry_index], self._expected(history, history.late)
            )
            if alert and isinstance(one, Event) and one.payee == event.payee
        ]
        if event in history.entries[: difference.entry_index]:
            return [
                say(
                    "{name} arrived before, with the same id and time: it is a duplicate, even after an alert.",
                    name=name,
                )
            ]
        if fired:
            return [
                say(
                    "The last alert was at {name}: the events that arrived up to then, including {name}, no longer count.",
                    name=fired[-1],
                )
            ]
        return [say("There has been no alert yet, so every event in the window counts.")]


def _line(event: Event, number: int) -> bytes:
    payment: dict[str, Any] = {
        "transactionId": event.id,
        "eventTime": event.time * MINUTE_MS,
        "payeeId": event.payee,
    }
    payment |= {"beneficiaryId": 1, "paymentType": "CSH"}
    cents = 1 << number
    amount = f'"paymentAmount": {cents // 100}.{cents % 100:02}'
    return (json.dumps(payment)[:-1] + f", {amount}}}").encode()
