"""What tests share."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lab.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests; a test that needs another takes a process of its own."""
    with session() as spark:
        yield spark
