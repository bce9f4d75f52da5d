"""Inputs made out of others: pieces cut, repeated, nested, exchanged, and words of the grammar put in. A seed gives the same ones."""

from collections.abc import Sequence
from random import Random

LONGEST = 4096  # bytes, except where slowness is looked for
WORDS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b":",
        b",",
        b"\\",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"\0",
        b"\x1b[31m",
        b"\xff",
    ),
    *(
        b"null",
        b"true",
        b"false",
        b"NaN",
        b"-Infinity",
        b"0",
        b"-0",
        b"1",
        b"-1",
        b"1e400",
        b"1E-7",
        b"0.005",
    ),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"9999999999999999.99", b"01"),
    *(b"7289654399999", b"7289654400000", b'"1"', b'""', b'" 1"', b'"+1"', b'"."', b'"1e2"', b"[]", b"{}"),
    *(b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', "\u202e".encode(), "\ufeff".encode(), "é".encode()),
    *(
        b"1" * 50,
        b'"' + b"x" * 201 + b'"',
        b'"=1+1"',
        b'"<b>[red]"',
        b"2024-05-01T10:00:00+09:00",
        b"\xed\xa0\x80",
    ),
]


class Mutator:
    """Draws inputs from seeds and the words of a grammar."""

    def __init__(self, seeds: Sequence[bytes], words: Sequence[bytes], seed: int):
        self.random, self.pool, self.words = Random(seed), list(seeds), [*WORDS, *words]

    def draw(self, longest: int = LONGEST) -> bytes:
        """An input: a seed with one to four changes."""
        random = self.random
        text = random.choice(self.pool)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
            text = self._changed(text)
        return text[:longest]

    def _changed(self, text: bytes) -> bytes:
        random = self.random
        kind, a, b = random.randrange(10), *sorted(random.randrange(len(text) + 1) for _ in range(2))
        match kind:
            case 0 | 1 | 2:
                return text[:a] + random.choice(self.words) + text[a:]
            case 3:
                return text[:a] + random.choice(self.words) + text[b:]
            case 4:
                return text[:a] + text[b:]
            case 5:  # exchange a value of JSON
                end = text.find(b",", a)
                start = text.rfind(b":", 0, a) + 1
                return text[:start] + random.choice(self.words) + (text[end:] if end >= 0 else text[-1:])
            case 6:
                other = random.choice(self.pool)
                return text[:a] + other[random.randrange(len(other) + 1) :]
            case 7:
                piece = text[a : min(b, a + 40)] or random.choice(self.words)
                return text[:a] + piece * random.choice((2, 3, 10, 50, 300)) + text[b:]
            case 8:
                return text[:a] + bytes([random.randrange(256)]) + text[a + 1 :]
            case _:
                around = random.choice(((b"[", b"]"), (b"{", b"}"), (b'"', b'"'), (b'{"a":', b"}")))
                return text[:a] + around[0] + text[a:b] + around[1] + text[b:]
