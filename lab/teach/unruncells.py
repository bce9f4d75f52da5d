"""Cells of a notebook that Python could not read: what they define is still what it was before, and a check must not judge that."""

import re
import sys
from typing import Any

DEFINED = re.compile(r"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)

_errors: dict[str, str] = {}  # function -> why the newest cell that defines it was not run


def unrun_definition(function: str) -> str:
    """Why the newest cell that defines a function was not run; empty if it was.

    >>> unrun_definition("in_window")
    ''
    """
    return _errors.get(function, "")


def watch_cells() -> None:
    """Has the notebook's kernel tell of cells that were not run; without a notebook nothing."""
    ipython = sys.modules.get("IPython")
    if ipython and (shell := ipython.get_ipython()):
        shell.events.register("post_run_cell", _ran)


def _ran(result: Any) -> None:
    error = result.error_before_exec
    for name in DEFINED.findall(result.info.raw_cell or ""):
        _errors.pop(name, None)
        if error:
            line = f", line {error.lineno}" if getattr(error, "lineno", None) else ""
            _errors[name] = f"{type(error).__name__}{line}: {getattr(error, 'msg', error)}"
