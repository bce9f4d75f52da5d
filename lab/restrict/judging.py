"""Judges events beside the questions about restrictions: one call of the judge at a time, for all requests that wait."""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from lab.restrict.questions import event_line
from lab.restrict.standing import BadQuestion

TOGETHER = 16  # questions of several requests that are judged in one call


class Judge(Protocol):
    """Knows the windows of an engine (`lab.desk.live.LiveWorld`)."""

    def would(self, lines: Sequence[bytes], max_age_ms: int) -> dict[str, Any]:
        """The "answers" to records that have not been logged, in their order, and "asOf". Raises TimeoutError if its state is older."""


class _Request(NamedTuple):
    questions: Sequence[Any]
    max_age_ms: int
    answer: "asyncio.Future[dict[str, Any]]"


class Judging:
    """Asks a judge in a thread of its own. Requests that come meanwhile wait, and are then judged together, as that takes less time."""

    def __init__(self, judge: Judge):
        self._judge = judge
        self._thread = ThreadPoolExecutor(1, "judge")
        self._waiting, self._asked = deque[_Request](), list[_Request]()

    async def would(self, questions: Sequence[Any], max_age_ms: int) -> dict[str, Any]:
        """The judge's answers to the questions of a request, with refusals in place of what is no record. Raises TimeoutError."""
        request = _Request(questions, max_age_ms, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if not self._asked:
            self._ask()
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
        loop.run_in_executor(self._thread, _answers, self._judge, self._asked).add_done_callback(self._tell)

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


def _answers(judge: Judge, requests: Sequence[_Request]) -> list[dict[str, Any]]:
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
    found = judge.would(lines, requests[0].max_age_ms)
    judged = iter(found["answers"])
    return [found | {"answers": [each or next(judged) for each in of]} for of in answers]
