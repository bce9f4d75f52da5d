"""A faster start of Spark: its classes laid out for Java to map, and a home without a zipped PySpark.

`lab.apps.faststart` makes the archive. Sessions use it when it is there. Java passes over an archive that does not fit, of
another Java or other jars.
"""

from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pyspark

from lab.machine import jars


def archive() -> Path:
    """Where the archive is, if it has been made."""
    return jars.cache().parent / f"spark-{version('pyspark')}.jsa"


def java_option() -> str:
    """What tells Java to use the archive; empty while there is none."""
    return f'"-XX:SharedArchiveFile={archive()}"' if archive().is_file() else ""


def spark_home() -> Path:
    """A Spark home that links to all of the installed one but its zipped PySpark, which Python would compile at each start.

    Java that is started from it passes over SIGTERM, which a service manager sends to every process of a service: the
    program that started it ends it, in order.
    """
    installed = Path(pyspark.__file__).parent
    home = jars.cache().parent / f"spark-home-{sha256(str(installed).encode()).hexdigest()[:8]}"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        with suppress(FileExistsError):
            (home / name).symlink_to(installed / name)
    (home / "conf").mkdir(exist_ok=True)
    with suppress(FileExistsError), (home / "conf" / "spark-env.sh").open("x") as file:
        file.write("trap '' TERM\n")
    return home
