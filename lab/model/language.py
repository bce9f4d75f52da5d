"""The reader's language: sentences are English in the code, and `say` gives them as the catalog of a language has them.

The environment variable LAB_LANGUAGE, or `lab.speak("ko")` in a cell, chooses the catalog, `languages/ko.json`, which
`make lessons` makes from `lab/teach/translations/ko/words.po`. A sentence that a catalog does not have stays English.
"""

import json
import os
from functools import cache
from pathlib import Path

ENGLISH = "en"
CATALOGS = Path(__file__).with_name("languages")
_chosen: list[str] = []


def speak(language: str) -> None:
    """Widgets that are made and checks that are run from now on speak this language: "ko", or "en". Raises ValueError."""
    known = [ENGLISH, *sorted(path.stem for path in CATALOGS.glob("*.json"))]
    if language not in known:
        raise ValueError(f"no catalog of {language!r}, expected one of {', '.join(known)}")
    _chosen[:] = [language]


def say(sentence: str, **values: object) -> str:
    """A sentence in the reader's language, with values for its named placeholders.

    >>> say("{count} of {all}", count=2, all=3), say("[{x}]")
    ('2 of 3', '[{x}]')
    """
    language = _chosen[0] if _chosen else os.environ.get("LAB_LANGUAGE", ENGLISH)
    said = _catalog(language).get(sentence, sentence) if language != ENGLISH else sentence
    return said.format(**values) if values else said


@cache
def _catalog(language: str) -> dict[str, str]:
    path = CATALOGS / f"{language}.json"
    there = CATALOGS.glob("*.json")  # a name from the environment is compared, never opened as it is
    return json.loads(path.read_text(encoding="utf-8")) if path in there else {}
