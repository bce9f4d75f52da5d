"""The notebooks are made from their sources, short in code, and run from a fresh kernel, leaving nothing behind."""

import json
import os
import re
from pathlib import Path
from statistics import median
from unicodedata import east_asian_width

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from lab.teach import ANSWERS, OPEN, RIGHT
from lab.teach.lessons import (
    FOLDER,
    build_notebook,
    languages_of,
    lesson_number,
    lesson_sources,
    notebook_path,
    titles_solutions_and_predictions,
)
from tests.waiting import PATIENCE_S

LINES, MEDIAN_LINES = 20, 5
DRAWN = 100  # characters in a line of a drawing; JupyterLab breaks longer ones on a screen of 1,366 px
IN_A_CELL = 114  # columns of a line of code in a cell, there
PARTS = (
    "*Time needed",
    "At the end you can",
    "**Words**",
    "Exercise 1",
    "Shut Down Kernel",
    "Roads not taken",
    "Where this comes from",
)
LEFT = """
import sys, threading, psutil
context = sys.modules.get("pyspark.core.context")
left = [thread.name for thread in threading.enumerate() if thread.name in ("player", "engine")]
left += ["Spark"] if context and context.SparkContext._active_spark_context else []
for process in psutil.Process().children(recursive=True):
    try:
        left += ["broker"] if any("lab.broker" in word for word in process.cmdline()) else []
    except psutil.Error:
        pass  # it has ended
left
"""
# takes more than 5 s
LONG = re.compile(
    r"lab\.session\(|watch\(1\d|engine=\"reference\"|race\.race\(|alerts_when_cut\(bounds\)|lab\.RuleDesk\("
)
SAID = re.compile(r"\b(about|for)\s(a|five|ten|half a|\d+)\s(seconds?|minute)", re.IGNORECASE)
# an everyday run has the control room and lessons 10 and 11
SLOW = (
    "01-dynamic-partitioning",
    "02-broadcast-rules",
    "03-custom-windows",
    "04-latency-of-sliding-windows",
    "05-rescaling-keyed-state",
    "06-making-it-fast",
    "08-from-data-to-policy",
    "09-attack-my-engine",
)
IN_THE_BROWSER = ("00-start-here", "07-live")  # tests/browser runs these whole
# an everyday run has fewer events and seconds, and one Java; `make soak` runs what learners get
SMALLER = {
    "03-custom-windows": {
        '"large.jsonl"), 60_000': '"large.jsonl"), 6_000',
        "    lab.replay(small, [thirty], spark=spark)  #": "    pass  #",
    },
    "04-latency-of-sliding-windows": {
        "slides = [600, 1_000, 2_000, 5_000]": "slides = [600, 2_000]",
        "seconds=15": "seconds=4",
        "try_real_time(spark)": "try_real_time(spark, seconds=3)",
        "race_real_time(spark)": "race_real_time(spark, [1_000], seconds=2)",
        ", 3_000, seed=3": ", 300, seed=3",
        "    lab.cost_of_sliding(spark, log, 600_000, 600_000)  #": "    pass  #",
        "    lab.replay(log, [rule], spark=spark)\n    costs": "    costs",
        "panes in (1, 10, 60)": "panes in (1, 60)",
        "lab.running_time()": "java = lab.session()\njava.__enter__()",
        "for operator, words in": "java.__exit__(None, None, None)\nfor operator, words in",
    },
    "06-making-it-fast": {
        "payment_lines(300_000)": "payment_lines(60_000)",
        "lines[:1_500], rule, events_per_batch=500": "lines[:300], rule, events_per_batch=100",
        "lines[:60_000], rule, events_per_batch=20_000": "lines[:12_000], rule, events_per_batch=4_000",
        "lines, rule, events_per_batch=100_000": "lines, rule, events_per_batch=20_000",
        "lines[:30_000]": "lines[:6_000]",
        "lines[:20_000]": "lines[:3_000]",
    },
}
every_source = pytest.mark.parametrize("source", lesson_sources(), ids=lambda path: path.stem)


def run(notebook: nbformat.NotebookNode, times: int = 1) -> None:
    """Runs all cells, several times in a row if wanted; nothing is left behind."""
    os.environ["PYTHONPATH"] = str(FOLDER.parent)
    cells = notebook.cells
    client = NotebookClient(notebook, timeout=PATIENCE_S, resources={"metadata": {"path": FOLDER}})
    with client.setup_kernel():
        for _ in range(times):
            for index, cell in enumerate(cells):
                client.execute_cell(cell, index)
        probe = new_code_cell(LEFT)
        notebook.cells.append(probe)
        client.execute_cell(probe, len(notebook.cells) - 1)
    assert notebook.cells.pop().outputs[0]["data"]["text/plain"] == "[]"


def smaller(notebook: nbformat.NotebookNode, lesson: str) -> nbformat.NotebookNode:
    for words, fewer in SMALLER.get(lesson, {}).items():
        cells = [cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source]
        assert cells, f"{words!r} is in no cell of {lesson} any more"
        for cell in cells:
            cell.source = cell.source.replace(words, fewer)
    return notebook


