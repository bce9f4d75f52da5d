"""What a stranger writes costs what it weighs: a text of a megabyte takes about a second at worst, whatever stands in it."""

import subprocess
import sys

import pytest

from lab.model.jsontext import DECIMAL_TEXT, nesting_depth
from tests.waiting import PATIENCE_S
from tools.fuzz import hostile

PROGRAM = """
import sys
from lab.model.rules import RuleBook
from lab.model.schema import PAYMENTS
from lab.model.reference import Reference
from lab.model import schemafile
from lab.sources.infer import infer
from tools.fuzz import hostile

kind, size = sys.argv[1], int(sys.argv[2])
for name, text in getattr(hostile, kind).items():
    if kind == "LINES":
        Reference(PAYMENTS).event(text(size))
        try:
            infer([text(size)], "events")
        except ValueError:
            pass
    elif kind == "MESSAGES":
        assert RuleBook(PAYMENTS).apply(text(size))["status"] in ("accepted", "rejected")
    else:
        try:
            schemafile.schema_from_toml(text(size).decode())
        except ValueError:
            pass
"""


@pytest.mark.parametrize("kind, size", [("LINES", 300_000), ("MESSAGES", 60_000), ("SCHEMAS", 200_000)])
def test_no_text_is_slow(kind, size):
    """With one step too many for each byte and byte, these texts take hours; as it is, seconds."""
    assert getattr(hostile, kind)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, str(size)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr


def test_what_is_in_strings_counts_for_no_depth():
    assert nesting_depth('{"a": [{}, "[[["]}') == 3
    assert nesting_depth(r'{"a\"[[": "\\", "b": ["\\\"]]]", {}]}') == 3
    assert nesting_depth('"[[[') == 0 and nesting_depth('"[\\') == 0 and nesting_depth("]]][[") == 0
    assert nesting_depth("[" * 300 + '"]"') == 300


@pytest.mark.parametrize(
    "text", ["1", "+1", "-1.", ".5", "1.5", "1e5", "1.e-5", "00", ".5E+05", "1" * 100, "1." + "0" * 100]
)
def test_numbers_in_text(text):
    assert DECIMAL_TEXT.fullmatch(text)


@pytest.mark.parametrize("text", ["", ".", "+", "e5", "1e", "1.5.5", "1 ", "--1", "1e5.5", "1_0", "٣", ".e5"])
def test_what_is_no_number_in_text(text):
    assert not DECIMAL_TEXT.fullmatch(text)
