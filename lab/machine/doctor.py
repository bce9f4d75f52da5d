"""`lab doctor`: is this machine ready, and if not, what would make it so?

CHECKS is a table of what is looked at and how; the report is a table for a notebook, or a text without private data for an issue.
"""

import argparse
import errno
import getpass
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from lab.logs.loopback import BRING_UP, HOST, NO_LOOPBACK, NoLoopback, check_loopback
from lab.machine.java import JavaMissing, find_java
from lab.model.language import ENGLISH, say, speak, translated

GIB = 1 << 30
DISTRIBUTION = "rules-lab"  # `lab` alone is another project
ROOT = Path(__file__).resolve().parents[2]
CHECK_STATES = ("ok", "warning", "problem")
COLOURS = {"ok": "green", "warning": "darkorange", "problem": "red"}
READABLE = {  # in a light and a dark page
    "ok": "var(--lab-good, #007a5a)",
    "warning": "var(--lab-warning, #9a5b00)",
    "problem": "var(--lab-bad, #c2410c)",
}
TOLD = ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "LAB_CACHE", "PYSPARK_PYTHON", "PYTHONPATH", "SPARK_HOME", "TMPDIR")
PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
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
ANEW = "rm -r .venv && make setup"
# Java's options, Hadoop's paths and search paths give these a meaning of their own
ODD = re.compile(r"""[^\w./@+~ -]|[^\x00-\x7f]""")
WITH_LINE_ENDS = ("Makefile", "requirements.txt", "lab/machine/jars.txt", "lab/machine/broker.properties")
WINDOWS_DRIVE = re.compile(r"/mnt/[a-z]/")
NETWORK_TIMEOUT = "--timeout=5"  # s
IN_A_CLONE = "Makefile"  # an installed package does not have this file
STARTED_BY_PYTHON = {"org.apache.spark.deploy.SparkSubmit", "pyspark-shell"}


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
            f'<tr><td style="text-align:left">{escape(c.name)}</td><td style="text-align:left; color:{READABLE[c.state]}">{say(c.state)}</td>'
            f'<td style="text-align:left">{escape(c.found)}</td>'
            f'<td style="text-align:left; white-space:pre-wrap">{escape(c.fix)}</td></tr>'
            for c in self
        )
        head = "".join(
            f'<th style="text-align:left">{name}</th>'
            for name in (say("check"), say("state"), say("found"), say("fix"))
        )
        return f'<table aria-label="{say("This machine")}"><tr>{head}</tr>{rows}</table>'

    def redacted_text(self) -> str:
        """The report to paste into an issue: without passwords, and without the names of user, home and machine."""
        lines = [f"{c.state:8} {c.name}: {c.found}" for c in self]
        return redact("\n".join([*_machine(), "", *lines]))


def redact(text: str) -> str:
    """Removes private data from `text`: the home folder, names of user and machine, passwords in addresses.

    >>> redact("http://me:secret@proxy:8080 " + str(Path.home() / "lab"))
    'http://…@proxy:8080 ~/lab'
    """
    text = re.sub(r"//[^/\s@]+@", "//…@", text)
    text = re.sub(r"\b(?=\w*?(?:password|token|secret|key))(\w++=)\S+", r"\1…", text, flags=re.IGNORECASE)
    text = text.replace(str(Path.home()), "~")
    text = re.sub(rf"(?<=/){re.escape(getpass.getuser())}(?![\w.-])", "USER", text)
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "MACHINE", text)


def _machine() -> list[str]:
    """Facts that the checks do not report: versions, system, size, and relevant settings."""
    import psutil

    memory = psutil.virtual_memory().total / GIB
    variables = [f"{name}={os.environ[name]}" for name in TOLD if name in os.environ]
    variables += [f"{name} is set" for name in PROXIES if name in os.environ]
    return [
        f"lab {metadata.version(DISTRIBUTION)} {_commit()}".strip(),
        f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} processors, {memory:.0f} GiB",
        *variables,
    ]


