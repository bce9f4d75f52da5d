"""Counts the bytes that go from routing to evaluation: a copy of the event for each rule, or one for each route.

    event ──┬─► rule 1 (payeeId)         event ──┬─► route payeeId         rules 1 and 3 share a copy
            ├─► rule 2 (paymentType)             └─► route paymentType     and what no rule of the route
            └─► rule 3 (payeeId)                                           reads stays behind

The first is `DynamicKeyFunction` as "Advanced Flink Application Patterns" part 1 prints it; the second is what that article
recommends for production, and what the engine does. All are measured with the engine's own `lab.engine.loop.route.route_events`. Flink's
copies carry the key as text and the rule's id as well, which are not counted here.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from random import Random

import numpy as np

from lab.engine.checkpoint.ledger import Ledger
from lab.engine.checkpoint.settings import Settings
from lab.engine.loop.route import route_events, split_by_task
from lab.engine.records.columns import LOG_TIME, SOURCE, pack
from lab.engine.records.decode import DecodedBatch, decode_records
from lab.engine.records.feeds import LooseLines
from lab.model.aggregation import Aggregation
from lab.model.rules import Rule, RuleBook, rule_message
from lab.model.schema import Schema

KEYS = (["payeeId"], ["beneficiaryId"], ["payeeId", "beneficiaryId"], ["paymentType"])
FUNCTIONS = ("SUM", "AVG", "MAX", "COUNT")
FILTERED_SHARE = 0.2  # of the made rules look at cash only


@dataclass(frozen=True)
class RoutedBatch:
    """The output of routing a micro-batch of `events` events: rows in envelopes, and their bytes."""

    events: int
    copies: int
    envelopes: int
    bytes: int
    header_bytes: int  # size of the envelopes without any rows

    @property
    def bytes_per_event(self) -> float:
        return self.bytes / self.events


@dataclass(frozen=True)
class OfWholeEvent(Aggregation):
    """An aggregation that keeps the whole event: a routing that does not look into its rules copies every field."""

    stored_field_names: tuple[str, ...] = ()


def route_batch(
    lines: Sequence[bytes], book: RuleBook, settings: Settings, *, merged: bool = True, trimmed: bool = True
) -> RoutedBatch:
    """Routes the lines as one micro-batch under the rules of `book`.

    `merged`: rules with the same keys and filter share a copy. `trimmed`: only fields that a rule reads travel.

    >>> from lab.model.schema import PAYMENTS
    >>> book = RuleBook(PAYMENTS)
    >>> for number, limit in ((1, 50), (2, 90)):
    ...     _ = book.apply(f"{number},(active),(payeeId),,(paymentAmount),(SUM),(>),({limit}),(20)")
    >>> lines = [b"1,2013-01-01 00:00:00,25,12,CSH,30", b"2,2013-01-01 00:20:00,25,13,CSH,20.01"]
    >>> route_batch(lines, book, Settings(PAYMENTS)).copies, route_batch(lines, book, Settings(PAYMENTS), merged=False).copies
    (2, 4)
    """
    batch = _batch(lines, settings.schema)
    rules = book.sorted() if trimmed else [_whole(rule, settings.schema) for rule in book.sorted()]
    books = [rules] if merged else [[rule] for rule in rules]
    copies = envelopes = size = headers = 0
    for some in books:
        for envelope in route_events(batch, Ledger.from_rules(some, settings.schema), [], settings).envelopes:
            for _, part in split_by_task(envelope, settings):
                copies += len(part.columns["time"])
                envelopes, size = envelopes + 1, size + len(pack(part.columns))
                headers += len(pack({name: column[:0] for name, column in part.columns.items()}))
    return RoutedBatch(batch.records, copies, envelopes, size, headers)


def more_rules(first_id: int, count: int, seed: int = 1) -> list[str]:
    """Messages of `count` seeded rules on payments, as a desk of analysts might add them: few key sets, many limits.

    >>> json.loads(more_rules(5, 1)[0])["ruleId"]
    5
    """
    rng = Random(seed)
    messages = []
    for rule_id in range(first_id, first_id + count):
        keys, function = rng.choice(KEYS), rng.choice(FUNCTIONS)
        limit, window = rng.randrange(100, 10_000), rng.choice(("10m", "1h", "1d"))
        rule = rule_message(rule_id, keys, "paymentAmount", function, "GREATER", limit, window)
        if rng.random() < FILTERED_SHARE:
            rule["filter"] = {"paymentType": "CSH"}
        messages.append(json.dumps(rule))
    return messages


def _batch(lines: Sequence[bytes], schema: Schema) -> DecodedBatch:
    columns, kept, bad = decode_records(LooseLines(b"\n".join(lines)), schema)
    columns |= {name: np.zeros(len(kept), np.int64) for name in (LOG_TIME, SOURCE)}
    return DecodedBatch([columns], records=len(kept) + len(bad))


def _whole(rule: Rule, schema: Schema) -> Rule:
    travel_anyway = {*schema.id_fields, schema.time_field, *rule.keys}
    names = tuple(sorted(set(schema.names) - travel_anyway))
    own = {field.name: getattr(rule.aggregation, field.name) for field in fields(rule.aggregation)}
    first = replace(rule.first, aggregation=OfWholeEvent(**own, stored_field_names=names))
    return replace(rule, conditions=(first, *rule.conditions[1:]))
