"""The words of the lessons: each is explained in the table **Words** of the first lesson that uses it.

`make lessons` puts them into docs/glossary.md.
"""

import re
from dataclasses import dataclass
from pathlib import Path

WORDS = re.compile(r"\*\*Words\*\*\n\n((?:\|.*\n)+)")
HEAD = """# Glossary

The terms of the lessons, and the lesson that introduces each. `make lessons` generates this page from the lessons.

| word | lesson | meaning |
|---|---|---|
"""


@dataclass(frozen=True)
class GlossaryEntry:
    """A row of a lesson's table: several words may share a meaning."""

    words: tuple[str, ...]
    lesson: str
    meaning: str


def glossary_entries(sources: list[Path]) -> list[GlossaryEntry]:
    """The rows of all lessons' tables, in the order of the lessons."""
    found = []
    for source in sources:
        for row in rows_of_words_table(source.read_text()):
            words, meaning = (cell.strip() for cell in row.strip("|").split("|", 1))
            plain = re.sub(r"[*`]", "", re.sub(r" \(.*?\)", "", words))
            found.append(GlossaryEntry(tuple(plain.split(", ")), source.stem.partition("-")[0], meaning))
    return found


def rows_of_words_table(text: str) -> list[str]:
    """The rows of a lesson's table of words.

    >>> rows_of_words_table("**Words**\\n\\n| word | meaning |\\n|---|---|\\n| lag | what waits |\\n")
    ['| lag | what waits |']
    """
    table = WORDS.search(text)
    return table.group(1).splitlines()[2:] if table else []


def first_explanations(sources: list[Path]) -> dict[str, GlossaryEntry]:
    """Each word with the row that explains it first."""
    first: dict[str, GlossaryEntry] = {}
    for entry in glossary_entries(sources):
        for word in entry.words:
            first.setdefault(word, entry)
    return first


def glossary_page(sources: list[Path]) -> str:
    """docs/glossary.md."""
    words = sorted(first_explanations(sources).items(), key=lambda item: item[0].lower())
    rows = [f"| {word} | {int(entry.lesson)} | {entry.meaning} |\n" for word, entry in words]
    return HEAD + "".join(rows)
