"""Questions that tell no answer, in a notebook: `lab.TransferQuestions(3, "before")` and `lab.ExitTest("half-day")`."""

import ipywidgets as widgets

from lab.model.formatting import html_with_code
from lab.model.language import say
from lab.teach import progress
from lab.teach.questions import EXIT, QUESTIONS, WHEN, names_of_lessons, names_of_plans
from lab.widgets.look import StylesAndAccessibility, sentence_html

TAKE_PART = "{count} questions are here for those who want to note what they learned: run lab.log_stumbles(), then this cell again."
TITLES = {
    "before": "Three questions before you begin. They come again at the end, so no answer is given. Guess where you do not know.",
    "after": "The same three questions again. They come once more in a week, so no answer is given.",
    "later": "The same three questions, a week later.",
    EXIT: "Five minutes at the end of the workshop: what do you take with you?",
}


class _Questions(widgets.VBox):
    """Questions of a lesson or a plan, and a button that notes the answers; one sentence for those who log no stumbles."""

    def __init__(self, name: str, when: str):
        self.name, self.when, self.said = name, when, widgets.HTML()
        if not progress.logs_stumbles():
            self.said.value = sentence_html(say(TAKE_PART, count=len(QUESTIONS[name])))
            super().__init__([self.said, StylesAndAccessibility()])
            self.add_class("lab")
            return
        self.choices = [
            widgets.RadioButtons(
                options=[(say(option), place) for place, option in enumerate(each.options)],
                index=None,
                layout={"width": "max-content"},
            )
            for each in QUESTIONS[name]
        ]
        self.button = widgets.Button(
            description=say("Note my answers"), icon="check", layout={"width": "auto"}
        )
        self.button.on_click(self._note)
        parts: list[widgets.Widget] = [widgets.HTML(say(TITLES[when]))]
        for number, (each, choice) in enumerate(zip(QUESTIONS[name], self.choices), 1):
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
            self.said.value = sentence_html(say(TAKE_PART, count=len(self.choices)), "bad")
            return
        for number, choice in enumerate(self.choices, 1):
            progress.record_transfer(f"{self.name}.{number}", self.when, choice.index)
        self.button.disabled = True
        self.said.value = sentence_html(
            say("Your answers are noted; lab.hand_in() gives them to your instructor."), "good"
        )


class TransferQuestions(_Questions):
    """The three questions of a lesson; `when`: "before", "after" or "later". Raises KeyError or ValueError.

    >>> "run lab.log_stumbles()" in TransferQuestions(3, "before").said.value
    True
    """

    def __init__(self, lesson: int, when: str):
        if str(lesson) not in names_of_lessons():
            raise KeyError(f"lesson {lesson!r}: expected one of {', '.join(names_of_lessons())}")
        if when not in WHEN:
            raise ValueError(f"when: {when!r}, expected one of {', '.join(WHEN)}")
        super().__init__(str(lesson), when)


class ExitTest(_Questions):
    """The questions at the end of a workshop, about five minutes; `plan`: "half-day" or "two-days". Raises KeyError.

    >>> ExitTest("half-day").when
    'exit'
    """

    def __init__(self, plan: str):
        if plan not in names_of_plans():
            raise KeyError(f"plan {plan!r}: expected one of {', '.join(names_of_plans())}")
        super().__init__(plan, EXIT)
