"""`lab doctor`: is this machine ready, and if not, what would make it so?"""

import argparse
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from shlex import quote

from lab.logs.loopback import BRING_UP, HOST, NO_LOOPBACK, NoLoopback, check_loopback
from lab.machine.findings import COLOURS, DISTRIBUTION, GIB, ROOT, Check, Checks, rate_free_space
from lab.machine.java import JavaMissing, find_java
from lab.machine.surroundings import (
    check_folder,
    check_leftover_java,
    check_line_ends,
    check_network,
    check_venv,
)
from lab.model.language import ENGLISH, say, speak, translated

OLDEST_PYTHON = (3, 11)  # what pins need
PORTS = {8888: "JupyterLab", 9092: "the Kafka broker", 5433: "the database", 8707: "the enforcement service"}
REQUIREMENTS = ROOT / "requirements.txt"
SPARK_PROGRAM = """
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
settings["spark.authenticate"] = "true"
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
spark.stop()
"""
SPARK_TIMEOUT_S = 120


def check_python() -> Iterator[Check]:
    found = sys.version.split()[0]
    if sys.version_info >= OLDEST_PYTHON:
        yield Check("Python", "ok", found)
    else:
        fix = say(
            "Python {version} or newer: make setup PYTHON=/path/to/python3.13",
            version=".".join(map(str, OLDEST_PYTHON)),
        )
        yield Check("Python", "problem", found, fix)


def check_java() -> Iterator[Check]:
    try:
        found = find_java()
    except JavaMissing as error:
        headline, _, rest = translated(str(error)).partition("\n")
        yield Check("Java", "problem", headline, rest)
        return
    tested = found.version in (17, 21)
    fix = say("17 or 21 are what Spark is tested with; use one of them if queries fail to start")
    yield Check(
        "Java", "ok" if tested else "warning", f"{found.version}: {found.path}", "" if tested else fix
    )


def check_memory() -> Iterator[Check]:
    import psutil

    free = psutil.virtual_memory().available
    found = say("{size} GiB free", size=f"{free / GIB:.1f}")
    yield rate_free_space(say("memory"), free, found, enough_gib=3, fix=say("close other programs"))


def check_disk() -> Iterator[Check]:
    from lab.engine.compiled.codecache import CodeCacheNotWritable, writable_code_cache
    from lab.machine import jars

    to_fetch = any(jars.missing_jars(group) for group in jars.GROUPS.keys() - jars.LARGE)
    for name, folder, variable, to_write in (
        (say("temporary files"), Path(tempfile.gettempdir()), "TMPDIR", True),
        (say("cache"), jars.cache_folder(), "LAB_CACHE", to_fetch),
    ):
        there = next(place for place in (folder, *folder.parents) if os.path.isdir(place))
        if to_write and not os.access(there, os.W_OK):
            reason = os.strerror(errno.EACCES)
            found = say("{folder} cannot be written to: {reason}", folder=folder, reason=reason)
            fix = say("set {variable} to a folder that can be written to", variable=variable)
            yield Check(name, "problem", found, fix)
            continue
        free = shutil.disk_usage(there).free
        found = say("{size} GiB free in {folder}", size=f"{free / GIB:.0f}", folder=folder)
        fix = say("free some space, or set {variable} elsewhere", variable=variable)
        yield rate_free_space(name, free, found, enough_gib=5, fix=fix)
    try:
        writable_code_cache()
    except CodeCacheNotWritable as error:
        found, _, fix = translated(str(error)).partition("; ")
        yield Check(say("cache"), "problem", found, fix)


def check_shared_memory() -> Iterator[Check]:
    from lab.engine.windows.shared import memory_folder

    shm, folder = Path("/dev/shm"), memory_folder()
    if folder == shm or not shm.is_dir():
        yield Check(say("shared memory"), "ok", say("windows are cached in {folder}", folder=folder))
    else:
        found = say(
            "{size} GiB free in {memory}: windows are cached in {folder}, slower",
            size=f"{shutil.disk_usage(shm).free / GIB:.2f}",
            memory=shm,
            folder=folder,
        )
        yield Check(say("shared memory"), "warning", found, say("in Docker: --shm-size=2g"))


