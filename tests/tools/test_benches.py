"""Every bench starts, runs and prints its figures, however small. What the figures are is for a quiet machine to say."""

import subprocess
import sys

import pytest

FIGURES = {
    "tools.bench.cost --events 500 --repeats 1": ("window: CPU µs an event", "alerts: CPU µs an event"),
    "tools.bench.absence --groups 500 --rate 100 --seconds 2 --warm-up 1 --repeats 1": (
        "500 groups",
        "bytes a group: ",
        "p99 × ",
    ),
    "tools.bench.longwindows --events 2000 --keys 50 --seconds 2": (
        "all on the disk",
        "B / event and route",
        "after a kill, s",
    ),
    "tools.bench.sync --saves 3": ("at rest, 1 event", "500/s, 1,000 events"),
    "tools.bench --events 1000 --repeats 1 --against HEAD": (
        *("3 rules, 100k × 100k keys", "DuckDB", "Most state files"),
        *("own process, today", "own process, HEAD"),
    ),
    "tools.bench.live latency --rates 200 --seconds 5 --warm-up 5 --floor 5 --busy 1": (
        "p99 ",
        "The floor, a query",
        "The floor, a bare loop",
        "beside 1 loops",
    ),
    "tools.bench.cpu --rate 100 --seconds 4 --warm-up 3": (
        "Cores that an engine keeps busy",
        "at rest",
        "Kafka",
    ),
    "tools.bench.live throughput --rates 2000 --seconds 6 --events 20000 --repeats 1": (
        "highest rate without growing lag: 2,000",
        "A backlog, 3 rules",
        "on paper, 32 cores",
    ),
    "tools.bench.steady --rate 100 --seconds 20 --burst 5": ("memory mb", "events/s for 5 s: "),
    "tools.bench.rescale --mb 1 --restore": ("| state MB |", "| way |"),
}


@pytest.mark.soak
@pytest.mark.parametrize("command", FIGURES)
def test_it_runs(command):
    ran = subprocess.run(
        [sys.executable, "-m", *command.split()], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for words in FIGURES[command]:
        assert words in ran.stdout


def test_what_grows_over_an_hour_is_said_and_drawn():
    from tools.bench.steady import Sample, svg, verdict

    def at(second: int, latency: float = 40) -> Sample:
        return Sample(second, 900 + second / 2, 60, 8, 20, latency, 2 * latency, 100)

    samples = [*(at(second) for second in range(0, 3600, 15)), at(3600, float("nan"))]
    table = verdict(samples, 1000)
    words = dict(zip(table.columns[0].cells, table.columns[4].cells))
    assert [name for name, word in words.items() if word == "GROWS"] == ["memory mb"] and len(words) == 7
    drawn = svg(samples, 3000)
    assert drawn.count("<polyline") == 7 and "nan" not in drawn
    silent = verdict([at(second, float("nan")) for second in range(9)], 1000)
    assert [*silent.columns[4].cells].count("NOT MEASURED") == 2, "no alert is not a flat latency"
