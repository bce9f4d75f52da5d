"""An instructor's view of a class: the logs of stumbles that learners handed in, as one heat map.

    FOLDER/*.jsonl ──► learners × exercises ──► a table on the terminal, and one HTML file that needs nothing else
                  └──► hand-ins that cannot be read, named

The time between two lines of a learner belongs to the exercise of the later one; a gap of more than 15 minutes is a break
and does not count. So do errors: they belong to the exercise that is checked next.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from lab.model.words import visible
from lab.teach.handins import read_hand_ins
from lab.teach.judge import RIGHT, WRONG

BREAK_S = 15 * 60
OFTEN = 5  # wrong answers that are shown, of each exercise
SHADES = 6


@dataclass
class Trouble:
    """One learner's difficulties with one exercise."""

    wrong: int = 0
    errors: int = 0
    seconds: int = 0
    solved: bool = False
    said: list[str] = field(default_factory=list)  # to the wrong answers

    @property
    def tries(self) -> int:
        """Wrong answers and errors."""
        return self.wrong + self.errors

    @property
    def minutes(self) -> float:
        return self.seconds / 60


@dataclass
class Learner:
    """One log of stumbles."""

    name: str
    exercises: dict[str, Trouble]

    @property
    def trouble(self) -> tuple[int, int]:
        """Tries, then seconds: what learners are sorted by."""
        of = self.exercises.values()
        return sum(one.tries for one in of), sum(one.seconds for one in of)


def learner_of(lines: Iterable[dict]) -> Learner:
    """A learner's troubles, from the lines of a log.

    >>> log = [{"at": 0, "learner": "7f", "name": "", "state": "begin"}, {"at": 60, "state": "error", "said": "NameError: x"}]
    >>> log += [{"at": 90, "exercise": "3.2", "state": "wrong", "said": "Both ends count."}]
    >>> log += [{"at": 4000, "exercise": "3.2", "state": "right", "said": "right"}]
    >>> learner_of(log)
    Learner(name='7f', exercises={'3.2': Trouble(wrong=1, errors=1, seconds=90, solved=True, said=['Both ends count.'])})
    """
    name, found, before, errors, passed = "", {}, None, 0, 0
    for line in sorted(lines, key=lambda line: line["at"]):
        name = line.get("name") or name or line.get("learner", "")
        gap = line["at"] - (line["at"] if before is None else before)
        passed += gap if gap <= BREAK_S else 0
        before = line["at"]
        if line["state"] == "begin":
            passed = 0
        errors += line["state"] == "error"
        if "exercise" not in line:
            continue
        one = found.setdefault(line["exercise"], Trouble())
        if not one.solved:  # what comes after is play
            one.seconds, one.errors = one.seconds + passed, one.errors + errors
            one.wrong += line["state"] == WRONG
            one.said += [line.get("said", "").partition("\n")[0]] if line["state"] == WRONG else []
            one.solved = line["state"] == RIGHT
        errors = passed = 0
    return Learner(name, found)


@dataclass
class Class:
    """The learners of a class, those with most trouble first, and a sentence for each hand-in with lines that cannot be read."""

    learners: list[Learner]
    bad: list[str]


def read(folder: Path) -> Class:
    """What a class handed in. Raises ValueError if it contains no stumble log."""
    logs, bad = read_hand_ins(folder)
    if not logs:
        first = f"; {bad[0]}" if bad else ""
        raise ValueError(
            f"{folder} has no stumble logs: expected files named stumbles-….jsonl, as lab.log_stumbles() writes them{first}"
        )
    found = [learner_of(lines) for lines in logs.values()]
    return Class(sorted(found, key=lambda learner: learner.trouble, reverse=True), bad)


def exercises_of(learners: Sequence[Learner]) -> list[str]:
    """All that somebody checked, in the order of the lessons."""
    return sorted({name for learner in learners for name in learner.exercises}, key=_place)


def _place(name: str) -> tuple[tuple[int, ...], str]:
    parts = name.split(".")
    return tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else 0 for part in parts), name


