"""The program `lab`, also as `python -m lab` and for `spark-submit`."""

import signal
import sys
from io import TextIOWrapper

import lab
from lab.machine.signals import ENDING, STOPPED

CLASH = """\
lab: the package `lab` is not the one of rules-lab: another project, called `lab` on the public index, has overwritten it.
Fix: pip uninstall lab rules-lab, then pip install rules-lab
"""


def main() -> int:
    """Runs one command; a signal while it is being loaded ends it without a word."""
    early: list[int] = []
    for number in ENDING:
        signal.signal(number, lambda number, _: early.append(number))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what a terminal's encoding lacks is escaped
            stream.reconfigure(errors="backslashreplace")
    if not hasattr(lab, "PAYMENTS"):
        sys.stderr.write(CLASH)
        return 2
    from lab.cli.main import main as command

    return STOPPED if early else command()


if __name__ == "__main__":
    sys.exit(main())
