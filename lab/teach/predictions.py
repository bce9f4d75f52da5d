"""Predictions: the reader chooses what the next cell will show, and learns with that cell whether it is so, and why.

    the cell that asks has run ──► a choice is noted, and may change ──► another cell has run ──► the verdict
                        └─ no kernel tells of cells ──► the verdict comes with the choice

A prediction is known by its question, so its cell shows the choice again when it runs again. Choices are kept with the progress.
In a class, the last choice before the verdict is the learner's vote: who logs stumbles, logs votes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lab.model.formatting import html_with_code
from lab.model.language import say
from lab.teach import progress
from lab.teach.judge import RIGHT, WRONG, Verdict

if TYPE_CHECKING:
    from ipywidgets import VBox

_asked: dict[str, "Prediction"] = {}  # by question


class Prediction:
    """A question of a lesson; `name`: such as "3.2", `asked`: what the lesson says of it, in one language."""

    def __init__(self, name: str, asked: dict[str, Any]):
        self.name, self.question = name, asked["question"]
        self.options, self.because = asked["options"], asked["because"]
        self.right = self.options[asked["right"]]
        self.choice = progress.choices().get(self.question)
        self.is_asking = True  # its cell has not ended
        self.is_waiting = False  # for another cell
        self.is_revealed = False

    def box(self, options: Sequence[str]) -> "VBox":
        """Radio buttons with the choice so far; below them is what is said to it."""
        import ipywidgets as widgets

        from lab.widgets.look import StylesAndAccessibility, styled

        self.is_asking = True
        self.choice = self.choice if self.choice in options else None
        buttons = widgets.RadioButtons(
            options=list(options), value=self.choice, layout={"width": "max-content"}
        )
        buttons.observe(self._choose, "value")
        self.answer = widgets.HTML()
        label = f"<b>{say('Before you run the next cell:')}</b> {html_with_code(self.question)}"
        self._show(self.is_revealed)
        parts = [widgets.HTML(label), buttons, self.answer, StylesAndAccessibility()]
        return styled(widgets.VBox(parts), "lab-asked")

    def _choose(self, change: dict) -> None:
        self.choice = change["new"]
        progress.record_choice(self.question, self.choice)
        if self.choice in self.options:
            progress.record_vote(self.name, self.options.index(self.choice))
        self._show(not self.is_waiting)

    def end_cell(self, has_shown: bool) -> None:
        """A cell ended; `has_shown`: it was no blank one, and did not fail."""
        if self.is_asking:
            self.is_asking, self.is_waiting = False, not self.is_revealed
        elif self.is_waiting and has_shown:
            self.is_waiting, self.is_revealed = False, True
            self._show(True)

    def _show(self, verdict: bool) -> None:
        from lab.widgets.look import sentence_html

        if self.choice is None:
            self.answer.value = ""
        elif not verdict:
            self.answer.value = sentence_html(
                say("Your choice is noted. Run the next cell to see whether it is right.")
            )
        else:
            state = RIGHT if self.choice == self.right else WRONG
            answer = say("Yes.") if state == RIGHT else say("Not quite: {right}.", right=self.right)
            self.answer.value = Verdict(state, f"{answer} {self.because}")._repr_html_()
            progress.record_reveal(self.name)


def ask(name: str, asked: dict[str, Any], options: Sequence[str]) -> "VBox":
    """The radio buttons of a question; asked again, they show the choice so far."""
    question = asked["question"]
    if question not in _asked:
        _asked[question] = Prediction(name, asked)
    return _asked[question].box(options)


def reveal_after_cell(result: Any) -> None:
    """Gives the verdicts that wait for a cell; `result` is what IPython says of the cell that ended."""
    code = getattr(getattr(result, "info", None), "raw_cell", None) or ""
    has_shown = bool(code.strip()) and result.success
    for prediction in _asked.values():
        prediction.end_cell(has_shown)


progress.call_after_each_cell(reveal_after_cell)
