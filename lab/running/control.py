"""`lab rules`: changes to the rules, sent to the control log and answered by the engine; and rules tried out on past events."""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import TextIO

from lab.engine.loop.ends import Logs
from lab.logs.protocol import NoLog, Tail
from lab.logs.reading import POLL_S, SkippedLines, new_answers, parse_records
from lab.model.alerts import Alert, utc_text
from lab.model.formatting import escape_control_characters, plain_text, unknown_name_message
from lab.model.hints import condition_hints
from lab.model.listmessages import list_key
from lab.model.lists import EMPTY, FOREVER, MUTED
from lab.model.messages import as_bytes, message_or_refusal
from lab.model.rules import BadRule, RuleBook, parse_message
from lab.model.schema import Schema
from lab.running.target import Target

SHOWN_MUTES = 5  # of a rule, beside it
NOBODY: Mapping[str, str] = MappingProxyType({})  # signs nothing
ANSWER_S = 15.0  # how long to wait for the engine's answer


def send_rules(
    target: Target,
    messages: Sequence[str],
    timeout_s: float = ANSWER_S,
    first_alert: bool = False,
    signature: Mapping[str, str] = NOBODY,
) -> None:
    """Sends rules, or control commands, to the engine. `signature`: the author and the reason that they name, unless they do."""
    try:
        hints = print_hints(messages, target.effective_schema)
    except BadRule as error:
        raise BadRule(f"{error}{target.assumption}") from None
    publish_and_wait_for_answers(target, messages, timeout_s, first_alert, hints, signature)


def print_hints(messages: Sequence[str], schema: Schema) -> list[str]:
    """Warns about rules that probably do not do what was intended; they are sent anyway. Returns the hints. Raises BadRule."""
    print_repeated_rules(messages, schema)
    hints = list[str]()
    for rule in filter(None, (parse_message(message, schema).rule for message in messages)):
        for hint in condition_hints(rule, schema):
            print(f"hint for rule {rule.rule_id}: {hint}")
            hints.append(hint)
    return hints


def print_hints_of_book(messages: Sequence[str], book: RuleBook, file: TextIO | None = None) -> None:
    """Warns about rules as `print_hints` does, and about lists that are empty in the book that the messages led to."""
    print_repeated_rules(messages, book.schema, file)
    for rule in book.sorted():
        for hint in book.hints(rule):
            print(escape_control_characters(f"hint for rule {rule.rule_id}: {hint}"), file=file)


def print_repeated_rules(messages: Sequence[str], schema: Schema, file: TextIO | None = None) -> None:
    """Warns about definitions of one rule that replace each other, which in a file is probably a mistake. Raises BadRule."""
    rules = filter(None, (parse_message(message, schema).rule for message in messages))
    for rule_id, count in Counter(rule.rule_id for rule in rules).items():
        if count > 1:
            print(f"hint for rule {rule_id}: it comes {count} times, and the last one applies", file=file)


def change_rule_state(
    target: Target,
    rule_id: int,
    state: str,
    timeout_s: float = ANSWER_S,
    signature: Mapping[str, str] = NOBODY,
) -> None:
    """Pauses, activates or deletes a rule. The whole rule is sent: a compacted topic keeps only the last message of each."""
    message: dict = {"ruleId": rule_id}
    target.logs.control_to_write()
    rule = read_rules_in_force(target.logs, target.effective_schema).rules.get(rule_id)
    if rule and state != "DELETE":
        message = rule.to_dict()
    changed = json.dumps(message | {"ruleState": state})
    publish_and_wait_for_answers(target, [changed], timeout_s, signature=signature)


def read_rules_in_force(logs: Logs, schema: Schema) -> RuleBook:
    """The rules as the control log gives them; says on stderr how many of its messages are refused for events of this schema."""
    log, book, refused = logs.log("control"), RuleBook(schema), []
    with closing(log.tail()) as tail:
        for record in tail.records():
            book.apply(record.line)
            # about a rule that is not in force: what a compacted log keeps of rules that are gone
            if isinstance(bad := message_or_refusal(as_bytes(record.line), schema), BadRule):
                refused.append(f"{record.place}: {bad}")
    if refused:
        some = f"{len(refused):,} messages of {log} are" if len(refused) > 1 else f"1 message of {log} is"
        first = "the first at " if len(refused) > 1 else ""
        print(
            f"{some} refused for {schema.name}: {first}{escape_control_characters(refused[0])}",
            file=sys.stderr,
        )
    return book


