"""How a condition compares a field of an event: a row for each operator, with all that there is to know about it.

    amount > 500        ip not in 10.0.0.0/8        name startsWith "A"        name contains ("B", "C")        country is null

The reader, the truth of one event (`lab.model.when`) and of a column of events (`lab.engine.records.conditions`), refusals and
the table in docs/rules.md take an operator from here; no other code names it. A comparison with null is false, also a negated one.
"""

import operator as compare
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Literal

from lab.model.patterns import compile_pattern, search_text

RELATIONS = {
    "=": compare.eq,
    "!=": compare.ne,
    "<": compare.lt,
    "<=": compare.le,
    ">": compare.gt,
    ">=": compare.ge,
}
Network = IPv4Network | IPv6Network
Texts = Callable[[Any, Any, Any], Any]
Numbers = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Operator:
    """An operator, or its negation.

    `takes`: "value" a value or another field, "texts" a text, or a list of which one is enough (so it is for texts), "values" a
    list or networks, "nothing" nothing.
    `holds`: whether it is true of a value and what it takes, one text of a list, neither of them null.
    `texts`: the same for a column of texts, from pyarrow.compute, the column and the operand; without it, each different text is
    looked at. `numbers`: for a column of numbers, from numpy; without it `holds` compares the column as it would a number.
    `check`: raises ValueError if a text is none that it takes.
    `negation`: the words of the operator that is true where this one is not. `examples`, `meaning`: a row of the documentation's table.
    """

    name: str
    takes: Literal["value", "texts", "values", "nothing"]
    holds: Callable[[Any, Any], bool]
    negation: str = ""
    texts: Texts | None = None
    numbers: Numbers | None = None
    check: Callable[[str], Any] = str
    examples: tuple[str, ...] = ()
    meaning: str = ""
    is_negated: bool = False

    @property
    def words(self) -> str:
        """How a condition writes it."""
        return self.negation if self.is_negated else self.name

    @property
    def is_sign(self) -> bool:
        return self.name in RELATIONS

    @property
    def follows_not(self) -> bool:
        """Whether it is an operator that `not` before it negates."""
        return self.negation == f"not {self.name}" and not self.is_negated

    def compare(self, value: Any, operand: Any) -> bool:
        """Whether it is true of a field's value.

        >>> [OPERATORS["not startsWith"].compare(text, ("K", "C")) for text in ("KR", "US", None)]
        [False, True, False]
        """
        if self.takes == "nothing":
            return self.holds(value, None) != self.is_negated
        return value is not None and operand is not None and self.holds_of(value, operand) != self.is_negated

    def holds_of(self, value: Any, operand: Any) -> bool:
        """The same without the negation, of a value and an operand that are not null."""
        return any(self.holds(value, each) for each in self.alternatives(operand))

    def alternatives(self, operand: Any) -> tuple:
        """The operands of which one is enough."""
        return operand if self.takes == "texts" and isinstance(operand, tuple) else (operand,)


def with_negations(operators: Iterable[Operator]) -> dict[str, Operator]:
    """Operators and their negations, by their words."""
    both = ((each, replace(each, is_negated=True)) if each.negation else (each,) for each in operators)
    return {operator.words: operator for pair in both for operator in pair}


def operator_named(words: str) -> Operator | None:
    """The operator with these words, in small or capital letters."""
    return next((each for known, each in OPERATORS.items() if known.lower() == words.lower()), None)


def first_words() -> tuple[str, ...]:
    """The words with which operators begin, in small letters."""
    return tuple(
        dict.fromkeys(each.words.lower().split()[0] for each in OPERATORS.values() if not each.is_sign)
    )


def markdown_rows() -> list[str]:
    """The rows of the table in docs/rules.md."""
    return [
        f"| {', '.join(f'`{example}`' for example in each.examples)} | {each.meaning} |"
        for each in OPERATORS.values()
        if each.meaning and not each.is_negated
    ]


# -- networks ----------------------------------------------------------------------------------------------------------


def are_networks(values: tuple) -> bool:
    """Whether the operand of `in` is networks instead of values."""
    return isinstance(values[0], IPv4Network | IPv6Network)


