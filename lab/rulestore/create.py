"""Makes the tables of a rule store with their constraints, triggers and rights, and upgrades those of an earlier version."""

import secrets

from sqlalchemy import DDL, CheckConstraint, Engine, Inspector, event, inspect, text
from sqlalchemy.exc import ProgrammingError

from lab.rulestore.constraints import ADDED, CHECKS, POSTGRESQL_CHECKS, SQLITE_CHECKS
from lab.rulestore.tables import METADATA, RULE_STORE, RULES
from lab.rulestore.triggers import GRANTS, POSTGRESQL_TRIGGERS, SQLITE_TRIGGERS, STATUS_VIEW

for _name, _check in CHECKS.items():
    RULES.append_constraint(CheckConstraint(_check, name=_name))
for _dialect, _checks in (("postgresql", POSTGRESQL_CHECKS), ("sqlite", SQLITE_CHECKS)):
    for _name, _check in _checks.items():
        RULES.append_constraint(CheckConstraint(text(_check), name=_name).ddl_if(dialect=_dialect))
for _dialect, _statements in (
    ("sqlite", (*SQLITE_TRIGGERS, STATUS_VIEW)),
    ("postgresql", (*POSTGRESQL_TRIGGERS, STATUS_VIEW, GRANTS)),
):
    for _statement in _statements:
        event.listen(METADATA, "after_create", DDL(_statement).execute_if(dialect=_dialect))


def grant_rights(engine: Engine) -> None:
    """Grants their rights to users that were created after the tables. Only PostgreSQL has users."""
    with engine.begin() as connection:
        connection.execute(text(GRANTS))


_SQLITE_DROPPED = ("DROP TRIGGER rules_inserted", "DROP TRIGGER rules_updated", "DROP VIEW rule_status")
_SQLITE_MADE = (*SQLITE_TRIGGERS[:2], STATUS_VIEW)


def create_tables(engine: Engine) -> None:
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
                else (["DROP VIEW rule_status"], [STATUS_VIEW, GRANTS])
            )
            checks = (SQLITE_CHECKS if is_file else POSTGRESQL_CHECKS) | {
                name: str(check.compile(engine, compile_kwargs={"literal_binds": True}))
                for name, check in CHECKS.items()
                if not isinstance(check, str)
            }
            added = [
                f"ALTER TABLE rules ADD COLUMN {name} {RULES.c[name].type.compile(engine.dialect)} "
                f'CONSTRAINT "{ADDED[name]}" CHECK ({checks[ADDED[name]]})'
                for name in lacking
            ]
            for statement in (*dropped, *added, *made):
                connection.execute(DDL(statement))


def _lacking(inspector: Inspector) -> list[str]:
    """The columns of rules that are not there."""
    names = {column["name"] for column in inspector.get_columns("rules")}
    return [column.name for column in RULES.columns if column.name not in names]
