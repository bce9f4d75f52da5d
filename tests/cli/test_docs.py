"""Every `lab …` in a code block of README and docs is a command that there is, with options that there are."""

import re
import shlex
from pathlib import Path

import pytest

from lab.apps.infer import infer
from lab.cli.main import parser
from tests.orders import orders

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> list[str]:
    """Without comments, redirections and the continuation of lines."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if re.match(r"(\.venv/bin/)?lab [a-z]", line)]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_each_command_is_one(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("orders.toml").write_text(infer([line.encode() for line in orders(50)], "orders").toml())
    for command in commands(page):
        words = shlex.split(command, comments=True)[1:]
        words = words[: words.index(">")] if ">" in words else words
        if words[:1] == ["doctor"]:
            continue
        try:
            parser().parse_args([word.replace("$URL", "sqlite:///rules.db") for word in words])
        except SystemExit:
            pytest.fail(f"{page.name}: {command}")


def test_the_pages_have_commands():
    assert sum(len(commands(page)) for page in PAGES) > 30
