"""Makes the tables of a rule store with their constraints, triggers and rights."""

import secrets

from sqlalchemy import DDL, CheckConstraint, Engine, event, inspect, text
from sqlalchemy.exc import ProgrammingError

from lab.rulestore.constraints import checks, entry_checks
from lab.rulestore.databases import check_columns
from lab.rulestore.tables import LIST_ENTRIES, METADATA, RULE_CHANGES, RULE_STORE, RULES
from lab.rulestore.triggers import GRANTS, POSTGRESQL_TRIGGERS, SQLITE_TRIGGERS, STATUS_VIEWS

for _table, _checks in ((RULES, checks()), (LIST_ENTRIES, entry_checks())):
    for _check in _checks:
        for _dialect in ("postgresql", "sqlite"):
            _constraint = CheckConstraint(text(getattr(_check, _dialect)), name=_check.name)
            _table.append_constraint(_constraint.ddl_if(dialect=_dialect))
for _dialect, _statements in (
    ("sqlite", (*SQLITE_TRIGGERS, *STATUS_VIEWS)),
    ("postgresql", (*POSTGRESQL_TRIGGERS, *STATUS_VIEWS, GRANTS)),
):
    for _statement in _statements:
        event.listen(METADATA, "after_create", DDL(_statement).execute_if(dialect=_dialect))


def grant_rights(engine: Engine) -> None:
    """Grants their rights to users that were created after the tables. Only PostgreSQL has users."""
    with engine.begin() as connection:
        connection.execute(text(GRANTS))


def create_tables(engine: Engine) -> None:
    """Makes the tables, triggers and rights, all or none of them, unless they are there.

    Raises ValueError if it may not, or if the tables are those of another version.
    """
    user, name = engine.url.username, engine.url.database
    owner = "any command with its owner's --store does, say `lab cdc status`"
    if inspect(engine).has_table(RULE_STORE.name):
        for table in (RULES, RULE_CHANGES, RULE_STORE, LIST_ENTRIES):
            check_columns(engine, table, "rule store")
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
