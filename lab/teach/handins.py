"""Reads the logs of stumbles that learners handed in, as untrusted input, and checks their right answers again.

FOLDER/*.jsonl ──► lines that are what `lab.log_stumbles()` writes ──► right answers checked again ──► by file
              └──► hand-ins with others: named, with the first thing that is wrong; their good lines count

A file is one learner's: a line with another learner's number is left out, so that nobody writes into somebody else's row.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from lab.model.formatting import escape_control_characters, expected_message
from lab.model.jsontext import BadRecord, is_valid_unicode, parse_json_object
from lab.model.language import ENGLISH
from lab.teach import exercise_of, lesson_and_exercise_titles, lesson_predictions
from lab.teach.judge import RIGHT, WRONG
from lab.teach.learner import answer_text
from lab.teach.myengine import checked_titles
from lab.teach.progress import TRANSFER, VOTE
from lab.teach.questions import QUESTIONS, times_of
from lab.teach.replay import answer_from_text, is_right

LONGEST = 64 << 10  # bytes of a line
LARGEST = 4 << 20  # bytes of a hand-in; a class of fifty exercises writes a tenth of it
MOST_WRONG = 10_000  # lines of a hand-in that cannot be read; what comes after them is left out
MOST_CHECKED = 200  # right answers of a hand-in that are checked again
LAST = 1 << 33  # s since the epoch: 2242
TEXTS = (
    *("learner", "name", "exercise", "state", "said", "answer", "replay"),
    *("prediction", "option", "question", "when"),
)
# of a right answer: checked again; the learner's file says so
CONFIRMED, UNCHECKED = "confirmed", "unchecked"
NOT_CONFIRMED = "the file says right, but the answer in it is wrong"


class HandIns(NamedTuple):
    """The lines of each file, and a sentence for each file that has other lines, or "right" answers that are wrong."""

    lines_by_file: dict[str, list[dict]]
    problems: list[str]


def read_and_recheck_hand_ins(folder: Path) -> HandIns:
    """Reads the hand-ins in a folder and its subfolders, and judges their right answers again.

    A right answer gets `checked`, CONFIRMED or UNCHECKED; an answer that turns out to be wrong becomes a wrong one.
    """
    files: dict[str, list[dict]] = {}
    bad = []
    for file in sorted(folder.rglob("*.jsonl")):
        wrong, first = 0, ""  # not a sentence for each: a small file may have millions of bad lines
        name = escape_control_characters(str(file.relative_to(folder)))
        if not (opened := _opened(file)):
            bad.append(f"{name} is left out: it is no file that can be read")
            continue
        lines: list[dict] = []
        for number, line in _lines(opened):
            try:
                stumble = _stumble(line)
                if lines and stumble["learner"] != lines[0]["learner"]:
                    raise BadRecord(
                        f"of learner {answer_text(stumble['learner'])}, the first is of {answer_text(lines[0]['learner'])}"
                    )
            except BadRecord as error:
                wrong, first = wrong + 1, first or f"line {number}: {error}"
                if wrong == MOST_WRONG:
                    break
            else:
                lines.append(stumble)
        if wrong:
            bad.append(
                f"{name}: {wrong:,} {'line' if wrong == 1 else 'lines'}{' and all after them' if wrong == MOST_WRONG else ''} left out, the first is {first}"
            )
        if lines:
            files[name] = lines
        if refuted := _check_again(lines):
            bad.append(f"{name}: {NOT_CONFIRMED}, in {', '.join(refuted)}")
    return HandIns(files, bad)


def _check_again(lines: list[dict]) -> list[str]:
    """Judges the answers that lines call right, by the exercises here; gives the exercises whose answers are wrong."""
    confirmed: dict[str, bool | None] = {}
    refuted = []
    left = MOST_CHECKED
    for line in lines:
        name = line.get("exercise", "")
        if line["state"] != RIGHT or name not in lesson_and_exercise_titles():
            continue
        if left and confirmed.get(name) is not True:
            left -= 1
            confirmed[name] = _right(name, line.get("replay"))
        if confirmed.get(name) is False:
            line |= {"state": WRONG, "said": NOT_CONFIRMED}
            refuted.append(name)
        else:
            line["checked"] = CONFIRMED if confirmed.get(name) else UNCHECKED
    return list(dict.fromkeys(refuted))


def _right(exercise: str, answer: str | None) -> bool | None:
    """Whether an answer is right; None if that cannot be found out."""
    if answer is None:
        return None
    try:
        return is_right(exercise_of(exercise), answer_from_text(answer))
    except BadRecord:
        return False


def _opened(path: Path) -> IO[bytes] | None:
    """A file of its own, opened: nobody waits for what a pipe will bring, or follows a link out of the folder."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
    return None


def _lines(lines: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not blank, as far as they are looked at; no more than one in memory."""
    left = LARGEST
    with suppress(OSError), lines:
        number = 0
        while left > 0 and (line := lines.readline(min(left, LONGEST + 1))):
            number, left = number + 1, left - len(line)
            if left <= 0 and not line.endswith(b"\n"):  # the rest of it is not read
                break
            if line.strip():
                yield number, line
            while left > 0 and not line.endswith(b"\n") and (line := lines.readline(min(left, LONGEST))):
                left -= len(line)
        if left <= 0:
            yield number, b" " * (LONGEST + 1)


def _stumble(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST:
        raise BadRecord(f"a line longer than {LONGEST:,} bytes, or a file larger than {LARGEST:,}")
    found = parse_json_object(line.decode(errors="replace"))
    if not isinstance(found, dict):
        raise BadRecord(expected_message("line", found, "an object"))
    return check_stumble(found)


def check_stumble(found: dict[str, Any]) -> dict[str, Any]:
    """What is used of a line as `lab.log_stumbles()` writes it. Raises BadRecord."""
    if type(at := found.get("at")) is not int or not 0 <= at < LAST:
        raise BadRecord(expected_message("at", at, "seconds since the epoch"))
    for name in TEXTS:
        value = found.get(name, "")
        if not isinstance(value, str) or not is_valid_unicode(value):
            raise BadRecord(expected_message(name, value, "a text"))
    for name in ("learner", "state"):
        if not found.get(name):
            raise BadRecord(expected_message(name, found.get(name), "a text"))
    if "exercise" in found and found["exercise"] not in checked_titles():
        raise BadRecord(
            expected_message("exercise", found["exercise"], "an exercise of a lesson, such as 3.4")
        )
    if "prediction" in found:
        said = lesson_predictions().get(found["prediction"])
        if not said:
            raise BadRecord(
                expected_message("prediction", found["prediction"], "a prediction of a lesson, such as 3.2")
            )
        options = list(map(str, range(len(said[ENGLISH]["options"]))))
        if found["state"] == VOTE and found.get("option") not in options:
            raise BadRecord(expected_message("option", found.get("option"), f"one of {', '.join(options)}"))
    if found["state"] == TRANSFER:
        _check_transfer(found)
    return {name: found[name] for name in ("at", *TEXTS) if name in found}


def _check_transfer(found: dict[str, Any]) -> None:
    """Raises BadRecord for a line that answers no transfer question, and none of an exit test."""
    asked = {
        f"{name}.{number}": (times_of(name), list(map(str, range(len(each.options)))))
        for name, questions in QUESTIONS.items()
        for number, each in enumerate(questions, 1)
    }
    times, options = asked.get(found.get("question", ""), ((), []))
    for name, known in (("question", list(asked)), ("when", times), ("option", options)):
        if found.get(name) not in known:
            raise BadRecord(expected_message(name, found.get(name), f"one of {', '.join(known)}"))
