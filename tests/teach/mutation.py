"""Small changes to a solution: each is what somebody may write in its place.

a <= b  ──►  a < b, a > b, …        x // y  ──►  x / y, …         is None  ──►  not …
3       ──►  2, 4, 0, -3            sum     ──►  len, max         for a in b  ──►  in sorted(b), in the last three of b
G       ──►  16, p                  return x  ──►  return int(x), min(x, 1000), …
def f(a) ──►  empties or sorts a at the end, fails if a is empty, sees 32 bits, or the first 100, of a
"""

import ast
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
COMPUTED = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod)
OPPOSITE = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
NAMES = {
    "sum": ("len", "max", "any"),
    "max": ("min", "sum", "sorted"),
    "min": ("max", "sum"),
    "len": ("sum", "max"),
    "any": ("all",),
    "all": ("any",),
    "sorted": ("list", "reversed"),
    "frozenset": ("tuple", "str"),
    "set": ("list",),
    "list": ("sorted", "tuple"),
    "round": ("int",),
    "oct": ("bin", "hex"),
}
BEFORE = {  # what a function may do with a list before its own statements
    "fails if {0} is empty": "{0}[0]",
    "no answer if {0} is empty": "if not {0}: return None",
    "the first 100 of {0}": "{0} = {0}[:100]",
}
AFTER = {  # and with what it is given after them
    "empties {0}": "{0}.clear()",
    "takes one from {0}": "{0} and {0}.pop()",
    "turns {0} around": "{0}.reverse()",
    "puts one into {0}": "{0}.extend({0}[:1])",
}
BITS = "{0} = [n & 0x7FFFFFFF for n in {0}] if type({0}) is list else {0} & 0x7FFFFFFF"
SIZES = (1, 2, 3, 4, 5, 10, 16, 20, 60, 128)  # numbers that lessons and cases show
ITERATED = (
    "sorted({})",
    "list({})[1:]",
    "list({})[:-1]",
    "list({})[-3:]",
    "list({})[::-1]",
    "list({})[:4]",
    "list({})[-10:]",
)
RETURNED = (
    "int({})", "round({}, 1)", "round({})", "({}) + 1", "-({})", "bool({})", "str({})", "min({}, 1000)", "max({}, 1)",
    "[float(n) for n in {}]", "[str(n) for n in {}]", "sorted({}, key=str)", "({}) or None", "({}) * 2",
    "sorted({})", "list({})[:3]", "list({})[:10]", "list({})[::-1]", "set({})", "int(({}) * 100) / 100",
)  # fmt: skip


def mutants(code: str, arguments: tuple = ()) -> dict[str, str]:
    """Code by what was changed; none of them compiles to the code itself. `arguments`: of a case of the function, if it is one."""
    tree = ast.parse(code)
    same, found = ast.dump(tree), {}
    for what, mutant in _mutants(tree, arguments):
        if ast.dump(mutant) != same:
            text = ast.unparse(mutant)
            if text not in found.values():
                found[what] = text
    return found


def _mutants(tree: ast.Module, arguments: tuple) -> Iterator[tuple[str, ast.Module]]:
    if arguments:
        yield from _with_other_parameters(tree, arguments)
    for number, node in enumerate(ast.walk(tree)):
        for said, change in _changes(node, tree):
            copy: Any = deepcopy(tree)
            target = next(n for at, n in enumerate(ast.walk(copy)) if at == number)
            new = change(target)
            if new is not None:
                copy = _Put(target, new).visit(copy)
            line = getattr(node, "lineno", 0)
            yield (
                f"line {line}: {' '.join(ast.unparse(node).split())[:60]} -> {said}",
                ast.fix_missing_locations(copy),
            )


def _with_other_parameters(tree: ast.Module, arguments: tuple) -> Iterator[tuple[str, ast.Module]]:
    """The function that does something to what it is given; `arguments`: of one case."""
    place, defined = next((at, n) for at, n in enumerate(tree.body) if isinstance(n, ast.FunctionDef))
    given = dict(zip((each.arg for each in defined.args.args), arguments))
    whole = [
        name
        for name, value in given.items()
        if type(value) is int or (type(value) is list and {*map(type, value)} == {int})
    ]
    changes = {"all in 32 bits": ("\n".join(map(BITS.format, whole)), "")} if whole else {}
    for name, value in given.items():
        if type(value) is list:
            changes |= {said.format(name): (code.format(name), "") for said, code in BEFORE.items()}
            changes |= {said.format(name): ("", code.format(name)) for said, code in AFTER.items()}
        elif isinstance(value, (dict, set)):
            changes[f"empties {name}"] = "", f"{name}.clear()"
    for said, (before, after) in changes.items():
        copy: Any = deepcopy(tree)
        own = copy.body[place]
        tried: Any = ast.parse(f"try:\n    pass\nfinally:\n    {after or 'pass'}")
        tried.body[0].body = own.body
        own.body = ast.parse(before).body + tried.body
        yield said, ast.fix_missing_locations(copy)