def parse_ip_address(text: str) -> IPv4Address | IPv6Address | None:
    """The IP address that a text is, or None: such a text lies in no network.

    >>> parse_ip_address("10.1.2.3"), parse_ip_address("010.1.2.3"), parse_ip_address("::1")
    (IPv4Address('10.1.2.3'), None, IPv6Address('::1'))
    """
    try:
        return ip_address(text)
    except ValueError:
        return None


def _is_in(value: Any, operand: Container) -> bool:
    if not isinstance(operand, tuple) or not are_networks(operand):
        return value in operand
    address = parse_ip_address(value)
    if address is None:
        return False
    return any(int(address) >> shift in prefixes for shift, prefixes in _prefixes(operand)[address.version])


@lru_cache(maxsize=256)
def _prefixes(networks: tuple[Network, ...]) -> dict[int, list[tuple[int, set[int]]]]:
    """Of IPv4 and IPv6: how far to shift an address to the right, and which numbers the networks are then."""
    by_shift: dict[tuple[int, int], set[int]] = {}
    for network in networks:
        shift = network.max_prefixlen - network.prefixlen
        by_shift.setdefault((network.version, shift), set()).add(int(network.network_address) >> shift)
    return {
        version: [(shift, prefixes) for (of, shift), prefixes in by_shift.items() if of == version]
        for version in (4, 6)
    }


# -- the operators -----------------------------------------------------------------------------------------------------

OPERATORS = with_negations(
    (
        Operator("=", "value", compare.eq, texts=lambda pc, column, other: pc.equal(column, other)),
        Operator("!=", "value", compare.ne, texts=lambda pc, column, other: pc.not_equal(column, other)),
        Operator("<", "value", compare.lt, texts=lambda pc, column, other: pc.less(column, other)),
        Operator("<=", "value", compare.le, texts=lambda pc, column, other: pc.less_equal(column, other)),
        Operator(
            *(">", "value", compare.gt),
            texts=lambda pc, column, other: pc.greater(column, other),
            examples=("amount > 500",),
            meaning="also `>=`, `<`, `<=`, `=`, `!=`. Numbers are compared exactly, texts by code points",
        ),
        Operator(">=", "value", compare.ge, texts=lambda pc, column, other: pc.greater_equal(column, other)),
        Operator(
            *("in", "values", _is_in, "not in"),
            texts=lambda pc, column, values: pc.is_in(column, values),
            numbers=lambda numpy, column, values: numpy.isin(column, values),
            examples=("country in (KR, CN)", "country not in (KR, CN)", "country in @highrisk"),
            meaning="the value is, or is not, in the list: one in brackets of at most 1,000 values, or a named one",
        ),
        Operator(
            *("startsWith", "texts", str.startswith, "not startsWith"),
            texts=lambda pc, column, text: pc.starts_with(column, text),
            examples=('userAgent startsWith "curl"', 'userAgent not startsWith ("curl", "Wget")'),
            meaning="the text begins, or does not begin, with this, or with one of these",
        ),
        Operator(
            *("contains", "texts", compare.contains, "not contains"),
            texts=lambda pc, column, text: pc.match_substring(column, text),
            examples=('userAgent contains "bot"', 'userAgent not contains ("Headless", "bot")'),
            meaning="this, or one of these, stands, or does not stand, anywhere in the text",
        ),
        Operator(
            *("endsWith", "texts", str.endswith, "not endsWith"),
            texts=lambda pc, column, text: pc.ends_with(column, text),
            examples=('email endsWith "@example.com"', 'email not endsWith (".com", ".org")'),
            meaning="the text ends, or does not end, with this, or with one of these",
        ),
        Operator(
            *("matches", "texts", search_text, "not matches"),
            check=compile_pattern,
            examples=('userAgent matches "^curl/[78]"', 'userAgent not matches ("(?i)bot", "spider$")'),
            meaning="this regular expression, or one of these, matches, or does not match, a part of the text; see below",
        ),
        Operator(
            *("is null", "nothing", lambda value, _: value is None, "is not null"),
            examples=("country is null", "country is not null"),
            meaning="the field is missing, or is not",
        ),
    )
)