def table(learners: Sequence[Learner]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for a terminal: tries of each learner in each lesson, with – if something is not solved, and in all."""
    lessons = list(dict.fromkeys(name.partition(".")[0] for name in exercises_of(learners)))
    rows = [
        [learner.name, *(_cell(learner, lesson) for lesson in lessons), str(learner.trouble[0])]
        for learner in learners
    ]
    return ["learner", *lessons, "tries"], rows


def _cell(learner: Learner, lesson: str) -> str:
    of = [one for name, one in learner.exercises.items() if name.partition(".")[0] == lesson]
    return f"{sum(one.tries for one in of)}{'' if all(one.solved for one in of) else ' –'}" if of else ""


def worst(learners: Sequence[Learner]) -> list[tuple[str, int, int, int, list[tuple[str, int]]]]:
    """(exercise, tries, who solved it, who tried it, what was said most often), those with most tries first."""
    found = []
    for name in exercises_of(learners):
        of = [learner.exercises[name] for learner in learners if name in learner.exercises]
        said = Counter(text for one in of for text in one.said).most_common(OFTEN)
        found.append((name, sum(one.tries for one in of), sum(one.solved for one in of), len(of), said))
    return sorted(found, key=lambda one: -one[1])


# -- the page ----------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --0: #f7f7f7; --1: #fde7c4; --2: #fbc98b; --3: #f39c55; --4: #d9652b; --5: #a83c09; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 2px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; padding: .2em .5em; }
.map td { min-width: 2.6em; text-align: center; padding: .25em .3em; border-radius: 3px; }
.s0 { background: var(--0); color: #111; } .s1 { background: var(--1); color: #111; } .s2 { background: var(--2); color: #111; }
.s3 { background: var(--3); color: #111; } .s4 { background: var(--4); color: #111; } .s5 { background: var(--5); color: #fff; }
.open { outline: 2px dashed currentColor; outline-offset: -3px; }
#tries:checked ~ .scroll .minutes, #minutes:checked ~ .scroll .tries { display: none; }
li { margin: .3em 0; }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><style>{style}</style></head><body>
<h1>{title}</h1>
<p>{summary} A cell counts the wrong answers and errors, or the minutes, before the exercise was solved.
A dashed cell: not solved; an empty cell: not tried. Learners with the most trouble come first.</p>
<input type="radio" name="by" id="tries" checked><label for="tries"> colour by tries</label>
<input type="radio" name="by" id="minutes"><label for="minutes"> colour by minutes</label>
<div class="scroll">{tries}{minutes}</div>
<h2>Exercises with the most trouble first</h2>
<ol>{exercises}</ol>
{bad}
</body></html>
"""


def page(of: Class, titles: dict[str, str]) -> str:
    """The heat map as one HTML page; `titles`: of the exercises."""
    learners, names = of.learners, exercises_of(of.learners)
    head = "".join(
        f'<th scope="col" title="{escape(titles.get(name, ""))}">{_shown(name)}</th>' for name in names
    )
    maps = {
        what: f'<table class="map {what}"><tr><th scope="col">learner</th>{head}</tr>'
        + "".join(_row(learner, names, what, _most(learners, what)) for learner in learners)
        + "</table>"
        for what in ("tries", "minutes")
    }
    exercises = "".join(
        f"<li><b>{_shown(name)}</b> {escape(titles.get(name, ''))}: {tries} tries; {solved} of {tried} solved it"
        + "".join(f"<br>{count} × <i>{_shown(text)}</i>" for text, count in said)
        for name, tries, solved, tried, said in worst(learners)
    )
    summary = f"{len(learners)} learners, {len(names)} exercises."
    items = "".join(f"<li>{_shown(sentence)}</li>" for sentence in of.bad)
    bad = f"<h2>Hand-ins with unreadable lines</h2>\n<ul>{items}</ul>" if of.bad else ""
    return PAGE.format(
        title="Where the class stumbled", style=STYLE, summary=summary, exercises=exercises, bad=bad, **maps
    )


def _shown(text: str) -> str:
    """Escapes a learner's text for a page."""
    return escape(visible(text))


def _most(learners: Sequence[Learner], what: str) -> float:
    return max((getattr(one, what) for each in learners for one in each.exercises.values()), default=0)


def _row(learner: Learner, names: Sequence[str], what: str, most: float) -> str:
    cells = []
    for name in names:
        if one := learner.exercises.get(name):
            value = getattr(one, what)
            shade = min(int(-(-value * (SHADES - 1) // most)), SHADES - 1) if most else 0
            told = f"{one.wrong} wrong, {one.errors} errors, {one.minutes:.0f} min"
            state = "" if one.solved else " open"
            cells.append(
                f'<td class="s{shade}{state}" title="{told}">{value:.0f}{"" if one.solved else " –"}</td>'
            )
        else:
            cells.append("<td></td>")
    return f'<tr><th scope="row">{_shown(learner.name)}</th>{"".join(cells)}</tr>'
