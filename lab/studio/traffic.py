"""The stream of a drill: payments on two partitions and a rule, with the troubles that a stream has."""

import json
from itertools import cycle
from random import Random

from lab.model.language import say
from lab.studio.simulatedtopic import SimulatedTopic

EVERY_MS, BEGIN_MS = 5_000, 1_735_725_600_000  # of the payments; the stream begins 2025-01-01 10:00:00 UTC
CLOCK_STEP_MS = 20_000
LIMITS = (100, 60)
RULE = "1,(active),(payeeId),,(paymentAmount),(SUM),(>),({}),(1)"
PAYEES = (1, 2)
ARRIVE = "Partition 1 catches up: {count} records arrive, with their original times."


class ScenarioLogs:
    """Logs of events and rules; each method changes them and adds a sentence to `story`.

    >>> traffic = ScenarioLogs()
    >>> traffic.send_payments(2)
    >>> traffic.send_duplicate()
    >>> traffic.story[-2:]
    ['2 payments are sent.', 'The last payment is sent again, because its sender got no answer.']
    """

    def __init__(self, seed: int = 1):
        self.events, self.control = SimulatedTopic("events", 2), SimulatedTopic("control", 1)
        self.now_ms, self.sent, self.story = BEGIN_MS, 0, []
        self._rng, self._limits, self._last = Random(seed), cycle(LIMITS), (0, b"")
        self.publish_next_limit()

    def feed(self, name: str) -> SimulatedTopic:
        """A log as the engine reads it."""
        return self.events if name == "events" else self.control

    def send_payments(self, count: int = 4) -> None:
        """Payments, to the partitions in turn."""
        for _ in range(count):
            self._tick()
            self._append(self.sent % 2, self._payment(self.now_ms))
        self.story.append(say("{count} payments are sent.", count=count))

    def send_duplicate(self) -> None:
        """Sends the last payment again, like a producer that got no answer."""
        self._tick()
        partition, value = self._last
        self._append(partition, value)
        self.story.append(say("The last payment is sent again, because its sender got no answer."))

    def send_out_of_order(self) -> None:
        """Sends two payments in the wrong order."""
        times = [self._tick(), self._tick()]
        for time in reversed(times):
            self._append(0, self._payment(time))
        self.story.append(
            say("Two payments of partition 0 are logged in the wrong order: the second one is late.")
        )

    def toggle_delay_of_partition_1(self) -> None:
        """Holds up what goes to partition 1, or lets it arrive."""
        waiting = self.events.partitions[1].delayed_records
        if waiting is None:
            self.events.delay_new_records(1)
            self.story.append(
                say("Partition 1 is slow: its new records have their log time but cannot be read yet.")
            )
        else:
            self.events.deliver_delayed_records(1)
            self.story.append(say(ARRIVE, count=len(waiting)))

    def set_back_clock_of_partition_1(self) -> None:
        """Partition 1's clock steps back."""
        self.events.partitions[1].clock_offset_ms -= CLOCK_STEP_MS
        off_s = -self.events.partitions[1].clock_offset_ms // 1000
        self.story.append(
            say(
                "The clock of partition 1 steps back; it is {seconds} s behind that of partition 0.",
                seconds=off_s,
            )
        )

    def publish_next_limit(self) -> None:
        """Sends the rule's next limit to the control log."""
        self._tick()
        limit = next(self._limits)
        self.control.append(0, RULE.format(limit).encode(), self.now_ms)
        self.story.append(
            say("Rule 1 is published: more than {limit} from one payer within a minute.", limit=limit)
        )

    def _tick(self) -> int:
        self.now_ms += EVERY_MS
        self.events.now_ms = self.control.now_ms = self.now_ms
        return self.now_ms

    def _payment(self, time_ms: int) -> bytes:
        self.sent += 1
        payment: dict[str, object] = {
            "transactionId": self.sent,
            "eventTime": time_ms,
            "payeeId": self._rng.choice(PAYEES),
        }
        payment |= {"beneficiaryId": 7, "paymentType": "CSH", "paymentAmount": self._rng.randrange(10, 50)}
        return json.dumps(payment).encode()

    def _append(self, partition: int, value: bytes) -> None:
        self.events.append(partition, value, self.now_ms)
        self._last = partition, value
