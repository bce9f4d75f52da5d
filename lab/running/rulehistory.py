"""The versions of a rule as the control log gives them: who made each, why, and what it changed; and the way back to one.

control log ──► versions_of ──► lab rules history 7          version 2 ──► lab rules rollback 7 --to 2 ──► a new version
"""

import getpass
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from lab.engine.loop.ends import Logs
from lab.model.alerts import utc_text
from lab.model.formatting import escape_control_characters, expected_message, short_json
from lab.model.rules import BadRule, Rule, RuleBook, parse_message
from lab.model.schema import Schema
from lab.model.statuslines import parse_ack
from lab.running.control import ANSWER_S, publish_and_wait_for_answers
from lab.running.target import Target


@dataclass(frozen=True)
class RuleVersion:
    """A version of a rule; `rule`: None if it was deleted. `log_time`: of its message, ms."""

    version: int
    log_time: int
    rule: Rule | None
    author: str | None
    reason: str | None


def versions_of(logs: Logs, schema: Schema, rule_id: int) -> list[RuleVersion]:
    """The versions of a rule, oldest first, numbered as the engine answered, or will."""
    answered: dict[str, int] = {}
    for line in logs.log("acks").read():
        with suppress(ValueError):
            ack = parse_ack(line)
            if (
                ack["status"] == "accepted"
                and ack.get("ruleId") == rule_id
                and type(ack.get("version")) is int
            ):
                answered[ack["place"]] = ack["version"]
    book, found = RuleBook(schema), list[RuleVersion]()
    with closing(logs.existing("control").tail()) as tail:
        for record in tail.records():
            ack = book.apply(record.line)
            if ack["status"] == "rejected" or rule_id not in (ack.get("ruleId"), *ack.get("ruleIds", ())):
                continue
            message = parse_message(record.line, schema)
            version = answered.get(record.place, book.versions[rule_id])
            rule = book.rules.get(rule_id)
            found.append(RuleVersion(version, record.log_time_ms, rule, message.author, message.reason))
    return found


def what_changed(before: Rule | None, now: Rule | None) -> Iterator[str]:
    """What a version changed, a sentence for each attribute.

    >>> from lab.model.schema import PAYMENTS
    >>> old, new = (parse_message(f"1: COUNT(events) over 1 h > {limit}", PAYMENTS).rule for limit in (5, 6))
    >>> list(what_changed(old, new)), list(what_changed(new, None))
    (['limit is 6, was 5'], ['deleted'])
    """
    if now is None:
        yield "deleted"
    elif before is None:
        yield now.describe()
    else:
        old, new = (rule.to_dict() | {"version": None} for rule in (before, now))
        for name in dict.fromkeys((*new, *old)):
            if name not in old:
                yield f"{name} is {_written(new[name])}"
            elif name not in new:
                yield f"no {name} any more, was {_written(old[name])}"
            elif old[name] != new[name]:
                yield f"{name} is {_written(new[name])}, was {_written(old[name])}"


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else short_json(value)


def print_versions(target: Target, rule_id: int) -> None:
    """Prints the versions of a rule. Raises BadRule if the control log has none."""
    before: Rule | None = None
    versions = _some_versions(target, rule_id)
    for each in versions:
        state = each.rule.state if each.rule else "DELETE"
        said = f"  v{each.version:<3} {utc_text(each.log_time)} UTC  {state:7} {each.author or '–'}"
        print(escape_control_characters(said + (f": {each.reason}" if each.reason else "")))
        for sentence in what_changed(before, each.rule):
            print(escape_control_characters(f"       {sentence}"))
        before = each.rule
    if missing := max(each.version for each in versions) - len(versions):
        some = f"{missing:,} earlier versions are" if missing > 1 else "1 earlier version is"
        print(f"{some} not in the control log: a compacted topic keeps the newest of each rule")


def roll_back(
    target: Target, rule_id: int, to: int, signature: Mapping[str, str], timeout_s: float = ANSWER_S
) -> None:
    """Sends what a rule was in an earlier version, as a new version. Raises BadRule if there is no such version."""
    versions = {each.version: each.rule for each in _some_versions(target, rule_id) if each.rule}
    if (rule := versions.get(to)) is None:
        known = ", ".join(map(str, versions)) or "none"
        raise BadRule(
            expected_message("--to", to, f"a version of rule {rule_id} that says a rule (there are: {known})")
        )
    signature = {"reason": f"back to version {to}", **signature}
    publish_and_wait_for_answers(target, [json.dumps(rule.to_dict())], timeout_s, signature=signature)


def _some_versions(target: Target, rule_id: int) -> list[RuleVersion]:
    if not (found := versions_of(target.logs, target.effective_schema, rule_id)):
        raise BadRule(f"rule {rule_id}: the control log has no message about it")
    return found


def user_name() -> str | None:
    """Who runs this process, as far as the machine says."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return None
