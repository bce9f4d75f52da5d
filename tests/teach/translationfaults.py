"""What is wrong with a translation."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from lab.teach.sentences import is_string_constant
from lab.teach.translations import FENCED

LINK = re.compile(r"\]\(([^)\s]+)|<(https?://[^>]+)>")
INLINE = re.compile(r"``.+?``|`[^`\n]+`")
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
SENSES = " / "


def translation_faults(
    text: str, translation: str, terms: dict[str, str], kind: str = "markdown"
) -> Iterator[str]:
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
        lowered = plain.lower()
        for term in sorted((term for term in terms if term.lower() in lowered), key=len, reverse=True):
            found = re.compile(rf"\b{term}s?\b", re.IGNORECASE)
            said = terms[term].split(SENSES)
            if found.search(plain) and not any(word in spoken for word in said):
                yield f"{term!r} is not translated as {terms[term]!r}"
            plain = found.sub("", plain)


class _WithoutTexts(ast.NodeTransformer):
    """Empties strings. The values in an f-string are sorted, as other languages may say them in another order."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if is_string_constant(node) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        values = [value for value in node.values if not is_string_constant(value)]
        return ast.JoinedStr(sorted(map(self.visit, values), key=ast.dump))


def _code(text: str) -> str:
    return ast.dump(_WithoutTexts().visit(ast.parse(text)))


def _links(text: str) -> list[str]:
    return [target or address for target, address in LINK.findall(text)]
