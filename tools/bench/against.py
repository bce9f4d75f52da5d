"""The engine as it was at a commit beside the one of today: each in a process of its own for every turn, on the same payments.

Each tree runs the bench that it came with, as modules have moved: `three_rules` and `replay` are the same in all.

`python -m tools.bench.against FILE EVENTS` prints the events a second of a warm run over a finished file.
"""

import os
import subprocess
import sys
from pathlib import Path

from lab.engine.checkpoint.settings import Settings
from lab.machine.session import session
from tools.bench.data import Payments, three_rules
from tools.bench.drive import replay

ROOT = Path(__file__).parents[2]
ENGINE = Settings(max_batch_records=400_000, short_batches=False)  # larger batches cost less CPU an event


def tree(folder: Path, commit: str | None) -> Path:
    """A folder that has `lab` and the benches of a commit; None: today's. Raises ValueError for no commit of ours."""
    folder.mkdir(parents=True)
    if commit:
        packed = pack(commit, "tools")
        if packed.returncode:  # the benches were once among the tests
            packed = pack(commit, "tests")
        if packed.returncode:
            raise ValueError(f"--against {commit}: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        # both run on today's Spark, so with its jars
        jars = Path("lab", "machine", "jars.txt")
        (folder / jars).write_bytes((ROOT / jars).read_bytes())
        # the distribution was called lab once, and asked for its version under that name
        (folder / "lab-0.dist-info").mkdir()
        (folder / "lab-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 0\n")
    else:
        for name in ("lab", "tests", "tools"):
            (folder / name).symlink_to(ROOT / name)
    return folder


def pack(commit: str, benches: str) -> subprocess.CompletedProcess:
    names = ["lab", f"{benches}/__init__.py", f"{benches}/bench"]
    return subprocess.run(["git", "archive", commit, *names], cwd=ROOT, capture_output=True, check=False)


def rate(of: Path, payments: Payments) -> float:
    """Events a second of a warm run with the `lab` of a tree."""
    benches = "tools" if (of / "tools").exists() else "tests"
    command = [sys.executable, "-m", f"{benches}.bench.against", str(payments.file), str(payments.events)]
    environment = os.environ | {"PYTHONPATH": str(of)}
    ran = subprocess.run(command, cwd=of, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(ran.stdout.split()[-1])


def main() -> None:
    payments = Payments(Path(sys.argv[1]), int(sys.argv[2]))
    with session() as spark:
        runs = [replay(spark, payments, three_rules(), ENGINE) for _ in range(2)]
    print(runs[-1].rate)


if __name__ == "__main__":
    main()
