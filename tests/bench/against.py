"""The engine as it was at a commit beside the one of today: the same bench, each in a process of its own for every turn.

`python -m tests.bench.against FILE EVENTS` prints the events a second of a warm run over a finished file.
"""

import os
import subprocess
import sys
from pathlib import Path

from lab.engine.checkpoint.settings import Settings
from lab.machine.session import session
from tests.bench.data import Payments, three_rules
from tests.bench.drive import replay

ROOT = Path(__file__).parents[2]
ENGINE = Settings(max_batch_records=400_000, short_batches=False)  # larger batches cost less CPU an event


def tree(folder: Path, commit: str | None) -> Path:
    """A folder that has today's benches and the `lab` of a commit; None: today's. Raises ValueError for no commit of ours."""
    folder.mkdir(parents=True)
    if commit:
        packed = subprocess.run(["git", "archive", commit, "lab"], cwd=ROOT, capture_output=True, check=False)
        if packed.returncode:
            raise ValueError(f"--against {commit}: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    else:
        (folder / "lab").symlink_to(ROOT / "lab")
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def rate(of: Path, payments: Payments) -> float:
    """Events a second of a warm run with the `lab` of a tree."""
    command = [sys.executable, "-m", "tests.bench.against", str(payments.file), str(payments.events)]
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
