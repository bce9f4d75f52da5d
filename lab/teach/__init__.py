"""What lessons use: predictions before results, exercises that check themselves, and figures that fit any theme."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

RIGHT, OPEN, WRONG = "right", "open", "wrong"
MARKS = {RIGHT: "✓", OPEN: "…", WRONG: "✗"}
COLOURS = {RIGHT: "#009E73", OPEN: "#E69F00", WRONG: "#D55E00"}
Case = tuple  # (arguments, expected) or (arguments, expected, why)


@dataclass(frozen=True)
class Verdict:
    """What a check found; a notebook shows it in a coloured box."""

    state: str
    text: str

    def __repr__(self) -> str:
        return f"{MARKS[self.state]} {self.text}"

    def _repr_html_(self) -> str:
        style = f"border-left:6px solid {COLOURS[self.state]};padding:.5em 1em;margin:.5em 0"
        return f'<div role="status" style="{style}"><b>{MARKS[self.state]}</b> {escape(self.text)}</div>'


def check(answer: object, expected: object, why: str = "") -> Verdict:
    """Compares the answer to an exercise with what is right. `...` or None: not answered yet.

    >>> check(..., 12)
    … not answered yet
    >>> check(11, 12, "an event is in W / S panes")
    ✗ got 11, expected 12: an event is in W / S panes
    >>> check(12, 12)
    ✓ right: 12
    """
    if answer is ... or answer is None:
        return Verdict(OPEN, "not answered yet")
    if answer == expected:
        return Verdict(RIGHT, f"right: {answer}" + (f". {_sentence(why)}" if why else ""))
    return Verdict(WRONG, f"got {answer!r}, expected {expected!r}" + (f": {why}" if why else ""))


def check_function(function: Callable, cases: Sequence[Case]) -> Verdict:
    """Calls the function of an exercise with each case's arguments; the first difference is shown.

    >>> def in_window(time, end, window): return end - window < time <= end
    >>> check_function(in_window, [((5, 20, 20), True), ((0, 20, 20), True, "both ends of the window count")])
    ✗ in_window(0, 20, 20) gave False, expected True: both ends of the window count
    """
    answers = []
    for arguments, expected, *why in cases:
        call = f"{function.__name__}({', '.join(map(repr, arguments))})"
        try:
            answers.append(answer := function(*arguments))
        except Exception as error:  # noqa: BLE001  (a learner's code may raise anything)
            return Verdict(WRONG, f"{call} raised {type(error).__name__}: {error}, expected {expected!r}")
        if answer is not None and answer is not ... and answer != expected:
            reason = f": {why[0]}" if why else ""
            return Verdict(WRONG, f"{call} gave {answer!r}, expected {expected!r}{reason}")
    if all(answer is None or answer is ... for answer in answers):
        return Verdict(OPEN, "not answered yet")
    for answer, (arguments, expected, *_) in zip(answers, cases, strict=True):
        if answer != expected:
            call = f"{function.__name__}({', '.join(map(repr, arguments))})"
            return Verdict(WRONG, f"{call} gave {answer!r}, expected {expected!r}")
    return Verdict(RIGHT, f"right in all {len(cases)} cases")


def predict(question: str, options: Sequence[str], right: int, because: str):
    """Radio buttons: the reader commits to an answer before the next cell gives it. `right`: index of the right one."""
    import ipywidgets as widgets

    buttons = widgets.RadioButtons(
        options=list(options), value=None, layout={"width": "max-content"}, description_allow_html=False
    )
    said = widgets.HTML()

    def judge(change: dict) -> None:
        state = RIGHT if buttons.index == right else WRONG
        answer = "Yes." if state == RIGHT else f"Not quite: {options[right]}."
        said.value = Verdict(state, f"{answer} {because}")._repr_html_()

    buttons.observe(judge, "value")
    label = widgets.HTML(f"<b>Before you run the next cell:</b> {escape(question)}")
    return widgets.VBox([label, buttons, said])


def dataset(name: str) -> Path:
    """The folder of a data set: payments, logins or flights. Raises FileNotFoundError, naming those there are.

    >>> dataset("flights").name
    'flights'
    """
    folder = Path(__file__).parent.parent.parent / "datasets"
    if not (folder / name / "rules.json").exists():
        known = sorted(path.parent.name for path in folder.glob("*/rules.json"))
        raise FileNotFoundError(
            f"data set {name!r}: there are {', '.join(known) or f'none in {folder}: run this from a clone'}"
        )
    return folder / name


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
