"""The fast track: all predictions of a lesson on one page. Who is right in all of them goes on to the exercises.

A wrong one names the section that explains it, and not the answer: the lesson asks again there.
"""

from html import escape

import ipywidgets as widgets

from lab.model.formatting import html_with_code
from lab.model.language import say
from lab.teach import lesson_and_exercise_titles, lesson_predictions, prediction_in_language
from lab.widgets.look import StylesAndAccessibility, sentence_html


class FastTrack(widgets.VBox):
    """A lesson's predictions; `lesson`: its number. Raises KeyError if it has none.

    >>> page = FastTrack(1)
    >>> page.check.click()
    >>> "Answer all 4 questions" in page.said.value
    True
    """

    def __init__(self, lesson: int):
        self.lesson = lesson
        names = [name for name in lesson_predictions() if name.partition(".")[0] == str(lesson)]
        if not names:
            raise KeyError(f"lesson {lesson!r}: expected one with predictions, such as 3")
        self.asked = [prediction_in_language(name) for name in names]
        self.choices = [
            widgets.RadioButtons(options=each["options"], value=None, layout={"width": "max-content"})
            for each in self.asked
        ]
        self.check = widgets.Button(description=say("Check"), icon="check")
        self.check.on_click(self._judge)
        self.said = widgets.HTML()
        questions: list[widgets.Widget] = []
        for number, (asked, choice) in enumerate(zip(self.asked, self.choices), 1):
            questions += [widgets.HTML(f"<b>{number}.</b> {html_with_code(asked['question'])}"), choice]
        super().__init__([*questions, self.check, self.said, StylesAndAccessibility()])
        self.add_class("lab")

    def _judge(self, _button: widgets.Button) -> None:
        count = len(self.asked)
        if any(choice.value is None for choice in self.choices):
            self.said.value = sentence_html(say("Answer all {count} questions first.", count=count))
            return
        wrong = [
            asked
            for asked, choice in zip(self.asked, self.choices)
            if choice.value != asked["options"][asked["right"]]
        ]
        if not wrong:
            exercises = ", ".join(
                name for name in lesson_and_exercise_titles() if name.startswith(f"{self.lesson}.")
            )
            text = say("All {count} are right. Go on to the exercises {names}.", count=count, names=exercises)
            self.said.value = sentence_html(text, "good")
            return
        text = say(
            "{right} of {count} are right. Read these sections; they ask again.",
            right=count - len(wrong),
            count=count,
        )
        sections = "".join(
            f"<li>{escape(name)}</li>" for name in dict.fromkeys(each["section"] for each in wrong)
        )
        self.said.value = f"{sentence_html(text, 'bad')}<ul>{sections}</ul>"
