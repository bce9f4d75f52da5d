"""Records as they are read, and how far a reader has come."""

from dataclasses import dataclass, field

# partition -> offset of the record that comes next; a folder is partition 0, its offsets are bytes
Positions = dict[int, int]


@dataclass(frozen=True)
class Record:
    """A record as it was read: when it was appended (ms), its key, its value as text, its place in the log."""

    append_ms: int
    key: str
    line: str
    place: str = field(default="", compare=False)  # as `publish` returned it


def position_text(positions: Positions) -> str:
    """How far a reader has come, for people and `positions_of`: an offset, or one for each of several partitions.

    >>> position_text({0: 17}), position_text({0: 17, 1: 5})
    ('17', '0:17,1:5')
    """
    if list(positions) == [0]:
        return str(positions[0])
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def positions_of(text: str) -> Positions:
    """What `position_text` wrote. Raises ValueError.

    >>> positions_of("17"), positions_of("0:17,1:5")
    ({0: 17}, {0: 17, 1: 5})
    """
    found = {}
    for part in text.split(","):
        partition, _, offset = part.rpartition(":")
        if not offset.isdecimal() or not (partition or "0").isdecimal():
            raise ValueError(f"{text!r}, expected an offset such as 17, or partitions with theirs: 0:17,1:5")
        found[int(partition or 0)] = int(offset)
    return found


def checked_positions(log: object, wanted: Positions, starts: Positions, ends: Positions) -> Positions:
    """Where a reader that asks for positions begins: what is no longer kept is passed over. Raises ValueError beyond an end."""
    for partition, offset in wanted.items():
        if offset > ends.get(partition, -1):
            raise ValueError(
                f"{log} has no position {position_text({partition: offset})}: it ends at {position_text(ends)}; was it made anew?"
            )
    return {partition: max(start, wanted.get(partition, start)) for partition, start in starts.items()}
