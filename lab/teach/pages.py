"""The README and the pages for learners and teachers in other languages: paragraphs are translated, fenced blocks are taken over.

docs/rules.md ──► paragraphs ──► translations/ko/rules.po ──► docs/rules.ko.md
"""

import os
import re
from pathlib import Path

from lab.model.language import ENGLISH
from lab.teach import translations

ROOT = Path(__file__).parent.parent.parent
PAGES = {  # by the name of their catalog
    "README": ROOT / "README.md",
    "articles": ROOT / "docs" / "articles.md",
    "rules": ROOT / "docs" / "rules.md",
    "teaching": ROOT / "docs" / "teaching" / "README.md",
}
NAMES = {"en": "English", "ko": "한국어", "zh": "中文"}
HEADING = re.compile(r"^#+ (.+)$")
# to a page, or to a lesson as a whole: its sections have other names in another language
LINK = re.compile(r"\]\(([\w./-]+(?:\.md|\.ipynb(?=\))))")


def in_language(path: Path, language: str) -> Path:
    """Where a page of Markdown is in a language.

    >>> in_language(Path("docs/rules.md"), "ko").name, in_language(Path("docs/rules.md"), "en").name
    ('rules.ko.md', 'rules.md')
    """
    return path if language == ENGLISH else path.with_suffix(f".{language}.md")


def translatable_paragraphs(name: str) -> list[str]:
    """What is translated of a page: everything but fenced blocks, pictures and the links to its translations."""
    return [block for block in _blocks(name) if _is_translated(block, name)]


def translated_page(name: str, language: str) -> str:
    """A page in a language. Its links lead to pages and lessons in the same language, where there are such."""
    pairs, blocks = translations.read_translations(language, name), []
    for block in _blocks(name):
        if block == _languages(name, ENGLISH):
            blocks.append(_languages(name, language))
        elif _is_translated(block, name):
            anchor = _anchor(block)
            blocks += [f'<a id="{anchor}"></a>'] if anchor else []
            blocks.append(_with_links(pairs.get(block, block), name, language))
        else:
            blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def _with_links(text: str, name: str, language: str) -> str:
    here = PAGES[name].parent

    def target(link: re.Match) -> str:
        path = here / link[1]
        of_lesson = path.parent / language / path.name
        translated = of_lesson if path.suffix == ".ipynb" else in_language(path, language)
        return f"]({os.path.relpath(translated, here) if translated.exists() else link[1]}"

    return LINK.sub(target, text)


def _blocks(name: str) -> list[str]:
    """Paragraphs, and fenced blocks, which may have empty lines."""
    fenced = translations.FENCED
    parts = re.split(rf"({fenced.pattern})", PAGES[name].read_text(), flags=fenced.flags)
    blocks = [[part] if part.startswith("```") else re.split(r"\n{2,}", part) for part in parts]
    return [block.strip("\n") for of_part in blocks for block in of_part if block.strip()]


def _is_translated(block: str, name: str) -> bool:
    return not block.startswith(("```", "</details>")) and block != _languages(name, ENGLISH)


def _languages(name: str, language: str) -> str:
    others = [other for other in NAMES if other != language]
    return " · ".join(f"[{NAMES[other]}]({in_language(PAGES[name], other).name})" for other in others)


def _anchor(block: str) -> str:
    """The anchor that a heading below the title has on a page of its Markdown.

    >>> _anchor("## Fast enough?")
    'fast-enough'
    """
    heading = HEADING.match(block)
    return re.sub(r"[^\w -]", "", heading[1].lower()).replace(" ", "-") if heading and block[1] == "#" else ""
