"""What must have come out: the reference over the effective log order, worked out from the marks that were written ahead alone."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from lab.engine.compiled.rulenumbers import transport_columns
from lab.model.aggregation import SPOKE, WHERE
from lab.model.alerts import Alert, Withdrawal
from lab.model.field import Id
from lab.model.jsontext import BadRecord
from lab.model.keygroups import digest, key_group_of
from lab.model.reference import COUNTS, Reference
from lab.model.routestats import RouteTallies, bounded_route_id
from lab.model.schema import Schema
from lab.state.read import StateReader
from tests.sim.protocol import Shop
from tests.sim.topics import EXPIRED

EVENT = {"control": 0, "events": 1}


def effective_order(shop: Shop) -> list[tuple]:
    """(effective log time, control first, source, number, late, bytes, place) of all records taken, batch by batch.

    A record is late for a cut if it turned up after that was planned; else its own source alone can hold it up. One that turns
    up while the records of its log time are being taken in parts comes after those that have been.
    """
    order: list[tuple] = []
    newest: dict[tuple[str, int], int] = {}
    # of each batch: its cut, its newest log time, how many records each source had
    seen: list[tuple[int, int, dict]] = []
    start = shop.beginning()
    latest: dict[tuple[str, int], int] = {}  # log time of the records before, of each source
    for end, there in shop.planned():
        taken = []
        for log, sources in shop.logs.sources.items():
            for source, records in enumerate(sources):
                at = end[log].get(str(source), 0)
                # there is nothing of a source where it enters
                first, last = (
                    shop.logs.before(log, source, position)
                    for position in (start[log].get(str(source), at), at)
                )
                for number in range(first, last):
                    record = records[number]
                    if record is EXPIRED:
                        continue
                    after = [(c, t) for c, t, had in seen if number >= had.get((log, source), 0)]
                    in_time = latest[log, source] = max(latest.get((log, source), 0), record.log_time)
                    effective = max(in_time, newest.get((log, source), 0), *(cut for cut, _ in after))
                    newest[log, source] = effective
                    late = effective > in_time or any(in_time <= before for _, before in after)
                    place = shop.logs.place(log, source, number)
                    taken.append((effective, EVENT[log], source, number, late, record.value, place))
        order += sorted(taken, key=lambda each: each[:4])
        start = end
        seen.append((end["cut"], max((each[0] for each in taken), default=0), there))
    return order


def differences(shop: Shop, max_lines: int = 3) -> list[str]:
    """What is not as it should be; nothing if all is well."""
    order = effective_order(shop)
    for before, after in pairwise(order):
        late = before[4] or after[4]
        if before[0] > after[0] or (not late and before[:4] > after[:4]):
            return [f"not in log order: {before} before {after}"]
    reference, log_times, of_shadow = reference_of(shop, order)
    found = [
        *_compared("alerts", _dated(reference.alerts_and_withdrawals, log_times), _alerts(shop, "alerts")),
        *_compared("shadow alerts", _dated(reference.shadow_alerts, of_shadow), _alerts(shop, "shadow")),
        *_compared("acks", Counter(_acks(reference, order)), _delivered(shop, "acks")),
        *_compared("dead letters", Counter(_letters(reference)), _delivered(shop, "deadLetters")),
        *_counts(shop, reference),
        *_key_groups(shop, reference, order),
        *_state(shop, reference),
    ]
    if not found and [json.dumps(ack["place"]) for ack in _acked(shop)] != [
        json.dumps(each[6]) for each in order if not each[1]
    ]:
        found.append("acks are not in log order")
    return found[:max_lines]


def reference_of(
    shop: Shop, order: list[tuple], key_groups: int | None = None
) -> tuple[Reference, list[int], list[int]]:
    """The reference that has seen all, and the log time of each of its lines for the alerts log and for the shadow log."""
    settings = shop.settings
    reference = Reference(
        settings.schema,
        late_policy=settings.late_policy,
        max_out_of_orderness_ms=settings.max_out_of_orderness_ms,
        max_future_ms=settings.max_future_ms,
        key_groups=key_groups or settings.key_groups,
    )
    log_times, of_shadow = list[int](), list[int]()

    def date(log_time: int) -> None:
        log_times.extend([log_time] * (len(reference.alerts_and_withdrawals) - len(log_times)))
        of_shadow.extend([log_time] * (len(reference.shadow_alerts) - len(of_shadow)))

    for each in order:
        if each[1] == EVENT["control"]:
            reference.control(each[5], each[0])
        else:
            reference.event(each[5], each[6], each[0])
        date(each[0])
    if planned := shop.planned():
        reference.advance_to(planned[-1][0]["cut"])
        date(0)
    return reference, log_times, of_shadow


def _compared(what: str, wanted: Counter, got: Counter) -> list[str]:
    missing, extra = list((wanted - got).elements()), list((got - wanted).elements())
    return [f"{what}: missing {missing[:2]}, too many {extra[:2]}"] if missing or extra else []


def _dated(lines: Sequence[Alert | Withdrawal], log_times: list[int]) -> Counter:
    return Counter(
        replace(told, log_time=told.log_time or at).to_json()[:-1]
        for told, at in zip(lines, log_times, strict=True)
    )


def _acks(reference: Reference, order: list[tuple]) -> list[str]:
    control = [each for each in order if not each[1]]
    return [
        json.dumps(ack | {"place": each[6], "logTime": each[0]})
        for ack, each in zip(reference.acks, control, strict=True)
    ]


def _letters(reference: Reference) -> list[str]:
    return [f"{letter['reason']} {letter['place']}" for letter in reference.dead_letters]


def _batches(shop: Shop, log: str) -> dict[int, dict[int, list[str]]]:
    """Batch -> delivery -> lines."""
    found: dict[int, dict[int, list[str]]] = {}
    for batch, delivery, lines in shop.sink.logs.get(log, ()):
        found.setdefault(batch, {}).setdefault(delivery, []).extend(lines)
    return found


def _lines(shop: Shop, log: str, plain=lambda line: line) -> list[str]:
    """Each batch's lines once; of deliveries that were repeated all lines must be among those of the last."""
    lines = []
    for batch, deliveries in sorted(_batches(shop, log).items()):
        last = [plain(line) for line in deliveries[max(deliveries, key=lambda d: (len(deliveries[d]), d))]]
        for others in deliveries.values():
            extra = Counter(map(plain, others)) - Counter(last)
            assert not extra or log == "stats", (
                f"{log} of batch {batch} differ from one delivery to the next: {extra}"
            )
        lines += last
    return lines


