"""Names in backticks, in pages, docstrings and comments, are names that the code has: none was renamed and left behind."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.test_docs import CODE, FENCED, LESSONS, PAGES, QUOTED, ROOT

NAME = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)(?:\([^)]*\))?")
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FILE_ENDINGS = {"py", "js", "jsonl", "json", "html", "toml", "po", "properties", "csv"}
ALSO_CODE = (
    *("lab/**/*.js", "lab/**/*.css", "lab/**/*.html", "lab/**/*.json", "lab/machine/*.*", "docker/**/*"),
    *("Makefile", "pyproject.toml", "requirements*.txt", "docs/*.yaml", ".github/**/*.yml"),
)
# of Flink and its demo, of Spark and Java, and of file formats
OTHERS = {
    *("DynamicEvaluationFunction", "ListState", "ValueState", "id_count", "getUnionListState", "webapp", "Long", "RulesBootstrapper"),
    "Rule.RuleState",
    *("com.ververica.field.dynamicrules.Alert", "com.ververica.field.dynamicrules.Rule"),
    *("com.ververica.field.dynamicrules.RuleParser", "com.ververica.field.dynamicrules.Transaction"),
    *("KeyGroupRangeAssignment.assignToKeyGroup", "computeDefaultMaxParallelism"),
    *("computeKeyGroupRangeForOperatorIndex", "computeOperatorIndexForKeyGroup", "ObjectMapper.writeValueAsString"),
    *("StreamingQueryProgress.durationMs", "current_timestamp", "spark.sql.optimizer.excludedRules"),
    *("spark.sql.streaming.checkpoint.fileChecksum.enabled", "EOFException", "client.id", "PAR1"),
    "MAJOR.MINOR.PATCH",
}  # fmt: skip


@dataclass
class Names:
    """What the code has: all words in it but those of docstrings and comments, and what classes and modules define."""

    words: set[str] = field(default_factory=set)
    members: dict[str, set[str]] = field(default_factory=dict)
    bases: dict[str, set[str]] = field(default_factory=dict)

    def of_class(self, name: str, below: frozenset[str] = frozenset()) -> set[str] | None:
        """The members of a class, its bases' too; None if a base is of somebody else. Classes of several modules may have one name."""
        found = set(self.members[name])
        below |= {name}
        for base in self.bases[name] - below:
            inherited = self.of_class(base, below) if base in self.members else None
            if inherited is None:
                return None
            found |= inherited
        return found

    def unknown(self, name: str) -> bool:
        """Whether a name, perhaps dotted, is none of the code's."""
        first, *rest = name.split(".")
        if {first, *rest} - self.words:
            return True
        if not rest or first not in self.members:
            return False
        members = self.of_class(first)
        return members is not None and rest[0] not in members


@dataclass
class Module:
    """A module's code, what its docstrings and comments say, and of each class its name, members and bases."""

    code: str
    said: str
    classes: list[tuple[str, set[str], set[str]]]


@cache
def module(path: Path) -> Module:
    """Parsed once; the tree itself is not kept, for Python would look for garbage in all of them again and again."""
    text = path.read_text(encoding="utf-8")
    lines, said, classes = text.splitlines(), [], []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, DEFINITIONS):
            continue
        if isinstance(node, ast.ClassDef):
            bases = {re.split(r"[.[]", ast.unparse(base))[-1] for base in node.bases}
            classes.append((node.name, members_of(node), bases))
        match node.body:
            case [ast.Expr(ast.Constant(str(text)) as docstring), *_]:
                said.append(text)
                end = docstring.end_lineno or docstring.lineno
                lines[docstring.lineno - 1 : end] = [""] * (end - docstring.lineno + 1)
    code, _, comments = zip(*(line.partition("#") for line in lines)) if lines else ((), (), ())
    return Module("\n".join(code), "\n".join((*said, *comments)), classes)


def members_of(node: ast.ClassDef) -> set[str]:
    """What a class defines, and what its methods set."""
    inside = set()
    for part in ast.walk(node):
        match part:
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.Attribute(ast.Name("self"), name):
                inside.add(name)
            case ast.AnnAssign(ast.Name(name)) | ast.Assign([ast.Name(name), *_]):
                inside.add(name)
    return inside


@cache
def names() -> Names:
    found = Names()
    for path in CODE:
        found.words |= {path.stem, *re.findall(r"\w+", module(path).code)}
        for name, members, bases in module(path).classes:
            found.members.setdefault(name, set()).update(members)
            found.bases.setdefault(name, set()).update(bases)
    for pattern in ALSO_CODE:
        for file in filter(Path.is_file, ROOT.glob(pattern)):
            text = file.read_text(encoding="utf-8", errors="ignore")
            found.words.update(re.findall(r"\w+", text))
            for name in re.findall(r"^class (\w+)", text, re.MULTILINE) if file.suffix == ".js" else ():
                found.members.setdefault(name, set()).update(re.findall(r"\w+", text))
                found.bases.setdefault(name, set())
    for page in LESSONS:  # their cells are code
        found.words.update(re.findall(r"\w+", page.read_text(encoding="utf-8")))
    return found


def prose() -> Iterator[tuple[Path, str]]:
    """The pages without their blocks; the docstrings and comments of the code."""
    for page in PAGES:
        yield page, FENCED.sub("", page.read_text(encoding="utf-8"))
    for path in CODE:
        yield path, module(path).said


def unknown_names(text: str) -> list[str]:
    """The names in backticks that the code has not; `tests/test_docs.py` checks those of files and of `lab.`."""
    quoted = [match[1] for match in map(NAME.fullmatch, QUOTED.findall(text)) if match]
    ours = (name for name in quoted if name.split(".")[0] not in ("lab", "tests", "tools"))
    return [
        name
        for name in ours
        if name not in OTHERS and name.split(".")[-1] not in FILE_ENDINGS and names().unknown(name)
    ]


def test_each_name_in_backticks_is_one_of_the_code():
    assert [
        f"{path.relative_to(ROOT)}: {name}" for path, text in prose() for name in unknown_names(text)
    ] == []


def test_a_name_that_was_renamed_is_found():
    """Parts are put together here, because a name in a string of the code counts as one of the code."""
    gone = "evaluate" + "Nothing"
    assert unknown_names(
        f"`{gone}` and `RouteStore.{gone}` beside `RouteStore.evaluate`, `Studio.alerts`"
    ) == [gone, f"RouteStore.{gone}"]
    assert unknown_names("`RouteStore.paymentAmount` is a word of the code, but no member") == [
        "RouteStore.paymentAmount"
    ]
