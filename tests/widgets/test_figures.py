"""What a figure tells the page that shows it, at once and when the page asks."""

import subprocess
import sys

from plotly.basewidget import BaseFigureWidget

from lab.widgets.figures import Figure


def figure_and_sent(monkeypatch) -> tuple[Figure, list]:
    figure = Figure()
    sent: list = []
    monkeypatch.setattr(Figure, "send", lambda self, content, buffers=None: sent.append((content, buffers)))
    monkeypatch.setattr(Figure, "send_state", lambda self, key=None: sent.append(sorted(self.get_state(key))))
    return figure, sent


def test_a_figure_is_light_and_the_bundle_is_sent_to_who_asks(monkeypatch):
    figure, sent = figure_and_sent(monkeypatch)
    assert len(str(figure.get_state())) < 25_000 < len(str(BaseFigureWidget._esm))
    figure._handle_custom_msg({"wanted": "plotly"}, [])
    ((content, (bundle,)),) = sent
    assert content == {"answer": "plotly"} and bundle.decode() == str(BaseFigureWidget._esm)


def test_a_page_that_asks_for_the_state_gets_it_before_the_answer(monkeypatch):
    figure, sent = figure_and_sent(monkeypatch)
    figure._handle_custom_msg({"wanted": "state"}, [])
    assert sent == [["_widget_data", "_widget_layout"], ({"answer": "state"}, None)]


def test_the_state_is_the_present_one_also_of_the_layout():
    figure = Figure()
    figure.layout.title.text = "now"
    figure.add_bar(x=[1], y=[2])
    figure.data[0].y = [5]
    state = figure.get_state()
    assert state["_widget_layout"]["title"]["text"] == "now" and state["_widget_data"][0]["y"] == [5]
    assert figure.get_state("_esm").keys() == {"_esm"}


def test_a_kernel_compiles_no_grammars_for_it():
    """Of a check that nobody asks for, in a validator that plotly imports: more than half of its import."""
    code = "import sys, lab.widgets.figures; print({'lark', 'rfc3987_syntax'} & sys.modules.keys())"
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stdout
        == "set()\n"
    )
