"""Java: the one that Spark starts, or what to do if there is none.

Needs only the standard library, and runs as a plain file: `make setup` asks for Java before it installs anything.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_JAVA = """\
  Debian, Ubuntu:  sudo apt install openjdk-17-jre-headless   (where there is no 17: openjdk-21-jre-headless)
  macOS:           brew install openjdk@17 && export JAVA_HOME="$(brew --prefix openjdk@17)"
  Windows:         in WSL (wsl --install -d Ubuntu): the Ubuntu line"""


class JavaMissing(RuntimeError):
    """There is no Java 17 or newer where Spark looks for it; the message says what to do."""


class JavaEnded(RuntimeError):
    """The Java in which Spark runs has ended, as when it is killed because memory is short."""


@dataclass(frozen=True)
class Java:
    """The java that Spark starts."""

    path: str
    version: int


def find_java() -> Java:
    """The java that Spark starts: that of JAVA_HOME when it is set, else the first on PATH. Raises JavaMissing."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    of_home = str(Path(home, "bin", "java")) if home else None
    versions = {path: _java_version(path) for path in (of_home, on_path) if path}
    chosen = of_home or on_path
    if chosen and (version := versions[chosen] or 0) >= 17:
        return Java(chosen, version)

    def seen(path: str | None) -> str:
        if path is None or not Path(path).exists():
            return f"no {path}" if path else "nothing"
        return f"{path}, Java {versions[path]}" if versions[path] else f"{path}, which does not run"

    lines = ["Spark and Kafka need Java 17 or newer (17 or 21 recommended). Looked for:"]
    lines.append(f"  JAVA_HOME:     {seen(of_home) if home else 'not set'}")
    lines.append(f"  java on PATH:  {seen(on_path)}")
    if home and on_path and (versions[on_path] or 0) >= 17:
        lines.append("The java on PATH would do, but JAVA_HOME goes first. Fix: unset JAVA_HOME")
    else:
        lines += ["Fix:", INSTALL_JAVA]
        if home:
            lines.append("then unset JAVA_HOME, or set it to the new one.")
    raise JavaMissing("\n".join(lines))


def _java_version(path: str) -> int | None:
    """The major version that `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_402"; None if it does not run."""
    try:
        done = subprocess.run([path, "-version"], check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(version[1]) if version else None


if __name__ == "__main__":
    try:
        find_java()
    except JavaMissing as error:
        sys.exit(str(error))
