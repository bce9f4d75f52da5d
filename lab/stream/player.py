"""Plays a seeded generator live: appends events to a log at an exact rate, with current times.

Time is cut into slots of 1/rate s, counted on a monotonic clock from the start, without pauses. At the end of each slot
one ordinary event is due. After N seconds rate * N are due, whatever happened before: after a stall the player catches up.

    slots      ──┬──┬──┬──┬──┬──┬──┬────┬────┬────┬──          the rate was lowered here ┐
    due          1  2  3  4  5  6  7    8    9    10                         between 7 and 8
    planted          ┊b ┊b ┊b                                  a burst comes on top, spread over its own span

The same seed gives the same ordinary events in the same order; their times are those of the slots.
"""

import heapq
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Protocol, cast

from lab.model.schema import SCHEMAS as KNOWN
from lab.model.schema import Schema
from lab.model.times import now_ms
from lab.stream.background import BackgroundTask
from lab.stream.logins import LoginScripts
from lab.stream.own import OwnSchemaScripts, RecordedLines
from lab.stream.simulate import EpisodeLabel, PaymentScripts, PlantedBurst, assign_ids_and_times, live_burst

CHUNK = 5_000  # at most so many events are appended at once, so that a change of the rate takes effect soon
RATE_S = 1  # the actual rate is that of so many seconds, at least
CLOCK_JUMP_MS = 1_000  # the clock was set, or the machine was suspended
SCHEMAS: dict[str, Any] = {"payments": PaymentScripts, "logins": LoginScripts}
Due = tuple[int, dict, EpisodeLabel | None]  # ms since the epoch, fields, whose episode


class Sink(Protocol):
    """The destination of a player's events, such as a `FileLog`."""

    def append(self, lines: Sequence[str | bytes]) -> object:
        """Takes JSON lines without line ends."""


class SlotClock:
    """Counts the slots that have passed, at a rate that may change. Times in s, rates per s.

    >>> beat = SlotClock(100, now_s=5.0)
    >>> beat.slots_passed(5.25), beat.slot_end_s(25)
    (25, 5.25)
    >>> beat.set_rate(200, now_s=5.25)
    >>> beat.slots_passed(5.5), beat.slot_end_s(75)
    (75, 5.5)
    """

    def __init__(self, rate_per_s: float, now_s: float):
        self._at, self._position, self.rate = now_s, 0.0, _checked(rate_per_s)

    def slots_passed(self, now_s: float) -> int:
        """The number of slots that have ended."""
        return int(self._position_at(now_s) + 1e-6)  # 0.3 s of 10 per s are 3

    def slot_end_s(self, slot: int) -> float:
        """The end of a slot at the current rate."""
        return self._at + (slot - self._position) / self.rate

    def set_rate(self, rate_per_s: float, now_s: float) -> None:
        """Changes the rate from now on. Raises ValueError if it is not above zero."""
        _checked(rate_per_s)
        self._position, self._at, self.rate = self._position_at(now_s), now_s, rate_per_s

    def _position_at(self, now: float) -> float:
        return self._position + (now - self._at) * self.rate


