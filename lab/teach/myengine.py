"""A learner's own engine: one file, `my_engine.py`, that grows from lesson to lesson, and is checked at each step.

    my_engine.py ──► its functions ──────────┐
    random logs, short ones first ──► reference ──┴─ differ? ──► entries left out while they differ ──► told

A log is a list of payments and rules as dictionaries: a rule has a `ruleId`. A rule is always a sum of `paymentAmount` that is
greater than a limit. Payments are at most 4 minutes out of order. No route's widest window ever grows: the engine keeps more than its
widest window reaches, so after that a learner's engine, which does not, would rightly differ.
"""

import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from lab.model.language import say
from lab.model.reference import Reference
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.model.times import MINUTE_MS
from lab.model.when import passes_filter
from lab.teach import lesson_and_exercise_titles
from lab.teach.enginedisk import Disk, Killed
from lab.teach.judge import OPEN, RIGHT, WRONG, Verdict
from lab.teach.learner import (
    TimeLimitExceeded,
    answer_text,
    call_with_time_limit,
    limited_output,
    plain_value,
)
from lab.teach.progress import record_result
from lab.teach.shrinking import shrink

FILE = "my_engine.py"
NAME, TITLE = "my_engine", "An engine of one's own"  # of its steps, among the exercises
KEY_GROUPS = 16
LOGS, LONGEST = 100, 24  # how many are tried, and the entries of the last ones
FEWER, FEWEST = 40, 10  # of the steps that run a log several times
SECONDS, PRINTED = 5.0, 2_000  # for each log
BEGIN_MS, STEPS_MIN, LATE_MIN = 600_000, (0, 1, 2, 5, 10), (0, 0, 1, 4)
RULE = {
    "ruleState": "ACTIVE",
    "aggregateFieldName": "paymentAmount",
    "aggregatorFunctionType": "SUM",
    "limitOperatorType": "GREATER",
}
KEYS = (
    *(["payeeId"], ["beneficiaryId"], ["paymentType"]),
    *(["payeeId", "beneficiaryId"], ["beneficiaryId", "payeeId"]),
)
WINDOWS_MIN = (10, 20, 30)
FAULTS: tuple[dict[str, Any], ...] = (
    *({"limit": "many"}, {"windowMinutes": 0}, {"windowMinutes": -10}),
    *({"groupingKeyNames": ["shop"]}, {"groupingKeyNames": ["payeeId", "shop"]}),
)
MOST_ALIKE = 10  # of 20 groups in one key-group
FILTER_STEP = 8  # from this step on, rules may have a filter
Entry = dict[str, Any]
Load = Callable[[], SimpleNamespace]  # the learner's file, run anew


@dataclass(frozen=True)
class Part:
    """A part of the engine. `needs`: the names in the file; `differs(load, log)`: what is wrong with a log, or ""."""

    needs: tuple[str, ...]
    differs: Callable[[Load, list[Entry]], str]
    logs: int = LOGS
    first: Callable[[Path], str] | None = None  # asked before all logs: what is wrong with the file


def my_engine(file: str | Path = FILE) -> SimpleNamespace | None:
    """What the learner's file defines; None if there is no file."""
    return SimpleNamespace(**runpy.run_path(str(file))) if Path(file).exists() else None


def check_engine(step: int, file: str | Path = FILE) -> Verdict:
    """Checks a part of your own engine, in `my_engine.py` beside the notebook, with random logs against the reference.

    `step`: the number of the lesson. What is wrong is shown with a log that is as short as possible. Raises ValueError for a lesson without a step.

    >>> check_engine(1, "nowhere.py").state
    'open'
    """
    if step not in PARTS:
        steps = ", ".join(map(str, PARTS))
        text = say(
            "no part of the engine belongs to {step}, expected one of the lessons {steps}",
            step=step,
            steps=steps,
        )
        raise ValueError(text)
    verdict = _compare_with_reference(step, PARTS[step], Path(file))
    record_result(f"{NAME}.{step}", verdict, "")
    return verdict


def engine_step_titles() -> dict[str, str]:
    """The steps, named and described as exercises are.

    >>> engine_step_titles()["my_engine.4"]
    'What no window can reach is gone.'
    """
    return {NAME: TITLE} | {f"{NAME}.{step}": because for step, because in BECAUSE.items()}


