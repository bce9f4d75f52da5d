"""How the numbers and dates of a CSV column are written, decided by its first cells: each column by itself.

€ 1.234,50    12,50-    (3.20)    1'234.50    13/05/2024
1234.50      -12.50     -3.20     1234.50     2024-05-13
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lab.model.formatting import short_json
from lab.model.jsontext import DECIMAL_TEXT

LONGEST = 60  # characters of a number
NEARLY_ALL = (
    0.9  # this share of cells must be numbers before those of a column without a type are read as such
)
DECIMAL_MARKS = {".": ",", ",": "."}  # and what divides thousands then
CURRENCY = "[€$£¥₩₹%]|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|SGD|TRY|TWD|USD|ZAR"
NUMBER = re.compile(
    rf"(?P<before>[+−-])?\s?(?P<first>{CURRENCY})?\s?(?P<sign>[+−-])?"
    rf"(?P<number>[0-9.,'’\u00a0\u202f ]*[0-9])\s?(?P<last>{CURRENCY})?(?P<after>[−-])?"
)
SPACE = re.compile("[0-9][ \u00a0\u202f][0-9]")
WAY = "Have numbers written as 1234.50 if that is wrong"
GROUPED = {
    mark: re.compile(rf"[1-9][0-9]{{0,2}}([{group}'’\u00a0\u202f ])[0-9]{{3}}(\1[0-9]{{3}})*")
    for mark, group in DECIMAL_MARKS.items()
}
DOTTED = re.compile(
    r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(?:[ T]+([0-9]{1,2})(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?))?"
)
ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
SLASHED = re.compile(DOTTED.pattern.replace(r"\.([0-9]{1,2})\.", "/([0-9]{1,2})/"))


class NumberText(NamedTuple):
    """A number as a cell has it: `readings` are its plain texts, by decimal mark."""

    text: str
    readings: dict[str, str]
    currency: str

    @property
    def mark(self) -> str:
        """The only decimal mark that it can have; "" if both give the same number, "?" if they give different ones."""
        if len(self.readings) == 1:
            return next(iter(self.readings))
        return "" if len(set(self.readings.values())) == 1 else "?"


def take_apart(cell: str) -> NumberText | None:
    """A number with what may stand around it; None if the cell is none.

    >>> take_apart("€ 1.234,50").readings, take_apart("1.234-").readings, take_apart("1.2.3")
    ({',': '1234.50'}, {'.': '-1.234', ',': '-1234'}, None)
    """
    in_brackets = cell[:1] == "(" and cell[-1:] == ")"
    found = NUMBER.fullmatch(cell.strip("()") if in_brackets else cell) if len(cell) <= LONGEST else None
    if not found:
        return None
    signs = [sign for sign in found.group("before", "sign", "after") if sign]
    currencies = [each for each in found.group("first", "last") if each]
    if len(signs) + in_brackets > 1 or len(currencies) > 1:
        return None
    minus = "-" * (in_brackets or (bool(signs) and signs[0] != "+"))
    readings = {}
    for mark, grouped in GROUPED.items():
        whole, marked, fraction = found["number"].partition(mark)
        if marked and not fraction.isdigit():
            continue
        if grouped.fullmatch(whole):
            whole = re.sub("[^0-9]", "", whole)
        if whole.isdigit() or (marked and not whole):
            readings[mark] = f"{minus}{whole or 0}{'.' if marked else ''}{fraction}"
    return NumberText(cell, readings, "".join(currencies)) if readings else None


@dataclass(frozen=True)
class ColumnStyle:
    """How a column is written. `mark`: its decimal mark, "" if nothing tells; `own_mark`: whether its own cells tell, not other columns;
    `currency`: what stands beside its numbers; `day_first`: of dates with slashes.

    `is_number`: whether nearly all of its cells are numbers; `doubts`: what may be wrong, for people.
    """

    mark: str = ""
    currency: str = ""
    is_number: bool = False
    day_first: bool | None = None
    own_mark: bool = False
    doubts: tuple[str, ...] = field(default=(), compare=False)

    def has_other_mark(self, cell: str) -> bool:
        """Whether a plain number has a decimal point although the column has decimal commas: such a cell is no number of it.

        >>> style = ColumnStyle(",", own_mark=True)
        >>> style.has_other_mark("22.56"), style.has_other_mark("1.234"), style.has_other_mark("22,56")
        (True, False, False)
        """
        if self.mark != "," or not self.own_mark or "." not in cell:
            return False
        found = take_apart(cell)
        return bool(found and found.mark == ".")

    def number(self, cell: str) -> str:
        """A cell as a plain number; one that is none, or not written so, as it stands."""
        if DECIMAL_TEXT.fullmatch(cell) and (self.mark != "," or "." not in cell):
            return cell
        found = take_apart(cell)
        if not found or found.currency not in ("", self.currency):
            return cell
        mark = (
            self.mark if found.mark else next(iter(found.readings))
        )  # without one, all give the same number
        return found.readings.get(mark, cell)

    def date(self, cell: str) -> str:
        """A day with dots or slashes before month and year as ISO 8601 has it; anything else stays.

        >>> ColumnStyle().date("1.05.2024 9:30"), ColumnStyle(day_first=False).date("5/13/2024")
        ('2024-05-01 09:30', '2024-05-13')
        """
        found = DOTTED.fullmatch(cell) or (self.day_first is not None and SLASHED.fullmatch(cell))
        if not found:
            return cell
        day, month, year, hour, rest, *_ = found.groups()
        if found.re is SLASHED and not self.day_first:
            day, month = month, day
        clock = f" {hour:0>2}{rest}" if hour else ""
        return f"{year}-{month:0>2}-{day:0>2}{clock}"


def column_styles(names: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str) -> list[ColumnStyle]:
    """The style of each column, by the cells of some rows."""
    columns: list[list[str]] = [[] for _ in names]
    for row in rows:
        for column, cell in zip(columns, row):
            if cell := cell.strip():
                column.append(cell)
    numbers = [[number for cell in column if (number := take_apart(cell))] for column in columns]
    told = {
        mark
        for cells, column in zip(columns, numbers)
        if len(column) >= NEARLY_ALL * len(cells)
        if (mark := _mark_of_nearly_all(column))
    }
    usual = told.pop() if len(told) == 1 else ""
    return [_style(cells, of, usual, delimiter) for cells, of in zip(columns, numbers)]


def _mark_of_nearly_all(numbers: Iterable[NumberText]) -> str:
    """The decimal mark of nearly all numbers that can have only one; "" if there are none, or they contradict each other."""
    marks = Counter(number.mark for number in numbers if number.mark in DECIMAL_MARKS)
    mark, count = max(marks.items(), key=lambda each: each[1], default=("", 0))
    return mark if count >= NEARLY_ALL * marks.total() else ""


def _style(cells: list[str], numbers: list[NumberText], usual: str, delimiter: str) -> ColumnStyle:
    """The style of a column with these cells. `usual`: the decimal mark of the other columns, if it is always the same."""
    firsts = {number.mark: number for number in reversed(numbers)}
    own, unclear = sorted(firsts.keys() & DECIMAL_MARKS.keys()), firsts.get("?")
    currencies = list(dict.fromkeys(number.currency for number in numbers if number.currency))
    doubts, mark = [], _mark_of_nearly_all(numbers)
    if mark and len(own) == 2:
        other = firsts[DECIMAL_MARKS[mark]].text
        doubts.append(
            f"{short_json(other)} has another decimal mark than nearly all numbers of this column, such as {short_json(firsts[mark].text)}: "
            "such records will be dead letters"
        )
    elif len(own) == 2:
        both = " and ".join(short_json(firsts[each].text) for each in own)
        doubts.append(f"{both} contradict each other: is a point or a comma the decimal mark? {WAY}")
    elif unclear and not own:
        mark = usual or ("." if delimiter == "," or "." in unclear.text else "")
        if (usual, "." in unclear.text) != (".", True):
            doubts.append(_unclear(unclear, mark))
    elif not own:
        mark = usual
    if len(currencies) > 1:
        doubts.append(f"amounts in {', '.join(currencies[:5])}, which stay texts: sums would mix them. {WAY}")
    spaced = not own and not currencies and any(SPACE.search(number.text) for number in numbers)
    if spaced:
        doubts.append(
            f"numbers with spaces, which stay texts: they may be codes, such as phone numbers. {WAY}"
        )
    plain = sum(1 for cell in cells if DECIMAL_TEXT.fullmatch(cell) and not take_apart(cell))
    is_number = bool(cells) and len(numbers) + plain >= NEARLY_ALL * len(cells)
    is_readable = (len(own) < 2 or bool(mark)) and len(currencies) < 2 and not spaced
    currency = currencies[0] if len(currencies) == 1 else ""
    doubts = doubts if is_number else _mixed_dates(cells)
    return ColumnStyle(mark, currency, is_number and is_readable, _day_first(cells), bool(own), tuple(doubts))


def _mixed_dates(cells: Sequence[str]) -> list[str]:
    """A doubt about days with dots beside dates that are written otherwise: both are read, but a reader should know."""
    dotted = [cell for cell in cells if DOTTED.fullmatch(cell)]
    others = [cell for cell in cells if ISO_DAY.match(cell)]
    if not dotted or not others:
        return []
    few, many = sorted((dotted, others), key=len)
    usual, other = short_json(many[0]), short_json(few[0])
    return [
        f"{len(few):,} of the first {len(cells):,} are not written as {usual}, the first is {other}: both are read, with the day before the month"
    ]


def _unclear(number: NumberText, mark: str) -> str:
    """The doubt about a number that has two readings, of which that with a decimal mark is taken; none if it is ""."""
    one, other = (number.readings[each] for each in (mark or ",", DECIMAL_MARKS[mark or ","]))
    taken = (
        f"is read as {one}, but it could be {other}"
        if mark
        else f"stays a text: it could be {one} or {other}"
    )
    return f"{short_json(number.text)} {taken}: no number of this column tells whether the decimal mark is a point or a comma. {WAY}"


def _day_first(cells: Iterable[str]) -> bool | None:
    """Whether the day is before the month in dates with slashes; None if nothing tells, or they contradict each other."""
    found = [match for match in map(SLASHED.fullmatch, cells) if match]
    first, second = (any(int(match[n]) > 12 for match in found) for n in (1, 2))
    return None if first == second else first
