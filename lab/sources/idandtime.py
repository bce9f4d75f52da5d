"""Chooses the id and the event time among inferred fields, and says what is missing if no field can be one."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod

from lab.model.field import Field
from lab.model.formatting import expected_message, short_json, unknown_name_message
from lab.model.schema import ID_TYPES, MAX_ID
from lab.model.times import NUMBERS, TEXTS
from lab.sources.inferredfields import (
    INFERRED_UNITS,
    NO_ZONE,
    TIME_WORDS,
    InferredField,
    Path,
    name_begins_or_ends_with,
    split_name,
)
from lab.sources.inferwords import InferWords

COVERED = 0.9  # the least share of records that have the id and the time
MOST_REPEATED = 0.9  # the share of records that may repeat an id if its name says that it is one
TRIED = 12  # fields, of which pairs and triples may be the id
DATE = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}")  # in whatever order
PART_WORDS = (
    "seq",
    "sequence",
    "offset",
    "line",
    "index",
    "position",
    "partition",
    "version",
    "count",
    "counter",
)
ID_WORDS = ("id", "uuid", "guid", "key", "number", "nr", "no")
STEP_WORDS = {  # unit -> the words of numbers in it that count from a beginning
    "s": "step tick elapsed offset seconds sec time s",
    "ms": "ms millis",
    "us": "us micros",
    "ns": "ns nanos",
    "m": "minute minutes min",
    "h": "hour hours",
    "d": "day days",
}
STEP_UNITS = {word: unit for unit, words in STEP_WORDS.items() for word in words.split()}


@dataclass
class IdAndTimeChooser:
    """Chooses the id and the event time among fields, which are stored by name. Adds to their doubts, and may change their types.

    `missing`: a sentence for each of the two for which it found no field.
    """

    inferred_fields: dict[str, InferredField]
    fields: dict[str, Field]
    record_count: int
    doubts: dict[str, list[str]]
    read_columns: Callable[[list[Path]], list[list]]  # for each path, the values of all records
    words: InferWords
    delimiter: str = ","  # what divides the cells of CSV
    missing: list[str] = field(default_factory=list)

    # -- the id

    def choose_id_fields(self, events_name: str, event_path: Path = ()) -> tuple[str, ...]:
        """The field that identifies an event, of several the one whose name is most like an id, or fields that do so together; () if there are none.

        `event_path`: where an envelope has events. The id is of a row that may have changed, so one field is the id although it repeats.
        """
        singular = events_name.lower().rstrip("s")

        def rank(name: str) -> tuple:
            one = self.inferred_fields[name]
            own = singular in "".join(one.path).lower()
            few = one.non_null_count < self.record_count
            return (
                few,
                self._repeated(name) > 0,
                not name_begins_or_ends_with(one, ID_WORDS),
                not own,
                len(one.path),
            )

        possible = [
            name
            for name, one in self.inferred_fields.items()
            if self.fields[name].type in ID_TYPES
            and one.max_text_length <= MAX_ID
            and one.path[: len(event_path)] == event_path
            and self._covers(one.non_null_count)
            if self._repeated(name)
            <= (MOST_REPEATED if name_begins_or_ends_with(one, ID_WORDS) else 1 - COVERED) * self.record_count
        ]
        whole = (name for name in possible if self.inferred_fields[name].non_null_count == self.record_count)
        is_row = bool(event_path) and bool(possible)
        if not is_row and all(map(self._repeated, whole)) and (names := self._unique_combination()):
            return names
        if not possible:
            self.missing.append(
                f"no id: no integer or text field is present in every record and different in each{self._nearly_ids()}; "
                f"name the id with {self.words.id.format('NAME')}, or several fields that are the id together with {self.words.ids}"
            )
            return ()
        id = min(possible, key=rank)
        self._doubt_id(id)
        return (id,)

    def _nearly_ids(self) -> str:
        """What is in the way of the first field whose name says that it is the id."""
        named = (
            name
            for name, one in self.inferred_fields.items()
            if one.non_null_count and name_begins_or_ends_with(one, ID_WORDS)
        )
        if not (name := next(named, "")):
            return ""
        said, one = "", self.inferred_fields[name]
        if missing := self.record_count - one.non_null_count:
            said = f"; {name} is null in {missing:,} of {self.record_count:,} records"
        if self.fields[name].is_decimal and not one.fraction_digits:
            said += f"; {name} has numbers with a point: {self.words.integers.format(name)}"
        return said

    def _unique_combination(self) -> tuple[str, ...]:
        """The fields that together identify an event: tries pairs, then triples, of the twelve fields that look most like ids.

        Prefers names about ids and counts, then texts, because numbers may be measures. () if no combination is unique.
        """

        def rank(name: str) -> tuple:
            about = name_begins_or_ends_with(self.inferred_fields[name], (*ID_WORDS, *PART_WORDS))
            return 0 if about else 1 if self.fields[name].type == "string" else 2, -self._different(name)

        possible = [
            name
            for name, one in self.inferred_fields.items()
            if self.fields[name].type in ID_TYPES
            and one.non_null_count == self.record_count
            and one.max_text_length <= MAX_ID
        ]
        order = {name: place for place, name in enumerate(possible)}
        possible = sorted(possible, key=rank)[:TRIED]
        columns: dict[str, list] = {}
        for size in (2, 3):
            unique = []
            for names in combinations(possible, size):
                if prod(map(self._different, names)) >= self.record_count:
                    columns = columns or dict(
                        zip(possible, self.read_columns([self.inferred_fields[n].path for n in possible]))
                    )
                    if _all_different(zip(*(columns[name] for name in names))):
                        unique.append(names)
            if unique:
                best = min(unique, key=lambda names: sum(rank(name)[0] for name in names))
                self.doubts[""].append(
                    f"no single field is unique; {' and '.join(sorted(best, key=order.__getitem__))} together are, in all "
                    f"{self.record_count:,} records (tried: pairs, then triples, of {len(possible)} fields)"
                )
                return tuple(sorted(best, key=order.__getitem__))
        return ()

    def _different(self, name: str) -> int:
        one = self.inferred_fields[name]
        return len(one.distinct_values) if one.distinct_values is not None else one.non_null_count

    def resolve_id_fields(self, names_or_paths: Sequence[str]) -> tuple[str, ...]:
        """The fields that a user has named as the id. Raises ValueError."""
        if len(names_or_paths) == 1:
            self._doubt_id(id := self._named_id(names_or_paths[0]))
            return (id,)
        return tuple(map(self._named_id, names_or_paths))

    def _named_id(self, given: str) -> str:
        name = self._named(self.words.id, given)
        if self.fields[name].type not in ID_TYPES:
            if (
                self.inferred_fields[name].fitting_counts["string"]
                < self.inferred_fields[name].non_null_count
            ):
                raise ValueError(
                    expected_message(
                        self.words.id.format(given), self.fields[name].type, "a field of integers or strings"
                    )
                )
            self.fields[name] = replace(self.fields[name], type="string", unit="")
        return name

    def _doubt_id(self, id: str) -> None:
        if repeated := self._repeated(id):
            self.doubts[id].insert(
                0,
                f"this is the id, but {repeated:,} records repeat an id: they are duplicates if they also have the same time",
            )
        self._doubt_missing(id, "id")

    def _repeated(self, name: str) -> int:
        one = self.inferred_fields[name]
        return one.non_null_count - len(one.distinct_values) if one.distinct_values else one.non_null_count

    # -- the time

    def choose_time_field(self, event_path: Path | None, id_fields: Sequence[str]) -> str:
        """The field with the event time, not one of the `id_fields`; of several, the one whose name fits best; "" if there is none. `event_path`: where events are."""
        possible = [
            name
            for name, one in self.inferred_fields.items()
            if self.fields[name].type == "time" and self._covers(one.fitting_counts[self.fields[name].unit])
        ]
        event_path = event_path or ()

        def is_own(name: str) -> bool:
            return self.inferred_fields[name].path[: len(event_path)] == event_path

        if not any(map(is_own, possible)):
            # numbers whose values look like times, although their names do not
            for name in filter(is_own, self.inferred_fields):
                one, type = self.inferred_fields[name], self.fields[name].type
                number = type in ID_TYPES and name not in id_fields
                if number and one.time_unit in NUMBERS and self._covers(one.non_null_count):
                    self._make_time(name, one.time_unit, f"in {one.time_unit} since the epoch")
                    possible.append(name)
        if not possible:
            for name, one in self.inferred_fields.items():
                if self._covers(one.fitting_counts["date"]) and name not in id_fields:
                    self._make_time(name, "utc", "at the beginning of their days, UTC")
                    possible.append(name)
        if not possible:
            self.missing.append(self._no_time())
            return ""

        def rank(name: str) -> tuple:
            one = self.inferred_fields[name]
            return (
                not is_own(name),
                one.non_null_count < self.record_count,
                not name_begins_or_ends_with(one, TIME_WORDS[:4]),
                not name_begins_or_ends_with(one, TIME_WORDS),
                len(one.path),
            )

        time = min(possible, key=rank)
        if others := [name for name in possible if name != time]:
            self.doubts[time].insert(0, f"this is the event time; {', '.join(others[:5])} could be it, too")
        self._doubt_missing(time, "event time")
        return time

    def _make_time(self, name: str, unit: str, how: str) -> None:
        self.fields[name] = replace(self.fields[name], type="time", unit=unit)
        self.doubts[name].append(f"read as times {how}, because no other field is a time")

    def _no_time(self) -> str:
        wanted = (
            "no event time: no field is ISO 8601 text, or a number of s, ms, us or ns since the epoch, in 9 of 10 records; "
            f"name the field with {self.words.time.format('NAME')}"
        )
        for name, one in self.inferred_fields.items():
            numbers = one.fitting_counts["decimal"]
            if numbers and self._covers(numbers) and STEP_UNITS.keys() & set(split_name(one.path[-1])):
                steps = f"{self.words.time.format(name)} reads the numbers in {name} as steps since 1970"
                wanted += f'; {steps}, of an hour with unit = "h" in the schema'
                break
        for name, one in self.inferred_fields.items():
            if one.non_null_count and (
                name_begins_or_ends_with(one, TIME_WORDS) or DATE.match(str(one.example)[:100])
            ):
                unit = max(INFERRED_UNITS, key=one.fitting_counts.__getitem__)
                times = f"{one.fitting_counts[unit]:,} of {self.record_count:,} are times"
                value = short_json(one.first_misfits.get(unit, one.example))
                return f"{wanted}; in {name} {times}, and one value is {value}{self._way_to_times(one)}"
        return wanted

    def _way_to_times(self, one: InferredField) -> str:
        if self.words.only_cells and not one.texts:
            return ""
        return f"; {self.words.times_of('.'.join(one.path), self.delimiter)}"

    def use_as_time_field(self, name_or_path: str) -> str:
        """The field that a user has named as the event time, in the unit of most of its values. Raises ValueError."""
        name = self._named(self.words.time, name_or_path)
        one = self.inferred_fields[name]
        if self.fields[name].type != "time":
            unit = max(INFERRED_UNITS, key=one.fitting_counts.__getitem__)
            if 2 * one.fitting_counts[unit] < one.fitting_counts["decimal"]:
                unit = STEP_UNITS.get((split_name(one.path[-1]) or [""])[-1], "s")
                self.doubts[name].append(
                    f'read as numbers of {unit} since 1970-01-01 00:00 UTC; if they are minutes, hours or days, say unit = "m", "h" or "d"'
                )
            elif not one.fitting_counts[unit]:
                allowed = f"times, such as {TEXTS['iso']}, or numbers of s, ms, us or ns"
                said = expected_message(self.words.time.format(name_or_path), one.example, allowed)
                raise ValueError(said + self._way_to_times(one))
            else:
                self.doubts[name] += [NO_ZONE] * (unit == "utc") + one.mismatch_doubts(unit)
            self.fields[name] = replace(self.fields[name], type="time", unit=unit)
        self._doubt_missing(name, "event time")
        return name

    # -- both

    def _covers(self, values: int) -> bool:
        return values >= COVERED * self.record_count

    def _doubt_missing(self, name: str, role: str) -> None:
        if missing := self.record_count - self.inferred_fields[name].non_null_count:
            self.doubts[name].insert(
                0, f"this is the {role}, but {missing:,} records lack it and will be dead letters"
            )

    def _named(self, role: str, given: str) -> str:
        """The field of a name or path; `role`: as the words have it."""
        for name, each in self.fields.items():
            if given in (name, ".".join(each.record_path)):
                return name
        raise ValueError(f"{role.format(given)}: {unknown_name_message('field', given, self.fields)}")


def _all_different(rows: Iterable[tuple]) -> bool:
    seen: set[tuple] = set()
    for row in rows:
        if row in seen:
            return False
        seen.add(row)
    return True
