"""Some of the hostile input of `make fuzz` in every run of the tests: the same each time, and all that ever failed."""

from pathlib import Path

import pytest

from tools.fuzz.__main__ import CORPUS, failing, kept, wrong
from tools.fuzz.mutate import Mutator
from tools.fuzz.targets import TARGETS, Target

INPUTS = 1_000  # of each target


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_read_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.setattr("tools.fuzz.__main__.CORPUS", tmp_path)
    assert wrong(TARGETS[name], INPUTS, seed=1, seconds=float("inf")) == (INPUTS, 0)


@pytest.mark.parametrize(
    "file", sorted(CORPUS.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}"
)
def test_what_once_failed_does_no_more(file: Path):
    TARGETS[file.parent.name].run([file.read_bytes()])


def test_a_failure_is_found_shrunk_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.fuzz.__main__.CORPUS", tmp_path)

    def run(inputs):
        assert not any(b"null" in text and b"[" in text for text in inputs)

    target = Target("planted", run, [b'{"a": 1}'])
    tried, kinds = wrong(target, 20_000, seed=1, seconds=float("inf"))
    assert (tried, kinds) == (20_000, 1)
    assert sorted(kept(target)[0]) == sorted(b"null[")
    assert failing(target, [b"x", b"null[", b"y"])[0] == b"null["


def test_a_seed_draws_the_same_inputs():
    first, second = (Mutator([b'{"a": 1}'], [b"word"], seed=7) for _ in range(2))
    drawn = [first.draw() for _ in range(500)]
    assert drawn == [second.draw() for _ in range(500)] and len(set(drawn)) > 400
