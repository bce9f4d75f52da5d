"""An instructor's view of a class: the logs of stumbles that learners handed in, as one page.

    FOLDER/*.jsonl ──► learners × exercises ──► a table on the terminal, and one HTML file that needs nothing else
                  └──► hand-ins that cannot be read, or claim what is not so, named

The page runs no script and loads nothing: its content security policy forbids both. What learners wrote is text in it.

The time between two lines of a learner belongs to the exercise of the later one; a gap of more than 15 minutes is a break
and does not count. So do errors: they belong to the exercise that is checked next.
"""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lab.model.formatting import escape_control_characters, html_with_code
from lab.model.language import say
from lab.running.outputfile import write_output
from lab.teach import prediction_in_language
from lab.teach.handins import CONFIRMED, read_and_recheck_hand_ins
from lab.teach.judge import RIGHT, WRONG
from lab.teach.myengine import checked_titles
from lab.teach.progress import REVEAL, TRANSFER, VOTE
from lab.teach.transfer import what_a_class_learned

BREAK_S = 15 * 60
WORST = 5  # exercises that are listed below the table
OFTEN = 5  # wrong answers that are shown, of each exercise
LAST = 3  # wrong answers that are shown, of a learner in an exercise
LONGEST_NAME, LONGEST_TEXT = 60, 200  # characters
LAST_PLACE = 10**9  # among exercises, of what has no number
SHADES = 6
CELL_VALUES = {"tries": attrgetter("failed_tries"), "minutes": attrgetter("minutes")}


@dataclass
class ExerciseAttempts:
    """One learner's difficulties with one exercise."""

    wrong_count: int = 0
    error_count: int = 0
    seconds: int = 0
    is_solved: bool = False
    is_confirmed: bool = False  # the right answer was checked again
    messages: list[str] = field(default_factory=list)  # the check's messages about wrong answers
    wrong_answers: list[str] = field(default_factory=list)

    @property
    def failed_tries(self) -> int:
        """Wrong answers and errors."""
        return self.wrong_count + self.error_count

    @property
    def minutes(self) -> float:
        return self.seconds / 60


@dataclass
class Learner:
    """One log of stumbles."""

    name: str
    exercises: dict[str, ExerciseAttempts]
    file: str = ""
    last_at: int = 0  # s since the epoch, of the last line
    transfer: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # the first option by question and time
    votes: dict[str, int] = field(
        default_factory=dict
    )  # the option by prediction: the last choice before the answer

    @property
    def solved_count(self) -> int:
        return sum(one.is_solved for one in self.exercises.values())

    @property
    def failed_tries_and_seconds(self) -> tuple[int, int]:
        """Tries, then seconds: what learners are sorted by."""
        of = self.exercises.values()
        return sum(one.failed_tries for one in of), sum(one.seconds for one in of)


def parse_learner_log(lines: Iterable[dict], file: str = "") -> Learner:
    """A learner's attempts at each exercise, from the lines of a log.

    >>> log = [{"at": 0, "learner": "7f", "name": "", "state": "begin"}, {"at": 60, "state": "error", "said": "NameError: x"}]
    >>> log += [{"at": 90, "exercise": "3.2", "state": "wrong", "said": "Both ends count."}]
    >>> log += [{"at": 4000, "exercise": "3.2", "state": "right", "said": "right"}]
    >>> parse_learner_log(log).exercises["3.2"].messages
    ['Both ends count.']
    >>> parse_learner_log(log).exercises["3.2"].minutes
    1.5
    """
    name, found, before, errors, passed = "", {}, None, 0, 0
    votes: dict[str, int] = {}
    transfer: dict[tuple[str, str], int] = {}
    revealed: set[str] = set()
    for line in sorted(lines, key=lambda line: line["at"]):
        name = line.get("name") or name or line.get("learner", "")
        gap = line["at"] - (line["at"] if before is None else before)
        passed += gap if gap <= BREAK_S else 0
        before = line["at"]
        if line["state"] == "begin":
            passed = 0
        errors += line["state"] == "error"
        if line["state"] == TRANSFER:
            transfer.setdefault((line["question"], line["when"]), int(line["option"]))
        if line["state"] == REVEAL:
            revealed.add(line.get("prediction", ""))
        if line["state"] == VOTE and line.get("prediction") not in {None, *revealed}:
            votes[line["prediction"]] = int(line["option"])
        if "exercise" not in line:
            continue
        one = found.setdefault(line["exercise"], ExerciseAttempts())
        if not one.is_solved:  # later tries do not count
            one.seconds, one.error_count = one.seconds + passed, one.error_count + errors
            one.wrong_count += line["state"] == WRONG
            if line["state"] == WRONG:
                one.messages.append(line.get("said", "").partition("\n")[0][:LONGEST_TEXT])
                one.wrong_answers.append(line.get("answer", "")[:LONGEST_TEXT])
            one.is_solved, one.is_confirmed = line["state"] == RIGHT, line.get("checked") == CONFIRMED
        errors = passed = 0
    return Learner(name[:LONGEST_NAME], found, file, before or 0, transfer, votes)


