"""Few alerts are written as many are, at once: elsewhere they are written one by one."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from lab.engine.windows import alertlines


@pytest.fixture(scope="package", autouse=True)
def few_are_worth_arrow() -> Iterator[None]:
    with patch.object(alertlines, "NOT_WORTH_ARROW", 0):
        yield
