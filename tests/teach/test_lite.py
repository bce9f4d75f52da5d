"""The static site's own pages, without building it. `make lite-test` runs the site in a browser."""

import json

import pytest

from lab.teach.lessons import build_notebook, languages_of, lesson_sources
from lab.teach.lite import _first_page, site_notebooks, site_recording
from lab.teach.pyodide import pyodide_files
from lab.teach.recorded import native_only_cells


def test_the_first_page_links_to_each_lesson_and_has_what_jupyterlite_reads_in_each_folder():
    lessons = site_notebooks()
    page = _first_page(lessons)
    assert len(lessons) >= 11 and all(f'"lab/?path={name}"' in page for name, _ in lessons)
    assert ">3 · Custom windows</a>" in page and ">Control room</a>" in page
    assert '<section lang="ko">' in page and "브라우저" in page.partition('<section lang="ko">')[2]
    assert '<script id="jupyter-config-data" type="application/json"' in page


def test_each_notebook_begins_by_asking_for_what_was_recorded():
    for name, notebook in site_notebooks():
        language, _, lesson = name.removesuffix(".ipynb").rpartition("/")
        called = (
            f'use_recorded_outputs("{lesson}", "{language}")'
            if language
            else f'use_recorded_outputs("{lesson}")'
        )
        assert called in notebook.cells[1].source and (
            language != "ko" or "브라우저" in notebook.cells[0].source
        )


def test_a_recorded_cell_is_found_in_each_language():
    recorded = json.loads(site_recording())
    for source in lesson_sources():
        for language in languages_of(source)[1:]:
            cells = native_only_cells(build_notebook(source, with_solutions=True, language=language).cells)
            assert [cell[language] for cell in recorded.get(source.stem, ())] == [
                cell.source for cell in cells
            ]


def test_without_npm_the_build_says_that_it_needs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="npm is not on PATH.*sudo apt install npm"):
        pyodide_files(tmp_path)
