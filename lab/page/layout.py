"""What the page's JavaScript has to know of the engine: places, kinds, limits. Written into the page, so that they stand once."""

from typing import Any

from lab.engine.compiled import blocks, groups, layout, scan, waits
from lab.engine.compiled.aggregates import forms
from lab.model import horizon
from lab.model.aggregates import AGGREGATES
from lab.model.aggregation import SPOKE, SYMBOLS, WHERE
from lab.model.derived import LEG
from lab.model.jsontext import MAX_DEPTH
from lab.page import derivation, loop

PLACES = (
    *("SALT", "EVENTS", "GROUPS", "LANES", "RESETS", "VALUES", "KEY", "ROW", "RULE"),
    *("HIGH_PART", "DENOMINATOR"),
    *("CONDITION_COLUMNS", "SPOKE_BIT", "CONDITION", "SUPPRESSED", "VALUES_OF_CONDITION"),
)
FRAME = (
    *("STORE", "OTHER", "RULES", "BATCH", "LINES", "WAITS", "OTHER_WAITS", "WAIT_ROWS", "DUE"),
    *("FATE", "ALERTS", "KEYS", "KEY_GROUPS"),
    *("TEXT", "DIGEST", "SELF"),
    *("FIRST_SEQ", "START_ROW", "WIDEST", "DONE", "FIRED", "BEFORE", "REACH", "HELD", "NEWEST_TIME", "FRAME"),
)
WAITS = ("AT", "SEQ", "FROM", "KEY", "ENTRIES", "HEAD", "TEXT", "SALT")
SIZES = layout.RETURNS + 1


def page_layout() -> dict[str, Any]:
    """Ready for JSON; `never` is a text, as it is no number of JavaScript's."""
    frame = {name: getattr(loop, name) for name in FRAME}
    frame["RULES_FIRING"] = loop.frame_slots(loop.RULES_ARRAYS, loop.RULES)["firing_rules"]
    return {
        "places": {name: getattr(layout, name) for name in PLACES}
        | {name.upper(): place for place, name in enumerate(layout.AGGREGATE_FIELDS)},
        "aggregateFields": len(layout.AGGREGATE_FIELDS),
        "running": {name: _aggregate(name) for name in AGGREGATES},
        "symbols": SYMBOLS,
        "where": WHERE,
        "spoke": SPOKE,
        "sizes": SIZES,
        "scratch": forms.SCRATCH,
        "twins": groups.MOST_TWINS,
        "halfBlock": blocks.HALF,
        "block": layout.NEWER_BLOCK + 1,
        "lanes": forms.LANES,
        "never": str(layout.NEVER),
        "witnesses": horizon.WITNESSES,
        "quarterMs": derivation.QUARTER_MS,
        "leg": LEG,  # the field that says which leg an event is
        "frame": frame,
        "waits": {name: getattr(waits, name) for name in WAITS},
        "lines": {
            "member": scan.MEMBER.itemsize,
            "object": scan.OBJECT.itemsize,
            "field": scan.FIELD.itemsize,
            "deepest": MAX_DEPTH,
        },
    }


def _aggregate(name: str) -> dict[str, Any]:
    row = AGGREGATES[name]
    return {"of": row.argument_kind, "hasWindow": row.has_window}
