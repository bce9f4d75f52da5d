"""What a row of the table `rules` must be: constraints that reject what the engine would reject, as far as the row alone shows it."""

from sqlalchemy import Column, func
from sqlalchemy.sql.expression import ColumnElement

from lab.model.aggregates import aggregates_of
from lab.model.attributes import MAX_SAID, SEVERITIES
from lab.model.rules import ACTIONS, FUNCTIONS, MAX_WINDOW_SECONDS, OPERATORS
from lab.rulestore.tables import RULES

_ROW = RULES.c
_OF_FIELD = aggregates_of("field")
_OF_NO_UNIQUE = "aggregator_function_type NOT IN ({})".format(
    ", ".join(f"'{name}'" for name in aggregates_of("unique"))
)
_LONGEST = f"is 1 to {MAX_WINDOW_SECONDS}"


def _between(column: Column) -> ColumnElement:
    return column.is_(None) | column.between(1, MAX_WINDOW_SECONDS)


# clients see a constraint's name: it says what is allowed, in the 63 bytes that PostgreSQL keeps
CHECKS: dict[str, ColumnElement | str] = {
    "rule_id is a positive number": _ROW.rule_id > 0,
    "rule_state is ACTIVE or PAUSE": _ROW.rule_state.in_(("ACTIVE", "PAUSE")),
    "aggregator_function_type is SUM, COUNT, or another function": _ROW.aggregator_function_type.in_(
        FUNCTIONS
    ),
    "limit_operator_type is GREATER, LESS_EQUAL, or another name": _ROW.limit_operator_type.in_(OPERATORS),
    f"window_seconds {_LONGEST}": _between(_ROW.window_seconds),
    "aggregate_field_name is needed by all functions but counts": (
        _ROW.aggregator_function_type.not_in(_OF_FIELD) | _ROW.aggregate_field_name.is_not(None)
    ),
    f"action is {', '.join(ACTIONS)} or null": _ROW.action.in_(ACTIONS),
    "action and ttl_seconds need each other": _ROW.action.is_(None) == _ROW.ttl_seconds.is_(None),
    f"ttl_seconds {_LONGEST}": _between(_ROW.ttl_seconds),
    "changed_by is somebody": func.length(_ROW.changed_by) > 0,
}
_WHEN = "when_condition has at most 50000 characters"
CHECKS[_WHEN] = func.length(_ROW.when_condition) <= 50_000
_SEVERITY = f"severity is {', '.join(SEVERITIES)} or null"
CHECKS[_SEVERITY] = _ROW.severity.in_(SEVERITIES)
_TITLE = f"title has 1 to {MAX_SAID} characters"
CHECKS[_TITLE] = func.length(_ROW.title).between(1, MAX_SAID)
_WHERE = "where_condition has at most 50000 characters"
CHECKS[_WHERE] = func.length(_ROW.where_condition) <= 50_000
_FILTER_WORDS = "filter_condition: at most 50000 characters, and no filter"
CHECKS[_FILTER_WORDS] = _ROW.filter_condition.is_(None) | (
    (func.length(_ROW.filter_condition) <= 50_000) & _ROW.filter.is_(None)
)
_EXCLUDE = "exclude_current is true, false or null"
CHECKS[_EXCLUDE] = _ROW.exclude_current.in_((True, False))
_ABSENCE = "absence is true, false or null"
CHECKS[_ABSENCE] = _ROW.absence.in_((True, False))
_LIMIT_OF = "limit_of is an object of at most 50000 characters"
_AND = "and_conditions is a list of at most 50000 characters"
_OR = "or_conditions is a list of at most 50000 characters"
_EVENT_FIELDS = "event_fields is a list of at most 50000 characters"
_AT_MOST = "at_most is an object of at most 50000 characters"
_LABELS = "labels is an object of texts of at most 50000 characters"
_DOCUMENTS = (  # constraint, column, what it holds
    (_LIMIT_OF, "limit_of", "object"),
    (_AND, "and_conditions", "array"),
    (_OR, "or_conditions", "array"),
    (_AT_MOST, "at_most", "object"),
    (_EVENT_FIELDS, "event_fields", "array"),
)
_KEYS = "grouping_key_names is a list of texts"
_UNIQUE = "unique_fields is a list of texts"
_UNIQUE_NEEDED = f"unique_fields is needed by {', '.join(aggregates_of('unique'))}"
_SOMEBODY = "grouping_key_names is needed by all actions but notify"
_FILTER = "filter is an object without nulls of at most 50000 characters"
_LIMIT = "limit_value is below 1e24 and has at most 12 decimal places"
POSTGRESQL_CHECKS = {
    _KEYS: """jsonb_typeof(grouping_key_names) = 'array'
        AND NOT grouping_key_names @? '$[*] ? (@.type() != "string")'""",
    _UNIQUE: """unique_fields IS NULL OR jsonb_typeof(unique_fields) = 'array'
        AND NOT unique_fields @? '$[*] ? (@.type() != "string")'""",
    _UNIQUE_NEEDED: f"""{_OF_NO_UNIQUE}
        OR unique_fields IS NOT NULL AND jsonb_array_length(unique_fields) > 0""",
    _SOMEBODY: "action IS NULL OR action = 'notify' OR jsonb_array_length(grouping_key_names) > 0",
    _FILTER: """filter IS NULL OR jsonb_typeof(filter) = 'object' AND NOT filter @? '$.* ? (@ == null)'
        AND length(filter::text) <= 50000""",
    _LABELS: """labels IS NULL OR jsonb_typeof(labels) = 'object'
        AND NOT labels @? '$.* ? (@.type() != "string")' AND length(labels::text) <= 50000""",
    **{
        name: f"{column} IS NULL OR jsonb_typeof({column}) = '{kind}' AND length({column}::text) <= 50000"
        for name, column, kind in _DOCUMENTS
    },
    _LIMIT: "scale(limit_value) <= 12 AND abs(limit_value) < 1e24 AND limit_value <> 'NaN'",
}
SQLITE_CHECKS = {
    "rule_id, window_seconds and ttl_seconds are whole numbers": """typeof(rule_id) = 'integer'
        AND typeof(window_seconds) = 'integer' AND typeof(ttl_seconds) IN ('integer', 'null')""",
    _KEYS: "json_valid(grouping_key_names) AND json_type(grouping_key_names) = 'array'",
    _UNIQUE: "unique_fields IS NULL OR json_valid(unique_fields) AND json_type(unique_fields) = 'array'",
    _UNIQUE_NEEDED: f"""{_OF_NO_UNIQUE}
        OR unique_fields IS NOT NULL AND json_array_length(unique_fields) > 0""",
    _SOMEBODY: "action IS NULL OR action = 'notify' OR json_array_length(grouping_key_names) > 0",
    _FILTER: """filter IS NULL OR json_valid(filter) AND json_type(filter) = 'object'
        AND length(filter) <= 50000""",
    _LABELS: """labels IS NULL OR json_valid(labels) AND json_type(labels) = 'object'
        AND length(labels) <= 50000""",
    **{
        name: f"{column} IS NULL OR json_valid({column}) AND json_type({column}) = '{kind}' AND length({column}) <= 50000"
        for name, column, kind in _DOCUMENTS
    },
    _LIMIT: """limit_value GLOB '*[0-9]' AND limit_value GLOB '[-0-9]*' AND ltrim(limit_value, '-') GLOB '[0-9]*'
        AND limit_value NOT GLOB '*[^-0-9.]*' AND limit_value NOT GLOB '?*-*' AND limit_value NOT GLOB '*.*.*'
        AND length(limit_value) - instr(limit_value || '.', '.') <= 12
        AND instr(ltrim(limit_value, '-') || '.', '.') <= 25""",
}
