"""Past events for trying rules quickly in this process: the engine's own compiled windows, without Spark.

lines ──► decode ──► columns of the newest events ──► route, evaluate one rule ──► its aggregate at every event
                                                                          └──► what another limit would have raised
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lab.engine.compiled.layout import (
    CONDITION,
    DENOMINATOR,
    HIGH_PART,
    LOW_PART,
    NUMERATOR,
    ROW,
    TAKES_BACK,
    VALUES_OF_CONDITION,
)
from lab.engine.compiled.rulenumbers import STATE, measure_scale
from lab.engine.loop.route import (
    alert_columns,
    arrival_times,
    matching_rows,
    routed_columns,
    when_columns,
    with_take_back_column,
)
from lab.engine.records.columns import (
    HEARD,
    ID_TEXT,
    LOG_TIME,
    SOURCE,
    Columns,
    concat_columns,
    take_rows,
    take_rows_in_order,
)
from lab.engine.records.decode import decode_records
from lab.engine.records.feeds import LooseLines
from lab.engine.windows.alertlines import first_row_of_each_alert
from lab.engine.windows.store import RouteStore
from lab.engine.windows.waits import Waits
from lab.model.aggregates import AGGREGATES, Exact, square_root_to_6_places
from lab.model.aggregation import Aggregation
from lab.model.alerts import event_id_text
from lab.model.field import Id
from lab.model.horizon import newest_times
from lab.model.keygroups import key_group_of, key_groups_of
from lab.model.operators import RELATIONS
from lab.model.reference import LATE_POLICIES
from lab.model.rule import Route, Rule, alerted_marker
from lab.model.schema import Schema
from lab.model.when import filter_of_values
from lab.past.limits import without_limit
from lab.past.pastevents import PastEvents
from lab.past.routehistory import PastEvent, RouteHistory, RuleOrRoute

LOW_BITS = (1 << 64) - 1
BATCH_ROWS = 1 << 14  # that an engine reads at once
PLACE = ":place"  # the column of row numbers; no field is called so


@dataclass(frozen=True)
class Aggregates:
    """A rule's first aggregate at each event that it judges: event times in ms, ids, values as floats (for pictures and sliders).

    `bases`: what the aggregate in its limit gives, as floats; 0 without one. `measures`: the values exactly, [n, 4] int64, as
    `lab.engine.compiled.limits.Measure` has them, in units of the last of `scale` digits.
    """

    times: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    bases: np.ndarray
    measures: np.ndarray
    scale: int

    def alert_mask(self, rule: Rule, limit: Decimal | float) -> np.ndarray:
        """Which of them alert at another limit, compared exactly; all, if they are only those at which the rule alerts.

        `limit`: a float is what it is written as, so 0.1 is a tenth.

        >>> from lab.model.schema import LOGINS
        >>> from lab.model.rules import parse_message
        >>> found = Aggregates(*np.zeros((4, 2)), np.array([[0, 30, 0, 1], [0, 50, 1, 3]]), 0)
        >>> found.alert_mask(parse_message("1: AVG(amount) over 1 h > 50", LOGINS).rule, 50).tolist()
        [False, True]
        """
        if not rule.can_count_alerts_at_other_limits:
            return np.ones(len(self.values), bool)
        compared = (
            AGGREGATES[rule.aggregation.function].to_compared_limit(Fraction(str(limit))) * 10**self.scale
        )
        whole, part = divmod(compared, 1)
        high_of_limit = min(max(whole >> 64, -(1 << 63)), (1 << 63) - 1)
        high, low = self.measures[:, 0], self.measures[:, 1].view(np.uint64)
        order = _order(high, high_of_limit)
        order = np.where(order, order, _order(low, np.uint64(whole & (1 << 64) - 1)))
        ties = np.flatnonzero(order == 0)
        if len(ties):  # then what is less than a unit decides
            parts, which = np.unique(self.measures[ties, 2:], axis=0, return_inverse=True)
            of_parts = [_order(Fraction(*each), part) for each in parts.tolist()]
            order[ties] = np.array(of_parts)[which.ravel()]
        return RELATIONS[rule.first.symbol](order, 0)

    def ascending(self) -> list[float]:
        """The values in order."""
        return np.sort(self.values).tolist()

    def exact_values(self) -> list[Exact]:
        """The values exactly, as limits are compared with them (`Aggregate.to_compared_limit`) in units of the last of `scale` digits."""
        high, low, part, of = (column.tolist() for column in self.measures.T)
        whole = [(each << 64) + (less & LOW_BITS) for each, less in zip(high, low)]
        return [Fraction(n * by + p, by) if p else n for n, p, by in zip(whole, part, of)]


class Past(PastEvents):
    """The newest events, `at_most` of them, in order of arrival. `history`: the rules of the engine that evaluates them.

    >>> from lab.model.schema import PAYMENTS
    >>> from lab.model.rules import parse_message
    >>> past = Past(PAYMENTS)
    >>> past.add([b"1,2013-01-01 00:00:00,25,12,CSH,30", b"2,2013-01-01 00:20:00,25,12,CSH,20.01"])
    2
    >>> rule = parse_message("1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)", PAYMENTS).rule
    >>> past.aggregates(rule).values.tolist()
    [30.0, 50.01]
    """

    def __init__(self, schema: Schema, at_most: int = 200_000, history: RouteHistory | None = None):
        super().__init__(schema, at_most, history)
        self._parts: list[Columns] = []

    def __len__(self) -> int:
        return sum(len(part[LOG_TIME]) for part in self._parts)

    def evaluated_count_and_time_range_ms(self, rule: Rule) -> tuple[int, int, int]:
        """How many events `aggregates` evaluates for a rule, here all; the smallest and the largest of their times, ms."""
        if not self._parts:
            return 0, 0, 0
        times = self._columns()[self.schema.time_field]
        return len(times), int(np.min(times)), int(np.max(times))

    def _add(self, lines: list[str | bytes], log_times: Sequence[int] | None) -> int:
        texts = [(line if isinstance(line, bytes) else line.encode()).rstrip(b"\r\n") for line in lines]
        data = b"\n".join(texts)
        if not data:
            return 0
        logged = np.zeros(len(texts), np.int64) if log_times is None else np.asarray(log_times, np.int64)
        logged = np.repeat(logged, [text.count(b"\n") + 1 for text in texts])
        records = LooseLines(data, logged)
        columns, kept, _ = decode_records(records, self.schema, self.history.settings.max_future_ms)
        if len(kept):
            columns = {name: _bare(values) for name, values in columns.items()}
            columns[LOG_TIME] = logged[kept]
            columns[SOURCE] = np.zeros(len(kept), np.int64)
            self.arrived += len(kept)
            self._parts.append(with_take_back_column(columns, self.schema))
            if len(self) > 1.25 * self.at_most:
                whole = self._columns()
                newest = len(whole[LOG_TIME]) - self.at_most
                self._parts = [{name: values[newest:] for name, values in whole.items()}]
                if self.history.has_much_to_forget:
                    self.history.forget_before(int(self._parts[0][LOG_TIME].min()))
        return len(kept)

    def _columns(self) -> Columns:
        if len(self._parts) > 1:
            self._parts = [
                {name: concat_columns([part[name] for part in self._parts]) for name in self._parts[0]}
            ]
        return self._parts[0]

    # -- a rule on them ------------------------------------------------------------------------------------------------

    def aggregates(self, rule: Rule) -> Aggregates:
        """The rule's first aggregate at each event at which it would alert with some limit, as its other conditions hold.

        Of a rule whose other limits its aggregates do not tell, only where it alerts: see `Rule.can_count_alerts_at_other_limits`.
        After `or`, the value may be that of another condition that holds.
        """
        if rule.can_count_alerts_at_other_limits:
            rule = without_limit(rule)
        columns = self._routed(rule) if self._parts else {"time": ()}
        if not len(columns["time"]):
            return _without_measures(np.empty(0, np.int64), np.empty(0, np.int64))
        with TemporaryDirectory(prefix="lab-past-") as folder:
            store = self._store(Path(folder, "past"), [rule])
            fates, found = store.evaluate(columns, 0, LATE_POLICIES.index(self.history.settings.late_policy))
            if rule.absence:
                waits = Waits(Path(folder, "waits"), store.rules[0], store.key_columns)
                reached = self._log_times_reached()[-1]
                due = waits.add_events(store, columns, fates, 0) + waits.advance_to(reached, reached)
                alerts = [each.alert for each in due]
                ids = np.array([event_id_text(alert.event_id) for alert in alerts], object)
                times = np.array([alert.event_time for alert in alerts], np.int64)
                return _without_measures(times, ids.astype(np.int64) if self.schema.has_numeric_id else ids)
        first, own = first_row_of_each_alert(store, found), rule.conditions[0]
        bases = np.zeros(len(first))
        if own.limit_of:
            after = np.minimum(first + 1, len(found) - 1)
            has_base = (found[first, CONDITION] == 0) & (found[after, CONDITION] == 1)
            bases[has_base] = _floats(found[first[has_base] + 1], own.limit_of, self.schema)
        found = found[first]
        rows, values = found[:, ROW], np.zeros(len(found))
        for number in np.unique(found[:, CONDITION]).tolist():  # of the first condition that has a value
            of_it = found[:, CONDITION] == number
            place, value = divmod(number, VALUES_OF_CONDITION)
            of = rule.conditions[place].aggregations[value]
            values[of_it] = _floats(found[of_it], cast(Aggregation, of), self.schema)
        scale = measure_scale(own.aggregation, self.schema)
        ids, measures = self._ids(columns, rows), np.ascontiguousarray(found[:, HIGH_PART:])
        return Aggregates(columns["time"][rows], ids, values, bases, measures, scale)

    def _store(self, path: Path, rules: Sequence[Rule]) -> RouteStore:
        """A new store of a route for its rules, which are judged as if they were active."""
        fields = {name for rule in rules for name in rule.stored_field_names}
        markers = (alerted_marker(rule.rule_id, 0) for rule in rules if rule.at_most)
        settings, active = self.history.settings, tuple(replace(rule, state="ACTIVE") for rule in rules)
        of_engine = settings.key_groups, settings.max_out_of_orderness_ms
        return RouteStore(path, self.schema, rules[0].route, [*sorted(fields), *markers], active, *of_engine)

    def seconds_and_bytes(self, rules: Sequence[Rule]) -> tuple[float, int]:
        """The seconds of CPU in which these events are routed, evaluated and stored for the rules of one route, and their memory.

        As in an engine, they come in batches, between which old events are removed; without the waits of `absence`.
        """
        if not self._parts:
            return 0.0, 0
        rules = [rule.with_lists(self.history.book.lists) for rule in rules]
        with TemporaryDirectory(prefix="lab-past-") as folder:
            store, most = self._store(Path(folder, "past"), rules), 0
            late_policy, started = LATE_POLICIES.index(self.history.settings.late_policy), process_time()
            columns = self._routed_of(self._columns(), np.arange(len(self)), rules)
            for first in range(0, len(columns["time"]), BATCH_ROWS):
                some = {name: values[first : first + BATCH_ROWS] for name, values in columns.items()}
                store.evaluate(some, first, late_policy)
                most = max(most, store.memory_bytes)
            return process_time() - started, most

    def _ids(self, columns: Columns, rows: np.ndarray) -> np.ndarray:
        if self.schema.has_numeric_id:
            return columns["id"][rows]
        return take_rows(columns[ID_TEXT], rows).to_numpy(zero_copy_only=False)

    def _occurs(self, name: str, value: Any) -> bool:
        # without STATE: by it, a record that takes an event back matches every filter
        columns = {name: values for name, values in self._columns().items() if name != STATE}
        route = Route((), filter_of_values([(name, (value,))]))
        return len(matching_rows(columns, route, self.schema)) > 0

    def _newest_values(self, name: str, most: int) -> list:
        return self._values(name, np.arange(len(self))[-most:])

    def _routed(self, rule: Rule) -> Columns:
        """The events that come to a rule, each as the named lists were when it was logged."""
        columns = self._columns()
        parts = [self._routed_of(columns, rows, [each]) for each, rows in self._as_lists_changed(rule)]
        if len(parts) == 1:
            return parts[0]
        routed = {name: concat_columns([part[name] for part in parts]) for name in parts[0]}
        in_order = np.argsort(routed.pop(PLACE), kind="stable")
        return {name: take_rows(values, in_order) for name, values in routed.items()}

    def _as_lists_changed(self, of: RuleOrRoute) -> list[tuple[RuleOrRoute, np.ndarray]]:
        """A rule or route with what was in its named lists, and the rows that were logged then."""
        versions = self.history.as_lists_changed(of)
        if len(versions) == 1:
            return [(versions[0][1], np.arange(len(self)))]
        starts = [since for since, _ in versions]
        version = np.searchsorted(starts, self._columns()[LOG_TIME], side="right") - 1
        return [(each, np.flatnonzero(version == number)) for number, (_, each) in enumerate(versions)]

    def _rows_on(self, route: Route) -> np.ndarray:
        """The rows that pass a route's filter, in order."""
        columns = self._columns()
        found = [
            rows[matching_rows(_rows_of(columns, rows), each, self.schema)]
            for each, rows in self._as_lists_changed(route)
        ]
        return np.sort(np.concatenate(found))

    def _routed_of(self, columns: Columns, within: np.ndarray, rules: Sequence[Rule]) -> Columns:
        """Those of some rows that come to the rules of one route, with their places."""
        route = rules[0].route
        rows = within[matching_rows(_rows_of(columns, within), route, self.schema)]
        routed = routed_columns(columns, rows, route, rules, self.schema)
        keys = [values for name, values in routed.items() if name.startswith("key:")]
        key_groups = key_groups_of(keys, len(rows), self.history.settings.key_groups)
        return {
            **routed,
            **when_columns(tuple(rules), columns, rows, self.schema),
            **alert_columns(tuple(rules), columns, rows),
            "keyGroup": key_groups.astype(np.int64),
            HEARD: self._log_times_reached()[rows],
            LOG_TIME: columns[LOG_TIME][rows],
            PLACE: rows,
        }

    def _log_times_reached(self) -> np.ndarray:
        """The log time that each event shows to be reached, ms; of a log that is not live, the newest event time until then."""
        return np.maximum.accumulate(arrival_times(self._columns(), self.schema))

    def rows_of(self, event_id: Id, event_time: int | None = None) -> list[int]:
        if not self._parts:
            return []
        columns, numeric = self._columns(), self.schema.has_numeric_id
        if numeric and not isinstance(event_id, int):
            return []
        ids = np.asarray(columns[self.schema.id_fields[0]] if numeric else columns[ID_TEXT])
        found = ids == (event_id if numeric else event_id_text(event_id))
        if STATE in columns:
            found &= np.asarray(columns[STATE]) != TAKES_BACK
        if event_time is not None:
            found &= np.asarray(columns[self.schema.time_field]) == event_time
        rows = np.flatnonzero(found)
        return rows[np.argsort(columns[LOG_TIME][rows], kind="stable")].tolist()

    def log_times_of(self, row: int) -> tuple[int, int]:
        log_time = int(self._columns()[LOG_TIME][row])
        return log_time, log_time or int(self._log_times_reached()[row])

    def event_in(self, row: int) -> dict[str, Any]:
        return {name: self._values(name, np.array([row]))[0] for name in self.schema.names}

    def events_of_key_group(self, route: Route, group: tuple, last: int | None = None) -> list[PastEvent]:
        if not self._parts:
            return []
        columns, schema = self._columns(), self.schema
        log_times, times = columns[LOG_TIME], np.asarray(columns[schema.time_field])
        rows = self._rows_on(route)
        keyed = routed_columns(columns, rows, route, (), schema)
        keys = [values for name, values in keyed.items() if name.startswith("key:")]
        count = self.history.settings.key_groups
        rows = rows[key_groups_of(keys, len(rows), count) == key_group_of(group, count)]
        rows = rows[np.argsort(log_times[rows], kind="stable")]
        if last is not None:
            rows = rows[: int(np.flatnonzero(rows == last)[0]) + 1]
        groups = list(zip(*(self._values(name, rows) for name in route.keys))) or [()] * len(rows)
        own = np.array([each == group for each in groups], bool)
        if STATE in columns:  # what takes an event of another group back changes nothing here
            kept = own | (np.asarray(columns[STATE])[rows] != TAKES_BACK)
            rows, own, groups = rows[kept], own[kept], [each for each, keep in zip(groups, kept) if keep]
        fields = {name: self._values(name, rows[own]) for name in schema.names}
        of_group = dict(zip(rows[own].tolist(), (dict(zip(fields, one)) for one in zip(*fields.values()))))
        reached = np.where(log_times[rows] > 0, log_times[rows], self._log_times_reached()[rows])
        each = (rows.tolist(), log_times[rows].tolist(), reached.tolist(), times[rows].tolist())
        return [
            PastEvent(n, logged, reached, time, groups[n], of_group.get(row))
            for n, (row, logged, reached, time) in enumerate(zip(*each))
        ]

    def all_events(self) -> list[dict[str, Any]]:
        if not self._parts:
            return []
        columns = self._columns()
        rows = np.arange(len(self))
        rows = rows[np.asarray(columns[STATE]) != TAKES_BACK] if STATE in columns else rows
        fields = {name: self._values(name, rows) for name in self.schema.names}
        return [dict(zip(fields, one)) for one in zip(*fields.values())]

    def newest_event_times_before(self, log_time: int) -> list[int]:
        if not self._parts:
            return []
        columns = self._columns()
        return newest_times(
            np.asarray(columns[self.schema.time_field])[columns[LOG_TIME] < log_time].tolist()
        )

    def _values(self, name: str, rows: np.ndarray) -> list:
        field, values = self.schema.field(name), take_rows(self._columns()[name], rows)
        values = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
        if not field.is_decimal:
            return values
        return [None if value is None else Decimal(int(value)).scaleb(-field.scale) for value in values]


