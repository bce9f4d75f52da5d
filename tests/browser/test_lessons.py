"""Each lesson in each language, in JupyterLab: its exercises are solved, and its checks say so. `make soak` runs this."""

import pytest

from lab.teach.lessons import languages_of, lesson_number, lesson_sources, notebook_path
from tests.browser.access import of_lesson
from tests.browser.jupyter import ROOT, Watched, run_solved

pytestmark = pytest.mark.soak
LESSONS = [source for source in lesson_sources() if source.stem[0].isdigit()]


@pytest.mark.parametrize(
    "source, language",
    [(source, language) for source in LESSONS for language in languages_of(source)],
    ids=lambda value: getattr(value, "stem", value),
)
def test_every_check_of_a_solved_lesson_says_right(browser, jupyter, source, language):
    watched = Watched(browser, width=1366, height=768)
    watched.open(*jupyter, str(notebook_path(source, language).relative_to(ROOT)))
    run_solved(watched.page, lesson_number(source))
    assert of_lesson(watched.page) == []
    assert watched.errors == [] and watched.elsewhere == []
    watched.page.close()
