"""One verdict, whoever is asked: everybody who can say whether a rule alerts at an event, against the reference on random logs.

`python -m tests.desk.matrix --logs 1000 --processes 2`. A failing seed is printed and can be run again: `--seed 17 --logs 1`.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from lab.desk import live
from lab.desk import world as worlds
from lab.desk.compare import differing
from lab.desk.live import LOST, LiveWorld
from lab.desk.world import World
from lab.engine.loop.inprocess import InProcessEngine
from lab.model.alerts import Alert, parse_alert_line
from lab.model.reference import LATE_POLICIES, Reference
from lab.model.rules import RuleBook
from lab.model.schema import LOGINS, Schema
from lab.model.whenreader import takes_back
from lab.past import columnpast, plainpast
from tests.desk.test_branch import alerts_from, followed_branch, is_about_a_rule
from tests.desk.test_live import Logs, followed
from tests.desk.test_matrix import RULE_IDS, drawn, in_reference, world_of
from tests.strategies import RETURNS

Entries = list[tuple[int, str, bytes]]  # log time, kind, text
Verdicts = Counter[str]  # who was asked -> how many verdicts were compared
SCHEMAS = {schema.name: schema for schema in (LOGINS, RETURNS)}
AT_ONCE = 10  # logs that a process takes
QUESTIONS = 3  # of a log, about events that have not come


class Log:
    """A random log, and what the reference says of it. `at_each`: of each event, the ids of the alerts at it."""

    def __init__(self, seed: int, schema: Schema):
        self.entries, self.settings, self.end = drawn(
            seed, True, schema, LATE_POLICIES[seed % len(LATE_POLICIES)]
        )
        self.at_each, self.alerts = in_reference(self.entries, self.settings, self.end)
        self.world = world_of(self.entries, self.settings, self.end)
        self.at_once = {alert_id for ids in self.at_each for alert_id in ids}

    @property
    def verdicts(self) -> int:
        """How many pairs of an event and a rule there are."""
        return len(self.at_each) * len(RULE_IDS)


def check(seed: int) -> Verdicts:
    """Asks everybody about the log of a seed; returns how many verdicts each gave. Raises AssertionError if one differs."""
    count: Verdicts = Counter()
    for schema in SCHEMAS.values():
        with patch.object(worlds, "Past", (plainpast.Past, columnpast.Past)[seed % 2]):
            log = Log(seed, schema)
            for name, ask in ASKED.items():
                count[name] += ask(log)
    return count


def why_not(log: Log) -> int:
    """`World.why_not`, at each event and rule."""
    asked = 0
    for row, alert_ids in enumerate(log.at_each):
        event = log.world.past.event_in(row)
        if takes_back(event, log.settings.schema):
            continue
        for rule_id in RULE_IDS:
            verdict = log.world.judge.of_event(rule_id, event, row)
            if verdict.rule is None or not verdict.rule.absence:
                found = {verdict.alert.alert_id} if verdict.alert else set()
                assert found == {each for each in alert_ids if each.startswith(f"{rule_id}.")}, verdict.said
            asked += 1
    return asked


def why(log: Log) -> int:
    """`World.why`, of each alert, those of `absence` too."""
    for alert in log.alerts:
        verdict = log.world.why(alert)
        assert verdict.alert and verdict.alert.alert_id == alert.alert_id
        # of an event that was taken back and came again, the last alert with the id is meant
        last = next(each for each in reversed(log.alerts) if each.alert_id == alert.alert_id)
        assert replace(verdict.alert, log_time=None) == replace(last, log_time=None)
    return len(log.alerts)


def engine(log: Log) -> int:
    """The engine's alerts at events, of its log."""
    assert _at_once(log, log.entries, "alerts") == log.at_once
    return log.verdicts


def shadow(log: Log) -> int:
    """The engine's shadow log, with every rule in state SHADOW, which there is not where events can be taken back."""
    if log.settings.schema.taken_back:
        return 0
    entries = [(at, kind, _in_shadow(text) if kind == "control" else text) for at, kind, text in log.entries]
    assert _at_once(log, entries, "shadow") == log.at_once
    return log.verdicts


