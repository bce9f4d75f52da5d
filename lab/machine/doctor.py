"""`lab doctor`: is this machine ready, and if not, what would make it so?"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path

from lab.machine.java import JavaMissing, java

GIB = 1 << 30
OLDEST_PYTHON = (3, 11)
PORTS = {8888: "JupyterLab", 9092: "the Kafka broker"}
REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements.txt"
COLOURS = {"ok": "green", "warning": "darkorange", "problem": "red"}
SPARK_PROGRAM = """
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
spark.stop()
"""
SPARK_TIMEOUT_S = 120


@dataclass(frozen=True)
class Check:
    """One line of the report: what was looked at, `ok`, `warning` or `problem`, what was found, and the fix."""

    name: str
    state: str
    found: str
    fix: str = ""


class Checks(list[Check]):
    """The report; a notebook shows it as a table."""

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td>{escape(c.name)}</td><td style="color:{COLOURS[c.state]}">{c.state}</td>'
            f'<td style="text-align:left">{escape(c.found)}</td>'
            f'<td style="text-align:left; white-space:pre-wrap">{escape(c.fix)}</td></tr>'
            for c in self
        )
        return f"<table><tr><th>check</th><th>state</th><th>found</th><th>fix</th></tr>{rows}</table>"


def check_python() -> Iterator[Check]:
    found = sys.version.split()[0]
    if sys.version_info >= OLDEST_PYTHON:
        yield Check("Python", "ok", found)
    else:
        yield Check("Python", "problem", found, "Python 3.11 or newer: make setup PYTHON=/path/to/python3.13")


def check_java() -> Iterator[Check]:
    try:
        found = java()
    except JavaMissing as error:
        headline, _, rest = str(error).partition("\n")
        yield Check("Java", "problem", headline, rest)
        return
    tested = found.version in (17, 21)
    fix = "" if tested else "17 or 21 are what Spark is tested with; use one of them if queries fail to start"
    yield Check("Java", "ok" if tested else "warning", f"{found.version}: {found.path}", fix)


def check_memory() -> Iterator[Check]:
    import psutil

    free = psutil.virtual_memory().available
    yield _room("memory", free, f"{free / GIB:.1f} GiB free", enough=3, least=1, fix="close other programs")


def check_disk() -> Iterator[Check]:
    from lab.machine import jars

    for name, folder in (("temporary files", Path(tempfile.gettempdir())), ("cache", jars.cache())):
        there = next(place for place in (folder, *folder.parents) if place.is_dir())
        free = shutil.disk_usage(there).free
        fix = (
            "free some space, or set "
            + ("TMPDIR" if name == "temporary files" else "LAB_CACHE")
            + " elsewhere"
        )
        yield _room(name, free, f"{free / GIB:.0f} GiB free in {folder}", enough=5, least=1, fix=fix)


def _room(name: str, free: int, found: str, enough: int, least: int, fix: str) -> Check:
    if free >= enough * GIB:
        return Check(name, "ok", found)
    return Check(
        name, "warning" if free >= least * GIB else "problem", found, f"{enough} GiB are comfortable: {fix}"
    )


def check_shared_memory() -> Iterator[Check]:
    from lab.engine.shared import memory_folder

    shm, folder = Path("/dev/shm"), memory_folder()
    if folder == shm or not shm.is_dir():
        yield Check("shared memory", "ok", f"windows are cached in {folder}")
    else:
        found = f"{shutil.disk_usage(shm).free / GIB:.2f} GiB free in {shm}: windows are cached in {folder}, slower"
        yield Check("shared memory", "warning", found, "in Docker: --shm-size=2g")


def check_ports() -> Iterator[Check]:
    from lab.machine import broker, ports

    for port, user in PORTS.items():
        if ports.is_free(port):
            yield Check(f"port {port}", "ok", f"free for {user}")
        elif port == broker.PORT and (ours := broker.at(port)):
            yield Check(f"port {port}", "ok", f"{user} has it (pid {ours.pid}), its data in {ours.folder}")
        else:
            fix = f"stop what listens there, or give {user} another port"
            yield Check(f"port {port}", "warning", f"taken by {broker.holder(port)}", fix)


def check_packages() -> Iterator[Check]:
    """Installed versions against the pins: those of requirements.txt, or of the installed package."""
    from packaging.requirements import Requirement

    lines = (
        REQUIREMENTS.read_text().splitlines() if REQUIREMENTS.is_file() else metadata.requires("lab") or []
    )
    pins = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    absent, other = [], []
    for pin in pins:
        try:
            version = metadata.version(pin.name)
        except metadata.PackageNotFoundError:
            absent.append(pin.name)
        else:
            if not pin.specifier.contains(version, prereleases=True):
                other.append(f"{pin.name} {version} (pinned {pin.specifier})")
    if absent:
        yield Check("packages", "problem", "missing: " + ", ".join(absent), "make setup")
    if other:
        yield Check("packages", "warning", ", ".join(other), ".venv/bin/pip install -r requirements.txt")
    if not absent and not other:
        yield Check("packages", "ok", f"{len(pins)} as pinned")


def check_worker_python() -> Iterator[Check]:
    """Spark's Python workers must be the Python that has the packages."""
    name, chosen = "PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON")
    if chosen is None:
        yield Check(name, "ok", "not set: the session uses its own Python")
    elif (path := shutil.which(chosen)) is None:
        yield Check(name, "problem", f"{chosen}, which does not exist", "unset PYSPARK_PYTHON")
    elif os.path.abspath(path) != os.path.abspath(sys.executable):
        yield Check(name, "warning", f"{chosen}, but this is {sys.executable}", "unset PYSPARK_PYTHON")
    else:
        yield Check(name, "ok", chosen)


