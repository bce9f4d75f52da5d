"""A faster start of Spark: a home without a zipped PySpark, and in it Spark's classes laid out for Java to map.

`lab.running.faststart` makes the archive. Sessions use it when it is there. Java passes over an archive that does not fit, of
another Java or of jars that lie elsewhere: so each installed PySpark has its own.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pyspark

from lab.machine import jars

LOADED_FIRST = "bin/load-spark-env.sh"  # by each of Spark's scripts


def ensure_spark_home() -> Path:
    """A Spark home that links to everything in the installed one except its zipped PySpark, which Python would compile at each start.

    Java started from it ignores SIGTERM, which a service manager sends to every process of a service, and SIGHUP, which a closing
    terminal sends: the program that started Java ends it in an orderly way.
    """
    installed = Path(pyspark.__file__).parent
    name = f"spark-{sha256(str(installed).encode()).hexdigest()[:8]}"
    home = jars.user_folder() / name
    script = f"trap '' HUP TERM\n. '{installed / LOADED_FIRST}'\n"
    for there in (jars.cache_folder().parent / name, home):
        if there.is_dir():
            _update(there / LOADED_FIRST, script)
            return there
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark-", dir=home.parent) as folder:
        fresh = Path(folder, "home")
        (fresh / "bin").mkdir(parents=True)
        # on the class path, and an archive of classes is not used with a folder there that holds something
        (fresh / "conf").mkdir()
        for name in ("jars", "sbin", *(f"bin/{file.name}" for file in (installed / "bin").iterdir())):
            if name != LOADED_FIRST:
                (fresh / name).symlink_to(installed / name)
        (fresh / LOADED_FIRST).write_text(script)
        with suppress(OSError):  # another process created it first
            fresh.rename(home)
    return home


def _update(file: Path, script: str) -> None:
    """Replaces the script of an earlier version, unless the home belongs to another user."""
    with suppress(OSError):
        if file.read_text() != script:
            fresh = file.with_name(f".{file.name}.{os.getpid()}")
            fresh.write_text(script)
            fresh.replace(file)


def class_archive_path() -> Path:
    """The path of the archive, if it exists."""
    return ensure_spark_home() / "classes.jsa"


def java_option() -> str:
    """The Java option that selects the archive; empty if there is none."""
    return f'"-XX:SharedArchiveFile={class_archive_path()}"' if class_archive_path().is_file() else ""


def remove_stale_archives() -> None:
    """Removes homes and archives whose PySpark is no longer installed."""
    for home in jars.user_folder().glob("spark-*/"):
        if not (home / "jars").exists():
            shutil.rmtree(home, ignore_errors=True)
