"""Every bench starts, runs and prints its figures, however small. What the figures are is for a quiet machine to say."""

import subprocess
import sys

import pytest

EVERYDAY = {
    "tests.bench --events 1000 --repeats 1": ("3 rules, 100k × 100k keys", "DuckDB", "Most state files"),
    "tests.bench.cost --events 2000 --repeats 1": ("window: CPU µs an event", "alerts: CPU µs an event"),
}
SOAK = {
    "tests.bench --events 1000 --repeats 1 --against HEAD": ("own process, today", "own process, HEAD"),
    "tests.bench.live latency --rates 200 --seconds 5 --warm-up 5 --floor 5": ("p99 ", "The floor: "),
    "tests.bench.live throughput --rates 2000 --seconds 6 --events 20000 --repeats 1": (
        "highest rate without growing lag: 2,000",
        "A backlog, 3 rules",
        "on paper, 32 cores",
    ),
    "tests.bench.rescale --mb 1 --restore": ("| state MB |", "| way |"),
}


@pytest.mark.parametrize(
    "command",
    [*EVERYDAY, *(pytest.param(command, marks=pytest.mark.soak) for command in SOAK)],
)
def test_it_runs(command):
    ran = subprocess.run(
        [sys.executable, "-m", *command.split()], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for words in (EVERYDAY | SOAK)[command]:
        assert words in ran.stdout