def checked_titles() -> dict[str, str]:
    """All that can be checked, by name: lessons, exercises, and the steps."""
    return lesson_and_exercise_titles() | engine_step_titles()


def _compare_with_reference(step: int, part: Part, path: Path) -> Verdict:
    if not path.exists():
        text = say(
            "there is no {file} in {folder}: make it (File, New, Python File) and write what this section says",
            file=path.name,
            folder=path.absolute().parent,
        )
        return Verdict(OPEN, text)

    def load() -> SimpleNamespace:
        return SimpleNamespace(**runpy.run_path(str(path)))

    with limited_output(PRINTED):
        try:
            defined = call_with_time_limit(SECONDS, load)
            missing = [name for name in part.needs if not callable(getattr(defined, name, None))]
            if missing:
                names = ", ".join(missing)
                return Verdict(OPEN, say("{file} has no {names} yet", file=path.name, names=names))
            if part.first and (wrong := part.first(path)):
                return Verdict(WRONG, wrong)
            found = _first_difference(part, load, path, step)
        except (TimeLimitExceeded, KeyboardInterrupt):
            text = say(
                "did not end within {seconds} s: is there a loop that never ends?", seconds=f"{SECONDS:g}"
            )
            return Verdict(WRONG, text)
        except BaseException as error:  # noqa: BLE001  (a learner's file may raise anything)
            return Verdict(WRONG, _failure(error, path))
    if not found:
        return Verdict(
            RIGHT,
            say(
                "the same as the reference in {count} random logs. {because}",
                count=part.logs,
                because=say(BECAUSE[step]),
            ),
        )
    log, difference = found
    shown = "\n".join(["log = [", *(f"    {entry!r}," for entry in log), "]"])
    return Verdict(WRONG, f"{difference}\n{shown}")


def _first_difference(part: Part, load: Load, path: Path, step: int) -> tuple[list[Entry], str] | None:
    """The shortest log that was found on which the file and the reference differ, and how."""

    def differs(log: list[Entry]) -> str:
        try:
            return call_with_time_limit(SECONDS, part.differs, load, log)
        except (TimeLimitExceeded, KeyboardInterrupt):
            raise
        except WrongKind as error:
            return str(error)
        except BaseException as error:  # noqa: BLE001  (as above)
            return _failure(error, path)

    for seed in range(part.logs):
        log = random_log(seed, 2 + seed * LONGEST // part.logs, filters=step >= FILTER_STEP)
        if differs(log):
            small = shrink(log, lambda kept: bool(differs(kept)))
            return small, differs(small)
    return None


def _failure(error: BaseException, path: Path) -> str:
    """An error of the learner's file, with its line there."""
    try:
        words = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  (its text may fail, too)
        words = type(error).__name__
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == str(path)]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    if not lines:
        return say("{file} raised {error}", file=path.name, error=words)
    return say("{file}, line {line}, raised {error}", file=path.name, line=lines[-1], error=words)


# -- logs --------------------------------------------------------------------------------------------------------------


def random_log(seed: int, length: int, filters: bool = False) -> list[Entry]:
    """A log that begins with a rule; some rules have mistakes, and some payments come twice."""
    rng, time, widest = Random(seed), BEGIN_MS, dict[frozenset[str], int]()
    log: list[Entry] = [_rule(rng, filters, widest)]
    for number in range(1, length):
        latest = time - max(LATE_MIN) * MINUTE_MS
        payments = [entry for entry in log[-5:] if entry.get("eventTime", 0) >= latest]
        kind = rng.random()
        if kind < 0.15:
            log.append(_rule(rng, filters, widest) | (rng.choice(FAULTS) if rng.random() < 0.2 else {}))
        elif kind < 0.27:
            log.append({"ruleId": rng.randrange(1, 4), "ruleState": rng.choice(("PAUSE", "DELETE"))})
        elif kind < 0.37 and payments:
            log.append(dict(rng.choice(payments)))
        else:
            time += rng.choice(STEPS_MIN) * MINUTE_MS
            ids = {"payeeId": rng.randrange(1, 3), "beneficiaryId": rng.randrange(1, 3)}
            what = {"paymentType": rng.choice(("CSH", "CRD")), "paymentAmount": rng.randrange(1, 40)}
            event_time = time - rng.choice(LATE_MIN) * MINUTE_MS
            log.append({"transactionId": number, "eventTime": event_time, **ids, **what})
    return log


