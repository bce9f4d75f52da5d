"""How much memory is left: of the machine, and of the container that the process runs in."""

from collections.abc import Iterator
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
# of a cgroup of version 2 and of version 1: the limit, what is used, and of this the pages of files, which make way
ACCOUNTS = (
    ("memory.max", "memory.current", ("active_file", "inactive_file")),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_active_file", "total_inactive_file")),
)


def memory_left_bytes() -> int:
    """What processes here can still take."""
    return min([psutil.virtual_memory().available, *_left_in_cgroups()])


def _left_in_cgroups() -> Iterator[int]:
    for folder in _cgroup_folders():
        for limit, used, pages in ACCOUNTS:
            try:
                most, now = ((folder / name).read_text().strip() for name in (limit, used))
                of_files = _numbers(folder / "memory.stat")
            except OSError:
                continue
            if most != "max":
                yield int(most) - int(now) + sum(of_files.get(name, 0) for name in pages)


def _cgroup_folders() -> Iterator[Path]:
    """The cgroups of this process that may limit its memory, with those above them; a container shows its own as the uppermost."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers in ("", "memory"):
            root = CGROUPS / controllers
            own = root / name.strip("/")
            yield from (each for each in (own, *own.parents) if each.is_relative_to(root))


def _numbers(file: Path) -> dict[str, int]:
    """The lines `name number …` of a file."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {name: int(number) for name, number, *_ in lines}
