"""The reader's language: sentences are English in the code, and `say` gives them as the catalog of a language has them.

    a widget, a check   say("{count} of {all}", …)                 ──► catalog ──► "{all}개 가운데 {count}개" ──► the reader
    an engine, an error "limit: nothing, expected a number" ──► translated(…) ──► the same catalog ──► the reader

What is written down or raised (an acknowledgement, a dead letter, BadRule) stays English, whoever reads it later.

The environment variable LAB_LANGUAGE, or `lab.speak("ko")` in a cell, chooses the catalog, `languages/ko.json`, which
`make lessons` makes from `lab/teach/translations/ko/words.po`. `languages/messages/ko.json` comes from `messages.po`. A sentence that a catalog lacks stays in English.
"""

import json
import os
import re
from functools import cache, lru_cache
from pathlib import Path

ENGLISH = "en"
CATALOGS = Path(__file__).with_name("languages")
MESSAGES = CATALOGS / "messages"
LONGEST = 2_000  # characters of a text that is translated
PLACEHOLDER = re.compile(r"\{(\w+)\}")
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
    said = _catalog(CATALOGS, current_language()).get(sentence, sentence)
    return said.format(**values) if values else said


def translated(text: str) -> str:
    """A text that was made in English, such as an error or what an engine wrote, in the reader's language.

    Finds the sentence of the catalog that it is, and the values in it, which may be such texts themselves. Text that no
    sentence of the catalog fits stays as it is. Of several lines each is a text of its own.
    """
    language = current_language()
    return text if language == ENGLISH or len(text) > LONGEST else _translated(text, language)


@lru_cache(1_000)
def _translated(text: str, language: str) -> str:
    catalog = _catalog(MESSAGES, language)
    if text in catalog:
        return catalog[text]
    if "\n" in text:
        return "\n".join(_translated(line, language) for line in text.split("\n"))
    for sentence in catalog:
        if values := _values(text, sentence):
            return PLACEHOLDER.sub(lambda found: _translated(values[found[1]], language), catalog[sentence])
    return text


def _values(text: str, sentence: str) -> dict[str, str]:
    """What a text has for each placeholder of a sentence, the shortest that fits; {} if it is another sentence.

    >>> _values("limit: nothing, expected a number", "{name}: {value}, expected {allowed}")
    {'name': 'limit', 'value': 'nothing', 'allowed': 'a number'}
    >>> _values("limit: nothing", "{name}: {value}, expected {allowed}")
    {}
    """
    begin, *parts = PLACEHOLDER.split(sentence)
    if not parts or not text.startswith(begin):
        return {}
    values, place = {}, len(begin)
    *pairs, last = zip(parts[::2], parts[1::2])
    for name, then in (*pairs, last):
        end = text.find(then, place + 1) if (name, then) != last else len(text) - len(then)
        if end <= place or not text.startswith(then, end):
            return {}
        if values.setdefault(name, text[place:end]) != text[place:end]:
            return {}
        place = end + len(then)
    return values


def current_language() -> str:
    """The language that was chosen: "en", "ko", …"""
    return _chosen[0] if _chosen else os.environ.get("LAB_LANGUAGE", ENGLISH)


@cache
def _catalog(folder: Path, language: str) -> dict[str, str]:
    path = folder / f"{language}.json"
    there = folder.glob("*.json")  # a name from the environment is compared, never opened as it is
    return json.loads(path.read_text(encoding="utf-8")) if path in there else {}
