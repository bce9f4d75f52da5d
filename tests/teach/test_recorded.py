"""What a browser shows in place of cells that it cannot run: recorded for each of these cells, and for no other."""

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbformat.v4 import new_code_cell

from lab.teach import recorded
from lab.teach.lessons import build_notebook, lesson_sources
from lab.teach.recorded import native_only_cells, use_recorded_outputs


@pytest.mark.parametrize("source", lesson_sources(), ids=lambda path: path.stem)
def test_the_recording_is_that_of_the_lesson_as_it_is(source):
    """Otherwise: `make recorded`."""
    kept = [cell["source"] for cell in recorded._recorded().get(source.stem, ())]
    assert kept == [
        cell.source for cell in native_only_cells(build_notebook(source, with_solutions=True).cells)
    ]


def test_a_recording_names_no_folder_of_the_machine_on_which_it_was_made():
    text = recorded.RECORDED.read_text()
    assert not [folder for folder in ("/home/", "/root/", "/tmp/", "/work/", "/Users/") if folder in text]


def test_cells_that_use_names_of_a_native_cell_are_native_until_the_names_are_bound_anew():
    codes = ["rate = spark()", "print(rate)", "double = 2 * rate", "rate = 5", "print(rate)", "double"]
    cells = [new_code_cell(code) for code in codes]
    cells[0].metadata["tags"] = ["native"]
    assert [cell.source for cell in native_only_cells(cells)] == [*codes[:3], "double"]


def test_a_recorded_cell_is_shown_and_any_other_runs(monkeypatch):
    class Shell(TransformerManager):
        @property
        def input_transformers_cleanup(self):
            return self.cleanup_transforms

    shell = Shell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(recorded, "_recorded", lambda: {"07": [{"source": "a = 1\nspark(a)"}]})
    use_recorded_outputs("07")
    assert "show_recorded_output('07', 0)" in shell.transform_cell("a = 1\nspark(a)\n")
    assert shell.transform_cell("a = 2\nspark(a)\n") == "a = 2\nspark(a)\n"


def test_what_is_shown_says_that_it_is_recorded_and_a_figure_is_a_figure_again(monkeypatch, capsys):
    figure = {"data": [{"type": "bar", "y": [1, 2]}], "layout": {"height": 300}, "config": {}}
    outputs = [{"text": "7 alerts\n"}, {"data": {recorded.FIGURE: figure}}, {"data": {"text/plain": "8"}}]
    cells = [{"source": "spark()", "check": False, "outputs": outputs}]
    shown = []
    monkeypatch.setattr(recorded, "_recorded", lambda: {"07": cells})
    monkeypatch.setattr("IPython.display.display", lambda what, **_: shown.append(what))
    recorded.show_recorded_output("07", 0)
    assert recorded.SAID in shown[0].data and shown[1].data[0].y == (1, 2) and shown[2] == {"text/plain": "8"}
    assert capsys.readouterr().out == "7 alerts\n"
