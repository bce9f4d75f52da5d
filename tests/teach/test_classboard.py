"""A board shows a class while it works, whatever learners send; and a lesson works the same without it."""

import http.client
import json
import re
import socket
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

import lab
from lab.cli.main import main
from lab.model.language import speak
from lab.teach import classlink, progress
from lab.teach.classboard import board_content, board_serving
from lab.teach.classroom import BURST, LINES, LONGEST_LINE, QUIET_S, Classroom, Refused, advice
from lab.teach.judge import OPEN, RIGHT, WRONG

MARKUP = '<img src=x onerror="alert(1)">\x1b[31m\u202e'
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def sends_again_soon(monkeypatch, progress_folder):
    monkeypatch.setattr(classlink, "AGAIN_S", 0.01)


@pytest.fixture
def board():
    with board_serving(Classroom(most=50)) as served:
        yield served


def asked(board, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(board.address, timeout=10)
    connection.request(
        method, path, body, JSON | {name.replace("_", "-"): text for name, text in headers.items()}
    )
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def joined(board, name: str) -> str:
    status, text = asked(board, "POST", "/join", json.dumps({"code": board.room.code, "name": name}).encode())
    assert status == 200
    return json.loads(text)["token"]


def sent(board, token: str, **line: str) -> int:
    return asked(board, "POST", "/line", json.dumps(line).encode(), Authorization=f"Bearer {token}")[0]


def shown(board) -> str:
    return board_content(board.room, board.address, "key")


def path_of(board, page: str = "/") -> str:
    return f"{page}?{board.link.partition('?')[2]}"


def test_what_a_notebook_checks_and_votes_is_on_the_board(board):
    said = lab.join_class(f"http://{board.address}/", board.room.code.lower(), name="Ada")
    assert said.state == RIGHT and "lab.leave_class()" in said.text
    lab.check("3.4", 864_000)
    progress.record_vote("1.4", 0)
    progress.record_reveal("1.4")
    progress.record_vote("1.4", 1)
    lab.check("3.4", 864)
    classlink.wait_until_sent()
    [learner] = board.room.learners().values()
    assert learner.name == "Ada" and learner.votes == {"1.4": 0}
    one = learner.exercises["3.4"]
    assert one.is_solved and one.wrong_count == 1 and one.wrong_answers == ["864000"]
    page = shown(board)
    assert "That is in ms. The answer is in whole seconds." in page and "(✓) 1" in page
    lab.leave_class()
    lab.check("3.4", 5)
    classlink.wait_until_sent()
    assert board.room.learners()[1].exercises["3.4"].wrong_count == 1


def test_how_far_a_learner_s_own_engine_has_got_is_on_the_board_with_what_its_last_check_said(
    board, tmp_path
):
    file = tmp_path / "my_engine.py"
    lab.join_class(board.address, board.room.code, name="Ada")
    file.write_text("def copies(event, rules):\n    return []\n")
    assert lab.check_engine(1, file).state == WRONG
    assert lab.check_engine(3, file).state == OPEN
    file.write_text((Path(__file__).with_name("my_engine.py")).read_text())
    assert lab.check_engine(2, file).state == RIGHT
    classlink.wait_until_sent()
    [learner] = board.room.learners().values()
    assert [(name, each.is_solved) for name, each in sorted(learner.exercises.items())] == [
        *(("my_engine.1", False), ("my_engine.2", True), ("my_engine.3", False))
    ]
    page = shown(board)
    assert ">my_engine An engine of one&#x27;s own</th>" in page
    assert "gave [], expected [{&#x27;" in page and "A rejected message changes nothing." in page


def test_learners_who_are_stuck_in_a_step_of_their_engine_are_told_of_without_a_hint(board):
    for name in ("Ada", "Ben", "Cem"):
        said = MARKUP if name == "Cem" else "take(payment 4) gave [], expected [[1, 4, 51]]"
        assert sent(board, joined(board, name), state=WRONG, exercise="my_engine.3", said=said) == 200
    assert sent(board, joined(board, "Eve"), state=WRONG, exercise="my_engine.6", said="?") == 422
    told = [each.text for each in advice(list(board.room.learners().values()))]
    assert len(told) == 2 and told[0].startswith("Exercise my_engine.3 Each payment has a window of its own")
    assert told[1] == "Seen most often, 2 times: take(payment 4) gave [], expected [[1, 4, 51]]"
    assert "<img" not in shown(board)


def test_without_a_class_nothing_is_sent_and_a_board_that_is_gone_delays_no_cell():
    lab.check("3.4", 5)
    assert classlink._lines.unfinished_tasks == 0
    with board_serving(Classroom(most=1)) as board:
        assert lab.join_class(board.address, board.room.code, "Ada").state == RIGHT
    begun = time.monotonic()
    assert lab.check("3.4", 864).state == RIGHT
    assert time.monotonic() - begun < 0.5
    classlink.wait_until_sent()


@pytest.mark.parametrize("address", ["127.0.0.1:9", "no such host:8770", "", "127.0.0.1:x", "[::1"])
def test_where_no_board_answers_a_notebook_is_told(address):
    assert "No board of a class answers" in lab.join_class(address, "BCDFGH", "Ada").text
    assert not (progress.folder() / classlink.MEMBERSHIP).exists()


def test_who_is_not_let_in_learns_why(board):
    assert "this is not the code" in lab.join_class(board.address, "WRONG", "Ada").text
    assert "it expects a name" in lab.join_class(board.address, board.room.code, " ").text
    board.room._most = 0
    assert "the class is full" in lab.join_class(board.address, board.room.code, "Ada").text


def test_only_the_teacher_sees_the_board(board):
    joined(board, "Ada")
    for path in ("/", "/board", "/?key=", "/?key=x", f"{path_of(board)}x", "/board?key=%ff"):
        status, text = asked(board, "GET", path)
        assert status == 403 and "Ada" not in text and board.room.code not in text
    assert asked(board, "POST", "/remove?key=x", b"learner=1")[0] == 403
    status, page = asked(board, "GET", path_of(board))
    assert status == 200 and "Ada" in page and board.room.code in page
    assert asked(board, "GET", path_of(board, "/board"))[1] in page


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "", "[::1"])
def test_a_web_page_with_a_host_name_of_its_own_gets_nothing(board, host):
    assert asked(board, "GET", path_of(board), Host=host)[0] == 403
    body = json.dumps({"code": board.room.code, "name": "Ada"}).encode()
    assert asked(board, "POST", "/join", body, Host=host)[0] == 403


