"""No word of the trade stands in a lesson before the lesson that explains it."""

import re
from pathlib import Path

import pytest

from lab.model.language import ENGLISH
from lab.teach import pages, translations
from lab.teach.glossary import OF_DOCUMENTS, WORDS, first_explanations, glossary_entries, glossary_page
from lab.teach.lessons import GLOSSARY, lesson_sources

LESSONS = [path for path in lesson_sources() if path.stem[0].isdigit()]
FIRST = first_explanations(LESSONS)
EVERYDAY = {"wait", "columns", "world"}  # used in their everyday sense, too
NEEDED = (
    *(
        "route",
        "filter",
        "envelope",
        "key-group",
        "micro-batch",
        "lag",
        "p99.9",
        "pair",
        "beneficiary",
        "surge",
    ),
    *("COUNT_FLINK", "dead letter", "state", "watermark", "checkpoint", "task"),
)
SYNONYMS = {("key", "grouping keys"), ("control stream", "control log"), ("p50", "p90", "p99", "p99.9")}
TITLES = [path.read_text().splitlines()[0].removeprefix("# ") for path in LESSONS]


def prose(source: Path) -> str:
    """A lesson without its code, its title and the titles of others."""
    text = re.sub(r"^```.*?^```$", "", source.read_text(), flags=re.DOTALL | re.MULTILINE)
    for title in TITLES:
        text = text.replace(title, "")
    return re.sub(r"`[^`\n]*`", "", text)


def before(word: str) -> list[str]:
    """Where the word is used too early: lesson and the line."""
    pattern = re.compile(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])", re.IGNORECASE)
    found = []
    for source in LESSONS:
        text = prose(source)
        if source.stem.startswith(FIRST[word].lesson):
            text = text[: WORDS.search(text).start()]
            return found + [f"{source.stem}: {line}" for line in text.splitlines() if pattern.search(line)]
        found += [f"{source.stem}: {line}" for line in text.splitlines() if pattern.search(line)]
    return found


@pytest.mark.parametrize("word", [word for word in FIRST if word not in EVERYDAY])
def test_a_word_is_not_used_before_it_is_explained(word):
    assert before(word) == []


@pytest.mark.parametrize("word", NEEDED)
def test_the_words_of_the_room_and_of_the_engine_are_explained(word):
    assert word in FIRST


def test_words_share_a_row_only_if_they_share_its_meaning():
    """Each word of a row gets all of the row's meaning in the glossary."""
    rows = {entry.words for entry in glossary_entries(LESSONS) if len(entry.words) > 1}
    assert rows <= SYNONYMS, "give each of these words a row of its own"


def test_a_word_that_a_lesson_explains_is_not_explained_again():
    assert not OF_DOCUMENTS.keys() & FIRST.keys()


@pytest.mark.parametrize("language", [ENGLISH, *translations.languages()])
def test_the_glossary_is_that_of_the_lessons(language):
    assert pages.in_language(GLOSSARY, language).read_text() == glossary_page(LESSONS, language), (
        "run: make lessons"
    )