def _without_measures(times: np.ndarray, ids: np.ndarray) -> Aggregates:
    nothing = np.zeros(len(times))
    return Aggregates(times, ids, nothing, nothing, np.zeros((len(times), 4), np.int64), 0)


def _order(one: Any, other: Any) -> Any:
    """-1, 0 or 1, as `one` is less than, equal to or greater than the other."""
    return np.subtract(one > other, one < other, dtype=np.int8)


def _floats(alerts: np.ndarray, of: Aggregation, schema: Schema) -> np.ndarray:
    """What alerts report of an aggregation, nearly."""
    high, low = alerts[:, HIGH_PART], alerts[:, LOW_PART]
    values = np.where(high == low >> 63, low, high * 2.0**64 + low.astype(np.uint64))
    values = (values + alerts[:, NUMERATOR] / alerts[:, DENOMINATOR]) / 10.0 ** measure_scale(of, schema)
    return (
        np.sqrt(values)
        if AGGREGATES[of.function].to_reported is square_root_to_6_places
        else np.round(values, 9)
    )


def _rows_of(columns: Columns, rows: np.ndarray) -> Columns:
    return {name: take_rows_in_order(values, rows) for name, values in columns.items()}


def _bare(values: pa.Array) -> np.ndarray | pa.Array:
    """As the compiled windows take it: numbers without nulls are a NumPy array."""
    return values.to_numpy() if pa.types.is_int64(values.type) and not values.null_count else values