@dataclass
class ClassReport:
    """The learners of a class, those with most trouble first, and a sentence for each hand-in with lines that cannot be read."""

    learners: list[Learner]
    problems: list[str]


def read_class_report(folder: Path) -> ClassReport:
    """Reads what a class handed in. Raises ValueError if it contains no stumble log."""
    logs, bad = read_and_recheck_hand_ins(folder)
    if not logs:
        first = f"; {bad[0]}" if bad else ""
        raise ValueError(
            f"{folder} has no hand-ins: expected files named hand-in-….jsonl, as lab.hand_in() writes them{first}"
        )
    found = [parse_learner_log(lines, file) for file, lines in logs.items()]
    return ClassReport(sorted(found, key=lambda learner: learner.failed_tries_and_seconds, reverse=True), bad)


def tried_exercises(learners: Sequence[Learner]) -> list[str]:
    """All exercises with an answer that somebody had checked, in the order of the lessons; then the steps of engines of their own."""
    return sorted({name for learner in learners for name in learner.exercises}, key=_place)


def _place(name: str) -> tuple[tuple[int, ...], str]:
    parts = name.split(".")
    return tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else LAST_PLACE for part in parts), name


def print_class_report(folder: Path, page_file: Path) -> None:
    """Prints what a class handed in as a table with its hardest exercises, and writes the page. Raises as `read_class_report`."""
    report, titles = read_class_report(folder), checked_titles()
    columns, rows = class_table(report.learners)
    table = Table(title="Wrong answers and errors by lesson (–: not all solved)")
    for name in columns:
        table.add_column(Text(escape_control_characters(name)))
    for row in rows:
        table.add_row(*map(Text, map(escape_control_characters, row)))
    console = Console(highlight=False)
    console.print(table, markup=False)
    for hard in hardest_exercises(report.learners)[:WORST]:
        title = f"{hard.exercise} {titles.get(hard.exercise, '')}"
        often = f": {hard.frequent_messages[0][0]}" if hard.frequent_messages else ""
        sentence = f"{title}, {hard.failed_tries} tries, {hard.solved_by} of {hard.tried_by} solved it{often}"
        console.print(escape_control_characters(sentence), markup=False, soft_wrap=True)
    for sentence in what_a_class_learned([learner.transfer for learner in report.learners]):
        console.print(sentence, markup=False, soft_wrap=True)
    for sentence in report.problems:
        console.print(escape_control_characters(sentence), markup=False, soft_wrap=True)
    write_output(page_file, [class_page(report, titles)])
    Console(stderr=True, highlight=False).print(f"the full report is in {page_file}", markup=False)


