"""Saying what is wrong, showing what there is."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from difflib import get_close_matches
from html import escape

# moves the cursor, sets colours, turns text around or cannot be seen: C0, DEL, C1, marks and overrides of direction, line ends,
# half characters, signs without width, fillers, tags. Joiners and variation selectors stay: scripts and emoji need them
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# how OWASP says that formulas begin, also in full width
FORMULA = re.compile("(?:^|(?<=;))(?=[=+\\-@\t\r\n＝＋－＠])")
CODE = re.compile(r"`([^`\n]+)`")
NUMBER, LEFT = re.compile(r"-?[\d.,]+"), ' style="text-align:left"'


def escape_control_characters(text: str, keep: str = "") -> str:
    """Makes untrusted text safe for a terminal or a page: control characters are written as JSON escapes them.

    `keep`: control characters that may stay. Brackets stay: callers that print with rich pass markup=False, or a `Text`.

    >>> escape_control_characters("\\x1b[31mred\\u202e")
    '\\\\u001b[31mred\\\\u202e'
    """
    return UNSEEN.sub(lambda found: found[0] if found[0] in keep else _escaped(found[0]), text)


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if "\x7f" <= character <= "\uffff" else json.dumps(character)[1:-1]


def html_with_code(text: str) -> str:
    """A text as HTML, in which what is between backticks is code.

    >>> html_with_code("`a < b` and b")
    '<code>a &lt; b</code> and b'
    """
    return CODE.sub(r"<code>\1</code>", escape(text))


def spreadsheet_cell(value: object) -> object:
    """A value for a spreadsheet: a text that it would take for a formula begins with an apostrophe; numbers stay numbers.

    So does what comes after a semicolon, with which spreadsheets of many countries begin a new cell.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-5.20"), spreadsheet_cell("a=b"), spreadsheet_cell("x;=1+1")
    ("'=1+1", '-5.20', 'a=b', "x;'=1+1")
    """
    if not isinstance(value, str) or NUMBER.fullmatch(value):
        return value
    return escape_control_characters(FORMULA.sub("'", value))


def shorten(text: str, at_most: int) -> str:
    """A text of at most so many characters; a longer one ends with "…".

    >>> shorten("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= at_most else text[: at_most - 1] + "…"


def expected_message(name: str, value: object, allowed: str) -> str:
    """The text of an error: what is wrong where, and what is allowed there."""
    return f"{name}: {'nothing' if value is None else short_json(value)}, expected {allowed}"


def short_json(value: object) -> str:
    """A value as it reads in JSON, cut to 60 characters."""
    match value:
        case dict():
            return "an object"
        case list() | tuple():
            return "a list" if value else "an empty list"
        case str() | bool() | None:
            text = json.dumps(value, ensure_ascii=False)
        case int():
            text = str(Decimal(value))  # str(int) refuses thousands of digits
        case _:
            text = str(value)
    text = escape_control_characters(text)
    return shorten(text, 60)


def unknown_name_message(what: str, name: str, known: Iterable[str]) -> str:
    """The text of an error about a name: the closest known one, then all of them.

    >>> unknown_name_message("field", "RESULT", ["Result", "result"])
    'unknown field "RESULT", did you mean Result? (known: Result, result)'
    """
    listed = list(known)
    by_lower: dict[str, str] = {}
    for each in listed:
        by_lower.setdefault(each.lower(), each)
    close = get_close_matches(name[:100].lower(), by_lower, n=1)
    names = ", ".join(listed)
    if close:
        return f"unknown {what} {short_json(name)}, did you mean {by_lower[close[0]]}? (known: {names})"
    return f"unknown {what} {short_json(name)} (known: {names})"


@contextmanager
def file_named_in_errors(path: object) -> Iterator[None]:
    """Adds the name of a file to an OSError that names none, such as that of a full disk.

    >>> with file_named_in_errors("logs/events"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'logs/events'
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def plain_text(value: object) -> str:
    """A value as text; a decimal without an exponent."""
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


class TableOfResults:
    """A result that is a table with sentences below it: a terminal prints its `text`, a notebook shows it as HTML.

    What is in it may come from strangers, and is escaped. Without rows there is no table. A result has a `title`, which names the
    table for screen readers, and a `table`, header and rows; it may have `sentences`, and a `picture` in HTML.

    >>> class Sizes(TableOfResults):
    ...     def title(self):
    ...         return "Sizes"
    ...     def table(self):
    ...         return ["name", "bytes"], [["a\\x1b", "1,000"]]
    ...     def sentences(self):
    ...         return ["As of today."]
    >>> print(Sizes().text())
       name  bytes
    a\\u001b  1,000
    As of today.
    """

    def title(self) -> str:
        raise NotImplementedError

    def table(self) -> tuple[list[str], list[list[str]]]:
        raise NotImplementedError

    def sentences(self) -> Sequence[str]:
        return ()

    def picture(self) -> str:
        return ""

    def text(self) -> str:
        """For a terminal."""
        header, rows = self.table()
        cells = [[escape_control_characters(cell) for cell in row] for row in rows]
        said = map(escape_control_characters, self.sentences())
        return "\n".join([*([text_table(header, cells)] if rows else []), *said])

    def _repr_html_(self) -> str:
        header, rows = self.table()
        said = "".join(f"<p>{escape(escape_control_characters(each))}</p>" for each in self.sentences())
        return self.picture() + (html_table(self.title(), header, rows) if rows else "") + said


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for terminals, columns to the right.

    >>> print(text_table(("name", "bytes"), [("a", "1,000")]))
    name  bytes
       a  1,000
    """
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    return "\n".join("  ".join(map(str.rjust, row, widths)) for row in (header, *rows))


def html_table(aria_label: str, header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A small HTML table for notebooks, every cell escaped; columns of text stand left, numbers right, as Jupyter has them.

    `aria_label`: the table's name for screen readers.

    >>> html_table("Rules", ["n", "state"], [[1, "ok"]]).partition("<tbody>")[2]
    '<tr><td>1</td><td style="text-align:left">ok</td></tr></tbody></table>'
    """
    names, cells = (
        list(header),
        [[escape(escape_control_characters(str(value), "\n")) for value in row] for row in rows],
    )
    styles = ["" if all(map(NUMBER.fullmatch, column)) else LEFT for column in zip(*cells)]

    def line(tag: str, row: Iterable[str]) -> str:
        filled = (f"<{tag}{style}>{text}</{tag}>" for text, style in zip(row, styles or [LEFT] * len(names)))
        return f"<tr>{''.join(filled)}</tr>"

    body = "".join(line("td", row) for row in cells)
    head = line("th", (escape(escape_control_characters(aria_label)) for aria_label in names))
    label = f'aria-label="{escape(escape_control_characters(aria_label))}"'
    return f"<table {label}><thead>{head}</thead><tbody>{body}</tbody></table>"
