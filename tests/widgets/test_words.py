"""Widgets, checks and the doctor speak the reader's language: no sentence goes past `say`, and nothing English is left in a room."""

import ast
import html
import re
from pathlib import Path

import ipywidgets
import pytest
from pyspark import SparkContext

import lab
from lab.logs import cluster
from lab.model import language as speaking
from lab.model.rules import BadRule, parse_message
from lab.model.schema import LOGINS, PAYMENTS
from lab.teach import sentences
from lab.widgets import launcher
from tests.machine.test_java import look_in

PACKAGE = Path(lab.__file__).parent
FOR_LEARNERS = [  # modules whose sentences a learner reads
    *sorted((PACKAGE / "widgets").glob("*.py")),
    PACKAGE / "machine" / "doctor.py",
    *(
        PACKAGE / "teach" / f"{name}.py"
        for name in ("__init__", "board", "clock", "comparing", "judge", "learner", "progress", "rulejudge")
    ),
    *(PACKAGE / "teach" / "exercises" / f"{name}.py" for name in ("given", "lesson0")),
    *(PACKAGE / "contrast" / "restore.py", PACKAGE / "state" / "rescale.py"),
]
SHOWN = (
    "description",
    "tooltip",
    "placeholder",
    "title",
    "name",
    "x",
    "y",
    "label",
    "empty",
    "annotation_text",
    "value",
)
RULES = {"1 per 10 min", 'team = fraud, desk = "2, left"'}
NO_WORDS = {"CSV", "top right", "bottom left", "row wrap"}
# of a command, of a thread, of the report for an issue, and of a rule that is never refused
NO_WORDS |= {" -m pip install ", "clock", " is set", "the rule above"}
CODE = re.compile(
    r"<|[a-z-]+:[^ ]|\n*(?:from|import) \w|(?:git|kill|make|rm|unset) "
)  # HTML, CSS, Python, commands
COMMAND_LINE = ("ArgumentParser", "add_argument")
ENGLISH = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def _not_said(tree: ast.Module, known: set[str]):
    """Strings of a module that a person reads and `say` does not know."""
    aside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    aside |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _called(node) in COMMAND_LINE)
        for part in ast.walk(node)
    }
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in SHOWN}
    assigned = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    shown |= {id(node.value) for node in assigned if getattr(node.targets[0], "attr", "") in SHOWN}
    for node in ast.walk(tree):
        text = str(node.value) if sentences.is_string_constant(node) and id(node) not in aside else ""
        words = sentences.SENTENCE.search(text) or (id(node) in shown and re.search("[A-Za-z]{2}", text))
        if words and text not in known and not CODE.match(text):
            yield text


def test_every_sentence_for_a_learner_is_said():
    errors = {part for text in sentences.error_templates() for part in speaking.PLACEHOLDER.split(text)}
    known = {*sentences.sentences_given_to_say(), *errors, *RULES, *NO_WORDS}
    assert not {
        path.name: left
        for path in FOR_LEARNERS
        if (left := list(_not_said(ast.parse(path.read_text()), known)))
    }


def test_a_sentence_that_is_not_said_is_found():
    code = 'x = Button(description="Go", icon="play")\nx.tooltip = "stop it"\nraise ValueError("no such thing")\nf"<p>{x}"'
    assert list(_not_said(ast.parse(code), {"stop it"})) == ["Go"]


@pytest.fixture(params=["ko", "zh"])
def language(request, monkeypatch):
    monkeypatch.setattr(speaking, "_chosen", [request.param])
    return request.param


def _texts(widget: ipywidgets.Widget):
    """Everything that a widget and those in it show: texts, options, tooltips; rules and code apart."""
    for name in (
        "description",
        "tooltip",
        "placeholder",
        "value",
        "label",
        "empty",
        "text",
        "columns",
        "titles",
        "waits",
    ):
        chosen = name == "value" and hasattr(widget, "_options_labels")  # a name of the code's
        value = "" if chosen else getattr(widget, name, "")
        yield from value if isinstance(value, list | tuple) else [value] if isinstance(value, str) else []
    for name in ("_options_labels", "tooltips"):
        yield from getattr(widget, name, ()) or ()
    if (layout := getattr(widget, "_layout_obj", None)) is not None:
        yield from (part.text for part in (layout.title, layout.xaxis.title, layout.yaxis.title) if part.text)
        yield from (trace.name for trace in widget.data if trace.name)
    for child in getattr(widget, "children", ()):
        yield from _texts(child)


