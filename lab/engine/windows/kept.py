"""Windows that outlive their engine: to make those anew that lie on a disk would take minutes.

    engine stops, or is killed ─► its folder stays ─► next start: nobody uses it any more? the same saved state? ─► moved to the new folder
                                                                                                             no ─► made from the state files

What a note says of arrays holds for the next start only with the same proof: the same boot of this machine, the same code, settings and
rules, and state files with the same checksums. So a checkpoint that was put back, or has gone on elsewhere, finds no arrays.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from lab.engine.checkpoint.durable import CheckpointFolder
from lab.engine.checkpoint.ledger import Ledger
from lab.engine.checkpoint.settings import Settings
from lab.engine.compiled.layout import code_stamp
from lab.engine.windows import shared
from lab.engine.windows.statefiles import CHECKSUM_DIGITS, CHECKSUM_PLACE, FOLDER, StateFile
from lab.engine.windows.undo import UNDO

BOOT = Path("/proc/sys/kernel/random/boot_id")
PATIENCE_S = 5.0  # so long may processes of a killed engine take to end
HEAD_BYTES = 1 << 16  # of a state file, which has its checksum


def boot_id() -> str:
    """Identifies the time since this machine was started; empty if it has no such id."""
    try:
        return BOOT.read_text()
    except OSError:
        return ""


def proof_of(
    checkpoint: CheckpointFolder, chain: Iterable[StateFile], settings: Settings, ledger: Ledger
) -> str:
    """Says which windows these are, as a digest; empty if that cannot be said.

    `chain`: the state files with their content, `ledger`: the rules in force after them.
    """
    boot = boot_id()
    try:
        files = [_file_proof(checkpoint.path / FOLDER / file.name) for file in chain]
    except OSError:
        return ""
    if not boot or not checkpoint.is_on_this_machine or not all(files):
        return ""
    of_settings = [settings.schema.to_dict(), settings.stats_fields(), settings.parallelism]
    said = [boot, code_of_arrays(), str(checkpoint.path), of_settings, ledger.digest, files]
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def _file_proof(path: Path) -> list:
    found = path.stat()
    return [path.name, found.st_size, _checksum(path, found.st_size, found.st_mtime_ns, found.st_ino)]


@lru_cache(maxsize=1024)
def _checksum(path: Path, *_identity: int) -> str:
    """The checksum that a state file says of itself; raises OSError if it says none."""
    with path.open("rb") as file:
        _, place, after = file.read(HEAD_BYTES).partition(CHECKSUM_PLACE)
    if not place:
        raise OSError(f"{path}: no checksum")
    return after[:CHECKSUM_DIGITS].decode(errors="replace")


@lru_cache(maxsize=1)
def code_of_arrays() -> str:
    """Identifies the code that reads and writes arrays."""
    code = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return code_stamp() + blake2b(code, digest_size=16).hexdigest()


def take_over(folder: Path, checkpoint: CheckpointFolder) -> str:
    """Moves arrays that an earlier start of the engine has left into a folder, with what undoes its open epoch; returns the note that was with them.

    Empty if there is none. What else earlier starts have left of these key-groups is removed.
    """
    note = ""
    try:
        with shared.kept_parts(folder, str(checkpoint.path), PATIENCE_S) as parts:
            for part in parts:
                if part == parts[0]:
                    note = _moved(part, folder, str(checkpoint.path))
                for path in [*part.glob("*.windows"), part / shared.KEPT]:
                    shared.remove_arrays(path)
        for path in folder.glob("*.windows"):
            shared.wait_until_written(path)
    except OSError:
        (folder / UNDO).unlink(missing_ok=True)
        for path in folder.glob("*.windows"):
            shared.remove_arrays(path)
        return ""
    return note


def _moved(part: Path, folder: Path, checkpoint: str) -> str:
    """The note of the arrays in a folder, which have been moved to another one with what undoes their epoch."""
    with shared.locked_note(part / "lock") as old:
        note = old.read()
        old.write("")
    for path in part.glob("*.windows"):
        shared.move_arrays(path, folder / path.name)
    for path in part.glob(f"{UNDO}*"):
        path.replace(folder / path.name)
    shared.keep(folder, checkpoint)
    return note