def _rule(rng: Random, filters: bool, widest: dict[frozenset[str], int]) -> Entry:
    """A rule whose window is none that is wider than the last one with these keys, in `widest`."""
    keys = rng.choice(KEYS[:2] if filters else KEYS)
    most = widest.get(frozenset(keys), max(WINDOWS_MIN))
    window = widest[frozenset(keys)] = rng.choice([each for each in WINDOWS_MIN if each <= most])
    rule = {"ruleId": rng.randrange(1, 4), **RULE, "groupingKeyNames": list(keys)}
    rule |= {"limit": rng.choice((10, 30, 50)), "windowMinutes": window}
    if filters and rng.random() < 0.7:
        rule["filter"] = {"paymentType": rng.choice(("CSH", "CRD"))}
    return rule


def expected_alerts(log: Sequence[Entry]) -> list[list[list]]:
    """The reference's alerts at each entry: rule, payment, sum."""
    reference, found = Reference(PAYMENTS), []
    for entry in log:
        before = len(reference.alerts_and_withdrawals)
        _take(reference, entry)
        new = reference.alerts[before:]
        found.append(sorted([alert.rule_id, alert.event_id, int(alert.aggregate)] for alert in new))
    return found


def _take(reference: Reference, entry: Entry) -> None:
    line = json.dumps(entry).encode()
    (reference.control if "ruleId" in entry else reference.event)(line)


class WrongKind(Exception):
    """An answer that is not of the kind that was asked for."""


def _tuples(what: str, answer: Any, size: int, each_is: str) -> list[list]:
    """A learner's answer as a list of lists. Raises WrongKind."""
    value = plain_value(answer)
    if not isinstance(value, (list, set)):
        kind = type(answer).__name__
        raise WrongKind(say("{what} returned a {kind}, expected a list", what=what, kind=kind))
    for each in value:
        if not isinstance(each, (list, tuple)) or len(each) != size:
            got = answer_text(each)
            text = say("{what} returned a list with {got}, expected {each}", what=what, got=got, each=each_is)
            raise WrongKind(text)
    return [list(each) for each in value]


def _triples(alerts: Any) -> list[list]:
    """A learner's alerts in the form of `expected_alerts`. Raises WrongKind."""
    if alerts is None:
        return []
    return sorted(_tuples("take", alerts, 3, say("(rule id, transaction id, sum) for each alert")))


def _differs(what: str, got: Any, expected: Any) -> str:
    return say(
        "{what} gave {got}, expected {expected}",
        what=what,
        got=answer_text(got),
        expected=answer_text(expected),
    )


# -- steps -------------------------------------------------------------------------------------------------------------


def _copies(load: Load, log: list[Entry]) -> str:
    """Step 1: the groups to which an event is sent, once for each route."""
    mine, book, rules = load(), RuleBook(PAYMENTS), dict[int, Entry]()
    filtered, earlier = any("filter" in entry for entry in log), list[list]()
    for entry in log:
        if "ruleId" in entry:
            if book.apply(json.dumps(entry))["status"] == "accepted" and entry["ruleState"] == "ACTIVE":
                rules[entry["ruleId"]] = entry
            elif entry["ruleState"] == "DELETE":
                rules.pop(entry["ruleId"], None)
            elif entry["ruleId"] in rules and entry["ruleState"] == "PAUSE":
                rules[entry["ruleId"]] = rules[entry["ruleId"]] | {"ruleState": "PAUSE"}
            continue
        pairs = _tuples("copies", mine.copies(dict(entry), deepcopy(rules)), 2, say("pairs (route, group)"))
        got = [group for _, group in pairs]
        routes = [route for route in book.routes() if passes_filter(route.filter, entry)]
        right = [{name: entry[name] for name in route.keys} for route in routes]
        if sorted(map(_in_order, got)) != sorted(map(_in_order, right)):
            shown = ", ".join(f"{rule_id}: …" for rule_id in rules)
            return _differs(f"copies(…{entry['transactionId']}…, {{{shown}}})", got, right)
        if wrong := _wrong_route(pairs, [] if filtered else earlier):
            return wrong
        earlier += pairs
    return ""


