"""Asks the enforcement service, as the shop does before it lets something happen."""

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from lab.model.schema import Value

HOST, PORT = "127.0.0.1", 8707
AT_ONCE = 100
TIMEOUT_S, AGAIN_S = 0.5, 1.0


class Enforcement:
    """A connection to the service at a URL. `unanswered`: questions that it did not answer.

    What is not answered is allowed: a shop goes on selling while the service is restarted. For `AGAIN_S` after a failure
    it is not asked again.
    """

    def __init__(self, url: str):
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(
                f"{url!r}, expected the address of `lab restrict serve`, such as http://127.0.0.1:8707"
            )
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=TIMEOUT_S)
        self._again_at = 0.0
        self.unanswered = 0

    def allowed(self, events: Sequence[Mapping[str, Value]]) -> list[bool]:
        """Of each event whether it may happen. One without an action is a payment."""
        answers: list[bool] = []
        for first in range(0, len(events), AT_ONCE):
            answers += self._ask(events[first : first + AT_ONCE])
        return answers

    def _ask(self, events: Sequence[Mapping[str, Value]]) -> list[bool]:
        questions: list[dict[str, Any]] = [
            {"action": "payment", **{name: _plain(event[name]) for name in event}} for event in events
        ]
        try:
            if time.monotonic() < self._again_at:
                raise ConnectionError("it failed a moment ago")
            headers = {"Content-Type": "application/json"}
            self._connection.request("POST", "/may", json.dumps({"questions": questions}), headers)
            answers = json.loads(self._connection.getresponse().read())["answers"]
            return [answer["allowed"] for answer in answers]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            self._connection.close()  # the next request opens it anew
            self._again_at = max(self._again_at, time.monotonic() + AGAIN_S)
            self.unanswered += len(events)
            return [True] * len(events)

    def close(self) -> None:
        """Lets go of the connection."""
        self._connection.close()


def _plain(value: Value) -> str | int | None:
    return value if isinstance(value, str | int | None) else format(value, "f")