def class_table(learners: Sequence[Learner]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for a terminal: each learner's failed tries by lesson (with – if an exercise is not solved) and in total."""
    lessons = list(dict.fromkeys(name.partition(".")[0] for name in tried_exercises(learners)))
    rows = [
        [
            learner.name,
            *(_cell(learner, lesson) for lesson in lessons),
            str(learner.failed_tries_and_seconds[0]),
        ]
        for learner in learners
    ]
    return ["learner", *lessons, "tries"], rows


def _cell(learner: Learner, lesson: str) -> str:
    of = [one for name, one in learner.exercises.items() if name.partition(".")[0] == lesson]
    return (
        f"{sum(one.failed_tries for one in of)}{'' if all(one.is_solved for one in of) else ' –'}"
        if of
        else ""
    )


class ExerciseDifficulty(NamedTuple):
    """How hard an exercise was for a class."""

    exercise: str
    failed_tries: int
    solved_by: int  # learners
    tried_by: int
    frequent_messages: list[tuple[str, int]]  # (the check's message about wrong answers, how often)


class PredictionVotes(NamedTuple):
    """How a class voted in a prediction: the number of votes of each option."""

    prediction: str
    votes: list[int]
    right: int

    @property
    def right_share(self) -> float:
        """The share of right votes."""
        return self.votes[self.right] / sum(self.votes)


def class_votes(learners: Iterable[Learner]) -> list[PredictionVotes]:
    """The votes in each prediction that has some, in the order of the lessons."""
    chosen = Counter(pair for learner in learners for pair in learner.votes.items())
    found = []
    for name in sorted({prediction for prediction, _ in chosen}, key=_place):
        asked = prediction_in_language(name)
        votes = [chosen[name, option] for option in range(len(asked["options"]))]
        found.append(PredictionVotes(name, votes, asked["right"]))
    return found


def hardest_exercises(learners: Sequence[Learner]) -> list[ExerciseDifficulty]:
    """The exercises that somebody tried, those with most failed tries first."""
    found = []
    for name in tried_exercises(learners):
        of = [learner.exercises[name] for learner in learners if name in learner.exercises]
        messages = Counter(text for one in of for text in one.messages).most_common(OFTEN)
        failed_tries, solved_by = sum(one.failed_tries for one in of), sum(one.is_solved for one in of)
        found.append(ExerciseDifficulty(name, failed_tries, solved_by, len(of), messages))
    return sorted(found, key=lambda one: -one.failed_tries)


# -- the page ----------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --page: light-dark(#fff, #16181d); --line: light-dark(#cfd3da, #3a3f4a);
  --quiet: light-dark(#555, #b4b9c4); --focus: light-dark(#0b57d0, #8ab4f8);
  --0: light-dark(#eef1f4, #2a2e36); --1: #fde7c4; --2: #fbc98b; --3: #f39c55; --4: #e27a3f; --5: #a83c09; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5em auto; max-width: 100em; padding: 0 1em; background: var(--page); }
h1 { font-size: 1.5em; margin: 0; } h2 { font-size: 1.15em; margin: 1.6em 0 .4em; } p { max-width: 75em; margin: .4em 0; }
.scroll { overflow: auto; max-height: 78vh; border: 1px solid var(--line); border-radius: 4px; margin-top: .6em; }
table { border-collapse: separate; border-spacing: 1px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; padding: .15em .4em; background: var(--page); }
.map { font-size: 13px; } .map td { min-width: 2.3em; text-align: center; padding: .2em; border-radius: 3px; white-space: nowrap; }
.map thead th { position: sticky; top: 0; z-index: 1; } .map thead tr + tr th { top: 1.9em; }
.map .lesson { white-space: nowrap; max-width: 0; overflow: hidden; text-overflow: ellipsis; border-left: 1px solid var(--line); }
.map tbody th, .map .corner { position: sticky; left: 0; z-index: 2; max-width: 13em; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.map thead .corner { z-index: 3; } .map .share td { background: none; color: var(--quiet); }
.s0 { background: var(--0); } .s1 { background: var(--1); color: #111; } .s2 { background: var(--2); color: #111; }
.s3 { background: var(--3); color: #111; } .s4 { background: var(--4); color: #111; } .s5 { background: var(--5); color: #fff; }
.open { outline: 2px dashed currentColor; outline-offset: -3px; }
#tries:checked ~ .scroll .minutes, #minutes:checked ~ .scroll .tries { display: none; }
a { color: var(--focus); } :focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
details { border-bottom: 1px solid var(--line); padding: .25em 0; } details table { margin: .4em 0 .8em 1em; border-spacing: .5em .15em; }
details td, details th { vertical-align: top; } details table { scroll-margin-top: 3em; } details td:nth-child(4) { white-space: nowrap; } summary { cursor: pointer; } summary span { color: var(--quiet); } li { margin: .3em 0; }
code { overflow-wrap: anywhere; }
@media print { .scroll { max-height: none; overflow: visible; } }
"""
POLICY = f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title><meta name="viewport" content="width=device-width"><style>{style}</style></head><body><main>
<h1>{title}</h1>
<p>{summary} Learners with the most trouble come first; a name leads to the learner's answers.</p>
<p><b>✓</b> solved, and the answer was checked again here · <b>(✓)</b> solved as the learner's file says; this kind of answer cannot be
checked again · dashed: not solved · empty: not tried. The number: wrong answers and errors before it was solved, or minutes.</p>
<input type="radio" name="by" id="tries" checked><label for="tries"> wrong answers and errors</label>
<input type="radio" name="by" id="minutes"><label for="minutes"> minutes</label>
<div class="scroll" tabindex="0" role="region" aria-label="Learners by exercises">{tries}{minutes}</div>
{bad}
<h2>Exercises with the most trouble first</h2>
<ol>{exercises}</ol>
{votes}
{learned}
<h2>Learners</h2>
{learners}
</main></body></html>
"""


def class_page(report: ClassReport, titles: dict[str, str]) -> str:
    """The class as one HTML page; `titles`: of lessons and exercises."""
    learners, names = report.learners, tried_exercises(report.learners)
    by_number = dict(enumerate(learners, 1))
    exercises = "".join(
        f"<li><b>{shown(name)}</b> {escape(titles.get(name, ''))}: {tries} tries; {solved} of {tried} solved it"
        + "".join(f"<br>{count} × <i>{shown(text)}</i>" for text, count in said)
        for name, tries, solved, tried, said in hardest_exercises(learners)
    )
    votes = "".join(map(_votes, class_votes(learners)))
    learned = "".join(
        f"<li>{shown(sentence)}</li>"
        for sentence in what_a_class_learned([learner.transfer for learner in learners])
    )
    solved = sum(learner.solved_count for learner in learners)
    checked = sum(one.is_confirmed for learner in learners for one in learner.exercises.values())
    items = "".join(f"<li>{shown(sentence)}</li>" for sentence in report.problems)
    return PAGE.format(
        title="Class report",
        style=STYLE,
        policy=POLICY,
        summary=f"{len(learners)} learners, {len(names)} exercises. {solved:,} times an exercise was solved; {checked:,} of the answers were checked again.",
        tries=class_map(by_number, names, titles, "tries"),
        minutes=class_map(by_number, names, titles, "minutes"),
        exercises=exercises,
        votes=f"<h2>Predictions, as they were before the answer</h2>\n{votes}" if votes else "",
        learned=f"<h2>Transfer questions and exit tests</h2>\n<ul>{learned}</ul>" if learned else "",
        learners="".join(learner_details(number, learner, titles) for number, learner in by_number.items()),
        bad=f"<h2>Hand-ins to look at</h2>\n<ul>{items}</ul>" if report.problems else "",
    )


def _votes(voted: PredictionVotes) -> str:
    asked = prediction_in_language(voted.prediction)
    options = "".join(
        f"<li>{'✓ ' if place == voted.right else ''}{html_with_code(option)}: {count}</li>"
        for place, (option, count) in enumerate(zip(asked["options"], voted.votes))
    )
    return (
        f"<p><b>{voted.prediction}</b> {html_with_code(asked['question'])} {voted.right_share:.0%} were right.</p>"
        f"<ul>{options}</ul>\n"
    )


def shown(text: str) -> str:
    """Escapes a learner's text for a page."""
    return escape(escape_control_characters(text))


def class_map(
    learners: Mapping[int, Learner], names: Sequence[str], titles: dict[str, str], what: str
) -> str:
    """A table of learners by exercises, coloured by `what`: "tries" or "minutes". Learners have numbers."""
    lessons = "".join(
        f'<th class="lesson" scope="colgroup" colspan="{len(list(some))}">{shown(lesson)} {escape(say(titles.get(lesson, "")))}</th>'
        for lesson, some in groupby(names, lambda name: name.partition(".")[0])
    )
    head = "".join(
        f'<th scope="col" title="{escape(say(titles.get(name, "")))}">{shown(name)}</th>' for name in names
    )
    share = "".join(
        f"<td>{sum(name in each.exercises and each.exercises[name].is_solved for each in learners.values())}</td>"
        for name in names
    )
    most = max(
        (CELL_VALUES[what](one) for each in learners.values() for one in each.exercises.values()), default=0
    )
    rows = "".join(_row(number, learner, names, what, most) for number, learner in learners.items())
    return (
        f'<table class="map {what}"><thead><tr><th class="corner" rowspan="2" scope="col">{say("learner")}</th>'
        f'<th rowspan="2" scope="col">{say("solved")}</th>{lessons}</tr><tr>{head}</tr></thead><tbody>'
        f'<tr class="share"><th scope="row">{say("solved by")}</th><td></td>{share}</tr>{rows}</tbody></table>'
    )


def _row(number: int, learner: Learner, names: Sequence[str], what: str, most: float) -> str:
    cells = []
    for name in names:
        if one := learner.exercises.get(name):
            value = CELL_VALUES[what](one)
            shade = min(int(-(-value * (SHADES - 1) // most)), SHADES - 1) if most else 0
            attempts = say(
                "{wrong} wrong, {errors} errors, {minutes} min",
                wrong=one.wrong_count,
                errors=one.error_count,
                minutes=f"{one.minutes:.0f}",
            )
            amount = f"{value:.0f}" if value >= 1 else ""
            state = "" if one.is_solved else " open"
            cells.append(f'<td class="s{shade}{state}" title="{attempts}">{_mark(one)} {amount}</td>')
        else:
            cells.append("<td></td>")
    return (
        f'<tr><th scope="row" title="{shown(learner.file)}"><a href="#learner-{number}">{number} <span class="who">{shown(learner.name)}</span></a></th>'
        f"<td>{learner.solved_count}</td>{''.join(cells)}</tr>"
    )


def _mark(one: ExerciseAttempts) -> str:
    return ("✓" if one.is_confirmed else "(✓)") if one.is_solved else "–"


def learner_details(number: int, learner: Learner, titles: dict[str, str]) -> str:
    """What one learner did, exercise by exercise, with the last wrong answers."""
    rows = "".join(
        f'<tr><td>{_mark(one)}</td><th scope="row">{shown(name)}</th><td>{escape(say(titles.get(name, "")))}</td><td>{one.minutes:.0f} {say("min")}</td><td>'
        + "<br>".join(
            f"<code>{shown(answer)}</code> {shown(said)}"
            for answer, said in [*zip(one.wrong_answers, one.messages)][-LAST:]
        )
        + "</td></tr>"
        for name, one in sorted(learner.exercises.items(), key=lambda item: _place(item[0]))
    )
    count, tries = learner.solved_count, learner.failed_tries_and_seconds[0]
    summary = say("{solved} solved, {tries} tries", solved=count, tries=tries)
    file = f"{shown(learner.file)}: " if learner.file else ""
    heads = (say("solved"), say("exercise"), say("title"), say("time"), say("last wrong answers"))
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        f'<details id="of-{number}"><summary id="see-{number}"><b>{shown(learner.name)}</b> <span>{file}{summary}</span></summary>'
        f'<table id="learner-{number}"><tr>{head}</tr>{rows}</table></details>\n'
    )
