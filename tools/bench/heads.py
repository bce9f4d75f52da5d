"""`make heads`: what memory a class takes on one server. Ten kernels work through a lesson, with its solutions, at once.

Memory is PSS, of each kernel and all processes it started: what is shared, such as Java's archive of classes or a library, is
divided among those that share it. So the sum is what the server needs. Linux only.
"""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from nbclient import NotebookClient
from rich.console import Console
from rich.table import Table

from lab.teach.lessons import FOLDER, build_notebook, lesson_sources

POLL_S = 2.0
MB = 1e6
LONGEST_S = 1800


def pss(pid: int) -> float:
    """The share of memory of a process and its descendants, in MB; those that end meanwhile count nothing."""
    total = 0
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0.0
    for process in family:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return total * 1024 / MB


def work(source: Path, pids: list[int], cells: dict[int, str], number: int) -> None:
    """Runs a lesson in a kernel of its own, and says which cell it is at."""
    notebook = build_notebook(source, with_solutions=True)
    client = NotebookClient(notebook, timeout=LONGEST_S, resources={"metadata": {"path": FOLDER}})
    with client.setup_kernel():
        pids[number] = client.km.provisioner.process.pid
        for index, cell in enumerate(notebook.cells):
            cells[number] = cell.source
            client.execute_cell(cell, index)
        cells[number] = "the end"
        time.sleep(3 * POLL_S)
        pids[number] = 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="make heads", description=__doc__)
    parser.add_argument("--heads", type=int, default=10, metavar="N", help="(%(default)s)")
    parser.add_argument("--lesson", default="03", metavar="NN", help="(%(default)s)")
    options = parser.parse_args()
    (source,) = (path for path in lesson_sources() if path.stem.startswith(options.lesson))
    os.environ["PYTHONPATH"] = str(FOLDER.parent)
    pids, cells = [0] * options.heads, {}
    top = {"no Spark": [0.0] * options.heads, "Spark": [0.0] * options.heads}
    all_at_once, before, began = 0.0, psutil.virtual_memory().available, time.monotonic()
    least = before
    with ThreadPoolExecutor(options.heads) as pool:
        done = [pool.submit(work, source, pids, cells, number) for number in range(options.heads)]
        while any(not each.done() for each in done):
            now = [pss(pid) if pid else 0.0 for pid in pids]
            all_at_once, least = max(all_at_once, sum(now)), min(least, psutil.virtual_memory().available)
            for number, used in enumerate(now):
                kind = "Spark" if "lab.session(" in cells.get(number, "") else "no Spark"
                top[kind][number] = max(top[kind][number], used)
            time.sleep(POLL_S)
        for each in done:
            each.result()
    table = Table(
        "MB (PSS)", "smallest", "largest", title=f"{options.heads} kernels at once, lesson {source.stem}"
    )
    for kind, values in top.items():
        table.add_row(f"a kernel, {kind}", f"{min(values):,.0f}", f"{max(values):,.0f}")
    table.add_row("all, at the worst moment", "", f"{all_at_once:,.0f}")
    table.add_row("available memory of the machine fell by", "", f"{(before - least) / MB:,.0f}")
    Console().print(table)
    print(f"{time.monotonic() - began:.0f} s, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
