"""Runs learners' code with a time limit, and turns its results into plain values before they are compared or printed.

    function ──► call_with_time_limit(2 s of computing) ──► plain_value() ──► numbers, texts, lists, dictionaries of Python's own
                  └─ TimeLimitExceeded, an error ──► FailureText

An object may claim to equal everything, fail when printed, or print a gigabyte. `plain_value` therefore keeps only Python's
own types, converts their subclasses to them, and replaces anything else by its text.
"""

import ctypes
import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any

from lab.model.language import say
from lab.model.messages import Message
from lab.model.rule import Rule

COMPUTING_S = 2.0  # for all calls of a check; a right answer takes a hundredth of it
WAITING_S = 60.0  # of the clock: for what sleeps instead of computing
LOOK_S = 0.02
BROWSER_SLOWER, WATCH = 5, 4  # times; the number of a tool of sys.monitoring
DEEP, MOST = 20, 10_000  # levels and entries of an answer
MAX_NAME = 60  # characters of a function's name
MAX_SHOWN = 120  # characters of an answer
AS_IT_IS = (type(None), type(...), bool, int, float, str, bytes, Decimal, Fraction)
BASES: tuple[tuple[type, Callable], ...] = ((int, int.__int__), (float, float.__float__), (str, str.__str__))
ARRAYS = ("numpy", "pandas")
VIEWS = (type({}.keys()), type({}.values()))


class FailureText(str):
    """What a function did in place of giving an answer: "raised …", "did not end …"."""


class TimeLimitExceeded(BaseException):
    """The function runs on and on; no `except Exception` of its own stops this."""


class OpaqueValue:
    """Something that is no plain value: it equals nothing, and reads as it did."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


class LimitedOutput(io.TextIOBase):
    """Writes its first characters to another output, and drops the others."""

    def __init__(self, output: Any, characters: int):
        self.output, self.left, self.has_dropped = output, characters, False

    def write(self, text: str) -> int:
        shown = text[: self.left]
        self.left -= len(shown)
        self.has_dropped |= len(shown) < len(text)
        self.output.write(shown)
        return len(text)


@contextmanager
def limited_output(characters: int) -> Iterator[None]:
    """Shows no more than the first characters of what is printed within, and says so where something was dropped.

    Belongs around `call_with_time_limit`, never within: a time limit that strikes while the output changes back would lose it.
    """
    before = sys.stdout
    with redirect_stdout(limited := LimitedOutput(before, characters)):
        yield
    if limited.has_dropped and isinstance(before, LimitedOutput):
        before.has_dropped = True
    elif limited.has_dropped:
        print(say("… (what else it prints is not shown)"))


def call_with_time_limit(cpu_seconds: float, function: Callable, *arguments: Any) -> Any:
    """Calls a function and returns its result. After `cpu_seconds`, raises TimeLimitExceeded in the function, again and again until it ends.

    Works in every thread and on every system. It stops Python code; a single call of compiled code ends by itself first.
    """
    if sys.platform == "emscripten":
        return _within_a_browser(cpu_seconds, function, *arguments)
    thread, ended = threading.get_ident(), threading.Event()
    end, latest = time.process_time() + cpu_seconds, time.monotonic() + WAITING_S
    over = [False]

    def watch() -> None:
        while not ended.wait(LOOK_S) and not over[0]:
            if time.process_time() > end or time.monotonic() > latest:
                _raise_in(thread, ctypes.py_object(TimeLimitExceeded))

    def stop() -> None:
        ended.set()
        watching.join()
        _raise_in(thread, None)

    watching = threading.Thread(target=watch, name="limit", daemon=True)
    watching.start()
    try:
        return function(*arguments)
    finally:
        over[0] = (
            True  # Python raises nothing at an assignment, only at calls and jumps: from here on two may still come
        )
        try:
            stop()
        except TimeLimitExceeded:
            try:
                stop()
            except TimeLimitExceeded:
                stop()


def _within_a_browser(cpu_seconds: float, function: Callable, *arguments: Any) -> Any:
    """`call_with_time_limit` where there is no second thread: the interpreter looks at the clock at each call and each turn of a loop."""
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009  (from Python 3.12 on)
    if monitoring.get_tool(WATCH):
        return function(*arguments)  # within another call of this, whose limit holds
    end = time.monotonic() + BROWSER_SLOWER * cpu_seconds
    events = monitoring.events.PY_START, monitoring.events.JUMP

    def look(*_: object) -> None:
        if time.monotonic() > end:
            raise TimeLimitExceeded

    monitoring.use_tool_id(WATCH, "limit")
    try:
        for event in events:
            monitoring.register_callback(WATCH, event, look)
        monitoring.set_events(WATCH, sum(events))
        return function(*arguments)
    finally:
        monitoring.set_events(WATCH, 0)
        monitoring.free_tool_id(WATCH)


def _raise_in(thread: int, error: Any) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)


def plain_result_or_failure(function: Callable, *arguments: Any) -> Any:
    """A function's result as plain values, or a `FailureText` that says what it did instead. Raises TimeLimitExceeded."""
    try:
        return plain_value(function(*arguments))
    except (TimeLimitExceeded, KeyboardInterrupt):
        raise
    except RecursionError:
        return FailureText(say("called itself without end"))
    except BaseException as error:  # noqa: BLE001  (a learner's code may raise anything, SystemExit too)
        return FailureText(say("raised {error}", error=f"{type(error).__name__}{error_suffix(error)}"))


