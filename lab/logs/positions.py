"""Records, and the positions of readers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.model.schema import MAX_TIME

if TYPE_CHECKING:
    from confluent_kafka import Message

# partition -> offset of the next record; a folder is partition 0, its offsets are bytes
Positions = dict[int, int]
StartPosition = int  # where the first line of an append to a folder begins
# ms; a producer may give a record any time below 2^63, to which nothing can be added
LATEST_LOG_TIME = MAX_TIME


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its log time (ms), its key, its value as text, and its place in the log."""

    log_time_ms: int
    key: str
    line: str
    place: str = field(default="", compare=False)  # in the form that `publish` returns


def log_time_of(message: "Message") -> int:
    """When a record of a topic was logged, by its broker or its producer, in ms; at most LATEST_LOG_TIME."""
    return min(message.timestamp()[1], LATEST_LOG_TIME)


def position_text(positions: Positions) -> str:
    """Formats positions for people and for `parse_positions`: one offset, or one for each partition.

    >>> position_text({0: 17}), position_text({0: 17, 1: 5})
    ('17', '0:17,1:5')
    """
    if list(positions) == [0]:
        return str(positions[0])
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def parse_positions(text: str) -> Positions:
    """Parses the output of `position_text`. Raises ValueError.

    >>> parse_positions("17"), parse_positions("0:17,1:5")
    ({0: 17}, {0: 17, 1: 5})
    """
    found = {}
    for part in text.split(","):
        partition, _, offset = part.rpartition(":")
        if not offset.isdecimal() or not (partition or "0").isdecimal():
            raise ValueError(f"{text!r}, expected an offset such as 17, or partitions with theirs: 0:17,1:5")
        found[int(partition or 0)] = int(offset)
    return found


def advance_expired_positions(
    log: object, wanted: Positions, starts: Positions, ends: Positions
) -> Positions:
    """Moves positions of expired records to the oldest one that is kept. Raises ValueError for a position beyond the end."""
    for partition, offset in wanted.items():
        if offset > ends.get(partition, -1):
            raise ValueError(
                f"{log} has no position {position_text({partition: offset})}: it ends at {position_text(ends)}; was it deleted and created again?"
            )
    return {partition: max(start, wanted.get(partition, start)) for partition, start in starts.items()}


def expired_text(log: object, wanted: Positions, starts: Positions) -> str:
    """What a reader at `wanted` misses of a log that begins at `starts`; "" if it misses nothing.

    >>> expired_text("kafka://b:9092/alerts", {0: 17, 1: 5}, {0: 30, 1: 0})
    'kafka://b:9092/alerts from 0:17 up to 0:30: expired before it was read'
    >>> expired_text("logs/alerts", {0: 17}, {0: 17})
    ''
    """
    lost = {n: at for n, at in wanted.items() if at < starts.get(n, at)}
    if not lost:
        return ""
    first, last = (
        ",".join(f"{n}:{of[n]}" for n in lost) if len(wanted) > 1 else str(*(of[n] for n in lost))
        for of in (lost, starts)
    )
    return f"{log} from {first} up to {last}: expired before it was read"
