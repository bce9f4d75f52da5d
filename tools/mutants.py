"""Faults planted one at a time into the engine's heart, for the tests to find: `python -m tools.mutants [--share 0.3] [MODULE …]`.

Cosmic Ray makes the mutants. Each runs in a child of this process, which has the libraries imported and lab not; without
Numba's compiler, on small logs. `mutants.toml` says which tests judge a module, and explains the mutants that may survive.
Hypothesis draws the same in each run: a mutant that only other draws find survives, and needs an `@example` of its own.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import os
import random
import resource
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

LIBRARIES = (
    "numba",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pandas",
    "pyspark.sql.streaming",
    "confluent_kafka",
)
HERE = Path(__file__).parent
OPERATORS = (  # what is wrong in kind is not worth a run: of each sign its neighbours and its opposite
    *(
        f"ReplaceComparisonOperator_{change}"
        for change in (
            *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt"),
            *("Lt_GtE", "GtE_Lt", "Gt_LtE", "LtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
        )
    ),
    *(
        f"ReplaceBinaryOperator_{change}"
        for change in (
            *("Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "Mod_FloorDiv"),
            *("LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd"),
        )
    ),
    *(
        "NumberReplacer",
        "ReplaceTrueWithFalse",
        "ReplaceFalseWithTrue",
        "ReplaceAndWithOr",
        "ReplaceOrWithAnd",
    ),
    *("AddNot", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "ExceptionReplacer"),
)
EXAMPLES = hypothesis.settings(
    derandomize=True,
    database=None,
    deadline=None,  # a mutant may stand still beside others
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
# times what the tests take without a fault: then a mutant does not end, or waits for what never comes
MORE_CPU, LONGER = 2, 4
MOST_BYTES = 8 << 30
KILLED, SURVIVED, EXPLAINED = "killed", "survived", "explained"


@dataclass(frozen=True)
class Mutant:
    """A module's source with one fault: the lines that went, and what stands there instead."""

    source: str
    line: int
    gone: str
    instead: str

    def __str__(self) -> str:
        return f"line {self.line}:  {self.gone}  ──►  {self.instead}"


def places(source: str) -> list[tuple[Any, int]]:
    """All of a module's possible faults: an operator, and which of the places that it can change."""
    nodes = list(ast_nodes(get_ast(source)))
    operators = [get_operator(f"core/{name}")() for name in OPERATORS]
    counts = [sum(1 for node in nodes for _ in operator.mutation_positions(node)) for operator in operators]
    return [(operator, place) for operator, count in zip(operators, counts) for place in range(count)]


def described(source: str, mutated: str) -> Mutant:
    before, after = source.splitlines(), mutated.splitlines()
    line = next(n for n, (old, new) in enumerate(zip([*before, ""], [*after, ""])) if old != new)
    changes = list(ndiff(before[line : line + 20], after[line : line + 20]))
    gone, instead = (
        " ".join(text[2:].strip() for text in changes if text[:2] == sign) for sign in ("- ", "+ ")
    )
    return Mutant(mutated, line + 1, gone, instead)


class Planted(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from a source of ours."""

    def __init__(self, name: str, path: Path, source: str):
        self.name, self.path, self.source = name, path, source

    def find_spec(self, name: str, path: Any = None, target: Any = None):
        if name == self.name:
            spec = importlib.util.spec_from_loader(name, self, origin=str(self.path))
            spec.has_location = True
            return spec

    def get_source(self, fullname: str) -> str:
        return self.source


class Verdict(NamedTuple):
    """Whether the tests pass, and what that took."""

    passed: bool
    cpu_s: float
    seconds: float


def judged(
    name: str, path: Path, source: str, tests: list[str], cpu_s: float = 600, seconds: float = 600
) -> Verdict:
    """What the tests say of this source in the module's place, in so much CPU time and time at most."""
    sys.stdout.flush()
    started = time.monotonic()
    child = os.fork()
    if not child:
        code = 3
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1), os.dup2(silence, 2)
            signal.alarm(int(seconds))
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s) + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            np.seterr(divide="raise")  # as the compiled loop does
            sys.meta_path.insert(0, Planted(name, path, source))
            importlib.import_module(name)  # before pytest does, which reads a file that it is told from disk
            code = run_tests(tests)
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    end_servers(os.environ["TMPDIR"])
    return Verdict(status == 0, used.ru_utime + used.ru_stime, time.monotonic() - started)


