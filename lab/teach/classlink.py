"""Sends what a learner's notebooks check and predict to the board of a class, if the learner has joined one.

    lab.join_class("192.168.1.5:8770", "K7Q2MX4T", name="Ada")      or  lab class join 192.168.1.5:8770 K7Q2MX --name Ada
      └─► class.json: address, token, name        all notebooks of this user on this machine send from now on
    lab.leave_class()                             deletes it

A thread sends, so that no cell waits. What cannot be sent is tried three times and then left out: a lesson works the same without
a network. A board that does not know the learner any more ends it.
"""

import json
import os
import queue
import sys
import time
from contextlib import closing, suppress
from threading import Lock, Thread
from typing import Any

from lab.model.datafolder import data_folder
from lab.model.jsontext import parse_json_object
from lab.model.language import say
from lab.teach.judge import RIGHT, WRONG, Verdict

MEMBERSHIP = "class.json"
WAITING = 200  # lines
TRIES, AGAIN_S, TIMEOUT_S = 3, 2.0, 3.0
LARGEST = 4 << 10  # bytes of an answer of the board that are read
LEFT_OUT = ("at", "learner", "name", "replay")  # of a line: what the board decides or does not need
GONE = 401
REASONS = {  # of the statuses with which a board refuses
    403: "this is not the code of the class",
    409: "the class is full",
    413: "the name is too long",
    422: "it expects a name",
}
_lines: "queue.Queue[dict[str, Any]]" = queue.Queue(WAITING)
_lock = Lock()
_sender: Thread | None = None


def join_class(address: str, code: str, name: str) -> Verdict:
    """Takes part in a class whose teacher runs `lab class board`: from now on, the teacher sees your checks and votes.

    `address` and `code`: as on the projector. `name`: as the teacher shall see it. `lab.leave_class()` ends it.
    """
    if sys.platform == "emscripten":
        return Verdict(WRONG, say("A notebook in a browser cannot join a class."))
    address = address.strip().removeprefix("http://").strip("/")
    try:
        status, answer = _post(address, "join", {"code": code, "name": name})
    except (OSError, ValueError) as error:
        text = say("No board of a class answers at {address}: {reason}", address=address, reason=error)
        return Verdict(WRONG, text)
    if not (token := answer.get("token")):
        reason = say(REASONS[status]) if status in REASONS else f"HTTP {status}"
        return Verdict(WRONG, say("The board did not let you in: {reason}", reason=reason))
    file = data_folder() / MEMBERSHIP
    file.parent.mkdir(parents=True, exist_ok=True)
    member = {"address": address, "token": token, "name": name}
    with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        out.write(json.dumps(member))
    text = say(
        "You have joined as {name}. From now on, the board at {address} gets a line for each check, each choice in a prediction and\n"
        "each error in a cell: the exercise, the answer's first characters, the check's message or the error, the choice.\n"
        "The teacher sees it with your name; others in this network could read it on its way. lab.leave_class() ends it.",
        name=name,
        address=address,
    )
    return Verdict(RIGHT, text)


def leave_class() -> Verdict:
    """Sends nothing to the board of a class any more."""
    (data_folder() / MEMBERSHIP).unlink(missing_ok=True)
    return Verdict(RIGHT, say("You take part in no class. Nothing is sent."))


def send_line(texts: dict[str, Any]) -> None:
    """Sends a line of the log of stumbles, if the learner takes part in a class. Does not wait."""
    global _sender
    if not (data_folder() / MEMBERSHIP).exists() or sys.platform == "emscripten":
        return
    with _lock:
        if not _sender:
            _sender = Thread(target=_send, daemon=True, name="class-link")
            _sender.start()
    with suppress(queue.Full):
        _lines.put_nowait({name: text for name, text in texts.items() if name not in LEFT_OUT and text})


def wait_until_sent() -> None:
    """Waits until nothing is left to send."""
    _lines.join()


def _send() -> None:
    while True:
        line = _lines.get()
        for _ in range(TRIES):
            if not (member := _membership()):
                break
            try:
                status, _ = _post(member["address"], "line", line, member["token"])
            except (OSError, ValueError, KeyError):
                time.sleep(AGAIN_S)
                continue
            if status == GONE:
                with suppress(OSError):
                    leave_class()
            break
        _lines.task_done()


def _membership() -> dict[str, str] | None:
    try:
        found = json.loads((data_folder() / MEMBERSHIP).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _post(address: str, what: str, content: dict[str, Any], token: str = "") -> tuple[int, dict[str, Any]]:
    """Status and content of the board's answer. Raises OSError, or ValueError for what is no answer of a board."""
    import http.client

    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    body = json.dumps(content, ensure_ascii=False).encode(errors="replace")
    try:
        with closing(http.client.HTTPConnection(address, timeout=TIMEOUT_S)) as connection:
            connection.request("POST", f"/{what}", body, headers)
            answer = connection.getresponse()
            found = parse_json_object(answer.read(LARGEST).decode(errors="replace"))
            return answer.status, found if isinstance(found, dict) else {}
    except http.client.HTTPException as error:
        raise ValueError(str(error) or type(error).__name__) from None
