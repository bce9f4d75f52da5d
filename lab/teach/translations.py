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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from lab.model.language import CATALOGS

FOLDER = Path(__file__).parent / "translations"
HEAD = 'msgid ""\nmsgstr ""\n"Language: {language}\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
WITH_WORDS = {"PANELS", "BURSTS", "KINDS", "UNITS"}
LINK = re.compile(r"\]\(([^)\s]+)|<(https?://[^>]+)>")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"``.+?``|`[^`\n]+`")
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
SENSES = " / "
SENTENCE = re.compile(r"[A-Za-z]{2,},? [A-Za-z]{2,}|^ [a-z]{3,}|^[A-Z][a-z]+: *$")  # or a word beside a value


def languages() -> list[str]:
    """The languages that have translations."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def pairs(language: str, name: str) -> dict[str, str]:
    """Each text of a file with its translation, in order; empty if there is no such file."""
    path = FOLDER / language / f"{name}.po"
    if not path.exists():
        return {}
    with path.open("rb") as file:
        return {str(message.id): str(message.string) for message in read_po(file) if message.id}


def has_words(text: str, kind: str = "markdown") -> bool:
    """Whether a cell holds words that a learner reads: prose, a comment, or a sentence in a string.

    >>> has_words("x = 1  # a comment", "code"), has_words('x["a"]', "code"), has_words('say("two words")', "code")
    (True, False, True)
    """
    if kind != "code":
        return bool(text.strip())
    strings = (getattr(node, "value", "") for node in ast.walk(ast.parse(text)) if _is_text(node))
    return bool(_comments(text)) or any(SENTENCE.search(string) for string in strings)


def faults(text: str, translation: str, terms: dict[str, str], kind: str = "markdown") -> Iterator[str]:
    """What is wrong with a translation: empty, other code, or a link, inline code, figure or term that is missing."""
    if not translation.strip():
        yield "no translation"
    elif kind == "code":
        if _code(text) != _code(translation):
            yield "the code differs in more than strings and comments"
    else:
        prose, translated = FENCED.sub("", text), FENCED.sub("", translation)
        plain, spoken = INLINE.sub("", prose), INLINE.sub("", translated)
        for what, one, other in (
            ("link", _links(prose), _links(translated)),
            ("code", INLINE.findall(prose), INLINE.findall(translated)),
            ("figure", FIGURE.findall(plain), FIGURE.findall(spoken)),
        ):
            yield from (f"{what} {missing} is missing" for missing in Counter(one) - Counter(other))
        for term in sorted(terms, key=len, reverse=True):
            found = re.compile(rf"\b{term}s?\b", re.IGNORECASE)
            said = terms[term].split(SENSES)
            if found.search(plain) and not any(word in spoken for word in said):
                yield f"{term!r} is not translated as {terms[term]!r}"
            plain = found.sub("", plain)


def update(language: str, name: str, texts: list[str]) -> Path:
    """Writes the file for these texts; those that it has already keep their translation."""
    known, catalog = pairs(language, name), Catalog(fuzzy=False)
    for text in texts:
        catalog.add(text, known.get(text, ""))
    path = FOLDER / language / f"{name}.po"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(HEAD.format(language=language).encode())
        write_po(file, catalog, width=0, omit_header=True)
    return path


def words() -> list[str]:
    """The sentences of the kit that `say` gives, and those of the exercises of translated lessons."""
    package = FOLDER.parent.parent
    modules = {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
    lessons = {f"lesson{int(path.stem[:2])}.py" for path in FOLDER.glob("*/[0-9]*.po")}
    said = [text for tree in modules.values() for text in _said(tree)]
    said += [text for path, tree in modules.items() if path.name in lessons for text in _of_exercises(tree)]
    return list(dict.fromkeys(said))


def compile_words() -> None:
    """Writes the catalogs that `say` reads, of `words.po` of each language."""
    CATALOGS.mkdir(exist_ok=True)
    for language in languages():
        if there := pairs(language, "words"):
            text = json.dumps(there, ensure_ascii=False, indent=1)
            (CATALOGS / f"{language}.json").write_text(text + "\n")


def _said(tree: ast.Module) -> Iterator[str]:
    """Sentences that a module gives to `say`: as they stand, as a constant, or out of one of the tables WITH_WORDS."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    if not any(node.module == "lab.model.language" for node in imports):
        return
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = {getattr(target, "id", None): node.value for node in assigned for target in node.targets}
    for name in constants.keys() & WITH_WORDS:
        yield from _texts(constants[name])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("say", "_say"):
            given = constants.get(getattr(node.args[0], "id", ""), node.args[0])
            yield from _texts(given) if isinstance(given, ast.Constant) else ()


def _of_exercises(tree: ast.Module) -> Iterator[str]:
    """What the exercises of a lesson say to an answer."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("because", "hints", "unit"):
            yield from _texts(node.value)
        elif isinstance(node, ast.keyword) and node.arg == "cases" and isinstance(node.value, ast.Tuple):
            whys = [case.elts[2] for case in node.value.elts if isinstance(case, ast.Tuple) and case.elts[2:]]
            yield from (text for why in whys for text in _texts(why))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Mistake":
            yield from _texts(node.args[1])


def _texts(node: ast.AST) -> Iterator[str]:
    yield from (getattr(part, "value", "") for part in ast.walk(node) if _is_text(part))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _comments(code: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


class _WithoutTexts(ast.NodeTransformer):
    """Empties strings. The values in an f-string are sorted, as other languages may say them in another order."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if _is_text(node) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        values = [value for value in node.values if not _is_text(value)]
        return ast.JoinedStr(sorted(map(self.visit, values), key=ast.dump))


def _code(text: str) -> str:
    return ast.dump(_WithoutTexts().visit(ast.parse(text)))


def _links(text: str) -> list[str]:
    return [target or address for target, address in LINK.findall(text)]
