"""Events that are stored in another order than that of their times are noticed wherever they come in, and can be sorted."""

import json
import random
import tracemalloc

import pandas as pd
import pytest

import lab
from lab.cli.main import OK, main
from lab.model.schema import PAYMENTS
from lab.past.alertframe import alerts
from lab.sources import sortedsource
from lab.sources.order import TimeOrder, line_time
from lab.sources.rows import RowSource
from lab.sources.sortedsource import SortedSource
from lab.sources.sources import source_at

HEAD = "id;at;card\n"
ROWS = [f"{n};2024-05-{1 + n // 48:02} {n // 2 % 24:02}:{30 * (n % 2):02}:00;{n % 3}\n" for n in range(240)]
RULE = "1: COUNT(events) per card over 3 h >= 3"
BACKWARDS = "the times run backwards, the newest first"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The same events in order, backwards, and in any order."""
    monkeypatch.chdir(tmp_path)
    shuffled = random.Random(3).sample(ROWS, len(ROWS))
    for name, rows in {"right": ROWS, "newest": ROWS[::-1], "shuffled": shuffled}.items():
        (tmp_path / f"{name}.csv").write_text(HEAD + "".join(rows))
    (tmp_path / "rules.txt").write_text(RULE)
    assert main(["infer", "right.csv", "--out", "schema.toml"]) == OK
    return tmp_path


def doubts(name: str) -> str:
    source = source_at(f"{name}.csv")
    return str(lab.infer(source, name, texts=True, styles=source.styles).doubts["at"])


def test_infer_doubts_a_file_that_is_not_in_the_order_of_its_times(folder):
    assert "backwards" not in doubts("right") and "after a newer one" not in doubts("right")
    assert f"{BACKWARDS}: rules need the order of time, so sort by at first" in doubts("newest")
    assert "of 240 records come more than 5 min after a newer one: rules need" in doubts("shuffled")


@pytest.mark.parametrize("name", ["newest", "shuffled"])
def test_a_replay_and_a_backtest_say_it_and_sort_the_file_if_they_are_told_to(folder, name, capsys):
    options = ["--schema", "schema.toml", "--engine", "reference"]
    replay = ["--rules", "rules.txt", "--out"]
    assert main(["replay", "right.csv", *options, *replay, "right.jsonl"]) == OK
    assert "order of time" not in capsys.readouterr().err
    assert main(["replay", f"{name}.csv", *options, *replay, "wrong.jsonl"]) == OK
    assert main(["rules", "backtest", "rules.txt", f"{name}.csv", *options]) == OK
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("--sort sorts the events by at first") == 2
    assert main(["replay", f"{name}.csv", *options, *replay, "sorted.jsonl", "--sort"]) == OK
    assert main(["rules", "backtest", "rules.txt", f"{name}.csv", *options, "--sort"]) == OK
    assert "order of time" not in capsys.readouterr().err
    right, wrong, sorted_ = ((folder / f"{file}.jsonl").read_text() for file in ("right", "wrong", "sorted"))
    assert sorted_ == right != wrong


FRAUD = "1: COUNT(events) per card over 3 h > 2"
ASKED = {  # commands that ask about finished events
    "tune": ["rules", "tune", FRAUD, "{file}", "--labels", "card"],
    "suggest": ["rules", "suggest", "{file}", "--labels", "card", "--most", "3"],
    "features": ["features", "{file}", "--rules", "rules.txt", "--out", "features.csv"],
    "diff": ["rules", "diff", RULE, FRAUD, "{file}"],
    "why-not": ["why-not", "7", "1", "{file}", "--rules", "rules.txt"],
    "would": ["would", '{{"id": 7, "at": "2024-06-01 00:00:00"}}', "{file}", "--rules", "rules.txt"],
}


@pytest.mark.parametrize("command", ASKED)
def test_whoever_asks_about_events_is_told_too_and_asks_about_sorted_ones(folder, command, capsys):
    def asked(name: str, *more: str) -> tuple[str, str]:
        words = [word.format(file=f"{name}.csv") for word in ASKED[command]]
        assert main([*words, "--schema", "schema.toml", *more]) == OK
        found = capsys.readouterr()
        table = (folder / "features.csv").read_text() if command == "features" else ""
        return table or found.out, " ".join(found.err.split())

    right, said = asked("right")
    assert "order of time" not in said
    assert f"{BACKWARDS}: rules need the order of time, so windows" in asked("newest")[1]
    assert "--sort sorts the events by at first" in asked("shuffled")[1]
    sorted_, said = asked("newest", "--sort")
    assert sorted_ == right and "order of time" not in said


def test_scores_of_a_backtest_are_those_of_sorted_events_and_the_order_is_told_once(folder, capsys):
    words = [
        "rules",
        "backtest",
        FRAUD,
        "{}.csv",
        "--schema",
        "schema.toml",
        "--labels",
        "card",
        "--engine",
        "reference",
    ]
    outputs = []
    for name, more in (("right", []), ("newest", ["--sort"]), ("newest", [])):
        assert main([*[word.format(name) for word in words], *more]) == OK
        found = capsys.readouterr()
        outputs.append(found.out)
        assert found.err.count("order of time") == (name == "newest" and not more)
    assert outputs[0] == outputs[1]


def test_the_logs_of_an_engine_are_not_sorted(folder, capsys):
    assert main(["why-not", "7", "1", "--logs", "logs", "--sort"]) == 2
    assert "--sort is for EVENTS" in capsys.readouterr().err


@pytest.mark.parametrize("function", [alerts, lab.World, lab.features])
def test_whoever_takes_a_table_says_it(folder, function):
    frame = pd.read_csv("right.csv", sep=";", parse_dates=["at"])
    with pytest.warns(
        UserWarning, match=f"{BACKWARDS}: the order of the rows counts, so sort them by at first"
    ):
        function(frame[::-1], RULE, "schema.toml")


def test_a_few_late_events_are_no_other_order():
    times = list(range(0, 60_000_000, 60_000))
    times[500:500] = times[:9]
    assert not TimeOrder().add_all(times).problem()
    times[500:500] = times[:9]
    assert (
        TimeOrder().add_all(times).problem() == "18 of 1,018 records come more than 5 min after a newer one"
    )


@pytest.mark.parametrize("backwards", [False, True])
def test_pieces_are_merged_and_equal_times_keep_the_order_in_which_they_came(monkeypatch, backwards):
    monkeypatch.setattr(sortedsource, "MOST_LINES", 12)
    draw = random.Random(5)
    times = sorted(draw.randint(0, 9) for _ in range(30))
    rows = [{"transactionId": n, "eventTime": time} for n, time in enumerate(times)]
    lines = [json.dumps(row).encode() for row in rows]
    lines[7] = b"no event"
    stored = lines[::-1] if backwards else lines
    source = SortedSource(RowSource(list(stored), PAYMENTS), PAYMENTS)
    found = list(source)
    events = [line for line in found if line != b"no event"]
    assert events == [line for line in lines if line != b"no event"] and len(found) == len(source) == 30
    places = [int(source.place(index).removeprefix("row ")) for index in range(30)]
    assert [stored[place] for place in places] == found


def test_sorting_takes_the_memory_of_a_piece_however_long_the_file(monkeypatch):
    monkeypatch.setattr(sortedsource, "IN_MEMORY", 1 << 16)

    class Long(RowSource):
        def __iter__(self):
            return (
                json.dumps({"transactionId": n, "eventTime": 20_000 - n, "paymentType": "x" * 400}).encode()
                for n in range(20_000)
            )

    tracemalloc.start()
    try:
        last = 0
        for line in SortedSource(Long([], PAYMENTS), PAYMENTS):
            assert last <= (last := line_time(line, PAYMENTS) or 0)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # the lines are 9,000,000 bytes
    finally:
        tracemalloc.stop()
