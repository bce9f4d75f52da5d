"""An engine that was started elsewhere: whether it lives, and what its logs hold already."""

from typing import TYPE_CHECKING

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lease import LEASE_S, lease_age_s
from lab.engine.checkpoint.lock import is_locked
from lab.engine.loop.ends import FileLogs, KafkaLogs
from lab.logs.files import FileLog
from lab.logs.positions import Positions
from lab.running.target import default_checkpoint

if TYPE_CHECKING:
    from lab.logs.kafka import KafkaLog

COUNTED = 1 << 28  # bytes of a log in files that are looked through for their lines
CHUNK = 1 << 24


def is_engine_running(logs: FileLogs | KafkaLogs) -> bool | None:
    """Whether an engine runs on these logs; None where that cannot be seen from here.

    An engine holds a lock on the logs in folders that it writes, and renews a lease on its checkpoint every few seconds,
    whether it has something to do or not. Neither is asked of it: it is only looked at.
    """
    if isinstance(logs, FileLogs):
        return is_locked(logs.log_folder("stats"))
    age = lease_age_s(CheckpointFolder(default_checkpoint(logs)))
    return None if age is None else age < LEASE_S


def estimate_record_count(log: "FileLog | KafkaLog") -> int:
    """About how many records a log keeps, as `estimate_records_between` counts."""
    if isinstance(log, FileLog):
        return estimate_records_between(log, {0: log.start()}, {0: log.end()})
    from lab.logs.offsets import PartitionOffsets

    partitions = PartitionOffsets(log.cluster, log.topic)
    return estimate_records_between(log, partitions.start_offsets(), partitions.end_offsets())


def estimate_records_between(log: "FileLog | KafkaLog", starts: Positions, ends: Positions) -> int:
    """About how many records lie between two positions: in files, the lines, at most of the last 256 MiB; in a topic, the offsets."""
    if isinstance(log, FileLog):
        end = ends[0]
        start = max(starts.get(0, 0), log.start(), end - COUNTED)
        return sum(log.read_bytes(at, min(at + CHUNK, end)).count(b"\n") for at in range(start, end, CHUNK))
    return sum(max(end - starts.get(number, 0), 0) for number, end in ends.items())
