"""Java archives that pip cannot install: pinned in jars.txt by Maven coordinates and content, fetched once into a cache folder.

Those that `make prefetch` left in this clone are copied. Ivy, which ships inside PySpark, downloads the others, so neither
Maven nor a second tool is needed.
`python -m lab.machine.jars` fetches every group but the large ones, `python -m lab.machine.jars s3` the one it names.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from lab.machine.java import JavaMissing, find_java

Coordinates = str  # of Maven, group:artifact:version
Sha256 = str  # of a jar's content, in hex


def _pinned() -> dict[str, dict[Coordinates, Sha256]]:
    groups: dict[str, dict[Coordinates, Sha256]] = {}
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if not line.startswith("#"):
            group, coordinates, sha256 = line.split()
            groups.setdefault(group, {})[coordinates] = sha256
    return groups


GROUPS = _pinned()  # group -> coordinates -> sha256
LARGE = {"s3"}

IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="${cache}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>"""
IVY_MODULE = """<ivy-module version="2.0">
  <info organisation="lab" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>%s</dependencies>
</ivy-module>"""
IVY_DEPENDENCY = '<dependency org="%s" name="%s" rev="%s" transitive="false" conf="default->master"/>'
TIMEOUT_S = 600
PREFETCHED = Path(__file__).resolve().parents[2] / "prefetched" / "jars"


class JarsError(RuntimeError):
    """Jars could not be fetched; the message names them and says what to do."""


def cache_folder() -> Path:
    """The folder of the jars: `$LAB_CACHE/jars`, else `$XDG_CACHE_HOME/lab/jars` or `~/.cache/lab/jars`."""
    base = os.environ.get("LAB_CACHE")
    return (Path(base).expanduser() if base else _users_cache()) / "jars"


def user_folder() -> Path:
    """The user's own folder, for files that are not shared: next to the cache, or in the user's cache if that place is read-only."""
    base = cache_folder().parent
    return base if os.access(base, os.W_OK) or not os.path.exists(base) else _users_cache()


def _users_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lab"


def fetch_jars(group: str) -> list[Path]:
    """The group's jars in the cache; missing or damaged jars are first copied from `prefetched/` or downloaded."""
    for coordinates, sha256 in missing_jars(group).items():
        if _sha256(PREFETCHED / _file_name(coordinates)) == sha256:
            copy_jar(PREFETCHED / _file_name(coordinates), cache_folder())
    if absent := missing_jars(group):
        _download(absent)
    return [jar_path(coordinates) for coordinates in GROUPS[group]]


def copy_jar(jar: Path, folder: Path) -> None:
    """Copies a jar into a folder, which is made if need be; other processes see the whole jar or none."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".copy-", dir=folder) as beside:
        os.replace(shutil.copy(jar, beside), folder / jar.name)


def missing_jars(group: str) -> dict[Coordinates, Sha256]:
    """The group's jars that the cache does not have with the pinned content, and the sha256 of this content."""
    if group not in GROUPS:
        raise JarsError(f"no group of jars is called {group!r}; there are: {', '.join(GROUPS)}")
    return {c: sha256 for c, sha256 in GROUPS[group].items() if _sha256(jar_path(c)) != sha256}


def jar_path(coordinates: Coordinates) -> Path:
    """The path of a jar in the cache, whether or not it exists."""
    return cache_folder() / _file_name(coordinates)


def _file_name(coordinates: str) -> str:
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if os.path.isfile(path) else None


def _download(pinned: dict[Coordinates, Sha256]) -> None:
    """Downloads into a folder of its own, verifies, then renames: other processes see whole jars or none."""
    first, *others = pinned
    also = f" and {len(others)} more" if others else ""
    print(f"Fetching {first}{also} into {cache_folder()}", file=sys.stderr)
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache_folder()) as folder:
        log = _run_ivy(Path(folder), pinned)
        for coordinates, sha256 in pinned.items():
            jar = Path(folder, _file_name(coordinates))
            found = _sha256(jar)
            if found is None:
                raise JarsError(_advice(coordinates, _reason(log)))
            if found != sha256:
                raise JarsError(
                    _advice(coordinates, f"what came has sha256 {found}, the pinned jar has {sha256}")
                )
            os.replace(jar, cache_folder() / jar.name)


def _run_ivy(folder: Path, pinned: dict[Coordinates, Sha256]) -> str:
    """Runs Ivy with `folder` as its working directory and returns what it printed."""
    coordinates = next(iter(pinned))
    try:
        program = find_java().path
    except JavaMissing as error:
        raise JarsError(f"{coordinates}: cannot be fetched without Java.\n{error}") from error
    spark = find_spec("pyspark")
    ivy = sorted(Path(spark.origin).parent.glob("jars/ivy-*.jar")) if spark and spark.origin else []
    if not ivy:
        raise JarsError(f"{coordinates}: Ivy is missing, it ships inside pyspark. Run `make setup`.")
    (folder / "settings.xml").write_text(IVY_SETTINGS)
    dependencies = "".join(IVY_DEPENDENCY % tuple(c.split(":")) for c in pinned)
    (folder / "ivy.xml").write_text(IVY_MODULE % dependencies)
    command = [program, f"-Dcache={folder.resolve()}/ivy", "-jar", str(ivy[-1]), "-settings", "settings.xml"]
    command += ["-ivy", "ivy.xml", "-confs", "default", "-retrieve", "[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise JarsError(_advice(coordinates, f"no answer within {TIMEOUT_S} s")) from error
    return done.stdout


def _reason(log: str) -> str:
    """The most informative line of Ivy's output: a host that cannot be reached, else what was not found."""
    lines = [line.strip(" \t:") for line in log.splitlines()]
    telling = [line for line in lines if line.startswith(("Host ", "Server access error"))]
    telling += [line for line in lines if line.endswith(": not found")]
    return (telling or [line for line in lines if line][-1:] or ["Ivy printed nothing"])[0]


def _advice(coordinates: str, reason: str) -> str:
    return (
        f"{coordinates} could not be fetched: {reason}.\n"
        "Connect to the network and try again (behind a proxy: "
        "export JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'),\n"
        f"or copy the jar into {cache_folder()} from a machine that has it; `make prefetch` there collects all of them."
    )


if __name__ == "__main__":
    try:
        for group in sys.argv[1:] or GROUPS.keys() - LARGE:
            fetch_jars(group)
    except JarsError as error:
        sys.exit(f"lab.machine.jars: {error}")
