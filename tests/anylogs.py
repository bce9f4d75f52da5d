"""Random logs and rules for Hypothesis, which makes them small: those of `tests.engine.randomlogs`, with all that a rule may say."""

import json
import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from lab.model.attributes import SEVERITIES
from lab.model.rules import ACTIONS
from tests.engine import randomlogs
from tests.engine.oddlogs import with_events_ahead, with_odd_entries
from tests.engine.randomlogs import Entry
from tests.strategies import COUNTING, EVENT_FIELDS, FILTERS, KEYS, LABELS, TITLES

RANDOMS = st.randoms(use_true_random=False)
ROUTES = [*randomlogs.EVERY_ROUTE, *((keys, filter) for keys in KEYS for filter in FILTERS)]


def rules(live: bool = False) -> st.SearchStrategy[bytes]:
    """Rule messages for logins; `live`: perhaps of rules that say `absence`, for which a log needs log times, or look at lists."""
    return st.builds(lambda rng: _said(rng, randomlogs.random_rule(rng, ROUTES), live), RANDOMS)


def changes(live: bool = False) -> st.SearchStrategy[bytes]:
    """Messages that change rules in force, or are none."""
    changed = st.builds(lambda rng: randomlogs.random_change(rng, ROUTES), RANDOMS)
    return st.one_of(changed, rules(live), st.just(b"nonsense"))


@st.composite
def logs(draw, live: bool = False, odd: bool = True):
    """A log of ("event", line) and ("control", message): rules first, then events with changes between them.

    A `live` one has also rules that say `absence`, lists, and events that take back others (`RETURNS`). `odd`: it may have odd
    entries, and events dated ahead.
    """
    rng: random.Random = draw(RANDOMS)
    log = [
        (kind, _said(rng, text, live)) if kind == "control" and b"window" in text else (kind, text)
        for kind, text in randomlogs.random_log(rng, short=True)
    ]
    kinds: list[Callable[[random.Random, list[Entry]], list[Entry]]] = [
        *([randomlogs.with_returns] if live else ()),
        randomlogs.with_rules_again,
        *([with_odd_entries, with_events_ahead] if odd else ()),
        *([randomlogs.with_lists] if live else ()),
        randomlogs.with_shadow,
    ]
    for with_kind in kinds:
        log = with_kind(rng, log) if rng.random() < 0.4 else log
    return log


def cuts(log_length: int):
    """Where a log is cut into micro-batches."""
    return st.lists(st.integers(0, log_length), max_size=12).map(sorted)


def _said(rng: random.Random, text: bytes, live: bool) -> bytes:
    """The rule of a message with more of what rules may say."""
    rule: dict[str, Any] = json.loads(text)
    if rng.random() < 0.2:
        rule |= {"aggregateFieldName": rng.choice(COUNTING), "aggregatorFunctionType": "SUM", "steps": None}
    if rng.random() < 0.2:
        rule["ruleState"] = "SHADOW"
    if live and rng.random() < 0.2:
        rule = randomlogs.looking_at_lists(rng, rule)
    if live and rng.random() < 0.2:
        rule = randomlogs.absent(rng, rule)
    if rng.random() < 0.25:
        rule["action"] = rng.choice(ACTIONS if rule["groupingKeyNames"] else ["notify"])
        rule["ttl"] = rng.choice(["30s", "5m", "7d"])
    if rng.random() < 0.25:
        texts = {"severity": [None, *SEVERITIES], "title": TITLES, "labels": LABELS}
        rule |= {name: rng.choice(values) for name, values in texts.items()}
        rule["eventFields"] = rng.choice(EVENT_FIELDS)
    return json.dumps(rule).encode()