def _alerts(shop: Shop, log: str) -> Counter:
    return Counter(_lines(shop, log, lambda line: line.rsplit(',"alertTime"', 1)[0]))


def _acked(shop: Shop) -> list[dict]:
    return [json.loads(line) for line in _lines(shop, "acks")]


def _delivered(shop: Shop, log: str) -> Counter:
    if log == "deadLetters":
        letters = map(json.loads, _lines(shop, log))
        return Counter(f"{letter['reason']} {letter['place']}" for letter in letters)
    return Counter(_lines(shop, log))


def _counts(shop: Shop, reference: Reference) -> list[str]:
    got, tallies = dict.fromkeys(COUNTS, 0), RouteTallies()
    for line in _lines(shop, "stats"):
        stats = json.loads(line)
        tallies.add_stats(stats)
        for name in COUNTS:
            got[name] += stats.get(name, 0)
    wanted = {name: reference.counts[name] for name in COUNTS}
    if got != wanted:
        return [f"counts: {got}, expected {wanted}"]
    fates, expected = (
        {bounded_route_id(route): +tally.counts for route, tally in of.by_route.items()}
        for of in (tallies, reference.tallies)
    )
    return [f"counts of routes: {fates}, expected {expected}"] if fates != expected else []


def _key_groups(shop: Shop, reference: Reference, order: list[tuple]) -> list[str]:
    """What depends on the number of key-groups, where no record trails the log's newest by more than is allowed."""
    newest = 0
    for each in order:
        if each[1] == EVENT["control"]:
            continue
        try:
            events = reference.schema.events(each[5])
            for event in events:
                reference.schema.check_future(event, each[0], reference.max_future_ms)
        except BadRecord:
            continue
        for event in events:
            time = event[reference.schema.time_field]
            newest = max(newest, time)
            if time < newest - reference.max_out_of_orderness_ms:
                return []
    other, *_ = reference_of(shop, order, key_groups=1 if reference.key_groups > 1 else 16)
    alerts, others = (
        Counter(line.to_json() for line in of.alerts_and_withdrawals) for of in (reference, other)
    )
    return _compared("alerts with other key-groups", alerts, others)


def _state(shop: Shop, reference: Reference) -> list[str]:
    """The events held after the last batch, as the files in the checkpoint have them."""
    if not shop.planned():
        return []
    for route, group in list(reference.stored_events):
        reference._expire(route, group)
    wanted: Counter = Counter()
    for (route, group), held in reference.stored_events.items():
        for event in (event for event in held if not event.taken_back):
            fields = _numbers(
                {name: value for name, value in event.fields.items() if value is not None}, reference.schema
            )
            event_id = event.id if isinstance(event.id, int) else _id_digest(event.id)
            wanted[route.id, key_group_of(group, reference.key_groups), event_id, event.time, fields] += 1
    got: Counter = Counter()
    for plan, held in StateReader(shop.checkpoint).stored_events():
        # what a rule gave is compared by what it gives and suppresses next
        columns = [name for name in held.column_names if name.startswith("value:") and name[6:7] != SPOKE]
        for row in held.to_pylist():
            fields = tuple(sorted((name[6:], row[name]) for name in columns if row[name] is not None))
            got[plan.route.id, row["keyGroup"], row["id"], row["time"], fields] += 1
    return _compared("held", wanted, got)


def _id_digest(event_id: Id) -> int:
    text = json.dumps(event_id, separators=(",", ":"))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _numbers(fields: dict, schema: Schema) -> tuple:
    numbers = []
    for name, value in fields.items():
        scale = None if name.startswith(WHERE) else schema.field(name).scale
        whole = digest(value) if isinstance(value, str) else [int(value.scaleb(scale)) if scale else value]
        numbers += zip(transport_columns(schema, name), map(int, np.array(whole, np.int64)))
    return tuple(sorted(numbers))
