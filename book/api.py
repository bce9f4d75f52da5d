"""The API reference of the book: a page of what `lab` gives, and one for each module that a document names."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import lab

NAMED = re.compile(r"\blab(?:\.[a-z_]+)+\b|\blab/[a-z_/]+\.py\b")
ROOT = Path(lab.__file__).parent.parent
CODE = re.compile(r"(`[^`]*`)")
MARKUP = re.compile(r"([\\*_<>\[\]{}#$|])")


def modules(documents: list[Path]) -> list[str]:
    """The modules that documents name: `lab.model.rules` or `lab/model/rules.py`; and the modules among the public names."""
    found = {getattr(lab, name).__name__ for name in lab.__all__ if inspect.ismodule(getattr(lab, name))}
    for document in documents:
        for text in NAMED.findall(document.read_text()):
            parts = text.removesuffix(".py").replace("/", ".").split(".")
            names = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
            found |= {name for name in names if _is_module(name)}
    return sorted(found)


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() and path.name != "__main__"


def pages(documents: list[Path]) -> dict[str, str]:
    """Name and text of each page, the first of them the list."""
    names = modules(documents)
    listed = "\n".join(names)
    return {
        "index": f"# API reference\n\nWhat notebooks use is in `lab` itself. The modules below are those that the documents name.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\nlab\n{listed}\n```\n",
        "lab": _page("lab", lab, [(name, getattr(lab, name)) for name in sorted(lab.__all__, key=str.lower)]),
        **{name: _page(name, module := import_module(name), _own(module)) for name in names},
    }


def _own(module: Any) -> list[tuple[str, Any]]:
    """The public functions and classes that a module defines."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == module.__name__
    ]


def _page(name: str, module: Any, members: list[tuple[str, Any]]) -> str:
    entries = "\n".join("\n".join(_entry(name, own, value)) for own, value in members)
    return f"# {name}\n\n{prose(inspect.getdoc(module) or '')}\n\n{entries}\n"


def _entry(home: str, name: str, value: Any, fence: str = "::::") -> Iterator[str]:
    text = inspect.getdoc(value) or ""
    if inspect.ismodule(value):
        yield from (f"{fence}{{py:data}} {home}.{name}", f"The module `{value.__name__}`.", fence, "")
    elif inspect.isclass(value):
        yield from (f"{fence}:{{py:class}} {home}.{name}{_signature(value)}", "", prose(text), "")
        for own, member in vars(value).items():
            plain = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)) or member)
            if own.startswith("_") or not inspect.isfunction(plain) or not inspect.getdoc(plain):
                continue
            kind = "py:property" if isinstance(member, property) else "py:method"
            signature = "" if kind == "py:property" else _signature(plain)
            yield from (
                f"{fence}{{{kind}}} {own}{signature}",
                "",
                prose(inspect.getdoc(plain) or ""),
                fence,
                "",
            )
        yield from (f"{fence}:", "")
    elif callable(value):
        yield from (f"{fence}{{py:function}} {home}.{name}{_signature(value)}", "", prose(text), fence, "")
    else:
        yield from (
            f"{fence}{{py:data}} {home}.{name}",
            "",
            prose((type(value).__doc__ or "") if text else ""),
            fence,
            "",
        )


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"
    text = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "…", text)
    text = re.sub(r"^\((self|cls)(, )?", "(", text)
    return re.sub(r"\b(?:collections\.abc|typing|pathlib|decimal|lab(?:\.[a-z_]+)+)\.", "", text).replace(
        "\n", " "
    )


def prose(text: str) -> str:
    """A docstring as Markdown: drawings and examples as they are, the rest as paragraphs.

    >>> print(prose("A *star*, `b*c`.\\n\\n>>> 1\\n1"))
    A \\*star\\*, `b*c`.
    <BLANKLINE>
    ```python
    >>> 1
    1
    ```
    """
    made = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if ">>>" in block:
            before, _, example = block.partition(">>>")
            made += [_escaped(before.strip())] * bool(before.strip())
            made.append(f"```python\n{inspect.cleandoc('>>>' + example)}\n```")
        elif re.search(r"^\s|[─│┌►▼┤├]|->|\s{3}", block, re.MULTILINE):
            made.append(f"```text\n{block}\n```")
        else:
            made.append(_escaped(block))
    return "\n\n".join(made)


def _escaped(text: str) -> str:
    return "".join(part if part.startswith("`") else MARKUP.sub(r"\\\1", part) for part in CODE.split(text))
