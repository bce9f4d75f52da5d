"""What the book is made of: pages, pictures of widgets, links; and `make book`'s own check. Sphinx is not needed here."""

import re
from pathlib import Path

import nbformat
import pytest

import lab
from book import api, check, execute, make, widgets
from lab.teach.lessons import lesson_sources
from lab.widgets.figures import Figure
from lab.widgets.slider import TextSlider
from lab.widgets.table import SelectableTable


def state(*some) -> dict:
    """Widgets as a notebook stores them."""
    return some[0].get_manager_state()["state"]


# -- widgets -----------------------------------------------------------------------------------------------------------


def test_a_plot_is_drawn_from_what_it_shows_now():
    figure = Figure(layout={"title": {"text": "Lag </script>"}, "xaxis": {"title": {"text": "second"}}})
    figure.add_scatter(x=[1], y=[2], name="task 0")
    figure.data[0].y = [7, 8, 9]
    html = widgets.picture(figure.model_id, state(figure))
    assert '"y": [7, 8, 9]' in html and html.count("</script>") == 1
    assert "Plot: Lag &lt;/script&gt;: second; shown: task 0." in html


def test_an_array_of_a_plot_is_what_its_script_reads():
    numpy = pytest.importorskip("numpy")
    figure = Figure()
    figure.add_scatter(y=numpy.arange(3.0))
    html = widgets.picture(figure.model_id, state(figure))
    assert '[{"y": {"dtype": "float64", "bdata": "AAAAAAAAAAAAAAAAAADwPwAAAAAAAABA"}' in html


def test_controls_are_shown_as_they_stand_and_cannot_be_used():
    import ipywidgets

    table = SelectableTable(("rule", "alerts"), "Rules", numeric=(1,))
    table.rows = [["1", "<b>sum</b>", "17"]]
    slider = TextSlider("window", print)
    slider.texts, slider.position, slider.text = ["1 s", "1 min"], 1, "1 min"
    hidden = ipywidgets.HTML("unseen")
    hidden.layout.display = "none"
    options = ipywidgets.Dropdown(options=["a", "b"], value="b", description="policy")
    box = ipywidgets.VBox([table, slider, hidden, ipywidgets.Button(description="Play"), options])
    html = widgets.picture(box.model_id, state(box))
    assert "&lt;b&gt;sum&lt;/b&gt;" in html and "<td class=number>17</td>" in html
    assert 'value="1"' in html and "<output>1 min</output>" in html and "unseen" not in html
    assert html.count(" disabled") == 2 and "policy <b>b</b>" in html


def test_a_prediction_has_its_answer_folded():
    [cell] = [
        cell
        for cell in make.lesson(lesson_sources()[3]).cells
        if "Which tumbling window of an hour holds more than 110?" in cell.source
    ]
    html = cell.outputs[-1]["data"]["text/html"]
    assert html.index("<li>none</li>") < html.index("<details>") < html.index("<b>none.</b>")
    assert "remove-input" in cell.metadata.tags


def test_solutions_and_checks_are_folded():
    for source in lesson_sources():
        for cell in make.lesson(source).cells:
            if {"solution", "check"} & set(cell.metadata.get("tags", [])):
                assert "hide-cell" in cell.metadata["tags"]


def test_widgets_that_grew_and_ended_are_shown_as_they_were_fullest(tmp_path, monkeypatch):
    lesson = tmp_path / "10-short.md"
    lesson.write_text(
        "# 10\n\n```python\nimport ipywidgets\nbox = ipywidgets.HTML('a')\nbox\n```\n\n```python\nbox.value = 'the fullest'\n```\n\n"
        "```python\nbox.value = ''\n```\n"
    )
    monkeypatch.setattr(execute, "OUT", tmp_path)
    execute.execute(lesson)
    copy = tmp_path / "10-short.ipynb"
    written = copy.stat().st_mtime_ns
    made = nbformat.read(copy, as_version=4)
    widgets.make_static(made)
    assert "the fullest" in made.cells[1].outputs[0]["data"]["text/html"] and len(made.cells) == 4
    execute.execute(lesson)
    assert copy.stat().st_mtime_ns == written