def test_a_web_page_sends_nothing_from_a_learner_s_browser(board):
    """Without asking first, a page of another site sends forms and plain text, and no JSON."""
    body = json.dumps({"code": board.room.code, "name": "Ada"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert asked(board, "POST", "/join", body, Content_Type=kind)[0] == 415
    assert not board.room.learners() and asked(board, "OPTIONS", "/join")[0] == 501


def test_what_learners_write_is_text_and_the_page_runs_its_own_script_only(board):
    token = joined(board, MARKUP)
    assert sent(board, token, state=WRONG, exercise="3.1", said=MARKUP, answer=MARKUP) == 200
    for _ in range(3):
        assert sent(board, token, state=WRONG, exercise="3.1", said=MARKUP) == 200
    connection = http.client.HTTPConnection(board.address)
    connection.request("GET", path_of(board))
    answer = connection.getresponse()
    policy, page = answer.headers["Content-Security-Policy"], answer.read().decode()
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page and "&lt;img" in page
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag in ("script", "style"):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert b64encode(sha256(text.encode()).digest()).decode() in policy
    assert '<li class="who">Seen most often' in page, "a class need not see what one of them wrote"
    assert not re.search(r" style=| on[a-z]+=(?!&)|src=(?!x)|https?://", page)
    connection.close()


BAD = [
    *(b"", b"[]", b"7", b"{", b"\xff", b"[" * 3_000, b'{"state": NaN}', b"{}"),
    *(
        json.dumps({"state": "wrong", "exercise": "3.1"} | more).encode()
        for more in (
            {"state": 7},
            {"exercise": "99.9"},
            {"said": ["x"]},
            {"answer": "\ud800"},
            {"exercise": []},
        )
    ),
    *(
        json.dumps({"state": "vote", "prediction": name, "option": option}).encode()
        for name, option in (("9.99", "0"), ("1.4", "7"), ("1.4", 0), ("1.4", "-1"), ([], "0"))
    ),
]


@pytest.mark.parametrize("body", BAD)
def test_a_line_that_no_notebook_sends_is_refused(board, body):
    token = joined(board, "Eve")
    assert asked(board, "POST", "/line", body, Authorization=f"Bearer {token}")[0] == 422
    assert asked(board, "POST", "/line", body, Authorization="Bearer x")[0] == 401
    assert asked(board, "POST", "/join", body)[0] in (403, 422)
    assert not board.room.learners()[1].exercises and shown(board)


def test_a_body_that_is_too_long_or_has_no_length_is_not_read(board):
    token = f"Bearer {joined(board, 'Eve')}"
    assert asked(board, "POST", "/line", b"x" * (LONGEST_LINE + 1), Authorization=token)[0] == 413
    for length in ("-1", "1e3", "9" * 5_000, "٣", ""):
        assert asked(board, "POST", "/line", b"", Content_Length=length.encode("utf-8").decode("latin-1"))[
            0
        ] in (413, 415)


def test_a_learner_s_lines_and_their_rate_are_limited():
    now = SimpleNamespace(at=1_000.0)
    room = Classroom(most=2, clock=lambda: now.at)
    token = room.join(json.dumps({"code": room.code, "name": "Eve"}).encode())
    line = json.dumps({"state": "wrong", "exercise": "3.1", "said": "x" * 900, "answer": "y" * 900}).encode()
    for _ in range(int(BURST)):
        room.add_line(token, line)
    with pytest.raises(Refused, match="too many lines"):
        room.add_line(token, line)
    for _ in range(LINES):
        now.at += 1
        room.add_line(token, line)
    [seat] = room._seats.values()
    assert len(seat.lines) == LINES and len(seat.lines[0]["said"]) == progress.SAID
    with pytest.raises(Refused, match="not the code"):
        room.join(b'{"code": "guess", "name": "Eve"}')
    room.join(json.dumps({"code": room.code, "name": "Eve"}).encode())
    assert [each.name for each in room.learners().values()] == ["Eve", "Eve (2)"]
    with pytest.raises(Refused, match="full"):
        room.join(json.dumps({"code": room.code, "name": "Eve"}).encode())
    assert room.quiet(room.learners()) == []
    now.at += QUIET_S + 1
    assert room.quiet(room.learners()) == [1, 2]


def test_who_is_removed_sends_no_more(board):
    assert lab.join_class(board.address, board.room.code, "Eve").state == RIGHT
    form = "application/x-www-form-urlencoded"
    status, _ = asked(board, "POST", path_of(board, "/remove"), b"learner=1", Content_Type=form)
    assert status == 303 and not board.room.learners()
    lab.check("3.4", 5)
    classlink.wait_until_sent()
    assert not (progress.folder() / classlink.MEMBERSHIP).exists()
    for junk in (b"", b"learner=x", b"learner=" + b"9" * 999, b"learner=%00"):
        assert asked(board, "POST", path_of(board, "/remove"), junk, Content_Type=form)[0] == 303


def test_forty_learners_are_seen_among_hostile_ones(board):
    """36 work as learners do, four send what they can think of; nothing of the 36 is lost, and the page is quick."""

    def works(number: int) -> list[int]:
        token = joined(board, f"learner {number}")
        wrong = {"state": WRONG, "exercise": "3.4", "said": "That is in ms.", "answer": str(number)}
        lines = [{"state": "vote", "prediction": "1.4", "option": str(number % 2)}, *[wrong] * 5]
        lines += [{"state": RIGHT, "exercise": "3.4"}] * (number % 3 == 0)
        return [sent(board, token, **line) for line in lines]

    def attacks(number: int) -> list[int]:
        token = joined(board, MARKUP * (number + 1))
        held = [socket.create_connection(tuple(board.address.split(":"))) for _ in range(20)]
        held[0].sendall(b"POST /line HTTP/1.1\r\nContent-Length: 4000\r\n\r\n{")
        for body in BAD * 5:
            asked(board, "POST", "/line", body, Authorization=f"Bearer {token}")
            asked(board, "POST", "/join", body)
        for each in held:
            each.close()
        return []

    with ThreadPoolExecutor(40) as pool:
        attacking = [pool.submit(attacks, number) for number in range(4)]
        working = [pool.submit(works, number) for number in range(36)]
        assert {status for each in working for status in each.result()} == {200}
        [each.result() for each in attacking]
    begun = time.process_time()
    page = shown(board)
    assert time.process_time() - begun < 0.5 and "<img" not in page
    learners = [each for each in board.room.learners().values() if each.name.startswith("learner")]
    assert len(learners) == 36 and sum(each.votes["1.4"] for each in learners) == 18
    assert {each.exercises["3.4"].wrong_count for each in learners} == {5}
    assert sum(each.solved_count for each in learners) == 12
    said = " ".join(each.text for each in advice(learners))
    assert "Prediction 1.4: 50% are right. Let neighbours" in said
    assert "24 have tried it and not solved it" in said and "180 times: That is in ms." in said


@pytest.mark.parametrize(
    ("right", "then"), [(1, "Show one small example"), (5, "neighbours"), (9, "Run the next cell")]
)
def test_what_the_teacher_says_after_a_vote_depends_on_how_many_are_right(right, then):
    learners = [SimpleNamespace(votes={"1.4": int(n < right)}, exercises={}) for n in range(10)]
    [said] = advice(learners)
    assert then in said.text and not said.quotes
    assert advice(learners[:2]) == []


@pytest.mark.parametrize(("language", "title"), [("ko", "투표"), ("zh", "投票")])
def test_the_board_speaks_the_teacher_s_language(board, language, title):
    token = joined(board, "Ada")
    sent(board, token, state="vote", prediction="1.4", option="0")
    sent(board, token, state=WRONG, exercise="3.4", said="?")
    speak(language)
    try:
        page = asked(board, "GET", path_of(board))[1]
    finally:
        speak("en")
    assert title in page and f'lang="{language}"' in page
    words = re.sub(
        r"<(script|style|code).*?</\1>|<[^>]+>|lab[ .][a-z_]+|Ada|Python|hash|CRD|http\S+",
        " ",
        page,
        flags=re.DOTALL,
    )
    assert not re.search(r"[A-Za-z]{3,} [A-Za-z]{3,}", words), words


def test_the_command_joins_and_leaves(board, capsys):
    assert main(["class", "join", board.address, board.room.code, "--name", "Ada"]) == 0
    assert "You have joined as Ada" in capsys.readouterr().out and len(board.room.learners()) == 1
    assert main(["class", "leave"]) == 0 and not (progress.folder() / classlink.MEMBERSHIP).exists()
    assert main(["class", "join", board.address, "WRONG", "--name", "Ada"]) == 1
    assert "this is not the code" in capsys.readouterr().err
