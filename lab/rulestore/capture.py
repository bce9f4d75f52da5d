"""Copies a rule store's changes to a control log, and the engine's answers back to the store.

    rules ─► rule_changes ─► feed ─► Capture ─► control log ─► engine
      ▲                                 │                        │
      └── rule_status ◄─ rule_answers ◄─┴──── acknowledgements ◄─┘

After a crash a change may be read twice, but it is sent once: each message carries the number of its change, and a change that is
already in the control log is skipped. A change that the engine would reject is never sent: in a compacted log it would replace the
version in force.
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from secrets import token_hex
from threading import Event
from typing import Self

from confluent_kafka import KafkaException
from psycopg2 import Error as PostgresError
from sqlalchemy.exc import DBAPIError

from lab.logs.cluster import NoBroker
from lab.logs.reading import SkippedLines, parse_records
from lab.model.formatting import escape_control_characters
from lab.model.rules import RuleBook
from lab.model.schema import Schema
from lab.model.statuslines import parse_ack
from lab.rulestore.feeds import ChangeFeed, TableFeed
from lab.rulestore.replication import ReplicationFeed
from lab.rulestore.store import RuleChange, RuleStore, change_in_message, change_to_message

WAIT_S, ANSWERS_S = 0.05, 0.1  # how long a step waits for changes, and how often it looks for answers
AGAIN_S = 0.5
# errors of a database or broker that may come back
GONE = (DBAPIError, PostgresError, KafkaException, NoBroker)


class Capture:
    """Captures one store for one control log. `control`, `acks`: the logs. Raises CaptureBusy if another capture does the same.

    On entering, it reads the control log and sends the changes that are missing there.
    """

    def __init__(self, store: RuleStore, control, acks, left_out: SkippedLines | None = None):
        self.place = control.absolute_name
        self._store, self._control, self._ack_log, self._open = store, control, acks, ExitStack()
        sqlite = store.url.get_backend_name() == "sqlite"
        self._feed: ChangeFeed = (TableFeed if sqlite else ReplicationFeed)(store, self.place)
        self._book = RuleBook(store.schema)  # in the control log's form
        self._delivered: dict[int, int] = {}  # rule -> its newest change in the control log
        self._unanswered: dict[str, tuple[int, int]] = {}  # place of a message -> rule, change
        self._answered: dict[int, int] = {}  # rule -> its newest change that the engine has answered
        self._answers_at, self.left_out = 0.0, left_out or SkippedLines()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self._feed)
            self._acks = opened.enter_context(closing(self._ack_log.tail()))
            self._read_control_log()
            if self._store.last_sent_change_id(self.place) is None:
                position = self._store.last_change_id()
                self._deliver(self._store.last_changes())
                self._feed.confirm(position)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def step(self, wait_s: float = WAIT_S) -> int:
        """Sends the new changes, processes the new answers, and returns the number of new changes."""
        new = 0
        if changes := self._feed.changes(wait_s):
            new = self._deliver(changes)
            self._feed.confirm(max(change.change_id for change in changes))
        if time.monotonic() > self._answers_at:
            self._take_answers()
            self._answers_at = time.monotonic() + ANSWERS_S
        return new

    def _read_control_log(self) -> None:
        self._identity = self._store.identity()
        with closing(self._control.tail()) as tail:
            for record in tail.records():
                self._book.apply(record.line)
                identity, number = change_in_message(record.line) or ("", 0)
                rule_id = json.loads(record.line).get("ruleId") if identity == self._identity else None
                if type(rule_id) is int:
                    self._delivered[rule_id] = max(number, self._delivered.get(rule_id, 0))
                    self._unanswered[record.place] = rule_id, number
        if max(self._delivered.values(), default=0) > self._store.last_change_id():
            self._identity = token_hex(4)  # the database was restored, so its numbers now mean other changes
            self._store.start_over_with_identity(self._identity)
            self._delivered.clear()
            self._unanswered.clear()

    def _deliver(self, changes: list[RuleChange]) -> int:
        sent: list[RuleChange] = []
        messages: list[str] = []
        for change in changes:
            if change.change_id <= self._delivered.get(change.rule_id, 0):
                continue
            self._delivered[change.rule_id] = change.change_id
            message = change_to_message(change, self._identity)
            if change.row["disabled"] and change.rule_id not in self._book.rules:
                self._store.record_accepted(change.rule_id, change.change_id, None)
            elif (ack := self._book.apply(message))["status"] == "rejected":
                self._store.record_refused(change.rule_id, change.change_id, ack["reason"])
            else:
                sent.append(change)
                messages.append(message)
        if messages:
            places = self._control.publish(messages, [str(change.rule_id) for change in sent])
            for place, change in zip(places, sent, strict=True):
                self._unanswered[place] = change.rule_id, change.change_id
        return len(sent)

    def _take_answers(self) -> None:
        answers: dict[tuple[str, int], tuple] = {}  # the newest of each rule
        for _, ack in parse_records(self._acks.records(), parse_ack, self.left_out):
            if ack.get("controlType") == "DELETE_RULES_ALL":
                for rule_id in ack.get("ruleIds", ()):
                    # a change that was sent since is not deleted with the others
                    before = self._answered.get(rule_id, self._delivered.get(rule_id, 0))
                    answers["accepted", rule_id] = before, None
            if asked := self._unanswered.pop(ack.get("place", ""), None):
                rule_id, change_id = asked
                self._answered[rule_id] = change_id
                if ack["status"] == "rejected":
                    answers["refused", rule_id] = change_id, ack["reason"]
                elif "version" in ack:
                    answers["accepted", rule_id] = change_id, _version_in_force(ack)
            elif (rule_id := ack.get("ruleId")) in self._delivered:
                # somebody has changed the rule in the control log: its row has an older definition
                before = self._answered.get(rule_id, self._delivered[rule_id])
                answers["accepted", rule_id] = before, _version_in_force(ack)
        for (status, rule_id), (change_id, said) in answers.items():
            note = self._store.record_accepted if status == "accepted" else self._store.record_refused
            note(rule_id, change_id, said)


def _version_in_force(ack: dict) -> int | None:
    return ack["version"] if ack["ruleState"] != "DELETE" else None


def run_capture(url: str, schema: Schema, logs, stopped: Event, say: Callable[[str], None]) -> None:
    """Captures until `stopped`. Retries while the database or the broker is unavailable. Raises CaptureBusy.

    `logs`: an engine's logs; it uses `control` and `acks`. `say` is called with progress messages.
    """
    while not stopped.is_set():
        try:
            control, acks = logs.log("control"), logs.log("acks")
            with (
                closing(control),
                Capture(RuleStore(url, schema), control, acks, SkippedLines(say)) as capture,
            ):
                say(f"changes go to {capture.place}")
                while not stopped.is_set():
                    if new := capture.step():
                        say(f"{new} change{'s' * (new > 1)} delivered")
                capture.left_out.print_total()
        except GONE as error:
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            say(f"trying again: {escape_control_characters(why)}")
            stopped.wait(AGAIN_S)
