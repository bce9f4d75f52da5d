"""How those who ask for a schema write what `infer` asks them for: as options of a command, or as arguments in Python."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class InferWords:
    """`id`, `ids`, `time`: how one names the field that is the id, several, and the event time.

    `sort`, `times`, `integers`: a way to sort events by a field, to make its values times or integers; `only_cells`: `times` is for CSV only.
    """

    id: str
    ids: str
    time: str
    sort: str
    times: str
    integers: str
    only_cells: bool

    def times_of(self, column: str, delimiter: str) -> str:
        """The way to make the values of a column times."""
        return self.times.format(name=json.dumps(column, ensure_ascii=False), delimiter=json.dumps(delimiter))


COMMAND = InferWords(
    id="--id {}",
    ids="--id NAME,NAME",
    time="--time {}",
    sort="or use the option --sort of the commands that read the file",
    times=(
        "pandas reads most ways to write times: .venv/bin/python -c 'import sys, pandas; t = pandas.read_csv(sys.argv[1], dtype=str, "
        'sep={delimiter}); t[{name}] = pandas.to_datetime(t[{name}], dayfirst=True, format="mixed"); '
        't.to_csv("events.csv", index=False)\' FILE (dayfirst=False if the month comes first)'
    ),
    integers="write its integers without a point",
    only_cells=True,
)
PYTHON = InferWords(
    id='id="{}"',
    ids='id=["NAME", "NAME"]',
    time='time="{}"',
    sort='in pandas with events.sort_values("{}")',
    times=(
        "in pandas: events[{name}] = pandas.to_datetime(events[{name}], dayfirst=True) (dayfirst=False if the month comes first)"
    ),
    integers='in pandas: events["{}"].astype("Int64")',
    only_cells=False,
)
