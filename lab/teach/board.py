"""A table of solved exercises for a notebook: of all lessons, or of one."""

from base64 import b64encode
from html import escape

import ipywidgets as widgets

from lab.model.language import say
from lab.teach import lesson_and_exercise_titles
from lab.teach.progress import (
    forget_progress_and_stop_log,
    load_progress,
    register_board,
    saved_progress,
    solved_exercises,
)
from lab.widgets.look import StylesAndAccessibility, button, sentence_html

MARKS = {True: "✓", False: "○"}
FILE = "progress.jsonl"


class ProgressBoard(widgets.VBox):
    """A table that follows the checks of its kernel; `lesson`: one of them, with its exercises, or None for all.

    >>> ProgressBoard(3).table.value.count("○") > 0
    True
    """

    def __init__(self, lesson: int | None = None):
        self.lesson = lesson
        self.table, self.said, self.link = widgets.HTML(), widgets.HTML(), widgets.HTML()
        parts: list[widgets.Widget] = [self.table]
        if lesson is None:
            parts += [widgets.HBox(self._buttons()), self.said]
        super().__init__([*parts, StylesAndAccessibility()])
        self.add_class("lab")
        register_board(self)
        self.update()

    def _buttons(self) -> list[widgets.Widget]:
        """Forgetting takes two clicks."""
        upload = widgets.FileUpload(accept=".jsonl", description=say("Load a file"))
        upload.layout.width = "auto"

        def take(change: dict) -> None:
            if change["new"]:
                count = sum(
                    load_progress(bytes(file["content"]), lesson_and_exercise_titles())
                    for file in change["new"]
                )
                upload.value = ()
                self.update()
                self.said.value = sentence_html(
                    say("Solved exercises that are new here: {count}.", count=count), "good"
                )

        upload.observe(take, "value")

        def toggle() -> None:
            sure.layout.display = "none" if sure.layout.display is None else None

        def forget() -> None:
            toggle()
            self.said.value = sentence_html(forget_progress_and_stop_log())

        again, ask = button(say("Refresh"), "refresh", self.update), button(say("Reset…"), "trash", toggle)
        hidden = {"display": "none", "width": "auto"}
        sure = button(say("Yes, forget my progress"), "", forget, button_style="warning", layout=hidden)
        return [again, self.link, upload, ask, sure]

    def update(self) -> None:
        """Redraws the table."""
        done, named = solved_exercises(), lesson_and_exercise_titles()
        address = f"data:application/jsonl;base64,{b64encode(saved_progress().encode()).decode()}"
        self.link.value = f'<a class="jupyter-button lab-link" download="{FILE}" href="{address}">{say("Save as a file")}</a>'
        lessons = [name for name in named if "." not in name]
        if self.lesson is not None:
            rows = [
                f"<tr><td>{_mark(name in done)}</td><td>{name}</td><td>{escape(say(title))}</td></tr>"
                for name, title in named.items()
                if name.startswith(f"{self.lesson}.")
            ]
            head = f"<th>{say('solved')}</th><th>{say('exercise')}</th><th>{say('title')}</th>"
        else:
            rows = [_lesson(name, named, done) for name in lessons]
            head = (
                f"<th>{say('lesson')}</th><th>{say('title')}</th><th>{say('exercises')}</th>"
                f"<th class='number'>{say('solved')}</th>"
            )
        body = f"<table aria-label='{say('Progress')}'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        self.table.value = f'<div class="lab-table lab-plain" tabindex="0">{body}</div>'


def progress(lesson: int | None = None) -> ProgressBoard:
    """What is solved on this machine: of all lessons, or the exercises of one."""
    return ProgressBoard(lesson)


def _lesson(lesson: str, named: dict[str, str], done: set[str]) -> str:
    exercises = {name: title for name, title in named.items() if name.startswith(f"{lesson}.")}
    marks = " ".join(_mark(name in done, f"{name} {say(title)}: ") for name, title in exercises.items())
    count = say("{count} of {all}", count=len(done & exercises.keys()), all=len(exercises))
    return f"<tr><td>{lesson}</td><td>{escape(say(named[lesson]))}</td><td>{marks}</td><td class='number'>{count}</td></tr>"


def _mark(is_solved: bool, of: str = "") -> str:
    label = escape(of + say("solved" if is_solved else "not yet"), quote=True)
    return f'<span role="img" aria-label="{label}" title="{label}">{MARKS[is_solved]}</span>'
