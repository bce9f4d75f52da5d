"""Seeded event generators: the same arguments give the same events. They do not wait for the real clock.

A generator plays *scripts*. A script starts at one moment and is a list of steps `(offset_ms, fields)`: an
ordinary payment is a script of one step, a login session has a few, an account takeover has its own.
`merge_scripts` interleaves them in time order, `assign_ids_and_times` numbers the events and shakes their times a little:

    arrival    1      2      3      4      5            event 3 is late, event 4 repeats the newest time;
    time     ──●──────●──────┊──────●──────●──►         no event trails the newest time by more than
                  ●3 ◄┘      2=4                        MAX_DISORDER_MS

>>> for event in payments(seed=1, events=2, start_ms=0, rate_per_s=1):
...     print(to_json(event))
{"transactionId":1,"eventTime":906,"payeeId":33316,"beneficiaryId":57569,"paymentType":"CSH","paymentAmount":6.80}
{"transactionId":2,"eventTime":1857,"payeeId":59370,"beneficiaryId":46355,"paymentType":"CRD","paymentAmount":15.99}
"""

import heapq
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from lab.model.times import HOUR_MS

MAX_DISORDER_MS = 2_000  # no event is earlier than the newest event time before it by more than this
LATE_SHARE = 0.03  # of the events are earlier than the newest time before them
EQUAL_SHARE = 0.03  # of the events repeat the newest time before them
START_MS = 1_735_689_600_000  # 2025-01-01 00:00 UTC

Event = dict[str, Any]  # int, str, Decimal or None
Step = tuple[int, Event]  # ms after its script's start; the event's fields without id and time


@dataclass(frozen=True)
class EpisodeLabel:
    """Identifies the planted episode of an event: its kind and the fields that identify its subject."""

    number: int
    kind: str
    who: tuple[tuple[str, int | str], ...]
    fraud: bool = True


Script = tuple[int, list[Step], EpisodeLabel | None]  # start in ms since the epoch
Labelled = tuple[Event, EpisodeLabel | None]


def to_json(event: Event) -> str:
    """One JSON line, without the newline; a Decimal keeps its digits: `17.60`.

    >>> to_json({"eventId": 1, "action": "payment", "amount": Decimal("3.50")})
    '{"eventId":1,"action":"payment","amount":3.50}'
    """
    return "{" + ",".join(f'"{name}":{json_text(value)}' for name, value in event.items()) + "}"


def json_text(value: int | str | Decimal | None) -> str:
    """A value as JSON."""
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)


def amount_from_minor_units(minor_units: int) -> Decimal:
    """In units of money.

    >>> amount_from_minor_units(350)
    Decimal('3.50')
    """
    return Decimal(minor_units).scaleb(-2)


# ---------------------------------------------------------------- time