def _in_shadow(text: bytes) -> bytes:
    message = json.loads(text)
    return (
        json.dumps(message | {"ruleState": "SHADOW"}).encode()
        if message.get("ruleState") == "ACTIVE"
        else text
    )


def _at_once(log: Log, entries: Entries, name: str) -> set[str]:
    """The ids of the alerts in an engine's log that are not of `absence`."""
    later = {each.alert_id for each in log.alerts} - log.at_once
    with InProcessEngine(replace(log.settings, parallelism=1)) as running:
        for at, kind, text in entries:
            running.own_logs.log("events" if kind == "event" else kind).append([text], at)
        running._log_time = entries[-1][0]
        running.step()
        found = map(parse_alert_line, running.out[name])
        return {each.alert_id for each in found if isinstance(each, Alert)} - later


def would(log: Log) -> int:
    """`World.would` and `LiveWorld.would`, of the last events before they came."""
    asked, places = (
        0,
        [n for n, (_, kind, text) in enumerate(log.entries) if kind == "event" and b"returned" not in text],
    )
    for n in places[-QUESTIONS:]:
        at, _, line = log.entries[n]
        expected = {*in_reference(log.entries[: n + 1], log.settings, at)[0][-1]}
        verdicts = world_of(log.entries[:n], log.settings, at).would(line)
        assert {each.alert.alert_id for each in verdicts if each.alert} == expected
        with tempfile.TemporaryDirectory() as folder, patch.object(live, "now_ms", lambda at=at: at):
            logs = Logs(Path(folder))
            for log_time, kind, text in log.entries[:n]:
                logs.log("events" if kind == "event" else kind).append([text], log_time)
            logs.cut(0, 0, at, log.settings)
            [answer] = followed(LiveWorld(logs, log.settings.schema)).would([line], 0)["answers"]
        assert {each["alertId"] for each in answer.get("alerts", ())} == expected
        assert answer["clear"] == ("alerts" in answer and not expected)
        assert "alerts" in answer or answer["refused"] in LOST.values()
        asked += 2 * len(RULE_IDS)
    return asked


