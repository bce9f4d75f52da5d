"""The sentences that people read, found in the code of the kit: `words.po` and `messages.po` of a language translate them.

say("{count} of {all}", count=2, all=3)          ──► words       a widget, a check, a hint of an exercise
raise BadRule(f"{name} takes one field")         ──► messages    an error, an acknowledgement, a dead letter: written in
                                                                 English, and translated where a person reads it
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from lab.model.attributes import carried_attributes
from lab.model.kinds import Text
from lab.model.language import PLACEHOLDER
from lab.model.sentence import of_clauses
from lab.teach.myengine import checked_titles
from lab.teach.questions import QUESTIONS

PACKAGE = Path(__file__).parent.parent
LESSONS = Path(__file__).parent / "translations"
# tables, said key by key
WITH_WORDS = {
    *("COLUMNS", "PANELS", "BURSTS", "KINDS", "UNITS", "STAGES", "STEPS", "BUTTONS", "HELP", "LOOKS"),
    *("PORTS", "CHECK_STATES", "CHECKS", "TRIED"),
}
# what stands around a value in an f-string, and does not name it
AROUND_VALUES = {
    "short_json",
    "join",
    "escape_control_characters",
    "utc_text",
    "len",
    "quote",
    "map",
    "str",
    "self",
}
SENTENCE = re.compile(r"[A-Za-z]{2,},? [A-Za-z]{2,}")
COMMAND = re.compile("lab [a-z ]+")  # the name of a command, which is the same in every language
OF_MESSAGES = (  # modules whose sentences come to a room as errors, acknowledgements and dead letters
    *(
        "model/conditions",
        "model/sentence",
        "model/whenreader",
        "model/when",
        "model/times",
        "model/messages",
        "model/kinds",
        "model/aggregation",
    ),
    *("model/listmessages", "model/lists", "model/patterns"),
    *("model/rules", "model/hints", "model/derived", "model/schema", "model/schemafile", "model/field"),
    *(
        "model/jsontext",
        "model/formatting",
        "model/routestats",
        "running/target",
        "engine/loop/filelogs",
        "engine/loop/kafkalogs",
        "sources/sources",
    ),
    *(
        "sources/formats",
        "sources/jsonfile",
        "sources/csvfile",
        "sources/csvrows",
        "sources/parquet",
        "logs/places",
        "stream/player",
        "machine/java",
    ),
)
NOT_SAID = "a broker that expects TLS or SASL does not answer either: lab.toml says how to speak to it, see docs/kafka.md"
START_ONE = "`lab broker start` starts one on this machine"
NOT_FOR_PEOPLE = ("checks", "json_schema")  # functions that write SQL and JSON Schemas
FIRST = (  # of several that fit: around others, or more exact
    "exercise {name}: no lesson has it, expected {known}",
    *(
        f"no Kafka broker answers at {{address}} ({{reason}}){hint}"
        for hint in (f"; {NOT_SAID}; {START_ONE}", f"; {NOT_SAID}", f"; {START_ONE}")
    ),
    *("[Errno {number}] No such file or directory: {path}", "[Errno {number}] Permission denied: {path}"),
    *("{reason} (at {text}, character {number})", "{reason} (at the end)"),
    "unknown {schema} field {name}, did you mean {other}? (known: {names})",
    "unknown {schema} field {name} (known: {names})",
    "unknown time zone {name}, did you mean {other}? (known: {names})",
    "unknown time zone {name} (known: {names})",
)
PARTS = (  # what these modules put together out of values
    *("{name}: {value}, expected {allowed}", "{what}, expected {allowed}", "{one} and the folder {other}"),
    *(
        "unknown {what} {name} (known: {names})",
        "expected {allowed} or {last} after {field}",
        "expected {allowed} after {field}",
        "write {sign}: {example}",
    ),
    *("write {network}", "rule {rules} (route {name})", "{rule} and {count} more", "{count} duplicates"),
    *("1 duplicate", "nothing", "a list", "a limit", "a divisor", "number", "a text", "text"),
    *("attribute", "schema", "name"),
    "{part}, 1 to {count} characters",
    of_clauses(),
    *("no event passes the filter", "no event alerts", "no event counts"),
    # Python's, of JSON
    *("{problem}: line {line} column {column} (char {place})", "Expecting value", "Extra data"),
    *(
        "Expecting property name enclosed in double quotes",
        "Expecting ',' delimiter",
        "Expecting ':' delimiter",
    ),
    *("Unterminated string starting at", "Invalid control character at"),
    "lesson and number, such as 3.4",
    # of what the launcher of the control room starts or connects to
    "the engine has stopped, so there will be no answer; run the cell that started it to start a new one",
    "there is no topic {topic} on {address}; `lab run` makes those it needs, except an events topic that somebody named",
    "{coordinates} could not be fetched: {reason}.",
    "Connect to the network and try again (behind a proxy: export JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'),",
    "or copy the jar into {folder} from a machine that has it; `make prefetch` there collects all of them.",
    # of Java, and of a port
    *("  JAVA_HOME:     {found}", "no /{path}", "{path}, Java {version}", "Fix:"),
    *("the broker of {folder} (pid {number})", "another program", "another program (pid {number})"),
    "{attribute}: {reason}",
)


def sentences_given_to_say() -> list[str]:
    """The sentences that `say` gives, those of the exercises of translated lessons, and the titles of all lessons."""
    modules = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    constants = {path: _constants(tree) for path, tree in modules.items()}
    lessons = {f"lesson{int(path.stem[:2])}.py" for path in LESSONS.glob("*/[0-9]*.po")}
    lessons.add("choosing.py")  # of several lessons
    said = [text for path, tree in modules.items() for text in _said(tree, _known(tree, path, constants))]
    taught = (tree for path, tree in modules.items() if path.name in lessons or path.parent.name == "attack")
    said += [text for tree in taught for text in _of_exercises(tree)]
    asked = [each for questions in QUESTIONS.values() for each in questions]
    said += [text for each in asked for text in (each.text, *each.options)]
    said += [name for name, _ in carried_attributes()]
    said += [kind.example for _, kind in carried_attributes() if isinstance(kind, Text)]
    said += checked_titles().values()
    return list(dict.fromkeys(said))


def error_templates() -> list[str]:
    """The sentences of errors and of what an engine writes, with a placeholder for each value in them.

    The first one that fits a text is what it says, so those with most words of their own come first.
    """
    found = [text for name in OF_MESSAGES for text in _written((PACKAGE / f"{name}.py").read_text())]
    own = sorted(found, key=lambda text: -len(PLACEHOLDER.sub("", text)))
    templates: dict[str, str] = {}
    for text in (*FIRST, *own, *PARTS):
        templates.setdefault(shape(text), text)
    return list(templates.values())


def shape(text: str, name: str = "messages") -> str:
    """What a text is known by in a file: a message by all but the names of its placeholders, which are those of variables.

    >>> shape("{name} takes one field"), shape("{name} takes one field", "words")
    ('{} takes one field', '{name} takes one field')
    """
    return PLACEHOLDER.sub("{}", text) if name == "messages" else text


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """What a module assigns at its top, also to several names at once."""
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        target, value = (
            getattr(node, "targets", [getattr(node, "target", None)])[0],
            getattr(node, "value", None),
        )
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            found |= {
                name.id: each for name, each in zip(target.elts, value.elts) if isinstance(name, ast.Name)
            }
        elif isinstance(target, ast.Name) and value:
            found[target.id] = value
    return found


def _known(tree: ast.Module, path: Path, constants: dict[Path, dict[str, ast.expr]]) -> dict[str, ast.expr]:
    """The constants of a module, and those that it imports."""
    found = dict(constants[path])
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            there = constants.get(PACKAGE.parent / f"{node.module.replace('.', '/')}.py", {})
            found |= {name.asname or name.name: there[name.name] for name in node.names if name.name in there}
    return found


def _said(tree: ast.Module, known: dict[str, ast.expr]) -> Iterator[str]:
    """Sentences that a module gives to `say`: as they stand, one of two, as a constant, or out of one of the tables WITH_WORDS."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    if not any(node.module == "lab.model.language" for node in imports):
        return
    for name in sorted(known.keys() & WITH_WORDS):
        keys = (known.get(getattr(key, "id", "")) for key in getattr(known[name], "keys", ()))
        yield from (text for part in (*filter(None, keys), known[name]) for text in _texts(part))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("say", "_say"):
            yield from _sentences(node.args[0], known)


