"""The room's layout without a kernel: its style sheets around plain boxes."""

import json
from pathlib import Path

import plotly
import pytest
from playwright.sync_api import Page

import lab.widgets
from lab.followers.latency import STAGES
from lab.teach.board import progress
from lab.teach.judge import RIGHT, WRONG, Verdict
from lab.widgets.latencyscope import LatencyScope
from lab.widgets.look import sentence_html
from tests.browser.listener import LISTENS

pytestmark = pytest.mark.browser
STYLE = "".join(Path(lab.widgets.__file__).with_name(f"{name}.css").read_text() for name in ("figure", "lab"))
SCRIPT = Path(lab.widgets.__file__).with_name("plottext.js").read_text()
FIT = Path(lab.widgets.__file__).with_name("accessibility.js").read_text()
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


def in_script(page, name: str, plot: dict):
    """What a function of plottext.js makes of a plot."""
    code = "async ([script, name, plot]) => (await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'}))))[name](plot)"
    return page.evaluate(code, [SCRIPT, name, plot])


@pytest.mark.parametrize(
    ("plot", "said"),
    [
        ("PLOT", "Plot: Lag: events by s; shown: task 0 from 3 to 1,235,000, limit, events from 2 to 2."),
        ("WINDOWS", "Plot: time; shown: window, empty; marked: session ✗ missed, limit."),
        ("TASKS", "Plot: key-groups; shown: moves from 0.1235 to 2."),
    ],
)
def test_a_plot_is_told_in_a_sentence(browser, plot, said):
    page = browser.new_page()
    assert in_script(page, "plotText", globals()[plot]) == said
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


def test_the_list_of_what_is_solved_shows_every_lesson_and_its_link_looks_like_the_buttons_beside_it(browser):
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    board = progress()
    page.set_content(
        f'<style>{STYLE}</style><div class="lab">{board.table.value}<button class="jupyter-button">Refresh</button>{board.link.value}</div>'
    )
    hidden = page.locator(".lab-table").evaluate("table => table.scrollHeight - table.clientHeight")
    assert page.get_by_role("row").count() > 11 and hidden == 0
    looks = "element => ['borderTopWidth', 'borderTopColor', 'color', 'backgroundColor', 'height'].map(name => getComputedStyle(element)[name])"
    assert page.get_by_role("link").evaluate(looks) == page.get_by_role("button").evaluate(looks)
    page.close()


WINDOWS = {
    "layout": {
        "xaxis": {"title": {"text": "time"}},
        "annotations": [{"name": "session", "text": "✗ missed"}, {"text": "limit"}],
    },
    "data": [
        {
            "name": "window",
            "hoverinfo": "text",
            "hovertext": "",  # as plotly fills it in
            "x": ["2024-01-01T10:00", "2024-01-01T10:20", None, "2024-01-01T09:00"],
            "y": [1, 1, None, 2],
            "text": ["a: 10:00 – 10:20", "a: 10:00 – 10:20", "", "b: 09:00"],
        },
        {"name": "empty", "x": [], "y": []},
    ],
}
TASKS = {
    "layout": {
        "xaxis": {"title": {"text": "key-groups"}, "ticksuffix": " ms"},
        "yaxis": {"tickvals": [0, 1], "ticktext": ["task <b>0</b>", "task 1"]},
    },
    "data": [{"name": "moves", "orientation": "h", "y": [1, 0, 0], "x": [0.123456789, 2, None]}],
}


@pytest.mark.parametrize(
    ("plot", "columns", "rows"),
    [
        (PLOT, ["s", "task 0", "events"], [["0", "3 / 9", "2"], ["2", "1,234,567", ""], ["3", "x", ""]]),
        (
            WINDOWS,
            ["time", "window"],
            [["2024-01-01 09:00", "b: 09:00"], ["2024-01-01 10:00", "a: 10:00 – 10:20"]],
        ),
        (TASKS, ["point", "moves"], [["task 0", "2 ms"], ["task 1", "0.12345679 ms"]]),
        ({"layout": {}, "data": []}, ["point"], []),
    ],
)
def test_a_plot_has_a_table_of_its_values(browser, plot, columns, rows):
    page = browser.new_page()
    assert in_script(page, "table", plot) == {"columns": columns, "rows": rows, "more": 0}
    page.close()


