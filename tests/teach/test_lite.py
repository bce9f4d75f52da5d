"""The static site's own pages, without building it. `make lite-test` runs the site in a browser."""

from lab.teach.lite import _first_page, notebooks


def test_the_first_page_links_to_each_lesson_and_has_what_jupyterlite_reads_in_each_folder():
    lessons = notebooks()
    page = _first_page(lessons)
    assert len(lessons) == 6 and all(f'"lab/?path={name}"' in page for name, _ in lessons)
    assert ">3 · Custom windows</a>" in page and ">Control room</a>" in page
    assert '<script id="jupyter-config-data" type="application/json"' in page


def test_each_notebook_begins_by_asking_for_what_was_recorded():
    for name, notebook in notebooks():
        assert f'begin("{name.removesuffix(".ipynb")}")' in notebook.cells[1].source
