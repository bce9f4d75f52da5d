"""The words of the lessons: each is explained in the table **Words** of the first lesson that uses it.

`make lessons` puts them into docs/glossary.md.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from lab.model.language import ENGLISH
from lab.teach import translations

WORDS = re.compile(r"\*\*(?:Words|용어|术语)\*\*\n\n((?:\|.*\n)+)")
HEAD = """# Glossary

The terms of the lessons and of the other pages, and the lesson that introduces each. `make lessons` generates this page.

| word | lesson | meaning |
|---|---|---|"""
OF_DOCUMENTS = {
    "attempt": "one run of a Spark task; if its worker dies, Spark starts another attempt, which repeats what was not saved",
    "backtest": "a rule evaluated over past events, before it is published",
    "driver": "the process that runs a Spark query: it plans the work of the tasks",
    "Flink": "a system for computations on event streams, written in Java; the idea of this kit comes from its fraud-detection demo",
    "lease": "a file that says which engine may run on a checkpoint; the engine renews it, and another one may take over when it has run out",
    "log time": "the time at which a record was appended to its log; the engine evaluates events in the order of their log times",
    "loopback": "the addresses of this machine that no other machine reaches, such as 127.0.0.1",
    "mark": "the end of a cut: how far it reads in each log",
    "reference": "the contract as a program: plain Python that evaluates one event at a time. Every other evaluator gives the same alerts",
    "replay": "evaluating rules over the events of a finished file",
    "schema": "the names of an event's fields, their types, and which of them are the id and the event time",
    "Spark Structured Streaming": "the part of Spark that runs a query on a stream, one micro-batch after another",
    "store": "the events and running aggregates of one route, in memory; in *rule store*, the database in which rules are rows",
    "taken back": "said of an event, such as a cancelled order: it counts for no rule from then on",
    "withdrawn": "said of an alert whose event was taken back",
}


@dataclass(frozen=True)
class GlossaryEntry:
    """A row of a lesson's table: several words may share a meaning."""

    words: tuple[str, ...]
    lesson: str
    meaning: str


def glossary_entries(sources: list[Path], language: str = ENGLISH) -> list[GlossaryEntry]:
    """The rows of all lessons' tables, in the order of the lessons; in another language, of those that it has."""
    found = []
    for source in sources:
        translated = "\n".join(translations.read_translations(language, source.stem).values())
        for row in rows_of_words_table(source.read_text() if language == ENGLISH else translated):
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


def first_explanations(sources: list[Path], language: str = ENGLISH) -> dict[str, GlossaryEntry]:
    """Each word with the row that explains it first."""
    first: dict[str, GlossaryEntry] = {}
    for entry in glossary_entries(sources, language):
        for word in entry.words:
            first.setdefault(word, entry)
    return first


def own_texts() -> list[str]:
    """What the page says besides the lessons' tables, to be translated: its head, and the words of documents with their meanings."""
    return [HEAD, *(text for row in OF_DOCUMENTS.items() for text in row)]


def glossary_page(sources: list[Path], language: str = ENGLISH) -> str:
    """docs/glossary.md, or that of another language: words that share a meaning share a row."""
    said = translations.read_translations(language, "glossary")
    words_of: dict[tuple[str, str], list[str]] = {
        (said.get(meaning, meaning), ""): [said.get(word, word)] for word, meaning in OF_DOCUMENTS.items()
    }
    for word, entry in first_explanations(sources, language).items():
        words_of.setdefault((entry.meaning, str(int(entry.lesson))), []).append(word)
    rows = sorted((", ".join(words), lesson, meaning) for (meaning, lesson), words in words_of.items())
    rows.sort(key=lambda row: row[0].lower())
    return "\n".join(
        [
            said.get(HEAD, HEAD),
            *(f"| {words} | {lesson} | {meaning} |" for words, lesson, meaning in rows),
            "",
        ]
    )
