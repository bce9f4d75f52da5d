"""A database for each test: a SQLite file, or one of a PostgreSQL that all tests share."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import sql

from lab.machine import database, jars
from lab.model.schema import PAYMENTS
from lab.rulestore.store import RuleStore
from tests.postgresql import running_database


@pytest.fixture(scope="session")
def needs_postgres() -> None:
    try:
        database.programs_folder()
    except database.DatabaseError as error:
        pytest.skip(f"NO TEST THAT NEEDS POSTGRESQL RAN: {error}")


@pytest.fixture(scope="session")
def needs_loop(needs_postgres) -> None:
    """What `tests.rulestore.loop` starts."""
    try:
        jars.fetch_jars("broker")
    except jars.JarsError as error:
        pytest.skip(f"NO TEST THAT NEEDS KAFKA RAN: {error}")


@pytest.fixture(scope="session")
def postgres(needs_postgres) -> Iterator[database.Database]:
    """One PostgreSQL for all tests."""
    with running_database() as one:
        yield one


def new_database(postgres: database.Database, user: str = database.OWNER) -> str:
    """The URL of an empty database of its own."""
    name = f"t{uuid.uuid4().hex[:12]}"
    with closing(psycopg2.connect(postgres.url())) as connection:
        connection.autocommit = True
        connection.cursor().execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return postgres.url(user).replace(f"/{database.NAME}?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rules.db"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def store(url: str) -> RuleStore:
    return RuleStore(url, PAYMENTS)
