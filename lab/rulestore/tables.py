"""The tables of a rule store, in SQLite and PostgreSQL: what an analyst sees in `psql` or `sqlite3`.

    rules           a row for each rule; `disabled` is how a rule is deleted
    rule_changes    its history, written by triggers in the transaction of the edit: who, when, the row after it
    rule_answers    the result of a rule's last change; the view `rule_status` shows it next to the rule
    rule_captures   the control logs that changes go to, and how far each has got

The constraints reject what the engine would reject, as far as that depends on the row alone. Whether a field exists depends on the
schema of the events (`lab.rulestore.store`).
"""

import secrets

from sqlalchemy import (
    DDL,
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Engine,
    Identity,
    Inspector,
    Integer,
    MetaData,
    Numeric,
    String,
    Table,
    Text,
    event,
    false,
    func,
    inspect,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.sql.expression import ColumnElement

from lab.model.aggregates import AGGREGATES
from lab.model.messages import MAX_SAID, SEVERITIES
from lab.model.rules import ACTIONS, FUNCTIONS, MAX_WINDOW_SECONDS, OPERATORS

METADATA = MetaData()
BIG = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only an INTEGER PRIMARY KEY by itself
DOCUMENT = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
EXACT = Text().with_variant(Numeric(), "postgresql")  # SQLite has no exact decimals
PUBLICATION = "lab_rule_changes"

RULES = Table(
    "rules",
    METADATA,
    Column("rule_id", BIG, primary_key=True, autoincrement=False),
    Column("rule_state", String(20), nullable=False, server_default="ACTIVE"),
    Column("grouping_key_names", DOCUMENT, nullable=False, server_default="[]"),
    Column("filter", DOCUMENT),
    Column("aggregate_field_name", String(200)),
    Column("aggregator_function_type", String(20), nullable=False),
    Column("unique_fields", DOCUMENT),
    Column("limit_operator_type", String(20), nullable=False),
    Column("limit_value", EXACT, nullable=False),
    Column("window_seconds", BIG, nullable=False),
    Column("action", String(20)),
    Column("ttl_seconds", BIG),
    Column(
        "disabled",
        Boolean(create_constraint=True, name="disabled is true or false"),
        nullable=False,
        server_default=false(),
    ),
    Column("changed_by", String(200), nullable=False, server_default="unknown"),
    Column("when_condition", Text),  # `when` is a word of SQL
    Column("severity", Text),
    Column("title", Text),
    Column("labels", DOCUMENT),
    Column("where_condition", Text),
    Column("exclude_current", Boolean),
    Column("limit_of", DOCUMENT),
    Column("and_conditions", DOCUMENT),
    Column("or_conditions", DOCUMENT),
    Column("at_most", DOCUMENT),
    Column("absence", Boolean),
    Column("event_fields", DOCUMENT),
)
RULE_CHANGES = Table(
    "rule_changes",
    METADATA,
    Column("change_id", BIG, Identity(always=True), primary_key=True),
    Column("rule_id", BIG, nullable=False, index=True),
    Column("changed_at", DateTime(timezone=True), nullable=False),
    Column("changed_by", String(200), nullable=False),
    Column("rule", DOCUMENT, nullable=False),  # the row after the change
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
RULE_STORE = Table("rule_store", METADATA, Column("identity", String(20), primary_key=True))

# -- what a row must be ------------------------------------------------------------------------------------------------

_ROW = RULES.c
_OF_FIELD = [name for name, aggregate in AGGREGATES.items() if aggregate.of == "field"]
_LONGEST = f"is 1 to {MAX_WINDOW_SECONDS}"


def _between(column: Column) -> ColumnElement:
    return column.is_(None) | column.between(1, MAX_WINDOW_SECONDS)


# clients see a constraint's name: it says what is allowed, in the 63 bytes that PostgreSQL keeps
_CHECKS: dict[str, ColumnElement | str] = {
    "rule_id is a positive number": _ROW.rule_id > 0,
    "rule_state is ACTIVE or PAUSE": _ROW.rule_state.in_(("ACTIVE", "PAUSE")),
    "aggregator_function_type is SUM, COUNT, or another function": _ROW.aggregator_function_type.in_(
        FUNCTIONS
    ),
    "limit_operator_type is GREATER, LESS_EQUAL, or another name": _ROW.limit_operator_type.in_(OPERATORS),
    f"window_seconds {_LONGEST}": _between(_ROW.window_seconds),
    "aggregate_field_name is needed by all functions but counts": (
        _ROW.aggregator_function_type.not_in(_OF_FIELD) | _ROW.aggregate_field_name.is_not(None)
    ),
    f"action is {', '.join(ACTIONS)} or null": _ROW.action.in_(ACTIONS),
    "action and ttl_seconds need each other": _ROW.action.is_(None) == _ROW.ttl_seconds.is_(None),
    f"ttl_seconds {_LONGEST}": _between(_ROW.ttl_seconds),
    "changed_by is somebody": func.length(_ROW.changed_by) > 0,
}
_WHEN = "when_condition has at most 50000 characters"
_CHECKS[_WHEN] = func.length(_ROW.when_condition) <= 50_000
_SEVERITY = f"severity is {', '.join(SEVERITIES)} or null"
_CHECKS[_SEVERITY] = _ROW.severity.in_(SEVERITIES)
_TITLE = f"title has 1 to {MAX_SAID} characters"
_CHECKS[_TITLE] = func.length(_ROW.title).between(1, MAX_SAID)
_WHERE = "where_condition has at most 50000 characters"
_CHECKS[_WHERE] = func.length(_ROW.where_condition) <= 50_000
_EXCLUDE = "exclude_current is true, false or null"
_CHECKS[_EXCLUDE] = _ROW.exclude_current.in_((True, False))
_ABSENCE = "absence is true, false or null"
_CHECKS[_ABSENCE] = _ROW.absence.in_((True, False))
_LIMIT_OF = "limit_of is an object of at most 50000 characters"
_AND = "and_conditions is a list of at most 50000 characters"
_OR = "or_conditions is a list of at most 50000 characters"
_EVENT_FIELDS = "event_fields is a list of at most 50000 characters"
_AT_MOST = "at_most is an object of at most 50000 characters"
_LABELS = "labels is an object of texts of at most 50000 characters"
_DOCUMENTS = (  # constraint, column, what it holds
    (_LIMIT_OF, "limit_of", "object"),
    (_AND, "and_conditions", "array"),
    (_OR, "or_conditions", "array"),
    (_AT_MOST, "at_most", "object"),
    (_EVENT_FIELDS, "event_fields", "array"),
)
_KEYS = "grouping_key_names is a list of texts"
_UNIQUE = "unique_fields is a list of texts"
_UNIQUE_NEEDED = "unique_fields is needed by UNIQUE_COUNT"
_SOMEBODY = "grouping_key_names is needed by all actions but notify"
_FILTER = "filter is an object without nulls of at most 50000 characters"
_LIMIT = "limit_value is below 1e24 and has at most 12 decimal places"
_POSTGRESQL = {
    _KEYS: """jsonb_typeof(grouping_key_names) = 'array'
        AND NOT grouping_key_names @? '$[*] ? (@.type() != "string")'""",
    _UNIQUE: """unique_fields IS NULL OR jsonb_typeof(unique_fields) = 'array'
        AND NOT unique_fields @? '$[*] ? (@.type() != "string")'""",
    _UNIQUE_NEEDED: """aggregator_function_type <> 'UNIQUE_COUNT'
        OR unique_fields IS NOT NULL AND jsonb_array_length(unique_fields) > 0""",
    _SOMEBODY: "action IS NULL OR action = 'notify' OR jsonb_array_length(grouping_key_names) > 0",
    _FILTER: """filter IS NULL OR jsonb_typeof(filter) = 'object' AND NOT filter @? '$.* ? (@ == null)'
        AND length(filter::text) <= 50000""",
    _LABELS: """labels IS NULL OR jsonb_typeof(labels) = 'object'
        AND NOT labels @? '$.* ? (@.type() != "string")' AND length(labels::text) <= 50000""",
    **{
        name: f"{column} IS NULL OR jsonb_typeof({column}) = '{kind}' AND length({column}::text) <= 50000"
        for name, column, kind in _DOCUMENTS
    },
    _LIMIT: "scale(limit_value) <= 12 AND abs(limit_value) < 1e24 AND limit_value <> 'NaN'",
}
_SQLITE = {
    "rule_id, window_seconds and ttl_seconds are whole numbers": """typeof(rule_id) = 'integer'
        AND typeof(window_seconds) = 'integer' AND typeof(ttl_seconds) IN ('integer', 'null')""",
    _KEYS: "json_valid(grouping_key_names) AND json_type(grouping_key_names) = 'array'",
    _UNIQUE: "unique_fields IS NULL OR json_valid(unique_fields) AND json_type(unique_fields) = 'array'",
    _UNIQUE_NEEDED: """aggregator_function_type <> 'UNIQUE_COUNT'
        OR unique_fields IS NOT NULL AND json_array_length(unique_fields) > 0""",
    _SOMEBODY: "action IS NULL OR action = 'notify' OR json_array_length(grouping_key_names) > 0",
    _FILTER: """filter IS NULL OR json_valid(filter) AND json_type(filter) = 'object'
        AND length(filter) <= 50000""",
    _LABELS: """labels IS NULL OR json_valid(labels) AND json_type(labels) = 'object'
        AND length(labels) <= 50000""",
    **{
        name: f"{column} IS NULL OR json_valid({column}) AND json_type({column}) = '{kind}' AND length({column}) <= 50000"
        for name, column, kind in _DOCUMENTS
    },
    _LIMIT: """limit_value GLOB '*[0-9]' AND limit_value GLOB '[-0-9]*' AND ltrim(limit_value, '-') GLOB '[0-9]*'
        AND limit_value NOT GLOB '*[^-0-9.]*' AND limit_value NOT GLOB '?*-*' AND limit_value NOT GLOB '*.*.*'
        AND length(limit_value) - instr(limit_value || '.', '.') <= 12
        AND instr(ltrim(limit_value, '-') || '.', '.') <= 25""",
}
for _name, _check in _CHECKS.items():
    RULES.append_constraint(CheckConstraint(_check, name=_name))
for _dialect, _checks in (("postgresql", _POSTGRESQL), ("sqlite", _SQLITE)):
    for _name, _check in _checks.items():
        RULES.append_constraint(CheckConstraint(text(_check), name=_name).ddl_if(dialect=_dialect))

# -- what follows an edit ----------------------------------------------------------------------------------------------

_KEEP_RULE = "a rule is not deleted: UPDATE rules SET disabled = true; its history stays"
_KEEP_ID = "rule_id never changes: disable the rule and insert another"

_SQLITE_ROW = """json_object('rule_id', NEW.rule_id, 'rule_state', NEW.rule_state,
    'grouping_key_names', json(NEW.grouping_key_names), 'filter', json(NEW.filter),
    'aggregate_field_name', NEW.aggregate_field_name, 'aggregator_function_type', NEW.aggregator_function_type,
    'unique_fields', json(NEW.unique_fields), 'limit_operator_type', NEW.limit_operator_type,
    'limit_value', NEW.limit_value, 'window_seconds', NEW.window_seconds, 'action', NEW.action,
    'ttl_seconds', NEW.ttl_seconds, 'when_condition', NEW.when_condition,
    'severity', NEW.severity, 'title', NEW.title, 'labels', json(NEW.labels),
    'where_condition', NEW.where_condition, 'exclude_current', json(iif(NEW.exclude_current, 'true', iif(NEW.exclude_current = 0, 'false', NULL))),
    'limit_of', json(NEW.limit_of), 'and_conditions', json(NEW.and_conditions), 'or_conditions', json(NEW.or_conditions),
    'at_most', json(NEW.at_most), 'absence', json(iif(NEW.absence, 'true', iif(NEW.absence = 0, 'false', NULL))),
    'event_fields', json(NEW.event_fields),
    'disabled', json(iif(NEW.disabled, 'true', 'false')))"""
_SQLITE_RECORD = f"""BEGIN INSERT INTO rule_changes (rule_id, changed_at, changed_by, rule)
    VALUES (NEW.rule_id, strftime('%%Y-%%m-%%d %%H:%%M:%%f000', 'now'), NEW.changed_by, {_SQLITE_ROW}); END"""
_SQLITE_COLUMNS = [column.name for column in RULES.columns if column.name not in ("rule_id", "changed_by")]
_SQLITE_CHANGED = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _SQLITE_COLUMNS)
_SQLITE_TRIGGERS = (
    f"CREATE TRIGGER rules_inserted AFTER INSERT ON rules {_SQLITE_RECORD}",
    f"CREATE TRIGGER rules_updated AFTER UPDATE ON rules WHEN {_SQLITE_CHANGED} {_SQLITE_RECORD}",
    f"CREATE TRIGGER rules_kept BEFORE DELETE ON rules BEGIN SELECT RAISE(ABORT, '{_KEEP_RULE}'); END",
    f"""CREATE TRIGGER rules_same BEFORE UPDATE OF rule_id ON rules WHEN NEW.rule_id IS NOT OLD.rule_id
    BEGIN SELECT RAISE(ABORT, '{_KEEP_ID}'); END""",
)
# the trigger that writes the history runs as its owner: editors need no right to write it, and cannot
_POSTGRESQL_TRIGGERS = (
    f"""CREATE FUNCTION lab_check_rule() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF TG_OP = 'UPDATE' AND NEW.rule_id <> OLD.rule_id THEN RAISE EXCEPTION '{_KEEP_ID}'; END IF;
        NEW.changed_by := session_user;
        RETURN NEW;
    END $$""",
    f"""CREATE FUNCTION lab_keep_rules() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION '{_KEEP_RULE}';
    END $$""",
    """CREATE FUNCTION lab_record_change() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = public, pg_temp AS $$ BEGIN
        IF TG_OP = 'INSERT' OR to_jsonb(NEW) - 'changed_by' <> to_jsonb(OLD) - 'changed_by' THEN
            INSERT INTO public.rule_changes (rule_id, changed_at, changed_by, rule)
            VALUES (NEW.rule_id, clock_timestamp(), NEW.changed_by, to_jsonb(NEW) - 'changed_by');
        END IF;
        RETURN NULL;
    END $$""",
    "CREATE TRIGGER rules_checked BEFORE INSERT OR UPDATE ON rules FOR EACH ROW EXECUTE FUNCTION lab_check_rule()",
    "CREATE TRIGGER rules_changed AFTER INSERT OR UPDATE ON rules FOR EACH ROW EXECUTE FUNCTION lab_record_change()",
    "CREATE TRIGGER rules_kept BEFORE DELETE OR TRUNCATE ON rules FOR EACH STATEMENT EXECUTE FUNCTION lab_keep_rules()",
    f"CREATE PUBLICATION {PUBLICATION} FOR TABLE rule_changes WITH (publish = 'insert')",
)
_STATUS = """CREATE VIEW rule_status AS
    SELECT rules.*, answers.version AS version_in_force,
        CASE newest.change_id WHEN answers.refused_change THEN 'refused: ' || answers.reason
            WHEN answers.accepted_change THEN CASE WHEN answers.version IS NULL THEN 'removed' ELSE 'in force' END
            ELSE 'waiting' END AS status
    FROM rules
    JOIN (SELECT rule_id, max(change_id) AS change_id FROM rule_changes GROUP BY rule_id) AS newest
        ON newest.rule_id = rules.rule_id
    LEFT JOIN rule_answers AS answers ON answers.rule_id = rules.rule_id"""
_GRANTS = """DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'reader') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'analyst') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO analyst;
        GRANT INSERT, UPDATE ON rules TO analyst;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'capture') THEN
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO capture;
        GRANT INSERT, UPDATE, DELETE ON rule_answers, rule_captures TO capture;
        GRANT UPDATE ON rule_store TO capture;
    END IF;
END $$"""
for _dialect, _statements in (
    ("sqlite", (*_SQLITE_TRIGGERS, _STATUS)),
    ("postgresql", (*_POSTGRESQL_TRIGGERS, _STATUS, _GRANTS)),
):
    for _statement in _statements:
        event.listen(METADATA, "after_create", DDL(_statement).execute_if(dialect=_dialect))


def grant(engine: Engine) -> None:
    """Grants their rights to users that were created after the tables. Only PostgreSQL has users."""
    with engine.begin() as connection:
        connection.execute(text(_GRANTS))


# what a store of an earlier version may lack: the constraint of each column
_ADDED = {"when_condition": _WHEN, "severity": _SEVERITY, "title": _TITLE, "labels": _LABELS}
_ADDED |= {"where_condition": _WHERE, "exclude_current": _EXCLUDE, "absence": _ABSENCE}
_ADDED |= {column: name for name, column, _ in _DOCUMENTS}
_SQLITE_DROPPED = ("DROP TRIGGER rules_inserted", "DROP TRIGGER rules_updated", "DROP VIEW rule_status")
_SQLITE_MADE = (*_SQLITE_TRIGGERS[:2], _STATUS)


def create(engine: Engine) -> None:
    """Makes the tables, triggers and rights, all or none of them, unless they are there; upgrades those of an earlier version.

    Raises ValueError if it may not.
    """
    user, name = engine.url.username, engine.url.database
    owner = "any command with its owner's --store does, say `lab cdc status`"
    if inspect(engine).has_table(RULE_STORE.name):
        try:
            _upgrade(engine)
        except ProgrammingError as error:
            why = str(error.orig).splitlines()[0]
            raise ValueError(
                f"the rule store in {name} is of an earlier version, and {user} may not upgrade it ({why}): {owner}"
            ) from None
        return
    try:
        with engine.begin() as connection:
            METADATA.create_all(connection)
            connection.execute(RULE_STORE.insert().values(identity=secrets.token_hex(4)))
    except ProgrammingError as error:
        why = str(error.orig).splitlines()[0]
        raise ValueError(
            f"there is no rule store in {name} yet, and {user} may not make one ({why}): {owner}"
        ) from None


def _upgrade(engine: Engine) -> None:
    """Adds the columns that a store of an earlier version lacks; of two that upgrade it at once, one waits for the other."""
    if not _lacking(inspect(engine)):
        return
    is_file = engine.dialect.name == "sqlite"
    with engine.begin() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_file else "LOCK TABLE rules")
        if lacking := _lacking(inspect(connection)):
            dropped, made = (
                (_SQLITE_DROPPED, _SQLITE_MADE)
                if is_file
                else (["DROP VIEW rule_status"], [_STATUS, _GRANTS])
            )
            checks = (_SQLITE if is_file else _POSTGRESQL) | {
                name: str(check.compile(engine, compile_kwargs={"literal_binds": True}))
                for name, check in _CHECKS.items()
                if not isinstance(check, str)
            }
            added = [
                f"ALTER TABLE rules ADD COLUMN {name} {RULES.c[name].type.compile(engine.dialect)} "
                f'CONSTRAINT "{_ADDED[name]}" CHECK ({checks[_ADDED[name]]})'
                for name in lacking
            ]
            for statement in (*dropped, *added, *made):
                connection.execute(DDL(statement))


def _lacking(inspector: Inspector) -> list[str]:
    """The columns of rules that are not there."""
    names = {column["name"] for column in inspector.get_columns("rules")}
    return [column.name for column in RULES.columns if column.name not in names]
