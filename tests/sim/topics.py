"""Topics in the simulated world: partitions that grow, appear and lose their oldest records, and a clock that may be wrong."""

from collections.abc import Iterator, Mapping

import numpy as np

from lab.engine.records.feeds import Feed, LogLost, PartitionRecords, Positions
from lab.studio.simulatedtopic import SimulatedRecord as Logged

EXPIRED = Logged(0, b"")  # before anybody could read it


class SimFeed(Feed):
    """`feeds.Feed`: some sources of records in memory. `at_once`: how many records a run has."""

    def __init__(self, logs: "SimLogs", name: str):
        self.logs, self.name = logs, name
        self.ahead = 0

    @property
    def _sources(self) -> list[list[Logged]]:
        return self.logs.sources[self.name]

    def clock(self) -> int:
        return self.logs.clock + self.ahead

    def sync_clock(self) -> None:
        newest = max((record.log_time for source in self._sources for record in source), default=0)
        self.ahead = max(self.ahead, newest + 1 - self.logs.clock)

    def starts(self) -> Positions:
        return dict(enumerate(self.logs.starts(self.name)))

    def ends(self) -> Positions:
        return {number: len(source) for number, source in enumerate(self._sources)}

    def ends_before(self, log_time: int, starts: Positions, ends: Positions) -> Positions:
        """The first record logged then or later is where a broker says it is."""
        return {
            number: next(
                (
                    n
                    for n in range(self.starts()[number], end)
                    if self._sources[number][n].log_time >= log_time
                ),
                end,
            )
            for number, end in ends.items()
        }

    def read(self, ranges: Mapping[int, tuple[int, int]], floor: int) -> Iterator[PartitionRecords]:
        for number, (start, _) in ranges.items():
            if start < self.starts()[number]:
                raise LogLost(f"{self.name}/{number} begins at {self.starts()[number]}, not at {start}")
        newest, at = dict.fromkeys(ranges, floor), {number: start for number, (start, _) in ranges.items()}
        while open_ := [number for number in at if at[number] < ranges[number][1]]:
            for number in open_:
                start = at[number]
                at[number] = min(start + self.logs.at_once, ranges[number][1])
                records = self._sources[number][start : at[number]]
                times = np.array([record.log_time for record in records], np.int64)
                times = np.maximum.accumulate(np.maximum(times, newest[number]))
                newest[number] = int(times[-1])
                values = [record.value for record in records]
                yield PartitionRecords(self.name, number, range(start, at[number]), values, times)


class SimLogs:
    """`ends.KafkaLogs`: sources that grow, and a clock that may be wrong."""

    divisible = False

    def __init__(self, events: int, control: int, at_once: int):
        self.at_once, self.clock = at_once, 0
        self.sources: dict[str, list[list[Logged]]] = {
            "events": [[] for _ in range(events)],
            "control": [[] for _ in range(control)],
        }
        self._starts = {name: [0] * len(of) for name, of in self.sources.items()}

    def append(self, name: str, source: int, log_time: int, value: bytes) -> None:
        self.sources[name][source % len(self.sources[name])].append(Logged(log_time, value))

    def add(self, expired: int) -> None:
        """A new source of events, of which the first records have expired already."""
        self.sources["events"].append([EXPIRED] * expired)
        self._starts["events"].append(expired)

    def expire(self, name: str, source: int, count: int) -> None:
        """The oldest records of a source go."""
        number = source % len(self._starts[name])
        self._starts[name][number] = min(self._starts[name][number] + count, len(self.sources[name][number]))

    def feed(self, name: str) -> SimFeed:
        return SimFeed(self, name)

    def starts(self, name: str) -> list[int]:
        """How many records of each source have expired."""
        return self._starts[name]

    def before(self, name: str, source: int, position: int) -> int:
        """How many records are before a position."""
        return position

    def place(self, name: str, source: int, number: int) -> str:
        return f"{name}/{source}:{number}"

    def close(self) -> None:
        pass
