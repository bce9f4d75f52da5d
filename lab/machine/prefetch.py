"""Wheels and jars in one folder, for a room without network: `make prefetch` fills it, `make setup` uses it when it is there.

    prefetched/wheels/   the pinned packages, for this system and this version of Python; of pure Python ones, for all
    prefetched/jars/     all jars but the large ones

Copied into another clone, it is all that `make setup` needs beside Python and Java. Jars that are there already are not fetched again.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from lab.machine import jars

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements-dev.lock", "requirements-build.lock")


class PrefetchedCounts(NamedTuple):
    """Numbers of files in a folder that prepares a room without network."""

    wheels: int
    jars: int


def fill_prefetch_folder(folder: Path) -> PrefetchedCounts:
    """Puts wheels and jars into `folder`; returns how many of each are there. Raises CalledProcessError, JarsError."""
    wheels, jar_folder = folder / "wheels", folder / "jars"
    # `wheel`, not `download`: what comes as source is built here, with this environment's setuptools, which is pinned
    command = (
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--prefer-binary"]
        + ["--no-build-isolation", "--no-deps", "--require-hashes", "--wheel-dir", str(wheels)]
        + [word for lock in LOCKS for word in ("--requirement", str(ROOT / lock))]
    )
    subprocess.run(command, check=True)
    for group in jars.GROUPS.keys() - jars.LARGE:
        for jar in jars.fetch_jars(group):
            if not (jar_folder / jar.name).exists():
                jars.copy_jar(jar, jar_folder)
    return PrefetchedCounts(len(list(wheels.glob("*.whl"))), len(list(jar_folder.glob("*.jar"))))


if __name__ == "__main__":
    place = Path(sys.argv[1])
    count = fill_prefetch_folder(place)
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    python = f"Python {sys.version_info.major}.{sys.version_info.minor} on {sys.platform}"
    print(f"{place}: {count.wheels} wheels for {python}, {count.jars} jars, {size / 1e6:,.0f} MB.")
    print("Copy it into a clone without network, beside its Makefile; make setup uses it.")
