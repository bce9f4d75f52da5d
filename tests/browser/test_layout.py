"""The room's layout without a kernel: its style sheets around plain boxes."""

from pathlib import Path

import pytest

import lab.widgets

pytestmark = pytest.mark.browser
STYLE = "".join(Path(lab.widgets.__file__).with_name(f"{name}.css").read_text() for name in ("figure", "lab"))
# what ipywidgets adds: its boxes are flexible columns
BOXES = ".lab-room, .lab-column, .lab-panel { display: flex; flex-direction: column }"
SENTENCE = '<p class="lab-said bad">{}</p>'.format(
    "3 dead letters, the newest: orders.jsonl:17: no time. " * 3
)
CONTROLS = '<div style="height: 190px">heading, rate, bursts, facts</div>'


def room(sentences: int) -> str:
    chart = '<div class="lab-fill"></div>'
    stream = f'<div class="lab-panel">{CONTROLS}<div>{SENTENCE * sentences}</div>{chart}</div>'
    latency = f'<div class="lab-panel"><div style="height: 60px"></div>{chart}<div class="lab-fill lab-strip"></div></div>'
    column = f'<div class="lab-column">{stream}{latency}</div>'
    head = '<div class="lab-head">the engine runs</div>'
    return f'<style>{STYLE}{BOXES}</style><div class="lab lab-room">{head}<div class="lab-main">{column}</div></div>'


PLOT = {
    "layout": {
        "title": {"text": "Lag"},
        "xaxis": {"title": {"text": "<b>s</b>"}},
        "yaxis": {"title": {"text": "events"}},
    },
    "data": [
        {"name": "task 0", "y": [3, None, 1234567, "x"]},
        {"name": "task 0", "y": [9]},
        {"name": "limit"},
        {"name": "hidden", "y": [1], "visible": False},
        {"y": [2]},
    ],
}


def test_a_plot_is_told_in_a_sentence(browser):
    page = browser.new_page()
    script = Path(lab.widgets.__file__).with_name("figure.js").read_text()
    said = page.evaluate(
        "async ([script, plot]) => (await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})))).told(plot)",
        [script, PLOT],
    )
    assert said == "Plot: Lag: events by s; shown: task 0 from 3 to 1,235,000, limit."
    page.close()


@pytest.mark.parametrize("sentences", [0, 1, 3, 9])
def test_a_chart_keeps_its_height_below_what_is_said(browser, sentences):
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.set_content(room(sentences))
    heights = page.evaluate("[...document.querySelectorAll('.lab-fill')].map(part => part.clientHeight)")
    assert min(heights) >= 68
    column = page.locator(".lab-column")
    hidden = column.evaluate("part => part.scrollHeight > part.clientHeight")
    assert hidden == (sentences > 0)
    page.close()
