"""The logs of an engine and of the programs beside it, by name. A new one is a row here; `lab.model.spec` says what its records are."""

from typing import NamedTuple

from lab.model.jsontext import MAX_LINE_BYTES


class LogKind(NamedTuple):
    """What a log is for. `action`: what the engine does with it, "receive" or "send"; "": only other programs use it.

    `option`: that of commands, without dashes. `holds`: in the help of `lab run`. `said`: the same for the specification.
    `is_kept`: no record expires; `is_compacted`: it is kept, and as a topic it has the last record of each key.
    """

    action: str
    option: str = ""
    holds: str = ""
    said: str = ""
    is_kept: bool = False
    is_compacted: bool = False


ALL_LOGS = {
    "events": LogKind(
        "receive",
        "events",
        "the events",
        f"One JSON object a record, of at most {MAX_LINE_BYTES:,} bytes. What does not fit becomes a dead letter.",
    ),
    "control": LogKind(
        "receive",
        "rules",
        "the control messages",
        "Rules, changes of their state, commands, and changes of lists. Each is answered once on acks.",
        is_kept=True,  # versions count its messages
    ),
    "alerts": LogKind(
        "send",
        "alerts",
        "the alerts",
        "A rule that held at an event; keyed by its group. At least once on Kafka: `alertId` tells repeats.",
    ),
    "shadow": LogKind(
        "send",
        "shadow",
        "the alerts of rules in state SHADOW",
        "The alerts of rules in state SHADOW; like those on alerts, for nobody but its author.",
    ),
    "acks": LogKind(
        "send",
        "acks",
        "an answer to each control message",
        "The answer to a control message: accepted or rejected, with the place of the message. Also the schema of the events, "
        "when an engine starts with another one.",
        is_kept=True,  # it says which rule a version is
    ),
    "deadLetters": LogKind(
        "send",
        "dead-letters",
        "bad records and what is wrong with them",
        "A record that could not be read: why, where it stands, and its beginning.",
    ),
    "stats": LogKind("send", "stats", "counts of each micro-batch", "Counts and times of a micro-batch."),
    "restrictions": LogKind("", "restrictions", is_kept=True, is_compacted=True),
    "restrictionDeadLetters": LogKind(""),
}
LOGS = {name: kind for name, kind in ALL_LOGS.items() if kind.action}
READ = tuple(name for name, kind in LOGS.items() if kind.action == "receive")
WRITTEN = tuple(name for name, kind in LOGS.items() if kind.action == "send")
