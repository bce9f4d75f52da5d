"""The records of an engine's logs in the order in which it takes them: by effective log time, then by source and place.

Each cut's line in the stats log says how far it read. A record that turned up after the cut that should have had it counts as logged
at that cut (docs/semantics.md, Order).
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.ends import Logs
from lab.model.schema import MAX_TIME, Schema
from lab.model.statuslines import parse_stats


def ordered_records(logs: Logs, name: str, before: int = MAX_TIME) -> Iterator[tuple[int, bytes]]:
    """(effective log time, record) of the events or the control log, in log order; only those logged before a time, ms."""
    cuts, log = _cuts(logs), logs.log(name)
    starts, ends = log.bounds()
    for log_time, _, _, value in log.values_in_order(starts, ends, _begun_at(name, cuts, ends)):
        if log_time >= before:
            return
        yield log_time, value


def _begun_at(name: str, cuts: Sequence[dict], sources: Iterable[int]) -> Callable[[int, int], int]:
    """When the cut with a record began, of its source and position; 0 for one that no cut has."""
    read_up_to = {source: [cut.get(name, {}).get(str(source), 0) for cut in cuts] for source in sources}

    def begun_at(source: int, position: int) -> int:
        batch = bisect_right(read_up_to[source], position)
        return cuts[batch].get("from", 0) if batch < len(cuts) else 0

    return begun_at


def engine_settings(logs: Logs, schema: Schema) -> Settings:
    """The settings of the engine that has written the newest line of the stats log."""
    settings = Settings(schema)
    for line in logs.log("stats").newest(1)[-1:]:
        with suppress(ValueError):
            settings = settings.with_stats_fields(parse_stats(line).get("engine", {}))
    return settings


def _cuts(logs: Logs) -> list[dict]:
    """What each micro-batch has read, in their order: of the whole log, so lines are not checked as `cuts_in` does."""
    found: dict[int, dict] = {}
    for line in logs.log("stats").read():
        with suppress(ValueError, TypeError, KeyError):  # anybody may have written it
            stats = json.loads(line)
            found[stats["batch"]] = stats["cut"]
    return [cut for _, cut in sorted(found.items())]