# -- pages -------------------------------------------------------------------------------------------------------------


def test_every_public_name_and_every_module_that_documents_name_has_its_place():
    pages = api.pages([make.ROOT / path for path in make.documents()])
    assert [name for name in lab.__all__ if f"}} lab.{name}" not in pages["lab"]] == []
    assert {"lab.model.reference", "lab.engine.loop.cut", "lab.model.keygroups"} <= pages.keys()
    assert "py:function} lab.model.keygroups.flink_partition" in pages["lab.model.keygroups"]


def test_every_document_is_in_the_list_of_contents():
    listed = (make.ROOT / "book" / "index.md").read_text().splitlines()
    pages = [str(path.with_suffix("")) for path in make.documents()]
    pages += [f"notebooks/{path.stem}" for path in lesson_sources()]
    assert [page for page in pages if page not in listed] == []


def test_links_to_what_is_no_page_become_text():
    pages = {Path("docs/kafka.md")}
    text = "[a](../docs/kafka.md#tls) [b](../lab/cli/main.py) ![c](x.png) [d](https://example.org) [`e`](operations.md)"
    assert make.with_links_to(pages, Path("docs/x.md"), text) == (
        "[a](../docs/kafka.md#tls) b ![c](x.png) [d](https://example.org) `e`"
    )


# -- the check ---------------------------------------------------------------------------------------------------------


def site(folder: Path, body: str) -> Path:
    (folder / "sub").mkdir()
    (folder / "index.html").write_text(f'<link rel="canonical" href="https://example.org/">{body}')
    (folder / "sub" / "two.html").write_text(
        '<a href="../index.html#here">x</a><a href="https://example.org">y</a>'
    )
    (folder / "style.css").write_text("body { background: url(data:image/png;base64,AA) }")
    return folder


def test_a_whole_site_has_no_faults(tmp_path):
    body = '<p id="here"><a href="sub/two.html">x</a><img src="data:,"><link rel=stylesheet href="style.css?v=1">'
    assert check.faults(site(tmp_path, body), ["index.html", "sub/two.html"]) == []


@pytest.mark.parametrize(
    "body, fault",
    [
        ("", "links to ../index.html#here"),
        ('<p id="here"><a href="gone.html">x</a>', "index.html links to gone.html"),
        ('<p id="here"><img src="gone.png">', "index.html links to gone.png"),
        ('<p id="here"><script src="https://cdn.example.org/x.js"></script>', "index.html loads https://cdn"),
        ('<p id="here"><link rel="stylesheet" href="//fonts.example.org/x.css">', "index.html loads //fonts"),
        ('<p id="here"><img src="http://example.org/x.png">', "index.html loads http://example.org"),
    ],
)
def test_a_dead_link_or_another_host_is_named(tmp_path, body, fault):
    assert any(fault in said for said in check.faults(site(tmp_path, body), []))


def test_a_missing_page_and_a_style_that_loads_are_named(tmp_path):
    folder = site(tmp_path, '<p id="here">')
    (folder / "style.css").write_text('@import "https://fonts.example.org/x.css";')
    assert check.faults(folder, ["three.html"]) == [
        "three.html is missing",
        "style.css loads https://fonts.example.org/x.css",
    ]


def test_what_other_targets_made_is_linked_and_copied_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "BUILD", tmp_path)
    monkeypatch.setattr(make, "SITE", tmp_path / "book")
    (tmp_path / "book").mkdir()
    assert make.with_beside("- New here: x") == "- New here: x"
    (tmp_path / "control-room.html").write_text("<p>")
    (tmp_path / "lite").mkdir()
    (tmp_path / "lite" / "index.html").write_text('<script src="https://example.org/x.js"></script>')
    assert re.findall('href="(.*?)"', make.with_beside("- New here: x")) == [
        "control-room.html",
        "lite/index.html",
    ]
    make.copy_beside()
    assert check.faults(make.SITE, [], tuple(make.BESIDE)) == [] and len(check.faults(make.SITE, [])) == 1
    assert (make.SITE / "control-room.html").exists()
