"""A group in alerts: its fields and their values for programs, one text for people, and hashes that tell groups apart."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from hashlib import blake2b
from operator import itemgetter
from typing import cast

from lab.model.field import Value
from lab.model.formatting import plain_text
from lab.model.jsontext import compact_json

MAX_KEY = 2_000  # characters of `key`; the text of a longer group is cut, its `group` is not

Group = tuple[tuple[str, int | str], ...]  # field, value


def group_for_alert(names: Iterable[str], values: Iterable[Value]) -> Group:
    """A group as alerts carry it: fields in the rule's order, values as in events, decimals as text. The global group is ().

    >>> group_for_alert(("payeeId", "amount"), (25, Decimal("2E+1")))
    (('payeeId', 25), ('amount', '20'))
    """
    as_json = (plain_text(value) if isinstance(value, Decimal) else value for value in values)
    return tuple(zip(names, cast(Iterator[str | int], as_json), strict=True))


def group_json(group: Group) -> str:
    """A group as JSON; different groups have different texts.

    >>> group_json((("payeeId", 25), ("ip", "a;b")))
    '{"payeeId":25,"ip":"a;b"}'
    """
    return compact_json(dict(group))


def sorted_group(group: Group) -> Group:
    """A group with its fields in alphabetical order: the same for all orders in which rules may name the fields.

    >>> sorted_group((("payeeId", 25), ("ip", "a;b")))
    (('ip', 'a;b'), ('payeeId', 25))
    """
    return tuple(sorted(group, key=itemgetter(0)))


def group_hash(json_text: str) -> str:
    """Tells groups apart in an alert's id, also those that somebody chose: to find two with one hash takes 2^64 attempts."""
    return blake2b(json_text.encode(), digest_size=16).hexdigest()


def group_key(names: Iterable[str], values: Iterable[Value]) -> str:
    """The text of a group, for people; the demo's `KeysExtractor`. Different groups may have one text. The global group is `{}`.

    >>> group_key(("payeeId", "beneficiaryId"), (25, 12))
    '{payeeId=25;beneficiaryId=12}'
    """
    pairs = zip(names, values, strict=True)
    return shorten_key("{" + ";".join(f"{name}={plain_text(value)}" for name, value in pairs) + "}")


def shorten_key(text: str) -> str:
    """A group's text as alerts carry it: of more than 2,000 characters the first, and a hash that tells it from others.

    >>> shorten_key("{ip=" + "1" * 3_000 + "}")[1_997:]
    '111…f009b0548fba57f0c1d18163090e7cf8}'
    """
    if len(text) <= MAX_KEY:
        return text
    return f"{text[:MAX_KEY]}…{group_hash(text)}}}"
