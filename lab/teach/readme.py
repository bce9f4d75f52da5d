"""The README in other languages: paragraphs are translated, fenced blocks, with their commands and figures, are taken over.

README.md ──► paragraphs ──► translations/ko/README.po ──► README.ko.md
"""

import re
from pathlib import Path

from lab.teach import translations

PATH = Path(__file__).parent.parent.parent / "README.md"
NAMES = {"en": "English", "ko": "한국어", "zh": "中文"}
HEADING = re.compile(r"^#+ (.+)$")


def readme_path(language: str) -> Path:
    """Where the README of a language is: README.ko.md."""
    return PATH if language == "en" else PATH.with_suffix(f".{language}.md")


def translatable_paragraphs() -> list[str]:
    """What is translated of the README: everything but fenced blocks, pictures and the links to its translations."""
    return [block for block in _blocks() if _is_translated(block)]


def translated_readme(language: str) -> str:
    """The README in a language."""
    pairs, text = translations.read_translations(language, "README"), PATH.read_text()
    blocks = []
    for block in _blocks():
        if block == _languages("en"):
            blocks.append(_languages(language))
        elif _is_translated(block):
            anchor = _anchor(block)
            blocks += [f'<a id="{anchor}"></a>'] if f"(#{anchor})" in text else []
            blocks.append(pairs.get(block, block))
        else:
            blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def _blocks() -> list[str]:
    """Paragraphs, and fenced blocks, which may have empty lines."""
    parts = re.split(rf"({translations.FENCED.pattern})", PATH.read_text(), flags=translations.FENCED.flags)
    blocks = [[part] if part.startswith("```") else re.split(r"\n{2,}", part) for part in parts]
    return [block.strip("\n") for of_part in blocks for block in of_part if block.strip()]


def _is_translated(block: str) -> bool:
    return not block.startswith(("```", "</details>")) and block != _languages("en")


def _languages(language: str) -> str:
    others = [other for other in NAMES if other != language]
    return " · ".join(f"[{NAMES[other]}]({readme_path(other).name})" for other in others)


def _anchor(block: str) -> str:
    """The anchor that a heading has on a page of its Markdown.

    >>> _anchor("## Fast enough?")
    'fast-enough'
    """
    heading = HEADING.match(block)
    return re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-") if heading else ""
