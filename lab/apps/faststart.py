"""Makes the archive of Spark's classes that lets sessions start faster (`lab.machine.faststart`).

`python -m lab.apps.faststart`: half a minute, 170 MB beside the jars, about 4 of 15 CPU seconds less from a command's start to
its first alert.
"""

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from lab.apps.replay import replay
from lab.machine.faststart import archive
from lab.machine.session import JAVA_OPTIONS, session

JVM_END_S = 300


def make() -> Path:
    """Runs a small replay and has Java write down, at its end, the classes that this took."""
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
