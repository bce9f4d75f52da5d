"""Where the kit lies and what is around it: the checks of `lab doctor` on folder, .venv, network, and what others left behind."""

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from lab.logs.loopback import BRING_UP, NO_LOOPBACK, NoLoopback, check_loopback
from lab.machine.findings import GIB, PROXIES, ROOT, Check, is_running_python, python_version
from lab.model.language import say

ANEW = "rm -r .venv && make setup"
# Java's options, Hadoop's paths and search paths give these a meaning of their own
ODD = re.compile(r"""[^\w./@+~ -]|[^\x00-\x7f]""")
WITH_LINE_ENDS = ("Makefile", "requirements.txt", "lab/machine/jars.txt", "lab/machine/broker.properties")
WINDOWS_DRIVE = re.compile(r"/mnt/[a-z]/")
NETWORK_S = 5
IN_A_CLONE = "Makefile"  # an installed package does not have this file
STARTED_BY_PYTHON = {"org.apache.spark.deploy.SparkSubmit", "pyspark-shell"}


def check_folder() -> Iterator[Check]:
    """A clone's folder can be written to, and has a name that all programs take. An installed package's need not."""
    name = say("folder")
    if not (ROOT / IN_A_CLONE).is_file():
        yield Check(name, "ok", say("installed in {folder}", folder=ROOT))
        return
    try:
        tempfile.TemporaryFile(dir=ROOT).close()
    except OSError as error:
        found = say("{folder} cannot be written to: {reason}", folder=ROOT, reason=error.strerror)
        yield Check(name, "problem", found, say("cp -r {folder} ~ and work there", folder=quote(str(ROOT))))
        return
    if odd := sorted(set(ODD.findall(str(ROOT)))):
        found = say("{folder} has {signs} in its name", folder=ROOT, signs=" ".join(map(repr, odd)))
        fix = say("some programs trip over that: move it to a plain name, then {command}", command=ANEW)
        yield Check(name, "problem", found, fix)
    elif WINDOWS_DRIVE.match(f"{ROOT}/") and "microsoft" in platform.release().lower():
        found = say("{folder} is on the drive of Windows, slow from WSL", folder=ROOT)
        fix = say("cp -r {folder} ~ and work there, after {command}", folder=quote(str(ROOT)), command=ANEW)
        yield Check(name, "warning", found, fix)
    else:
        yield Check(name, "ok", str(ROOT))


def check_venv() -> Iterator[Check]:
    """The .venv of this clone is of a Python that is still there, was not moved, and is the one that runs this."""
    venv = ROOT / ".venv"
    if not (ROOT / IN_A_CLONE).is_file():
        yield Check(".venv", "ok", say("none needed: lab is installed in {folder}", folder=sys.prefix))
        return
    if not (venv / "pyvenv.cfg").is_file():
        yield Check(".venv", "problem", say("there is no {file}", file=venv), "make setup")
        return
    settings = dict(
        line.split(" = ", 1) for line in (venv / "pyvenv.cfg").read_text().splitlines() if " = " in line
    )
    made, now = settings.get("version") or say("an unknown version"), python_version(venv / "bin" / "python")
    of_command = re.search(r" -m venv [^/]*(/.*)", settings.get("command", ""))
    place = Path(of_command[1]) if of_command else venv
    if now is None:
        home = settings.get("home") or say("the place it came from")
        found = say("its Python does not run: {folder} has none any more", folder=home)
        yield Check(".venv", "problem", found, ANEW)
    elif not (venv / "lib" / f"python{now}" / "site-packages").is_dir():
        found = say(
            "made with Python {version}, which is {now} now: its packages are not seen", version=made, now=now
        )
        yield Check(".venv", "problem", found, ANEW)
    elif place.resolve() != venv.resolve():
        found = say("made in {folder} and moved since: its commands look for that place", folder=place)
        yield Check(".venv", "problem", found, ANEW)
    elif not is_running_python(venv / "bin" / "python"):
        found = say("this runs in {folder}, not in {other}", folder=sys.prefix, other=venv)
        fix = say(".venv/bin/lab doctor; in Jupyter: make lab, and the kernel Python 3")
        yield Check(".venv", "warning", found, fix)
    else:
        yield Check(".venv", "ok", f"Python {made}")


def check_line_ends() -> Iterator[Check]:
    """Windows' line ends make scripts and settings unreadable here."""
    there = [name for name in WITH_LINE_ENDS if (ROOT / name).is_file()]
    if wrong := [name for name in there if b"\r\n" in (ROOT / name).read_bytes()]:
        found = say("those of Windows in {files}", files=", ".join(wrong))
        command = "git config core.autocrlf input && git rm -rq --cached . && git reset -q --hard"
        fix = say("{command}  (your changes are lost)", command=command)
        yield Check(say("line ends"), "problem", found, fix)
    else:
        yield Check(say("line ends"), "ok", say("plain"))


def check_network() -> Iterator[Check]:
    """The loopback network, and, while something is still to be fetched, the way to it.

    pip knows where to fetch from; jars come by Java, with settings of its own.
    """
    from lab.machine import jars

    name = say("network")
    try:
        check_loopback()
    except NoLoopback:
        yield Check(name, "problem", say(NO_LOOPBACK), say(BRING_UP))
        return
    absent = [
        coordinates for group in jars.GROUPS.keys() - jars.LARGE for coordinates in jars.missing_jars(group)
    ]
    if not absent:
        yield Check(name, "ok", say("not needed: all jars are here"))
        return
    proxies = [name for name in PROXIES if os.environ.get(name)]
    through = say(" through the proxy of {name}", name=proxies[0]) if proxies else ""
    fix = say(
        "connect, or behind a proxy: export HTTPS_PROXY=http://HOST:PORT "
        "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; "
        "or bring the folder that make prefetch fills elsewhere"
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "index",
        "versions",
        "pip",
        "--retries",
        "0",
        "--timeout",
        str(NETWORK_S),
    ]
    reached = subprocess.run(command, check=False, capture_output=True).returncode == 0
    if not reached:
        found = say("pip reaches no package index{through}, and jars are missing", through=through)
        yield Check(name, "warning", found, fix)
    elif proxies and "proxyHost" not in os.environ.get("JAVA_TOOL_OPTIONS", ""):
        found = say("Python goes{through}, Java does not know of it", through=through)
        yield Check(name, "warning", found, fix)
    else:
        yield Check(name, "ok", say("pip reaches its index{through}", through=through))


def check_leftover_java() -> Iterator[Check]:
    """Java of Spark whose program was killed: it keeps running, and holds its memory and perhaps a checkpoint."""
    import psutil

    left = []
    for process in psutil.process_iter(["cmdline", "uids", "memory_info", "ppid"]):
        about = process.info
        ours = about["uids"] and about["uids"].real == os.getuid()
        if ours and STARTED_BY_PYTHON <= {*(about["cmdline"] or ())} and not _is_python(about["ppid"]):
            left.append((process.pid, about["memory_info"].rss))
    if left:
        size = sum(memory for _, memory in left) / GIB
        found = say(
            "Java of Spark that nobody uses any more: {count}, {size} GiB",
            count=len(left),
            size=f"{size:.1f}",
        )
        yield Check(say("left over"), "warning", found, "kill " + " ".join(str(pid) for pid, _ in left))
    else:
        yield Check(say("left over"), "ok", say("no Java without its program"))


def _is_python(pid: int) -> bool:
    import psutil

    try:
        return "python" in Path(psutil.Process(pid).exe()).name
    except psutil.Error:
        return False
