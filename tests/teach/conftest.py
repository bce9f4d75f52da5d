"""What tests of the exercises share."""

from pathlib import Path

import pytest

from lab import teach


@pytest.fixture
def progress_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a learner who has solved nothing and tried nothing yet."""
    monkeypatch.setenv("LAB_DATA", str(tmp_path))
    monkeypatch.setattr(teach, "_wrong", {})
    return tmp_path