def branch(log: Log) -> int:
    """`World.branch` and `LiveBranch` from the middle of the log: its own rules, and those of then with no later change."""
    at, schema = log.entries[len(log.entries) // 2][0], log.settings.schema
    book = RuleBook(schema)
    for log_time, kind, text in log.entries:
        if kind == "control" and log_time < at:
            book.apply(text)
    if not book.rules:
        return 0
    later = [each for each in log.entries if each[0] >= at]
    unchanged = [
        each
        for each in log.entries
        if each[0] < at or each[1] == "event" or not is_about_a_rule(each[2], schema)
    ]
    rules = [json.dumps(rule.to_dict()) for rule in book.rules.values()]
    found = log.world.branch(rules, at, top=0)
    for lane, entries in ((found.old, log.entries), (found.new, unchanged)):
        assert [each.alert_id for each in lane] == alerts_from(at, entries, log.settings, log.end)
    lanes = 2
    if (
        not schema.taken_back
    ):  # else those that were withdrawn later count beside an engine, as they were raised
        with tempfile.TemporaryDirectory() as folder:
            told, _ = followed_branch(Path(folder), log.entries, log.settings, log.end, rules, at, Random(at))
        apart = _raised_apart(found.old, found.new)
        expected = {(is_new, alert.alert_id) for is_new, alert in differing(found.old, found.new)}
        assert told - apart == expected - apart
        lanes = 4
    return lanes * len(RULE_IDS) * sum(kind == "event" for _, kind, _ in later)


def _raised_apart(old: Iterable[Alert], new: Iterable[Alert]) -> set[tuple[int, str]]:
    """(is it new, alert id) of the alerts that both lanes raise, each at its own time, as `absence` with another window does."""
    lanes = [
        {(each.rule_id, each.event_id, each.event_time, each.group): each for each in lane}
        for lane in (old, new)
    ]
    both = lanes[0].keys() & lanes[1].keys()
    differ = [at for at in both if lanes[0][at].log_time != lanes[1][at].log_time]
    return {(is_new, lanes[is_new][at].alert_id) for at in differ for is_new in (0, 1)}


def backtest(log: Log) -> int:
    """`Past.aggregates`, which a backtest, tuning and scores take: each rule of the end of the log, as if it had been there all the time."""
    asked, muted = 0, any(b"mute" in text for _, kind, text in log.entries if kind == "control")
    lists = [
        each
        for each in log.entries
        if each[1] == "control" and not is_about_a_rule(each[2], log.settings.schema)
    ]
    events = [each for each in log.entries if each[1] == "event"]
    for rule in () if muted or log.settings.schema.taken_back else log.world.history.book.sorted():
        if rule.absence or not rule.is_judged:
            continue
        first = (0, "control", json.dumps(rule.to_dict() | {"ruleState": "ACTIVE"}).encode())
        entries = [first, *sorted([*lists, *events], key=lambda each: (each[0], each[1] != "control"))]
        _, alerts = in_reference(entries, log.settings, log.end)
        found = log.world.past.aggregates(rule)
        mask = found.alert_mask(rule, rule.first.limit)
        got = Counter(
            (event_id, int(time))
            for event_id, time, is_so in zip(found.ids.tolist(), found.times, mask)
            if is_so
        )
        assert got == Counter((each.event_id, each.event_time) for each in alerts), rule
        asked += len(events)
    return asked


def features(log: Log) -> int:
    """`World.features` of the log's events as a finished file, each value against the reference; not of events of which another
    group has one with the same id and time, which share a row."""
    schema, asked = log.settings.schema, 0
    if schema.taken_back:
        return 0
    lines = [text for _, kind, text in log.entries if kind == "event"]
    rules = [
        json.dumps(rule.to_dict()) for rule in log.world.history.book.sorted() if "@" not in rule.describe()
    ]
    if not rules:
        return 0
    of_file = World(lines, rules, settings=log.settings, bad_rows="warn")
    reference = Reference(schema, late_policy=log.settings.late_policy, key_groups=log.settings.key_groups)
    names = of_file.rules_of_features()
    for rule in names.values():
        reference.control(json.dumps(rule.to_dict()).encode())
    for line in lines:
        reference.event(line)
    expected: dict[tuple, dict[str, Any]] = {}
    by_id = {rule.rule_id: name for name, rule in names.items()}
    for alert in reference.alerts:
        row = expected.setdefault((alert.event_id, alert.event_time), dict.fromkeys(names))
        row[by_id[alert.rule_id]] = alert.aggregate
    times_told = Counter((alert.rule_id, alert.event_id, alert.event_time) for alert in reference.alerts)
    shared = {(event_id, time) for (_, event_id, time), count in times_told.items() if count > 1}
    for row in of_file.features():
        at = row.pop("eventId"), row.pop("eventTime")
        values = expected.pop(at)
        assert row == values or at in shared
        asked += len(values)
    assert not expected
    return asked


ASKED = {each.__name__: each for each in (why_not, why, engine, shadow, would, branch, backtest, features)}


def first_difference(seeds: Iterable[int]) -> tuple[Verdicts, str]:
    """How many verdicts were compared, and what is wrong with the first of these logs that differs."""
    count: Verdicts = Counter()
    for seed in seeds:
        try:
            count += check(seed)
        except AssertionError as error:
            return count, f"seed {seed}: {_where(error)}: {str(error)[:2000]}"
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return count, ""


def _where(error: BaseException) -> str:
    """Who was asked when it went wrong."""
    return next((name for name in _functions(error) if name in ASKED), "")


def _functions(error: BaseException) -> Iterator[str]:
    step = error.__traceback__
    while step:
        yield step.tb_frame.f_code.co_name
        step = step.tb_next


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.desk.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of the first log")
    parser.add_argument("--logs", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.logs)
    parts, count, wrong = (
        [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)],
        Counter[str](),
        0,
    )
    with ExitStack() as until_done:
        pool = until_done.enter_context(multiprocessing.get_context("spawn").Pool(chosen.processes))
        for part, (some, difference) in zip(parts, pool.imap(first_difference, parts)):
            count += some
            if difference:
                print(difference, flush=True)
                wrong += 1
            by_name = ", ".join(f"{name} {n:,}" for name, n in count.items())
            print(
                f"to seed {part[-1]}: {count.total():,} verdicts, {wrong} logs differ ({by_name})", flush=True
            )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
