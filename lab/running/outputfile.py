"""Files that commands write where the user says."""

import csv
import errno
import os
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

from lab.logs.access import private_file_opener
from lab.model.formatting import file_named_in_errors
from lab.running.target import Usage


def write_output(path: Path, texts: Iterable[str]) -> None:
    """Writes a file; a new one is for this user alone, as what commands say is about people. An OSError names it, also if the disk is full."""
    with file_named_in_errors(path), open(path, "w", encoding="utf-8", opener=private_file_opener) as file:
        file.writelines(texts)


def write_parquet(path: Path, table: Any) -> None:
    """Writes a table of Arrow, as `write_output` does."""
    from pyarrow import parquet

    with file_named_in_errors(path), open(path, "wb", opener=private_file_opener) as file:
        parquet.write_table(table, file)


def write_csv(path: Path, table: Any) -> None:
    """Writes a table of Arrow as CSV for spreadsheets (`lab.sources.tables.csv_rows`), as `write_output` does."""
    from lab.sources.tables import csv_rows

    with (
        file_named_in_errors(path),
        open(path, "w", encoding="utf-8", newline="", opener=private_file_opener) as file,
    ):
        csv.writer(file, lineterminator="\n").writerows(csv_rows(table))


def write_table(path: Path, table: Any) -> None:
    """Writes a table of Arrow as CSV if the file's name ends with .csv, as Parquet otherwise."""
    (write_csv if is_csv(path) else write_parquet)(path, table)


def is_csv(path: Path) -> bool:
    """Whether a file's name says that it is CSV."""
    return path.suffix.lower() == ".csv"


def check_ending(path: Path, written: str, *others: str) -> None:
    """Raises Usage if a file's name ends as that of another format than is written. `others`: endings of formats that are not."""
    if path.suffix.lower() in others:
        raise Usage(f"{path}: expected the name of a file of {written}, not one that ends with {path.suffix}")


def check_output(path: Path, *inputs: Path) -> None:
    """Raises Usage or PermissionError before the work starts if an output file cannot be written or is an input."""
    if not path.parent.is_dir():
        raise Usage(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise Usage(f"{path}: is a folder, expected a file to write")
    if any(path.exists() and file.exists() and path.samefile(file) for file in inputs):
        raise Usage(f"{path}: is what the command reads, expected another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def check_different(*files: Path | None) -> None:
    """Raises Usage if two output files are the same: the second would replace the first. Several may be /dev/null."""
    for one, other in combinations(filter(None, files), 2):
        if one.resolve() == other.resolve() and (one.is_file() or not one.exists()):
            raise Usage(f"{one}: is written twice, expected two different files")
