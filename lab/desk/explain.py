"""From what a witness saw to a verdict: the window with each condition building up, and the smallest changes that flip it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from typing import Any

from lab.desk.verdict import Change, MeasuredAt, WindowEvent
from lab.desk.witness import Moment, Witness
from lab.model.aggregates import AGGREGATES, Exact
from lab.model.aggregation import Aggregation, Condition
from lab.model.alerts import event_id_text
from lab.model.formatting import plain_text
from lab.model.language import say
from lab.model.messages import MAX_MULTIPLE
from lab.model.referencestate import StoredEvent
from lab.model.rule import Rule
from lab.model.schema import Schema
from lab.model.times import duration_words
from lab.model.when import AllOf, When, condition_fields, is_true, when_text
from lab.past.routehistory import PastEvent

MOST_EVENTS = 1_000  # in a window: with more, only limits are tried
MOST_POINTS = 100  # at which the value so far is computed
MOST_MEASURED = 400_000  # events in all of these prefixes of a window together
SECOND = 1_000  # ms
SMALLEST = Decimal("0.000001")  # step of a multiple
DOUBLINGS = 62  # of a change of an amount


def false_part(when: When, event: Mapping[str, Any]) -> When:
    """The first part of a condition that is false of an event; of an `or`, whose parts are all false, the whole."""
    if isinstance(when, AllOf):
        return false_part(next(part for part in when.parts if not is_true(part, event)), event)
    return when


def part_and_values(when: When, event: Mapping[str, Any]) -> tuple[str, str]:
    """A condition in words, and the values of an event that it looks at."""
    values = (f"{name} = {_value_text(event[name])}" for name in condition_fields(when))
    return when_text(when), ", ".join(values)


def _value_text(value: object) -> str:
    return "null" if value is None else plain_text(value)


def measured_conditions(moment: Moment) -> tuple[MeasuredAt, ...]:
    """Each condition of the rule at the event."""
    pairs = zip(moment.rule.conditions, moment.measures())
    return tuple(MeasuredAt(each, each.measured_condition(*pair), each.holds(*pair)) for each, pair in pairs)


# -- the window --------------------------------------------------------------------------------------------------------


def window_events(witness: Witness, moment: Moment) -> tuple[WindowEvent, ...]:
    """The records of the group in the widest window of the conditions, by event time, with what became of each."""
    rule, time = moment.rule, moment.current.time
    widest = max(each.reach_ms for each in rule.aggregations)
    stored = {each.arrival: each for each in moment.stored}
    newest, found = None, list[WindowEvent]()
    told: list[tuple[PastEvent, str, int | None]] = []
    for event, fate in witness.fates:
        if event.number > moment.current.arrival:
            break
        told.append((event, fate, newest))
        newest = max(newest or event.event_time, event.event_time)
    inside = [each for each in told if time - widest <= each[0].event_time <= time and each[1] != "unrouted"]
    inside.sort(key=lambda each: each[0].event_time)
    there = [each for each in moment.stored if not each.taken_back]
    windows = [each.aggregation.window_of(moment.current, there) for each in rule.conditions]
    so_far = [_builds_up(moment, *each) for each in zip(rule.conditions, windows)]
    first = {id(each) for each in (*windows[0], moment.current)}
    for event, fate, newest_before in inside:
        held, more = stored.get(event.number), dict[str, Any]()
        if held:
            more["counts"] = tuple([id(held) in values for values in so_far])
            more["so_far"] = tuple([values.get(id(held)) for values in so_far])
            more["is_in_first"] = id(held) in first
        note = _note(moment, held, fate, witness, event, newest_before)
        found.append(_shown(event, witness.schema, note=note, **more))
    return tuple(found)


def _builds_up(moment: Moment, condition: Condition, window: list[StoredEvent]) -> dict[int, Decimal | None]:
    """Of each event that counts, by its `id()`, the value over those until then; None where it has none.

    Of many events, it computes only about `MOST_POINTS` values, always including the last one; the others are None.
    """
    of = condition.aggregation
    counted = [each for each in window if moment.counts(of, each)]
    values, digits = _in_last_digits(of.arguments_of([each.fields for each in counted]), of)
    count = len(counted)
    step = max(-(-count // MOST_POINTS), -(-count * count // (2 * MOST_MEASURED)), 1)
    so_far = dict.fromkeys(map(id, counted))
    with localcontext(prec=100):
        for n in range(count - 1, -1, -step):
            measure = of.measure_of(values[: n + 1])
            if digits and measure is not None:
                if isinstance(measure, Fraction):
                    measure /= 10**digits
                else:
                    measure = Decimal(measure).scaleb(-digits)
            so_far[id(counted[n])] = _as_shown(of, measure)
    return so_far


def _in_last_digits(values: list, of: Aggregation) -> tuple[list, int]:
    """Decimals that an aggregate takes as integers, which add up faster; what it measures has so many more digits before the point."""
    if not values or not all(isinstance(value, Decimal) for value in values):
        return values, 0
    places = max(-_exponent(value) for value in values)
    return [int(value.scaleb(places)) for value in values], places * AGGREGATES[of.function].unit_power


def _shown(event: PastEvent, schema: Schema, **more: Any) -> WindowEvent:
    fields = event.fields_if_own_group or {}
    return WindowEvent(event_id_text(schema.id_of(fields)), event.event_time, fields, **more)


def _note(
    moment: Moment,
    held: StoredEvent | None,
    fate: str,
    witness: Witness,
    event: PastEvent,
    newest_before: int | None,
) -> str:
    """What lateness, duplicates, resets and take-backs did to a record."""
    if fate in FATES:
        return say(FATES[fate])
    if held is None:
        return say("forgotten since")
    if held.taken_back:
        return say("taken back")
    said = [say("this event")] if held is moment.current else []
    behind = (newest_before or event.event_time) - event.event_time
    if behind > witness.max_out_of_orderness_ms:
        said.append(say("late by {time}", time=duration_words(behind)))
    if fate == "storedLate":
        said.append(say("raises no alert"))
    for of in (each.aggregation for each in moment.rule.conditions):
        missing = [name for name in of.needed_names if held.fields.get(name) is None]
        if missing:
            text = when_text(of.where) if of.where and of.where_result_name in missing else ", ".join(missing)
            said.append(say("not counted: {what}", what=text))
        elif of.resets and not moment.counts(of, held):
            said.append(say("before the last reset"))
        elif of.exclude_current and held is moment.current:
            said.append(say("not counted: {what}", what=say("the current event")))
    return "; ".join(dict.fromkeys(said))


FATES = {
    "duplicates": "duplicate, ignored",
    "droppedLate": "too late, dropped",
    "takenBack": "takes an event back",
    "notHeld": "takes back what is not stored",
}


# -- the smallest changes ----------------------------------------------------------------------------------------------


def smallest_changes(moment: Moment, wider: Moment | None) -> tuple[Change, ...]:
    """For each condition and field, the smallest change of one thing that gives the other verdict at this event.

    What came before stays as it was. `wider`: the same moment with older events, for longer windows.
    """
    found = [
        change
        for number, condition in enumerate(moment.rule.conditions)
        for change in (
            _limit_change(moment, number, condition),
            _window_change(moment, wider, number, condition),
        )
        if change
    ]
    fields = dict.fromkeys(
        each.aggregation.field for each in moment.rule.conditions if each.aggregation.field
    )
    found += [change for name in fields if (change := _amount_change(moment, name))]
    return tuple(found)


def _with_condition(rule: Rule, number: int, **changes: Any) -> Rule:
    conditions = list(rule.conditions)
    conditions[number] = replace(conditions[number], **changes)
    return replace(rule, conditions=tuple(conditions))


def _limit_change(moment: Moment, number: int, condition: Condition) -> Change | None:
    measured = condition.measured_condition(*moment.measures()[number])
    if measured.aggregate is None or measured.limit is None:
        return None
    at, step = measured.aggregate, Decimal(1).scaleb(min(_exponent(measured.aggregate), 0))
    if condition.limit_of:
        base = _as_shown(condition.limit_of, moment.measures()[number][1])
        if not base:
            return None
        # the multiple at which the limit is the value; roots are rounded, so its neighbours are tried, too
        step, once = SMALLEST, Fraction(base) / condition.divided_by
        exact = Fraction(condition.limit) + Fraction(at - measured.limit) / once
        around = [Decimal(way(exact / Fraction(step))) * step for way in (floor, ceil)]
    else:
        around = [at]
    limits = sorted(
        {one + n * step for one in around for n in (-1, 0, 1)}, key=lambda one: abs(one - condition.limit)
    )
    for limit in limits:
        is_allowed = condition.limit_of is None or 0 < limit <= MAX_MULTIPLE
        if is_allowed and moment.holds(_with_condition(moment.rule, number, limit=limit)) != moment.holds():
            return Change("limit", number, plain_text(condition.limit), plain_text(limit))
    return None


def _as_shown(of: Aggregation, measure: Exact | None) -> Decimal | None:
    return None if measure is None else AGGREGATES[of.function].to_reported(measure)


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _window_change(moment: Moment, wider: Moment | None, number: int, condition: Condition) -> Change | None:
    of = condition.aggregation
    if not of.has_window:
        return None
    for where, is_candidate in (
        (moment, lambda ms: ms < of.window_ms),
        (wider, lambda ms: ms > of.window_ms),
    ):
        if where is None or len(where.stored) > MOST_EVENTS:
            continue
        distances = {
            where.current.time - of.ends_before_ms - each.time
            for each in where.stored
            if each.time <= where.current.time - of.ends_before_ms
        }
        # shorter by as little as leaves out one more event; longer by as little as lets one more in; in whole seconds, as rules have
        seconds = {-(-ms // SECOND) - (where is moment) for ms in distances} - {0}
        for ms in sorted(filter(is_candidate, (n * SECOND for n in seconds)), reverse=where is moment):
            changed = _with_condition(moment.rule, number, aggregation=replace(of, window_ms=ms))
            if ms > 0 and where.holds(changed) != moment.holds():
                return _window_of(number, of, ms, where is moment)
    return None


def _window_of(number: int, of: Aggregation, ms: int, shorter: bool) -> Change:
    """Another window; a shorter one as what it must be below, if that is the rounder number."""
    now, then, below = (duration_words(each) for each in (of.window_ms, ms, ms + SECOND))
    is_round = shorter and len(below.split()[0]) <= len(then.split()[0])
    return Change("window", number, now, below if is_round else then, is_round)


def _amount_change(moment: Moment, name: str) -> Change | None:
    """Another amount in the event itself: found by doubling, then by halving, so the nearest where the value only rises or falls."""
    field, value = moment.reference.schema.field(name), moment.event[name]
    of_group = {*moment.rule.keys, *condition_fields(moment.rule.filter)}
    if not isinstance(value, int | Decimal) or name in of_group or len(moment.stored) > MOST_EVENTS:
        return None
    unit: int | Decimal = Decimal(1).scaleb(-field.scale) if field.is_decimal else 1
    holds = moment.holds()

    def flips(units: int) -> bool:
        return moment.with_event(**{name: value + units * unit}).holds() != holds

    nearest = [units for sign in (1, -1) if (units := _first(flips, sign)) is not None]
    if not nearest:
        return None
    then = value + min(nearest, key=abs) * unit
    return Change(name, 0, plain_text(value), plain_text(then))


def _first(flips: Callable[[int], bool], sign: int) -> int | None:
    """The first whole number with a sign that flips, by doubling and halving; None if none does."""
    high = next((1 << n for n in range(DOUBLINGS) if flips(sign << n)), None)
    if high is None:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if flips(sign * middle) else (middle, high)
    return sign * high


# -- absence -----------------------------------------------------------------------------------------------------------


def events_after(witness: Witness, at: PastEvent) -> tuple[WindowEvent, ...]:
    """The records of the group that came after an event while another one was awaited, and why they did not end the wait."""
    found, wait, of = list[WindowEvent](), witness.wait, witness.rule.aggregation
    for event, fate in witness.fates:
        fields = event.fields_if_own_group or {}
        if event.number < at.number or (wait and event.reached > wait.until_log_time):
            continue
        counts = event.number > at.number and fate in ("evaluated", "storedLate") and of.is_counted(fields)
        note = "" if counts else say(FATES[fate]) if fate in FATES else ""
        if event.number == at.number:
            note = say("this event")
        elif not (counts or note):
            note = say("not counted: {what}", what=when_text(of.where) if of.where else "")
        found.append(_shown(event, witness.schema, counts=(counts,), note=note))
        if witness.wait_ended_by and event.number == witness.wait_ended_by.number:
            break
    return tuple(found)


def wait_changes(witness: Witness, at: PastEvent) -> tuple[Change, ...]:
    """The window that gives the other verdict: as long as until the next event that counts, or shorter by as little as excludes it."""
    wait, of = witness.wait, witness.rule.aggregation
    later = (
        event
        for event, fate in witness.fates
        if event.number > at.number
        and fate in ("evaluated", "storedLate")
        and of.is_counted(event.fields_if_own_group or {})
    )
    ended = witness.wait_ended_by if witness.wait_ended_by else next(later, None) if witness.alert else None
    if ended is None or wait is None:
        return ()
    waited, shorter = ended.reached - wait.started_log_time, witness.alert is None
    ms = SECOND * (-(-waited // SECOND) - shorter)
    return (_window_of(0, of, ms, shorter),) if ms > 0 else ()