def verdicts(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each check said: "right", "open" or "wrong", by the code of its cell."""
    marks = {"✓": RIGHT, "…": OPEN}
    said = {}
    for cell in notebook.cells:
        if "check" in cell.metadata.get("tags", []):
            texts = [o["data"]["text/plain"] for o in cell.outputs if "data" in o]
            said[cell.source] = marks.get(texts[-1][0], texts[-1])
    return said


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            path,
            marks=[pytest.mark.soak] * (path.stem in IN_THE_BROWSER)
            + [pytest.mark.slow] * (path.stem in SLOW),
        )
        for path in lesson_sources()
    ],
    ids=lambda path: path.stem,
)
def test_a_lesson_with_its_solutions_runs_and_every_check_says_right(source):
    notebook = smaller(build_notebook(source, with_solutions=True), source.stem)
    run(notebook)
    assert [text for text in verdicts(notebook).values() if text != RIGHT] == []


@pytest.mark.soak
@pytest.mark.parametrize(
    "source, language",
    [(path, language) for path in lesson_sources() for language in languages_of(path)[1:]],
    ids=lambda value: getattr(value, "stem", value),
)
def test_a_translated_lesson_with_its_solutions_runs_and_every_check_says_right(source, language):
    notebook = smaller(build_notebook(source, with_solutions=True, language=language), source.stem)
    run(notebook)
    assert [text for text in verdicts(notebook).values() if text != RIGHT] == []


@pytest.mark.soak
@every_source
def test_a_lesson_as_the_learner_gets_it_runs_twice_in_a_row_and_its_checks_wait(source):
    notebook = build_notebook(source)
    run(notebook, times=2)
    assert [text for text in verdicts(notebook).values() if text != OPEN] == []


@every_source
def test_a_notebook_is_what_its_source_makes_without_outputs(source):
    committed = nbformat.read(notebook_path(source), as_version=4)
    assert committed == build_notebook(source), "run: make lessons"


def test_the_answers_are_those_of_the_sources():
    assert json.loads(ANSWERS.read_text()) == titles_solutions_and_predictions(), "run: make lessons"


@every_source
def test_a_notebook_does_not_tell_its_answers(source):
    shown = "\n".join(cell.source for cell in build_notebook(source).cells)
    assert "because=" not in shown and "right=" not in shown and "<summary>Solution" not in shown
    own = [
        code
        for name, code in titles_solutions_and_predictions()["solutions"].items()
        if name.startswith(f"{lesson_number(source)}.")
    ]
    assert [code for code in own if code in shown] == []


def test_exercises_and_checks_are_known_to_a_grader():
    cells = build_notebook(FOLDER / "source" / "03-custom-windows.md").cells
    told = [cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata]
    assert [one.grade_id for one in told[:4]] == ["exercise-3-1", "check-3-1", "exercise-3-2", "check-3-2"]
    assert sum(one.get("points", 0) for one in told) == 5 and len({one.grade_id for one in told}) == 10


def test_every_notebook_has_a_source():
    assert sorted(FOLDER.glob("*.ipynb")) == [notebook_path(source) for source in lesson_sources()]


@every_source
def test_a_long_cell_says_so_before_it_runs(source):
    cells = build_notebook(source).cells
    long = [n for n, cell in enumerate(cells) if cell.cell_type == "code" and LONG.search(cell.source)]
    silent = []
    for n in long:
        before = next((c.source for c in reversed(cells[:n]) if c.cell_type == "markdown"), "")
        silent += [] if SAID.search(before) else [cells[n].source]
    assert silent == []


@every_source
def test_code_cells_are_short(source):
    cells = [cell for cell in build_notebook(source, with_solutions=True).cells if cell.cell_type == "code"]
    assert max(len(cell.source.splitlines()) for cell in cells) <= LINES
    told = [c for c in cells if "check" not in c.metadata.get("tags", []) and "lab.predict(" not in c.source]
    assert median(len(cell.source.splitlines()) for cell in told) <= MEDIAN_LINES


@every_source
def test_a_question_is_read_whole_in_its_cell(source):
    """A longer line is cut off."""
    notebooks = [build_notebook(source, language=language) for language in languages_of(source)]
    cells = [
        cell.source for notebook in notebooks for cell in notebook.cells if "lab.predict(" in cell.source
    ]
    lines = [line for cell in cells for line in cell.splitlines()]
    assert [
        line for line in lines if sum(1 + (east_asian_width(sign) in "WF") for sign in line) > IN_A_CELL
    ] == []


@every_source
def test_a_drawing_is_not_broken_on_a_small_screen(source):
    texts = [cell.source for cell in build_notebook(source).cells if cell.cell_type == "markdown"]
    drawings = [part for text in texts for part in text.split("```")[1::2]]
    assert [line for drawing in drawings for line in drawing.splitlines() if len(line) > DRAWN] == []


@pytest.mark.parametrize(
    "source", [path for path in lesson_sources() if path.stem[0].isdigit()], ids=lambda path: path.stem
)
def test_a_lesson_has_all_its_parts(source: Path):
    text = source.read_text()
    assert [part for part in PARTS if part not in text] == []
    assert 3 <= text.count('tags=["exercise"]') <= 6
    assert text.count('tags=["exercise"]') == text.count('tags=["solution"]') == text.count('tags=["check"]')
