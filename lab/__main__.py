"""The program `lab`, also as `python -m lab` and for `spark-submit`."""

import signal
import sys

from lab.machine.signals import ENDING, STOPPED


def main() -> int:
    """Runs one command; a signal while it is being loaded ends it without a word."""
    early: list[int] = []
    for number in ENDING:
        signal.signal(number, lambda number, _: early.append(number))
    from lab.cli.main import main as command

    return STOPPED if early else command()


if __name__ == "__main__":
    sys.exit(main())
