"""A dry run before the class names what is slower on this machine than the text says."""

import pytest

from lab.cli.main import main
from lab.teach import dryrun
from lab.teach.dryrun import Cell, said_seconds, slower_cells
from lab.teach.lessons import lesson_sources


def cells(*parts: str | float) -> list[Cell]:
    """Texts are prose, numbers the seconds of code cells."""
    return [
        Cell(number, "markdown", part)
        if isinstance(part, str)
        else Cell(number, "code", f"run({part})", part)
        for number, part in enumerate(parts, 1)
    ]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (("The next cell takes about five seconds.", 5.0, 4.0), []),
        (
            ("The next cell takes about five seconds.", 1.0, 30.0),
            ["cell 3: 31 s here, the text says 5 s (run(30.0))"],
        ),
        (
            ("The next cell takes about five seconds.", "A remark.", 30.0),
            ["cell 3: 30 s here, the text says 5 s (run(30.0))"],
        ),
        (("It takes about five seconds.", 5.0, "## Next", 9.0, 9.0), []),
        (
            ("It takes about five seconds.", 5.0, "## Next", 11.0),
            ["cell 4: 11 s here, the text says nothing (run(11.0))"],
        ),
        (("It takes half a minute.", 30.0, "The cells take 2 minutes in all.", 100.0, 30.0), []),
    ],
)
def test_what_is_said_is_for_the_cells_up_to_the_next_heading_or_time(parts, said):
    assert list(slower_cells(cells(*parts))) == said


def test_a_cell_that_failed_is_named():
    assert list(slower_cells([Cell(7, "code", "1 / 0", 0.1, "ZeroDivisionError: division by zero")])) == [
        "cell 7 failed: ZeroDivisionError: division by zero (1 / 0)"
    ]


@pytest.mark.parametrize(("lesson", "times"), [("00", {30}), ("02", {5, 10, 30}), ("03", {30}), ("06", {10})])
def test_the_times_in_the_lessons_are_understood(lesson, times):
    [source] = [path for path in lesson_sources() if path.stem.startswith(lesson)]
    paragraphs = source.read_text().split("\n\n")
    assert times <= {said_seconds(text) for text in paragraphs}


def test_the_command_prints_a_line_for_each_lesson(monkeypatch, capsys):
    monkeypatch.setattr(
        dryrun, "run_lesson", lambda lesson: cells("It takes two seconds.", 9.0 * (lesson == 3))
    )
    assert main(["class", "check", "2", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "lesson 2: 0 s of computing, as the text says",
        "lesson 3: 9 s of computing",
        "  cell 2: 9 s here, the text says 2 s (run(9.0))",
    ]
    monkeypatch.undo()
    assert main(["class", "check", "77"]) == 1
    assert "lesson 77: there is no notebook of it" in capsys.readouterr().err
