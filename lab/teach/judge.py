"""How an answer is judged: right, open, or wrong with a sentence about this very mistake, and hints that come one by one.

answer ──► nothing yet? ──► right? ──► a typical mistake? ──► its sentence ─┐
                                       another one ──► what differs ────────┴──► + the hint that is due

A typical mistake is known by what it does: a function by its answers to the cases, another answer by how it reads.
A function is tried on a few cases that explain something, then on many drawn at random, which a right one answers as well.
The judge is there to help: whoever wants the answer calls `lab.solution`, so nothing is done against code that looks for it.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from random import Random
from typing import Any

from lab.model.colours import GREEN, ORANGE, RED
from lab.model.formatting import html_with_code
from lab.model.language import current_language, say
from lab.teach.comparing import (
    KINDS,
    correct_slips,
    describe_difference,
    equal_answers,
    first_entries_text,
    in_order,
    is_unanswered,
    tuple_to_list,
)
from lab.teach.learner import (
    COMPUTING_S,
    FailureText,
    TimeLimitExceeded,
    answer_text,
    call_with_time_limit,
    error_suffix,
    function_name,
    limited_output,
    plain_result_or_failure,
    plain_value,
    plain_value_or_failure,
)
from lab.teach.shrinking import shrink

RIGHT, OPEN, WRONG = "right", "open", "wrong"
MARKS = {RIGHT: "✓", OPEN: "…", WRONG: "✗"}

COLOURS = {RIGHT: GREEN, OPEN: ORANGE, WRONG: RED}

CODE = ";font-family:var(--jp-code-font-family,monospace)"

GROUPED = 10_000  # a number from here on is written with commas
SIZES = (*range(1, 101), 400, 1_600)  # of the cases drawn at random

Case = tuple  # (arguments, expected) or (arguments, expected, why)


class AnswerRefused(ValueError):
    """The reason why an answer cannot be read, as a sentence for the learner."""


@dataclass(frozen=True)
class Verdict:
    """What a check found; a notebook shows it in a coloured box, with a picture (HTML) below, if there is one."""

    state: str
    text: str
    picture_html: str = ""
    is_code: bool = False
    plain_answer: Any = None  # the answer as plain values; for a function, its results for all cases

    def __repr__(self) -> str:
        return f"{MARKS[self.state]} {self.text}"

    def _repr_html_(self) -> str:
        style = (
            f"border-left:6px solid {COLOURS[self.state]};padding:.5em 1em;margin:.5em 0;white-space:pre-wrap"
            f"{CODE * self.is_code}"
        )
        text = escape(self.text) if self.is_code else html_with_code(self.text)
        heard = f'role="img" aria-label="{say("wrong")}"' if self.state == WRONG else 'aria-hidden="true"'
        return (
            f'<div role="status" aria-live="polite" style="{style}"><b {heard}>{MARKS[self.state]}</b> {text}</div>'
            f"{self.picture_html}"
        )


def no_function(answer: object) -> Verdict | None:
    """What to say to an answer that is no function; None if it is one."""
    if is_unanswered(answer):
        return Verdict(OPEN, say("not answered yet"))
    if not callable(answer):
        given = answer_text(plain_value_or_failure(answer))
        return Verdict(WRONG, say("expected a function, not {answer}", answer=given))
    return None


@dataclass(frozen=True)
class Mistake:
    """A typical wrong answer (of a dictionary: its wrong entries), and what to say to it."""

    answer: Any
    says: str


@dataclass(frozen=True)
class ValueExercise:
    """An exercise whose answer is a value.

    `right`: the right value, or a function of `given`, the arguments of `lab.check` after the answer. `read(answer, *given)` returns the
    value to compare; both may raise AnswerRefused. `needs`: for each argument in `given`, its name in the lesson and a method or attribute that
    it has. `given_on_recheck`: replaces `given` when a hand-in is checked again; None if nothing can.
    `any_order`: the right list in another order is right, too.
    """

    right: object
    because: str
    hints: tuple[str, str]
    mistakes: tuple[Mistake, ...]
    unit: str = ""
    read: Callable = field(default=lambda answer, *given: answer)
    needs: Mapping[str, str] = field(default_factory=dict)
    given_on_recheck: tuple | None = ()
    any_order: bool = False

    def judge(self, answer: object, *given: object) -> Verdict:
        """Judges an answer; no answer makes it raise."""
        plain = answer = plain_value_or_failure(answer)
        if isinstance(answer, FailureText):
            return Verdict(WRONG, say("the answer cannot be read: it {did}", did=answer))
        if is_unanswered(answer):
            several = answer if isinstance(answer, dict) else {}
            missing = [str(name) for name in several if several[name] is ...]
            some = 0 < len(missing) < len(several)
            return Verdict(OPEN, say("not answered yet") + f": {', '.join(missing)}" * some)
        try:
            expected = self.right(*given) if callable(self.right) else self.right
            answer, word = correct_slips(answer, expected)
            got = self.read(in_order(answer) if self.any_order else answer, *given)
        except AnswerRefused as error:
            return Verdict(WRONG, self._typical(answer, None, given) or str(error))
        except Exception as error:  # noqa: BLE001  (a learner's answer may be anything)
            unread = say(
                "{answer} cannot be read: {error}",
                answer=answer_text(answer),
                error=f"{type(error).__name__}{error_suffix(error)}",
            )
            return Verdict(WRONG, self._typical(answer, None, given) or unread)
        if equal_answers(got, expected):
            shown = f"{answer:,}" if isinstance(answer, int) and answer >= GROUPED else answer_text(answer)
            text = say("right: {answer}. {because}", answer=shown, because=say(self.because))
            return Verdict(RIGHT, text + word, plain_answer=plain)
        return Verdict(WRONG, (self._typical(answer, got, given) or self._differs(got, expected)) + word)

    def _typical(self, answer: object, got: object, given: tuple) -> str:
        for mistake in self.mistakes:
            if isinstance(mistake.answer, dict) and isinstance(answer, dict):
                if mistake.answer.items() <= answer.items():
                    return say(mistake.says)
            elif equal_answers(answer, mistake.answer) or (
                got is not None and equal_answers(got, self._reading(mistake, given))
            ):
                return say(mistake.says)
        return ""

    def _reading(self, mistake: Mistake, given: tuple) -> object:
        try:
            return self.read(mistake.answer, *given)
        except Exception:  # noqa: BLE001  (this one is known by its answer alone)
            return ...

    def _differs(self, got: Any, expected: Any) -> str:
        """Without the solution."""
        unit = f" ({say(self.unit)})" if self.unit else ""
        kind = KINDS.get(type(expected))
        if kind and kind != KINDS.get(type(got)):
            return say(
                "expected {kind}{unit}, not {answer}", kind=say(kind), unit=unit, answer=answer_text(got)
            )
        if isinstance(expected, dict):
            wrong = [str(name) for name in expected if not equal_answers(got.get(name), expected[name])]
            return say(
                "{count} of {all} are not right: {names}",
                count=len(wrong),
                all=len(expected),
                names=", ".join(wrong),
            )
        if isinstance(expected, list):
            extra = [entry for entry in got if entry not in expected]
            missing = sum(entry not in got for entry in expected)
            parts = [
                say(
                    "{entries} is not in the right list"
                    if len(extra) == 1
                    else "{entries} are not in the right list",
                    entries=first_entries_text(extra),
                )
            ] * bool(extra)
            parts += [
                say("1 entry is missing" if missing == 1 else "{count} entries are missing", count=missing)
            ] * bool(missing)
            differs = "; ".join(parts) or say("the order or the number of repeats differs")
            return say("not quite: {differs}", differs=differs)
        return say("{answer} is not right{unit}", answer=answer_text(got), unit=unit)


@dataclass(frozen=True)
class FunctionExercise:
    """An exercise whose answer is a function: it is called with each case's arguments, and with drawn ones.

    `right` answers the arguments that `draw(random, size)` draws, from small to large, with the sizes in `SIZES`.
    `any_order`: a right list in another order is right, too. A function that changes what it is given is wrong.
    `extra_check` returns what else is wrong with a function whose answers are right, or nothing.
    """

    cases: Sequence[Case]
    because: str
    hints: tuple[str, str]
    mistakes: tuple[Mistake, ...]
    right: Callable
    draw: Callable[[Random, int], tuple]
    extra_check: Callable[[Callable], str] = field(default=lambda function: "")
    any_order: bool = False

    @cached_property
    def all_cases(self) -> list[Case]:
        """The cases that explain something, then the drawn ones."""
        drawn = [self.draw(Random(size), size) for size in SIZES]
        return [*self.cases, *((arguments, self.right(*deepcopy(arguments))) for arguments in drawn)]

    @cached_property
    def _known(self) -> dict[str, list[list]]:
        """The answers of each typical mistake, by language: an error is one, in words."""
        return {}

    def _known_answers(self) -> list[list]:
        language = current_language()
        if language not in self._known:
            self._known[language] = [self._answers(mistake.answer) for mistake in self.mistakes]
        return self._known[language]

    def judge(self, function: Any) -> Verdict:
        """Judges a function; no function makes it raise. The first case that differs is shown."""
        if refused := no_function(function):
            return refused
        verdict = self.judge_answers(self._answers(function), function_name(function), function)
        if verdict.state == RIGHT:
            with limited_output(0):
                slow = self._limited(lambda: self.extra_check(function))
            if slow:
                return Verdict(WRONG, slow)
        return verdict

    def judge_answers(self, answers: list, name: str, function: Callable | None = None) -> Verdict:
        """Judges what a function gave for the cases that are tried; the function itself is there to make the first difference small."""
        if all(answer is None for answer in answers):
            nothing = say(
                "{name} returns nothing: write return before the answer (print only displays it)", name=name
            )
            return Verdict(WRONG, nothing)
        if all(is_unanswered(answer) for answer in answers):
            return Verdict(OPEN, say("not answered yet"))
        wrong = next(
            (n for n, (_, right, *_) in enumerate(self.all_cases) if not equal_answers(answers[n], right)),
            None,
        )
        if wrong is None:
            text = say(
                "right in all {count} cases. {because}", count=len(self.all_cases), because=say(self.because)
            )
            return Verdict(RIGHT, text, plain_answer=answers)
        case, answer = self.all_cases[wrong], answers[wrong]
        if wrong >= len(self.cases) and function and not isinstance(answer, FailureText):
            case, answer = self._shrunk(function, case, answer)
        arguments, expected, *why = case
        call = f"{name}({', '.join(map(answer_text, arguments))})"
        shown = f"{call} {describe_difference(answer, expected)}"
        for mistake, its_answers in zip(self.mistakes, self._known_answers()):
            if all(map(equal_answers, its_answers, answers)):
                return Verdict(WRONG, f"{say(mistake.says)}\n{shown}")
        return Verdict(WRONG, shown + (f" ({say(why[0])})" if why else ""))

    def _answers(self, function: Callable) -> list:
        """What it gives for each case; for an error, its text."""
        answers: list = []

        def ask(cases: Sequence[Case]) -> None:
            answers.extend(self._answer(function, case) for case in cases)

        late = self._limited(lambda: ask(self.cases))
        if not late:
            with limited_output(0):
                late = self._limited(lambda: ask(self.all_cases[len(self.cases) :]))
        return answers + [FailureText(late)] * (len(self.all_cases) - len(answers))

    def _answer(self, function: Callable, case: Case) -> Any:
        """What it gives for a case; a right answer does not count if the function has changed what it was given."""
        arguments, expected, *_ = case
        given = deepcopy(arguments)
        answer = plain_result_or_failure(function, *given)
        answer = in_order(answer) if self.any_order else tuple_to_list(answer)
        for before, after in zip(arguments, map(plain_value, given)):
            if after != before and equal_answers(answer, expected):
                changed = say(
                    "gave the right answer, but changed what it was given: {before} became {after}",
                    before=answer_text(before),
                    after=answer_text(after),
                )
                return FailureText(changed)
        return answer

    def _shrunk(self, function: Callable, case: Case, answer: Any) -> tuple[Case, Any]:
        """A smaller case that the function answers wrongly, with its answer: entries of the longest lists are left out."""
        arguments = case[0]
        longest = max((len(each) for each in arguments if isinstance(each, list)), default=0)
        found = case, answer

        def is_wrong(places: list[int]) -> bool:
            nonlocal found
            fewer = tuple(
                [each[place] for place in places] if isinstance(each, list) and len(each) == longest else each
                for each in arguments
            )
            try:
                smaller: Case = (fewer, self.right(*deepcopy(fewer)))
            except (ArithmeticError, LookupError, ValueError):  # of no entries there is no answer
                return False
            its = self._answer(function, smaller)
            if equal_answers(its, smaller[1]):
                return False
            found = smaller, its
            return True

        def leave_out() -> None:
            shrink(range(longest), is_wrong)

        with limited_output(0):
            self._limited(leave_out)
        return found

    def _limited(self, does: Callable[[], str | None]) -> str:
        try:
            return call_with_time_limit(COMPUTING_S, does) or ""
        except TimeLimitExceeded:
            return say(
                "did not finish within {seconds} s: is there a loop that never ends?",
                seconds=f"{COMPUTING_S:g}",
            )
