"""A class's logs of stumbles become a heat map, on a terminal and as a page that needs nothing else."""

import json
import os
import re
import tracemalloc
from base64 import b64encode
from hashlib import sha256
from time import process_time
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from lab.cli.main import main
from lab.teach import lesson_and_exercise_titles
from lab.teach.handins import MOST_CHECKED, NOT_CONFIRMED, read_and_recheck_hand_ins
from lab.teach.replay import answer_to_text
from lab.teach.report import BREAK_S, class_page, hardest_exercises, parse_learner_log, read_class_report
from tests.teach.test_exercises import NAMES, answer_of, judged


def line(
    at: int, state: str, exercise: str = "", said: str = "", learner: str = "7f", name: str = ""
) -> dict:
    found = {"at": at, "learner": learner, "name": name, "state": state, "said": said}
    return found | ({"exercise": exercise} if exercise else {})


@pytest.fixture
def handed_in(tmp_path):
    quick = [line(0, "begin", learner="a1", name="Ada"), line(60, "right", "3.1", learner="a1", name="Ada")]
    slow = [line(0, "begin", learner="b2")]
    slow += [line(10 * n, "wrong", "3.1", "These are the <right> ones.", learner="b2") for n in range(1, 5)]
    slow += [line(70, "right", "3.1", learner="b2"), line(80, "wrong", "8.1", "Too many.", learner="b2")]
    for name, lines in (("one", quick), ("two", slow)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stumbles.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nnonsense\n")
    return tmp_path


def test_breaks_do_not_count_and_a_gap_belongs_to_the_later_line():
    log = [line(0, "begin"), line(100, "open", "1.1"), line(100 + BREAK_S + 1, "wrong", "1.1")]
    log += [line(1500, "right", "1.1"), line(1550, "wrong", "1.1")]
    one = parse_learner_log(log).exercises["1.1"]
    assert one.seconds == 100 + 1500 - (100 + BREAK_S + 1) and one.failed_tries == 1 and one.is_solved


def test_those_with_most_trouble_come_first(handed_in):
    learners = read_class_report(handed_in).learners
    assert [learner.name for learner in learners] == ["b2", "Ada"]
    assert [
        (name, tries, solved, tried) for name, tries, solved, tried, _ in hardest_exercises(learners)
    ] == [("3.1", 4, 2, 2), ("8.1", 1, 0, 1)]


def test_the_page_needs_nothing_else_and_runs_no_code(handed_in):
    text = class_page(read_class_report(handed_in), {"3.1": "which windows?"})
    assert not re.search(r"https?://|<script|src=|@import", text)
    assert "These are the &lt;right&gt; ones." in text and 'title="which windows?"' in text
    assert text.index(">3.1<") < text.index(">8.1<")
    assert '<td class="s5" title="4 wrong, 0 errors, 1 min">(✓) 4</td>' in text
    assert '<td class="s2 open" title="1 wrong, 0 errors, 0 min">– 1</td>' in text


def test_the_command_writes_both(handed_in, capsys):
    out = handed_in / "class.html"
    assert main(["class", "report", str(handed_in), "--out", str(out)]) == 0
    assert out.stat().st_mode & 0o777 == 0o600, "it has people's names"
    said = capsys.readouterr().out
    assert re.search(r"b2 +│ 4 +│ 1 – │ 5", said) and said.index("b2") < said.index("Ada")
    assert "which windows is an event in?, 4 tries, 2 of 2 solved it: These are the <right> ones." in said
    assert out.read_text().startswith("<!doctype html>")


def test_a_folder_without_logs_is_named(tmp_path, capsys):
    assert main(["class", "report", str(tmp_path)]) == 1
    assert "has no hand-ins: expected files named hand-in-….jsonl" in capsys.readouterr().err


def test_votes_are_counted_by_option_before_the_answer_was_seen(handed_in):
    lines = [
        line(1, "vote", learner="c3") | {"prediction": "1.4", "option": "0"},
        line(1, "reveal", learner="c3") | {"prediction": "1.4"},
        line(2, "vote", learner="c3") | {"prediction": "1.4", "option": "1"},
    ]
    (handed_in / "three.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = class_page(read_class_report(handed_in), {})
    assert (
        "<li>the same number: 1</li><li>✓ two different numbers: 0</li>" in text and "0% were right" in text
    )


MARKUP = '<img src=x onerror="alert(1)">\x1b[31m\u202e'


def test_what_learners_write_is_text_in_the_page(handed_in):
    texts = {name: f"{name} {MARKUP}" for name in ("learner", "name", "said", "answer")}
    lines = [
        {"at": 1, "state": "wrong", "exercise": "3.1", **texts},
        {"at": 1, "state": "wrong", "exercise": MARKUP, **texts},
    ]
    (handed_in / f"{MARKUP.replace('/', '')}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = class_page(read_class_report(handed_in), {})
    assert "<img" not in text and "\x1b" not in text and "\u202e" not in text
    assert "expected an exercise of a lesson" in text
    for name in ("name", "said", "answer"):
        assert f"{name} &lt;img src=x onerror=&quot;alert(1)&quot;&gt;\\u001b[31m\\u202e" in text


GOOD = line(5, "wrong", "3.1", "x")
BAD = [
    *("[]", "7", "null", "{", '{"at": 1}', "[" * 300, '{"at": NaN}', "x" * 70_000),
    *(json.dumps(GOOD | {"at": at}) for at in ("5", 5.5, None, True, -1, 10**30, [])),
    *(
        json.dumps(GOOD | {name: 7})
        for name in ("learner", "name", "exercise", "state", "said", "answer", "replay")
    ),
    json.dumps(GOOD | {"exercise": "99.2"}),
    *(
        json.dumps(line(5, "vote") | {"prediction": name, "option": option})
        for name, option in (("99.1", "0"), ("3.1", "9"), ("3.1", "x"), ("3.1", "-1"), ([], "0"), ("3.1", 0))
    ),
    json.dumps(line(5, "vote") | {"prediction": "3.1"}),
    *(json.dumps(GOOD | {name: ["x"]}) for name in ("learner", "name", "exercise", "state", "said")),
    *(json.dumps(GOOD | {name: "\ud800"}) for name in ("learner", "name", "exercise", "state", "said")),
    *(json.dumps(GOOD | {name: ""}) for name in ("learner", "state")),
]


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_hand_in_is_named_and_the_others_count(handed_in, bad):
    (handed_in / "three.jsonl").write_text(f"\n{bad}\n{json.dumps(line(5, 'wrong', '3.2', learner='c3'))}\n")
    found = read_class_report(handed_in)
    assert {learner.name for learner in found.learners} == {"b2", "Ada", "c3"}
    assert any(
        text.startswith("three.jsonl: 1 line left out, the first is line 2: ") for text in found.problems
    )


def test_what_is_no_file_of_its_own_is_named_and_nobody_waits_for_it(handed_in, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("private") / "c3.jsonl"
    elsewhere.write_text(json.dumps(line(5, "wrong", "3.2", learner="c3")))
    os.mkfifo(handed_in / "pipe.jsonl")
    (handed_in / "link.jsonl").symlink_to(elsewhere)
    (handed_in / "folder.jsonl").mkdir()
    found = read_class_report(handed_in)
    assert {learner.name for learner in found.learners} == {"b2", "Ada"}
    left_out = [
        text.partition(" is left out")[0] for text in found.problems if "no file that can be read" in text
    ]
    assert left_out == ["folder.jsonl", "link.jsonl", "pipe.jsonl"]


def test_the_command_names_bad_hand_ins(handed_in, capsys):
    out = handed_in / "class.html"
    assert main(["class", "report", str(handed_in), "--out", str(out)]) == 0
    said = "one/stumbles.jsonl: 1 line left out, the first is line 3: not one JSON object"
    assert said in capsys.readouterr().out and said in out.read_text()


def test_a_large_hand_in_is_read_as_far_as_it_may_be(handed_in, monkeypatch):
    monkeypatch.setattr("lab.teach.handins.LARGEST", 1000)
    (handed_in / "three.jsonl").write_text(f"{json.dumps(line(5, 'wrong', '3.2', learner='c3'))}\n" * 100)
    found = read_class_report(handed_in)
    assert 1 < next(one for one in found.learners if one.name == "c3").exercises["3.2"].wrong_count < 20
    assert any("three.jsonl" in text and "larger than 1,000" in text for text in found.problems)


def test_the_page_forbids_scripts_and_loading_and_allows_its_own_style_only(handed_in):
    text = class_page(read_class_report(handed_in), lesson_and_exercise_titles())
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert "default-src 'none'" in text and f"style-src 'sha256-{digest}'" in text
    assert not re.search(r"<script|<link|<iframe|\bsrc=|\bon[a-z]+=|\bstyle=|javascript:", text)


def right(exercise: str, value: object, learner: str = "c3") -> dict:
    return line(9, "right", exercise, learner=learner) | {"replay": answer_to_text(value)}


def test_right_answers_are_checked_again(handed_in):
    lines = [
        right("3.4", 864),
        right("3.5", (4, 9)),
        right("3.3", [1, 2]),
        line(9, "right", "3.1", learner="c3"),
    ]
    (handed_in / "three.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = read_class_report(handed_in)
    mine = next(one for one in found.learners if one.file == "three.jsonl").exercises
    assert {name: (one.is_solved, one.is_confirmed) for name, one in mine.items()} == {
        "3.4": (True, True),
        "3.5": (False, False),
        "3.3": (False, False),
        "3.1": (True, False),
    }
    assert f"three.jsonl: {NOT_CONFIRMED}, in 3.5, 3.3" in found.problems
    assert ">✓ </td>" in class_page(found, {})


def test_a_hand_in_says_nothing_of_what_was_checked_here(handed_in):
    forged = [
        line(at, state, "3.4") | {"checked": "confirmed"} for at, state in enumerate(("wrong", "open", "x"))
    ]
    (handed_in / "forged.jsonl").write_text("\n".join(map(json.dumps, forged)))
    report = read_class_report(handed_in)
    assert not any(one.is_confirmed for each in report.learners for one in each.exercises.values())
    assert "; 0 of the answers were checked again" in class_page(report, {})


def test_of_a_line_only_what_the_report_shows_stays_in_memory(handed_in):
    more = [[]] * 15_000
    lines = [json.dumps(line(at, "wrong", "3.4") | {"more": more}) for at in range(20)]
    (handed_in / "large.jsonl").write_text("\n".join(lines))
    tracemalloc.start()
    try:
        found = read_and_recheck_hand_ins(handed_in)
        assert len(found.lines_by_file["large.jsonl"]) == 20
        assert tracemalloc.get_traced_memory()[0] < 1e6
    finally:
        tracemalloc.stop()


def test_nobody_writes_into_the_row_of_another(handed_in):
    lines = [
        line(5, "wrong", "3.2", learner="c3"),
        line(6, "wrong", "3.1", learner="b2"),
        line(7, "wrong", "3.2", learner="c3"),
    ]
    (handed_in / "three.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (handed_in / "twin.jsonl").write_text(json.dumps(line(5, "wrong", "3.1", learner="b2")))
    found = read_class_report(handed_in)
    assert {one.file: one.failed_tries_and_seconds[0] for one in found.learners} == {
        "two/stumbles.jsonl": 5,
        "three.jsonl": 2,
        "one/stumbles.jsonl": 0,
        "twin.jsonl": 1,
    }
    assert any(
        "three.jsonl: 1 line left out, the first is line 2: of learner 'b2'" in text
        for text in found.problems
    )


def test_a_hand_in_has_only_so_many_answers_checked(handed_in, monkeypatch):
    asked = []
    monkeypatch.setattr("lab.teach.handins.is_right", lambda exercise, answer: asked.append(answer) or False)
    (handed_in / "three.jsonl").write_text("\n".join([json.dumps(right("3.4", 1))] * (MOST_CHECKED + 50)))
    read_class_report(handed_in)
    assert len(asked) == MOST_CHECKED


def test_long_texts_of_learners_are_cut(handed_in):
    long = line(5, "wrong", "3.1", "x" * 20_000, learner="c3", name="n" * 20_000) | {"answer": "y" * 50}
    (handed_in / "three.jsonl").write_text("\n".join([json.dumps(long)] * 60))
    text = class_page(read_class_report(handed_in), {})
    assert len(text) < 20_000 and "y" * 50 in text


def test_a_hand_in_of_nothing_readable_is_not_read_to_its_end(handed_in, monkeypatch):
    monkeypatch.setattr("lab.teach.handins.MOST_WRONG", 10)
    (handed_in / "three.jsonl").write_text("{}\n" * 1000 + json.dumps(line(5, "wrong", "3.2", learner="c3")))
    found = read_class_report(handed_in)
    assert {learner.name for learner in found.learners} == {"b2", "Ada"}
    assert any(
        text.startswith("three.jsonl: 10 lines and all after them left out") for text in found.problems
    )


@pytest.mark.slow
def test_a_class_of_a_hundred_is_reported_soon(tmp_path):
    """Counted in seconds of a processor, so that what else the machine does is not in it."""
    answers = {name: answer_to_text(judged(name, answer_of(name)).plain_answer) for name in NAMES}
    for number in range(100):
        lines = [
            line(60 * n, "right", name, learner=f"l{number}") | ({"replay": text} if text else {})
            for n, (name, text) in enumerate(answers.items())
        ]
        (tmp_path / f"hand-in-{number}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    began = process_time()
    found = read_class_report(tmp_path)
    assert len(class_page(found, lesson_and_exercise_titles())) > 100_000 and found.problems == []
    seconds = process_time() - began
    checked = sum(one.is_confirmed for learner in found.learners for one in learner.exercises.values())
    print(f"\n100 hand-ins, {checked:,} answers checked again: {seconds:.1f} s of a processor")
    assert checked > 3_000 and seconds < 20


@pytest.mark.parametrize(
    "name", [b"new\nline.jsonl", b"\xff\xfe.jsonl", b"n" * 249 + b".jsonl", b"\x1b[31m<b>.jsonl"]
)
def test_any_name_of_a_file_is_text(handed_in, name):
    with open(os.fsencode(handed_in) + b"/" + name, "wb") as file:
        file.write(json.dumps(line(5, "wrong", "3.2", learner="c3")).encode())
    text = class_page(read_class_report(handed_in), {})
    assert ">c3<" in text and "<b>." not in text and "\x1b" not in text and text.encode()


def test_an_archive_and_a_file_of_holes_are_left_out(handed_in):
    with ZipFile(handed_in / "zip.jsonl", "w", ZIP_DEFLATED) as archive:
        archive.writestr("hand-in.jsonl", "0" * 5_000_000)
    with (handed_in / "holes.jsonl").open("wb") as file:
        file.truncate(1 << 40)
    found = read_class_report(handed_in)
    assert {learner.name for learner in found.learners} == {"b2", "Ada"}
    assert [text.partition(":")[0] for text in found.problems][:2] == ["holes.jsonl", "one/stumbles.jsonl"]
    assert any(text.startswith("zip.jsonl: ") for text in found.problems)