def compaction_key(message: str, schema: Schema) -> str:
    """What a compacted control log keeps one message of: a rule, a kind of command, or some values of a list. Raises BadRule.

    A message with only the state of a rule has a key of its own, because it must not replace the rule that it is about.

    >>> from lab.model.schema import PAYMENTS
    >>> compaction_key('{"ruleId": 7, "ruleState": "DELETE"}', PAYMENTS)
    '7'
    >>> compaction_key('{"ruleId": 7, "ruleState": "PAUSE"}', PAYMENTS)
    '7 state'
    """
    parsed = parse_message(message, schema)
    if change := parsed.list_change:
        return list_key(change.name, {*change.add, *change.remove}, change.clear)
    if parsed.kind == "state":
        return f"{parsed.rule_id} state"
    return str(parsed.rule_id or parsed.control)


def signed(message: str, schema: Schema, signature: Mapping[str, str]) -> str:
    """A message about rules that names its author and reason, if it does not yet; those about lists have none. Raises BadRule.

    >>> from lab.model.schema import PAYMENTS
    >>> signed("7,(pause)", PAYMENTS, {"author": "ann"})
    '{"ruleState": "PAUSE", "ruleId": 7, "author": "ann"}'
    """
    asked = parse_message(message, schema)
    if asked.list_change or not signature:
        return message
    about = {"controlType": asked.control} if asked.control else {"ruleId": asked.rule_id}
    given = asked.rule.to_dict() if asked.rule else {"ruleState": asked.state} | about
    own = {"author": asked.author, "reason": asked.reason}
    return json.dumps(given | dict(signature) | {name: text for name, text in own.items() if text})


def publish_and_wait_for_answers(
    target: Target,
    messages: Sequence[str],
    timeout_s: float = ANSWER_S,
    first_alert: bool = False,
    printed_hints: Sequence[str] = (),
    signature: Mapping[str, str] = NOBODY,
) -> None:
    """Publishes control messages and shows the answers. Raises BadRule for one that is rejected.

    `first_alert`: also waits for the first alert of these rules. `printed_hints`: those that have been shown already.
    """
    logs, schema = target.logs, target.effective_schema
    messages = [signed(message, schema, signature) for message in messages]
    keys = [compaction_key(message, schema) for message in messages]
    control = logs.control_to_write()
    _check_list_changes(messages, logs, schema)
    acks = _tail_of_answers(logs) if timeout_s else None
    alerts = logs.existing("alerts").tail(new=True) if first_alert else None
    started, left_out = time.monotonic(), SkippedLines()
    places, answers = control.publish(messages, keys), list[dict]()
    for ack in new_answers(acks, places, timeout_s, left_out) if acks else ():
        answers.append(ack)
        print(escape_control_characters(_answer(ack)), f"({time.monotonic() - started:.2f} s)")
        new = str(ack.get("hint", ""))  # about what only the engine knows, such as lists
        for hint in printed_hints:
            new = new.replace(hint, "").strip("; ")
        if new:
            about = f"list @{ack['list']}" if "list" in ack else f"rule {ack.get('ruleId')}"
            print(f"hint for {about}: {escape_control_characters(new)}")
    if len(answers) < len(places):
        why = f"no answer within {timeout_s:g} s" if acks or not timeout_s else "nobody can answer yet"
        print(
            f"queued in {control}: {why}; the engine reads it once it has started, or the next `lab run` does"
        )
    elif alerts:
        _wait_for_alert(alerts, answers, started + timeout_s, left_out)
    left_out.print_total()
    if rejected := [ack["reason"] for ack in answers if ack["status"] == "rejected"]:
        raise BadRule(rejected[0])