def check_ports() -> Iterator[Check]:
    from lab.machine import broker, database, ports

    for port, program in PORTS.items():
        name, user = say("port {port}", port=port), say(program)
        if ports.is_free(port):
            yield Check(name, "ok", say("free for {program}", program=user))
        elif ours := broker.broker_on_port(port) or database.database_on_port(port):
            found = say(
                "{program} has it (pid {pid}), its data in {folder}",
                program=user,
                pid=ours.pid,
                folder=ours.folder,
            )
            yield Check(name, "ok", found)
        else:
            found = say("taken by {program}", program=translated(broker.describe_listener(port)))
            fix = say("stop what listens there, or give {program} another port", program=user)
            yield Check(name, "warning", found, fix)


def check_packages() -> Iterator[Check]:
    """Installed versions against the pins: those of requirements.txt, or of the installed package."""
    from packaging.requirements import Requirement

    lines = (
        REQUIREMENTS.read_text().splitlines()
        if REQUIREMENTS.is_file()
        else metadata.requires(DISTRIBUTION) or []
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
                pinned = say("pinned {versions}", versions=pin.specifier)
                other.append(f"{pin.name} {version} ({pinned})")
    asked = "-r requirements.txt" if REQUIREMENTS.is_file() else f"--force-reinstall {DISTRIBUTION}"
    fix = f"{quote(sys.executable)} -m pip install {asked}"
    name = say("packages")
    if absent:
        yield Check(name, "problem", say("missing: {names}", names=", ".join(absent)), fix)
    if other:
        yield Check(name, "warning", ", ".join(other), fix)
    if not absent and not other:
        yield Check(name, "ok", say("{count} as pinned", count=len(pins)))


def check_package_name() -> Iterator[Check]:
    """Another project on the public index is called `lab`, and installs a package of that name over this one."""
    others = sorted(set(metadata.packages_distributions().get("lab", [])) - {DISTRIBUTION})
    if others:
        found = say(
            "the package lab is also installed by {names}: one has overwritten files of the other",
            names=", ".join(others),
        )
        fix = say("pip uninstall lab {name}, then pip install {name}", name=DISTRIBUTION)
        yield Check(say("name"), "problem", found, fix)
    else:
        yield Check(say("name"), "ok", say("the package lab is that of {name}", name=DISTRIBUTION))


def check_worker_python() -> Iterator[Check]:
    """Spark's Python workers must be the Python that has the packages."""
    name, chosen = "PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON")
    if chosen is None:
        yield Check(name, "ok", say("not set: the session uses its own Python"))
    elif (path := shutil.which(chosen)) is None:
        found = say("{file}, which does not exist", file=chosen)
        yield Check(name, "problem", found, "unset PYSPARK_PYTHON")
    elif os.path.abspath(path) != os.path.abspath(sys.executable):
        found = say("{file}, but this is {other}", file=chosen, other=sys.executable)
        yield Check(name, "warning", found, "unset PYSPARK_PYTHON")
    else:
        yield Check(name, "ok", chosen)


def check_spark_home() -> Iterator[Check]:
    """A SPARK_HOME that a tutorial has left must be the Spark that the installed PySpark belongs to."""
    if not (home := os.environ.get("SPARK_HOME")):
        return
    from lab.machine import leftovers

    try:
        leftovers.check_spark_home(home)
    except RuntimeError as error:
        yield Check("SPARK_HOME", "problem", translated(str(error)), "unset SPARK_HOME")
    else:
        yield Check("SPARK_HOME", "ok", home)


def check_jars() -> Iterator[Check]:
    from lab.machine import jars

    absent = [
        coordinates for group in jars.GROUPS.keys() - jars.LARGE for coordinates in jars.missing_jars(group)
    ]
    damaged = [coordinates for coordinates in absent if os.path.exists(jars.jar_path(coordinates))]
    fix = f"{quote(sys.executable)} -m lab.machine.jars"
    if damaged:
        found = say("damaged in {folder}: {files}", folder=jars.cache_folder(), files=", ".join(damaged))
        yield Check("jars", "warning", found, say("{command} fetches them again", command=fix))
    elif absent:
        some = ", ".join(absent[:3])
        if absent[3:]:
            some = say("{names} and {count} more", names=some, count=len(absent) - 3)
        yield Check("jars", "warning", say("not fetched yet: {names}", names=some), fix)
    else:
        yield Check("jars", "ok", say("in {folder}", folder=jars.cache_folder()))


