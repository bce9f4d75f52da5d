"""The rule book after each micro-batch that changed it, as a file in the checkpoint: what routing starts from.

    checkpoint/rules/000000000.json   000000007.json          batch 8 reads that of 7; so does batch 7 run again: that of 0

A batch reads the newest file of an earlier batch. That one is committed, or this batch would not run; the file a batch
itself has left before a crash is passed over and written again. So routing and windows always agree on the rules.
"""

import os
from pathlib import Path

from lab.model.rules import RuleBook
from lab.model.schema import Schema

KEPT = 100  # files


def path(checkpoint: Path, batch_id: int) -> Path:
    """The file of a micro-batch."""
    return checkpoint / "rules" / f"{batch_id:09d}.json"


def save(checkpoint: Path, batch_id: int, text: str) -> None:
    """Writes the book as it is after a micro-batch."""
    book = path(checkpoint, batch_id)
    book.parent.mkdir(parents=True, exist_ok=True)
    aside = book.with_suffix(f".{os.getpid()}")
    with aside.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, book)
    for old in sorted(book.parent.glob("*.json"))[:-KEPT]:
        old.unlink()


def before(checkpoint: Path, batch_id: int, schema: Schema) -> RuleBook:
    """The book that a micro-batch starts with."""
    names = (path.name for path in (checkpoint / "rules").glob("*.json"))
    newest = max((name for name in names if int(name.removesuffix(".json")) < batch_id), default=None)
    return (
        RuleBook.from_json((checkpoint / "rules" / newest).read_text(), schema)
        if newest
        else RuleBook(schema)
    )