def _english(texts) -> list[str]:
    """The texts with English words in them: field names, rules, places and commands apart."""
    bare = (
        re.sub(r"<[^>]*>|`[^`]*`|\b[A-Z_]{3,}\b[^;。]*|lab infer|Kafka broker", " ", str(text))
        for text in texts
    )
    rules = re.compile(r"field = value.*|.*[aA]mount > 500.*|\{.*|.*\bover \d.*")
    return [text for text in bare if ENGLISH.search(rules.sub("", text))]


def test_nothing_english_is_left_in_the_launcher_and_the_room(language):
    door = launcher.ControlRoomLauncher()
    assert not _english(_texts(door))
    for how in launcher.HELP:
        door.how.value = how
        assert not _english(_texts(door))
    with lab.Studio(rate=50, rules=launcher.STREAMS["payments"]()) as studio:
        room = lab.ControlRoom(studio)
        room.parts["Stream"].bursts[0].click()
        room.status.refresh_now()
        assert not _english(_texts(room))
        room.end()


def test_nothing_english_is_left_in_the_widgets_of_the_lessons(language):
    fault_room = lab.FaultRoom()
    for button in list(fault_room.buttons.values()):
        button.click()
    fault_room.buttons["Whole batch"].click()
    for widget in (lab.WindowScope(), lab.KeyGroupScope([100] * 8), fault_room):
        assert not _english(_texts(widget))
    fault_room.end()


@pytest.mark.parametrize(
    "how, fields",
    [
        (launcher.OWN, {"events": ""}),
        (launcher.OWN, {"events": "/nowhere/events.jsonl", "schema": "logins"}),
        (launcher.OWN, {"events": "kafka://127.0.0.1:1/events"}),
        (launcher.CONNECT, {"logs": "/nowhere"}),
        (launcher.CONNECT, {"logs": "kafka://127.0.0.1:1"}),
        (launcher.PLAY, {"engine": "spark"}),
    ],
)
def test_why_a_room_does_not_open_is_said_in_the_language(language, monkeypatch, tmp_path, how, fields):
    look_in(monkeypatch, tmp_path)  # no Java
    monkeypatch.setattr(SparkContext, "_gateway", None)  # nor one that runs already
    monkeypatch.setattr(cluster, "ANSWER_S", 0.2)
    door = launcher.ControlRoomLauncher()
    door.how.value = how
    for name, value in fields.items():
        getattr(door, name).value = value
    door.start.click()
    said = re.sub(r"[(（]127\..*\)[)）]", "", html.unescape(door.said.value))  # the library's reason
    lines = [line for line in said.splitlines() if " install " not in line]
    assert re.search("[가-힣\u4e00-\u9fff]", said) and not _english(lines), said


def test_a_room_whose_engine_has_stopped_says_so_in_the_language(language):
    with lab.Studio(rate=50) as studio:
        room = lab.ControlRoom(studio)
        room.end()
        room.parts["Rules"].text.value = "1: SUM(paymentAmount) per payeeId over 1 min > 10"
        room.parts["Rules"].publish.click()
        assert not _english([room.parts["Rules"].said.value])


@pytest.mark.parametrize(
    "message, schema",
    [
        ("1: SUM(amount) per userId over 1 h > many", LOGINS),
        ("1: SUM(amont) per userId over 1 h > 5", LOGINS),
        ('1: SUM(amount) where country == "KR" per userId over 1 h > 5', LOGINS),
        ("1: SUM(amount", LOGINS),
        ('{"ruleId": 1, "ruleState": "ACTIVE", "limit": "x"}', PAYMENTS),
        ('{"ruleId": 1, "ruleStat": "ACTIVE"}', PAYMENTS),
        ('{"ruleId": 1', PAYMENTS),
        ("nonsense", PAYMENTS),
        (
            '{"ruleId": 1, "ruleState": "ACTIVE", "groupingKeyNames": [], "aggregatorFunctionType": "COUNT", "limitOperatorType": ">", "limit": 5, "window": "10 min"}',
            PAYMENTS,
        ),
    ],
)
def test_why_a_draft_is_no_rule_is_said_in_the_language(language, message, schema):
    with pytest.raises(BadRule) as refused:
        parse_message(message, schema)
    desk = lab.RuleDesk(schema)
    desk.text.value = message
    assert str(refused.value) not in desk.said.value
    assert not _english(re.sub(r"&quot;.*?&quot;", "", desk.said.value).split(":")[1:]), desk.said.value