def tick_times(
    rng: Random, start_ms: int, rate_per_s: float, lulls: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """An endless iterator: one time in each slot of 1/rate s, none inside a lull `(ms after the start, span_ms)`."""
    for slot in itertools.count():
        first, end = int(slot * 1000 / rate_per_s), int((slot + 1) * 1000 / rate_per_s)
        tick = rng.randrange(first, max(end, first + 1))
        if not any(at <= tick < at + span for at, span in lulls):
            yield start_ms + tick


def merge_scripts(scripts: Iterable[Script]) -> Iterator[tuple[int, Event, EpisodeLabel | None]]:
    """The steps of all scripts in time order. Scripts come by start time and may be endless."""
    waiting: list[tuple[int, int, Event, EpisodeLabel | None]] = []
    order = itertools.count()
    for start, steps, label in scripts:
        while waiting and waiting[0][0] <= start:
            time, _, fields, whose = heapq.heappop(waiting)
            yield time, fields, whose
        for offset, fields in steps:
            heapq.heappush(waiting, (start + offset, next(order), fields, label))
    for time, _, fields, whose in sorted(waiting):
        yield time, fields, whose


def assign_ids_and_times(
    rng: Random,
    played: Iterable[tuple[int, Event, EpisodeLabel | None]],
    id_field: str,
    time_field: str = "eventTime",
) -> Iterator[Labelled]:
    """Numbers the events from 1 and assigns times: mostly in order, some equal, some late."""
    newest = -1
    for number, (time, fields, label) in enumerate(played, start=1):
        roll = rng.random()
        if newest > MAX_DISORDER_MS and roll < LATE_SHARE:
            time = newest - rng.randint(1, MAX_DISORDER_MS)
        elif newest >= 0 and roll < LATE_SHARE + EQUAL_SHARE:
            time = newest
        newest = max(newest, time)
        yield {id_field: number, time_field: time, **fields}, label


def random_generators(seed: int) -> tuple[Random, Random, Random]:
    """Separate random generators for ordinary events, planted episodes and disorder, so that they do not affect each other."""
    return Random(f"{seed}/ordinary"), Random(f"{seed}/planted"), Random(f"{seed}/disorder")


def merge_by_start(*scripts: Iterable[Script]) -> Iterator[Script]:
    return heapq.merge(*scripts, key=lambda script: script[0])


def planted_episodes(labelled: Iterable[Labelled]) -> list[dict]:
    """The side file: one entry per planted episode that has events, in order of its number."""
    found: dict[EpisodeLabel, list[tuple[int, int]]] = {}
    for event, label in labelled:
        if label is not None:
            found.setdefault(label, []).append((event["eventTime"], next(iter(event.values()))))
    return [
        {
            "episodeId": label.number,
            "kind": label.kind,
            "fraud": label.fraud,
            **dict(label.who),
            "firstEventTime": min(time for time, _ in events),
            "lastEventTime": max(time for time, _ in events),
            "eventIds": [event_id for _, event_id in events],
        }
        for label, events in sorted(found.items(), key=lambda item: item[0].number)
    ]


# ---------------------------------------------------------------- payments


BURSTS = {"pair": ("payeeId", "beneficiaryId"), "beneficiary": ("beneficiaryId",), "surge": ("paymentType",)}


@dataclass(frozen=True)
class PlantedBurst:
    """Planted payments that one of the Flink demo's rules catches, spread evenly over `span_ms`.

    `pair`: one payee pays one beneficiary (rule 1). `beneficiary`: many payees pay one (rule 3).
    `surge`: ordinary amounts, all of one type (rule 4). Rule 2 waits for a lull: `payments(lulls=...)`.
    """

    kind: str  # a key of BURSTS, which names the fields that its payments share
    at_ms: int  # after the start of the stream
    span_ms: int
    payments: int
    total: int = 0  # units of money, for pair and beneficiary


SPIKES = {"pair": (3, 21_000_000), "beneficiary": (12, 10_500_000), "surge": (120, 0)}  # payments, total
SPIKE_MS = 2_000


def live_burst(kind: str, rate_per_s: float) -> PlantedBurst:
    """A short burst for a live stream of this rate. A surge more than doubles the payments of its type.

    >>> live_burst("surge", 200).payments, live_burst("pair", 200).payments
    (240, 3)
    """
    count, total = SPIKES[kind]
    if kind == "surge":
        count = max(count, math.ceil(1.2 * rate_per_s))
    return PlantedBurst(kind, 0, SPIKE_MS, count, total)


class PaymentScripts:
    """Generates the scripts of payments: ordinary ones and bursts."""

    id_field, time_field, kinds = "transactionId", "eventTime", tuple(BURSTS)
    to_line = staticmethod(to_json)

    def __init__(self, seed: int, payees: int = 100_000, beneficiaries: int = 100_000):
        self.random, self._planted, self.disorder = random_generators(seed)
        self._payees, self._beneficiaries = payees, beneficiaries

    def ordinary_script(self, time: int) -> Script:
        """One payment."""
        return time, [(0, self._payment(self.random))], None

    def planted_script(self, number: int, start: int, burst: PlantedBurst) -> Script:
        """The payments of a burst, from `start` on."""
        rng = self._planted
        first = self._payment(rng)
        shared = {name: first[name] for name in BURSTS[burst.kind]}
        weights = [rng.randint(90, 110) for _ in range(burst.payments)]
        steps = []
        for i, weight in enumerate(weights):
            given = dict(shared)
            if burst.total:  # a share of it, rounded up: together a few hundredths more than the total
                given["paymentAmount"] = amount_from_minor_units(
                    -(-burst.total * 100 * weight // sum(weights))
                )
            steps.append((burst.span_ms * i // max(burst.payments - 1, 1), self._payment(rng) | given))
        return start, steps, EpisodeLabel(number, burst.kind, tuple(shared.items()))

    def _payment(self, rng: Random) -> Event:
        return {
            "payeeId": rng.randrange(self._payees),
            "beneficiaryId": rng.randrange(self._beneficiaries),
            "paymentType": rng.choice(("CSH", "CRD")),
            "paymentAmount": amount_from_minor_units(rng.randint(5_00, 20_00)),
        }


def labelled_payments(
    seed: int,
    events: int | None,
    start_ms: int = START_MS,
    rate_per_s: float = 500,
    payees: int = 100_000,
    beneficiaries: int = 100_000,
    bursts: Iterable[PlantedBurst] = (),
    lulls: Sequence[tuple[int, int]] = (),
) -> Iterator[Labelled]:
    """`payments`, each with the label of its burst (None: an ordinary payment)."""
    make = PaymentScripts(seed, payees, beneficiaries)
    scripts = merge_by_start(
        map(make.ordinary_script, tick_times(make.random, start_ms, rate_per_s, lulls)),
        (
            make.planted_script(number, start_ms + burst.at_ms, burst)
            for number, burst in enumerate(bursts, start=1)
        ),
    )
    return itertools.islice(
        assign_ids_and_times(make.disorder, merge_scripts(scripts), make.id_field), events
    )


def payments(seed: int, events: int | None, **settings) -> Iterator[Event]:
    """Payments in the spirit of the Flink demo: amounts 5.00-20.00, types CSH and CRD.

    `settings` are those of `labelled_payments`; `events=None` is endless. `bursts` come in order of `at_ms` and
    may be endless too.
    """
    return (event for event, _ in labelled_payments(seed, events, **settings))


def write_payments(
    path: str | Path,
    events: int,
    seed: int,
    payees: int = 100_000,
    beneficiaries: int = 100_000,
    span_ms: int = HOUR_MS,
    start_ms: int = START_MS,
) -> Path:
    """Writes payments for benchmarks, fast: in time order, spread evenly over `span_ms`, without bursts."""
    import numpy as np

    line = '{"transactionId":%d,"eventTime":%d,"payeeId":%d,"beneficiaryId":%d,"paymentType":"%s",'
    line += '"paymentAmount":%d.%02d}\n'
    rng = np.random.default_rng(seed)
    with Path(path).open("w", encoding="ascii", newline="\n") as out:
        for first in range(0, events, 100_000):
            ids = np.arange(first, min(first + 100_000, events))
            cents = rng.integers(5_00, 20_00, len(ids), endpoint=True)
            columns = (
                ids + 1,
                start_ms + ids * span_ms // events,
                rng.integers(0, payees, len(ids)),
                rng.integers(0, beneficiaries, len(ids)),
                np.array(["CSH", "CRD"])[rng.integers(0, 2, len(ids))],
                *divmod(cents, 100),
            )
            rows = zip(*(column.tolist() for column in columns), strict=True)
            out.write("".join([line % row for row in rows]))
    return Path(path)
