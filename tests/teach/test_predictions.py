"""A prediction: the choice is noted, and judged when the next cell has run."""

from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell

import lab
from lab.teach import predictions, progress
from lab.teach.lessons import titles_solutions_and_predictions
from lab.teach.report import class_votes, parse_learner_log

QUESTION = 'Two Python processes compute hash("CRD"). They give'
RIGHT, OTHER = "two different numbers", "the same number"
OPTIONS = [OTHER, RIGHT]
NOTED, YES, NO = "Your choice is noted", "Yes. Python salts", "Not quite: two different numbers. Python salts"


@pytest.fixture(autouse=True)
def no_predictions(monkeypatch, progress_folder):
    monkeypatch.setattr(predictions, "_asked", {})


class Notebook:
    """Runs cells as a kernel does, and holds what the newest prediction shows."""

    def __init__(self):
        self.shell = InteractiveShell()
        self.shell.events.register("post_run_cell", predictions.reveal_after_cell)
        self.shell.user_ns |= {"ask": self.ask}

    def ask(self) -> None:
        self.box = lab.predict(QUESTION, OPTIONS)

    def run(self, code: str) -> None:
        self.shell.run_cell(code)

    def choose(self, option: str) -> None:
        self.box.children[1].value = option

    @property
    def chosen(self) -> str | None:
        return self.box.children[1].value

    @property
    def said(self) -> str:
        return self.box.children[2].value


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_a_choice_is_noted_and_judged_when_the_next_cell_has_run(notebook):
    notebook.run("ask()")
    assert notebook.said == ""
    notebook.choose(OTHER)
    assert NOTED in notebook.said and RIGHT not in notebook.said
    notebook.run("1 + 1")
    assert NO in notebook.said and NOTED not in notebook.said


def test_the_last_choice_before_the_next_cell_counts(notebook):
    notebook.run("ask()")
    notebook.choose(OTHER)
    notebook.choose(RIGHT)
    notebook.run("1")
    assert YES in notebook.said


def test_a_choice_survives_a_rerun_of_its_cell_and_is_still_not_judged(notebook):
    notebook.run("ask()")
    notebook.choose(RIGHT)
    notebook.run("ask()")
    assert notebook.chosen == RIGHT and NOTED in notebook.said
    notebook.run("1")
    assert YES in notebook.said


def test_a_rerun_after_the_verdict_shows_choice_and_verdict(notebook):
    notebook.run("ask()")
    notebook.choose(OTHER)
    notebook.run("1")
    notebook.run("ask()")
    assert notebook.chosen == OTHER and NO in notebook.said


def test_where_all_cells_have_run_a_choice_is_judged_at_once(notebook):
    notebook.run("ask()")
    notebook.run("1")
    assert notebook.said == "", "nothing was chosen, so nothing is judged"
    notebook.choose(RIGHT)
    assert YES in notebook.said
    notebook.choose(OTHER)
    assert NO in notebook.said


@pytest.mark.parametrize("code", ["nobody_has_this_name", "1 +", "", "   \n"])
def test_a_cell_that_fails_or_is_empty_shows_no_answer(notebook, code):
    notebook.run("ask()")
    notebook.choose(RIGHT)
    notebook.run(code)
    assert NOTED in notebook.said


def test_a_cell_that_asks_and_then_fails_is_no_next_cell(notebook):
    notebook.run("ask(); 1 / 0")
    notebook.choose(RIGHT)
    assert NOTED in notebook.said


def test_a_choice_survives_a_restart_of_the_kernel_and_is_not_judged_before_the_next_cell(
    notebook, monkeypatch
):
    notebook.run("ask()")
    notebook.choose(OTHER)
    notebook.choose(RIGHT)
    notebook.run("1")
    monkeypatch.setattr(predictions, "_asked", {})
    again = Notebook()
    again.run("ask()")
    assert again.chosen == RIGHT and NOTED in again.said
    again.run("1")
    assert YES in again.said


def test_forgetting_the_progress_forgets_the_choices(notebook, monkeypatch):
    notebook.run("ask()")
    notebook.choose(RIGHT)
    progress.forget_progress_and_stop_log()
    monkeypatch.setattr(predictions, "_asked", {})
    notebook.run("ask()")
    assert notebook.chosen is None and notebook.said == ""


def test_a_kept_choice_that_is_no_option_any_more_is_ignored(notebook):
    progress.record_choice(QUESTION, "it depends")
    notebook.run("ask()")
    assert notebook.chosen is None


def test_a_folder_that_cannot_be_written_loses_no_verdict(notebook, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "file"))
    notebook.run("ask()")
    notebook.choose(RIGHT)
    notebook.run("1")
    assert YES in notebook.said


def test_where_nobody_tells_that_cells_run_a_choice_is_judged_at_once():
    box = lab.predict(QUESTION, OPTIONS)
    box.children[1].value = RIGHT
    assert YES in box.children[2].value


def test_a_hook_that_tells_nothing_about_its_cell_reveals_nothing(notebook):
    notebook.run("ask()")
    notebook.choose(RIGHT)
    predictions.reveal_after_cell(None)
    predictions.reveal_after_cell(SimpleNamespace())
    assert NOTED in notebook.said


def test_code_in_a_question_and_in_its_verdict_is_shown_as_code(notebook):
    said = titles_solutions_and_predictions()["predictions"].values()
    asked = next(each["en"] for each in said if "without `when`" in each["en"]["question"])
    question, right = asked["question"], asked["options"][asked["right"]]
    box = lab.predict(question, [right, "<b>`other`</b>"])
    assert "without <code>when</code>" in box.children[0].value
    box.children[1].value = right
    assert "A rule with <code>where</code> is judged" in box.children[2].value


def test_the_last_choice_before_the_verdict_is_the_vote_of_who_logs_stumbles(notebook, monkeypatch):
    notebook.run("ask()")
    notebook.choose(RIGHT)
    assert not list(progress.folder().glob("stumbles-*")), "nobody asked for a log"
    lab.log_stumbles()
    notebook.choose(OTHER)
    notebook.run("1")
    notebook.choose(RIGHT)
    monkeypatch.setattr(predictions, "_asked", {})
    again = Notebook()
    again.run("ask()")
    again.choose(OTHER)
    again.choose(RIGHT)
    [log] = progress.folder().glob("stumbles-*")
    learner = parse_learner_log(progress.read_json_lines(log))
    assert learner.votes == {"1.4": OPTIONS.index(OTHER)}
    [voted] = class_votes([learner, learner])
    assert voted == ("1.4", [2, 0], 1) and voted.right_share == 0
