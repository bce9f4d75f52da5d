"""What a rule costs is what leaving it out saves."""

import json

import pytest

from lab.cli.main import main
from lab.desk import world as worlds
from lab.desk.cost import Cost, costs_of
from lab.desk.world import World
from lab.past import columnpast, plainpast
from tests.desk.test_tuning import random_events

RULES = [
    "1: SUM(amount) per card over 10 min > 20",
    "2: MAX(amount) per card over 10 min > 5",
    "3: COUNT(events) per id over 1 d > 1",
]


def test_leaving_a_rule_out_saves_what_it_costs(monkeypatch):
    monkeypatch.setattr(worlds, "Past", columnpast.Past)
    rows = random_events(1, 40)
    world = World(rows, RULES)
    clock = iter(range(1_000_000))
    monkeypatch.setattr(columnpast, "process_time", lambda: next(clock))
    monkeypatch.setattr("lab.desk.cost.RUNS", 1)
    found = world.cost()
    for left_out in (1, 2, 3):
        rest = World(rows, [rule for rule in RULES if not rule.startswith(str(left_out))]).cost()
        saved = found.whole.memory_bytes - rest.whole.memory_bytes
        assert found.rules[left_out].memory_bytes == pytest.approx(saved, rel=0.1)
    assert found.whole.seconds == 2, "two routes"
    assert found.rules[3].seconds == 1 and found.rules[1].seconds == 0, "rules 1 and 2 share a route"
    assert found.rules[3].memory_bytes > found.rules[2].memory_bytes > 0
    assert found.shared.memory_bytes > 0 and "shared" in found.text() and "<table" in found._repr_html_()


class Measured:
    """Past events on which every aggregate costs a second and ten bytes, and each route a second."""

    def seconds_and_bytes(self, rules):
        return 1.0 + len(rules), 10 * len(rules)


def test_what_a_route_needs_anyway_belongs_to_no_rule_of_several():
    rules = World(random_events(1, 2), RULES).history.book.sorted()
    found = costs_of(Measured(), rules)
    assert found.rules == {1: Cost(1.0, 10), 2: Cost(1.0, 10), 3: Cost(2.0, 10)}
    assert (found.whole, found.shared) == (Cost(5.0, 30), Cost(1.0, 0))


def test_the_command_prints_shares_and_plain_python_refuses(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(worlds, "Past", plainpast.Past)
    with pytest.raises(ValueError, match="without Numba"):
        World(random_events(1, 4), RULES).cost()
    monkeypatch.setattr(worlds, "Past", columnpast.Past)
    payment = {"eventTime": 1735689691913, "payeeId": 5, "beneficiaryId": 9, "paymentType": "CRD"}
    rows = [payment | {"transactionId": n, "paymentAmount": n} for n in range(1, 9)]
    (tmp_path / "payments.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr("lab.cli.desk.compile_window_loop", lambda say: None)
    assert main(["rules", "cost", "1: VALUE(paymentAmount) > 3", str(tmp_path / "payments.jsonl")]) == 0
    _, rule, shared, whole = capsys.readouterr().out.splitlines()
    assert rule.split()[0] == "1" and rule.split()[2] == whole.split()[2] == "100%" and "0%" in shared
