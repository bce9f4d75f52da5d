"""The transfer questions of a lesson in a notebook: `lab.TransferQuestions(3, "before")`."""

import ipywidgets as widgets

from lab.model.formatting import html_with_code
from lab.model.language import say
from lab.teach import progress
from lab.teach.transfer import QUESTIONS, WHEN
from lab.widgets.look import StylesAndAccessibility, sentence_html


class TransferQuestions(widgets.VBox):
    """The three questions of a lesson; `when`: "before", "after" or "later". Raises KeyError or ValueError.

    >>> TransferQuestions(3, "before").children[0].value.startswith("<b>1.</b> Calls")
    True
    """

    def __init__(self, lesson: int, when: str):
        if lesson not in QUESTIONS:
            raise KeyError(f"lesson {lesson!r}: expected one of {', '.join(map(str, QUESTIONS))}")
        if when not in WHEN:
            raise ValueError(f"when: {when!r}, expected one of {', '.join(WHEN)}")
        self.lesson, self.when = lesson, when
        self.choices = [
            widgets.RadioButtons(
                options=[(say(option), place) for place, option in enumerate(each.options)],
                index=None,
                layout={"width": "max-content"},
            )
            for each in QUESTIONS[lesson]
        ]
        self.button = widgets.Button(
            description=say("Note my answers"), icon="check", layout={"width": "auto"}
        )
        self.button.on_click(self._note)
        self.said = widgets.HTML()
        parts: list[widgets.Widget] = []
        for number, (each, choice) in enumerate(zip(QUESTIONS[lesson], self.choices), 1):
            parts += [widgets.HTML(f"<b>{number}.</b> {html_with_code(say(each.text))}"), choice]
        super().__init__([*parts, self.button, self.said, StylesAndAccessibility()])
        self.add_class("lab")

    def _note(self, _button: widgets.Button) -> None:
        if any(choice.index is None for choice in self.choices):
            self.said.value = sentence_html(
                say("Answer all {count} questions first.", count=len(self.choices))
            )
            return
        if not progress.logs_stumbles():
            self.said.value = sentence_html(say("Nothing is noted: run lab.log_stumbles() first."), "bad")
            return
        for number, choice in enumerate(self.choices, 1):
            progress.record_transfer(f"{self.lesson}.{number}", self.when, choice.index)
        self.button.disabled = True
        self.said.value = sentence_html(
            say("Your answers are noted; lab.hand_in() gives them to your instructor."), "good"
        )
