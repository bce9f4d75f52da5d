"""Database URLs: SQLite files and PostgreSQL. Passwords are never shown."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Table, create_engine, event, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from lab.logs.access import holds_password, read_trusted

# errors that waiting does not cure, unlike a lock
UNUSABLE = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}
DRIVERS = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg2"}
WRONG_PASSWORD = "28P01"  # PostgreSQL's code; libpq tells only its words if there is no connection yet
INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class UnusableDatabase(ValueError):
    """A file is not a database, or this user cannot open it and write to it."""


class WrongPassword(UnusableDatabase):
    """The server does not accept the password. The message says where it comes from, and not what it is."""


def database_url(given: str) -> URL:
    """Parses the URL of a database that other processes can reach. Raises ValueError without repeating the URL.

    >>> database_url("sqlite:///rules.db").drivername
    'sqlite+pysqlite'
    """
    try:
        url = make_url(given)
        if not url.database or url.database == ":memory:":
            raise KeyError(given)
        return url.set(drivername=DRIVERS[url.drivername])
    except (ArgumentError, KeyError):
        raise ValueError(
            "not the URL of a database, expected sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE?passfile=…"
        ) from None


def create_database_engine(url: URL, **settings: Any) -> Engine:
    """A SQLAlchemy engine for the URL. Raises NotTrusted for a password file of another user; using the engine may raise
    UnusableDatabase, or WrongPassword."""
    if (passwords := Path(str(url.query.get("passfile", "")))).is_file():
        read_trusted(passwords, is_secret=True)
    engine = create_engine(url, **settings)
    if url.get_backend_name() == "sqlite":

        @event.listens_for(engine, "connect")
        def set_up(connection, _record) -> None:
            # readers and the writer do not wait for each other
            connection.execute("PRAGMA journal_mode = WAL")

        @event.listens_for(engine, "handle_error")
        def name_file(context) -> None:
            error = context.original_exception
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in UNUSABLE:
                raise UnusableDatabase(
                    f"{url.database}: {error}, expected a database of SQLite that this user can write to, or a new file in a folder that exists"
                ) from None

    else:

        @event.listens_for(engine, "handle_error")
        def name_password(context) -> None:
            error = context.original_exception
            if getattr(error, "pgcode", "") == WRONG_PASSWORD or "password authentication failed" in str(
                error
            ):
                place = (
                    "the file that passfile names" if "passfile" in url.query else "PGPASSWORD or ~/.pgpass"
                )
                raise WrongPassword(
                    f"{redacted_url(url)}: password authentication failed, expected that of this user in {place}"
                ) from None

    return engine


def redacted_url(url: URL) -> str:
    """For people.

    >>> redacted_url(database_url("postgresql://ann:secret@127.0.0.1/lab"))
    'postgresql://ann:***@127.0.0.1/lab'
    >>> redacted_url(database_url("postgresql://127.0.0.1/lab?sslpassword=secret"))
    'postgresql://127.0.0.1/lab?sslpassword=%2A%2A%2A'
    """
    url = url.update_query_dict(
        {name: "***" for name, value in url.query.items() if holds_password(name, str(value))}
    )
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)


def check_columns(engine: Engine, table: Table, what: str) -> None:
    """Raises ValueError if the table in the database lacks a column: another version of the kit made it. `what` is the purpose of the database."""
    there = {column["name"] for column in inspect(engine).get_columns(table.name)}
    if lacking := [column.name for column in table.columns if column.name not in there]:
        raise ValueError(
            f"the {what} in {engine.url.database} was made by another version of lab: its table {table.name} has no "
            f"{', '.join(lacking)}. Use another database or file"
        )
