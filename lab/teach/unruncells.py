"""Cells of a notebook that Python could not read: what they define is still what it was before, and a check must not judge that."""

import re
from typing import Any

DEFINED = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)

_errors: dict[str, str] = {}  # function -> why the newest cell that defines it was not run


def unrun_definition(function: str) -> str:
    """Why the newest cell that defines a function was not run; empty if it was.

    >>> unrun_definition("in_window")
    ''
    """
    return _errors.get(function, "")


def note_definitions(result: Any) -> None:
    """Takes in which functions a cell defines, and whether it was run: `result` is what IPython says of it."""
    error = result.error_before_exec
    for name in DEFINED.findall(result.info.raw_cell or ""):
        _errors.pop(name, None)
        if error:
            line = f", line {error.lineno}" if getattr(error, "lineno", None) else ""
            _errors[name] = f"{type(error).__name__}{line}: {getattr(error, 'msg', error)}"
