"""Whatever only the page refuses, its reason has a translation."""

import re

import pytest

from lab.model.language import PLACEHOLDER
from lab.page import front, inference, reader
from lab.teach import translations

OF_PYTHON = (
    f"line 1: {front.NO_DERIVED}",
    reader.NO_RETURNS,
    *(inference.ONE_LIST, inference.NO_RECORD, inference.NO_TIME, inference.NO_ID, inference.MISSING),
)


@pytest.mark.parametrize("language", translations.languages())
def test_each_reason_of_the_page_is_translated(language):
    assert all(translations.page_refusal_translations(language).values())


def test_the_reasons_that_only_the_page_gives_are_given_there():
    for reason in translations.PAGE_REASONS:
        words = re.compile(".+".join(map(re.escape, PLACEHOLDER.split(reason)[::2])))
        assert any(words.fullmatch(text) for text in OF_PYTHON), reason
