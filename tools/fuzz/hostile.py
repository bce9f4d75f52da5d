"""Texts that once were slow, or look as if they could be: each a function of its size, so that its cost can be measured as it grows."""

from collections.abc import Callable

Growing = Callable[[int], bytes]


def _member(name: str, value: bytes) -> bytes:
    return b'{"transactionId": 1, "eventTime": 5, "%s": %s}' % (name.encode(), value)


def _message(attribute: str, value: bytes) -> bytes:
    head = b'"ruleId": 1, "ruleState": "ACTIVE", "aggregateFieldName": "COUNT", "limitOperatorType": ">", "limit": 1'
    return b'{%s, "window": 1, "%s": %s}' % (head, attribute.encode(), value)


LINES: dict[str, Growing] = {
    "escaped quotes behind deep nesting": lambda n: b"{" * 201 + b'"' + b'\\"' * (n // 2),
    "escaped quotes in many strings": lambda n: b"{" * 201 + b'"\\""' * (n // 4),
    "backslashes": lambda n: b"{" * 201 + b'"' + b"\\" * n,
    "quotes": lambda n: b"{" * 201 + b'"' * n,
    "nesting": lambda n: b"{" + b"[" * n,
    "nesting, closed": lambda n: _member("x", b"[" * (n // 2) + b"]" * (n // 2)),
    "lists beside each other": lambda n: _member("x", b"[" + b"[]," * (n // 3) + b"[]]"),
    "digits, then a letter, as text": lambda n: _member("paymentAmount", b'"' + b"1" * n + b'x"'),
    "digits and a point, as text": lambda n: _member("paymentAmount", b'"' + b"1" * n + b'.x"'),
    "digits after a point, as text": lambda n: _member("paymentAmount", b'".' + b"1" * n + b'x"'),
    "an exponent of many digits": lambda n: _member("paymentAmount", b"1e" + b"9" * n),
    "an id of many digits": lambda n: b'{"transactionId": %s}' % (b"1" * n),
    "an amount of many digits": lambda n: _member("paymentAmount", b"1." + b"1" * n),
    "many names": lambda n: (
        b'{"transactionId": 1, %s "eventTime": 5}' % b"".join(b'"%07d":1,' % i for i in range(n // 12))
    ),
    "one name again and again": lambda n: b'{%s "transactionId": 1, "eventTime": 5}' % (b'"a":1,' * (n // 6)),
    "a long name": lambda n: b'{"transactionId": 1, "eventTime": 5, "%s": 1}' % (b"a" * n),
    "a long text": lambda n: _member("paymentType", b'"' + b"a" * n + b'"'),
    "a text of escapes": lambda n: _member("paymentType", b'"' + b"\\u0041" * (n // 6) + b'"'),
    "a text of surrogates": lambda n: _member("paymentType", b'"' + b"\\ud800" * (n // 6) + b'"'),
    "blanks": lambda n: b"{" + b" " * n + b"}",
    "blanks behind": lambda n: _member("x", b"1") + b" " * n + b"x",
    "bytes that are no text": lambda n: b'{"transactionId": 1, "x": "' + b"\xff" * n + b'"}',
    "NaN": lambda n: _member("x", b"[" + b"NaN," * (n // 4) + b"1]"),
    "commas": lambda n: b"," * n,
    "quotes of CSV": lambda n: b'"' + b'""' * (n // 2),
    "a cell of digits": lambda n: b"1,5,1,1,CSH," + b"1" * n + b"x",
    "a cell of signs": lambda n: b"1,5,1,1,CSH," + b"+" * n,
}
MESSAGES: dict[str, Growing] = {
    "escaped quotes behind deep nesting": LINES["escaped quotes behind deep nesting"],
    "brackets around brackets": lambda n: b"1," + b"(" * n,
    "a limit of many digits": lambda n: _message("limit", b'"' + b"1" * n + b'x"'),
    "a window of many digits": lambda n: _message("window", b'"' + b"1" * n + b'"'),
    "a filter of many values": lambda n: _message(
        "filter", b'{"payeeId": [%s]}' % b",".join(b"%d" % i for i in range(n // 6))
    ),
    "a filter of many amounts": lambda n: _message(
        "filter", b'{"paymentAmount": [%s]}' % b",".join(b'"%d"' % i for i in range(n // 8))
    ),
    "a filter of an amount that is none": lambda n: _message(
        "filter", b'{"paymentAmount": "' + b"1" * n + b'x"}'
    ),
    "a filter of many fields": lambda n: _message(
        "filter", b"{%s}" % b",".join(b'"%d":1' % i for i in range(n // 8))
    ),
    "a condition of many comparisons": lambda n: _message(
        "when", b'"%s"' % b" or ".join([b"payeeId=1"] * (n // 13))
    ),
    "a condition of many brackets": lambda n: _message("when", b'"' + b"(" * n + b'"'),
    "a condition of many values": lambda n: _message("when", b'"payeeId in (%s"' % (b"1," * (n // 2))),
    "a condition with a long word": lambda n: _message(
        "when", b'"paymentType startsWith ' + b"x/" * (n // 2) + b'"'
    ),
    "an unknown attribute": lambda n: _message("a" * n, b"1"),
    "an unknown field": lambda n: _message("groupingKeyNames", b'["' + b"a" * n + b'"]'),
    "a field again and again": lambda n: _message(
        "groupingKeyNames", b"[" + b'"payeeId",' * (n // 10) + b'"payeeId"]'
    ),
    "keys of plain text": lambda n: b"1,(active),(" + b"&" * n + b")",
}
SCHEMAS: dict[str, Growing] = {
    "dots in a key": lambda n: b".".join([b"a"] * (n // 2)) + b" = 1",
    "dots in the name of a table": lambda n: b"[" + b".".join([b"a"] * (n // 2)) + b"]",
    "lists in lists": lambda n: b"a = " + b"[" * n,
    "objects in objects": lambda n: b"a = " + b"{a=" * (n // 3),
    "tables": lambda n: b"".join(b"[a%07d]\n" % i for i in range(n // 11)),
    "keys": lambda n: b"".join(b"a%07d=1\n" % i for i in range(n // 11)),
    "digits": lambda n: b"name = " + b"1" * n,
    "a long text": lambda n: b'name = "' + b"a" * n + b'"',
    "quotes": lambda n: b'name = """' + b'""\n' * (n // 3),
}
