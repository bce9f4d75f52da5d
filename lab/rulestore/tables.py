"""The tables of a rule store, in SQLite and PostgreSQL: what an analyst sees in `psql` or `sqlite3`.

    rules           a row for each rule; `disabled` is how a rule is deleted
    list_entries    a row for each entry of a named list; `disabled` is how an entry is removed
    rule_changes    the history of both, written by triggers in the transaction of the edit: who, when, the row after it
    rule_proposals  edits that wait for another user's approval, if the store asks for two persons
    rule_answers    the result of the last change; the views `rule_status` and `list_status` show it next to the row
    rule_captures   the control logs that changes go to, and how far each has got

The `subject` of a change is the rule's id, such as `7`, or the list and the entry, such as `@highrisk KR`.

A rule's columns are those of `lab.model.attributes`. `lab.rulestore.create` makes them. Whether a field exists depends on the schema of the events (`lab.rulestore.store`).
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    false,
)
from sqlalchemy.dialects.postgresql import JSONB

from lab.model.attributes import Attribute, stored_attributes

METADATA = MetaData()
BIG = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only an INTEGER PRIMARY KEY by itself
DOCUMENT = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
EXACT = Text().with_variant(Numeric(), "postgresql")  # SQLite has no exact decimals
PUBLICATION = "lab_rule_changes"

TYPES = {"text": Text(), "document": DOCUMENT, "boolean": Boolean(), "whole": BIG, "exact": EXACT}
# what a row says without being told
DEFAULTS = {"rule_state": "ACTIVE", "grouping_key_names": "[]"}
NEEDED = {*DEFAULTS, "aggregator_function_type", "limit_operator_type", "limit_value", "window_seconds"}


def _column(attribute: Attribute) -> Column:
    name = attribute.column
    if attribute.name == "ruleId":
        return Column(name, BIG, primary_key=True, autoincrement=False)
    given = {"nullable": name not in NEEDED, "server_default": DEFAULTS.get(name)}
    return Column(name, TYPES[attribute.kind.sql_type], **given)


def _of_every_row() -> list[Column]:
    """The columns that rules and entries share."""
    is_disabled = Boolean(create_constraint=True, name="disabled is true or false")
    return [
        Column("disabled", is_disabled, nullable=False, server_default=false()),
        Column("changed_by", String(200), nullable=False, server_default="unknown"),
    ]


RULES = Table(
    "rules",
    METADATA,
    *map(_column, stored_attributes()),
    Column("filter_condition", Text),  # a filter that no object can be
    *_of_every_row(),
)
LIST_ENTRIES = Table(
    "list_entries",
    METADATA,
    Column("list_name", Text, primary_key=True),  # without its @
    Column("entry", Text, primary_key=True),  # a text, or a number as text
    Column("until_ms", BIG),  # events with an earlier time see it; none: all do
    Column("reason", Text),
    *_of_every_row(),
)


def _edits(number: str, done: str) -> list[Column]:
    """The columns that say who did what to a rule or an entry, and when."""
    return [
        Column(number, BIG, Identity(always=True), primary_key=True),
        Column("subject", Text, nullable=False, index=True),
        Column(f"{done}_at", DateTime(timezone=True), nullable=False),
        Column(f"{done}_by", String(200), nullable=False),
        Column("row_after", DOCUMENT, nullable=False),
    ]


RULE_CHANGES = Table(
    "rule_changes",
    METADATA,
    *_edits("change_id", "changed"),
    Column("approved_by", String(200)),  # if the store asks for two persons
    Column("approved_at", DateTime(timezone=True)),
    CheckConstraint("approved_by <> changed_by", name="approved_by is another user than changed_by"),
    sqlite_autoincrement=True,
)
RULE_PROPOSALS = Table(
    "rule_proposals",
    METADATA,
    *_edits("proposal_id", "proposed"),
    sqlite_autoincrement=True,
)
RULE_ANSWERS = Table(
    "rule_answers",
    METADATA,
    Column("subject", Text, primary_key=True),
    Column("accepted_change", BIG),  # the newest change that the engine accepted
    Column(
        "version", BIG
    ),  # the version of the rule or list that it produced; none: the rule is not in force
    Column("refused_change", BIG),  # the newest change that was rejected
    Column("reason", Text),  # why not
)
RULE_CAPTURES = Table(
    "rule_captures",
    METADATA,
    Column("place", Text, primary_key=True),  # of a control log
    Column("position", BIG, nullable=False),  # the newest change that it has
)


def _view(name: str, table: Table) -> Table:
    """A view that shows the rows of a table with what became of their last change."""
    columns = (Column(column.name, column.type) for column in table.columns)
    return Table(name, MetaData(), *columns, Column("version_in_force", BIG), Column("status", Text))


RULE_STATUS, LIST_STATUS = _view("rule_status", RULES), _view("list_status", LIST_ENTRIES)
RULE_STORE = Table(
    "rule_store",
    METADATA,
    Column("identity", String(20), primary_key=True),
    # whether another user must approve each edit
    Column("two_persons", Boolean, nullable=False, server_default=false()),
    CheckConstraint("NOT two_persons", name="two_persons needs PostgreSQL").ddl_if(dialect="sqlite"),
)
