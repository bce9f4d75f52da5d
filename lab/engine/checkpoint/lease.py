"""The lease on a checkpoint: of all engines that were ever started on it, one may go on, the one with the highest term.

    lease/000000007-4c1f09ab.json      term and owner in its name; inside: who it is, and when it was last renewed

A start writes the next term under a name of its own, so no start overwrites another's. An engine that finds a higher name than
its own is fenced: it must not begin another micro-batch. On a disk of this machine a lock decides at once who may start
(`lab.engine.checkpoint.lock`); elsewhere a lease renewed within LEASE_S refuses a start, and an older one is taken over. For that, the
clocks of the hosts must agree within a few seconds. The fencing, by which only one engine continues, does not depend on clocks.
"""

import json
import os
import socket
from contextlib import suppress
from math import inf
from pathlib import Path
from threading import Event, Thread
from typing import Self
from uuid import uuid4

from lab.engine.checkpoint import cuts
from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.lock import CheckpointInUse, FolderLock
from lab.model.times import now_ms

FOLDER = "lease"
LEASE_S, RENEW_S = 30, 5


class Fenced(RuntimeError):
    """Another engine has taken the checkpoint over; the text says who."""


def current_lease_name(checkpoint: CheckpointFolder) -> str:
    """The name of the lease that counts; "" if there never was one."""
    return max((checkpoint / FOLDER).names(), default="")


def check_lease(checkpoint: CheckpointFolder, mine: str) -> None:
    """Raises Fenced unless the lease of that name still counts; "": who has none may go on."""
    if mine and (found := current_lease_name(checkpoint)) != mine:
        if not found:
            raise Fenced(
                f"checkpoint {checkpoint} has lost its lease: its folder {FOLDER} is empty or removed"
            )
        raise Fenced(f"checkpoint {checkpoint} was taken over by {_who(_read(checkpoint, found))}")


def lease_age_s(checkpoint: CheckpointFolder) -> float | None:
    """How long ago the lease that counts was renewed, infinite if it was given back; None if there never was one."""
    if not (name := current_lease_name(checkpoint)):
        return None
    return _age_s(_read(checkpoint, name))


class Lease:
    """Taken when it is made; renewed in a thread until it is released.

    >>> import tempfile
    >>> checkpoint = CheckpointFolder(tempfile.mkdtemp())
    >>> with Lease(checkpoint) as lease:
    ...     check_lease(checkpoint, lease.name)
    ...     lease.name[:10]
    '000000000-'
    >>> with Lease(checkpoint) as lease:
    ...     lease.name[:10]
    '000000001-'
    """

    def __init__(self, checkpoint: CheckpointFolder, work: str = "an engine"):
        self._checkpoint, self._folder = checkpoint, checkpoint / FOLDER
        self._note = {"work": work, "pid": os.getpid(), "host": socket.gethostname()}
        self._lock = FolderLock(Path(checkpoint.where), work) if checkpoint.is_on_this_machine else None
        self._released = Event()
        try:
            self.name = self._taken()
        except BaseException:
            self._unlock()
            raise
        self._thread = Thread(target=self._go_on, daemon=True, name="lease")
        self._thread.start()

    def _taken(self) -> str:
        before = current_lease_name(self._checkpoint)
        if not self._lock and before:
            self._refuse_if_renewed(before)
        before = max(before, cuts.last_lease(self._checkpoint / cuts.FOLDER))  # a copy may lack its leases
        name = f"{int(before.split('-')[0] or -1) + 1:09d}-{uuid4().hex[:8]}.json"
        self._renew(name)
        for other in self._folder.names():
            if other > name:  # somebody was faster, or as fast
                self._folder.remove(name)
                raise CheckpointInUse(self._in_use(_read(self._checkpoint, other)))
            if other <= before:
                self._folder.remove(other)
        return name

    def _refuse_if_renewed(self, name: str) -> None:
        note = _read(self._checkpoint, name)
        if (wait_s := LEASE_S - _age_s(note)) > 0:
            raise CheckpointInUse(
                f"{self._in_use(note)}; if that was killed, wait {wait_s:.0f} s and start again"
            )

    def _in_use(self, note: dict) -> str:
        return f"checkpoint {self._checkpoint} is in use by {_who(note)}: stop that first"

    def _renew(self, name: str) -> None:
        note = self._note | {"renewed_ms": now_ms()}
        self._folder.write(name, json.dumps(note).encode())

    def _go_on(self) -> None:
        while not self._released.wait(RENEW_S):
            with suppress(OSError):  # the next time, or another takes over
                if current_lease_name(self._checkpoint) != self.name:
                    return
                self._renew(self.name)

    def release(self) -> None:
        """Lets go, so that another start need not wait; a second time does nothing."""
        if self._released.is_set():
            return
        self._released.set()
        self._thread.join(RENEW_S)
        with suppress(OSError):
            if current_lease_name(self._checkpoint) == self.name:
                self._folder.write(self.name, json.dumps(self._note).encode())
        self._unlock()

    def _unlock(self) -> None:
        if self._lock:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.release()


def _read(checkpoint: CheckpointFolder, name: str) -> dict:
    """What a lease says: nothing if it is gone, or cut short as a power failure leaves a file."""
    try:
        return json.loads((checkpoint / FOLDER).read(name) or b"{}")
    except ValueError:
        return {}


def _age_s(note: dict) -> float:
    """How long ago a lease was renewed, infinite if it was given back."""
    return (now_ms() - note.get("renewed_ms", -inf)) / 1000


def _who(note: dict) -> str:
    return f"{note.get('work', 'another engine')} (process {note.get('pid', '?')} on {note.get('host', '?')})"