class _Put(ast.NodeTransformer):
    """Puts one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _setting(field: str, value) -> Callable:
    def change(node):
        setattr(node, field, value(getattr(node, field)) if callable(value) else value)

    return change


def _text(form: str, of: str | None = None) -> Callable:
    """Another expression around the node, or around one of its fields."""

    def change(node):
        inner = node if of is None else getattr(node, of)
        new = ast.parse(form.format(ast.unparse(inner)), mode="eval").body
        if of is None:
            return new
        setattr(node, of, new)

    return change


def _changes(node: ast.AST, tree: ast.Module) -> Iterator[tuple[str, Callable]]:
    match node:
        case ast.Compare():
            for at, was in enumerate(node.ops):
                others = (
                    [kind for kind in COMPARED if not isinstance(was, kind)]
                    if isinstance(was, COMPARED)
                    else []
                )
                for kind in [*others, *([OPPOSITE[type(was)]] if type(was) in OPPOSITE else [])]:
                    yield (
                        kind.__name__,
                        _setting("ops", lambda ops, at=at, kind=kind: [*ops[:at], kind(), *ops[at + 1 :]]),
                    )
            if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                yield (
                    "truth for `is None`",
                    _text("not ({})" if isinstance(node.ops[0], ast.Is) else "({})", "left"),
                )
                text = ast.unparse(node.left)
                yield "not", lambda node: ast.parse(f"not {text}", mode="eval").body
            if isinstance(node.ops[0], ast.In):
                for form in ("list({})[-3:]", "list({})[-10:]", "list({})[:3]"):
                    text = form.format(ast.unparse(node.comparators[0]))
                    yield text, _setting("comparators", [ast.parse(text, mode="eval").body])
            if len(node.ops) > 1:
                yield (
                    "the right half alone",
                    lambda node: ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:]),
                )
                yield (
                    "the left half alone",
                    lambda node: ast.Compare(node.left, node.ops[:1], node.comparators[:1]),
                )
        case ast.BinOp() | ast.AugAssign():
            for computed in COMPUTED:
                if not isinstance(node.op, computed):
                    yield computed.__name__, _setting("op", lambda op, kind=computed: kind())
            if isinstance(node, ast.BinOp):
                yield "left alone", lambda node: node.left
                yield "right alone", lambda node: node.right
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield other.__name__, _setting("op", lambda op: other())
            for at in range(len(node.values)):
                yield f"part {at} alone", lambda node, at=at: node.values[at]
        case ast.UnaryOp():
            yield "without it", lambda node: node.operand
        case ast.IfExp():
            yield "always", lambda node: node.body
            yield "never", lambda node: node.orelse
        case ast.Constant():
            for value in _constants(node.value):
                yield repr(value), _setting("value", lambda was, value=value: value)
        case ast.FormattedValue():
            yield "!r", _setting("conversion", ord("r"))
        case ast.Name() if isinstance(node.ctx, ast.Load):
            for name in NAMES.get(node.id, ()):
                yield name, _setting("id", name)
            for name in _names(tree) - {node.id} if node.id in _names(tree) else ():
                yield name, _setting("id", name)
            for size in SIZES if node.id in _names(tree) else ():
                yield str(size), lambda node, size=size: ast.Constant(size)
        case ast.comprehension() | ast.For():
            for form in ITERATED:
                yield form, _text(form, "iter")
            if getattr(node, "ifs", None):
                yield "no condition", _setting("ifs", [])
        case ast.SetComp():
            yield "a list", lambda node: ast.ListComp(node.elt, node.generators)
        case ast.While():
            yield "if", lambda node: ast.If(node.test, node.body, [])
        case ast.If():
            yield "never", _text("False", "test")
            yield "always", _text("True", "test")
        case ast.Return():
            for form in RETURNED:
                yield form, _text(form, "value")
            if isinstance(node.value, ast.Tuple):
                yield "swapped", _setting("value", lambda was: ast.Tuple(was.elts[::-1], ast.Load()))
    body = getattr(node, "body", None)
    for at, statement in enumerate(body if isinstance(body, list) else []):
        if not isinstance(statement, (ast.FunctionDef, ast.Return)):
            yield (
                f"without {ast.unparse(statement)[:40]}",
                _setting("body", lambda was, at=at: [*was[:at], ast.Pass(), *was[at + 1 :]]),
            )
            if at + 1 < len(body) and not isinstance(body[at + 1], ast.Return):
                yield (
                    f"{ast.unparse(statement)[:40]} later",
                    _setting("body", lambda was, at=at: [*was[:at], was[at + 1], was[at], *was[at + 2 :]]),
                )


def _names(tree: ast.Module) -> set[str]:
    """Parameters and local names."""
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | stored


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, bool) or value is None:
        yield not value
    elif isinstance(value, (int, float)):
        yield from (
            value + 1,
            value - 1,
            -value,
            0,
            value * 2,
            value * 10,
            value * 60,
            value * 1000,
            value / 2,
        )
    elif isinstance(value, str):
        yield from (value + "x", "", value.swapcase(), value[:-1])
        for number in re.finditer(r"\d+", value):  # one number of a text
            for other in (int(number[0]) + 1, int(number[0]) - 1):
                yield f"{value[: number.start()]}{other}{value[number.end() :]}"
        for cell in re.finditer(r"[^,()&\s]+", value):  # one word of it
            yield f"{value[: cell.start()]}{cell[0]}x{value[cell.end() :]}"
