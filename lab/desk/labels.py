"""Labels of one's own: which events should alert, in two halves, and how well alerts find them.

a column, a condition, a file, ids, verdicts ──► Labels ──► Labelled ──► halves: one to choose by, one held out ──► Score
"""

import json
import re
import warnings
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from lab.model.alerts import event_id_text, utc_text
from lab.model.conditions import BadConditions
from lab.model.formatting import plain_text, shorten
from lab.model.keygroups import key_group_of
from lab.model.language import say
from lab.model.schema import Schema
from lab.model.when import When, condition_fields, is_true, list_names
from lab.model.whenreader import parse_when
from lab.sources.sources import Source

MAX_FILE_BYTES = 1 << 28
# labels of events that should not alert; so are numbers that are zero, signs alone and the empty text
NO = [
    "no",
    "n",
    "false",
    "f",
    "null",
    "none",
    "nan",
    "n/a",
    "na",
    "wrong",
    "legit",
    "legitimate",
    "genuine",
    "ok",
    "good",
    "clean",
    "normal",
    "negative",
    "nein",
    "non",
    "아니오",
    "아니요",
    "정상",
    "否",
    "正常",
]
ALERT_ID = re.compile(r"[0-9]+\.[0-9]+\.(.*)\.[0-9]+\.[^.]*", re.DOTALL)  # and the event's id in it
YES = ("yes", "y", "true", "t", "1")  # in place of a case: each of these events is its own
NAMES = ("label", "verdict")  # of the column of labels, if there are several that might be
FEW_CASES = 10  # in a half: fewer are too few
SHOWN_VALUES, SHOWN_CHARACTERS = 3, 20  # of labels


class LabelWarning(UserWarning):
    """Labels that probably do not mean what was intended, or of which some are left out."""


@dataclass(frozen=True)
class Labels:
    """The labelled events by the texts of their ids, each with its case, and those that should not alert; None: all others.

    `values`: what the label of each event is, in words, where a column says it.
    """

    cases: Mapping[str, Any]
    others: frozenset[str] | None = None
    values: Mapping[str, str] = field(default_factory=dict)

    def of_events(self, known: Iterable[str]) -> "Labels":
        """Those of some events only."""
        ids = set(known)
        return Labels(
            {at: case for at, case in self.cases.items() if at in ids},
            None if self.others is None else self.others & ids,
            {at: value for at, value in self.values.items() if at in ids},
        )

    def sentences(self, events: int) -> list[str]:
        """How many of the events are labelled, with which values."""
        said = {"count": f"{len(self.cases):,}", "all": f"{events:,}"}
        yes = _values_text(value for at, value in self.values.items() if at in self.cases)
        no = _values_text(value for at, value in self.values.items() if at not in self.cases)
        if no:
            lines = [
                say("Labelled: {count} of {all} events ({yes}; no: {no}).", **said, yes=yes or "–", no=no)
            ]
        elif yes:
            lines = [say("Labelled: {count} of {all} events ({yes}).", **said, yes=yes)]
        else:
            lines = [say("Labelled: {count} of {all} events.", **said)]
        if self.others is not None and (rest := events - len(self.cases) - len(self.others)):
            lines.append(say("Events without a label, which count nowhere: {count}.", count=f"{rest:,}"))
        return lines


