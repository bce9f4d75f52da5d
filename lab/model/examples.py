"""Parts of rules in words that fit the fields of a schema, to show beside a box how it is written.

schema ──► a field that groups, one that is summed, one with texts ──► "SUM(amount) per userId over 1 h > 500", …
"""

from lab.model.conditions import quote_if_needed
from lab.model.field import Field
from lab.model.schema import Schema


def group_fields(schema: Schema) -> list[str]:
    """The fields that can group the events of a rule, in the order of the schema.

    >>> from lab.model.schema import LOGINS
    >>> group_fields(LOGINS)[:2]
    ['userId', 'action']
    """
    # of several fields that are the id, the others are as a device and its number
    return [each.name for each in _others(schema) if each.type in ("long", "string", "boolean")]


def example_sentence(schema: Schema) -> str:
    """A rule as a sentence.

    >>> from lab.model.schema import LOGINS, PAYMENTS
    >>> example_sentence(LOGINS), example_sentence(PAYMENTS)
    ('SUM(amount) per userId over 1 h > 500', 'SUM(paymentAmount) per payeeId over 1 h > 500')
    """
    per = "".join(f" per {name}" for name in group_fields(schema)[:1])
    return f"{_sum(schema)}{per} over 1 h > 500"


def example_further_conditions(schema: Schema) -> tuple[str, str]:
    """Further conditions of a rule, joined by `and` and by `or`.

    >>> from lab.model.schema import LOGINS
    >>> example_further_conditions(LOGINS)
    ('and UNIQUE_COUNT(action) over 1 d >= 3', 'or SUM(amount) over 1 h > 500')
    """
    distinct = [*group_fields(schema)[1:], *group_fields(schema), schema.id_fields[-1]][0]
    return f"and UNIQUE_COUNT({distinct}) over 1 d >= 3", f"or {_sum(schema)} over 1 h > 500"


def example_limits(schema: Schema) -> tuple[str, str]:
    """Limits that are what another aggregate says.

    >>> from lab.model.schema import LOGINS
    >>> example_limits(LOGINS)
    ('5 × SUM(amount) over 30 d ÷ 30', 'MIN(amount) over 10 min + 5')
    """
    least = f"MIN({_amount(schema)})" if _amount(schema) else "COUNT(events)"
    return f"5 × {_sum(schema)} over 30 d ÷ 30", f"{least} over 10 min + 5"


def example_when(schema: Schema) -> str:
    """Conditions on one event, separated by commas.

    >>> from lab.model.schema import LOGINS, PAYMENTS
    >>> example_when(LOGINS)
    'amount > 500, country in (KR, CN), country startsWith K, country is null'
    >>> example_when(PAYMENTS)
    'paymentAmount > 500, paymentType in (CSH, CRD), paymentType startsWith C, paymentType is null'
    """
    parts = [f"{_amount(schema)} > 500"] if _amount(schema) else []
    texts = [each for each in _others(schema) if each.type == "string"]
    if text := next((each for each in reversed(texts) if each.examples[1:]), next(iter(texts), None)):
        values = text.examples[:2] or ("A", "B")
        parts.append(f"{text.name} in ({', '.join(map(quote_if_needed, values))})")
        parts += [f"{text.name} startsWith {quote_if_needed(values[0][:1])}", f"{text.name} is null"]
    return ", ".join(parts) or example_conditions(schema)


def example_conditions(schema: Schema) -> str:
    """Conditions that fit a schema, to show how they are written.

    >>> from lab.model.schema import LOGINS
    >>> example_conditions(LOGINS)
    'action = login and country in (KR, CN)'
    """
    roles = (*schema.id_fields, schema.time_field)
    texts = [field for field in schema.fields if field.name not in roles and not field.is_number_or_time]
    known = [field for field in texts if field.examples]
    parts = [f"{field.name} = {quote_if_needed(field.examples[0])}" for field in known[:1]]
    parts += [
        f"{f.name} in ({', '.join(map(quote_if_needed, f.examples[:2]))})"
        for f in known[1:]
        if f.examples[1:]
    ]
    if not parts:
        field = next(iter(texts), schema.field(schema.id_fields[0]))
        value = (
            7
            if field.is_number_or_time
            else "true"
            if field.type == "boolean"
            else quote_if_needed("some text")
        )
        parts = [f"{field.name} = {value}"]
    return " and ".join(parts[:2])


def _others(schema: Schema) -> list[Field]:
    """The fields that are neither the id nor the time."""
    return [each for each in schema.fields if each.name not in (schema.time_field, schema.id_fields[-1])]


def _amount(schema: Schema) -> str:
    """A number that can be summed, with decimal places if there is one; "" if there is none."""
    numbers = [each for each in _others(schema) if each.is_number_or_time and each.type != "time"]
    grouping = group_fields(schema)[:1]
    fitting = [each.name for each in numbers if each.scale] or [
        each.name for each in numbers if each.name not in grouping
    ]
    return fitting[0] if fitting else ""


def _sum(schema: Schema) -> str:
    return f"SUM({_amount(schema)})" if _amount(schema) else "COUNT(events)"
