"""Progress outlives kernels, and several may write at once; a log of stumbles is kept only for those who asked."""

import json
import re
import subprocess
import sys
from base64 import b64decode
from datetime import datetime
from pathlib import Path

import pytest
from ipywidgets import FileUpload

import lab
from lab import teach
from lab.teach import progress
from lab.teach.board import ProgressBoard
from lab.teach.judge import RIGHT, WRONG

SOLVE = "import sys; import lab; [lab.check('3.4', 864) for _ in range(20)]; lab.check(sys.argv[1], eval(sys.argv[2]))"


pytestmark = pytest.mark.usefixtures("progress_folder")


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_what_is_solved_is_known_to_the_next_kernel_and_wrong_answers_leave_nothing(progress_folder):
    lab.check("3.4", 5)
    assert files(progress_folder) == [] and progress.solved_exercises() == set()
    lab.check("3.4", 864)
    found = subprocess.check_output(
        [sys.executable, "-c", "from lab.teach.progress import solved_exercises; print(solved_exercises())"],
        text=True,
    )
    assert found.strip() == "{'3.4'}" and files(progress_folder) == ["solved.jsonl"]


def test_kernels_that_write_at_once_leave_whole_lines(progress_folder):
    answers = {"3.5": "[4, 8]", "1.4": "9", "4.3": "86400", "4.4": "86400000000"}
    running = [subprocess.Popen([sys.executable, "-c", SOLVE, *pair]) for pair in answers.items()]
    assert [process.wait() for process in running] == [0, 0, 0, 0]
    assert progress.solved_exercises() == {"3.4", *answers}
    assert all(
        json.loads(line)["exercise"] for line in (progress_folder / "solved.jsonl").read_text().splitlines()
    )


def test_a_line_cut_short_costs_itself_only(progress_folder):
    lab.check("3.4", 864)
    with (progress_folder / "solved.jsonl").open("a") as file:
        file.write('{"exercise": "3.\n')
    lab.check("1.4", 9)
    assert progress.solved_exercises() == {"3.4", "1.4"}


def test_progress_is_saved_as_a_file_and_loaded_elsewhere(progress_folder, monkeypatch):
    lab.check("3.4", 864)
    board = ProgressBoard()
    saved = b64decode(re.search('base64,([^"]+)', board.link.value)[1])
    monkeypatch.setenv("LAB_DATA", str(progress_folder / "elsewhere"))
    lab.check("1.4", 9)
    board.update()
    [upload] = [button for button in board.children[1].children if isinstance(button, FileUpload)]
    upload.value = [
        {"name": "progress.jsonl", "type": "", "size": 1, "content": saved, "last_modified": datetime.now()}
    ]
    assert (
        progress.solved_exercises() == {"3.4", "1.4"}
        and "new here: 1." in board.said.value
        and upload.value == ()
    )
    assert progress.load_progress(saved, teach.lesson_and_exercise_titles()) == 0


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"exercise": ["3.4"]}',
        b'{"exercise": "<b>"}\n{"exercise": NaN}',
        b"7\n[]\nnull",
    ],
)
def test_a_file_that_no_board_has_saved_adds_nothing(progress_folder, content):
    assert (
        progress.load_progress(content, teach.lesson_and_exercise_titles()) == 0
        and progress.solved_exercises() == set()
    )


def test_a_folder_that_cannot_be_written_to_does_not_stop_a_check(progress_folder, monkeypatch):
    (progress_folder / "file").touch()
    monkeypatch.setenv("LAB_DATA", str(progress_folder / "file" / "below"))
    assert lab.check("3.4", 864).state == RIGHT


def test_reset_forgets_and_leaves_the_log_to_its_owner(progress_folder):
    lab.log_stumbles()
    lab.check("3.4", 864)
    said = progress.forget_progress_and_stop_log()
    assert "1 solved" in said and "stumbles-" in said
    assert progress.solved_exercises() == set()
    [left] = files(progress_folder)
    before = (progress_folder / left).read_text()
    lab.check("3.4", 5)
    assert (progress_folder / left).read_text() == before


def test_the_board_follows_checks_and_the_reset_asks_first():
    everything, lesson = ProgressBoard(), ProgressBoard(3)
    assert "0 of 5" in everything.table.value and "✓" not in lesson.table.value
    lab.check("3.4", 864)
    assert "1 of 5" in everything.table.value and lesson.table.value.count("✓") == 1
    assert "how fine must it be?" in lesson.table.value
    *_, ask, sure = everything.children[1].children
    assert sure.layout.display == "none"
    ask.click()
    assert sure.layout.display is None and progress.solved_exercises()
    sure.click()
    assert not progress.solved_exercises() and "✓" not in lesson.table.value


def test_without_a_word_nothing_is_logged(progress_folder):
    lab.check("3.4", 5)
    lab.check("3.4", 864)
    assert files(progress_folder) == ["solved.jsonl"]


def test_the_log_has_what_it_says_that_it_has_and_no_name_that_was_not_typed(progress_folder):
    said = lab.log_stumbles().text
    lab.check("3.4", 5)
    lab.check_function("3.2", lambda time, end, width: 1 / 0)
    [file] = [name for name in files(progress_folder) if name.startswith("stumbles-")]
    assert str(progress_folder / file) in said
    begun, wrong, raised = map(json.loads, (progress_folder / file).read_text().splitlines())
    assert begun["state"] == "begin" and wrong["state"] == raised["state"] == WRONG
    assert wrong.keys() == {"at", "learner", "name", "exercise", "state", "said", "answer"}
    assert (
        wrong["answer"] == "5" and "is not right" in wrong["said"] and "ZeroDivisionError" in raised["said"]
    )
    assert {line["name"] for line in (begun, wrong, raised)} == {""}
    lab.log_stumbles(name="Ada")
    lab.check("3.4", 6)
    assert json.loads((progress_folder / file).read_text().splitlines()[-1])["name"] == "Ada"
    lab.log_stumbles(False)
    count = len((progress_folder / file).read_text().splitlines())
    lab.check("3.4", 7)
    assert len((progress_folder / file).read_text().splitlines()) == count


def run_cells(*cells: str) -> str:
    """What a notebook with these cells prints."""
    runs = "".join(f"shell.run_cell({cell!r})\n" for cell in cells)
    code = f"from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n{runs}"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_an_error_of_a_cell_is_a_stumble(progress_folder):
    run_cells("import lab; lab.log_stumbles()", "answer = nowhere", "answer = (")
    [file] = progress_folder.glob("stumbles-*")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["state"] for line in lines] == ["begin", "error", "error"]
    assert "NameError: name 'nowhere'" in lines[1]["said"] and "SyntaxError" in lines[2]["said"]


def test_a_function_whose_newest_cell_was_not_run_is_not_judged(progress_folder):
    said = run_cells(
        "import lab; lab.running_time()",
        "def in_window(time, end, width): return end - width < time <= end",
        "def in_window(time, end, width)\n    return end - width <= time <= end",
        "print('first', lab.check_function('3.2', in_window))",
        "def in_window(time, end, width): return end - width <= time <= end",
        "print('then', lab.check_function('3.2', in_window))",
    )
    [first] = re.findall("^first (.*)", said, re.MULTILINE)
    assert first.startswith(
        "… the cell that defines in_window was not run (SyntaxError, line 1: expected ':')"
    )
    [then] = re.findall("^then (.*)", said, re.MULTILINE)
    assert then.startswith("✓")