def _commit() -> str:
    """The commit of the checkout, marked if files were changed; empty outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# -- what is looked at ---------------------------------------------------------------------------------------------


class Finding(NamedTuple):
    """What a check says: `ok`, `warning` or `problem`, what was found, and the fix."""

    state: str
    found: str
    fix: str = ""


def check_python() -> Finding:
    found = sys.version.split()[0]
    if sys.version_info >= OLDEST_PYTHON:
        return Finding("ok", found)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    fix = say("Python {version} or newer: make setup PYTHON=/path/to/python3.13", version=oldest)
    return Finding("problem", found, fix)


def check_venv() -> Finding:
    """The .venv of this clone is of a Python that is still there, was not moved, and is the one that runs this."""
    venv = ROOT / ".venv"
    if not (ROOT / IN_A_CLONE).is_file():
        return Finding("ok", say("none needed: lab is installed in {folder}", folder=sys.prefix))
    if not (venv / "pyvenv.cfg").is_file():
        return Finding("problem", say("there is no {file}", file=venv), "make setup")
    lines = (venv / "pyvenv.cfg").read_text().splitlines()
    settings = dict(line.split(" = ", 1) for line in lines if " = " in line)
    made, now = settings.get("version") or say("an unknown version"), _python_version(venv / "bin" / "python")
    of_command = re.search(r" -m venv [^/]*(/.*)", settings.get("command", ""))
    place = Path(of_command[1]) if of_command else venv
    if now is None:
        home = settings.get("home") or say("the place it came from")
        found = say("its Python does not run: {folder} has none any more", folder=home)
        return Finding("problem", found, ANEW)
    if not (venv / "lib" / f"python{now}" / "site-packages").is_dir():
        found = say(
            "made with Python {version}, which is {now} now: its packages are not seen", version=made, now=now
        )
        return Finding("problem", found, ANEW)
    if place.resolve() != venv.resolve():
        found = say("made in {folder} and moved since: its commands look for that place", folder=place)
        return Finding("problem", found, ANEW)
    if venv.resolve() != Path(sys.prefix).resolve():
        found = say("this runs in {folder}, not in {other}", folder=sys.prefix, other=venv)
        return Finding(
            "warning", found, say(".venv/bin/lab doctor; in Jupyter: make lab, and the kernel Python 3")
        )
    return Finding("ok", f"Python {made}")


def _python_version(python: Path) -> str | None:
    """The version that a Python reports, such as 3.11; None if it does not run."""
    command = [str(python), "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def check_folder() -> Finding:
    """A clone's folder can be written to, and has a name that all programs take. An installed package's need not."""
    if not (ROOT / IN_A_CLONE).is_file():
        return Finding("ok", say("installed in {folder}", folder=ROOT))
    folder = quote(str(ROOT))
    try:
        tempfile.TemporaryFile(dir=ROOT).close()
    except OSError as error:
        found = say("{folder} cannot be written to: {reason}", folder=ROOT, reason=error.strerror)
        return Finding("problem", found, say("cp -r {folder} ~ and work there", folder=folder))
    if odd := sorted(set(ODD.findall(str(ROOT)))):
        found = say("{folder} has {signs} in its name", folder=ROOT, signs=" ".join(map(repr, odd)))
        fix = say("some programs trip over that: move it to a plain name, then {command}", command=ANEW)
        return Finding("problem", found, fix)
    if WINDOWS_DRIVE.match(f"{ROOT}/") and "microsoft" in platform.release().lower():
        found = say("{folder} is on the drive of Windows, slow from WSL", folder=ROOT)
        fix = say("cp -r {folder} ~ and work there, after {command}", folder=folder, command=ANEW)
        return Finding("warning", found, fix)
    return Finding("ok", str(ROOT))


def check_line_ends() -> Finding:
    """Windows' line ends make scripts and settings unreadable here."""
    there = [name for name in WITH_LINE_ENDS if (ROOT / name).is_file()]
    if wrong := [name for name in there if b"\r\n" in (ROOT / name).read_bytes()]:
        command = "git config core.autocrlf input && git rm -rq --cached . && git reset -q --hard"
        fix = say("{command}  (your changes are lost)", command=command)
        return Finding("problem", say("those of Windows in {files}", files=", ".join(wrong)), fix)
    return Finding("ok", say("plain"))


def check_java() -> Finding:
    try:
        found = find_java()
    except JavaMissing as error:
        headline, _, rest = translated(str(error)).partition("\n")
        return Finding("problem", headline, rest)
    version = f"{found.version}: {found.path}"
    if found.version in (17, 21):
        return Finding("ok", version)
    fix = say("17 or 21 are what Spark is tested with; use one of them if queries fail to start")
    return Finding("warning", version, fix)