def test_a_long_table_says_how_many_rows_are_left_out(browser):
    page = browser.new_page()
    made = in_script(page, "table", {"layout": {}, "data": [{"y": list(range(700))}]})
    assert len(made["rows"]) == 500 and made["more"] == 200 and made["columns"] == ["point", "value"]
    page.close()


def test_the_table_of_a_plot_opens_and_closes_with_the_keyboard(browser):
    page = browser.new_page()
    page.set_content(f"<style>{STYLE}</style><body><div id=plot class='js-plotly-plot lab'></div>")
    page.locator("#plot").evaluate(
        """async (el, [script, plot]) => {
            Object.assign(el, plot);
            el.innerHTML = '<div class="plot-container" style="height: 200px"></div>';
            (await import(URL.createObjectURL(new Blob([script], {type: "text/javascript"})))).accompany(el)();
            document.addEventListener("keydown", (event) => { el.heard = event.key; });
        }""",
        [SCRIPT, PLOT],
    )
    said = "Plot: Lag: events by s; shown: task 0 from 3 to 1,235,000, limit, events from 2 to 2."
    button = page.get_by_role("button", name="Table")
    assert page.get_by_role("img", name=said).count() == 1
    assert button.evaluate("one => getComputedStyle(one).opacity") == "0"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    shown = page.get_by_role("region", name=said)
    assert shown.evaluate("one => one === document.activeElement")
    assert shown.get_by_role("row").all_inner_texts()[:2] == ["s\ttask 0\tevents", "0\t3 / 9\t2"]
    page.keyboard.press("Escape")
    assert not shown.is_visible() and button.evaluate("one => one === document.activeElement")
    assert page.evaluate("document.getElementById('plot').heard") == "Enter"
    page.close()


ADDED = """async (el, script) => {
    const texts = {ended: "The kernel has ended.", again: "Run from the top"};
    const statusChanged = {connect: (told) => { window.kernelBecomes = (status) => told(null, status); }};
    const model = {get: (name) => texts[name], widget_manager: {kernel: {statusChanged}}};
    (await import(URL.createObjectURL(new Blob([script], {type: 'text/javascript'})))).default.render({model, el});
}"""


def fitted(page: Page, html: str) -> None:
    """A page with `html` and what accessibility.js adds."""
    page.set_content(f"<div id=box></div>{html}")
    page.locator("#box").evaluate(ADDED, FIT)


def test_above_a_widget_whose_kernel_ended_stands_that_and_how_to_begin_again(browser):
    page = browser.new_page()
    fitted(
        page,
        """<div class=jp-NotebookPanel><button data-command="notebook:restart-run-all" onkeydown="window.restarted = event.key">⏩</button>
        <div class=jp-OutputArea-output id=here><p>alerts: 17</p></div></div>""",
    )
    page.evaluate("document.getElementById('here').append(document.getElementById('box'))")
    for status in ("busy", "idle"):
        page.evaluate("(status) => window.kernelBecomes(status)", status)
    assert page.get_by_role("status").filter(has_text="ended").count() == 0
    for status in ("autorestarting", "dead"):
        page.evaluate("(status) => window.kernelBecomes(status)", status)
    assert page.locator("#here > :first-child").inner_text() == "The kernel has ended. Run from the top"
    assert page.get_by_role("status").filter(has_text="ended").count() == 1
    page.get_by_role("button", name="Run from the top").click()
    assert page.evaluate("window.restarted") == "Enter"
    page.close()


def add(page: Page, html: str) -> None:
    page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", html)


