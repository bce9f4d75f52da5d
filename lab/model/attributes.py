"""The attributes of a control message: a row for each, with all that there is to know about it.

    {"severity": "high"}     …, severity high     column `severity`, CHECK (severity IN …)     "severity":"high" in each alert

Readers of JSON and of sentences, JSON Schemas, the tables, checks and triggers of rule stores, the form, alerts and the table in
docs/rules.md take an attribute from here. One whose kind alerts carry needs no other code; what any other one means stands in
`lab.model.messages` and `lab.model.rule`. Names are those of the Flink demo (`com.ververica.field.dynamicrules.Rule`), whose rules load unchanged.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from lab.model.aggregates import AGGREGATES, MAX_STEPS, aggregates_of
from lab.model.aggregation import FUNCTIONS, OPERATORS, SYMBOLS
from lab.model.jsontext import compact_json
from lab.model.kinds import (
    Carried,
    ConditionText,
    Document,
    Duration,
    EventField,
    EventFields,
    EventFilter,
    Flag,
    Kind,
    Name,
    Note,
    Number,
    Text,
    Texts,
    Whole,
    Word,
)

STATES = ("ACTIVE", "PAUSE", "SHADOW", "DELETE", "CONTROL")
CONTROLS = ("CLEAR_STATE_ALL", "CLEAR_STATE_ALL_STOP", "DELETE_RULES_ALL", "EXPORT_RULES_CURRENT")
COUNT_WORDS = {name: name for name in aggregates_of("events")}
COUNT_WORDS |= {f"{word}_FLINK": function for word, function in COUNT_WORDS.items()}
OPERATOR_ALIASES = {symbol: name for name, symbol in SYMBOLS.items()}
OPERATOR_ALIASES |= {"GT": "GREATER", "LT": "LESS"}
ACTIONS = ("block_login", "hold_payment", "notify")  # what a restriction that follows an alert does
SEVERITIES = ("low", "medium", "high", "critical")
MAX_KEYS = 16  # grouping keys; see MAX_TEXT
MAX_EVENT_FIELDS = 16
MAX_LAST_EVENTS = 1_000  # of a window: for a late event, so many are looked at
_WITHOUT_WINDOW = ", ".join(f"`{row.name}`" for row in AGGREGATES.values() if not row.has_window)
WINDOW_NEEDED = f"one of them, unless for {_WITHOUT_WINDOW}"


class Clause(NamedTuple):
    """A clause of a sentence: the words with which it begins, an example, and what it gives, for docs/rules.md."""

    begins: str
    example: str
    gives: str


@dataclass(frozen=True)
class Attribute:
    """An attribute of a message. `needed` and `values` are its row in docs/rules.md.

    `clause`: that of a sentence which gives it, if it has one.
    `column`: its column in the table `rules` of a rule store. `defines`: it is part of what a rule says, not only of its message.
    """

    name: str
    kind: Kind
    values: str
    needed: str = "no"
    clause: Clause | None = None
    column: str = ""
    defines: bool = True


def rows_by_name(rows: Iterable[Attribute]) -> dict[str, Attribute]:
    return {row.name: row for row in rows}


ATTRIBUTES = rows_by_name(
    (
        Attribute(
            "ruleId",
            Kind(),
            "a positive integer below 2^63; a string of digits means the same",
            needed="yes",
            column="rule_id",
            defines=False,
        ),
        Attribute(
            "ruleState",
            Name(STATES),
            "`ACTIVE`, `PAUSE`, `SHADOW`, `DELETE`, `CONTROL`, in upper or lower case",
            needed="yes",
            column="rule_state",
            defines=False,
        ),
        Attribute(
            "groupingKeyNames",
            EventFields(MAX_KEYS),
            "a list of at most 16 event fields. If it is empty or missing, all events form one group",
            column="grouping_key_names",
        ),
        Attribute(
            "unique",
            EventFields(),
            "a list of fields whose distinct combinations are counted. `aggregateFieldName` may name a single field instead",
            needed="for `UNIQUE_COUNT`",
            column="unique_fields",
        ),
        Attribute(
            "steps",
            ConditionText("the steps of a sequence: action = reset, action = pay without action = login"),
            f'two to {MAX_STEPS} conditions in the language of `when`, and perhaps what must not come in between: `"action = reset, action = pay without action = login"`; see *Sequences*',
            needed=f"for {', '.join(f'`{name}`' for name in aggregates_of('steps'))}",
            column="steps",
        ),
        Attribute(
            "aggregateFieldName",
            EventField(tuple(COUNT_WORDS)),
            "a numeric field: `long`, `decimal` or `time`, which counts in milliseconds. Instead of a field, it may be `COUNT`, `COUNT_FLINK`, `COUNT_WITH_RESET` or `COUNT_WITH_RESET_FLINK`; then the rule counts events, whatever the function is",
            needed=f"for {', '.join(f'`{name}`' for name in aggregates_of('field'))}",
            column="aggregate_field_name",
        ),
        Attribute(
            "aggregatorFunctionType",
            Name((*FUNCTIONS, *COUNT_WORDS)),
            "a function of the next table",
            needed="unless `aggregateFieldName` is one of these counts",
            column="aggregator_function_type",
        ),
        Attribute(
            "limitOperatorType",
            Name((*OPERATORS, *OPERATOR_ALIASES)),
            "an operator of the table below",
            needed="yes",
            column="limit_operator_type",
        ),
        Attribute(
            "limit",
            Number(),
            "an exact decimal below 10^24 with at most 12 digits after the point; a number or a string",
            needed="yes",
            column="limit_value",
        ),
        Attribute(
            *("window", Duration(), "see *Windows and durations*"),
            needed=WINDOW_NEEDED,
            column="window_seconds",
        ),
        Attribute("windowMinutes", Duration(), "see *Windows and durations*", needed=WINDOW_NEEDED),
        Attribute(
            "filter",
            EventFilter(),
            'which events the rule sees at all, as an object or as text. An object, such as `{"action": "login"}` or `{"country": ["KR", "CN"], "action": "login"}`: an event must match every field, and a list means *any of these*; fields of type `time` are not allowed. A text: any condition in the language of `when`, such as `"amount > 500 and ip not in 10.0.0.0/8"`',
            column="filter",
        ),
        Attribute(
            "where",
            ConditionText("which events count for the aggregate, in the language of when"),
            'which events count for the aggregate, in the language of `when`: `"action = failed"`',
            column="where_condition",
        ),
        Attribute(
            "excludeCurrent",
            Flag(),
            "`true`: the event being judged does not count",
            column="exclude_current",
        ),
        Attribute(
            "lastEvents",
            Whole(MAX_LAST_EVENTS),
            f"a whole number from 1 to {MAX_LAST_EVENTS:,}: of the events of the group in the window, only so many count, the last in order of time; see *The last events*",
            column="last_events",
        ),
        Attribute(
            "endsBefore",
            Duration(),
            "the window ends so long before the event that is judged; written like a window; see *Windows that end earlier*",
            column="ends_before_seconds",
        ),
        Attribute(
            "sessionGap",
            Duration(),
            "of the events of the group in the window, only those since the last gap longer than this count; written like a window; see *Sessions*",
            column="session_gap_seconds",
        ),
        Attribute(
            "limitOf",
            Document("object"),
            "the limit is a multiple of another aggregate, perhaps with a number added; see *Rules that say more*",
            column="limit_of",
        ),
        Attribute(
            "and",
            Document("array"),
            "a list of one to three further conditions; see *Rules that say more*",
            column="and_conditions",
        ),
        Attribute(
            "or",
            Document("array"),
            "a list of one to three further conditions; see *Rules that say more*",
            column="or_conditions",
        ),
        Attribute(
            "when",
            ConditionText("which event may alert: amount > 500 and country not in (KR, CN)"),
            'a condition on the event that may alert, as text: `"amount > 500 and country not in (KR, CN)"`; see *Which event may alert*',
            clause=Clause("when", "when amount > 500", "`when`"),
            column="when_condition",
        ),
        Attribute(
            "atMost",
            Document("object"),
            '`{"alerts": 1, "per": "10m"}`: at most this many alerts per group at events within this time, counted back from the time of each event; see *Rules that say more*',
            clause=Clause("at most", "at most 1 per 10 min", "`atMost`"),
            column="at_most",
        ),
        Attribute(
            "absence",
            Flag("alert at an event after which none that counts is logged within the window"),
            "`true`: alert if, within the window after an event, no event that counts is logged; see *Absence*",
            column="absence",
        ),
        Attribute(
            "action",
            Name(ACTIONS),
            "`block_login`, `hold_payment`, `notify`: the restriction that an alert places on its group ([rules-in-a-database.md](rules-in-a-database.md#restrictions)). A rule without grouping keys may only use `notify`",
            clause=Clause("then", "then notify for 24 h", "`action` and `ttl`"),
            column="action",
        ),
        Attribute(
            "ttl",
            Duration(),
            "how long the restriction lasts, written like a window",
            needed="with `action`",
            column="ttl_seconds",
        ),
        Attribute(
            "severity",
            Word(SEVERITIES),
            "`low`, `medium`, `high`, `critical`. Each alert of the rule carries its severity, title and labels, for the people and programs that read it",
            clause=Clause("severity", "severity high", "`severity`"),
            column="severity",
        ),
        Attribute(
            "title",
            Text("Too much"),
            "a text of at most 200 characters: what an alert of the rule means",
            clause=Clause("title", 'title "Card testing"', "`title`, always in quotes"),
            column="title",
        ),
        Attribute(
            "labels",
            Texts(),
            'an object of at most 16 texts of at most 200 characters each: `{"team": "fraud", "queue": "night"}`. A name has at most 64 letters, digits and `_ . -`',
            clause=Clause(
                "labels",
                'labels team = fraud, desk = "2, left"',
                "`labels`; a text with spaces or special characters goes in quotes",
            ),
            column="labels",
        ),
        Attribute(
            "eventFields",
            EventFields(MAX_EVENT_FIELDS, "fields of its event that each alert carries as event"),
            'a list of at most 16 fields: each alert carries these fields of its own event as `event`, such as `"event":{"amount":"12.50","ip":null}`',
            clause=Clause("with", "with ip, userId of the event", "`eventFields`"),
            column="event_fields",
        ),
        Attribute("controlType", Name(CONTROLS), "see *Controls*", needed="for `CONTROL`", defines=False),
        Attribute(
            "author",
            Note(),
            "a text of at most 200 characters: who sends the message. `lab rules history` shows it; the engine does nothing with it",
            defines=False,
        ),
        Attribute("reason", Note(), "likewise: why", defines=False),
        Attribute(
            "version",
            Kind(),
            "ignored on input. The engine numbers the accepted messages of each rule id: 1, 2, 3, …",
            defines=False,
        ),
        Attribute(
            "changeId",
            Kind(),
            "written by `lab cdc run`: the change of the rule store that the message carries",
            defines=False,
        ),
    )
)


def carried_attributes() -> list[tuple[str, Carried]]:
    """Those that each alert of a rule carries, with their kinds."""
    return [(row.name, row.kind) for row in ATTRIBUTES.values() if isinstance(row.kind, Carried)]


def note_attributes() -> Iterator[tuple[str, Note]]:
    """Those about a message, with their kinds."""
    return ((row.name, row.kind) for row in ATTRIBUTES.values() if isinstance(row.kind, Note))


def stored_attributes() -> list[Attribute]:
    """Those that have a column in the table `rules`."""
    return [row for row in ATTRIBUTES.values() if row.column]


def clause_attributes() -> dict[str, Attribute]:
    """Those that a clause of a sentence gives, by the first word of the clause."""
    return {row.clause.begins.split()[0]: row for row in ATTRIBUTES.values() if row.clause}


class Carries:
    """What has the values of carried attributes: a rule, and each of its alerts. Those that are given, in the order of the table."""

    carried: tuple[tuple[str, Any], ...]

    def carries(self, name: str) -> Any:
        """The value of such an attribute; None if it is not given."""
        return dict(self.carried).get(name)


def carried(**given: Any) -> tuple[tuple[str, Any], ...]:
    """Values of carried attributes as a rule and an alert have them.

    >>> carried(title="Too much", severity="high", labels=None)
    (('severity', 'high'), ('title', 'Too much'))
    """
    return tuple((name, given[name]) for name, _ in carried_attributes() if given.get(name))


def carried_members(of: Carries) -> str:
    """The members of an alert's JSON that say what its rule carries, with a comma before each.

    >>> class High(Carries):
    ...     carried = (("severity", "high"), ("labels", (("team", "fraud"),)))
    >>> carried_members(High())
    ',"severity":"high","labels":{"team":"fraud"}'
    """
    given = dict(of.carried)
    return "".join(
        f',"{name}":{compact_json(kind.to_json(given[name]))}'
        for name, kind in carried_attributes()
        if name in given
    )


def markdown_rows() -> Iterator[str]:
    """The rows of the table of attributes in docs/rules.md."""
    for row in ATTRIBUTES.values():
        yield f"| `{row.name}` | {row.needed} | {row.values} |"


def clause_markdown_rows() -> Iterator[str]:
    """The rows of the table of clauses in docs/rules.md."""
    for row in ATTRIBUTES.values():
        if row.clause:
            yield f"| `{row.clause.example}` | {row.clause.gives} |"
