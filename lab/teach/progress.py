"""Stores a learner's solved exercises on this machine, and an optional log of stumbles.

    lab.predict ──► choices.jsonl          a line for each choice of a prediction
    lab.check ──┬─► solved.jsonl           a line when an exercise is solved
                ├─► the board of a class   the same, if `lab.join_class()` was called: lab.teach.classlink
                └─► stumbles-7f3a9c.jsonl  a line for each check, vote and error, if `lab.log_stumbles()` was called
                    └─► hand-in-7f3a9c.jsonl  a copy for an instructor, beside the notebook: `lab.hand_in()`

A line is one append, so that several kernels can write at once, and a kernel that is killed leaves complete lines. The files are in
`$LAB_DATA`, else in `lab` in `$XDG_DATA_HOME` or `~/.local/share`. Nothing leaves the machine, except to a board that the learner has joined.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from lab.model.datafolder import data_folder as folder
from lab.model.jsontext import BadRecord, parse_json_object
from lab.model.language import say
from lab.teach.classlink import MEMBERSHIP, send_line
from lab.teach.judge import RIGHT, WRONG, Verdict
from lab.teach.replay import answer_to_text

SOLVED, CHOICES, CONSENT, STUMBLES = "solved.jsonl", "choices.jsonl", "log.json", "stumbles-{}.jsonl"
VOTE, REVEAL, TRANSFER = "vote", "reveal", "transfer"  # states of a line that is of no exercise
SAID, ANSWER = 200, 100  # characters of each that a line of the log has at most
LARGEST = 1 << 20  # bytes of a saved file that are read
LONGEST_ANSWER = 48 << 10  # characters of a right answer; a longer one cannot be checked again
_boards: "WeakSet[Any]" = WeakSet()  # what shows progress in this kernel; each has `update()`


def solved_exercises() -> set[str]:
    """The exercises that were solved on this machine, such as "3.2"."""
    return {line["exercise"] for line in read_json_lines(folder() / SOLVED) if "exercise" in line}


def record_result(exercise: str, verdict: Verdict, answer: str) -> None:
    """Records the result of a check. Does not fail if the folder is not writable."""
    with suppress(OSError):
        if verdict.state == RIGHT and exercise not in solved_exercises():
            _append(folder() / SOLVED, {"exercise": exercise, "at": int(time.time())})
        line = {"exercise": exercise, "state": verdict.state, "said": verdict.text, "answer": answer}
        replayed = answer_to_text(verdict.plain_answer) if verdict.state == RIGHT else ""
        _log(line | ({"replay": replayed} if 0 < len(replayed) <= LONGEST_ANSWER else {}))
    for board in list(_boards):
        board.update()


def record_choice(question: str, option: str) -> None:
    """Records what was chosen in a prediction. Does not fail if the folder is not writable."""
    with suppress(OSError):
        _append(folder() / CHOICES, {"question": question, "option": option})


def record_vote(prediction: str, option: int) -> None:
    """Logs which option of a prediction, such as "3.2", a learner chooses; options count from 0."""
    with suppress(OSError):
        _log({"state": VOTE, "prediction": prediction, "option": str(option)})


def record_reveal(prediction: str) -> None:
    """Logs that the learner has seen the answer, so that later choices are no votes."""
    with suppress(OSError):
        _log({"state": REVEAL, "prediction": prediction})


def record_transfer(question: str, when: str, option: int) -> None:
    """Logs an answer to a transfer question, such as "3.1", "before"."""
    with suppress(OSError):
        _log({"state": TRANSFER, "question": question, "when": when, "option": str(option)})


def logs_stumbles() -> bool:
    """Whether the learner has asked for a log of stumbles."""
    return _consent() is not None


def choices() -> dict[str, Any]:
    """The newest choice in each prediction, by its question."""
    lines = read_json_lines(folder() / CHOICES)
    return {line["question"]: line.get("option") for line in lines if isinstance(line.get("question"), str)}


def register_board(board: Any) -> None:
    """Has `board.update()` called after each check in this kernel, as long as the board exists."""
    _boards.add(board)


def saved_progress() -> str:
    """The solved exercises, as the content of a file that `load_progress` reads elsewhere."""
    return "".join(f"{json.dumps({'exercise': name})}\n" for name in sorted(solved_exercises()))


def load_progress(content: bytes, known_exercises: Container[str]) -> int:
    """Marks the known exercises that a saved file lists as solved; returns how many are new."""
    named = set()
    for line in content[:LARGEST].decode(errors="replace").splitlines():
        with suppress(BadRecord):
            found = parse_json_object(line)
            named.add(str(found.get("exercise")) if isinstance(found, dict) else "")
    new = sorted(name for name in named - solved_exercises() if name in known_exercises)
    for exercise in new:
        _append(folder() / SOLVED, {"exercise": exercise, "at": int(time.time())})
    return len(new)


def forget_progress_and_stop_log() -> str:
    """Forgets solved exercises and predictions, and stops the log of stumbles; says what it did. Does not delete the log.

    >>> forget_progress_and_stop_log()  # doctest: +SKIP
    'Forgot 5 solved exercises. Stumbles are not logged.'
    """
    count = len(solved_exercises())
    for name in (SOLVED, CHOICES, CONSENT, MEMBERSHIP):
        (folder() / name).unlink(missing_ok=True)
    for board in list(_boards):
        board.update()
    logs = sorted(folder().glob(STUMBLES.format("*")))
    sentences = [
        say("Forgot 1 solved exercise." if count == 1 else "Forgot {count} solved exercises.", count=count),
        say("Stumbles are not logged."),
    ]
    if logs:
        sentences.append(
            say("Earlier logs stay until you delete them: {logs}.", logs=", ".join(map(str, logs)))
        )
    return " ".join(sentences)


def log_stumbles(on: bool = True, name: str = "") -> Verdict:
    """Starts the log of stumbles for all lessons on this machine, or stops it with `on=False`; says where it is and what it contains.

    `name`: the name of the learner in the log; without one, the log has only a random number.
    """
    if not on:
        (folder() / CONSENT).unlink(missing_ok=True)
        return Verdict(RIGHT, say("Stumbles are not logged."))
    learner = (_consent() or {}).get("learner") or secrets.token_hex(3)
    folder().mkdir(parents=True, exist_ok=True)
    with open(folder() / CONSENT, "w", opener=_for_the_learner) as consent:
        consent.write(json.dumps({"learner": learner, "name": name}))
    _log({"state": "begin"})
    who = say("the name {name}", name=repr(name)) if name else ""
    text = say(
        "From now on, each check, each choice in a prediction and each error in a cell adds a line to\n{file}\n"
        "A line has {who}; the time; the exercise; the answer's first {count} characters; the check's message or the error; the choice.\n"
        "A right answer is there as a whole, of a function what it returned in each case, so that an instructor can check it again.\n"
        "Nothing is sent anywhere. lab.log_stumbles(False) stops the log. lab.hand_in() copies the file to where you can see it;\n"
        "it is yours to read, hand in or delete.",
        file=stumbles_file(learner),
        who=who or say("the random number {number} instead of a name", number=learner),
        count=ANSWER,
    )
    return Verdict(RIGHT, text)


def hand_in(folder: str | Path = ".") -> Verdict:
    """Copies the log of stumbles into a folder, the notebook's own if none is named, as the file to give to an instructor."""
    consent = _consent()
    if not consent or not (log := stumbles_file(consent["learner"])).exists():
        text = say("There is nothing to hand in: run lab.log_stumbles() first, and then the checks.")
        return Verdict(WRONG, text)
    copy = Path(folder).absolute() / f"hand-in-{consent['learner']}.jsonl"
    with open(copy, "wb", opener=_for_the_learner) as file:
        file.write(log.read_bytes())
    checks = [line for line in read_json_lines(copy) if "exercise" in line]
    right = {line["exercise"] for line in checks if line["state"] == RIGHT}
    text = say(
        "{file}\nhas your {count} checks, {right} of them of solved exercises. Nothing was sent: give this file to your instructor.",
        file=copy,
        count=len(checks),
        right=len(right),
    )
    return Verdict(RIGHT, text)