def _sentences(node: ast.expr, known: dict[str, ast.expr]) -> Iterator[str]:
    match node:
        case ast.Constant():
            yield from _texts(node)
        case ast.IfExp():
            yield from (*_sentences(node.body, known), *_sentences(node.orelse, known))
        case ast.Name() if isinstance(value := known.get(node.id), ast.Constant):
            yield from _texts(value)
        case ast.Subscript(value=ast.Name(id=name)) if isinstance(table := known.get(name), ast.Dict):
            yield from (text for value in table.values for text in _texts(value))


def _of_exercises(tree: ast.Module) -> Iterator[str]:
    """What the exercises of a lesson say to an answer."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("because", "hints", "unit"):
            yield from _texts(node.value)
        elif isinstance(node, ast.keyword) and node.arg == "cases" and isinstance(node.value, ast.Tuple):
            whys = [case.elts[2] for case in node.value.elts if isinstance(case, ast.Tuple) and case.elts[2:]]
            yield from (text for why in whys for text in _texts(why))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Mistake":
            yield from _texts(node.args[1])


def _texts(node: ast.AST) -> Iterator[str]:
    yield from (getattr(part, "value", "") for part in ast.walk(node) if is_string_constant(part))


def is_string_constant(node: ast.AST) -> TypeGuard[ast.Constant]:
    """Whether it is a string."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _written(code: str) -> Iterator[str]:
    """The sentences of a module, also those that it fills with values, in order; docstrings are not among them.

    >>> list(_written('def f(rule):\\n    "Not this one."\\n    return f"{rule.name} takes one field"'))
    ['{name} takes one field']
    >>> list(_written('MAKER = "lab restrict run"'))
    []
    """
    tree = ast.parse(code)
    aside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    aside |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name in NOT_FOR_PEOPLE:
            aside |= {id(part) for part in ast.walk(function)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) or is_string_constant(node)]
    for node in sorted(found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))):
        text = _template(node) if isinstance(node, ast.JoinedStr) else getattr(node, "value", "")
        if id(node) not in aside:
            lines = (line for line in text.splitlines() if not COMMAND.fullmatch(line))
            yield from (line for line in lines if SENTENCE.search(PLACEHOLDER.sub("…", line)))


def _template(node: ast.JoinedStr) -> str:
    """An f-string with a named placeholder for each value."""
    text, used = "", list[str]()
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            name = next((found for found in map(_name, ast.walk(part.value)) if found), "value")
            used.append(name)
            text += f"{{{name}{used.count(name) if used.count(name) > 1 else ''}}}"
        else:
            text += getattr(part, "value", "")
    return text


def _name(node: ast.AST) -> str:
    name = getattr(node, "attr", "") or getattr(node, "id", "")
    return "" if name in AROUND_VALUES else name.strip("_")
