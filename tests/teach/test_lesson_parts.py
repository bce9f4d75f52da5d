"""What all lessons have in common beside their parts: a clock below long cells, and lines that can be read."""

import re

import pytest

from lab.teach.lessons import build_notebook, columns, languages_of, lesson_sources

VISIBLE = 116  # columns of a cell


@pytest.mark.parametrize(
    "source", [path for path in lesson_sources() if path.stem[0].isdigit()], ids=lambda path: path.stem
)
def test_a_lesson_starts_its_clock_before_anything_takes_long(source):
    code = [cell.source for cell in build_notebook(source).cells if cell.cell_type == "code"]
    assert "lab.running_time()" in code[0]
    assert not re.search(r"lab\.(session|Studio|EnforcementDemo|attack)\(", code[0])


@pytest.mark.parametrize("source", lesson_sources(), ids=lambda path: path.stem)
def test_no_line_of_code_is_cut_off_beside_the_list_of_files_at_1366_pixels(source):
    for language in languages_of(source):
        for cell in build_notebook(source, language=language).cells:
            lines = cell.source.splitlines() if cell.cell_type == "code" else []
            assert [line for line in lines if columns(line) > VISIBLE] == [], language
