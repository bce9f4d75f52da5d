"""Few records are read, and few alerts written, as many are, at once: elsewhere they are taken one by one."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from lab.engine.records import decode
from lab.engine.windows import alertlines


@pytest.fixture(scope="package", autouse=True)
def few_are_worth_arrow() -> Iterator[None]:
    with patch.object(decode, "NOT_WORTH_ARROW", 0), patch.object(alertlines, "NOT_WORTH_ARROW", 0):
        yield
