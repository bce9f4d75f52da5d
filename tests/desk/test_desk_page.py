"""The commands of docs/desk.md print what the page shows below them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "desk.md").read_text()
BLOCKS = re.split(r"^```.*\n", PAGE, flags=re.MULTILINE)[1::2]
MAKER = next(each for each in BLOCKS if each.startswith(".venv/bin/python -c"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the data that the page's commands name."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "datasets").symlink_to(ROOT / "datasets")
    made = MAKER.partition("lab infer")[0].replace(".venv/bin/python", shlex.quote(sys.executable))
    subprocess.run(["sh", "-c", made], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("kind", ["why", "why-not", "would", "rules tune", "rules suggest", "rules diff"])
def test_a_command_prints_what_the_page_shows(folder, kind, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    if not (folder / "orders.toml").exists():
        assert main(["infer", "orders.jsonl", "--out", "orders.toml"]) == 0
    number = next(n for n, each in enumerate(BLOCKS) if each.startswith(f"lab {kind} "))
    command, shown = BLOCKS[number : number + 2]
    capsys.readouterr()
    assert main(shlex.split(command.replace("\\\n", ""))[1:]) == 0
    printed = capsys.readouterr().out.splitlines()
    for part in shown.split("…\n"):
        at = printed.index(part.splitlines()[0]) if part else 0
        assert part.splitlines() == printed[at : at + len(part.splitlines())]
