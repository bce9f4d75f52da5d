"""Whatever the page refuses, its reason has a translation."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lab.page
from lab.model.language import PLACEHOLDER, _values
from lab.page import front
from lab.teach import translations
from lab.teach.sentences import SENTENCE

FOLDER = Path(lab.page.__file__).parent
SCRIPTS = ("exact", "columns")  # the engine's others refuse nothing
REFUSES = re.compile(r"\b(?:Bad|expected|bad|fail)\(|allowed = ")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|`([^`]*)`')
INNERMOST = re.compile(r"\$\{[^{}]*\}")
VALUE = "x7"
OF_RULES = re.compile(
    r'"[^"]*"|\b(field|not|in|is|null|or|startsWith|contains|endsWith)\b'
)  # the same in every language


def reasons() -> Iterator[str]:
    """The sentences in the lines of the scripts that refuse something, "x7" for each value in them."""
    for name in SCRIPTS:
        for line in (FOLDER / f"{name}.js").read_text().splitlines():
            if found := REFUSES.search(line):
                yield from filter(SENTENCE.search, texts_in(line[found.start() :]))


def texts_in(code: str) -> Iterator[str]:
    """The texts in a piece of JavaScript, also those within templates.

    >>> list(texts_in('f(`a ${b ? `more ${c}` : "less"} d`)'))
    ['more x7', 'less', 'a x7 d']
    """
    while found := INNERMOST.search(code):
        yield from texts_in(found[0][2:-1])
        code = code[: found.start()] + VALUE + code[found.end() :]
    yield from (
        re.sub(r"\\(.)", r"\1", next(filter(None, match.groups()), "")) for match in LITERAL.finditer(code)
    )


def is_translated(text: str, catalog: dict[str, str]) -> bool:
    """Whether a sentence fits a text, and others the sentences that are values in it."""
    if text in catalog:
        return True
    found = next(filter(None, (_values(text, sentence) for sentence in catalog)), None)
    return bool(found) and all(
        is_translated(value, catalog) for value in found.values() if SENTENCE.search(OF_RULES.sub("", value))
    )


@pytest.mark.parametrize("language", translations.languages())
def test_each_reason_of_the_page_is_translated(language):
    catalog, found = translations.page_refusal_translations(language), list(reasons())
    assert len(found) > 2
    lacking = [text for text in found if not (is_end(text, catalog) or is_translated(text, catalog))]
    assert lacking == []


def is_end(text: str, catalog: dict[str, str]) -> bool:
    """Whether a call adds it to what else it says, and a sentence ends so."""
    return text[0] in " ,;" and any(PLACEHOLDER.sub(VALUE, each).endswith(text) for each in catalog)


def test_the_reasons_that_only_the_page_gives_are_given_there():
    found = [*reasons(), front.NO_LISTS, front.NO_SHADOW, front.NO_SUCH_WINDOWS]
    for reason in translations.PAGE_REASONS:
        words = re.compile(".+".join(map(re.escape, PLACEHOLDER.split(reason)[::2])))
        assert any(words.fullmatch(text) for text in found), reason