def _wrong_route(pairs: list[list], earlier: list[list]) -> str:
    """Two groups of one event, or of an earlier one, whose routes are the same though their keys differ, or the other way round."""
    for number, (route, group) in enumerate(pairs):
        wrong = [pair for pair in pairs[:number] if pair[0] == route]
        wrong += [pair for pair in earlier if (pair[0] == route) != (pair[1].keys() == group.keys())]
        for other, its in wrong[:1]:
            return say(
                "copies gave {group} the route {route}, and {its} the route {other}, expected one route for each set of keys",
                group=answer_text(group),
                route=answer_text(route),
                its=answer_text(its),
                other=answer_text(other),
            )
    return ""


def _in_order(group: dict) -> list:
    return sorted(group.items())


def _rules(load: Load, log: list[Entry]) -> str:
    """Step 2: rules from a log of messages."""
    mine, book, rules = load(), RuleBook(PAYMENTS), dict[int, Entry]()
    for entry in log:
        if "ruleId" not in entry:
            continue
        right = book.apply(json.dumps(entry))["status"] == "accepted"
        got = mine.change(rules, deepcopy(entry))
        if bool(got) != right:
            last_first = dict(reversed(entry.items()))  # a rule's mistakes are in what is last
            return _differs(f"change(rules, {answer_text(last_first)})", got, right)
        in_force = {rule_id: [rule.state, int(rule.first.limit)] for rule_id, rule in book.rules.items()}
        kept = {rule_id: [rule.get("ruleState"), rule.get("limit")] for rule_id, rule in rules.items()}
        if kept != in_force:
            return say(
                "the states and limits in rules are {got}, expected {expected}",
                got=answer_text(kept),
                expected=answer_text(in_force),
            )
    return ""


def _alerts(load: Load, log: list[Entry]) -> str:
    """Step 3: windows."""
    engine = load().Engine()
    for entry, right in zip(log, expected_alerts(log)):
        if (got := _triples(engine.take(dict(entry)))) != right:
            return _differs(_call(entry), got, right)
    return ""


def _call(entry: Entry) -> str:
    return f"take(rule {entry['ruleId']})" if "ruleId" in entry else f"take(payment {entry['transactionId']})"


def _cleanup(load: Load, log: list[Entry]) -> str:
    """Step 4: the same alerts, and as many stored payments as each group's windows could reach at its last payment."""
    engine, reference, kept = load().Engine(), Reference(PAYMENTS), dict[Any, int]()
    for entry in log:
        engine.take(dict(entry))
        _take(reference, entry)
        kept = {at: count for at, count in kept.items() if at[0] in reference.routes}
        for (route, group), stored in reference.stored_events.items():
            if "ruleId" in entry or group != tuple(entry[name] for name in route.keys):
                continue
            widest = max(rule.widest_ms for rule in reference.routes[route])
            oldest = max(event.time for event in stored) - widest - reference.max_out_of_orderness_ms
            kept[route, group] = sum(event.time >= oldest for event in stored)
        if (got := plain_value(engine.stored())) != sum(kept.values()):
            return say(
                "after {call}, {got} payments are stored, expected {right}: those that windows and late payments can reach",
                call=_call(entry),
                got=answer_text(got),
                right=sum(kept.values()),
            )
    return _alerts(load, log)


def _tasks(load: Load, log: list[Entry]) -> str:
    """Step 5: two tasks, then three with what the two saved, give together what one gives."""
    expected, half = expected_alerts(log), len(log) // 2
    mine = load()
    engines = [mine.Engine(range(8)), mine.Engine(range(8, KEY_GROUPS))]
    for number, (entry, right) in enumerate(zip(log, expected)):
        if number == half:
            stored = sum(plain_value(engine.stored()) for engine in engines)
            saved = [json.loads(json.dumps(engine.save())) for engine in engines]
            mine = load()
            shares = (range(5), range(5, 11), range(11, KEY_GROUPS))
            engines = [mine.Engine(share, deepcopy(saved)) for share in shares]
            if (now := sum(plain_value(engine.stored()) for engine in engines)) != stored:
                return say(
                    "two tasks stored {before} payments, the three after them {after}, expected the same number",
                    before=stored,
                    after=now,
                )
        got = sorted(alert for engine in engines for alert in _triples(engine.take(dict(entry))))
        if got != right:
            return _differs(
                say("{call} on {count} tasks together", call=_call(entry), count=len(engines)), got, right
            )
    return ""


