"""`lab class board`: a page on the teacher's machine that shows a class while it works.

    GET  /?key=…        the teacher's page; it asks for /board every two seconds
    POST /join          {"code", "name"} ──► {"token"}: a learner takes part
    POST /line          one line of a learner's notebook, with the token
    POST /remove?key=…  the teacher removes a learner

Learners never see the page. What they send is text in it, and its content security policy allows only its own script. Without
`--room`, the board listens on the loopback only. A request must name the board's own address as its host, and a learner's must be
JSON, so that no web page can send one from a learner's browser.
"""

import hmac
import json
import secrets
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from html import escape
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lab.model.formatting import escape_control_characters, html_with_code
from lab.model.language import current_language, say
from lab.running.boundedserver import BoundedServer, send_answer
from lab.teach import prediction_in_language
from lab.teach.classroom import LONGEST_LINE, Classroom, Refused, advice
from lab.teach.myengine import checked_titles
from lab.teach.report import (
    STYLE,
    PredictionVotes,
    class_map,
    class_votes,
    learner_details,
    shown,
    tried_exercises,
)

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = (LOOPBACK, "localhost")
CONNECTIONS = 128
QUOTED = ' class="who"'  # is hidden until the teacher asks for it
VOTED = 3  # predictions that are shown
NOWHERE = "192.0.2.1"  # an address of documentation: what would be sent there shows which network this machine is in
BOARD_STYLE = (
    STYLE
    + """
.code { font: 700 clamp(2em, 6vw, 5em)/1.2 ui-monospace, monospace; letter-spacing: .12em; } .say li { font-size: 1.15em; }
.bar { display: inline-block; height: .8em; background: #e27a3f; margin-right: .4em; vertical-align: baseline; }
body:not(:has(#names:checked)) .who { display: none; } form { display: inline; } [hidden] { display: none; }
"""
)
SCRIPT = """
const main = document.querySelector("main"), away = document.getElementById("away");
async function look() {
  try {
    const answer = await fetch("board" + location.search, {cache: "no-store"});
    if (!answer.ok) throw new Error(answer.status);
    const text = await answer.text();
    const open = [...main.querySelectorAll("details[open]")].map(each => each.id), focus = document.activeElement.id;
    const lengthwise = main.querySelector(".scroll")?.scrollTop;
    main.innerHTML = text;
    open.forEach(id => document.getElementById(id)?.setAttribute("open", ""));
    if (lengthwise) main.querySelector(".scroll").scrollTop = lengthwise;
    if (focus) document.getElementById(focus)?.focus();
    away.hidden = true;
  } catch { away.hidden = false; }
  setTimeout(look, 2000);
}
setTimeout(look, 2000);
"""
PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title}</title><meta name="viewport" content="width=device-width">
<style>{style}</style></head><body><h1>{title}</h1>
<p><label><input type="checkbox" id="names"> {names}</label></p><p id="away" role="alert" hidden>{away}</p>
<main>{main}</main><script>{script}</script></body></html>
"""


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    f"connect-src 'self'; style-src {_hash(BOARD_STYLE)}; script-src {_hash(SCRIPT)}",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def board_page(room: Classroom, address: str, key: str) -> str:
    """The teacher's page."""
    return PAGE.format(
        language=current_language(),
        title=say("Class board"),
        style=BOARD_STYLE,
        names=say("show names and answers"),
        away=say("The board has stopped, or this page lost it. What is below is old."),
        main=board_content(room, address, key),
        script=SCRIPT,
    )


def board_content(room: Classroom, address: str, key: str) -> str:
    """The part of the page that changes. Names and answers are hidden until the teacher asks for them: the page is on a projector."""
    learners = room.learners()
    present, titles = list(learners.values()), checked_titles()
    names = tried_exercises(present)
    solved = sum(each.solved_count for each in present)
    join = say("Join in a terminal: {command}", command=f"lab class join {address} {room.code} --name …")
    notebook = say("or in a notebook: {call}", call=f'lab.join_class("{address}", "{room.code}", name="…")')
    parts = [
        f'<p class="code">{room.code}</p><p>{escape(join)}<br>{escape(notebook)}</p>',
        f"<p>{say('{count} learners have joined; {solved} exercises are solved.', count=len(present), solved=solved)}</p>",
    ]
    if sentences := advice(present):
        listed = "".join(
            f"<li{QUOTED * each.quotes}>{html_with_code(escape_control_characters(each.text))}</li>"
            for each in sentences
        )
        parts.append(f'<h2>{say("What to say next")}</h2><ul class="say">{listed}</ul>')
    if voted := class_votes(present):
        parts.append(f"<h2>{say('Votes')}</h2>{''.join(map(_votes, voted[: -VOTED - 1 : -1]))}")
    if names:
        parts.append(
            f"<h2>{say('Exercises')}</h2><p>{say('(✓): solved, as the notebook says. The number: wrong answers and errors before it was solved.')}</p>"
            f'<div class="scroll" tabindex="0" id="map" role="region" aria-label="{say("Learners by exercises")}">'
            f"{class_map(learners, names, titles, 'tries')}</div>"
        )
    quiet = room.quiet(learners)
    rows = "".join(
        learner_details(number, learner, titles)
        + (
            f"<p>{say('{name} has sent nothing for ten minutes.', name=shown(learner.name))}</p>"
            if number in quiet
            else ""
        )
        + f'<form method="post" action="remove?key={key}"><button name="learner" value="{number}" id="remove-{number}">'
        + f"{say('Remove {name}', name=shown(learner.name))}</button></form>"
        for number, learner in learners.items()
    )
    return "".join(parts) + f'<div class="who"><h2>{say("Learners")}</h2>{rows}</div>'