def check_jars() -> Iterator[Check]:
    from lab.machine import jars

    absent = [coordinates for group in jars.GROUPS.keys() - jars.LARGE for coordinates in jars.missing(group)]
    if absent:
        yield Check("jars", "warning", "not fetched yet: " + ", ".join(absent), "python -m lab.machine.jars")
    else:
        yield Check("jars", "ok", f"in {jars.cache()}")


def check_spark() -> Iterator[Check]:
    """Starts Spark in a process of its own, so that a notebook's session is left alone."""
    started = time.monotonic()
    command = [sys.executable, "-c", SPARK_PROGRAM]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    try:
        done = subprocess.run(
            command, env=environment, check=False, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        yield Check("Spark", "problem", f"no answer within {SPARK_TIMEOUT_S} s", "free memory and processors")
        return
    if done.returncode == 0:
        yield Check("Spark", "ok", f"started and ran a Python function in {time.monotonic() - started:.0f} s")
    else:
        last = (done.stderr.strip().splitlines() or ["it died without a word"])[-1]
        yield Check("Spark", "problem", last, "see the other lines first: most often it is Java or memory")


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    *(check_python, check_java, check_memory, check_disk, check_shared_memory),
    *(check_ports, check_packages, check_worker_python, check_jars, check_spark),
)


def run(quick: bool = False) -> Checks:
    """All checks; `quick` leaves out the one that starts Spark."""
    report = Checks()
    for check in CHECKS:
        if quick and check is check_spark:
            continue
        try:
            report.extend(check())
        except ImportError as error:
            report.append(Check(check.__name__.removeprefix("check_"), "problem", str(error), "make setup"))
    return report


def main(arguments: list[str] | None = None) -> int:
    """Prints the report; 1 when a problem remains."""
    parser = argparse.ArgumentParser(
        prog="lab doctor", description="Is this machine ready? Says what is wrong and the fix."
    )
    parser.add_argument("--quick", action="store_true", help="do not start Spark")
    options = parser.parse_args(arguments)
    from rich.console import Console
    from rich.markup import escape as plain
    from rich.table import Table

    report = run(options.quick)
    table = Table("check", "state", "found", "fix")
    for c in report:
        table.add_row(
            plain(c.name),
            f"[{COLOURS[c.state].replace('dark', 'dark_')}]{c.state}",
            plain(c.found),
            plain(c.fix),
        )
    Console().print(table)
    return int(any(c.state == "problem" for c in report))


if __name__ == "__main__":
    sys.exit(main())
