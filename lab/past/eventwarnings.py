"""What finished events say against their schema, the rules and their order, before or after a replay of them."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from lab.model.rule import Rule
from lab.model.schema import SCHEMAS, Schema
from lab.past.wantedvalues import WantedValues
from lab.sources.infer import unmatched_field_warnings
from lab.sources.order import LATE_MS, LOOKED_AT, TimeOrder, events_of_line, looked_at_every
from lab.sources.sources import EventSource


def event_warnings(
    source: EventSource,
    rules: Sequence[Rule],
    schema: Schema,
    advice: Callable[[str, Schema], str] | None,
    *,
    late_ms: int = LATE_MS,
    missing_paths: bool = True,
) -> Iterator[str]:
    """Sentences about what is doubtful, from one reading of the events.

    `advice`: makes one of what is wrong with their order; None: they will be sorted. `missing_paths`: also of fields that no record has.
    """
    wanted, lines = WantedValues(rules, schema), iter(source)
    searched = source.record_format == "json"
    lines = wanted.through(lines) if searched else lines
    every = looked_at_every(source)  # of a file lines all over it: fields may appear late
    order = TimeOrder(late_ms)

    def looked_at() -> Iterator[bytes]:
        for line in islice(lines, 0, every * LOOKED_AT, every):
            for event in events_of_line(line, schema):
                wanted.note(event)
                order.add(event[schema.time_field])
            yield line

    some = looked_at()
    if missing_paths and schema not in SCHEMAS.values():
        yield from unmatched_field_warnings(schema, some)
    deque(some, maxlen=0)
    while searched and wanted.searches and next(lines, None) is not None:
        pass
    if advice and (problem := order.problem(sampled=len(source) > LOOKED_AT)):
        yield advice(problem, schema)
    if problem := order.unit_problem(schema):
        yield problem
    yield from wanted.hints(searched)
