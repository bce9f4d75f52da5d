"""A client of the enforcement service, for the shop that asks before it lets an event happen."""

import http.client
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from lab.model.formatting import expected_message, plain_text, short_json
from lab.restrict.restrictions import FORBIDS, KNOWN, is_short_number
from lab.restrict.tokens import read_tokens

HOST, PORT = "127.0.0.1", 8707
AT_ONCE, MAX_BODY = 100, 64 << 10  # questions and bytes of a request
TIMEOUT_S, AGAIN_S = 0.5, 1.0
NO_ANSWERS = "what answers there is not `lab restrict serve`"
ALLOW, DENY = "allow", "deny"
# A refused login or payment can be repeated later; what an attacker did cannot be undone.
ON_OUTAGE = {"block_login": DENY, "hold_payment": DENY, "notify": ALLOW}


class Enforcement:
    """A connection to the service at a URL.

    `on_outage` maps the action of a restriction to "allow" or "deny": whether the events that it forbids happen while the service
    does not answer. The default is to deny them. After a failed connection the client waits `AGAIN_S` before it asks again.
    A question that the service refuses is never allowed, whatever `on_outage` says; nor is one with an action that no restriction
    knows. `action`: that of events that have none, such as "payment"; without it, they are refused.

    `unanswered`: the number of questions without an answer; `refused`: of those that the service refused; `error`: the last reason.
    `token`: this client's token; by default the one in the environment or in the user's file.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        on_outage: Mapping[str, str] | None = None,
        action: str | None = None,
    ):
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(
                f"{url!r}, expected the address of `lab restrict serve`, such as http://127.0.0.1:8707"
            )
        self._on_outage = ON_OUTAGE | dict(on_outage or {})
        for restriction, what in self._on_outage.items():
            if restriction not in FORBIDS or what not in (ALLOW, DENY):
                raise ValueError(
                    expected_message(
                        "on_outage",
                        f"{restriction}={what}",
                        f"one of {', '.join(FORBIDS)}, and allow or deny",
                    )
                )
        if action is not None and action not in KNOWN:
            raise ValueError(expected_message("action", action, f"one of {', '.join(KNOWN)}"))
        self._action = action
        self._token = token or read_tokens()[0]
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT_S)
        self._again_at = 0.0
        self.unanswered, self.refused, self.error = 0, 0, ""

    def allowed(self, events: Sequence[Mapping[str, Any]]) -> list[bool]:
        """Whether each event may happen: only if the service says so, or if it does not answer and `on_outage` allows it."""
        default = {"action": self._action} if self._action else {}
        questions = [default | {name: _plain(event[name]) for name in event} for event in events]
        return [answer for some in _requests(questions) for answer in self._ask(some)]

    def _ask(self, questions: Sequence[dict[str, Any]]) -> list[bool]:
        if time.monotonic() < self._again_at:
            return self._outage(questions, self.error)
        try:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
            self._connection.request("POST", "/may", json.dumps({"questions": questions}), headers)
            response = self._connection.getresponse()
            status, answer = response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
            self._connection.close()  # the next request opens a new connection
            self._again_at = max(self._again_at, time.monotonic() + AGAIN_S)
            return self._outage(questions, str(error))
        said = answer if isinstance(answer, dict) else {}
        if status == 200 and (answers := _answers(said.get("answers"), len(questions))):
            return [self._answer(each) for each in answers]
        if 400 <= status < 500 and status != 429:
            self.refused, self.error = (
                self.refused + len(questions),
                f"{status}: {short_json(said.get('detail'))}",
            )
            return [False] * len(questions)
        return self._outage(questions, f"status {status}" if status != 200 else NO_ANSWERS)

    def _answer(self, answer: Mapping[str, Any]) -> bool:
        if why := answer.get("refused"):
            self.refused, self.error = self.refused + 1, str(why)
        return answer.get("allowed") is True and not why

    def _outage(self, questions: Sequence[dict[str, Any]], error: str) -> list[bool]:
        self.unanswered, self.error = self.unanswered + len(questions), error
        return [
            question.get("action") in KNOWN
            and all(
                self._on_outage[restriction] == ALLOW
                for restriction, forbidden in FORBIDS.items()
                if question["action"] in forbidden
            )
            for question in questions
        ]

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def _requests(questions: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Splits questions into requests. A question that is larger than a request is sent alone, and the service refuses it."""
    some: list[dict[str, Any]] = []
    size = room = MAX_BODY - 100
    for question in questions:
        needs = len(json.dumps(question)) + 2
        if some and (len(some) == AT_ONCE or needs > room):
            yield some
            some, room = [], size
        some.append(question)
        room -= needs
    if some:
        yield some


def _answers(given: Any, count: int) -> list[dict]:
    """What the service answers to so many questions; [] if another program, which listens on its port, says something else."""
    is_list = isinstance(given, list) and len(given) == count
    return given if is_list and all(isinstance(each, dict) for each in given) else []


def _plain(value: object) -> Any:
    """A value as JSON has it, exactly; something else becomes {}, which the service refuses."""
    match value:
        case None | bool() | str():
            return value
        case int() if -(1 << 63) <= value < 1 << 63:
            return value
        case float() if math.isfinite(value):
            return value
        case Decimal() if is_short_number(value):
            return plain_text(value)
    return {}