def _votes(voted: PredictionVotes) -> str:
    """The votes of a prediction; the answer is folded."""
    asked, most = prediction_in_language(voted.prediction), max(voted.votes)
    rows = "".join(
        f'<tr><td>{count}</td><td><progress max="{most}" value="{count}"></progress></td><td>{html_with_code(option)}</td></tr>'
        for option, count in zip(asked["options"], voted.votes)
    )
    name = voted.prediction.replace(".", "-")
    return (
        f"<p><b>{voted.prediction}</b> {html_with_code(asked['question'])}</p><table>{rows}</table>"
        f'<details id="vote-{name}"><summary id="see-{name}">{say("Show the answer")}</summary><p><b>{html_with_code(asked["options"][voted.right])}</b> '
        f"{html_with_code(asked['because'])} {say('{share} were right.', share=f'{voted.right_share:.0%}')}</p></details>"
    )


class _Requests(BaseHTTPRequestHandler):
    room: Classroom
    address: str
    hosts: tuple[str, ...]
    key: str

    def do_GET(self) -> None:
        self._answered({"/": self._page, "/board": self._board})

    def do_POST(self) -> None:
        self._answered({"/join": self._join, "/line": self._line, "/remove": self._remove})

    def _answered(self, paths: dict) -> None:
        try:
            host = self.headers.get("Host", "").rpartition(":")[0].lower()
            if host not in self.hosts:
                raise Refused(403, f"expected the host {self.hosts[0]}")
            if not (answer := paths.get(urlsplit(self.path).path)):
                raise Refused(404, "not here")
            answer()
        except Refused as refused:
            self._send(refused.status, "application/json", json.dumps({"detail": str(refused)}))

    def _send(self, status: int, kind: str, text: str, **more: str) -> None:
        body = text.encode(errors="replace")
        send_answer(self, status, f"{kind}; charset=utf-8", body, HEADERS | more)

    def _check_key(self) -> None:
        given = parse_qs(urlsplit(self.path).query).get("key", [""])[0]
        if not hmac.compare_digest(given.encode(errors="replace"), self.key.encode()):
            raise Refused(
                403,
                "this page is the teacher's: its link, with its key, is in the terminal of `lab class board`",
            )

    def _body(self, kind: str) -> bytes:
        length = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != kind or not length.isascii() or not length.isdigit():
            raise Refused(415, f"expected {kind} with its length")
        if len(length) > 9 or int(length) > LONGEST_LINE:
            raise Refused(413, f"more than {LONGEST_LINE:,} bytes")
        return self.rfile.read(int(length))

    def _page(self) -> None:
        self._check_key()
        self._send(200, "text/html", board_page(self.room, self.address, self.key))

    def _board(self) -> None:
        self._check_key()
        self._send(200, "text/html", board_content(self.room, self.address, self.key))

    def _join(self) -> None:
        token = self.room.join(self._body("application/json"))
        self._send(200, "application/json", json.dumps({"token": token}))

    def _line(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.room.add_line(token, self._body("application/json"))
        self._send(200, "application/json", "{}")

    def _remove(self) -> None:
        self._check_key()
        body = self._body("application/x-www-form-urlencoded").decode(errors="replace")
        number = parse_qs(body).get("learner", [""])[0]
        if len(number) < 10 and number.isascii() and number.isdigit():
            self.room.remove(int(number))
        self._send(303, "text/plain", "", Location=f"/?key={self.key}")

    def log_message(self, *_) -> None:
        pass


class Board:
    """A class board that answers; `address`: what learners join, `link`: the teacher's page."""

    def __init__(self, room: Classroom, host: str, port: int):
        key = secrets.token_urlsafe(24)
        about: dict = {
            "room": room,
            "key": key,
            "hosts": tuple(dict.fromkeys([host, *(LOOPBACK_NAMES if host == LOOPBACK else ())])),
        }
        handler: Any = type("BoardRequests", (_Requests,), about)
        self.server = BoundedServer(host, port, handler, "the board", CONNECTIONS)
        self.room, self.address = room, f"{host}:{self.server.server_port}"
        handler.address = self.address
        self.link = f"http://{self.address}/?key={key}"


@contextmanager
def board_serving(room: Classroom, host: str = LOOPBACK, port: int = 0) -> Iterator[Board]:
    """Serves a board until the end of its `with`. Raises OSError if the port is taken."""
    board = Board(room, host, port)
    with board.server:
        yield board


def room_address() -> str:
    """This machine's address in the network that it is in. Sends nothing. Raises OSError if it is in none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((NOWHERE, 9))
        except OSError:
            raise OSError(
                "this machine is in no network: name its address, such as --room 192.168.1.5"
            ) from None
        return probe.getsockname()[0]
