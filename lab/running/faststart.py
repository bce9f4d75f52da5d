"""Makes the archive of Spark's classes that lets sessions start faster (`lab.machine.faststart`).

`python -m lab.running.faststart`: half a minute, 150 MB beside the jars, about 4 of 15 CPU seconds less from a command's start to
its first alert.
"""

import os
import sys
import tempfile
from pathlib import Path

from lab.machine import session as sessions
from lab.machine.faststart import class_archive_path, remove_stale_archives
from lab.past.replay import replay

JVM_END_S = 300


def make_class_archive() -> Path:
    """Runs a small replay and has Java write down, at its end, the classes that this took."""
    remove_stale_archives()
    with tempfile.TemporaryDirectory(prefix=".faststart-", dir=class_archive_path().parent) as folder:
        made, events = Path(folder, "made.jsa"), Path(folder, "events.csv")
        events.write_text("1,2013-01-01 00:00:00,25,12,CSH,51\n" * 10)
        conf = {"spark.driver.extraJavaOptions": f'{sessions.JAVA_OPTIONS} "-XX:ArchiveClassesAtExit={made}"'}
        sessions.STOP_S = JVM_END_S  # Java writes the archive while it ends
        with sessions.session(conf=conf) as spark:
            replay(
                events, ["1,(active),(payeeId),,(paymentAmount),(SUM),(>),(50),(20)"], spark=spark, batches=3
            )
        os.replace(made, class_archive_path())
    return class_archive_path()


if __name__ == "__main__":
    try:
        make_class_archive()
    except Exception as error:  # noqa: BLE001  (all works without it)
        sys.exit(f"lab.running.faststart: no archive, so Spark will start a little slower: {error}")
