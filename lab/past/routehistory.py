"""Finds the events that a route stored when an event was judged, by running the reference over the events and rule changes in memory.

control messages ──► RouteHistory.apply ──► what changed on each route, and when
events of a key-group ──► Replay ──► what became of each in its group, and the alerts of a rule
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lab.model.field import Id
from lab.model.horizon import note_time
from lab.model.lists import MUTED, NamedList
from lab.model.referencestate import StoredEvent
from lab.model.rules import Route, Rule, RuleBook
from lab.model.schema import MAX_TIME, Schema
from lab.model.when import list_names, with_lists
from lab.model.whenreader import takes_back
from lab.past.fastreference import FastReference

if TYPE_CHECKING:  # so that the page's Python can do without the engine's checkpoint
    from lab.engine.checkpoint.settings import Settings

FORGET_AT = 1_000  # changes of rules
RuleOrRoute = TypeVar("RuleOrRoute", Rule, Route)


class PastEvent(NamedTuple):
    """An event in memory, or a record that takes one back; times in ms. `group`: any value, the same for events of one group.

    `reached`: the log time that it shows to be reached; in a log that is not live, the newest event time until then.
    """

    number: int  # in log order
    log_time: int
    reached: int
    event_time: int
    group: Hashable
    fields_if_own_group: dict[str, Any] | None  # None: the event is of another group


@dataclass(frozen=True)
class RouteChange:
    """From a log time on, a route has this rule (None: no rule with this id). `events_cleared`: the route forgets its events."""

    log_time: int
    rule_id: int
    rule: Rule | None
    events_cleared: bool = False


class RouteHistory:
    """The rules in force, and what changed on each route, when. `settings`: those of the engine.

    >>> from lab.engine.checkpoint.settings import Settings
    >>> history = RouteHistory(Settings())
    >>> history.apply("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", log_time=7)["status"]
    'accepted'
    >>> [(change.log_time, change.rule_id) for change in history.changes[history.book.rules[1].route]]
    [(7, 1)]
    """

    def __init__(self, settings: "Settings"):
        self.settings, self.book = settings, RuleBook(settings.schema)
        self.changes: dict[Route, list[RouteChange]] = {}
        self.lists: list[tuple[int, str, NamedList]] = []  # what is in a named list from a log time on
        self._rules: dict[int, Rule] = {}  # those of the book, before a message
        self._noted = 0  # changes since `forget_before` last went through them

    def apply(self, message: str | bytes, log_time: int = 0) -> dict[str, Any]:
        """Carries out a control message and returns its acknowledgement."""
        ack = self.book.apply(message)
        if ack.get("controlType") == "CLEAR_STATE_ALL":
            for rule in self._rules.values():
                self._note(rule.route, RouteChange(log_time, rule.rule_id, rule, events_cleared=True))
        for rule_id in [ack["ruleId"]] if "ruleId" in ack else ack.get("ruleIds", ()):
            before, now = self._rules.pop(rule_id, None), self.book.rules.get(rule_id)
            if before and (now is None or now.route != before.route):
                self._note(before.route, RouteChange(log_time, rule_id, None))
            if now:
                self._note(now.route, RouteChange(log_time, rule_id, now))
                self._rules[rule_id] = now
        if "list" in ack:
            self.lists.append((log_time, ack["list"], self.book.lists[ack["list"]]))
        for rule_id, rule in self._rules.items() if "list" in ack else ():
            if ack["list"] in rule.list_names:
                self._rules[rule_id] = now = self.book.rules[rule_id]
                self._note(now.route, RouteChange(log_time, rule_id, now))
        return ack

    def _note(self, route: Route, change: RouteChange) -> None:
        self.changes.setdefault(route, []).append(change)
        self._noted += 1

    @property
    def has_much_to_forget(self) -> bool:
        """Whether so many changes have come that `forget_before` is worth its time."""
        return self._noted >= FORGET_AT

    def forget_before(self, log_time: int) -> None:
        """Drops changes that no event in memory needs: of those up to a log time, keeps only the rules that they led to.

        If an event from before that time comes later, these rules apply to it, because earlier ones are no longer known.
        """
        newest = {name: (0, name, entries) for logged, name, entries in self.lists if logged <= log_time}
        self.lists = [*newest.values(), *(each for each in self.lists if each[0] > log_time)]
        for route, changes in list(self.changes.items()):
            rules = {each.rule_id: each for each in changes if each.log_time <= log_time}
            led_to = [replace(each, log_time=0, events_cleared=False) for each in rules.values() if each.rule]
            # the widest first: no window becomes wider among them
            led_to.sort(key=lambda each: -each.rule.widest_ms if each.rule else 0)
            self.changes[route] = led_to + [each for each in changes if each.log_time > log_time]
            if not self.changes[route]:
                del self.changes[route]
        self._noted = 0

    def as_lists_changed(self, of: RuleOrRoute) -> list[tuple[int, RuleOrRoute]]:
        """A rule or route as events see it that are logged from a time on: with what is in its named lists then."""
        names = of.list_names if isinstance(of, Rule) else list_names(of.filter)
        lists: dict[str, NamedList] = {}
        found = {0: with_lists(of, lists) if names else of}
        for log_time, name, entries in self.lists if names else ():
            lists[name] = entries
            if name in names:
                found[log_time] = with_lists(of, lists)
        return list(found.items())

    def rule_at(self, rule_id: int, log_time: int) -> Rule | None:
        """The rule with an id as it was in force for an event that was logged at a time; None if there was none."""
        last = (
            [each.rule for each in changes if each.rule_id == rule_id and each.log_time <= log_time][-1:]
            for changes in self.changes.values()
        )
        return next((rule for found in last for rule in found if rule), None)


class EventsInMemory(ABC):
    """Events and the rules that judged them."""

    schema: Schema
    history: RouteHistory

    @abstractmethod
    def rows_of(self, event_id: Id, event_time: int | None = None) -> list[int]:
        """The rows of the events in memory with an id, in log order; without the records that take one back."""

    @abstractmethod
    def log_times_of(self, row: int) -> tuple[int, int]:
        """The log time of the record in a row, and the one that it shows to be reached: see `PastEvent`."""

    @abstractmethod
    def event_in(self, row: int) -> dict[str, Any]:
        """The event in a row, as {field: value}."""

    @abstractmethod
    def events_of_key_group(self, route: Route, group: tuple, last: int | None = None) -> list[PastEvent]:
        """The events of a route in the key-group of a group, whose values are in the order of the route's keys, in log order.

        `last`: none after this row.
        """

    @abstractmethod
    def newest_event_times_before(self, log_time: int) -> list[int]:
        """Those of the whole log before a log time, as `Reference.newest_of_log`."""

    def time_reached_at(self, log_time: int) -> int:
        """What `Reference.log_time_reached` is at a log time: in a log that is not live, the newest event time before."""
        return log_time or max(self.newest_event_times_before(log_time), default=0)


def group_of(route: Route, event: dict[str, Any]) -> tuple:
    """The group of an event on a route."""
    return tuple(event[name] for name in route.keys)


class Replay(FastReference):
    """Replays one group of a route over past events, and judges them for one rule."""

    def __init__(self, past: EventsInMemory, route: Route, judged: int):
        settings = past.history.settings
        super().__init__(
            settings.schema,
            late_policy=settings.late_policy,
            max_out_of_orderness_ms=settings.max_out_of_orderness_ms,
            key_groups=1,
        )
        self._past, self._route, self._judged = past, route, judged
        self._changes = deque(past.history.changes.get(route, ()))
        self._mutes = deque((since, entries) for since, name, entries in past.history.lists if name == MUTED)
        self._changed_at = 0
        self._look_up()

    def _look_up(self) -> None:
        """What the replay has of its route and its one key-group: looking it up for each event would take longest."""
        self._near = self.newest[self._route, 0]
        self._of_group = dict[tuple, list[StoredEvent]]()
        self._rules_of_route = self.routes.get(self._route)
        of_judged = (rule for rule in self._rules_of_route or () if rule.rule_id == self._judged)
        self._awaiting = tuple(rule for rule in of_judged if rule.absence)

    def _newest_of_key_group(self, route: Route, group: tuple) -> dict[tuple, int]:
        return self._near

    def _kept(self, route: Route, group: tuple) -> list[StoredEvent]:
        if group not in self._of_group:
            self._of_group[group] = super()._kept(route, group)
        return self._of_group[group]

    def add_change(self, change: RouteChange) -> None:
        """Adds a change before the others."""
        self._changes.appendleft(change)

    def pass_on(self, event: PastEvent) -> str:
        """What becomes of an event on the route, once the rules that came before it are in force."""
        self._change_until(event.log_time)
        rules = self._rules_of_route
        if not rules:
            return "unrouted"
        self.advance_to(event.reached)
        fields = event.fields_if_own_group
        if fields is None:
            note_time(self._near, event.group, event.event_time)
            return "ofAnotherGroup"
        if takes_back(fields, self.schema):
            self._of_group.clear()  # which it changes
            return self._take_back(fields, self._route, event.log_time)
        self.counts["records"] = event.number  # the arrival of what is held
        fate = self._on_route(fields, self._route, rules)[0]
        if self._awaiting and fate in ("evaluated", "storedLate"):
            self._wait(fields, self._awaiting, bool(event.log_time), fate == "evaluated")
        return fate

    def finish(self, reached: int) -> None:
        """Carries out the changes that are left, and ends the waits that end before a log time."""
        self._change_until(MAX_TIME * 2)
        self.advance_to(reached)

    def _change_until(self, log_time: int) -> None:
        """Carries out the changes up to a log time, of rules and of mutes, in their order."""
        while True:
            next_rule = self._changes[0].log_time if self._changes else log_time + 1
            next_mute = self._mutes[0][0] if self._mutes else log_time + 1
            if min(next_rule, next_mute) > log_time:
                return
            if next_rule <= next_mute:
                self._change(self._changes.popleft())
            else:
                self.advance_to(next_mute)
                self.book.lists[MUTED] = self._mutes.popleft()[1]

    def _change(self, change: RouteChange) -> None:
        self.advance_to(change.log_time)
        self._changed_at, before = change.log_time, dict(self.book.rules)
        self.book.rules.pop(change.rule_id, None)
        if change.rule:
            self.book.rules[change.rule_id] = change.rule
        self._change_rules(before, change.events_cleared)
        # of many rules those that matter: the widest one, one for each set of fields that is kept, and the one that is judged
        rules = sorted(self.book.rules.values(), key=lambda rule: rule.widest_ms)
        kept = {rule.stored_field_names: rule for rule in rules}  # the widest among them
        judged = [rule for rule in rules if rule.rule_id == self._judged]
        self.routes = {self._route: tuple(dict.fromkeys([*kept.values(), *judged]))} if rules else {}
        self._look_up()

    def _forget_out_of_reach(self, route: Route, widest_ms: int) -> None:
        self.newest_of_log = self._past.newest_event_times_before(self._changed_at)
        self.advance_to(self._past.time_reached_at(self._changed_at))
        super()._forget_out_of_reach(route, widest_ms)

    def _is_judged(self, rule: Rule, group: tuple, current: StoredEvent) -> bool:
        return rule.rule_id == self._judged and super()._is_judged(rule, group, current)
