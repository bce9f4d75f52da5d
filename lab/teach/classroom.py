"""The learners of a class that have joined a board, and what the teacher may say next. Nothing is written to a disk.

    lab.check, lab.predict ──► a line, as in the log of stumbles ──► Classroom.add_line ──► learners, votes ──► advice

A line is one that `lab.log_stumbles()` would write, without its learner and its time: those are the board's own. Every size and
rate is limited, because anyone who can read the code on the projector can join and send what they like.
"""

import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from lab.model.formatting import expected_message
from lab.model.jsontext import BadRecord, is_valid_unicode, parse_json_object
from lab.model.language import say
from lab.teach import exercise_of
from lab.teach.handins import check_stumble
from lab.teach.myengine import checked_titles, engine_step_titles
from lab.teach.progress import ANSWER, SAID
from lab.teach.report import (
    LONGEST_NAME,
    ExerciseDifficulty,
    Learner,
    class_votes,
    hardest_exercises,
    parse_learner_log,
)

LINES = 600  # of a learner; a class of a day writes a third of it
LINES_PER_S, BURST = 3.0, 30.0  # of a learner
LONGEST_LINE = 4 << 10  # bytes
SIGNS = "BCDFGHJKLMNPQRSTVWXZ23456789"  # which nobody confuses, and which make no words
CODE_LENGTH = 8  # 28 to the power of 8: guessing a thousand times a second takes years
QUIET_S = 600  # after so long without a line, a learner may need a visit
SPLIT = (0.3, 0.7)  # shares of right votes between which neighbours convince each other
FEW = 3  # votes or tries that say something of a class


class Refused(Exception):
    """A request that the board does not carry out; `status`: of HTTP."""

    def __init__(self, status: int, reason: str):
        super().__init__(reason)
        self.status = status


class TokenBucket:
    """Limits how often something may happen: `per_s` on average, `burst` at once."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float]):
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._left, self._at = burst, clock()

    def take(self) -> bool:
        """Whether it may happen once more."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


@dataclass
class _Seat:
    """A learner who has joined."""

    number: int
    name: str
    bucket: TokenBucket
    lines: deque[dict] = field(default_factory=lambda: deque(maxlen=LINES))


class Classroom:
    """Who has joined with the code, and what their notebooks sent. All methods may be called from several threads."""

    def __init__(self, most: int, clock: Callable[[], float] = time.time):
        self.code = "".join(secrets.choice(SIGNS) for _ in range(CODE_LENGTH))
        self._most, self._clock, self._lock = most, clock, Lock()
        self._seats: dict[str, _Seat] = {}  # by token
        self._joined = 0  # so far: the next learner's number

    def join(self, body: bytes) -> str:
        """Gives a learner who knows the code a token. Raises Refused."""
        asked = _object(body)
        code, name = asked.get("code"), asked.get("name")
        with self._lock:
            if not isinstance(code, str) or not hmac.compare_digest(
                code.strip().upper().encode(errors="replace"), self.code.encode()
            ):
                raise Refused(403, "this is not the code of this class")
            if not isinstance(name, str) or not name.strip() or not is_valid_unicode(name):
                raise Refused(422, "expected a name")
            if len(self._seats) >= self._most:
                raise Refused(409, f"the class is full: {self._most} learners have joined")
            self._joined += 1
            token = secrets.token_urlsafe(24)
            bucket = TokenBucket(LINES_PER_S, BURST, self._clock)
            self._seats[token] = _Seat(self._joined, self._free_name(name.strip()[:LONGEST_NAME]), bucket)
            self._seats[token].lines.append({"at": int(self._clock()), "state": "begin"})
        return token

    def _free_name(self, name: str) -> str:
        taken = {seat.name for seat in self._seats.values()}
        return next(
            each for each in (name, *(f"{name} ({n})" for n in range(2, self._most + 2))) if each not in taken
        )

    def add_line(self, token: str, body: bytes) -> None:
        """Takes a line of a learner. Raises Refused."""
        with self._lock:
            seat = self._seats.get(token)
            if not seat:
                raise Refused(401, "this learner has not joined, or was removed")
            if not seat.bucket.take():
                raise Refused(429, "too many lines, wait a moment")
        try:
            line = check_stumble(_object(body) | {"at": int(self._clock()), "learner": "-"})
        except BadRecord as error:
            raise Refused(422, str(error)) from None
        for name, most in (("said", SAID), ("answer", ANSWER), ("state", SAID), ("replay", 0)):
            if name in line:
                line[name] = line[name][:most]
        with self._lock:
            seat.lines.append(line)

    def remove(self, number: int) -> None:
        """Removes a learner; another may take the place."""
        with self._lock:
            self._seats = {token: seat for token, seat in self._seats.items() if seat.number != number}

    def learners(self) -> dict[int, Learner]:
        """Who has joined, by number, in the order of joining."""
        with self._lock:
            seats = [(seat.number, seat.name, list(seat.lines)) for seat in self._seats.values()]
        found = {}
        for number, name, lines in seats:
            learner = parse_learner_log(lines)
            learner.name, learner.last_at = name, lines[-1]["at"]
            found[number] = learner
        return found

    def quiet(self, learners: dict[int, Learner]) -> list[int]:
        """The numbers of learners who have sent nothing for a while."""
        now = self._clock()
        return [number for number, learner in learners.items() if now - learner.last_at > QUIET_S]


class Advice(NamedTuple):
    """A sentence for the teacher; `quotes`: it has a learner's text in it, which the class need not see."""

    text: str
    quotes: bool = False


def advice(learners: Sequence[Learner]) -> list[Advice]:
    """What the teacher may say next: after the last prediction with votes, and about the exercise where most are stuck."""
    said = []
    if voted := [each for each in class_votes(learners) if sum(each.votes) >= FEW]:
        low, high = SPLIT
        about = {"name": voted[-1].prediction, "share": f"{voted[-1].right_share:.0%}"}
        if voted[-1].right_share < low:
            text = say(
                "Prediction {name}: {share} are right. Show one small example, and let them vote again.",
                **about,
            )
        elif voted[-1].right_share <= high:
            text = say(
                "Prediction {name}: {share} are right. Let neighbours who disagree convince each other, and vote again.",
                **about,
            )
        else:
            text = say("Prediction {name}: {share} are right. Run the next cell.", **about)
        said.append(Advice(text))
    difficult = hardest_exercises(learners)
    stuck = [each for each in difficult if each.solved_by < each.tried_by and each.failed_tries >= FEW]
    return said + (_advice_for(stuck[0]) if stuck else [])


def _advice_for(hard: ExerciseDifficulty) -> list[Advice]:
    title = f"{hard.exercise} {say(checked_titles()[hard.exercise])}"
    count = hard.tried_by - hard.solved_by
    text = say("Exercise {title}: {count} have tried it and not solved it.", title=title, count=count)
    said = [Advice(text)]
    for message, times in hard.frequent_messages[:1]:
        text = say("Seen most often, {count} times: {message}", count=times, message=message)
        said.append(Advice(text, quotes=True))
    if hard.exercise not in engine_step_titles():
        said.append(Advice(say("Ask or show: {hint}", hint=say(exercise_of(hard.exercise).hints[0]))))
    return said


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises Refused."""
    if len(body) > LONGEST_LINE:
        raise Refused(413, f"more than {LONGEST_LINE:,} bytes")
    try:
        found = parse_json_object(body.decode(errors="replace"))
        if not isinstance(found, dict):
            raise BadRecord(expected_message("line", found, "an object"))
    except BadRecord as error:
        raise Refused(422, str(error)) from None
    return found