class Player(BackgroundTask):
    """Appends due events to a sink every `every_s`, beside everything else; all its methods may be called from any thread.

    `schema`: payments, logins, or any other schema, whose events are made from its types and examples; `lines`: recorded
    events, played as they are until they end. `rate`: ordinary events per second; `settings`: those of `simulate.PaymentScripts`
    or `logins.LoginScripts`. Every `burst_every_s` it plants a burst (payments: pair, beneficiary, surge; logins: an episode),
    one kind after the other (0: none). The player ends after `seconds`, or when the sink raises `error`. `ask` gets the events
    that are due and returns which of them may happen; the others are left out, and `refused` counts them by the kind of
    their burst ("" for ordinary ones). `clock` (s) and `wall` (ms since the epoch) are for tests.

    >>> lines = []
    >>> class Sink:
    ...     append = lines.extend
    >>> clock = itertools.chain([0], itertools.repeat(0.02)).__next__
    >>> player = Player("payments", Sink(), rate=100, clock=clock, wall=lambda: 1_000)
    >>> player.step()
    2
    >>> lines[0]
    '{"transactionId":1,"eventTime":1010,"payeeId":33316,"beneficiaryId":57569,"paymentType":"CSH","paymentAmount":6.80}'
    """

    def __init__(
        self,
        schema: str | Schema,
        sink: Sink,
        rate: float = 500,
        *,
        seed: int = 1,
        every_s: float = 0.01,
        burst_every_s: float = 10,
        seconds: float = float("inf"),
        lines: Iterable[str | bytes] | None = None,
        ask: Callable[[list[dict]], list[bool]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = now_ms,
        **settings: int,
    ):
        super().__init__("player")
        if isinstance(schema, str) and schema not in SCHEMAS:
            raise ValueError(f"schema: {schema!r}, expected one of {', '.join(SCHEMAS)}, or a schema")
        self.schema = schema if isinstance(schema, str) else schema.name
        made = SCHEMAS.get(self.schema) if schema in (self.schema, KNOWN.get(self.schema)) else None
        self.sent, self.planted = 0, 0  # events; those of them that are of bursts
        self._ask, self.refused = ask, Counter()
        if lines is not None:
            self._make: Any = RecordedLines(lines)
        else:
            self._make = made(seed, **settings) if made else OwnSchemaScripts(cast(Schema, schema), seed)
        self.bursts = Counter(dict.fromkeys(self.kinds, 0))
        self._sink, self._every_s, self._seconds = sink, every_s, seconds
        self._clock, self._wall, self._lock = clock, wall, Lock()
        self._kinds = itertools.cycle(self.kinds)
        self._burst_every_s = burst_every_s if burst_every_s and self.kinds else float("inf")
        self._asked: deque[str | PlantedBurst] = deque()
        # later steps of ordinary scripts, and all of the planted ones: their time in s, as the player counts it
        self._waiting: list[tuple[float, int, dict]] = []
        self._bursting: list[tuple[float, int, dict, EpisodeLabel]] = []
        self._order = itertools.count()
        self._due: deque[Due] = deque()
        names = self._make.id_field, self._make.time_field
        self._stamped = assign_ids_and_times(self._make.disorder, iter(self._due.popleft, None), *names)
        self._newest_ms = 0
        self._paused_at: float | None = None
        self._begin(rate)

    def _begin(self, rate: float) -> None:
        now = self._clock()
        self._beat, self._slots = SlotClock(rate, now), 0  # slots played so far
        # start of the current pause; length of all earlier pauses
        self._paused_at, self._paused_s = now if self.is_paused else None, 0.0
        self._end, self._next_burst = now + self._seconds, now + self._burst_every_s
        self._offset_ms = self._wall() - now * 1000  # from a time as the player counts it to the real clock's
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])

    # -- what others may ask for, from any thread

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of bursts that it can generate."""
        return self._make.kinds

    @property
    def target_rate(self) -> float:
        """Ordinary events per second; may be set while it plays. Raises ValueError if it is not above zero."""
        return self._beat.rate

    @target_rate.setter
    def target_rate(self, rate: float) -> None:
        with self._lock:
            self._beat.set_rate(rate, self._now())

    @property
    def is_paused(self) -> bool:
        """Whether it pauses."""
        return self._paused_at is not None

    def pause(self) -> None:
        """Stops the clock: no event becomes due until `resume`, and none is added later to catch up."""
        with self._lock:
            if not self.is_paused:
                self._paused_at = self._clock()

    def resume(self) -> None:
        """Continues after `pause`."""
        with self._lock:
            if self._paused_at is not None:
                self._paused_s += self._clock() - self._paused_at
                self._paused_at = None
                self._offset_ms = self._wall() - self._now() * 1000

    def burst(self, kind: str | PlantedBurst) -> None:
        """Starts one burst now; a `PlantedBurst` gives its size. Raises ValueError for an unknown kind."""
        if (name := kind.kind if isinstance(kind, PlantedBurst) else kind) not in self.kinds:
            raise ValueError(f"burst: {name!r}, expected one of {', '.join(self.kinds)}")
        self._asked.append(kind)

    @property
    def actual_rate(self) -> float:
        """Events per second over the last second, including bursts; over the last steps if they take longer than that."""
        now, samples = self._clock(), list(self._samples)
        earlier = (sample for sample in reversed(samples[:-1]) if sample[0] <= now - RATE_S)
        then, sent = next(earlier, samples[0])
        return (self.sent - sent) / (now - then) if now > then else 0.0

    @property
    def events_behind(self) -> int:
        """The number of ordinary events that are due but not sent. Large if the sink or the machine is too slow for the rate."""
        with self._lock:
            return self._beat.slots_passed(self._now()) - self._slots

    # -- playing

    def steps(self) -> Iterator[float]:
        """Plays until `stop`, or for `seconds`."""
        self._begin(self.target_rate)
        while True:
            ended = self._clock() >= self._end
            if (sent := self.step()) < CHUNK and ended:
                break
            yield 0 if sent == CHUNK else self._every_s

    def step(self) -> int:
        """Appends the events that are due, at most `CHUNK` ordinary ones, and returns their number. The thread only repeats this."""
        with self._lock:
            now = self._now()
            slots = min(self._beat.slots_passed(now), self._slots + CHUNK)
            times = [self._beat.slot_end_s(slot) for slot in range(self._slots + 1, slots + 1)]
            self._slots = slots
            offset_ms = self._wall() - now * 1000
            if (
                not self.is_paused
                and self._clock() < self._end
                and abs(offset_ms - self._offset_ms) > CLOCK_JUMP_MS
            ):
                self._offset_ms = offset_ms
        self._plant(now)
        due = self._allowed(list(self._play(times, times[-1] if len(times) == CHUNK else now)))
        self._due.extend(due)
        lines = [self._make.to_line(event) for event, _ in itertools.islice(self._stamped, len(due))]
        if lines:
            self._sink.append(lines)
        self.sent += len(lines)
        self.planted += sum(label is not None for _, _, label in due)
        self._samples.append((now := self._clock(), self.sent))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_S:
            self._samples.popleft()
        return len(lines)

    def _allowed(self, due: list[Due]) -> list[Due]:
        if not self._ask or not due:
            return due
        answers = self._ask([fields for _, fields, _ in due])
        refused = [label.kind if label else "" for (_, _, label), may in zip(due, answers) if not may]
        self.refused.update(refused)
        return [event for event, may in zip(due, answers) if may]

    def _now(self) -> float:
        """The player's clock: without pauses, and at most the end."""
        return min(self._clock() if self._paused_at is None else self._paused_at, self._end) - self._paused_s

    def _real_ms(self, at: float) -> int:
        """The current time; it never goes back."""
        self._newest_ms = max(self._newest_ms, round(at * 1000 + self._offset_ms))
        return self._newest_ms

    def _plant(self, now: float) -> None:
        """Starts the requested bursts, and the regular one when it is due."""
        if now >= self._next_burst:
            self._next_burst = now + self._burst_every_s
            self._asked.append(next(self._kinds))
        while self._asked:
            burst = self._asked.popleft()
            kind = burst.kind if isinstance(burst, PlantedBurst) else burst
            self.bursts[kind] += 1
            if isinstance(self._make, PaymentScripts) and kind == burst:
                burst = live_burst(kind, self.target_rate)
            _, steps, label = self._make.planted_script(self.bursts.total(), 0, burst)
            for offset_ms, fields in steps:
                heapq.heappush(self._bursting, (now + offset_ms / 1000, next(self._order), fields, label))

    def _play(self, times: list[float], end: float) -> Iterator[Due]:
        """One ordinary event at each of the times, and the planted events up to `end`, in order of time."""
        for at in times:
            yield from self._burst_up_to(at)
            if self._waiting and self._waiting[0][0] <= at:  # a session goes on before another begins
                fields = heapq.heappop(self._waiting)[2]
            else:
                script = self._make.ordinary_script(0)
                if script is None:
                    self._end = min(self._end, self._clock())
                    break
                _, (first, *others), _ = script
                for offset_ms, later in others:
                    heapq.heappush(self._waiting, (at + offset_ms / 1000, next(self._order), later))
                fields = first[1]
            yield self._real_ms(at), fields, None
        yield from self._burst_up_to(end)

    def _burst_up_to(self, end: float) -> Iterator[Due]:
        while self._bursting and self._bursting[0][0] <= end:
            at, _, fields, label = heapq.heappop(self._bursting)
            yield self._real_ms(at), fields, label


def _checked(rate: float) -> float:
    if not 0 < rate < float("inf"):
        raise ValueError(f"rate: {rate!r}, expected a number of events per second above zero")
    return rate
