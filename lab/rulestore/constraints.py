"""What a row of the tables `rules` and `list_entries` must be: constraints that reject what the engine would reject, as far as the row alone shows it.

The kind of an attribute says what its column allows (`lab.model.kinds`). Here stands what is between columns, and what only a rule says.
"""

from collections.abc import Iterator

from lab.model.aggregates import aggregates_of
from lab.model.attributes import ACTIONS, stored_attributes
from lab.model.kinds import MAX_SAID, MAX_STORED, Check, Word, check
from lab.model.lists import NAME
from lab.model.rules import FUNCTIONS, OPERATORS
from lab.model.schema import MAX_TIME

MAX_ENTRY_BYTES = 2_000
_SOMEBODY = check("changed_by is somebody", "length(changed_by) > 0")


def checks() -> Iterator[Check]:
    """All constraints."""
    for row in stored_attributes():
        yield from row.kind.checks(row.column)
    yield from Word(ACTIONS).checks("action")
    yield check("rule_id is a positive number", "rule_id > 0")
    yield check("rule_state is ACTIVE, PAUSE or SHADOW", "rule_state IN ('ACTIVE', 'PAUSE', 'SHADOW')")
    yield _among(
        "aggregator_function_type is SUM, COUNT, or another function", "aggregator_function_type", FUNCTIONS
    )
    yield _among(
        "limit_operator_type is GREATER, LESS_EQUAL, or another name", "limit_operator_type", OPERATORS
    )
    yield check(
        "aggregate_field_name is needed by all functions but counts",
        f"aggregator_function_type NOT IN ({_texts(aggregates_of('field'))}) OR aggregate_field_name IS NOT NULL",
    )
    yield check("action and ttl_seconds need each other", "(action IS NULL) = (ttl_seconds IS NULL)")
    yield _SOMEBODY
    yield check(
        f"filter_condition: at most {MAX_STORED} characters, and no filter",
        f"filter_condition IS NULL OR length(filter_condition) <= {MAX_STORED} AND filter IS NULL",
    )
    of_steps = aggregates_of("steps")
    yield check(
        f"steps: needed by {', '.join(of_steps)}, and by no other function",
        f"(aggregator_function_type IN ({_texts(of_steps)})) = (steps IS NOT NULL)",
    )
    of_unique = aggregates_of("unique")
    needed = f"aggregator_function_type NOT IN ({_texts(of_unique)}) OR unique_fields IS NOT NULL AND "
    name = f"unique_fields is needed by {', '.join(of_unique)}"
    yield Check(name, *(f"{needed}{each}_array_length(unique_fields) > 0" for each in ("jsonb", "json")))
    keys = "action IS NULL OR action = 'notify' OR {}_array_length(grouping_key_names) > 0"
    yield Check(
        "grouping_key_names is needed by all actions but notify", keys.format("jsonb"), keys.format("json")
    )
    yield Check(
        f"filter is an object without nulls of at most {MAX_STORED} characters",
        f"""filter IS NULL OR jsonb_typeof(filter) = 'object' AND NOT filter @? '$.* ? (@ == null)'
        AND length(filter::text) <= {MAX_STORED}""",
        f"filter IS NULL OR json_valid(filter) AND json_type(filter) = 'object' AND length(filter) <= {MAX_STORED}",
    )
    yield Check(
        "limit_value is below 1e24 and has at most 12 decimal places",
        "scale(limit_value) <= 12 AND abs(limit_value) < 1e24 AND limit_value <> 'NaN'",
        """limit_value GLOB '*[0-9]' AND limit_value GLOB '[-0-9]*' AND ltrim(limit_value, '-') GLOB '[0-9]*'
        AND limit_value NOT GLOB '*[^-0-9.]*' AND limit_value NOT GLOB '?*-*' AND limit_value NOT GLOB '*.*.*'
        AND length(limit_value) - instr(limit_value || '.', '.') <= 12
        AND instr(ltrim(limit_value, '-') || '.', '.') <= 25""",
    )
    # PostgreSQL's types say so
    whole = "typeof(rule_id) = 'integer' AND typeof(window_seconds) = 'integer' AND typeof(ttl_seconds) IN ('integer', 'null')"
    yield Check("rule_id, window_seconds and ttl_seconds are whole numbers", "true", whole)


def entry_checks() -> Iterator[Check]:
    """The constraints of an entry of a list. A key of PostgreSQL has at most 2,704 bytes, so an entry is counted in bytes."""
    yield _SOMEBODY
    yield Check(
        "list_name: letters, digits and _ . -, at most 64",  # NAME_ALLOWED
        f"list_name ~ '^({NAME})$'",
        """typeof(list_name) = 'text' AND length(CAST(list_name AS BLOB)) = length(list_name) AND length(list_name) BETWEEN 1 AND 64
        AND list_name GLOB '[A-Za-z_]*' AND list_name NOT GLOB '*[^A-Za-z0-9_.-]*'""",
    )
    yield Check(
        f"entry has 1 to {MAX_ENTRY_BYTES} bytes",
        f"octet_length(entry) BETWEEN 1 AND {MAX_ENTRY_BYTES}",
        f"typeof(entry) = 'text' AND length(CAST(entry AS BLOB)) BETWEEN 1 AND {MAX_ENTRY_BYTES} AND instr(entry, char(0)) = 0",
    )
    yield Check(
        "until_ms is a time in ms since the epoch, or null",
        f"until_ms >= 0 AND until_ms < {MAX_TIME}",
        f"typeof(until_ms) IN ('integer', 'null') AND (until_ms IS NULL OR until_ms >= 0 AND until_ms < {MAX_TIME})",
    )
    yield check(f"reason has 1 to {MAX_SAID} characters", f"length(reason) BETWEEN 1 AND {MAX_SAID}")


def _among(name: str, column: str, words: tuple[str, ...]) -> Check:
    return check(name, f"{column} IN ({_texts(words)})")


def _texts(words: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)