def check_postgresql() -> Iterator[Check]:
    """PostgreSQL is needed only for rules in a PostgreSQL database."""
    from lab.machine import database
    from lab.machine.database import HOW_TO_GET_IT

    try:
        found = database.programs_folder()
        yield Check("PostgreSQL", "ok", f"{database.programs_version(found)}: {found}")
    except database.DatabaseError:
        absent = say("PostgreSQL {version} or newer is not on this machine", version=database.OLDEST)
        fix = say("to keep rules in it: {way}", way=say(HOW_TO_GET_IT))
        yield Check("PostgreSQL", "ok", absent, fix)


def check_spark() -> Iterator[Check]:
    """Starts Spark in a separate process, so that a notebook's session is not affected."""
    try:
        check_loopback()
    except NoLoopback:
        yield Check("Spark", "problem", say(NO_LOOPBACK), say(BRING_UP))
        return
    started = time.monotonic()
    command = [sys.executable, "-c", SPARK_PROGRAM]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    try:
        done = subprocess.run(
            command, env=environment, check=False, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        found = say("no answer within {seconds} s", seconds=SPARK_TIMEOUT_S)
        yield Check("Spark", "problem", found, say("free memory and processors"))
        return
    if done.returncode == 0:
        seconds = f"{time.monotonic() - started:.0f}"
        found = say("started and ran a Python function in {seconds} s", seconds=seconds)
        yield Check("Spark", "ok", found)
    else:
        last = (done.stderr.strip().splitlines() or [say("it died without a word")])[-1]
        fix = say("see the other lines first: most often it is Java or memory")
        yield Check("Spark", "problem", last, fix)


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (
    *(check_python, check_venv, check_folder, check_line_ends, check_java),
    *(check_memory, check_disk, check_shared_memory, check_leftover_java, check_ports),
    *(
        check_packages,
        check_package_name,
        check_worker_python,
        check_spark_home,
        check_jars,
        check_network,
        check_postgresql,
        check_spark,
    ),
)


def run(quick: bool = False) -> Checks:
    """Runs all checks; `quick` skips the one that starts Spark."""
    if sys.platform == "emscripten":
        found = say("the kit runs in this browser, without Spark: nothing needs to be installed")
        return Checks([Check(say("browser"), "ok", found)])
    report = Checks()
    for check in CHECKS:
        if quick and check is check_spark:
            continue
        try:
            report.extend(check())
        except ImportError as error:
            report.append(
                Check(say(check.__name__.removeprefix("check_")), "problem", str(error), "make setup")
            )
    return report


def main(arguments: list[str] | None = None) -> int:
    """Prints the report; 1 when a problem remains."""
    parser = argparse.ArgumentParser(
        prog="lab doctor", description="Is this machine ready? Says what is wrong and the fix."
    )
    parser.add_argument("--quick", action="store_true", help="do not start Spark")
    parser.add_argument(
        "--report",
        action="store_true",
        help="as text to paste into an issue: without passwords, your name, your home folder and this machine's name",
    )
    options = parser.parse_args(arguments)
    if options.report:
        speak(ENGLISH)  # for whoever reads the issue
        report = run(options.quick)
        print(report.redacted_text())
        return _exit_code(report)
    from rich.console import Console
    from rich.markup import escape as plain
    from rich.table import Table

    report = run(options.quick)
    table = Table(say("check"), say("state"), say("found"), say("fix"))
    for c in report:
        table.add_row(
            plain(c.name),
            f"[{COLOURS[c.state].replace('dark', 'dark_')}]{say(c.state)}",
            plain(c.found),
            plain(c.fix),
        )
    Console().print(table)
    return _exit_code(report)


def _exit_code(report: Checks) -> int:
    return int(any(c.state == "problem" for c in report))


if __name__ == "__main__":
    sys.exit(main())