def _check_list_changes(messages: Sequence[str], logs: Logs, schema: Schema) -> None:
    """Raises BadRule for a change of a list that the engine would refuse: in a compacted log it could replace an accepted one."""
    if not any(parse_message(message, schema).list_change for message in messages):
        return
    book = read_rules_in_force(logs, schema)
    for message in messages:
        ack = book.apply(message)
        if ack["status"] == "rejected" and parse_message(message, schema).list_change:
            raise BadRule(ack["reason"])


def _tail_of_answers(logs: Logs) -> Tail | None:
    """A reader of the answers that are still to come; None, and why on stderr, if the topic for them is missing."""
    try:
        return logs.existing("acks").tail(new=True)
    except NoLog as error:
        print(error, file=sys.stderr)
        return None


def _answer(ack: dict) -> str:
    if ack["status"] == "rejected":
        return f"rejected: {ack['reason']}"
    if "list" in ack:
        return f"accepted: list @{ack['list']} version {ack['version']}, entries: {ack['entries']:,}"
    if "ruleId" in ack:
        return f"accepted: rule {ack['ruleId']} version {ack['version']} {ack['ruleState']}"
    said = {name: value for name, value in ack.items() if name not in ("status", "place", "logTime")}
    return "accepted: " + json.dumps(said)


def _wait_for_alert(alerts, acks: Sequence[dict], deadline: float, left_out: SkippedLines) -> None:
    """Prints the time from publishing one of the rules to its first alert."""
    published = {
        (ack["ruleId"], ack["version"]): ack["logTime"]
        for ack in acks
        if "ruleId" in ack and "logTime" in ack
    }
    while time.monotonic() < deadline:
        for _, alert in parse_records(alerts.records(), Alert.from_json, left_out):
            log_time = published.get((alert.rule_id, alert.rule_version))
            if log_time is not None and alert.alert_time is not None:
                waited = alert.alert_time - log_time
                print(
                    f"first alert {waited:,} ms after the rule was published: {escape_control_characters(alert.key)} {plain_text(alert.aggregate)}"
                )
                return
        time.sleep(POLL_S)
    print("no alert of this rule yet")


def print_rules(target: Target) -> None:
    """Prints the rules that the control log gives."""
    target.logs.existing("control")
    book = read_rules_in_force(target.logs, target.effective_schema)
    rules, muted = book.sorted(), book.lists.get(MUTED, EMPTY)
    mutes: dict[int, list[str]] = {}
    for entry, until in muted.until_by_value.items():
        rule_id, _, group = entry.partition(" ")
        mutes.setdefault(int(rule_id), []).append(f"{group or 'all groups'}{_until(until)}")
    for rule in rules:
        print(f"{rule.rule_id:6}  v{rule.version:<3} {rule.state:7} {rule.describe()}")
        of_rule = mutes.get(rule.rule_id, [])
        for said in of_rule[:SHOWN_MUTES]:
            print(f"{'':14}muted   {escape_control_characters(said)}")
        if len(of_rule) > SHOWN_MUTES:
            print(f"{'':14}muted   {len(of_rule) - SHOWN_MUTES:,} more groups: lab lists show {MUTED}")
    if not rules:
        print("no rule is in force")


def print_lists(target: Target, name: str | None) -> None:
    """Prints the named lists that the control log gives, or what is in one. Raises ValueError if there is none of this name."""
    target.logs.existing("control")
    lists = read_rules_in_force(target.logs, target.effective_schema).lists
    if name is None:
        for known, each in sorted(lists.items()):
            print(f"@{known}  v{each.version}, entries: {len(each):,}")
        if not lists:
            print("there are no lists")
        return
    if name not in lists:
        raise ValueError(unknown_name_message("list", name, sorted(lists)))
    for value, until in lists[name].until_by_value.items():
        print(f"{escape_control_characters(value)}{_until(until)}")


def _until(time_ms: int) -> str:
    return "" if time_ms == FOREVER else f"  until {utc_text(time_ms)} UTC"
