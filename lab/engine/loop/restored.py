"""A checkpoint that was put back: a copy from an earlier day, which does not know what its engine has done since.

    copy                 put back
    ──1──2──3────4──5──6                what the logs have of it
           └────────────4'──5'──►       what it would do next: other cuts under the same numbers

A log takes each number of a checkpoint once, so file logs would refuse 4', and topics would get it beside 4. The mark at
its end says whether a batch is the one that a log has; its lines do not, because they contain the times at which it ran. A batch is a
function of that mark and of the batches before. So two histories of one checkpoint are the same up to the first batch whose mark
differs; and a batch that runs again, after a crash, has the mark that was written ahead for it.
"""

from shlex import quote

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.record import batch_fingerprint, cut_mark, read_record
from lab.engine.loop.ends import CLOCKS_MS, Logs
from lab.model.times import now_ms


class CheckpointRestored(ValueError):
    """The logs have cuts of a checkpoint that the checkpoint has not planned; the message says what to do."""


def check_not_restored(logs: Logs, checkpoint: CheckpointFolder, writer: str) -> None:
    """Raises CheckpointRestored if the logs have later or other cuts than the checkpoint has planned; `writer`: the checkpoint's id."""
    newest = cut_mark(checkpoint.where) or {"at": 0}
    since_ms = newest["at"] or (read_record(checkpoint.where) or {}).get("id_since", now_ms())
    for log, last in logs.last_batches(writer, since_ms - CLOCKS_MS):
        newest = cut_mark(checkpoint.where) or {}  # only now: another engine may be at its last cut
        number = newest.get("number", -1)
        if last.number > number:
            ends = "before its first cut" if number < 0 else f"with cut {number}"
            raise _restored(checkpoint, f"it ends {ends}, and {log} has its cut {last.number}")
        mine = cut_mark(checkpoint.where, last.number)
        if mine and last.fingerprint not in (None, batch_fingerprint(mine)):
            raise _restored(checkpoint, f"{log} has another cut {last.number} of it")


def _restored(checkpoint: CheckpointFolder, found: str) -> CheckpointRestored:
    return CheckpointRestored(
        f"checkpoint {checkpoint} was put back: {found}. To go on from it: lab reprocess {quote(str(checkpoint))}, and start again. "
        "Then everything since comes again, alerts with the same alertId unless another version gave them; docs/operations.md, Upgrades"
    )
