"""Whatever only the page refuses, its reason has a translation."""

import re
from pathlib import Path

import pytest

import lab.page
from lab.model.language import PLACEHOLDER
from lab.page import front, inference
from lab.teach import translations

OF_PYTHON = (
    front.NO_LISTS,
    *(inference.ONE_LIST, inference.NO_RECORD, inference.NO_TIME, inference.NO_ID),
)
DERIVED = re.compile(r"throw new Error\(`([^`]*)`\)")


@pytest.mark.parametrize("language", translations.languages())
def test_each_reason_of_the_page_is_translated(language):
    assert all(translations.page_refusal_translations(language).values())


def test_the_reasons_that_only_the_page_gives_are_given_there():
    script = (Path(lab.page.__file__).parent / "columns.js").read_text()
    found = [*OF_PYTHON, *DERIVED.findall(script)]
    for reason in translations.PAGE_REASONS:
        words = re.compile(".+".join(map(re.escape, PLACEHOLDER.split(reason)[::2])))
        assert any(words.fullmatch(text) for text in found), reason
