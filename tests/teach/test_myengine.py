"""A learner's own engine is checked against the reference, step by step: the model solution is right, each mistake is found and small."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import lab
from lab.contrast import oneprocess
from lab.teach import myengine
from lab.teach.judge import OPEN, RIGHT, WRONG
from lab.teach.myengine import PARTS, check_engine

SOLUTION = Path(__file__).with_name("my_engine.py")
MISTAKES = [  # step, what the solution says, what a learner writes instead
    (1, 'sorted(rule["groupingKeyNames"])', 'rule["groupingKeyNames"]'),
    (1, "found.append((route, ", 'found.append(("r", '),
    (1, "found.append((route, ", "found.append((len(found), "),
    (
        1,
        "map(route_of, rules.values())",
        'map(route_of, (r for r in rules.values() if r["ruleState"] == "ACTIVE"))',
    ),
    (1, "dict.fromkeys(map(route_of, rules.values()))", "map(route_of, rules.values())"),
    (1, "{name: event[name] for name in keys}", "{name: event[name] for name in keys[:1]}"),
    (2, "        return is_right(message)\n", "        return True\n"),
    (2, 'set(rule.get("groupingKeyNames", ["?"]))', 'set(rule["groupingKeyNames"][:1])'),
    (2, 'FIELDS = {"payeeId", "beneficiaryId", "paymentType"}', 'FIELDS = {"payeeId", "beneficiaryId"}'),
    (2, "        if is_right(message):\n            rules", "        if True:\n            rules"),
    (2, "        del rules[rule_id]", "        pass"),
    (2, 'rules[rule_id] | {"ruleState": state}', "message"),
    (2, "        return False\n", "        return True\n"),
    (3, "begin <= time <=", "begin < time <="),
    (3, "begin <= time <= new[1]", "begin <= time"),
    (3, 'total > rule["limit"]', 'total >= rule["limit"]'),
    (3, "if new in events:", "if False:"),
    (3, 'rule["ruleState"] == "ACTIVE" and ', ""),
    (
        3,
        "for key, events in self.stores.items() if key[0] in routes",
        "for key, events in self.stores.items()",
    ),
    (3, "begin = new[1]", "begin = max(each[1] for each in events)"),
    (4, "events[:] = [each for each in events if each[1] >= oldest]", "pass"),
    (4, "widest - LATE_MS", "widest"),
    (4, "widest = max(", "widest = 10 * max("),
    (4, "widest = max(", "widest = min("),
    (4, "return sum(map(len, self.stores.values()))", "return 0"),
    (4, "LATE_MS = 5", "LATE_MS = 4"),
    (4, "each[1] >= oldest", "each[1] > oldest"),
    (5, "zlib.crc32(json.dumps(group, sort_keys=True).encode())", "hash(json.dumps(group))"),
    (5, "zlib.crc32(json.dumps(group, sort_keys=True).encode())", "len(group)"),
    (5, "if key_group(group) in owned:", "if True:"),
    (5, "if key_group(group) in self.owned:", "if True:"),
    (5, "{int(rule_id): rule", "{rule_id: rule"),
    (5, '{"rules": self.rules, "stores": stores}', '{"rules": self.rules, "stores": stores[:1]}'),
    (7, '"engine": engine.save()', '"engine": None'),
    (7, 'begin = done["cut"], done["end"]', 'begin = done["cut"], 0'),
    (8, "if all(event[name] == value for name, value in wanted.items()):", "if True:"),
    (8, ', rule.get("filter", {})]', ", {}]"),
    (8, ', rule.get("filter", {})]', ', rule.get("filter", {}) and {"paymentType": "CSH"}]'),
    (9, '            disk.write("cut", json.dumps(planned))\n', ""),
    (9, "            planned = {", "        planned = {"),
    (9, "        disk.deliver(cut, alerts)\n", ""),
    (
        9,
        "alerts = [alert for entry in log[begin:end] for alert",
        "alerts = [alert for entry in log[begin:] for alert",
    ),
]


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "my_engine.py"


@pytest.mark.parametrize("step", PARTS)
def test_the_model_solution_is_right_at_each_step(step):
    assert check_engine(step, SOLUTION).state == RIGHT


def test_the_solution_is_as_long_as_the_lessons_say():
    assert 100 <= len(SOLUTION.read_text().splitlines()) <= 130


@pytest.mark.parametrize(("step", "right", "wrong"), MISTAKES)
def test_a_mistake_is_found_with_a_short_log(file, step, right, wrong):
    code = SOLUTION.read_text()
    assert right in code
    file.write_text(code.replace(right, wrong))
    verdict = check_engine(step, file)
    assert verdict.state == WRONG
    assert verdict.text.count("\n    {") <= (12 if step == 9 else 8), verdict


def test_the_log_that_is_shown_is_python_and_shows_the_difference(file):
    file.write_text(SOLUTION.read_text().replace("begin <= time <=", "begin < time <="))
    said, _, shown = check_engine(3, file).text.partition("\n")
    assert "take(payment" in said and "expected [[" in said
    log = eval(shown.removeprefix("log = "))
    assert "ruleId" in log[0] and "transactionId" in log[-1]


def test_key_groups_are_read_whatever_a_file_prints_and_their_fault_is_named(file):
    code = SOLUTION.read_text()
    file.write_text(f"print('[]')\nprint('my engine')\n{code}")
    assert check_engine(5, file).state == RIGHT
    file.write_text(f"{code}\n\ndef key_group(group):\n    return object()\n")
    assert "in one process" in check_engine(5, file).text


def test_a_lesson_without_a_part_is_named_with_those_that_have_one(file):
    for step in (6, "1"):
        with pytest.raises(ValueError, match="one of the lessons 1, 2, 3, 4, 5, 7, 8, 9"):
            check_engine(step, file)


@pytest.mark.parametrize(
    ("code", "state", "said"),
    [
        ("", OPEN, "has no copies yet"),
        ("copies = 3", OPEN, "has no copies yet"),
        ("\n\ncopies = (", WRONG, "my_engine.py, line 3, raised SyntaxError"),
        ("import nowhere", WRONG, "line 1, raised ModuleNotFoundError"),
        ("raise SystemExit", WRONG, "raised SystemExit"),
        ("def copies(event, rules):\n    return event['shop']", WRONG, "line 2, raised KeyError: 'shop'"),
        ("def copies(event, rules): return None", WRONG, "copies returned a NoneType, expected a list"),
        ("def copies(event, rules): return event.items()", WRONG, "a dict_items, expected a list"),
        ("def copies(event, rules): return [(1, 2)]", WRONG, "raised AttributeError"),
        ("def copies(event, rules): return [3]", WRONG, "a list with 3, expected pairs"),
        ("def copies(event, rules):\n    event.clear(); rules.clear()\n    return []", WRONG, "expected [{"),
        ("def copies(*_):\n    while True: pass", WRONG, "did not end within 0.2 s"),
        ("while True: pass", WRONG, "did not end"),
        (
            "def copies(*_): raise BaseException(Bad())\nclass Bad:\n    def __str__(self): 1 / 0",
            WRONG,
            "raised BaseException",
        ),
    ],
)
def test_whatever_a_file_does_the_verdict_says_it(file, monkeypatch, code, state, said):
    monkeypatch.setattr(myengine, "SECONDS", 0.2)
    file.write_text(code)
    verdict = check_engine(1, file)
    assert verdict.state == state and said in verdict.text


def test_without_a_file_a_learner_is_told_where_to_make_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    verdict = lab.check_engine(1)
    assert verdict.state == OPEN and f"there is no my_engine.py in {tmp_path}" in verdict.text
    assert lab.my_engine() is None and not list(tmp_path.iterdir())


def test_memory_that_outlives_a_kill_is_found(file):
    """A run is a process: what a module keeps is gone with it."""
    cheat = SOLUTION.read_text().replace("def run(log, disk):", "KEPT = {}\n\n\ndef run(log, disk):")
    file.write_text(
        cheat.replace('"engine": engine.save()})', '"engine": KEPT.update(engine=engine.save())})')
    )
    assert check_engine(7, file).state == WRONG


def test_the_engine_races_beside_the_others_and_finds_the_same_alerts():
    lines, rule = oneprocess.payment_lines(1_000), oneprocess.message()
    engine = SimpleNamespace(**vars(lab.my_engine(SOLUTION))).Engine()
    step = oneprocess.time_engine(engine.take, lines, rule)
    assert step.alerts == oneprocess.reference_alerts(lines, rule) != {} and step.events == 1_000