def rate_free_space(free_bytes: int, found: str, enough_gib: int, fix: str) -> Finding:
    """Rates free space: `enough_gib` GiB or more is ok, less than one GiB is a problem."""
    if free_bytes >= enough_gib * GIB:
        return Finding("ok", found)
    state = "warning" if free_bytes >= GIB else "problem"
    return Finding(state, found, say("{count} GiB are comfortable: {fix}", count=enough_gib, fix=fix))


def check_memory() -> Finding:
    import psutil

    free = psutil.virtual_memory().available
    found = say("{size} GiB free", size=f"{free / GIB:.1f}")
    return rate_free_space(free, found, enough_gib=3, fix=say("close other programs"))


def check_temporary_files() -> Finding:
    return _check_disk(Path(tempfile.gettempdir()), "TMPDIR", to_write=True)


def check_cache() -> Finding:
    from lab.machine import jars

    return _check_disk(jars.cache_folder(), "LAB_CACHE", to_write=bool(_absent_jars()))


def _check_disk(folder: Path, variable: str, to_write: bool) -> Finding:
    there = next(place for place in (folder, *folder.parents) if os.path.isdir(place))
    if to_write and not os.access(there, os.W_OK):
        reason = os.strerror(errno.EACCES)
        found = say("{folder} cannot be written to: {reason}", folder=folder, reason=reason)
        fix = say("set {variable} to a folder that can be written to", variable=variable)
        return Finding("problem", found, fix)
    free = shutil.disk_usage(there).free
    found = say("{size} GiB free in {folder}", size=f"{free / GIB:.0f}", folder=folder)
    fix = say("free some space, or set {variable} elsewhere", variable=variable)
    return rate_free_space(free, found, enough_gib=5, fix=fix)


def check_code_cache() -> Finding | None:
    from lab.engine.compiled.codecache import CodeCacheNotWritable, writable_code_cache

    try:
        writable_code_cache()
    except CodeCacheNotWritable as error:
        found, _, fix = translated(str(error)).partition("; ")
        return Finding("problem", found, fix)
    return None


def check_shared_memory() -> Finding:
    from lab.engine.windows.shared import memory_folder

    shm, folder = Path("/dev/shm"), memory_folder()
    if folder == shm or not shm.is_dir():
        return Finding("ok", say("windows are cached in {folder}", folder=folder))
    found = say(
        "{size} GiB free in {memory}: windows are cached in {folder}, slower",
        size=f"{shutil.disk_usage(shm).free / GIB:.2f}",
        memory=shm,
        folder=folder,
    )
    return Finding("warning", found, say("in Docker: --shm-size=2g"))


def check_leftover_java() -> Finding:
    """Java of Spark whose program was killed: it keeps running, and holds its memory and perhaps a checkpoint."""
    import psutil

    left = []
    for process in psutil.process_iter(["cmdline", "uids", "memory_info", "ppid"]):
        about = process.info
        ours = about["uids"] and about["uids"].real == os.getuid()
        if ours and STARTED_BY_PYTHON <= {*(about["cmdline"] or ())} and not _is_python(about["ppid"]):
            left.append((process.pid, about["memory_info"].rss))
    if not left:
        return Finding("ok", say("no Java without its program"))
    size = f"{sum(memory for _, memory in left) / GIB:.1f}"
    found = say("Java of Spark that nobody uses any more: {count}, {size} GiB", count=len(left), size=size)
    return Finding("warning", found, "kill " + " ".join(str(pid) for pid, _ in left))


def _is_python(pid: int) -> bool:
    import psutil

    try:
        return "python" in Path(psutil.Process(pid).exe()).name
    except psutil.Error:
        return False


def check_port(port: int, program: str) -> Finding:
    from lab.machine import broker, database, ports

    user = say(program)
    if ports.is_free(port):
        return Finding("ok", say("free for {program}", program=user))
    if ours := broker.broker_on_port(port) or database.database_on_port(port):
        found = say(
            "{program} has it (pid {pid}), its data in {folder}",
            program=user,
            pid=ours.pid,
            folder=ours.folder,
        )
        return Finding("ok", found)
    found = say("taken by {program}", program=translated(broker.describe_listener(port)))
    fix = say("stop what listens there, or give {program} another port", program=user)
    return Finding("warning", found, fix)


