"""A clone that was worked with, as on the first day again, and what is somebody's own still there."""

import io
import shutil

import nbformat
import pytest

from lab.cli.main import main
from lab.engine.checkpoint.lock import CheckpointInUse, FolderLock
from lab.engine.loop.filelogs import FileLogs
from lab.teach import lessons, progress, reset
from lab.teach.judge import RIGHT, Verdict

LESSON = "03-custom-windows"


@pytest.fixture
def clone(monkeypatch, tmp_path):
    """A clone with one lesson, which was worked on; logs and checkpoint of an engine; and a person's own files."""
    notebooks = tmp_path / "notebooks"
    (notebooks / "source").mkdir(parents=True)
    shutil.copy(lessons.FOLDER / "source" / f"{LESSON}.md", notebooks / "source")
    for module in (lessons, reset):
        monkeypatch.setattr(module, "FOLDER", notebooks)
    monkeypatch.setattr(reset, "ROOT", tmp_path)
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "data of mine"))
    (source,) = lessons.lesson_sources()
    worked = lessons.build_notebook(source)
    worked.cells[1].source = "# my answer"
    nbformat.write(worked, notebooks / f"{LESSON}.ipynb")
    (notebooks / "mine.ipynb").write_text("{}")
    logs = FileLogs(notebooks / "logs")
    logs.create()
    logs.log("events").append(["a"])
    (notebooks / "logs" / "checkpoint").mkdir()
    (notebooks / "logs" / "checkpoint" / "lab.json").write_text("{}")
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "of the year.txt").write_text("mine")
    return tmp_path


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


MINE = {"notebooks/mine.ipynb", f"notebooks/source/{LESSON}.md", "events/of the year.txt"}


def test_lessons_logs_and_checkpoints_go_back_and_what_is_mine_stays(clone):
    progress.record_result("3.2", Verdict(RIGHT, "right"), "")
    reset.carry_out_reset(reset.plan_reset())
    assert (
        files(clone) == MINE | {f"notebooks/{LESSON}.ipynb"} and not (clone / "notebooks" / "logs").exists()
    )
    assert "my answer" not in (clone / "notebooks" / f"{LESSON}.ipynb").read_text()
    assert progress.solved_exercises() == set()
    assert not reset.plan_reset()


def test_a_file_of_mine_in_a_log_stays_and_its_folder_with_it(clone):
    (clone / "notebooks" / "logs" / "events" / "notes.txt").write_text("mine")
    reset.carry_out_reset(reset.plan_reset())
    assert files(clone / "notebooks" / "logs") == {"events/notes.txt"}


def test_a_folder_that_only_has_the_name_of_a_log_is_not_one(clone):
    (clone / "project" / "events").mkdir(parents=True)
    (clone / "project" / "events" / "2024.jsonl").write_text("mine")
    assert clone / "project" / "events" not in reset.plan_reset().logs


def test_while_an_engine_runs_nothing_is_changed(clone):
    before = files(clone)
    engine = FolderLock(clone / "notebooks" / "logs" / "checkpoint")
    with engine, pytest.raises(CheckpointInUse, match="in use by an engine"):
        reset.carry_out_reset(reset.plan_reset())
    assert files(clone) - before <= {"notebooks/logs/checkpoint/lab.lock"}


def test_the_command_says_what_goes_and_does_it_only_if_told(clone, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("no\n"))
    before = files(clone)
    assert main(["reset"]) == 2 and files(clone) == before
    said = capsys.readouterr().out
    for line in (
        f"restore notebooks/{LESSON}.ipynb",
        "remove the checkpoint notebooks/logs/checkpoint",
        "remove the log notebooks/logs/events",
    ):
        assert line in said.splitlines()
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["reset"]) == 0 and files(clone) == MINE | {f"notebooks/{LESSON}.ipynb"}
    assert main(["reset", "--yes"]) == 0