def _values_text(values: Iterable[str]) -> str:
    """The most frequent values with how often they come."""
    counts = Counter(values)
    shown = [f"{value} {count:,}" for value, count in counts.most_common(SHOWN_VALUES)]
    return ", ".join(shown + ["…"] * (len(counts) > SHOWN_VALUES))


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    text = shorten(plain_text(value).strip(), SHOWN_CHARACTERS) or '""'
    return (
        text.lower() if text.lower() in ("true", "false") else text
    )  # JSON and CSV of Python write them otherwise


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

    @property
    def shares(self) -> dict[str, float | None]:
        """Precision, recall and F1 by name."""
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1}

    def __repr__(self) -> str:
        """With precision, recall and F1.

        >>> Score(3, 1, 4, 2, 2, 0)
        Score(right=3, wrong=1, labelled=4, cases_found=2, cases=2, delay_ms=0, amount_found=Decimal('0'), amount=Decimal('0'), precision=0.75, recall=0.75, f1=0.75)
        """
        shown = (f"{name}={value!r}" for name, value in (asdict(self) | self.shares).items())
        return f"Score({', '.join(shown)})"


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
    dead_letters: Callable[[set[str]], int] = lambda ids: 0,
) -> tuple[Labelled, Labelled, tuple[str, ...]]:
    """The half of the events to choose by, the held-out half, and sentences: what is labelled, and which half is which.

    `given`: labels, see `read_labels`. `amount`: a field whose sum counts, too. `by`: the held-out half is that of a hash of this
    field, such as an account, which is then in one half only; None: the later half by time. `case`: labelled events with one value of this
    field are one case. `dead_letters`: how many of some ids are of dead letters. Labels of no event are left out with a LabelWarning.
    Raises ValueError, also if no label is of an event.
    """
    amount, by, case = own_names(schema, amount, by, case)
    check_fields(schema, amount, by, case)
    labels = _of_known_events(read_labels(given, events, schema), events, dead_letters)
    if 2 * len(labels.cases) > len(events):
        warnings.warn(
            f"labels: {len(labels.cases):,} of {len(events):,} events are labelled, more than half: do all of these values mean that "
            "the event should alert?",
            LabelWarning,
            stacklevel=4,
        )
    cases = dict(labels.cases)
    if case:
        cases = {at: at if events[at][case] is None else (case, events[at][case]) for at in cases}
    times = {at: event[schema.time_field] for at, event in events.items()}
    amounts = {at: Decimal(event[amount] or 0) for at, event in events.items()} if amount else {}
    whole = Labelled(cases, labels.others, times, amounts)
    if by:
        held_out = {at for at, event in events.items() if event[by] is not None and _is_odd(event[by])}
        names = say("half to choose by"), say("held-out half")
        said = say("Held out: the half of the events whose {field} has an odd hash.", field=by)
    else:
        middle = sorted(times.values())[len(times) // 2] if times else 0
        held_out = {at for at, time in times.items() if time >= middle}
        names = say("earlier half"), say("held-out half")
        said = say("Held out: the later half of the events, from {time} on.", time=utc_text(middle))
    halves = whole.part(times.keys() - held_out, names[0]), whole.part(held_out, names[1])
    return *halves, (*labels.sentences(len(events)), *_few_cases(*halves), said)


def _few_cases(first: Labelled, held_out: Labelled) -> list[str]:
    """A sentence if a half has too few cases to tell rules apart."""
    some, other = (len(set(half.cases.values())) for half in (first, held_out))
    if min(some, other) >= FEW_CASES or not some + other:
        return []
    of = {"some": f"{some:,}", "other": f"{other:,}", "few": FEW_CASES}
    return [say("Cases to choose by: {some}, held out: {other}. Fewer than {few} say little.", **of)]


def own_names(schema: Schema, *given: Any) -> tuple[Any, ...]:
    """The names of fields in the schema, which may be given as the records have them; whatever else is given stays as it is.

    >>> from lab.model.field import Field
    >>> fields = Field("id", "long"), Field("at", "time", unit="ms"), Field("is_fraud", "string", path=("verdict", "Is Fraud"))
    >>> own_names(Schema("cards", fields, ("id",), "at"), "Is Fraud", "verdict.Is Fraud", "is_fraud", None, "kind = a")
    ('is_fraud', 'is_fraud', 'is_fraud', None, 'kind = a')
    """
    return tuple(_own_name(schema, each) if isinstance(each, str) else each for each in given)


def _own_name(schema: Schema, given: str) -> str:
    if given in schema.names:
        return given
    whole = [each.name for each in schema.fields if given == ".".join(each.record_path)]
    last = [each.name for each in schema.fields if given == each.record_path[-1]]
    return next((found[0] for found in (whole, last) if len(found) == 1), given)


def check_fields(schema: Schema, amount: str | None, by: str | None, case: str | None) -> None:
    """Raises ValueError if one of the fields that count beside labels is not there, or the amount is no number."""
    for name in filter(None, (amount, by, case)):
        if name not in schema.names:
            raise ValueError(f"there is no field {name}, expected one of {', '.join(schema.names)}")
    if amount and not (schema.field(amount).is_decimal or schema.field(amount).type == "long"):
        raise ValueError(f"{amount} is no number, expected the name of a field with amounts")


def _of_known_events(
    labels: Labels, events: Mapping[str, Any], dead_letters: Callable[[set[str]], int]
) -> Labels:
    """The labels of events that are there; a LabelWarning names the others. Raises ValueError if all are others."""
    named = (*labels.cases, *(labels.others or ()))
    unknown = dict.fromkeys(at for at in named if at not in events)
    if not unknown:
        return labels
    said = f"labels: {len(unknown):,} of {len(named):,} are of no event, such as {next(iter(unknown))!r}"
    if len(unknown) == len(named):
        raise ValueError(said)
    dead = dead_letters({*unknown})
    among = f"; dead letters among them: {dead:,}" if dead else ""
    warnings.warn(f"{said}{among}. They are left out", LabelWarning, stacklevel=5)
    return labels.of_events(events)


def _is_odd(value: Any) -> bool:
    return key_group_of((value,), 2) == 1


def read_labels(given: Any, events: Mapping[str, Mapping[str, Any]], schema: Schema) -> Labels:
    """The labels of events, by what somebody gives.

    `given`: the name of a field, in the schema or in its records, whose value says yes or no; a condition in words, such as `kind = "stolen"`; ids; {id: case}, where
    a case may also say no, and 0 does if all are 0 or 1; such pairs; the `Path` of a file, see `labels_of_file`; or Labels.
    Where a file or pairs say no of some events, what they do not name counts nowhere. Raises ValueError, OSError.
    """
    (given,) = own_names(schema, given)
    match given:
        case Labels():
            return given
        case str() if given in schema.names:
            values = {at: event[given] for at, event in events.items()}
            yes = {at: (given, at) for at, value in values.items() if says_yes(value)}
            return Labels(yes, None, {at: _value_text(value) for at, value in values.items()})
        case str():
            when = labels_condition(given, schema)
            return Labels({at: at for at, event in events.items() if is_true(when, event)})
        case Path():
            return labels_of_file(given, schema)
    cases, no, values = dict[str, Any](), set[str](), dict[str, str]()
    for of, case in _ids_with_cases(given, len(events), schema):
        at = event_id_text(of)
        word = str(case).strip().lower() if isinstance(case, str | bool) else case
        is_yes, is_no = word in YES, isinstance(word, str) and not says_yes(word)
        if is_yes or is_no:
            values[at] = _value_text(case)
        if is_no:
            no.add(at)
        else:
            cases[at] = at if case is None or is_yes else case
    return Labels(cases, frozenset(no) or None, values)


def _ids_with_cases(given: Any, events: int, schema: Schema) -> list[tuple[Any, Any]]:
    """Ids of events, each with its case, or True or False; None: it has none. Raises ValueError for labels without ids."""
    if isinstance(given, Mapping):
        pairs = [(of, _plain(case)) for of, case in given.items()]
    else:
        pairs, is_single = [], len(schema.event_id_fields) == 1
        for each in map(_plain, given):
            is_pair = isinstance(each, tuple) and len(each) == 2
            if is_pair and (is_single or isinstance(_plain(each[1]), bool)):
                pairs.append((each[0], _plain(each[1])))
            else:
                pairs.append((each, None))
        _refuse_labels_without_ids([of for of, case in pairs if case is None], events, schema)
    labels = [case for _, case in pairs]
    if 0 in labels and all(isinstance(case, int | float) and case in (0, 1) for case in labels):
        # 0 is no number of a case: there is at most one other
        return [(of, bool(case)) for of, case in pairs]
    return pairs


def _refuse_labels_without_ids(given: list[Any], events: int, schema: Schema) -> None:
    """Raises ValueError, which says what to write, for a mask, or a label for each event, in place of ids."""
    name = schema.field(schema.id_fields[0]).record_path[-1]
    column = f"df.{name}" if name.isidentifier() else f"df[{name!r}]"
    if any(isinstance(each, bool) for each in given):
        raise ValueError(f"labels: a mask, expected the ids of the labelled events: {column}[mask]")
    words = {str(each).strip().lower() for each in given}
    is_yes_and_no = all(word in (*YES, "1.0") or not says_yes(word) for word in words) and len(words) == 2
    if len({event_id_text(each) for each in given}) < len(given) and (is_yes_and_no or len(given) == events):
        raise ValueError(
            f"labels: {len(given):,} values that repeat, as of one label for each event, expected the ids of the labelled ones: "
            f"{column}[y == 1], or the name of the field that says it"
        )


def _plain(value: Any) -> Any:
    """A value of Python in place of one of NumPy."""
    return value.item() if getattr(value, "shape", None) == () else value


def labels_condition(text: str, schema: Schema) -> When:
    """The condition whose events are labelled. Raises ValueError."""
    try:
        when = parse_when(text, schema)
    except BadConditions as error:
        names = ", ".join(schema.names)
        raise ValueError(
            f"labels: there is no field {text}, expected one of {names}, a Path, ids, or a condition ({error})"
        ) from None
    if list_names(when):
        raise ValueError("labels: a condition with a named list, expected one with values")
    return when


def labels_fields(given: Any, schema: Schema) -> tuple[str, ...]:
    """The fields that say which events are labelled: they give the answer away."""
    (given,) = own_names(schema, given)
    if not isinstance(given, str):
        return ()
    return (given,) if given in schema.names else condition_fields(labels_condition(given, schema))


def says_yes(value: Any) -> bool:
    """Whether the value of a label means that its event should alert.

    >>> [says_yes(value) for value in (1, "true", "stolen", 0, "No", None, "", "N", "-")]
    [True, True, True, False, False, False, False, False, False]
    """
    text = str(value).strip().lower()
    return text not in NO and bool(text.strip("+-0.,"))


def labels_of_file(path: Path, schema: Schema) -> Labels:
    """The labels of a file: ids, one on each line; or CSV, JSON or Parquet with a column of ids, or of alerts' ids, one of labels, and
    perhaps `case`. The ids' columns may be named as in the events' source. Raises ValueError, OSError."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{path}: more than {MAX_FILE_BYTES >> 20} MiB, expected labels of events")
    with path.open("rb") as file:
        head = file.read(1 << 16)
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0].strip()
    is_table = first[:1] in (b"{", b"[") or first[:4] == b"PAR1" or head[:2] == b"\x1f\x8b"
    paths = [schema.field(name).record_path for name in schema.id_fields]
    in_source, whole = tuple(path[-1] for path in paths), tuple(".".join(path) for path in paths)
    if not is_table and not any(sign in first for sign in b",;\t|"):
        ids = list(filter(None, map(str.strip, path.read_text(encoding="utf-8-sig").splitlines())))
        begins = 1 if ids and ids[0] in ("id", "eventId", schema.id_fields[0], in_source[0], whole[0]) else 0
        return Labels({at: at for at in ids[begins:]})
    rows = [json.loads(line, parse_float=Decimal) for line in Source(path) if line.strip()]
    if any(not isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: expected an object on each line")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    names_of_ids = (schema.id_fields, whole, in_source, ("eventId",), ("id",))
    ids_in = next((names for names in names_of_ids if {*names} <= {*columns}), ())
    if not ids_in and "alertId" not in columns:
        names = ", ".join(dict.fromkeys((*schema.id_fields, *whole, "eventId", "alertId")))
        raise ValueError(f"{path}: has the columns {', '.join(columns)}, expected one of ids: {names}")
    by_lower = {name.lower(): name for name in columns if name not in (*ids_in, "alertId")}
    case = by_lower.pop("case", "")
    label = next((by_lower[name] for name in NAMES if name in by_lower), "")
    if by_lower and not label:
        if len(by_lower) > 1:
            raise ValueError(
                f"{path}: which of {', '.join(by_lower.values())} is the label? Name its column label"
            )
        (label,) = by_lower.values()
    cases, no, values = dict[str, Any](), set[str](), dict[str, str]()
    for row in rows:
        at = _id_in(row, ids_in, schema)
        if label:
            values[at] = _value_text(row.get(label))
        if label and not says_yes(row.get(label)):
            no.add(at)
        else:
            cases[at] = at if row.get(case) is None else row[case]
    return Labels(cases, frozenset(no - cases.keys()) or None, values)


def _id_in(row: Mapping[str, Any], ids_in: Iterable[str], schema: Schema) -> str:
    """The text of the id of a row's event."""
    if not ids_in:
        return ALERT_ID.sub(r"\1", str(row.get("alertId")))
    id, *more = (row.get(name, "") for name in ids_in)
    if not more:
        return event_id_text(tuple(id) if isinstance(id, list) else id)
    whole = zip((id, *more), (schema.field(name).type == "long" for name in schema.id_fields))
    return event_id_text(tuple(int(value) if is_number else str(value) for value, is_number in whole))