def check_missing_packages() -> Finding | None:
    absent = [pin.name for pin, version in _pins() if version is None]
    return (
        Finding("problem", say("missing: {names}", names=", ".join(absent)), _install()) if absent else None
    )


def check_versions() -> Finding | None:
    other, pins = [], _pins()
    for pin, version in pins:
        if version and not pin.specifier.contains(version, prereleases=True):
            other.append(f"{pin.name} {version} ({say('pinned {versions}', versions=pin.specifier)})")
    if other:
        return Finding("warning", ", ".join(other), _install())
    if any(version is None for _, version in pins):
        return None
    return Finding("ok", say("{count} as pinned", count=len(pins)))


def _pins() -> list[tuple[Any, str | None]]:
    """Pins, those of requirements.txt or of the installed package, and the versions that are installed."""
    from packaging.requirements import Requirement

    lines = (
        REQUIREMENTS.read_text().splitlines()
        if REQUIREMENTS.is_file()
        else metadata.requires(DISTRIBUTION) or []
    )
    pins = [Requirement(text) for line in lines if (text := line.partition("#")[0].strip())]
    return [(pin, _version(pin.name)) for pin in pins if pin.marker is None or pin.marker.evaluate()]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _install() -> str:
    asked = "-r requirements.txt" if REQUIREMENTS.is_file() else f"--force-reinstall {DISTRIBUTION}"
    return f"{quote(sys.executable)} -m pip install {asked}"


def check_package_name() -> Finding:
    """Another project on the public index is called `lab`, and installs a package of that name over this one."""
    others = sorted(set(metadata.packages_distributions().get("lab", [])) - {DISTRIBUTION})
    if not others:
        return Finding("ok", say("the package lab is that of {name}", name=DISTRIBUTION))
    found = say(
        "the package lab is also installed by {names}: one has overwritten files of the other",
        names=", ".join(others),
    )
    return Finding(
        "problem", found, say("pip uninstall lab {name}, then pip install {name}", name=DISTRIBUTION)
    )


def check_worker_python() -> Finding:
    """Spark's Python workers must be the Python that has the packages."""
    if (chosen := os.environ.get("PYSPARK_PYTHON")) is None:
        return Finding("ok", say("not set: the session uses its own Python"))
    if (path := shutil.which(chosen)) is None:
        return Finding("problem", say("{file}, which does not exist", file=chosen), "unset PYSPARK_PYTHON")
    if os.path.abspath(path) != os.path.abspath(sys.executable):
        found = say("{file}, but this is {other}", file=chosen, other=sys.executable)
        return Finding("warning", found, "unset PYSPARK_PYTHON")
    return Finding("ok", chosen)


def check_spark_home() -> Finding | None:
    """A SPARK_HOME that a tutorial has left must be the Spark that the installed PySpark belongs to."""
    if not (home := os.environ.get("SPARK_HOME")):
        return None
    from lab.machine import leftovers

    try:
        leftovers.check_spark_home(home)
    except RuntimeError as error:
        return Finding("problem", translated(str(error)), "unset SPARK_HOME")
    return Finding("ok", home)


def _absent_jars() -> list[str]:
    """The jars that the kit needs and the cache does not have, or not intact."""
    from lab.machine import jars

    return [each for group in jars.GROUPS.keys() - jars.LARGE for each in jars.missing_jars(group)]


def check_jars() -> Finding:
    from lab.machine import jars

    absent, fix = _absent_jars(), f"{quote(sys.executable)} -m lab.machine.jars"
    if damaged := [coordinates for coordinates in absent if os.path.exists(jars.jar_path(coordinates))]:
        found = say("damaged in {folder}: {files}", folder=jars.cache_folder(), files=", ".join(damaged))
        return Finding("warning", found, say("{command} fetches them again", command=fix))
    if not absent:
        return Finding("ok", say("in {folder}", folder=jars.cache_folder()))
    some = ", ".join(absent[:3])
    if absent[3:]:
        some = say("{names} and {count} more", names=some, count=len(absent) - 3)
    return Finding("warning", say("not fetched yet: {names}", names=some), fix)