def test_what_can_be_moved_or_chosen_has_a_name_also_if_it_comes_later(browser):
    page = browser.new_page()
    slider = "<div class='widget-slider'><label title='null'>window</label><div role=slider tabindex=0></div></div>"
    asked = "<div class='lab-asked'><div class='widget-html'><b>Which?</b></div><div class='widget-radio-box'><input type=radio></div></div>"
    fitted(page, f"{slider}{asked}<button class='widget-toggle-button mod-active'>Hold</button>")
    assert page.get_by_role("slider", name="window").count() == 1
    assert page.get_by_role("radiogroup", name="Which?").count() == 1
    assert page.get_by_role("button", name="Hold", pressed=True).count() == 1
    page.evaluate("document.querySelector('button').classList.remove('mod-active')")
    assert page.get_by_role("button", name="Hold", pressed=False).count() == 1
    add(page, slider)
    page.get_by_role("slider", name="window").nth(1).wait_for(state="attached")
    assert page.get_by_title("null").count() == 0
    page.close()


def test_arrows_go_from_choice_to_choice_and_beyond_the_last_one_they_are_the_notebooks(browser):
    page = browser.new_page()
    choices = "".join(f"<label>{name}<input type=radio></label>" for name in "ab")
    fitted(
        page,
        f"<div class='lab-asked'><div class='widget-html'></div><div class='widget-radio-box'>{choices}</div></div>",
    )
    page.evaluate("document.addEventListener('keydown', (event) => { window.heard = event.key; }, true)")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.parentElement.textContent") == "b"
    assert page.locator("input:checked").count() == 0 and page.evaluate("window.heard") != "ArrowDown"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("window.heard") == "ArrowDown"
    page.close()


def test_code_in_an_option_is_shown_as_code(browser):
    page = browser.new_page()
    label = "<label>without `when` and `<b>`<input type=radio></label><label>a ` alone</label>"
    fitted(
        page,
        f"<div class='lab-asked'><div class='widget-html'></div><div class='widget-radio-box'>{label}</div></div>".replace(
            "<b>", "&lt;b&gt;"
        ),
    )
    assert page.locator("code").all_inner_texts() == ["when", "<b>"]
    assert page.locator("label").all_inner_texts() == ["without when and <b>", "a ` alone"]
    assert page.get_by_role("radio", name="without when and <b>").count() == 1
    page.close()


def test_a_sentence_that_comes_is_said_by_a_region_that_was_there(browser):
    page = browser.new_page()
    page.add_init_script(LISTENS)
    page.goto("about:blank")
    fitted(page, "<p role=status aria-live=polite>before</p>")
    page.wait_for_timeout(200)
    hidden = f"<div hidden>{sentence_html('unseen')}</div>"
    add(
        page,
        f"<div>{Verdict(WRONG, '1 < 2 is not right')._repr_html_()}{sentence_html('2 alerts')}</div>{hidden}",
    )
    page.wait_for_function("window.heard.length > 0")
    add(page, Verdict(RIGHT, "right: 21")._repr_html_())
    page.wait_for_function("window.heard.length > 1")
    assert page.evaluate("window.heard") == ["wrong: 1 < 2 is not right 2 alerts", "right: 21"]
    page.close()


def test_escape_goes_from_what_a_cell_gave_back_to_the_cell(browser):
    page = browser.new_page()
    fitted(
        page,
        "<div class=jp-Cell tabindex=-1><div class=jp-OutputArea-output><button>Stop</button></div></div>",
    )
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "jp-Cell"
    page.close()


def test_the_ticks_of_a_low_chart_are_not_cut_off(browser):
    scope, page = LatencyScope(), browser.new_page(viewport={"width": 400, "height": 200})
    scope.show([100, 200, 600], {stage: [30, 40, 90] for stage in STAGES})
    page.set_content('<div id="chart" style="width: 280px; height: 68px"></div>')
    page.add_script_tag(path=Path(plotly.__file__).parent / "package_data" / "plotly.min.js")
    below = """async ({ data, layout }) => {
        await Plotly.newPlot("chart", data, layout);
        const chart = document.getElementById("chart"), ends = chart.getBoundingClientRect().bottom;
        return [...chart.querySelectorAll(".xtick text")].map((tick) => tick.getBoundingClientRect().bottom - ends);
    }"""
    for chart in (scope.histogram, scope.stages):
        ticks = page.evaluate(below, json.loads(chart.to_json()))
        assert len(ticks) > 2 and max(ticks) <= 0
    page.close()
