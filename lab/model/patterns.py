"""Regular expressions of conditions, read and searched by RE2: the time that it needs grows with the length of a text, whatever the pattern.

    userAgent matches "^curl/[78][.]"      ──►      search_text("curl/8.1", "^curl/[78][.]")

RE2 comes with the package google-re2. A browser's Python does not have it: there, a pattern is refused.
"""

from functools import lru_cache
from typing import Any

from lab.model.formatting import short_json

MAX_PATTERN = 1_000  # characters
# of one pattern: its program, and the states that it has been in. With less room, RE2 forgets states and is slower
PATTERN_BYTES = 1 << 18
NOT_HERE = (
    "regular expressions need the package google-re2, which is not here, and never in a browser; "
    "startsWith, contains and endsWith need no package"
)
KEPT = 256  # patterns, as each may take so much


@lru_cache(maxsize=KEPT)
def compile_pattern(pattern: str) -> Any:
    """The pattern as RE2 searches it. Raises ValueError, which says what is wrong with it.

    >>> compile_pattern("a(b")
    Traceback (most recent call last):
    ValueError: not a regular expression of RE2: "missing ): a(b"
    """
    try:
        import re2
    except ModuleNotFoundError:
        raise ValueError(NOT_HERE) from None
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a regular expression has at most {MAX_PATTERN:,} characters")
    options = re2.Options()
    options.max_mem, options.log_errors = PATTERN_BYTES, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise ValueError(f"not a regular expression of RE2: {short_json(reason)}") from None


def search_text(text: str, pattern: str) -> bool:
    """Whether the pattern matches a part of the text.

    >>> search_text("curl/8.1", "^curl/[78][.]"), search_text("CURL", "curl"), search_text("CURL", "(?i)curl")
    (True, False, True)
    """
    return compile_pattern(pattern).search(text) is not None