def _for_the_learner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def stumbles_file(learner_id: str) -> Path:
    """The log of stumbles of a learner."""
    return folder() / STUMBLES.format(learner_id)


def read_json_lines(file: Path) -> Iterator[dict]:
    """The objects of a file of JSON lines. Ignores lines that are no objects; a missing file has none."""
    try:
        text = file.read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return
    for line in text.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _consent() -> dict | None:
    return next(read_json_lines(folder() / CONSENT), None)


def _log(texts: dict[str, str]) -> None:
    cut = {"said": SAID, "answer": ANSWER}
    texts = {name: text[: cut.get(name)] for name, text in texts.items()}
    send_line(texts)
    if consent := _consent():
        who = {"learner": consent["learner"], "name": consent["name"]}
        _append(stumbles_file(consent["learner"]), {"at": int(time.time()), **who, **texts})


def _append(file: Path, line: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(line, ensure_ascii=False).encode() + b"\n")
    finally:
        os.close(descriptor)


def call_after_each_cell(ran: Callable[[Any], None]) -> None:
    """Has the notebook's kernel call `ran` with the result of each cell. Does nothing outside a notebook."""
    shell: Callable | None = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if shell and (kernel := shell()):
        with suppress(ValueError):  # it was not registered
            kernel.events.unregister("post_run_cell", ran)
        kernel.events.register("post_run_cell", ran)


def _ran(result: Any) -> None:
    if error := result.error_in_exec or result.error_before_exec:
        with suppress(OSError):
            _log({"state": "error", "said": f"{type(error).__name__}: {error}"})


_log({"state": "begin"})
call_after_each_cell(_ran)
