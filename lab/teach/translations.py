"""Translations of the lessons: `translations/<language>/<lesson>.po` pairs each cell of `notebooks/source` with its translation.

    python -m lab.teach.lessons ko 03-custom-windows

writes such a file, with an empty translation for each cell that has words, or brings it up to date after a change of the
source: translations of unchanged cells stay. `terms.po` of a language is its glossary; every translation keeps to it. A
term with several senses has several translations there, with " / " between them.
"""

import ast
import io
import json
import re
import tokenize
from functools import lru_cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from lab.model.language import CATALOGS, MESSAGES
from lab.teach.sentences import is_string_constant, shape

FOLDER = Path(__file__).parent / "translations"
HEAD = 'msgid ""\nmsgstr ""\n"Language: {language}\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# in the page: of an element, of an attribute, in a script
MARKED = re.compile(r"data-say(?=[ >])[^>]*>([^<]+)<")
MARKED_ATTRIBUTE = re.compile(r'data-say-[a-z-]+="([^"]+)"')
SAID_IN_PAGE = re.compile(r'\bsay\(("(?:[^"\\]|\\.)*")')
PAGE_REASONS = (  # why the page refuses a record or a file, where the kit in Python has other words, or none
    "The file is one JSON list; expected one record per line: jq -c '.[]' makes lines of it.",
    "No record could be read; expected JSON, one object per line, or CSV with a header.",
    "No event time: no field of all records is a time, as ISO 8601 text or as a number of s, ms, us or ns since the epoch.",
    "No id: no column has a different value in each row.",
    "no record has {fields}",
    "line {number}: expected a name, = and what it is, such as day = date(time)",
    "taken_back: the page takes no events back; lab run and lab replay do",
)
SENTENCE = re.compile(r"[A-Za-z]{2,},? [A-Za-z]{2,}|^ [a-z]{3,}|^[A-Z][a-z]+: *$")  # or a word beside a value


def languages() -> list[str]:
    """The languages that have translations."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def read_translations(language: str, name: str) -> dict[str, str]:
    """Each text of a file with its translation, in order; empty if there is no such file."""
    path = FOLDER / language / f"{name}.po"
    if not path.exists():
        return {}
    found = path.stat()
    return dict(_parse_po(path, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=64)
def _parse_po(path: Path, mtime_ns: int, size: int) -> dict[str, str]:
    """Parses a file once for each state of it: a notebook needs the same file for each of its cells."""
    with path.open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file) if message.id}


def has_words(text: str, kind: str = "markdown") -> bool:
    """Whether a cell holds words that a learner reads: prose, a comment, or a sentence in a string.

    >>> has_words("x = 1  # a comment", "code"), has_words('x["a"]', "code"), has_words('say("two words")', "code")
    (True, False, True)
    """
    if kind != "code":
        return bool(text.strip())
    strings = (getattr(node, "value", "") for node in ast.walk(ast.parse(text)) if is_string_constant(node))
    return bool(_comments(text)) or any(SENTENCE.search(string) for string in strings)


def update_po_file(language: str, name: str, texts: list[str]) -> Path:
    """Writes the file for these texts; those that it has already stay as they are, with their translation."""
    known = {shape(pair[0], name): pair for pair in read_translations(language, name).items()}
    catalog = Catalog(fuzzy=False)
    for text in texts:
        catalog.add(*known.get(shape(text, name), (text, "")))
    path = FOLDER / language / f"{name}.po"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(HEAD.format(language=language).encode())
        write_po(file, catalog, width=0, omit_header=True)
    return path


def page_sentences() -> list[str]:
    """The sentences of the room as one HTML file."""
    folder = FOLDER.parent.parent / "page"
    html = (folder / "page.html").read_text()
    said = MARKED.findall(html) + MARKED_ATTRIBUTE.findall(html)
    for name in ("room.js", "alertwindow.js", "lists.js", "form.js"):
        said += [json.loads(text) for text in SAID_IN_PAGE.findall((folder / name).read_text())]
    return list(dict.fromkeys(said))


def page_catalog_texts(language: str) -> list[str]:
    """Those that the language's `words.po` does not have, and the page's own reasons."""
    known = read_translations(language, "words")
    return [*(text for text in page_sentences() if text not in known), *PAGE_REASONS]


def page_refusal_translations(language: str) -> dict[str, str]:
    """The sentences with which the page's engine refuses, which are English there, with their translations; the first that fits counts."""
    own = read_translations(language, "page")
    return {text: own[text] for text in PAGE_REASONS} | read_translations(language, "messages")


def write_json_catalogs() -> None:
    """Writes the catalogs that `say` and `translated` read, of `words.po` and `messages.po` of each language."""
    for language in languages():
        for name, folder in (("words", CATALOGS), ("messages", MESSAGES)):
            if there := read_translations(language, name):
                folder.mkdir(exist_ok=True)
                text = json.dumps(there, ensure_ascii=False, indent=1)
                (folder / f"{language}.json").write_text(text + "\n")


def _comments(code: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
