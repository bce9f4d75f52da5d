"""`lab reset`: returns lessons, logs, checkpoints and progress of this clone to their initial state. Other files stay.

A folder is taken for one of logs by the names of the folders in it, and for a checkpoint by its record, `lab.json`.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from lab.engine.checkpoint.lock import FolderLock
from lab.engine.checkpoint.record import RECORD
from lab.model.enginelogs import LOGS
from lab.teach import progress
from lab.teach.lessons import FOLDER, build_notebook, lesson_sources, notebook_path

ROOT = FOLDER.parent
OF_A_LOG = re.compile(r"\d{20}\.(jsonl|index)|lock|\.next")  # a segment's lines, its index; the writers' lock
BESIDE = ("spark.log", "spark.log.1")


@dataclass(frozen=True)
class ResetPlan:
    """The files that a reset restores or removes. It touches nothing else."""

    lessons: tuple[Path, ...]
    checkpoints: tuple[Path, ...]
    logs: tuple[Path, ...]

    def __bool__(self) -> bool:
        return bool(self.lessons or self.checkpoints or self.logs)

    def __str__(self) -> str:
        steps = (
            ("restore", self.lessons),
            ("remove the checkpoint", self.checkpoints),
            ("remove the log", self.logs),
        )
        return "\n".join(f"{step} {path.relative_to(ROOT)}" for step, paths in steps for path in paths)


def plan_reset() -> ResetPlan:
    """Finds what differs from the initial state in this clone: its folder, and notebooks/."""
    changed = [path for source in lesson_sources() if not _as_made(path := notebook_path(source), source)]
    places = [place for folder in (ROOT, FOLDER) for place in _folders(folder)]
    checkpoints = [place for place in places if (place / RECORD).is_file()]
    beside = [place for folder in places for place in _folders(folder) if (place / RECORD).is_file()]
    logs = [log for folder in places for log in _logs_in(folder)]
    return ResetPlan(tuple(changed), tuple(checkpoints + beside), tuple(logs))


def carry_out_reset(plan: ResetPlan) -> str:
    """Does it, forgets the progress, and says what that was. Raises CheckpointInUse, before anything is changed, if an engine is at work."""
    locks = [FolderLock(path, "lab reset") for path in plan.checkpoints]
    for path in plan.lessons:
        nbformat.write(build_notebook(FOLDER / "source" / f"{path.stem}.md"), path)
    for lock, path in zip(locks, plan.checkpoints):
        shutil.rmtree(path)
        lock.release()
    for path in plan.logs:
        for file in _files(path):
            file.unlink()
        _remove_if_empty(path)
    for folder in {path.parent for path in (*plan.logs, *plan.checkpoints)} - {ROOT, FOLDER}:
        for name in BESIDE:
            (folder / name).unlink(missing_ok=True)
        _remove_if_empty(folder)
    return progress.forget_progress_and_stop_log()


def _remove_if_empty(folder: Path) -> None:
    """Removes a folder unless there is something of somebody's own in it."""
    if not any(folder.iterdir()):
        folder.rmdir()


def _as_made(notebook: Path, source: Path) -> bool:
    return notebook.is_file() and nbformat.read(notebook, as_version=4) == build_notebook(source)


def _folders(folder: Path) -> Iterator[Path]:
    return (place for place in sorted(folder.iterdir()) if place.is_dir() and not place.is_symlink())


def _logs_in(folder: Path) -> list[Path]:
    """The logs in a folder, also empty ones; none if not one of them was written to."""
    logs = [place for place in _folders(folder) if place.name in LOGS]
    return logs if any(_files(log) for log in logs) else []


def _files(log: Path) -> list[Path]:
    return [file for file in log.iterdir() if OF_A_LOG.fullmatch(file.name)]
