"""What a look at this machine found: lines with a fix, a table of them for a notebook, a text of them for an issue."""

import getpass
import os
import platform
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path

from lab.model.language import say

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


def rate_free_space(name: str, free_bytes: int, found: str, enough_gib: int, fix: str) -> Check:
    """Rates free space: `enough_gib` GiB or more is ok, less than one GiB is a problem."""
    if free_bytes >= enough_gib * GIB:
        return Check(name, "ok", found)
    state = "warning" if free_bytes >= GIB else "problem"
    return Check(name, state, found, say("{count} GiB are comfortable: {fix}", count=enough_gib, fix=fix))


def python_version(python: Path) -> str | None:
    """The version that a Python reports, such as 3.11; None if it does not run."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run(
            [python, "-I", "-c", program], check=True, capture_output=True, text=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def is_running_python(python: Path) -> bool:
    """Whether the environment of `python` is the one that runs this."""
    return python.parent.parent.resolve() == Path(sys.prefix).resolve()
