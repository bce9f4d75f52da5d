"""Writes an error as one line that says what happened and how to fix it."""

import errno
import os
import re
from pathlib import Path

from lab.engine.compiled.codecache import CodeCacheNotWritable, writable_code_cache

EXTRAS = {  # module -> the extra of pyproject.toml that installs it
    "confluent_kafka": "kafka",
    **dict.fromkeys(("sqlalchemy", "psycopg2", "uvicorn"), "rules"),
    **dict.fromkeys(("apprise", "requests"), "notify"),
    **dict.fromkeys(("ipywidgets", "anywidget", "plotly", "IPython", "nbformat", "google"), "lessons"),
}

ARROWS_FILE = re.compile(r"local file '(.+?)'. Detail: ")  # how Arrow names a file in an error
HOME_HINT = "; where the home folder cannot be written to, set XDG_CACHE_HOME (and XDG_DATA_HOME, XDG_STATE_HOME) to one that can"


RAISED = re.compile(r"^(?:: )?((?:lab\.[\w.]+|(?:\w+\.)*\w*(?:Error|Exception|Exit))\b: .*)$", re.MULTILINE)
OWN_CLASS = re.compile(r"^lab\.[\w.]+: ")


def reason_of_failed_query(text: str) -> str:
    """What a Python worker raised, as the text of Spark's error tells it; its first line if it tells nothing.

    With the class of the error, unless it is one of the kit's own, whose message says enough.

    >>> reason_of_failed_query("Traceback:\\nlab.engine.records.feeds.LogLost: orders/1: records have expired")
    'orders/1: records have expired'
    """
    raised = RAISED.findall(text)
    return OWN_CLASS.sub("", raised[-1]) if raised else text.splitlines()[0]


def error_message(error: Exception) -> str:
    """The message of an error; for a failed query, that of the Python worker that failed."""
    text = str(error).strip() or repr(error)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        return f"{text}; install it with pip install 'rules-lab[{extra}]'"
    if isinstance(error, RuntimeError) and text.startswith("cannot cache function"):  # Numba's message
        try:
            writable_code_cache()
        except CodeCacheNotWritable as reason:
            return str(reason)
    if type(error).__module__.startswith(("pyspark", "lab.machine.session")):
        return f"the query failed: {reason_of_failed_query(text)} (--debug shows the whole traceback)"
    if type(error).__module__.startswith("sqlalchemy"):
        first = text.splitlines()[0]
        return first.partition(") ")[2] or first  # an error of SQLAlchemy's own names no error of a driver
    if isinstance(error, FileNotFoundError) and not error.filename:
        try:
            os.getcwd()
        except FileNotFoundError:
            return "the current folder has been removed: cd to another one"
    if isinstance(error, PermissionError) and (file := ARROWS_FILE.search(text)):
        return f"{file[1]}: {os.strerror(errno.EACCES)}; copied from another user, a checkpoint needs `chown -R`, and so do its logs"
    if isinstance(error, OSError) and error.strerror and error.filename:
        home = Path.home()
        of_home = home in (place := Path(os.fsdecode(error.filename))).parents or place == home
        hint = HOME_HINT if of_home and isinstance(error, PermissionError) else ""
        return f"{error.filename}: {error.strerror}{hint}"
    return text
