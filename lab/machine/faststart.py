"""A faster start of Spark: its classes laid out for Java to map, and a home without a zipped PySpark.

`python -m lab.machine.faststart` makes the archive: half a minute, 170 MB beside the jars, about 4 of 15 CPU seconds less from a
command's start to its first alert. Sessions use it when it is there. Java passes over an archive that does not fit,
of another Java or other jars.
"""

import os
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pyspark

from lab.machine import jars

JVM_END_S = 300


def archive() -> Path:
    """Where the archive is, if it has been made."""
    return jars.cache().parent / f"spark-{version('pyspark')}.jsa"


def java_option() -> str:
    """What tells Java to use the archive; empty while there is none."""
    return f'"-XX:SharedArchiveFile={archive()}"' if archive().is_file() else ""


def spark_home() -> Path:
    """A Spark home that links to all of the installed one but its zipped PySpark, which Python would compile at each start."""
    installed = Path(pyspark.__file__).parent
    home = jars.cache().parent / f"spark-home-{sha256(str(installed).encode()).hexdigest()[:8]}"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars", "sbin"):
        with suppress(FileExistsError):
            (home / name).symlink_to(installed / name)
    return home


def make() -> Path:
    """Runs a small replay and has Java write down, at its end, the classes that this took."""
    from pyspark import SparkContext

    from lab.apps.replay import replay
    from lab.machine.session import JAVA_OPTIONS, session

    archive().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".faststart-", dir=archive().parent) as folder:
        made, events = Path(folder, "made.jsa"), Path(folder, "events.csv")
        events.write_text("1,2013-01-01 00:00:00,25,12,CSH,51\n" * 10)
        conf = {"spark.driver.extraJavaOptions": f'{JAVA_OPTIONS} "-XX:ArchiveClassesAtExit={made}"'}
        with session(conf=conf) as spark:
            replay(
                events, ["1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"], spark=spark, batches=3
            )
        java = SparkContext._gateway.proc
        java.stdin.close()  # the sign to end
        java.wait(JVM_END_S)
        os.replace(made, archive())
    return archive()


if __name__ == "__main__":
    try:
        make()
    except Exception as error:  # noqa: BLE001  (all works without it)
        sys.exit(f"lab.faststart: no archive, Spark will start a little slower: {error}")
