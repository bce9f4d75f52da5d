"""How many random examples a test tries: each run a quarter, and others than the run before; `make soak` tries all of them."""

import os

PART = 1 if os.environ.get("LAB_ALL_EXAMPLES") else 4


def examples(in_all: int) -> int:
    """How many of so many this run tries."""
    return in_all // PART
