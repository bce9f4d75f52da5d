"""Labels of one's own: which events should alert, in two halves, and how well alerts find them.

a column, a file, ids, verdicts ──► read_labels ──► Labelled ──► halves: one to choose by, one held out ──► Score
"""

import json
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from lab.model.alerts import event_id_text, utc_text
from lab.model.keygroups import key_group_of
from lab.model.language import say
from lab.model.schema import Schema
from lab.sources.sources import Source

MAX_FILE_BYTES = 1 << 28
NO = ("", "0", "false", "no", "null", "none", "wrong")  # labels of events that should not alert
NAMES = ("label", "verdict")  # of the column of labels, if there are several that might be


@dataclass(frozen=True)
class Score:
    """How well alerts find the labelled events. `delay_ms`: median, from the first event of a case to its first alert."""

    right: int
    wrong: int
    labelled: int
    cases_found: int
    cases: int
    delay_ms: int
    amount_found: Decimal = Decimal(0)
    amount: Decimal = Decimal(0)

    @property
    def precision(self) -> float | None:
        """Of the events that alert, the share that is labelled; None without alerts."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """Of the labelled events, the share that alerts; None without labels."""
        return self.right / self.labelled if self.labelled else None

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(self.right + self.wrong + self.labelled, 1)


@dataclass(frozen=True)
class Labelled:
    """Events by the texts of their ids, and which of them should alert.

    `cases`: the labelled events, each with its case. `others`: those that should not alert; None: all but the labelled ones. Events
    that are neither count nowhere. `name`: of this half.
    """

    cases: Mapping[str, Any]
    others: frozenset[str] | None
    times: Mapping[str, int]
    amounts: Mapping[str, Decimal] = field(default_factory=dict)
    name: str = ""

    def score(self, alerted: Mapping[str, int]) -> Score:
        """The score of alerts at events, {text of the id: time of the alert}; events that are not of this half count nowhere."""
        count = RunningScore(self)
        for at, time in alerted.items():
            count.add(at, time)
        return count.score

    def is_wrong(self, at: str) -> bool:
        """Whether an alert at an event is wrong."""
        return at in self.times and at not in self.cases and (self.others is None or at in self.others)

    def part(self, ids: set[str], name: str) -> "Labelled":
        """The same of some events only."""
        return Labelled(
            {at: case for at, case in self.cases.items() if at in ids},
            self.others if self.others is None else self.others & ids,
            {at: time for at, time in self.times.items() if at in ids},
            self.amounts,
            name,
        )


class RunningScore:
    """The score of alerts that are added one by one, at most one for each event."""

    def __init__(self, labelled: Labelled):
        self._of, self.wrong, self._right = labelled, 0, 0
        self._begins, self._first = dict[Any, int](), dict[Any, int]()
        self._delays, self._found = list[int](), Decimal(0)
        for at, case in labelled.cases.items():
            self._begins[case] = min(labelled.times[at], self._begins.get(case, labelled.times[at]))
        self._amount = sum((labelled.amounts.get(at, Decimal(0)) for at in labelled.cases), Decimal(0))

    def add(self, at: str, time: int) -> bool:
        """Adds an alert; returns whether it is at a labelled event."""
        if at not in self._of.cases:
            self.wrong += self._of.is_wrong(at)
            return False
        case = self._of.cases[at]
        self._right += 1
        self._found += self._of.amounts.get(at, Decimal(0))
        if (before := self._first.get(case)) is None or time < before:
            if before is not None:
                self._delays.remove(before - self._begins[case])
            self._first[case] = time
            insort(self._delays, time - self._begins[case])
        return True

    @property
    def score(self) -> Score:
        """What was added until now."""
        count = len(self._delays)
        middle = self._delays[(count - 1) // 2 : count // 2 + 1]
        delay = sum(middle) // len(middle) if middle else 0
        whole = len(self._of.cases), len(self._first), len(self._begins), delay, self._found, self._amount
        return Score(self._right, self.wrong, *whole)


def labelled_halves(
    given: Any,
    events: Mapping[str, Mapping[str, Any]],
    schema: Schema,
    amount: str | None = None,
    by: str | None = None,
    case: str | None = None,
) -> tuple[Labelled, Labelled, str]:
    """The half of the events to choose by, the held-out half, and a sentence that says which is which.

    `given`: labels, see `read_labels`. `amount`: a field whose sum counts, too. `by`: the held-out half is that of a hash of this
    field, such as an account, which is then in one half only; None: the later half by time. `case`: labelled events with one value of this
    field are one case. Raises ValueError.
    """
    for name in filter(None, (amount, by, case)):
        if name not in schema.names:
            raise ValueError(f"there is no field {name}, expected one of {', '.join(schema.names)}")
    if amount and not (schema.field(amount).is_decimal or schema.field(amount).type == "long"):
        raise ValueError(f"{amount} is no number, expected the name of a field with amounts")
    cases, others = read_labels(given, events, schema)
    if unknown := [at for at in (*cases, *(others or ())) if at not in events]:
        named = len(cases) + len(others or ())
        raise ValueError(f"labels: {len(unknown):,} of {named:,} are of no event, such as {unknown[0]!r}")
    if case:
        cases = {at: at if events[at][case] is None else (case, events[at][case]) for at in cases}
    times = {at: event[schema.time_field] for at, event in events.items()}
    amounts = {at: Decimal(event[amount] or 0) for at, event in events.items()} if amount else {}
    whole = Labelled(cases, others, times, amounts)
    if by:
        held_out = {at for at, event in events.items() if event[by] is not None and _is_odd(event[by])}
        names = say("half to choose by"), say("held-out half")
        said = say("Held out: the half of the events whose {field} has an odd hash.", field=by)
    else:
        middle = sorted(times.values())[len(times) // 2] if times else 0
        held_out = {at for at, time in times.items() if time >= middle}
        names = say("earlier half"), say("held-out half")
        said = say("Held out: the later half of the events, from {time} on.", time=utc_text(middle))
    return whole.part(times.keys() - held_out, names[0]), whole.part(held_out, names[1]), said


def _is_odd(value: Any) -> bool:
    return key_group_of((value,), 2) == 1


def read_labels(
    given: Any, events: Mapping[str, Mapping[str, Any]], schema: Schema
) -> tuple[dict[str, Any], frozenset[str] | None]:
    """The labelled events by the texts of their ids, each with its case, and those that should not alert; None: all others.

    `given`: the name of a field, whose value says yes or no; ids; {id: case}; (id, yes or no) pairs; or a `Path` to a file: ids,
    one on each line, or CSV, JSON or Parquet with a column of ids, or of alerts' ids, one of labels, and perhaps `case`.
    Where a file or pairs say no of some events, what they do not name counts nowhere. Raises ValueError, OSError.
    """
    if isinstance(given, str):
        if given not in schema.names:
            names = ", ".join(schema.names)
            raise ValueError(f"labels: there is no field {given}, expected one of {names}, a Path, or ids")
        return {at: (given, at) for at, event in events.items() if says_yes(event[given])}, None
    if isinstance(given, Path):
        return _of_file(given, schema)
    cases, no = dict[str, Any](), set[str]()
    pairs = given.items() if isinstance(given, Mapping) else ((each, None) for each in given)
    for of, case in pairs:
        if isinstance(of, tuple) and len(of) == 2 and isinstance(of[1], bool):
            of, case = of[0], None if of[1] else False
        at = event_id_text(of)
        if case is False:
            no.add(at)
        else:
            cases[at] = at if case is None or case is True else case
    return cases, frozenset(no) or None


def says_yes(value: Any) -> bool:
    """Whether the value of a label means that its event should alert.

    >>> [says_yes(value) for value in (1, "true", "stolen", 0, "No", None, "")]
    [True, True, True, False, False, False, False]
    """
    return str(value).strip().lower() not in NO


def _of_file(path: Path, schema: Schema) -> tuple[dict[str, Any], frozenset[str] | None]:
    """The labels of a file."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB, expected labels of events")
    with path.open("rb") as file:
        head = file.read(1 << 16)
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].strip()
    is_table = first[:1] in (b"{", b"[") or first[:4] == b"PAR1" or head[:2] == b"\x1f\x8b"
    if not is_table and not any(sign in first for sign in b",;\t|"):
        ids = list(filter(None, map(str.strip, path.read_text(encoding="utf-8-sig").splitlines())))
        begins = 1 if ids and ids[0] in ("id", "eventId", schema.id_fields[0]) else 0
        return {at: at for at in ids[begins:]}, None
    rows = [json.loads(line, parse_float=Decimal) for line in Source(path) if line.strip()]
    if any(not isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: expected an object on each line")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    ids_in = next(
        (names for names in (schema.id_fields, ("eventId",), ("id",)) if {*names} <= {*columns}), ()
    )
    if not ids_in and "alertId" not in columns:
        names = ", ".join(dict.fromkeys((*schema.id_fields, "eventId", "alertId")))
        raise ValueError(f"{path}: has the columns {', '.join(columns)}, expected one of ids: {names}")
    rest = [name for name in columns if name not in (*ids_in, "alertId", "case")]
    label = next((name for name in NAMES if name in rest), rest[0] if len(rest) == 1 else "")
    if rest and not label:
        raise ValueError(f"{path}: which of {', '.join(rest)} is the label? Name its column label")
    cases, no = dict[str, Any](), set[str]()
    for row in rows:
        at = _id_in(row, ids_in, schema)
        if label and not says_yes(row.get(label)):
            no.add(at)
        else:
            cases[at] = at if row.get("case") is None else row["case"]
    return cases, frozenset(no - cases.keys()) or None


def _id_in(row: Mapping[str, Any], ids_in: Iterable[str], schema: Schema) -> str:
    """The text of the id of a row's event."""
    if not ids_in:
        return str(row["alertId"]).split(".", 2)[2].rsplit(".", 2)[0]
    id, *more = (row[name] for name in ids_in)
    if not more:
        return event_id_text(tuple(id) if isinstance(id, list) else id)
    whole = zip((id, *more), (schema.field(name).type == "long" for name in schema.id_fields))
    return event_id_text(tuple(int(value) if is_number else str(value) for value, is_number in whole))