def plain_value_or_failure(answer: object) -> Any:
    """An answer as plain values, or a `FailureText` that says why it has none."""
    try:
        return call_with_time_limit(COMPUTING_S, plain_result_or_failure, lambda: answer)
    except TimeLimitExceeded:
        return FailureText(say("takes too long to inspect"))


def error_suffix(error: BaseException) -> str:
    """An error's own words behind a colon, if it has any and they can be had.

    >>> error_suffix(ValueError("no")), error_suffix(ValueError())
    (': no', '')
    """
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (as above)
        return ""
    return f": {text[:MAX_SHOWN]}" if text else ""


def function_name(function: object) -> str:
    """The name of a function; "it" if it has none.

    >>> function_name(len), function_name(3)
    ('len', 'it')
    """
    name = vars(type(function)).get("__name__") and getattr(function, "__name__", "")
    return name[:MAX_NAME] if type(name) is str and name else "it"


def plain_value(answer: object) -> Any:
    """An answer of Python's own types only; a rule is a dictionary then.

    >>> import numpy as np
    >>> plain_value(np.arange(3)), plain_value({"a": (np.int64(1), range(2))}), plain_value(object).text
    ([0, 1, 2], {'a': (1, [0, 1])}, "<class 'object'>")
    """
    return _plain(answer, DEEP, iter(range(MOST)))


def _plain(answer: object, deeper: int, room: Iterator[int]) -> Any:
    kind = type(answer)
    if kind in AS_IT_IS:
        return answer
    for base, exactly in BASES:
        if issubclass(kind, base):
            return exactly(answer)
    if deeper == 0 or next(room, None) is None:
        return OpaqueValue("…")

    def each(values: Iterable) -> list:
        return [_plain(value, deeper - 1, room) for value in islice(values, MOST)]

    if issubclass(kind, list):
        return each(list.__iter__(answer))  # type: ignore[arg-type]
    if issubclass(kind, tuple):
        return tuple(each(tuple.__iter__(answer)))  # type: ignore[arg-type]
    if kind is range or kind in VIEWS:
        return each(answer)  # type: ignore[arg-type]
    if issubclass(kind, dict):
        items = list(islice(dict.items(answer), MOST))  # type: ignore[arg-type]
        return dict(zip(each(_hashable(key) for key, _ in items), each(value for _, value in items)))
    if kind is Message:
        return _plain(answer.rule, deeper, room)  # type: ignore[attr-defined]
    if kind is Rule:
        return _plain(answer.to_dict(), deeper, room)  # type: ignore[attr-defined]
    if kind in (set, frozenset):
        return set(each(answer))  # type: ignore[arg-type, call-overload]
    if kind.__module__.partition(".")[0] in ARRAYS and hasattr(kind, "tolist"):
        return _plain(answer.tolist(), deeper, room)  # type: ignore[attr-defined]
    return OpaqueValue(answer_text(answer))


def _hashable(key: object) -> object:
    return (
        OpaqueValue(answer_text(key))
        if type(key) not in AS_IT_IS and not isinstance(key, (str, int, tuple))
        else key
    )


def answer_text(answer: object) -> str:
    """An answer as it reads, its beginning if it is long, its type if it cannot be printed.

    >>> answer_text([1, 2]), len(answer_text("x" * 1000)), answer_text(10**5000)
    ('[1, 2]', 120, 'a very long int')
    """
    try:
        text = str.__str__(repr(answer))
    except ValueError:
        return say("a very long {type}", type=type(answer).__name__)
    except Exception as error:  # noqa: BLE001  (as above)
        return say(
            "a {type} that cannot be printed ({error})",
            type=type(answer).__name__,
            error=type(error).__name__,
        )
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