def _same_in_each_process(path: Path) -> str:
    """What is wrong with the key-groups of a file in processes that salt their hashes differently."""
    if sys.platform == "emscripten":  # a browser has one process
        return ""
    code = "import runpy, sys; print([runpy.run_path(sys.argv[1])['key_group']({'payeeId': n}) for n in range(20)])"
    found = {
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
            text=True,
            timeout=60,
        )
        .stdout.rstrip()
        .rpartition("\n")[2]  # after what the file prints itself
        for seed in ("1", "2")
    }
    groups = json.loads(min(found) or "[-1]") if len(found) == 1 else [-1]
    if all(0 <= group < KEY_GROUPS for group in groups):
        if max(map(groups.count, groups)) <= MOST_ALIKE:
            return ""
        return say(
            "key_group put 20 payees into the key-groups {groups}, expected them spread", groups=min(found)
        )
    return say(
        "key_group gave {first} in one process and {other} in another, expected the same numbers from 0 to 15",
        first=min(found),
        other=max(found),
    )


def _restarts(load: Load, log: list[Entry]) -> str:
    """Step 7: the log grows, and each run is a new process."""
    disk, ends = Disk(), [*range(1, len(log), 5), len(log)]
    for end in ends:
        load().run(deepcopy(log[:end]), disk)
    return _delivered(disk, expected_alerts(log), ", ".join(f"run(log[:{end}])" for end in ends))


def _kills(load: Load, log: list[Entry]) -> str:
    """Step 9: killed before and after each step, twice; the log grows meanwhile."""
    half, expected = len(log) // 2, expected_alerts(log)
    undisturbed = Disk()
    load().run(deepcopy(log[:half]), undisturbed)
    load().run(deepcopy(log), undisturbed)
    for first in range(2 * undisturbed.steps):
        disk = Disk(kill_at=first)
        for end in (half, half + 1, len(log), len(log)):
            try:
                load().run(deepcopy(log[:end]), disk)
            except Killed:
                disk.kill_at = disk.moments + 1 + first % 3 if disk.kills < 2 else None
        disk.kill_at = None
        load().run(deepcopy(log), disk)
        if difference := _delivered(disk, expected):
            return f"{difference}\n{disk.told()}"
    return ""


def _delivered(disk: Disk, expected: list[list[list]], runs: str = "run") -> str:
    if disk.conflict:
        return say("the alerts of cut {number} were delivered twice, and not the same", number=disk.conflict)
    got = sorted(alert for alerts in disk.delivered.values() for alert in _triples(alerts))
    right = sorted(alert for alerts in expected for alert in alerts)
    return "" if got == right else _differs(runs, got, right)


def _filters(load: Load, log: list[Entry]) -> str:
    """Step 8: all so far, of rules with filters."""
    return _copies(load, log) or _tasks(load, log) or _restarts(load, log)


BECAUSE = {
    1: "An event is sent once for each route, whatever the number of rules.",
    2: "A rejected message changes nothing.",
    3: "Each payment has a window of its own, and a payment that comes twice counts once.",
    4: "What no window can reach is gone.",
    5: "A group belongs to one key-group, and a key-group to one task.",
    7: "A run continues where the one before ended.",
    8: "The filter is part of the route.",
    9: "Killed at every step, and nothing is lost or twice.",
}
PARTS = {
    1: Part(("copies",), _copies),
    2: Part(("change",), _rules),
    3: Part(("Engine",), _alerts),
    4: Part(("Engine",), _cleanup),
    5: Part(("Engine", "key_group"), _tasks, FEWER, first=_same_in_each_process),
    7: Part(("run",), _restarts, FEWER),
    8: Part(("copies", "Engine", "run"), _filters, FEWER),
    9: Part(("run",), _kills, FEWEST),
}