def end_servers(folder: str) -> None:
    """Ends the programs that tests have started and left behind, such as a broker: those whose TMPDIR is ours."""
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"TMPDIR={folder}".encode() in place.read_bytes().split(b"\0"):
                os.kill(int(place.parent.name), signal.SIGKILL)


def run_tests(tests: list[str]) -> int:
    """Short random logs first, as they find most: `logs:60` stands for the first 60 of `tests.engine.drawn`, `blocks:60` for the same with blocks of two events."""
    files = []
    for test in tests:
        kind, _, logs = test.partition(":")
        if kind not in ("logs", "blocks"):
            files.append(test)
            continue
        from tests.engine.drawn import check
        from tests.engine.test_blocks import set_half

        if kind == "blocks":
            set_half(2)
        try:
            for seed in range(int(logs)):
                check(seed, seed % 4 > 0)
        except Exception:  # noqa: BLE001  (whatever the fault does)
            return 1
    return pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--noconftest", *files])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="of those in mutants.toml (all)")
    parser.add_argument("--share", type=float, default=1, help="of the mutants, drawn at random (1: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    options = parser.parse_args()
    config = tomllib.loads((HERE / "mutants.toml").read_text())
    os.environ["NUMBA_DISABLE_JIT"] = "1"  # before a library of these imports Numba
    for library in LIBRARIES:
        importlib.import_module(library)
    hypothesis.settings.register_profile("mutants", EXAMPLES)
    hypothesis.settings.load_profile("mutants")
    memory = Path("/dev/shm")
    unexplained = 0
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=memory if memory.is_dir() else None) as folder:
        Path(folder).chmod(0o755)  # a database of PostgreSQL is another user's
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        for module in config["module"]:
            if not options.modules or module["name"] in options.modules:
                found = run(module, options.share, random.Random(options.seed))
                unexplained += found[SURVIVED]
    sys.exit(f"{unexplained} mutants survived unexplained" if unexplained else 0)


def explained(mutant: Mutant, equivalent: list[dict[str, str]]) -> bool:
    """Whether it is one that may survive, or lies in a function of which all may."""
    inside = {
        node.name
        for node in ast.walk(ast.parse(mutant.source))
        if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line <= (node.end_lineno or 0)
    }
    return any(
        of.get("function") in inside or (of.get("gone"), of.get("instead")) == (mutant.gone, mutant.instead)
        for of in equivalent
    )


def stale_entries(module: dict, source: str) -> list[str]:
    """What `mutants.toml` explains of a module, and its source no longer has."""
    functions = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    text = _one_line(source)
    return [
        of.get("function") or of["gone"]
        for of in module.get("equivalent", [])
        if (of["function"] not in functions if "function" in of else _one_line(of["gone"]) not in text)
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def run(module: dict, share: float, rng: random.Random) -> Counter[str]:
    name, os.environ["LAB_EXAMPLES"] = module["name"], str(module["examples"])
    path = HERE.parent / f"{name.replace('.', '/')}.py"
    source = path.read_text()
    if stale := stale_entries(module, source):
        sys.exit(f"{name}: mutants.toml explains what is not there: {stale}")
    whole = judged(name, path, source, module["tests"])
    if not whole.passed:
        sys.exit(f"{name}: its tests fail without a fault")
    every = places(source)
    drawn = [place for place in every if rng.random() < share]
    print(
        f"{name}: {len(drawn)} of {len(every)} mutants; the tests take {whole.cpu_s:.1f} s of CPU without a fault",
        flush=True,
    )
    found: Counter[str] = Counter()
    started = time.monotonic()
    for operator, place in drawn:
        mutant = described(source, mutate_code(source, operator, place))
        most = MORE_CPU * whole.cpu_s + 1, LONGER * whole.seconds + 10
        fate = KILLED
        if judged(name, path, mutant.source, module["tests"], *most).passed:
            fate = EXPLAINED if explained(mutant, module.get("equivalent", [])) else SURVIVED
        found[fate] += 1
        if fate == SURVIVED:
            print(f"  survived  {mutant}", flush=True)
    told = ", ".join(f"{count} {fate}" for fate, count in found.items())
    print(f"{name}: {told}, in {time.monotonic() - started:.0f} s", flush=True)
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main()
