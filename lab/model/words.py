"""Saying what is wrong, showing what there is."""

import json
from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from html import escape


def expected(name: str, value: object, allowed: str) -> str:
    """The text of an error: what is wrong where, and what is allowed there."""
    return f"{name}: {'nothing' if value is None else shown(value)}, expected {allowed}"


def shown(value: object) -> str:
    """A value as it reads in JSON, cut to 60 characters."""
    match value:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list" if value else "an empty list"
        case str() | bool() | None:
            text = json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
        case int():
            text = str(Decimal(value))  # str(int) refuses thousands of digits
        case _:
            text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The text of an error about a name: the closest known one, then all of them."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name[:100].lower(), by_lower, n=1)
    guess = f", did you mean {by_lower[close[0]]}?" if close else ""
    return f"unknown {what} {shown(name)}{guess} (known: {', '.join(by_lower.values())})"


def plain(value: object) -> str:
    """A value as text; a decimal without an exponent."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def html_table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A small HTML table for notebooks, every cell escaped."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
