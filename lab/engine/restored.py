"""A checkpoint that was put back: a copy from an earlier day, which does not know what its engine has done since.

    copy                 put back
    ──1──2──3────4──5──6                what the logs have of it
           └────────────4'──5'──►       what it would do next: other batches under the same numbers

A log takes each number of a checkpoint once, so file logs would refuse 4', and topics would get it beside 4. Whether a batch is
the one that a log has is told by the mark at its end, not by its lines, which carry the times at which it ran: a batch is a
function of that mark and of the batches before. So two histories of one checkpoint are the same up to the first batch whose mark
differs; and a batch that runs again, after a crash, has the mark that was written ahead for it.
"""

from lab.engine.checkpoint import Batches, fingerprint, mark, read_record
from lab.engine.durable import Durable
from lab.engine.ends import FileLogs, KafkaLogs
from lab.logs.index import Batch
from lab.model.times import now_ms

CLOCKS_MS = 60_000  # those of two hosts may differ by so much


class PutBack(ValueError):
    """Logs have micro-batches of a checkpoint that it has not planned; the text says what to do."""


def check_not_put_back(logs: FileLogs | KafkaLogs, checkpoint: Durable, writer: str) -> None:
    """Raises PutBack if the logs have later, or other, micro-batches of `writer`, the checkpoint's id, than it has planned."""
    before = Batches.read(checkpoint.where).planned
    if before is None:
        since_ms = (read_record(checkpoint.where) or {}).get("id_since", now_ms())
    else:
        since_ms = mark(checkpoint.where, before)["at"]
    for log, last in logs.last_batches(writer, since_ms - CLOCKS_MS):
        planned = Batches.read(checkpoint.where).planned  # only now: another engine may be at its last batch
        if planned is None or last.number > planned:
            ends = "before its first micro-batch" if planned is None else f"with micro-batch {planned}"
            found = f"it ends {ends}, and {log} has its micro-batch {last.number}"
        elif _is_other(checkpoint, last):
            found = f"{log} has another micro-batch {last.number} of it"
        else:
            continue
        raise PutBack(
            f"checkpoint {checkpoint} was put back: {found}. To go on from it: lab reprocess {checkpoint}, and start again. "
            "Then everything since comes again, alerts with the same alertId unless another version gave them; docs/operations.md, Upgrades"
        )


def _is_other(checkpoint: Durable, batch: Batch) -> bool:
    """Whether the checkpoint has another micro-batch of this number, as far as log and checkpoint tell."""
    known = batch.fingerprint is not None and (checkpoint / "offsets").read(str(batch.number)) is not None
    return known and fingerprint(mark(checkpoint.where, batch.number)) != batch.fingerprint
