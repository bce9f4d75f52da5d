"""`python -m lab.machine.clustersecret FOLDER`: writes Spark settings with a random secret for a cluster's ports.

Writes `spark-defaults.conf` into the folder, for SPARK_CONF_DIR, unless it is there. Master, workers and driver need the same file.
"""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from lab.logs.access import make_folder

SETTINGS = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.network.crypto.cipher AES/GCM/NoPadding
spark.network.crypto.saslFallback false
"""


def ensure_secret_file(folder: Path) -> Path:
    """Returns the file in the folder and creates it if necessary; only its owner may read it."""
    make_folder(folder)
    file = folder / "spark-defaults.conf"
    with (
        suppress(FileExistsError),
        os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out,
    ):
        out.write(SETTINGS.format(secret=secrets.token_hex(32)))
    return file


if __name__ == "__main__":
    print(ensure_secret_file(Path(sys.argv[1])))
