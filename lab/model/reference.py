"""docs/semantics.md as code: what every evaluator of the kit must give, one event at a time, slow and obvious.

    log of events and control messages, in order ──► Reference ──► alerts, acks, dead letters, counts

Source of the idea: `DynamicAlertFunction` of the Flink demo, "Advanced Flink Application Patterns" part 3.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from decimal import Decimal, localcontext
from typing import Any, cast

from lab.model.aggregates import AGGREGATES, Exact
from lab.model.aggregation import Aggregation
from lab.model.alerts import Alert, AlertTable, Withdrawal, event_for_alert
from lab.model.field import Id
from lab.model.group import group_for_alert, group_key
from lab.model.horizon import newest_times, note_time, time_reached
from lab.model.jsontext import BadRecord
from lab.model.keygroups import key_group_of
from lab.model.listmessages import muted_entry
from lab.model.referencestate import AbsenceWait, StoredEvent, examples_of_loss, newest_event
from lab.model.routestats import COUNTS, RouteTallies
from lab.model.rules import MAX_RULES, Route, Rule, RuleBook
from lab.model.schema import MAX_FUTURE_MS, Schema
from lab.model.when import is_true, passes_filter
from lab.model.whenreader import takes_back

Compared = tuple[Decimal, str, Decimal]  # aggregate, operator, limit
LATE_POLICIES = ("evaluate", "store", "drop")


class Reference:
    """Evaluates rules on events exactly, one at a time.

    `max_out_of_orderness_ms`: how far behind the newest event of its group an event may be before it is late.
    `max_future_ms`: how far after its record's log time an event may be before it is a bad record.

    >>> from lab.model.schema import PAYMENTS
    >>> engine = Reference(PAYMENTS)
    >>> engine.control("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)")["status"]
    'accepted'
    >>> for line in (b"1,2013-01-01 00:00:00,25,12,CSH,30", b"2,2013-01-01 00:20:00,25,12,CSH,20.01"):
    ...     engine.event(line)
    >>> [(alert.event_id, alert.key, alert.aggregate) for alert in engine.alerts]
    [(2, '{payeeId=25}', Decimal('50.01'))]
    """

    def __init__(
        self,
        schema: Schema,
        *,
        late_policy: str = "evaluate",
        max_out_of_orderness_ms: int = 300_000,
        max_future_ms: int = MAX_FUTURE_MS,
        key_groups: int = 16,
    ):
        self.schema, self.late_policy, self.key_groups = schema, late_policy, key_groups
        self.max_out_of_orderness_ms, self.max_future_ms = max_out_of_orderness_ms, max_future_ms
        self.book, self.routes = RuleBook(schema), {}
        self.alerts_and_withdrawals: list[Alert | Withdrawal] = []  # the lines of the alerts' log
        self.shadow_alerts: list[Alert] = []  # those of the shadow log
        self.acks, self.dead_letters = [], []
        self.counts = Counter(dict.fromkeys(COUNTS, 0))
        self.tallies = RouteTallies(at_most=MAX_RULES)
        self.newest_of_log: list[int] = []  # newest event times of all records, on any route or none
        self.nan_as_null: Counter[str] = Counter()  # field -> its values that were NaN or the like
        self.stored_events: dict[tuple[Route, tuple], list[StoredEvent]] = defaultdict(list)
        self.newest: dict[Any, dict[tuple, int]] = defaultdict(dict)  # of each key-group: see note_time
        self.log_time_reached = 0  # in a log that is not live, the newest event time
        self.waits: list[AbsenceWait] = []
        self.suppressed: Counter[str] = Counter()  # rule id and version -> alerts that were not given
        self.muted: Counter[str] = Counter()  # likewise, as somebody has muted the rule or the group
        # (rule id, group) -> arrival of the event at which it fired
        self.reset: dict[tuple[int, tuple], int] = {}

    @property
    def alerts(self) -> AlertTable:
        return AlertTable(each for each in self.alerts_and_withdrawals if isinstance(each, Alert))

    # -- rules ---------------------------------------------------------------------------------------------------------

    def control(self, text: str | bytes, log_time: int = 0) -> dict:
        """Carries out a control message and returns its acknowledgement. `log_time`: as of an event."""
        self.advance_to(log_time)
        before = dict(self.book.rules)
        ack = self.book.apply(text)
        self._change_rules(before, cleared=ack.get("controlType") == "CLEAR_STATE_ALL")
        self.acks.append(ack)
        return ack

    def _change_rules(self, rules_before: dict[int, Rule], cleared: bool) -> None:
        """Does to the histories what follows from the rules that the book had before and those that it has now."""
        widest_before = {route: _widest_ms(rules) for route, rules in self.routes.items()}
        before = {rule_id: rule.route for rule_id, rule in rules_before.items()}
        after = {rule_id: rule.route for rule_id, rule in self.book.rules.items()}
        for route in set(before.values()):
            if cleared or route not in after.values():
                self._forget(route)
        self.reset = {
            (rule_id, group): arrival
            for (rule_id, group), arrival in self.reset.items()
            if not cleared and after.get(rule_id) == before.get(rule_id)
        }
        left = {rule_id for rule_id, route in before.items() if after.get(rule_id) != route}
        for stored in self.stored_events.values():
            for event in stored:
                event.counted_alert_rules -= left
        self.routes = self.book.routes()
        in_force = {rule.as_active for rule in self.book.sorted() if rule.is_judged}
        self.waits = [wait for wait in self.waits if wait.rule in in_force and not cleared]
        for route, rules in self.routes.items():
            if route in widest_before and _widest_ms(rules) > widest_before[route]:
                self._forget_out_of_reach(route, widest_before[route])

    def _forget(self, route: Route) -> None:
        for history in cast(tuple[dict, ...], (self.stored_events, self.newest)):
            for key in [key for key in history if key[0] == route]:
                del history[key]

    def _forget_out_of_reach(self, route: Route, widest_ms: int) -> None:
        """Forgets the events of a route that its previous widest window, `widest_ms`, no longer reached in any key-group.

        Counted back from what the whole log has reached, because what a key-group has depends on how many key-groups there are.
        """
        reached = min(time_reached(self.newest_of_log), self.log_time_reached)
        oldest = reached - widest_ms - self.max_out_of_orderness_ms
        for key, stored in self.stored_events.items():
            if key[0] == route:
                self.stored_events[key] = [event for event in stored if event.time >= oldest]
        for at, newest in self.newest.items():
            if at[0] == route:
                self.newest[at] = {group: time for group, time in newest.items() if time >= oldest}

    # -- events --------------------------------------------------------------------------------------------------------

    def event(self, line: bytes, place: str = "", log_time: int = 0) -> None:
        """Reads a record and evaluates it on each route that has a group for it; what becomes of it is counted for each.

        `log_time`: when it was logged, in ms since the epoch; 0: the log is not live.
        """
        nan_as_null: Counter[str] = Counter()
        try:
            events = self.schema.events(line, nan_as_null)
            for event in events:
                self.schema.check_future(event, log_time, self.max_future_ms)
        except BadRecord as error:
            self.dead_letters.append({"reason": str(error), "place": place})
            self.counts.update(records=1, deadLetters=1)
            return
        self.nan_as_null += nan_as_null
        for event in events:
            self.evaluate_event(event, log_time)

    def evaluate_event(self, event: dict[str, Any], log_time: int = 0) -> None:
        """Evaluates an event that has been read, or takes back one that came before."""
        returns = takes_back(event, self.schema)
        self.counts["records"] += 1
        self.newest_of_log = newest_times([*self.newest_of_log, event[self.schema.time_field]])
        self.advance_to(log_time or self.newest_of_log[0])
        routes = [
            route
            for route in self.routes
            if (returns or passes_filter(route.filter, event))
            and all(event[name] is not None for name in route.keys)
        ]
        self.counts["routed" if routes else "unrouted"] += 1
        for route in routes:
            rules = self.routes[route]
            if returns:
                fate, other = self._take_back(event, route, log_time), None
            else:
                fate, other = self._on_route(event, route, rules)
            if fate in ("evaluated", "storedLate"):
                self._wait(event, rules, bool(log_time), fate == "evaluated")
            examples = examples_of_loss(event, self.schema, route, fate, other) if other else ()
            self.tallies.add(route, rules[0].rule_id, len(rules), {fate: 1}, *examples)
            self.counts[fate] += 1

    def _on_route(
        self, event: dict[str, Any], route: Route, rules: tuple[Rule, ...]
    ) -> tuple[str, StoredEvent | None]:
        """The event's fate on the route; of a duplicate, also the event that it repeats; of one dropped late, the newest beside it."""
        time, event_id = event[self.schema.time_field], self.schema.id_of(event)
        group = tuple(event[name] for name in route.keys)
        if time < self._horizon(route, group):
            newest_group = next(iter(self._newest_of_key_group(route, group)))
            return "droppedLate", newest_event(self.stored_events[route, newest_group])
        self._expire(route, group)
        stored = self.stored_events[route, group]
        for other in stored:
            if other.id == event_id and other.time == time and not other.taken_back:
                return "duplicates", other
        latest = self.log_time_reached - self.max_out_of_orderness_ms
        late = time < latest and any(other.time - self.max_out_of_orderness_ms > time for other in stored)
        if late and self.late_policy == "drop":
            return "droppedLate", newest_event(stored)
        fields = {name: value for rule in rules for name, value in rule.fields_to_store(event).items()}
        current = StoredEvent(self.counts["records"], time, event_id, fields)
        stored.append(current)
        note_time(self._newest_of_key_group(route, group), group, time)
        if late and self.late_policy == "store":
            return "storedLate", None
        for rule in rules:
            if rule.is_judged and not rule.absence and self._is_judged(rule, group, current):
                self._evaluate(rule, group, stored, current, event)
        return "evaluated", None

    def _take_back(self, event: dict[str, Any], route: Route, log_time: int) -> str:
        """The fate of a record that takes back the event with its id, time and group: from now on that event counts nowhere.

        Time stays where the event has moved it, so other events are still late compared with it.
        """
        time, event_id = event[self.schema.time_field], self.schema.id_of(event)
        group = tuple(event[name] for name in route.keys)
        self._expire(route, group)
        for stored in self.stored_events[route, group]:
            if stored.id == event_id and stored.time == time and not stored.taken_back:
                stored.taken_back, stored.counted_alert_rules = True, set()
                self.waits = [
                    wait for wait in self.waits if not wait.was_started_by(route, event, event_id, time)
                ]
                for keys in dict.fromkeys(rule.keys for rule in self.routes[route] if stored.alerted):
                    values = [event[name] for name in keys]
                    of = group_key(keys, values), group_for_alert(keys, values)
                    self.alerts_and_withdrawals.append(Withdrawal(*of, event_id, time, log_time or None))
                return "takenBack"
        return "notHeld"

    def _is_judged(self, rule: Rule, group: tuple, current: StoredEvent) -> bool:
        """Whether a rule is evaluated at an event: a plain one if the event counts for it, every other one always."""
        return not rule.is_plain or self._counts(rule, rule.aggregations[0], group, current)

    def _evaluate(
        self, rule: Rule, group: tuple, stored: list[StoredEvent], current: StoredEvent, event: dict[str, Any]
    ) -> None:
        if rule.when and not is_true(rule.when, event):
            return
        for_alert = rule.conditions_for_alert(self._measure_conditions(rule, group, stored, current))
        if for_alert is None:
            return
        if any(each.resets for each in rule.aggregations):
            self.reset[rule.rule_id, group] = current.arrival
        if rule.at_most and not self._count_alert_if_allowed(rule, stored, current):
            self.suppressed[f"{rule.rule_id}.{rule.version}"] += 1
            return
        of_first, conditions = cast(tuple[Compared, Any], for_alert)
        values = tuple(event[name] for name in rule.keys)
        self._alert(
            *(rule, values, of_first, (current.id, current.time)),
            conditions=conditions,
            event=event_for_alert(rule.event_fields, event),
        )
        current.alerted = True

    def _measure_conditions(
        self, rule: Rule, group: tuple, stored: list[StoredEvent], current: StoredEvent
    ) -> list[list[Exact | None]]:
        """What the aggregates of each condition measure at an event."""
        with localcontext(prec=100):
            measures = {each: self._measure(rule, each, group, stored, current) for each in rule.aggregations}
        return [[measures[one] if one else None for one in each.aggregations] for each in rule.conditions]

    def _alert(self, rule: Rule, values: tuple, compared: Compared, at: tuple[Id, int], **more: Any) -> None:
        """Raises an alert of a group at an event with this id and time, unless it is muted."""
        key, group = group_key(rule.keys, values), group_for_alert(rule.keys, values)
        if self.book.is_muted(muted_entry(rule.rule_id, group), at[1]):
            self.muted[f"{rule.rule_id}.{rule.version}"] += 1
            return
        alert = Alert(
            *(rule.rule_id, rule.version, key, *compared, *at), group=group, carried=rule.carried, **more
        )
        in_shadow = self.book.rules.get(rule.rule_id, rule).state == "SHADOW"
        (self.shadow_alerts if in_shadow else self.alerts_and_withdrawals).append(alert)

    def _count_alert_if_allowed(self, rule: Rule, stored: list[StoredEvent], current: StoredEvent) -> bool:
        """Whether the rule has raised fewer than `at_most` alerts in the window of `at_most_per_ms` that ends with the current event."""
        earliest = current.time - rule.at_most_per_ms
        alerted = (each for each in stored if rule.rule_id in each.counted_alert_rules)
        if sum(earliest <= each.time <= current.time for each in alerted) >= (rule.at_most or 0):
            return False
        current.counted_alert_rules.add(rule.rule_id)
        return True

    def _measure(
        self, rule: Rule, of: Aggregation, group: tuple, stored: list[StoredEvent], current: StoredEvent
    ) -> Exact | None:
        if AGGREGATES[of.function].of_pair and not self._counts(rule, of, group, current):
            return None
        window = of.window_of(current, [other for other in stored if not other.taken_back])
        return of.measure([other.fields for other in window if self._counts(rule, of, group, other)])

    def _counts(self, rule: Rule, of: Aggregation, group: tuple, event: StoredEvent) -> bool:
        """An event with a null that an aggregation needs does not count for it, nor one from before the rule's last reset."""
        if event.taken_back or any(event.fields.get(name) is None for name in of.needed_names):
            return False
        return not of.resets or event.arrival > self.reset.get((rule.rule_id, group), -1)

    # -- absence -------------------------------------------------------------------------------------------------------

    def _wait(self, event: dict[str, Any], rules: tuple[Rule, ...], live: bool, may_alert: bool) -> None:
        """Ends the waits of its group that the event fulfils; if it `may_alert`, it may also start a wait."""
        for rule in rules:
            if not rule.absence or not rule.is_judged:
                continue
            rule = rule.as_active
            group = tuple(event[name] for name in rule.keys)
            if rule.aggregations[0].is_counted(event):
                self.waits = [wait for wait in self.waits if (wait.rule, wait.group) != (rule, group)]
            if may_alert and (rule.when is None or is_true(rule.when, event)):
                at = self.schema.id_of(event), event[self.schema.time_field]
                fields = event_for_alert(rule.event_fields, event)
                self.waits.append(AbsenceWait(self.log_time_reached, rule, group, *at, live, fields))

    def advance_to(self, time: int) -> None:
        """Raises the alerts of `absence` whose wait ended before `time`, ms: all records logged before it have been read."""
        self.log_time_reached = max(self.log_time_reached, time)
        for wait in [wait for wait in self.waits if wait.until_log_time < self.log_time_reached]:
            self.waits.remove(wait)
            compared, at = (Decimal(0), wait.rule.first.operator, wait.rule.first.limit), (wait.id, wait.time)
            self._alert(wait.rule, wait.group, compared, at, log_time=wait.alert_log_time, event=wait.event)
            for stored in self.stored_events[wait.rule.route, wait.group_of_route]:
                stored.alerted |= (stored.id, stored.time, stored.taken_back) == (*at, False)

    # -- expiry --------------------------------------------------------------------------------------------------------

    def _horizon(self, route: Route, group: tuple, newest: list[StoredEvent] | None = None) -> int:
        """The time before which a group, whose `newest` events suffice, stores no events: the time reached − the route's widest window − out-of-orderness."""
        times = [event.time for event in newest or self.stored_events[route, group]]
        reached = max(time_reached(times), time_reached(self._newest_of_key_group(route, group).values()))
        reached = min(reached, self.log_time_reached)
        return reached - _widest_ms(self.routes[route]) - self.max_out_of_orderness_ms

    def _expire(self, route: Route, group: tuple) -> None:
        horizon = self._horizon(route, group)
        stored = self.stored_events[route, group]
        self.stored_events[route, group] = [event for event in stored if event.time >= horizon]

    def _newest_of_key_group(self, route: Route, group: tuple) -> dict[tuple, int]:
        return self.newest[route, key_group_of(group, self.key_groups)]


def _widest_ms(rules: tuple[Rule, ...]) -> int:
    return max(rule.widest_ms for rule in rules)


def evaluate_log(schema: Schema, log: Iterable[tuple[str, bytes]], **settings) -> Reference:
    """Evaluates a log of ("event", line) and ("control", message) in order, and returns the reference that did."""
    reference = Reference(schema, **settings)
    for kind, text in log:
        (reference.event if kind == "event" else reference.control)(text)
    return reference
