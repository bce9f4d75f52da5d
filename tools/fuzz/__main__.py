"""Feeds hostile input to everything that reads some: `python -m tools.fuzz [--inputs N] [--slowest] [--targets NAME …] [--seed N]`.

Inputs that do what they must not go to `tools/fuzz/corpus/TARGET/`, and fail every run of the tests until that is fixed.
"""

import argparse
import sys
import time
from hashlib import sha256
from pathlib import Path

from tools.fuzz import hostile
from tools.fuzz.mutate import Mutator
from tools.fuzz.targets import TARGETS, Target

CORPUS = Path(__file__).with_name("corpus")
REPEATS = 3  # the least of so many times counts
BEST = 50  # slow inputs that are kept to be changed further
ENOUGH = 2_000  # bytes: shorter ones say nothing about the cost of a byte


def kept(target: Target) -> list[bytes]:
    """The inputs that once failed."""
    return [file.read_bytes() for file in sorted(CORPUS.glob(f"{target.name}/*"))]


def failing(target: Target, inputs: list[bytes]) -> tuple[bytes, BaseException] | None:
    """The first of the inputs that does what it must not, alone if it does so alone."""
    try:
        target.run(inputs)
        return None
    except Exception as error:  # noqa: BLE001
        for text in inputs:
            try:
                target.run([text])
            except Exception as alone:  # noqa: BLE001
                return text, alone
        return b"\n".join(inputs), error


def shrunk(target: Target, text: bytes, error: BaseException) -> bytes:
    """A shorter input that fails in the same way, as far as cutting goes."""
    size = len(text) // 2
    while size:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + size :]
            found = failing(target, [shorter])
            if found and type(found[1]) is type(error):
                text = shorter
            else:
                at += size
        size //= 2
    return text


def wrong(target: Target, inputs: int, seed: int, seconds: float) -> tuple[int, int]:
    """Tries inputs; returns how many it tried, and how many kinds of failures it found."""
    mutator, tried, known = Mutator([*target.seeds, *kept(target)], target.words, seed), 0, set()
    until = time.monotonic() + seconds
    while tried < inputs and time.monotonic() < until:
        some = [mutator.draw() for _ in range(min(target.at_once, inputs - tried))]
        tried += len(some)
        if found := failing(target, some):
            text, error = found
            trace = error.__traceback__
            while trace and trace.tb_next:
                trace = trace.tb_next
            kind = (type(error).__name__, trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            if kind not in known:
                known.add(kind)
                text = shrunk(target, text, error)
                print(f"{target.name}: {kind} {str(error)[:300]!r}\n    {text[:300]!r}", flush=True)
                folder = CORPUS / target.name
                folder.mkdir(parents=True, exist_ok=True)
                (folder / sha256(text).hexdigest()[:12]).write_bytes(text)
    return tried, len(known)


def cost(target: Target, text: bytes) -> float:
    """CPU time of an input, s."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        failing(target, [text])
        best = min(best, time.process_time() - started)
        if best > 1:
            break
    return best


def slowest(target: Target, seed: int, seconds: float) -> tuple[int, float, bytes]:
    """Changes the slowest inputs further and further; returns how many it tried, the highest cost in µs a byte, and its input."""
    mutator, tried, until = Mutator(target.seeds, target.words, seed), 0, time.monotonic() + seconds
    # what any input costs: an empty object is refused by a reader that others never reach
    base = min(cost(target, text) for text in (b"", b"x", b"{}"))
    best = [(0.0, text) for text in target.seeds]
    while time.monotonic() < until:
        mutator.pool = [text for _, text in best] + [*target.seeds]
        text = mutator.draw(min(target.most, 40_000)).replace(b"\n", target.line_end)
        if len(text) < ENOUGH:
            piece = text[mutator.random.randrange(len(text) + 1) :][:200] or b"{"
            at = text.find(piece)
            text = text[:at] + piece * (-(-ENOUGH // len(piece))) + text[at:]
        tried += 1
        took = max(cost(target, text) - base, 0) / len(text) * 1e6
        if took > best[-1][0] or len(best) < BEST:
            best = sorted([*best, (took, text)], key=lambda each: -each[0])[:BEST]
    return tried, *best[0]


def measured() -> None:
    """The cost of the texts of `hostile`, at two sizes: a cost of a byte that grows with the size is no constant."""
    for name, kind, sizes in (
        ("payments", hostile.LINES, (100_000, 1_000_000)),
        ("infer", hostile.LINES, (100_000, 1_000_000)),
        ("messages", hostile.MESSAGES, (10_000, 60_000)),
        ("schemas", hostile.SCHEMAS, (25_000, 250_000)),
    ):
        for text, make in kind.items():
            costs = [cost(TARGETS[name], make(size)) / len(make(size)) * 1e6 for size in sizes]
            print(f"{name:9} {text:40} {costs[0]:8.3f} {costs[1]:8.3f} µs a byte", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="NAME")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="of each target (100000)")
    parser.add_argument(
        "--seconds", type=float, default=600, metavar="N", help="for each target at most (600)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--slowest", action="store_true", help="look for the slowest inputs instead")
    parser.add_argument("--hostile", action="store_true", help="measure the known hostile texts instead")
    options = parser.parse_args()
    if options.hostile:
        measured()
        return 0
    failures = 0
    for target in map(TARGETS.get, options.targets):
        started = time.monotonic()
        if options.slowest:
            tried, took, text = slowest(target, options.seed, options.seconds)
            print(
                f"{target.name}: {tried:,} inputs, slowest {took:.3f} µs a byte: {len(text):,} bytes, {text[:200]!r}",
                flush=True,
            )
        else:
            tried, found = wrong(target, options.inputs, options.seed, options.seconds)
            failures += found
            seconds = time.monotonic() - started
            print(
                f"{target.name}: {tried:,} inputs in {seconds:,.0f} s, {found} kinds of failures", flush=True
            )
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
