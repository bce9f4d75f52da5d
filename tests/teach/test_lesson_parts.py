"""What all lessons have in common beside their parts: a clock below long cells."""

import re

import pytest

from lab.teach.lessons import build_notebook, lesson_sources


@pytest.mark.parametrize(
    "source", [path for path in lesson_sources() if path.stem[0].isdigit()], ids=lambda path: path.stem
)
def test_a_lesson_starts_its_clock_before_anything_takes_long(source):
    code = [cell.source for cell in build_notebook(source).cells if cell.cell_type == "code"]
    assert "lab.running_time()" in code[0]
    assert not re.search(r"lab\.(session|Studio|EnforcementDemo|attack)\(", code[0])
