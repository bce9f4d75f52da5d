"""Judges events beside the questions about restrictions: one call of the judge at a time, for all requests that wait.

To hand a question to another thread and its answer back takes a fifth of its time, so the service's own thread judges while that leaves
half of its time to the other questions.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from lab.restrict.questions import event_line
from lab.restrict.standing import BadQuestion

TOGETHER = 16  # questions of several requests that are judged in one call
# of its time, the service's own thread judges for so much at most; so many s at a time
SHARE, AT_A_TIME_S = 0.5, 0.02


class Judge(Protocol):
    """Knows the windows of an engine (`lab.desk.live.LiveWorld`)."""

    def would(self, lines: Sequence[bytes], max_age_ms: int, waits: bool = True) -> dict[str, Any]:
        """The "answers" to records that have not been logged, in their order, and "asOf".

        Raises TimeoutError if its state is older, or, unless it `waits`, if it cannot judge at once.
        """


class _Request(NamedTuple):
    questions: Sequence[Any]
    max_age_ms: int
    answer: "asyncio.Future[dict[str, Any]]"


class Judging:
    """Asks a judge. Requests that come together, or meanwhile, are judged together, as that takes less time."""

    def __init__(self, judge: Judge):
        self._judge = judge
        self._thread = ThreadPoolExecutor(1, "judge")
        self._waiting, self._asked = deque[_Request](), list[_Request]()
        # how long the service's own thread may judge, as of then
        self._left_s, self._at = AT_A_TIME_S, time.monotonic()

    async def would(self, questions: Sequence[Any], max_age_ms: int) -> dict[str, Any]:
        """The judge's answers to the questions of a request, with refusals in place of what is no record. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        request = _Request(questions, max_age_ms, loop.create_future())
        self._waiting.append(request)
        if not self._asked and len(self._waiting) == 1:
            loop.call_soon(self._ask)  # when others that have arrived are read
        return await request.answer

    def _ask(self) -> None:
        """Asks about the requests that have waited longest."""
        count = 0
        for request in self._waiting:
            count += len(request.questions)
            is_other = self._asked and request.max_age_ms != self._asked[0].max_age_ms
            if self._asked and (count > TOGETHER or is_other):
                break
            self._asked.append(request)
        for _ in self._asked:
            self._waiting.popleft()
        loop = asyncio.get_running_loop()
        answered = loop.create_future()
        if not self._answer_here(answered):
            answered = loop.run_in_executor(self._thread, _answers, self._judge, self._asked)
        answered.add_done_callback(self._tell)

    def _answer_here(self, answered: "asyncio.Future[list[dict[str, Any]]]") -> bool:
        """Asks in this thread, unless it has judged too long, or the judge would have to wait; returns whether it has."""
        now = time.monotonic()
        self._left_s, self._at = min(AT_A_TIME_S, self._left_s + SHARE * (now - self._at)), now
        if self._left_s <= 0 or len(self._asked[0].questions) > TOGETHER:
            return False
        try:
            answered.set_result(_answers(self._judge, self._asked, waits=False))
        except Exception:  # noqa: BLE001  (the other thread waits, or raises it for each request)
            return False
        finally:
            self._left_s -= time.monotonic() - now
        return True

    def _tell(self, answers: "asyncio.Future[list[dict[str, Any]]]") -> None:
        asked, self._asked = self._asked, []
        error = answers.exception()
        for place, request in enumerate(asked):
            if request.answer.done():  # its client has gone
                continue
            if error:
                request.answer.set_exception(error)
            else:
                request.answer.set_result(answers.result()[place])
        if self._waiting:
            self._ask()


def _answers(judge: Judge, requests: Sequence[_Request], waits: bool = True) -> list[dict[str, Any]]:
    """The answers to each of some requests. Raises TimeoutError."""
    lines, answers = list[bytes](), list[list[dict[str, Any] | None]]()
    for request in requests:
        answers.append([])
        for question in request.questions:
            try:
                lines.append(event_line(question))
                answers[-1].append(None)
            except BadQuestion as error:
                answers[-1].append({"clear": False, "refused": str(error)})
    found = judge.would(lines, requests[0].max_age_ms, waits)
    judged = iter(found["answers"])
    return [found | {"answers": [each or next(judged) for each in of]} for of in answers]