def check_network() -> Finding:
    """The loopback network, and, while something is still to be fetched, the way to it.

    pip knows where to fetch from; jars come by Java, with settings of its own.
    """
    try:
        check_loopback()
    except NoLoopback:
        return Finding("problem", say(NO_LOOPBACK), say(BRING_UP))
    if not _absent_jars():
        return Finding("ok", say("not needed: all jars are here"))
    proxies = [name for name in PROXIES if os.environ.get(name)]
    through = say(" through the proxy of {name}", name=proxies[0]) if proxies else ""
    fix = say(
        "connect, or behind a proxy: export HTTPS_PROXY=http://HOST:PORT "
        "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; "
        "or bring the folder that make prefetch fills elsewhere"
    )
    command = [sys.executable, "-m", "pip", "index", "versions", "pip", "--retries=0", NETWORK_TIMEOUT]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        found = say("pip reaches no package index{through}, and jars are missing", through=through)
        return Finding("warning", found, fix)
    if proxies and "proxyHost" not in os.environ.get("JAVA_TOOL_OPTIONS", ""):
        found = say("Python goes{through}, Java does not know of it", through=through)
        return Finding("warning", found, fix)
    return Finding("ok", say("pip reaches its index{through}", through=through))


def check_postgresql() -> Finding:
    """PostgreSQL is needed only for rules in a PostgreSQL database."""
    from lab.machine import database
    from lab.machine.database import HOW_TO_GET_IT

    try:
        found = database.programs_folder()
        return Finding("ok", f"{database.programs_version(found)}: {found}")
    except database.DatabaseError:
        absent = say("PostgreSQL {version} or newer is not on this machine", version=database.OLDEST)
        return Finding("ok", absent, say("to keep rules in it: {way}", way=say(HOW_TO_GET_IT)))


def check_spark() -> Finding:
    """Starts Spark in a separate process, so that a notebook's session is not affected."""
    try:
        check_loopback()
    except NoLoopback:
        return Finding("problem", say(NO_LOOPBACK), say(BRING_UP))
    started = time.monotonic()
    command = [sys.executable, "-c", SPARK_PROGRAM]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
    try:
        done = subprocess.run(
            command, env=environment, check=False, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        found = say("no answer within {seconds} s", seconds=SPARK_TIMEOUT_S)
        return Finding("problem", found, say("free memory and processors"))
    if done.returncode == 0:
        seconds = f"{time.monotonic() - started:.0f}"
        return Finding("ok", say("started and ran a Python function in {seconds} s", seconds=seconds))
    last = (done.stderr.strip().splitlines() or [say("it died without a word")])[-1]
    return Finding("problem", last, say("see the other lines first: most often it is Java or memory"))


# the name of each, the function that looks, and its arguments
CHECKS: tuple[tuple[Any, ...], ...] = (
    ("Python", check_python),
    (".venv", check_venv),
    ("folder", check_folder),
    ("line ends", check_line_ends),
    ("Java", check_java),
    ("memory", check_memory),
    ("temporary files", check_temporary_files),
    ("cache", check_cache),
    ("cache", check_code_cache),
    ("shared memory", check_shared_memory),
    ("left over", check_leftover_java),
    *(("port {port}", check_port, port, program) for port, program in PORTS.items()),
    ("packages", check_missing_packages),
    ("packages", check_versions),
    ("name", check_package_name),
    ("PYSPARK_PYTHON", check_worker_python),
    ("SPARK_HOME", check_spark_home),
    ("jars", check_jars),
    ("network", check_network),
    ("PostgreSQL", check_postgresql),
    ("Spark", check_spark),
)


def run(quick: bool = False) -> Checks:
    """Runs all checks; `quick` skips the one that starts Spark."""
    if sys.platform == "emscripten":
        found = say("the kit runs in this browser, without Spark: nothing needs to be installed")
        return Checks([Check(say("browser"), "ok", found)])
    report = Checks()
    for name, test, *arguments in CHECKS:
        if quick and test is check_spark:
            continue
        try:
            finding = test(*arguments)
        except ImportError as error:
            finding = Finding("problem", str(error), "make setup")
        if finding:
            heading = say(name, port=arguments[0]) if arguments else say(name)
            report.append(Check(heading, *finding))
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
