"""The tables of a rule store, in SQLite and PostgreSQL: what an analyst sees in `psql` or `sqlite3`.

    rules           a row for each rule; `disabled` is how a rule is deleted
    rule_changes    its history, written by triggers in the transaction of the edit: who, when, the row after it
    rule_proposals  edits that wait for another user's approval, if the store asks for two persons
    rule_answers    the result of a rule's last change; the view `rule_status` shows it next to the rule
    rule_captures   the control logs that changes go to, and how far each has got

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


RULES = Table(
    "rules",
    METADATA,
    *map(_column, stored_attributes()),
    Column("filter_condition", Text),  # a filter that no object can be
    Column(
        "disabled",
        Boolean(create_constraint=True, name="disabled is true or false"),
        nullable=False,
        server_default=false(),
    ),
    Column("changed_by", String(200), nullable=False, server_default="unknown"),
)


def _edits(number: str, done: str) -> list[Column]:
    """The columns that say who did what to a rule, and when."""
    return [
        Column(number, BIG, Identity(always=True), primary_key=True),
        Column("rule_id", BIG, nullable=False, index=True),
        Column(f"{done}_at", DateTime(timezone=True), nullable=False),
        Column(f"{done}_by", String(200), nullable=False),
        Column("rule", DOCUMENT, nullable=False),  # the row after the edit
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
    Column("rule_id", BIG, primary_key=True, autoincrement=False),
    Column("accepted_change", BIG),  # the newest change that the engine accepted
    Column("version", BIG),  # the version it produced; none: the rule is not in force
    Column("refused_change", BIG),  # the newest change that was rejected
    Column("reason", Text),  # why not
)
RULE_CAPTURES = Table(
    "rule_captures",
    METADATA,
    Column("place", Text, primary_key=True),  # of a control log
    Column("position", BIG, nullable=False),  # the newest change that it has
)
RULE_STATUS = Table(  # a view
    "rule_status",
    MetaData(),
    *(Column(column.name, column.type) for column in RULES.columns),
    Column("version_in_force", BIG),
    Column("status", Text),
)
RULE_STORE = Table(
    "rule_store",
    METADATA,
    Column("identity", String(20), primary_key=True),
    # whether another user must approve each edit
    Column("two_persons", Boolean, nullable=False, server_default=false()),
    CheckConstraint("NOT two_persons", name="two_persons needs PostgreSQL").ddl_if(dialect="sqlite"),
)
