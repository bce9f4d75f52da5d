"""Few records are read as many are, at once: elsewhere they are read one by one."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from lab.engine.records import decode


@pytest.fixture(scope="package", autouse=True)
def few_records_are_worth_arrow() -> Iterator[None]:
    with patch.object(decode, "NOT_WORTH_ARROW", 0):
        yield
