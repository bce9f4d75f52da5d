"""Copies a rule store's changes to a control log, and the engine's answers back to the store.

    rules ─► rule_changes ─► feed ─► Capture ─► control log ─► engine
      ▲                                 │                        │
      └── rule_status ◄─ rule_answers ◄─┴──── acknowledgements ◄─┘

After a crash a change may be read twice, but it is sent once: each message carries the number of its change, and a change that is
already in the control log is skipped. A change that the engine would reject is never sent: in a compacted log it would replace the
version in force.
"""

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
from lab.model.lists import EMPTY, MUTED
from lab.model.rules import RuleBook
from lab.model.schema import Schema
from lab.model.statuslines import parse_ack
from lab.rulestore.changes import RuleChange, in_runs, run_to_message, subjects_in_message
from lab.rulestore.databases import WrongPassword
from lab.rulestore.feeds import ChangeFeed, TableFeed
from lab.rulestore.replication import ReplicationFeed
from lab.rulestore.store import Answer, RuleStore

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
        # subject of changes, as `7` and `@highrisk KR` -> its newest change in the control log
        self._delivered: dict[str, int] = {}
        # place of a message -> the subjects in it, each with its change
        self._unanswered: dict[str, list[tuple[str, int]]] = {}
        self._answered: dict[str, int] = {}  # subject -> its newest change that the engine has answered
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
                if changes := subjects_in_message(record.line, self._identity):
                    for subject, number in changes:
                        self._delivered[subject] = max(number, self._delivered.get(subject, 0))
                    self._unanswered[record.place] = changes
        if max(self._delivered.values(), default=0) > self._store.last_change_id():
            self._identity = token_hex(4)  # the database was restored, so its numbers now mean other changes
            self._store.start_over_with_identity(self._identity)
            self._delivered.clear()
            self._unanswered.clear()

    def _deliver(self, changes: list[RuleChange]) -> int:
        new: list[RuleChange] = []
        for change in changes:
            if change.change_id > self._delivered.get(change.subject, 0):
                self._delivered[change.subject] = change.change_id
                new.append(change)
        sent: list[list[tuple[str, int]]] = []
        messages: list[str] = []
        keys: list[str] = []
        answers: list[Answer] = []
        for run in in_runs(new):
            message, key = run_to_message(run, self._identity)
            of_run = [(change.subject, change.change_id) for change in run]
            if run[0].row["disabled"] and not any(map(self._is_in_force, run)):
                answers.extend(Answer(*each) for each in of_run)
            elif (ack := self._book.apply(message))["status"] == "rejected":
                answers.extend(Answer(*each, reason=ack["reason"]) for each in of_run)
            else:
                sent.append(of_run)
                messages.append(message)
                keys.append(key)
        self._store.record(answers)
        if messages:
            self._unanswered.update(zip(self._control.publish(messages, keys), sent, strict=True))
        return sum(map(len, sent))

    def _is_in_force(self, change: RuleChange) -> bool:
        if change.is_entry:
            entries = self._book.lists.get(change.row["list_name"], EMPTY)
            return change.row["list_name"] == MUTED or entries.contains(change.row["entry"])
        return int(change.subject) in self._book.rules

    def _take_answers(self) -> None:
        answers: dict[tuple[bool, str], Answer] = {}  # the newest of each kind and subject

        def note(answer: Answer) -> None:
            answers[answer.reason is None, answer.subject] = answer

        for _, ack in parse_records(self._acks.records(), parse_ack, self.left_out):
            if ack.get("controlType") == "DELETE_RULES_ALL":
                for subject in map(str, ack.get("ruleIds", ())):
                    # a change that was sent since is not deleted with the others
                    note(Answer(subject, self._answered.get(subject, self._delivered.get(subject, 0))))
            if asked := self._unanswered.pop(ack.get("place", ""), None):
                self._answered.update(asked)
                for each in asked:
                    if ack["status"] == "rejected":
                        note(Answer(*each, reason=ack["reason"]))
                    elif "version" in ack:
                        note(Answer(*each, version=_version_in_force(ack)))
            elif (subject := str(ack.get("ruleId"))) in self._delivered:
                # somebody has changed the rule in the control log: its row has an older definition
                before = self._answered.get(subject, self._delivered[subject])
                note(Answer(subject, before, _version_in_force(ack)))
        self._store.record(answers.values())


def _version_in_force(ack: dict) -> int | None:
    """Of the rule, or of the list that the acknowledgement is about; none for a rule that is gone."""
    return ack["version"] if ack.get("ruleState") != "DELETE" else None


def run_capture(url: str, schema: Schema, logs, stopped: Event, say: Callable[[str], None]) -> None:
    """Captures until `stopped`. Retries while the database or the broker is unavailable. Raises CaptureBusy, and WrongPassword
    unless the password was right before.

    `logs`: an engine's logs; it uses `control` and `acks`. `say` is called with progress messages.
    """
    gone: tuple[type[Exception], ...] = GONE
    while not stopped.is_set():
        try:
            control, acks = logs.log("control"), logs.log("acks")
            with (
                closing(control),
                Capture(RuleStore(url, schema), control, acks, SkippedLines(say)) as capture,
            ):
                say(f"changes go to {capture.place}")
                gone = (*GONE, WrongPassword)  # somebody may be changing it
                while not stopped.is_set():
                    if new := capture.step():
                        say(f"{new} change{'s' * (new > 1)} delivered")
                capture.left_out.print_total()
        except gone as error:
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            say(f"trying again: {escape_control_characters(why)}")
            stopped.wait(AGAIN_S)
